"""Counts what happens in a run. Counts only go up."""

from collections import Counter
from typing import Any

from chaos.sim import group_messages as g
from chaos.sim.simulation import Simulation
from refimpl.messages import observations as o


def attach(simulation: Simulation) -> None:
    """Count a run's observations, by their names in the report."""
    counts = simulation.counts

    def named(kind: type, name: str) -> None:
        def count(who: int, seen: Any) -> None:
            counts[name] += 1

        simulation.watch(kind, count)

    for kind, name in (
        (o.SessionEnded, "sessions expired"),
        (o.SessionResumed, "sessions resumed"),
        (g.Joined, "Join"),
    ):
        named(kind, name)
    simulation.watch(o.BecameLeader, lambda _, seen: _became_leader(counts, seen))
    simulation.watch(o.IsrAltered, lambda _, seen: _isr_altered(counts, seen))
    simulation.watch(o.LogRestarted, lambda _, seen: _restarted(counts, seen))
    simulation.watch(o.Decided, lambda _, seen: _decided(counts, seen))
    simulation.watch(o.Refused, lambda _, seen: _refused(counts, seen))
    simulation.watch(o.Ignored, lambda _, seen: _ignored(counts, seen))


def _became_leader(counts: Counter[str], seen: o.BecameLeader) -> None:
    counts["BecomeLeader"] += 1
    if seen.led:
        counts["leaders that lead again"] += 1


def _isr_altered(counts: Counter[str], seen: o.IsrAltered) -> None:
    counts["ExpandIsr" if seen.joined else "ShrinkIsr"] += 1


def _restarted(counts: Counter[str], seen: o.LogRestarted) -> None:
    ahead = seen.start > seen.end
    counts[f"logs begun anew {'behind' if ahead else 'before'} their end"] += 1


def _decided(counts: Counter[str], seen: o.Decided) -> None:
    if seen.action == "ElectEligible":
        counts["elections from the ELR"] += 1
    elif seen.action in ("Elect", "Fence", "GoOffline"):
        counts[seen.action] += 1


def _refused(counts: Counter[str], seen: o.Refused) -> None:
    counts[f"{seen.what} refused: {seen.error}"] += 1


def _ignored(counts: Counter[str], seen: o.Ignored) -> None:
    counts[seen.what] += 1
