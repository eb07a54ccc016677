"""Anomalies in the calls of a fixture that keeps its promises, by name.

A module of this package that holds an anomaly writes it as a function that changes lines in place:

    @in_calls("L4", may="L3")
    def lost(fixture: Fixture, lines: Lines) -> None:
        ...

The first words are the checks that *must* call the trace violated, every time. `may` are the
companions that see it, too, in some fixtures, because it is their matter as well (a lost record is
missing at the end, and below what was read, if anything was read above it). Whatever else is
called violated is a false verdict.
`allowed` are checks that must find it and call it allowed: what they look at is no promise of
safety. `meta` changes the configuration under which it is one; raise `NotHere` when the fixture at
hand has no place for it. Every module of the package is found by its being there.

What an anomaly needs and the fixture does not have yet, `fixture.during` and `fixture.afterwards`
add (see there).
"""

import json
from collections.abc import Callable
from typing import Any

from attrs import frozen

from traces.generate.small.fixture import Fixture, Line

Lines = dict[str, list[Line]]
Inject = Callable[[Fixture, Lines], None]
Configure = Callable[[dict[str, Any]], None]


class NotHere(Exception):
    """This fixture has nothing that the anomaly could be about."""


@frozen
class InCalls:
    """An anomaly among the calls of a fixture, and who has to notice it."""

    inject: Inject
    must: frozenset[str]
    may: frozenset[str] = frozenset()
    allowed: frozenset[str] = frozenset()
    meta: Configure | None = None


IN_CALLS: dict[str, InCalls] = {}


def in_calls(
    must: str, *, may: str = "", allowed: str = "", meta: Configure | None = None
) -> Callable[[Inject], Inject]:
    """Register an anomaly under the name of its function."""

    def register(inject: Inject) -> Inject:
        name = inject.__name__
        assert name not in IN_CALLS, f"two anomalies are called {name}"
        breaks, companions, permitted = (frozenset(ids.split()) for ids in (must, may, allowed))
        IN_CALLS[name] = InCalls(inject, breaks, companions, permitted, meta)
        return inject

    return register


def injected(fixture: Fixture, anomaly: InCalls) -> tuple[Lines, dict[str, Any]]:
    """The trace with the anomaly in it, and the configuration under which it is one.

    The lines of each process are numbered anew, so that an anomaly may add, move and remove some.
    """
    # Through JSON, because a copy would keep the records that lines of one call share.
    lines, meta = json.loads(json.dumps([fixture.lines, fixture.meta]))
    anomaly.inject(fixture, lines)
    for mine in lines.values():
        for seq, line in enumerate(mine):
            line["seq"] = seq
        forth(mine)
    meta["processes"] = list(lines)
    if anomaly.meta is not None:
        anomaly.meta(meta)
    return lines, meta


def forth(mine: list[Line]) -> None:
    """No call of a process returns before an earlier one was made: that would refute its clock."""
    latest = 0
    for line in mine:
        latest = max(latest, line.get("invoked_ns", 0))
        if "returned_ns" in line:
            line["returned_ns"] = max(latest, line["returned_ns"])
