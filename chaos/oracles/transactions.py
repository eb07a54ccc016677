"""The promises of transactions, by what clients were told, what readers saw and what logs hold.

A transaction is decided once, and visible in all of its partitions or in none: records and offsets.
If its producer was told that it is committed, it is visible; if it was told that it is aborted,
never. Each input of the applications is in exactly one committed transaction. Nothing hangs once
everything is healed.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from attrs import define, evolve, field

from chaos.clients.application import Applications
from chaos.clients.committed_reader import CommittedReader
from chaos.clients.transactional_producer import TransactionalProducer
from chaos.oracles.partition import PartitionOracle
from chaos.oracles.transaction_log import TransactionLog
from chaos.oracles.violation import Violation
from chaos.sim import transaction_messages as t
from chaos.sim.addresses import APPLICATION, OFFSETS, STATE, TOPIC
from chaos.sim.hosts import BrokerHost
from chaos.sim.settings import DAY_MS
from chaos.sim.simulation import Simulation
from chaos.sim.transactional_records import entry_of, keyed_entries
from refimpl.coordinator.runtime import CoordinatorState as CoordinatorState
from refimpl.machines.transaction_coordinator import TransactionState
from refimpl.messages import observations as o
from refimpl.messages.broker import TopicPartition
from refimpl.records.coordinators import CoordinatorRecord, partition_for
from refimpl.records.transactional import InTransaction, TransactionEnd
from refimpl.transactions.store import TransactionStore

PRODUCERS, APPLICATIONS = "payments-", "app-"
"""The beginnings of transactional ids."""
AWAKE_MS = 300
"""The time for which producers go on after their rest."""


@define(eq=False)
class Known:
    """A transaction, as far as its client knows it."""

    began: t.TransactionBegan
    #: The number of decisions about its id when it began
    decisions: int
    written: dict[TopicPartition, set[int]] = field(
        factory=lambda: defaultdict[TopicPartition, set[int]](set)
    )
    offsets: bool = False
    asked: bool | None = None
    told: bool | None = None


@define(eq=False)
class TransactionsOracle:
    """Judges all transactions of a run."""

    simulation: Simulation
    brokers: Sequence[BrokerHost]
    partitions: Mapping[TopicPartition, PartitionOracle]
    outputs: Sequence[TopicPartition]
    producers: Sequence[TransactionalProducer]
    applications: Applications
    reader: CommittedReader
    counts: Counter[str]
    #: A partition's missing progress, in words
    missing_in: Callable[[PartitionOracle], str] = field(init=False)
    logs: dict[TopicPartition, TransactionLog] = field(init=False)
    known: dict[int, Known] = field(factory=dict[int, Known])
    #: The time at which producers go on after their rest, -1 before it
    wakes_at: int = -1
    read: dict[TopicPartition, list[int]] = field(
        factory=lambda: defaultdict[TopicPartition, list[int]](list)
    )
    #: The acts of clients and their times, for the story of a failed run
    diary: list[tuple[int, Any]] = field(factory=list[tuple[int, Any]])

    def attach(self) -> None:
        """Judge the coordinators' logs, and what clients see."""
        self.logs = {name: TransactionLog(self.partitions[name], self._count) for name in STATE}
        watch = self.simulation.watch
        watch(o.HighWatermarkAdvanced, self._advanced)
        watch(t.InstanceBegan, lambda who, seen: self._note(seen))
        watch(t.Initialised, lambda who, seen: self._note(seen))
        watch(t.InstanceFenced, self._fenced)
        watch(t.TransactionBegan, self._began)
        watch(t.WriteAcknowledged, self._written)
        watch(t.OffsetsAcknowledged, self._offsets)
        watch(t.EndAsked, self._asked)
        watch(t.EndTold, self._told)
        watch(t.CommittedRead, self._read)

    def _count(self, name: str) -> None:
        self.counts[name] += 1

    def _note(self, seen: Any) -> None:
        self.diary.append((self.simulation.timeline.now, seen))

    def transactional_id(self, seen: Any) -> str:
        """The transactional id that an observation of the diary is about."""
        if hasattr(seen, "transactional_id"):
            return seen.transactional_id
        return self.known[seen.number].began.transactional_id

    @property
    def excused(self) -> bool:
        """True after a permitted loss: whatever depends on the lost records is not judged."""
        return any(one.era or one.unsettled for one in self.partitions.values())

    # As it happens

    def _advanced(self, who: int, seen: o.HighWatermarkAdvanced) -> None:
        log = self.logs.get(seen.partition)
        if log is not None:
            log.keep_up()

    def _log_of(self, transactional_id: str) -> TransactionLog:
        return self.logs[STATE[partition_for(transactional_id, len(STATE))]]

    def _began(self, who: int, seen: t.TransactionBegan) -> None:
        decisions = self._log_of(seen.transactional_id).decisions.get(seen.transactional_id, ())
        self.known[seen.number] = Known(seen, len(decisions))
        self._note(seen)

    def _written(self, who: int, seen: t.WriteAcknowledged) -> None:
        self.known[seen.number].written[seen.partition].update(seen.values)
        self._note(seen)

    def _offsets(self, who: int, seen: t.OffsetsAcknowledged) -> None:
        self.known[seen.number].offsets = True
        self._note(seen)

    def _asked(self, who: int, seen: t.EndAsked) -> None:
        self.known[seen.number].asked = seen.committed
        self._note(seen)

    def _fenced(self, who: int, seen: t.InstanceFenced) -> None:
        self.counts[f"transactional instances fenced: {seen.error}"] += 1
        self._note(seen)

    def _told(self, who: int, seen: t.EndTold) -> None:
        """An outcome that a client is told was decided, and is committed by then."""
        known = self.known[seen.number]
        known.told = seen.committed
        self.counts[f"transactions told {'committed' if seen.committed else 'aborted'}"] += 1
        self._note(seen)
        began = known.began
        made = self._log_of(began.transactional_id).decisions.get(began.transactional_id, [])
        outcome = began.at.producer_id, seen.committed
        if outcome not in made[known.decisions :] and seen.committed and not self.excused:
            raise Violation(
                "ToldIsDecided", self._about(seen.number, "told committed, and that is not decided")
            )

    def _read(self, who: int, seen: t.CommittedRead) -> None:
        """A reader of committed records sees no value of a transaction that nobody committed."""
        self.read[seen.partition].append(seen.value)
        number = t.number_of(seen.value)
        if not self.known[number].asked and not self.excused:
            what = f"{seen.value} is read in {self._name(seen.partition)} at {seen.offset}"
            raise Violation("AbortedIsNotRead", self._about(number, what))

    # After the healing

    def stop(self) -> None:
        """Let producers begin no further transaction, but for those after their rest."""
        now = self.simulation.timeline.now
        awake = 0 <= self.wakes_at <= now <= self.wakes_at + AWAKE_MS
        for one in self.producers:
            one.stopped = not awake
            if awake:
                one.next_ms = min(one.next_ms, now)

    def rest(self) -> int:
        """The end of the silent producers' rest, which begins with the first call; -1 for none.

        Partitions have forgotten them by then, and they have gone on.
        """
        settings, now = self.simulation.settings, self.simulation.timeline.now
        if settings.producer_expiration_ms >= DAY_MS or self.unavailable() or self.excused:
            return -1
        if self.wakes_at < 0:
            self.wakes_at = now + settings.producer_expiration_ms + AWAKE_MS
        return self.wakes_at + AWAKE_MS

    def unavailable(self) -> bool:
        """True if a partition on which transactions depend has no leader, and may have none."""
        return any(one.unavailable() for one in self.partitions.values())

    def unfinished(self) -> str:
        """The first thing that does not go on yet, in words."""
        if self.unavailable() or self.excused:
            return ""
        return (
            self._waiting()
            or self._undecided(PRODUCERS)
            or self._unprocessed()
            or self._undecided(APPLICATIONS)
            or self._unreplicated()
            or self._unstable()
        )

    def progress(self) -> int:
        """A number that grows while the applications process something."""
        return sum(one.told is True for one in self.known.values())

    def _waiting(self) -> str:
        for producer in self.producers:
            if producer.busy:
                state = producer.manager.state
                return f"the producer of {producer.transactional_id} waits: {state}"
        return ""

    def leader_of(self, name: TopicPartition) -> BrokerHost | None:
        """The broker that leads a partition."""
        leader = self.partitions[name].state.leader
        return None if leader is None else self.brokers[leader - 1]

    def coordinators(self) -> Iterator[tuple[TopicPartition, Any]]:
        """The coordinator of each partition of transactional ids; None if its leader has none."""
        for name in STATE:
            host = self.leader_of(name)
            if host is not None:
                by_partition = host.node.transactions.coordinators.by_partition
                yield name, by_partition.get(name.partition)

    def _undecided(self, prefix: str) -> str:
        """Nothing is left in the middle: what nobody ends, time ends."""
        for name, coordinator in self.coordinators():
            if coordinator is None or coordinator.state is not CoordinatorState.ACTIVE:
                return f"the transaction coordinator of {self._name(name)} is not active"
            for transactional_id, metadata in coordinator.shard.store.ids.current.items():
                is_open = metadata.state is TransactionState.ONGOING or metadata.prepared
                if is_open and transactional_id.startswith(prefix):
                    return f"transactional id {transactional_id} is {metadata.state.shown}"
        return ""

    def _unprocessed(self) -> str:
        """The applications commit everything, and end their last transaction."""
        if not self.applications:
            return ""
        host = self.leader_of(OFFSETS)
        coordinators = {} if host is None else host.node.groups.coordinators.by_partition
        coordinator = coordinators.get(OFFSETS.partition)
        if coordinator is None:
            return "nobody coordinates the applications"
        for name, oracle in self._inputs():
            value = coordinator.shard.store.offsets.committed((APPLICATION, name))
            committed, end = 0 if value is None else value.offset, len(oracle.log.committed)
            if committed < end:
                return f"the applications have committed {committed} of {end} of {self._name(name)}"
        if any(one.manager.transaction is not None for one in self.applications):
            return "an application's transaction is under way"
        return ""

    def _unreplicated(self) -> str:
        for name in (*STATE, *self.outputs):
            if missing := self.missing_in(self.partitions[name]):
                return f"{self._name(name)}: {missing}"
        return ""

    def _unstable(self) -> str:
        """Readers of committed records get everything, up to the high watermark."""
        positions = {one.name: one.position for one in self.reader.readings}
        for name in (*self.outputs, OFFSETS):
            host = self.leader_of(name)
            if host is None:
                continue
            partition = host.node.partitions[name]
            end, stable = partition.replica.high_watermark, partition.last_stable_offset
            if stable < end:
                return f"the last stable offset of {self._name(name)} stays at {stable} of {end}"
            if (position := positions.get(name, end)) < end:
                return f"the reader of {self._name(name)} stays at {position} of {end}"
        return ""

    def _inputs(self) -> Iterator[tuple[TopicPartition, PartitionOracle]]:
        for name, oracle in self.partitions.items():
            if name.topic == TOPIC:
                yield name, oracle

    # The end

    def finish(self) -> None:
        """Judge every transaction by the logs as they are in the end."""
        if self.unavailable() or self.excused:
            self.counts["runs whose transactions are excused"] += 1
            return
        visible = {name: self._visible(name) for name in self.outputs}
        for name, values in visible.items():
            if len({*values}) < len(values):
                raise Violation("WrittenOnce", f"{self._name(name)}: a value is there twice")
            if self.read[name] != values:
                raise Violation(
                    "ReadIsCommitted",
                    f"{self._name(name)}: {len(self.read[name])} values were read, and not the "
                    f"{len(values)} of committed transactions in their order",
                )
        seen = {value for values in visible.values() for value in values}
        offsets = self._committed_offsets()
        for number, known in self.known.items():
            self._atomic(number, known, seen, offsets)
        self._once(seen)
        self._loads_as_it_lives()

    def _visible(self, name: TopicPartition) -> list[int]:
        """The values of committed transactions, by the definition: up to its marker a producer's
        values are pending."""
        pending: dict[int, list[tuple[int, int]]] = defaultdict(list)
        found: list[tuple[int, int]] = []
        for offset, record in enumerate(self.partitions[name].log.committed):
            entry = entry_of(record)
            if entry.committed is None:
                pending[entry.producer_id].append((offset, entry.value))
            else:
                ended = pending.pop(entry.producer_id, [])
                found += ended if entry.committed else []
        if pending:
            raise Violation("NothingHangs", f"{self._name(name)}: a transaction has no marker")
        return [value for _, value in sorted(found)]

    def _committed_offsets(self) -> set[tuple[int, TopicPartition]]:
        """The transactions that have committed an offset, each with its partition."""
        host = self.leader_of(OFFSETS)
        assert host is not None
        log = host.node.partitions[OFFSETS].log
        pending: dict[int, list[tuple[int, TopicPartition]]] = defaultdict(list)
        found: set[tuple[int, TopicPartition]] = set()
        end = self.partitions[OFFSETS].replicas[host.id].high_watermark
        for _, one in keyed_entries(log, end):
            if isinstance(one, InTransaction):
                key, value = one.record.key, one.record.value
                name = TopicPartition(key.topic, key.partition)
                pending[one.producer_id].append((int(value.metadata), name))
            elif isinstance(one, TransactionEnd):
                ended = pending.pop(one.producer_id, [])
                found.update(ended if one.committed else ())
        return found

    def _atomic(
        self,
        number: int,
        known: Known,
        seen: set[int],
        offsets: set[tuple[int, TopicPartition]],
    ) -> None:
        """All of a transaction is visible, or nothing, and as its client was told."""
        written = {value for values in known.written.values() for value in values}
        there = written & seen
        if there and there != written:
            what = f"{len(there)} of {len(written)} acknowledged values are visible"
            raise Violation("Atomic", self._about(number, what))
        if known.told and not there:
            raise Violation(
                "ToldIsVisible", self._about(number, "told committed, and nothing is visible")
            )
        if known.told is False and there:
            raise Violation("ToldIsVisible", self._about(number, "told aborted, and it is visible"))
        if there and not known.asked:
            raise Violation("AbortedIsNotRead", self._about(number, "nobody asked to commit it"))
        names = sorted({name for name, _, _ in known.began.inputs})
        moved = [name for name in names if (number, name) in offsets]
        if moved != (names if there else []):
            values = "visible" if there else "not visible"
            what = f"its values are {values}, and its offsets are committed in {moved} of {names}"
            raise Violation("Atomic", self._about(number, what))
        if there:
            self.counts["transactions visible"] += 1

    def _once(self, seen: set[int]) -> None:
        """Each input is in exactly one committed transaction of the applications."""
        if not self.applications:
            return
        times: Counter[tuple[TopicPartition, int]] = Counter()
        for known in self.known.values():
            for name, offset, value in known.began.inputs:
                times[name, offset] += value in seen
        for name, oracle in self._inputs():
            for offset in range(len(oracle.log.committed)):
                if times[name, offset] != 1:
                    what = (
                        f"{self._name(name)}: input {offset} is in {times[name, offset]} committed "
                    )
                    raise Violation("ProcessedOnce", f"{what}transactions")

    def _loads_as_it_lives(self) -> None:
        """A coordinator that loads the log has the state of the one that wrote it.

        Version 0 of the records has no place for a producer's epoch before.
        """
        for name, coordinator in self.coordinators():
            store, log = TransactionStore(), self._log(name)
            for _, one in keyed_entries(log, log.end, log.start):
                assert isinstance(one, CoordinatorRecord)
                store.replay(one, None)
            live = coordinator.shard.store
            if self._recorded(store) != self._recorded(live):
                raise Violation("LoadedAsLive", f"{self._name(name)}: the log says otherwise")

    def _recorded(self, store: TransactionStore) -> Mapping[str, Any]:
        has_last = self.simulation.settings.transaction_version >= 1
        ids = store.ids.current.items()
        return {name: one if has_last else evolve(one, last=None) for name, one in ids}

    def _log(self, name: TopicPartition) -> Any:
        host = self.leader_of(name)
        assert host is not None
        return host.node.partitions[name].log

    def _name(self, name: TopicPartition) -> str:
        return self.partitions[name].name

    def _about(self, number: int, what: str) -> str:
        words = f"transaction {number} of {self.known[number].began.transactional_id}: {what}"
        return words
