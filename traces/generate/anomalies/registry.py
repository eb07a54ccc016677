"""Anomalies by name, and which checks have to notice each, how often.

An anomaly is injected into one partition in one generation, and no other one there or in the
generation before, so that what the checks find is the sum of what the anomalies say. One of a
scenario needs no such distance: there a generation has nothing to do with the one before.
"""

from collections.abc import Callable
from typing import Any

from attrs import frozen

Inject = Callable[[Any], bool]  # of a slot, or of a slot in a scenario


@frozen
class InRows:
    """An anomaly: its injection, its place, and the checks that have to find it."""

    name: str
    inject: Inject
    counts: dict[str, int]
    stage: str
    scenario: str
    group: int | None
    first: int
    last: int | None
    once: bool
    rare: bool


IN_ROWS: dict[str, InRows] = {}


def in_rows(
    counts: str,
    *,
    stage: str = "sent",
    scenario: str = "",
    group: int | None = None,
    first: int = 0,
    last: int | None = None,
    once: bool = False,
    rare: bool = False,
) -> Callable[[Inject], Inject]:
    """Register an anomaly: `counts` names the checks that find it, each once per mention.

    A `rare` one needs something that not every partition has, and chooses before the others. One
    with a `scenario` changes the rows that are made there, as they are.
    """

    def register(inject: Inject) -> Inject:
        words = counts.split()
        found = {word: words.count(word) for word in words}
        name = inject.__name__
        assert name not in IN_ROWS, f"two anomalies are called {name}"
        IN_ROWS[name] = InRows(name, inject, found, stage, scenario, group, first, last, once, rare)
        return inject

    return register
