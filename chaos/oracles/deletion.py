"""The promises of DeleteRecords (KIP-107): no more goes than requested, and it stays deleted."""

from collections.abc import Mapping
from typing import Any

from attrs import define, field

from chaos.clients.purger import Purger
from chaos.oracles.partition import PartitionOracle
from chaos.oracles.violation import Violation
from chaos.sim.simulation import Simulation
from refimpl.coordinator.observations import LogPruned
from refimpl.messages import observations as o
from refimpl.messages.broker import TopicPartition


@define(eq=False)
class DeletionOracle:
    """Judges log start offsets after each action of a replica.

    `starts` has each log's last known start offset.

    After an unclean election deleted records may be back, so a truncated log may start earlier. New
    records below the requested deletion offset may also be gone. A follower with no records left
    has no epoch to compare with the leader's log, and it does not copy records below its own end.
    A coordinator deletes in its own log (`pruned`); `ShareStateLog` judges whether it may.
    """

    partitions: Mapping[TopicPartition, PartitionOracle]
    purger: Purger
    starts: dict[tuple[TopicPartition, int], int] = field(
        factory=dict[tuple[TopicPartition, int], int]
    )
    pruned: dict[TopicPartition, int] = field(factory=dict[TopicPartition, int])

    def attach(self, simulation: Simulation) -> None:
        """Observe every replica that reads, writes, follows or becomes leader."""
        for kind in (o.Written, o.AnswerTaken, o.BecameLeader, o.BecameFollower, o.FetchHeard):
            simulation.watch(kind, self._look)
        simulation.watch(o.LogRestarted, self._look)
        simulation.watch(o.RecordsRead, self._read)
        simulation.watch(o.Deleted, self._gone)
        simulation.watch(LogPruned, self._pruned)

    def _pruned(self, who: int, seen: LogPruned) -> None:
        self.pruned[seen.partition] = max(seen.start, self.pruned.get(seen.partition, 0))

    def _look(self, who: int, seen: Any) -> None:
        name: TopicPartition = seen.partition
        oracle = self.partitions.get(name)
        if oracle is None:  # of a topic without deletions
            return
        start = oracle.replicas[who].log.start
        before, self.starts[name, who] = self.starts.get((name, who), 0), start
        since_loss = oracle.era > 0
        if start < before and not (since_loss and _cuts(seen)):
            raise Violation(
                "LogStartMonotone", f"{oracle.name}: {who} from {before} back to {start}"
            )
        asked = self.pruned.get(name, self.purger.asked.get(name, 0))
        committed = len(oracle.log.committed)
        if start > (asked if since_loss else min(asked, committed)):
            raise Violation(
                "OnlyAskedIsDeleted",
                f"{oracle.name}: the log of {who} starts at {start}; up to {asked} was to be "
                f"deleted, {committed} are committed",
            )

    def _read(self, who: int, seen: o.RecordsRead) -> None:
        start = self.starts.get((seen.partition, who), 0)
        if seen.offset < start:
            name = self.partitions[seen.partition].name
            raise Violation(
                "DeletedIsNotRead",
                f"{name}: {who} serves {seen.offset}, and its log starts at {start}",
            )

    def _gone(self, who: int, seen: o.Deleted) -> None:
        """The replica was deleted; a later one starts a new log."""
        self.starts.pop((seen.partition, who), None)

    def finish(self) -> None:
        """Everything is healed: a record deleted at all replicas is at none."""
        for name, low_watermark in self.purger.deleted.items():
            oracle = self.partitions[name]
            if oracle.unavailable() or oracle.era:
                continue
            for replica in oracle.replicas.values():
                if replica.log.start < low_watermark:
                    raise Violation(
                        "DeletedStaysDeleted",
                        f"{oracle.name}: the log of {replica.id} starts at {replica.log.start}, "
                        f"and all before {low_watermark} was deleted",
                    )


def _cuts(seen: Any) -> bool:
    """True if a follower has truncated its log, or restarted it at an offset."""
    return isinstance(seen, o.LogRestarted) or (isinstance(seen, o.AnswerTaken) and seen.truncated)
