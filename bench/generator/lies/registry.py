"""Lies by name, and which checks have to notice each, how often.

A lie is told about one partition in one generation, and no other lie is told there or in the
generation before, so that what the checks find is the sum of what the lies say. One about a scene
needs nobody's silence: there a generation has nothing to do with the one before.
"""

from collections.abc import Callable
from typing import Any

from attrs import frozen

Tell = Callable[[Any], bool]  # of a slot, or of a spot in a scene


@frozen
class Lie:
    """How a lie is told, where it may be told, and who has to notice it."""

    name: str
    tell: Tell
    counts: dict[str, int]
    stage: str
    scene: str
    group: int | None
    first: int
    last: int | None
    once: bool
    rare: bool


LIES: dict[str, Lie] = {}


def lie(
    counts: str,
    *,
    stage: str = "sent",
    scene: str = "",
    group: int | None = None,
    first: int = 0,
    last: int | None = None,
    once: bool = False,
    rare: bool = False,
) -> Callable[[Tell], Tell]:
    """Register a lie: `counts` names the checks that find it, each once per mention.

    A `rare` one needs something that not every partition has, and chooses before the others. One
    with a `scene` changes the rows that are made there, as they are.
    """

    def register(tell: Tell) -> Tell:
        words = counts.split()
        found = {word: words.count(word) for word in words}
        name = tell.__name__
        assert name not in LIES, f"two lies are called {name}"
        LIES[name] = Lie(name, tell, found, stage, scene, group, first, last, once, rare)
        return tell

    return register
