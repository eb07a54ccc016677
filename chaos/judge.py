"""After the faults: everything is healed, and the cluster has to get well within a bound."""

from collections.abc import Iterable, Sequence

from attrs import define

from chaos import messages as m
from chaos.broker import Broker
from chaos.consumer import Consumer
from chaos.messages import Message
from chaos.nemesis import Nemesis
from chaos.partition_oracle import PartitionOracle
from chaos.producer import Producer
from chaos.violation import Violation
from chaos.world import World
from refimpl.machines.group import Coordinator
from refimpl.machines.log import Record

# Clients go on for a while in the healed cluster, so that progress is more than what was left over.
AFTER_MS = 300
EVERY_MS = 40


@define(eq=False)
class Judge:
    """Demands progress, then reads everything once more."""

    world: World
    nemesis: Nemesis
    brokers: Sequence[Broker]
    producers: Sequence[Producer]
    consumers: Sequence[Consumer]
    groups: Sequence[Coordinator]
    paused_until: int = 0
    healed_at: int = -1
    done: bool = False

    def start(self) -> None:
        """Come back when the faults are over."""
        self.world.timeline.at(self.world.swarm.fault_ms, m.JUDGE, (m.TICK,))

    def handle(self, message: Message) -> None:
        """Heal at first; later look whether all is well."""
        timeline = self.world.timeline
        if self.healed_at < 0:
            self.healed_at = timeline.now
            self.nemesis.heal()
        elif timeline.now >= self.healed_at + AFTER_MS:
            for producer in self.producers:
                producer.stopped = True
            missing = self._missing()
            if not missing:
                self._scan()
                return
            if timeline.now > self.healed_at + self.world.swarm.calm_ms:
                raise Violation("Progress", missing)
        timeline.at(timeline.now + EVERY_MS, m.JUDGE, message)

    def _missing(self) -> str:
        """What is not well yet, in words; empty when all is."""
        for producer in self.producers:
            if producer.sending:
                return f"producer {producer.number} waits for {len(producer.sending)} answers"
        for oracle, group in zip(self.world.partitions, self.groups, strict=True):
            if oracle.unavailable():
                continue
            missing = self._missing_in(oracle) or self._not_committed(oracle, group)
            if missing:
                return f"{oracle.name}: {missing}"
        return ""

    def _missing_in(self, oracle: PartitionOracle) -> str:
        state = oracle.state
        if state.leader is None:
            return "nobody leads"
        leader = oracle.replicas[state.leader]
        if not leader.leads or leader.epoch != state.epoch:
            return f"leader {state.leader} does not know that it leads in epoch {state.epoch}"
        if len(state.isr) < len(m.BROKERS):
            return f"only {sorted(state.isr)} are in sync"
        if leader.high_watermark < leader.log.end:
            return f"the high watermark stays at {leader.high_watermark} of {leader.log.end}"
        for follower in oracle.replicas.values():
            if follower.log.end != leader.log.end:
                return f"replica {follower.id} ends at {follower.log.end} of {leader.log.end}"
        return ""

    def _not_committed(self, oracle: PartitionOracle, group: Coordinator) -> str:
        end = len(oracle.log.committed)
        if group.committed < end:
            return f"the group has committed {group.committed} of {end}"
        if self.world.swarm.commit_when == "after" and not oracle.era:
            processed = self.world.groups[self.world.partitions.index(oracle)].processed
            if len(processed) < end or not all(processed):
                raise Violation("AtLeastOnce", f"{oracle.name}: some records were never processed")
        return ""

    # The final reading

    def _scan(self) -> None:
        """Read all partitions from the start, and look for everything that was acknowledged."""
        self.done = True
        found: dict[int, list[Record]] = {}
        for partition, oracle in enumerate(self.world.partitions):
            state = oracle.state
            if state.leader is not None:
                leader = oracle.replicas[state.leader]
                found[partition] = list(leader.log.records[: leader.high_watermark])
                oracle.read(leader, 0, found[partition])
        for producer in self.producers:
            self._find(producer, found)
        if self.world.swarm.idempotence:
            self._no_duplicates(found)
        self._write_down(found)

    def _find(self, producer: Producer, found: dict[int, list[Record]]) -> None:
        for value, (partition, offset) in producer.acked.items():
            if partition not in found:
                continue
            records = found[partition]
            if offset < len(records) and records[offset].value == value:
                continue
            oracle = self.world.partitions[partition]
            if not oracle.log.loss_allowed or not oracle.era:
                raise Violation("AckedSurvives", f"{oracle.name}: {value} at {offset} is gone")
            self.world.counts["acknowledged records lost, as allowed"] += 1

    def _no_duplicates(self, found: dict[int, list[Record]]) -> None:
        for partition, records in found.items():
            values = [record.value for record in records]
            if len(set(values)) < len(values):
                name = self.world.partitions[partition].name
                raise Violation("NoDuplicates", f"{name}: an idempotent record is there twice")

    def _names(self, partitions: Iterable[int]) -> list[str]:
        return [self.world.partitions[partition].name for partition in partitions]

    def _write_down(self, found: dict[int, list[Record]]) -> None:
        for consumer in self.consumers:
            consumer.close()
        history = self.world.history
        if history is None:
            return
        for producer in self.producers:
            history.note(producer.process, "close")
        history.note("scan#0", "assign", partitions=self._names(found))
        for partition, records in found.items():
            scanned = [
                {
                    "topic": "orders",
                    "partition": partition,
                    "offset": offset,
                    "id": record.value,
                    "epoch": record.epoch,
                }
                for offset, record in enumerate(records)
            ]
            history.note("scan#0", "scan", records=scanned, partitions=self._names((partition,)))
        history.note("scan#0", "close")
