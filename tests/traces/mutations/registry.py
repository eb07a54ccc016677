"""One lie each, told in the trace of a world that keeps its promises.

A module of this package that holds a lie writes it as a function that changes the lines in place:

    @mutation("L4", may="L3")
    def lose(world: World, lines: Lines) -> None:
        ...

The first words are the checks that *must* call the trace violated, every time. `may` are the
companions that see it, too, in some worlds, because it is their matter as well (a lost record is
missing at the end, and below what was read, if anything was read above it). Whatever else is
called violated fails the test, and so does a registered check without a lie of its own. `tells`
are checks that must find it and call it allowed: what they look at is no promise of safety. `meta`
changes the configuration under which it is one; raise `NotHere` when the world at hand has nothing
to tell the lie about. Every module of the package is found by its being there.

What a lie needs in the world and the world does not have yet, `world.during` and
`world.afterwards` add (see there).
"""

import json
from collections.abc import Callable
from typing import Any

from attrs import frozen

from tests.traces.world import Line, World

Lines = dict[str, list[Line]]
Tell = Callable[[World, Lines], None]
Configure = Callable[[dict[str, Any]], None]


class NotHere(Exception):
    """This world has nothing that the lie could be told about."""


@frozen
class Mutation:
    """A lie and who has to notice it."""

    tell: Tell
    must: frozenset[str]
    may: frozenset[str] = frozenset()
    tells: frozenset[str] = frozenset()
    meta: Configure | None = None


MUTATIONS: dict[str, Mutation] = {}


def mutation(
    must: str, *, may: str = "", tells: str = "", meta: Configure | None = None
) -> Callable[[Tell], Tell]:
    """Register a lie under the name of its function."""

    def register(tell: Tell) -> Tell:
        name = tell.__name__
        assert name not in MUTATIONS, f"two lies are called {name}"
        breaks, companions, allowed = (frozenset(ids.split()) for ids in (must, may, tells))
        MUTATIONS[name] = Mutation(tell, breaks, companions, allowed, meta)
        return tell

    return register


def told(world: World, mutation: Mutation) -> tuple[Lines, dict[str, Any]]:
    """The trace with the lie in it, and the configuration under which it is one."""
    # Through JSON, because a copy would keep the records that lines of one call share.
    lines, meta = json.loads(json.dumps([world.lines, world.meta]))
    mutation.tell(world, lines)
    for mine in lines.values():
        forth(mine)
    meta["processes"] = list(lines)
    if mutation.meta is not None:
        mutation.meta(meta)
    return lines, meta


def forth(mine: list[Line]) -> None:
    """No call of a process returns before an earlier one was made: that would refute its clock."""
    latest = 0
    for line in mine:
        latest = max(latest, line.get("invoked_ns", 0))
        if "returned_ns" in line:
            line["returned_ns"] = max(latest, line["returned_ns"])
