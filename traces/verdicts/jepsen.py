"""Anomalies of a Jepsen history, by the class names its users know.

A class that no check could decide is said to be undecided, never absent.
"""

from collections.abc import Iterable, Mapping

from traces.checks.catalogue import CHECKS
from traces.model.cycles import Reads
from traces.verdicts.verdict import NOT_CHECKED, Tally, Verdict

_CYCLE, _IN_TIME = "G1c", "G1c-realtime"


def add_cycles(tallies: dict[str, Tally], jepsen: bool) -> None:
    """Turn the edges that the kernels left into a finding, if they close a cycle.

    Only a history's operations are single calls whose times are those of the whole unit, so only
    there real time may be an edge.
    """
    tally = tallies.get("T6")
    if tally is None:
        return
    reads = Reads()
    for edge in sorted(tally.facts, key=_order):
        reads.add(edge)
    future = tallies.get("L10", Tally()).total
    if witness := reads.cycle():
        tally.found, tally.kinds = {0: 1}, {_CYCLE: 1}
    elif jepsen and not future and (witness := reads.cycle_in_time()):
        tally.found, tally.kinds = {0: 1}, {_IN_TIME: 1}
    if witness:
        tally.witnesses = [(0, witness)]


def _order(edge: list[Mapping[str, int]]) -> list[tuple[int, ...]]:
    """An order of edges that nothing but the trace decides."""
    return [(e["process"], e["seq"], e["topic"], e["partition"], e["offset"]) for e in edge]


def anomalies(verdicts: Iterable[Verdict]) -> tuple[list[str], list[str]]:
    """Classes that were found, and classes that could not be decided."""
    found: set[str] = set()
    undecided: set[str] = set()
    kinds = {id: check.kinds for id, check in CHECKS.items()}
    for verdict in verdicts:
        mine = kinds.get(verdict.check, ())
        found |= {kind for kind in verdict.kinds if kind}
        if verdict.verdict == NOT_CHECKED:
            undecided |= set(mine)
    if _CYCLE in found:  # a read of the future is then part of the same knot
        found.discard(_IN_TIME)
    return sorted(found), sorted(undecided - found)
