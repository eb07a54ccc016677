"""After the faults: everything is healed, and the cluster has to get well within a bound."""

from collections.abc import Iterable, Sequence
from typing import Any

from attrs import define, field

from chaos.clients.group_member import SimulatedMember
from chaos.clients.member_process import payload
from chaos.clients.producer import STRIDE, SimulatedProducer
from chaos.faults.nemesis import Nemesis
from chaos.oracles.availability import AvailabilityOracle
from chaos.oracles.control_plane import ControlPlaneOracle
from chaos.oracles.coordinated_group import CoordinatedGroup
from chaos.oracles.deletion import DeletionOracle
from chaos.oracles.group import GroupPartition
from chaos.oracles.operations import OperationsOracle
from chaos.oracles.partition import PartitionOracle
from chaos.oracles.share_group import ShareGroupOracle
from chaos.oracles.transactions import TransactionsOracle
from chaos.oracles.violation import Violation
from chaos.sim.addresses import PROGRESS, TICK, TOPIC
from chaos.sim.simulation import Simulation
from refimpl.machines.log import Record
from refimpl.machines.replica import Replica

# Clients go on for a while in the healed cluster, so that progress is more than what was left over.
AFTER_MS = 300
EVERY_MS = 40
EVERYTHING = 1 << 20


@define(eq=False)
class ProgressOracle:
    """Demands progress, then reads everything once more."""

    simulation: Simulation
    nemesis: Nemesis
    partitions: Sequence[PartitionOracle]
    group: CoordinatedGroup
    producers: Sequence[SimulatedProducer]
    consumers: Sequence[SimulatedMember]
    control_plane: ControlPlaneOracle | None = None
    operations: OperationsOracle | None = None
    deletion: DeletionOracle | None = None
    availability: AvailabilityOracle | None = None
    transactions: TransactionsOracle | None = None
    shares: ShareGroupOracle | None = None
    paused_until: int = 0
    healed_at: int = -1
    #: The group's progress in all partitions together, and the time of the last one
    furthest: int = -1
    further_at: int = 0
    done: bool = False
    #: The log start offset of each partition at the end
    starts: dict[int, int] = field(factory=dict[int, int])

    def start(self) -> None:
        """Come back when the faults are over; or soon, where progress is demanded before that."""
        if self.transactions is not None:
            self.transactions.missing_in = self._missing_in
        if self.shares is not None:
            self.shares.missing_in = self._missing_in
        at_ms = self.simulation.settings.fault_ms if self.availability is None else EVERY_MS
        self.simulation.timeline.at(at_ms, PROGRESS, TICK)

    def handle(self, message: Any) -> None:
        """Heal at first; later look whether all is well."""
        timeline = self.simulation.timeline
        if self.availability is not None and timeline.now < self.simulation.settings.fault_ms:
            self.availability.look()
        elif self.healed_at < 0:
            self.healed_at = timeline.now
            self.nemesis.heal()
            self.group.healed()
        elif timeline.now >= self.healed_at + AFTER_MS:
            self.nemesis.move_back()
            for producer in self.producers:
                producer.stopped = True
            if self.transactions is not None:
                self.transactions.stop()
            if self.shares is not None:
                self.shares.stop()
            missing, since = self._missing(), max(self.healed_at, self._rested_until())
            further_at = self._came_further()
            if not missing:
                missing, since = self._not_done(), further_at
            rests = not missing and timeline.now <= self._rest()
            if not missing and not rests:
                self._scan()
                return
            if rests:
                since = timeline.now
            if timeline.now > since + self.simulation.settings.calm_ms:
                raise Violation("Progress", missing)
        timeline.at(timeline.now + EVERY_MS, PROGRESS, TICK)

    def _missing(self) -> str:
        """The part of the cluster that is not well yet, in words; empty if there is none."""
        for producer in self.producers:
            if producer.sending:
                return f"producer {producer.number} waits for {len(producer.sending)} answers"
        for oracle in self.partitions:
            if not oracle.unavailable() and (missing := self._missing_in(oracle)):
                return f"{oracle.name}: {missing}"
        return self._unknown() or self._undecided()

    def _rest(self) -> int:
        """The end of the rest of transactional producers, which begins now; -1 for none."""
        return -1 if self.transactions is None else self.transactions.rest()

    def _rested_until(self) -> int:
        """The end of the producers' rest, if they have one."""
        return -1 if self.transactions is None else self.transactions.wakes_at

    def _unfinished(self) -> str:
        """The transactions that hang, and what a share group is not given, if the run has any."""
        hanging = "" if self.transactions is None else self.transactions.unfinished()
        return hanging or ("" if self.shares is None else self.shares.unfinished())

    def _unknown(self) -> str:
        """The added partitions that are lost, or that no broker has."""
        there, told = self.nemesis.controller.partitions_of(TOPIC), self.nemesis.partitions
        if there < told:
            return f"{TOPIC} has {there} partitions, and somebody was told that it has {told}"
        known = len(self.partitions)
        return f"no broker knows that {TOPIC} has {there} partitions" if there > known else ""

    def _not_done(self) -> str:
        """The group's missing commits, if its log is available; that log must be well, too."""
        offsets = self.group.offsets
        if offsets.unavailable():
            return ""
        for oracle, group in zip(self.partitions, self.group.partitions, strict=True):
            if not oracle.unavailable() and (missing := self._not_committed(oracle, group)):
                return f"{oracle.name}: {missing}"
        if unfinished := self._unfinished():
            return unfinished
        if missing := self._missing_in(offsets):
            return f"the group's log: {missing}"
        return self._idle()

    def _idle(self) -> str:
        """The member that has nothing to read, where there are partitions enough for all.

        Assignors hand out one topic evenly, however its readers have named it.
        """
        members = [one.member for one in self.consumers if not one.owned]
        enough = len(self.partitions) >= len(self.consumers)
        if members and enough and self.simulation.settings.several_subscriptions:
            return f"member {members[0]} has no partition"
        return ""

    def _came_further(self) -> int:
        """The time of the last progress of the group, or of the applications.

        A group that commits record by record may have much to do when all is well again.
        """
        reached = sum(group.reached for group in self.group.partitions)
        if self.transactions is not None:
            reached += self.transactions.progress()
        if self.shares is not None:
            reached += self.shares.progress()
        if reached > self.furthest:
            self.furthest, self.further_at = reached, self.simulation.timeline.now
        return self.further_at

    def _undecided(self) -> str:
        """The controllers' unfinished work, if a store elects them."""
        control_plane, operations = self.control_plane, self.operations
        if control_plane is None or operations is None:
            return ""
        return control_plane.unfinished() or operations.unfinished()

    def _missing_in(self, oracle: PartitionOracle) -> str:
        state = oracle.state
        if state.leader is None:
            return "nobody leads"
        leader = oracle.replicas[state.leader]
        if not leader.leads or leader.epoch != state.leader_epoch:
            return (
                f"leader {state.leader} does not know that it leads in epoch {state.leader_epoch}"
            )
        if len(state.isr) < len(oracle.replicas):
            return f"only {sorted(state.isr)} are in sync"
        if leader.high_watermark < leader.log.end:
            return f"the high watermark stays at {leader.high_watermark} of {leader.log.end}"
        for follower in oracle.replicas.values():
            if follower.log.end != leader.log.end:
                return f"replica {follower.id} ends at {follower.log.end} of {leader.log.end}"
        return ""

    def _not_committed(self, oracle: PartitionOracle, judged: GroupPartition) -> str:
        end, committed = len(oracle.log.committed), judged.reached
        if committed < end:
            return f"the group has committed {committed} of {end}"
        if self.simulation.settings.commit_when == "after" and not oracle.era:
            processed = judged.processed
            if len(processed) < end or not all(processed):
                raise Violation("AtLeastOnce", f"{oracle.name}: some records were never processed")
        return ""

    # The final reading

    def _scan(self) -> None:
        """Read all partitions from the start, and look for everything that was acknowledged."""
        self.done = True
        found: dict[int, list[Record]] = {}
        for partition, oracle in enumerate(self.partitions):
            state = oracle.state
            if state.leader is not None:
                leader = oracle.replicas[state.leader]
                found[partition] = _read(leader)
                self.starts[partition] = leader.log.start
                oracle.read(leader, leader.log.start, found[partition])
        if self.deletion is not None:
            self.deletion.finish()
        if self.transactions is not None:
            self.transactions.finish()
        if self.shares is not None:
            self.shares.finish()
        for producer in self.producers:
            self._find(producer, found)
        settings = self.simulation.settings
        if settings.idempotence:
            self._no_duplicates(found)
        if settings.idempotence and settings.reference_clients:
            self._in_order(found)
        self._write_down(found)

    def _find(self, producer: SimulatedProducer, found: dict[int, list[Record]]) -> None:
        for value, (name, offset) in producer.acked.items():
            partition = name.partition
            if partition not in found:
                continue
            records, place = found[partition], offset - self.starts[partition]
            if place < 0 or (place < len(records) and payload(records[place]) == value):
                continue
            oracle = self.partitions[partition]
            if not oracle.log.loss_allowed or not oracle.era:
                raise Violation("AckedSurvives", f"{oracle.name}: {value} at {offset} is gone")
            self.simulation.counts["acknowledged records lost, as allowed"] += 1

    def _no_duplicates(self, found: dict[int, list[Record]]) -> None:
        """But for a leader that may have lost all it knew of a producer (`Producer/bug_lost_all`),
        where that has more than one batch in flight.
        """
        for partition, records in found.items():
            if self._may_forget(partition):
                continue
            values = [payload(record) for record in records]
            if len(set(values)) < len(values):
                name = self.partitions[partition].name
                raise Violation("NoDuplicates", f"{name}: an idempotent record is there twice")

    def _in_order(self, found: dict[int, list[Record]]) -> None:
        """With five requests in flight, too."""
        for partition, records in found.items():
            last: dict[int, int] = {}
            for record in () if self._may_forget(partition) else records:
                value = payload(record)
                before = last.get(value // STRIDE, -1)
                if value < before:
                    name = self.partitions[partition].name
                    raise Violation("InOrder", f"{name}: {value} is behind {before}")
                last[value // STRIDE] = value

    def _may_forget(self, partition: int) -> bool:
        """True if our producers, with several batches in flight, met a leader that knew fewer.

        It has lost records. Or a clock that leapt by a day had producers expire, and a snapshot was
        written without them (seed 40).
        """
        settings = self.simulation.settings
        forgets = self.partitions[partition].log.loss_allowed or (
            settings.files and settings.clocks
        )
        return settings.reference_clients and forgets

    def _names(self, partitions: Iterable[int]) -> list[str]:
        return [self.partitions[partition].name for partition in partitions]

    def _write_down(self, found: dict[int, list[Record]]) -> None:
        for consumer in (*self.consumers, *(() if self.shares is None else self.shares.members)):
            consumer.close()
        history = self.simulation.history
        if history is None:
            return
        for process in history.open_processes():
            history.note(process, "close")
        starts = {name: self.starts[p] for p, name in zip(found, self._names(found), strict=True)}
        history.note("scan#0", "list_offsets", query="earliest", offsets=starts)
        history.note("scan#0", "assign", partitions=list(starts), offsets=starts)
        for partition, records in found.items():
            scanned = [
                {
                    "topic": TOPIC,
                    "partition": partition,
                    "offset": offset,
                    "id": payload(record),
                    "epoch": record.epoch,
                }
                for offset, record in enumerate(records, self.starts[partition])
            ]
            history.note("scan#0", "scan", records=scanned, partitions=self._names((partition,)))
        history.note("scan#0", "close")


def _read(leader: Replica) -> list[Record]:
    """Everything that is committed, as its log has it now."""
    records: list[Record] = []
    start = leader.log.start
    while (end := start + len(records)) < leader.high_watermark:
        records += leader.log.slice(end, EVERYTHING, leader.high_watermark)
    return records
