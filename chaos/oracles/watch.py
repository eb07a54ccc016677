"""Puts the oracles beside a run: which of them judges which observation."""

from collections.abc import Mapping

from attrs import define

from chaos.oracles.partition import PartitionOracle
from chaos.sim.simulation import Simulation
from refimpl.machines.replica import Replica
from refimpl.messages import observations as o
from refimpl.messages.broker import TopicPartition


@define(eq=False)
class ReplicationOracles:
    """The oracles of all partitions."""

    oracles: Mapping[TopicPartition, PartitionOracle]

    def attach(self, simulation: Simulation) -> None:
        """Judge what nodes say of their steps."""
        for kind, watcher in (
            (o.Written, self._written),
            (o.HighWatermarkAdvanced, self._advanced),
            (o.FetchHeard, self._heard),
            (o.AnswerTaken, self._taken),
            (o.LogRestarted, self._restarted),
            (o.BecameLeader, self._became_leader),
            (o.BecameFollower, self._became_follower),
            (o.IsrAltered, self._isr_altered),
            (o.Acknowledged, self._acknowledged),
            (o.RecordsRead, self._read),
            (o.Registered, self._registered),
            (o.Decided, self._decided),
        ):
            simulation.watch(kind, watcher)

    def _of(self, who: int, partition: TopicPartition) -> tuple[PartitionOracle, Replica]:
        oracle = self.oracles[partition]
        return oracle, oracle.replicas[who]

    def _written(self, who: int, seen: o.Written) -> None:
        oracle, replica = self._of(who, seen.partition)
        oracle.wrote(replica, seen.offset, seen.end)
        oracle.eager(replica)

    def _advanced(self, who: int, seen: o.HighWatermarkAdvanced) -> None:
        oracle, replica = self._of(who, seen.partition)
        oracle.moved(replica, seen.old)

    def _heard(self, who: int, seen: o.FetchHeard) -> None:
        partition, request, diverging, known = seen
        if not diverging:
            oracle = self.oracles[partition]
            replica = oracle.replicas[who]
            oracle.heard(replica, request, known)
            oracle.eager(replica)

    def _taken(self, who: int, seen: o.AnswerTaken) -> None:
        oracle, replica = self._of(who, seen.partition)
        if seen.truncated:
            oracle.cut(replica, seen.end)
        elif replica.log.end != seen.end:
            oracle.copied(replica, seen.end)
        if replica.high_watermark != seen.high_watermark:
            oracle.moved(replica, seen.high_watermark)

    def _restarted(self, who: int, seen: o.LogRestarted) -> None:
        oracle, replica = self._of(who, seen.partition)
        oracle.cut(replica, seen.end)

    def _became_leader(self, who: int, seen: o.BecameLeader) -> None:
        oracle, replica = self._of(who, seen.partition)
        oracle.became_leader(replica)
        oracle.moved(replica, seen.high_watermark)
        oracle.eager(replica)

    def _became_follower(self, who: int, seen: o.BecameFollower) -> None:
        oracle, replica = self._of(who, seen.partition)
        oracle.cut(replica, seen.end)

    def _isr_altered(self, who: int, seen: o.IsrAltered) -> None:
        oracle, replica = self._of(who, seen.partition)
        oracle.eager(replica)

    def _acknowledged(self, who: int, seen: o.Acknowledged) -> None:
        if seen.acks == -1:
            oracle, replica = self._of(who, seen.partition)
            oracle.acked(replica, seen.offset, seen.batch)

    def _read(self, who: int, seen: o.RecordsRead) -> None:
        oracle, replica = self._of(who, seen.partition)
        oracle.read(replica, seen.offset, seen.records)

    def _registered(self, who: int, seen: o.Registered) -> None:
        for oracle in self.oracles.values():
            replica = oracle.replicas.get(seen.broker)
            if replica is not None:
                oracle.registered(replica)

    def _decided(self, who: int, seen: o.Decided) -> None:
        self.oracles[seen.partition].decided(seen)
