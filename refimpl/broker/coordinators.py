"""The coordinators of one broker on one internal topic: one for each partition that it leads.

A coordinator loads when its broker is elected and is closed when it resigns. It appends as the
leader of its partition, and its timers are the node's.
"""

from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, Generic, TypeVar

from attrs import define, field

from refimpl.broker.context import Context
from refimpl.broker.partition import Partition
from refimpl.coordinator.observations import (
    CoordinatorLoaded,
    CoordinatorOperation,
    CoordinatorUnloaded,
    LogPruned,
)
from refimpl.coordinator.operation import (
    Answer,
    LogStart,
    Outcome,
    Output,
    Performed,
    TimerKey,
    TransactionalWrite,
)
from refimpl.coordinator.runtime import Coordinator, CoordinatorState
from refimpl.coordinator.shard import CoordinatorShard
from refimpl.errors import Refusal
from refimpl.machines.replica_log import Origin
from refimpl.messages.broker import Request, TopicPartition
from refimpl.messages.cluster import ClusterMetadata
from refimpl.messages.observations import Refused, Written
from refimpl.records.coordinators import CoordinatorRecord, partition_for
from refimpl.records.transactional import Entry
from refimpl.storage.replica.transactional import Writer

S = TypeVar("S", bound=CoordinatorShard)

NO_TRANSACTION = TransactionalWrite(Writer(-1, -1))


def partition_of(metadata: ClusterMetadata, topic: str, key: str) -> int:
    """The partition of a group or a transactional id in its topic, -1 while that is not there."""
    known = metadata.topics.get(topic)
    return -1 if known is None else partition_for(key, len(known.partitions) or 1)


def leader_of(metadata: ClusterMetadata, topic: str, key: str) -> int | None:
    """The broker that coordinates a group or a transactional id, None while none leads."""
    name = TopicPartition(topic, partition_of(metadata, topic, key))
    known = metadata.partitions.get(name)
    return None if known is None else known.decision.leader


@define(eq=False)
class PartitionCoordinatorLog:
    """The log of a partition, as its coordinator reads and appends to it."""

    context: Context
    partition: Partition
    #: The coordinator's name in observations
    owner: str

    @property
    def start(self) -> int:
        """The log start offset."""
        return self.partition.log.start

    @property
    def end(self) -> int:
        """The log end offset."""
        return self.partition.log.end

    @property
    def high_watermark(self) -> int:
        """The offset below which every record is committed."""
        return self.partition.replica.high_watermark

    def append(
        self,
        now: int,
        records: Sequence[CoordinatorRecord],
        transaction: TransactionalWrite | None = None,
    ) -> int:
        """Append records as one batch, or a transaction's marker, if this replica leads.

        As in Kafka, records are written even if the ISR is below min.insync.replicas; they are only
        not committed.
        """
        partition = self.partition
        by = transaction or NO_TRANSACTION
        if transaction is not None and transaction.marker is not None:
            batch = partition.log.marker_batch(transaction.writer, transaction.marker, now)
        else:
            writer = None if transaction is None else transaction.writer
            batch = partition.log.keyed_batch(records, now, writer)
        try:
            appended = partition.replica.write(
                batch,
                acks_all=False,
                origin=Origin.COORDINATOR,
                transaction_version=by.transaction_version,
                guard=by.guard,
            )
        except Refusal as refusal:
            self.context.refused(self.owner, refusal)
            raise
        return appended.last_offset

    def read(self, offset: int, size: int) -> tuple[Sequence[tuple[int, Entry]], int]:
        """Records from an offset on, and the offset of the next read."""
        log = self.partition.log
        return log.keyed_records(offset, log.slice(offset, size), self.high_watermark)


@define(eq=False)
class Coordinators(Generic[S]):
    """Every coordinator of one topic at this broker, by its partition."""

    context: Context
    topic: str
    #: The name of these coordinators in observations
    owner: str
    #: Makes the coordinator of a partition that this broker was elected for
    new: Callable[[int, PartitionCoordinatorLog], Coordinator[S]]
    #: Called after an append: followers may fetch, and a leader alone in the ISR commits
    appended: Callable[[int, Partition], None]
    #: Sets a timer of the node that calls `expire`
    arm: Callable[[int], None]
    by_partition: dict[int, Coordinator[S]] = field(factory=dict[int, Coordinator[S]])
    #: What to do with the answer, by token
    _requests: dict[int, Callable[[Any], None]] = field(factory=dict[int, Callable[[Any], None]])
    _tokens: int = 0
    #: The due time of each timer, and all timers in the order in which they were set
    _due: dict[tuple[int, TimerKey], int] = field(factory=dict[tuple[int, TimerKey], int])
    _heap: list[tuple[int, int, int, TimerKey]] = field(
        factory=list[tuple[int, int, int, TimerKey]]
    )
    _count: int = 0
    #: The time of the node's next timer
    _armed_at: int | None = None

    # The role of this broker

    def elected(self, now: int, partition: Partition) -> None:
        """Load a partition that this broker leads from now on, in a new epoch, from its start."""
        if partition.name.topic != self.topic:
            return
        self.resigned(now, partition)
        number = partition.name.partition
        coordinator = self.new(number, PartitionCoordinatorLog(self.context, partition, self.owner))
        self.by_partition[number] = coordinator
        partition.on_commit = self.committed
        with _Appending(self, now, number):
            self._carry_out(now, number, coordinator.load(now))
        self._loaded(coordinator)

    def _loaded(self, coordinator: Coordinator[S]) -> None:
        if coordinator.failure is not None:
            what = f"{self.owner} of partition {coordinator.partition}: {coordinator.failure}"
            self.context.outputs.append(Refused(what, "CORRUPT_MESSAGE"))
        if coordinator.state is CoordinatorState.ACTIVE:
            name = TopicPartition(self.topic, coordinator.partition)
            loaded = CoordinatorLoaded(name, coordinator.position, coordinator.shard)
            self.context.outputs.append(loaded)

    def resigned(self, now: int, partition: Partition) -> None:
        """Close the coordinator of a partition that another broker leads, or that is gone."""
        number = partition.name.partition
        if partition.name.topic != self.topic or number not in self.by_partition:
            return
        partition.on_commit = None
        coordinator = self.by_partition.pop(number)
        self._carry_out(now, number, coordinator.resign())
        for key in [key for key in self._due if key[0] == number]:
            del self._due[key]
        self.context.outputs.append(CoordinatorUnloaded(partition.name))

    def committed(self, now: int, partition: Partition) -> None:
        """Take a partition's new high watermark."""
        number = partition.name.partition
        outputs = self.by_partition[number].committed(partition.replica.high_watermark)
        self._carry_out(now, number, outputs)

    # Operations

    def handle(self, now: int, number: int, request: Request) -> None:
        """Let the coordinator of a partition answer a request; the caller knows that it is here."""
        self.ask(now, number, request.body, lambda body: self.context.respond(request, body))

    def ask(self, now: int, number: int, body: Any, then: Callable[[Any], None]) -> None:
        """Let the coordinator of a partition answer a request of this broker."""
        self._tokens += 1
        self._requests[self._tokens] = then
        coordinator = self.by_partition[number]
        with _Appending(self, now, number):
            self._carry_out(now, number, coordinator.handle(now, self._tokens, body))

    def operate(self, now: int, decide: Callable[[S], Outcome]) -> None:
        """Carry out an operation on every shard."""
        for number in list(self.by_partition):
            self.operate_on(now, number, decide)

    def operate_on(self, now: int, number: int, decide: Callable[[S], Outcome]) -> None:
        """Carry out an operation on the shard of one partition."""
        coordinator = self.by_partition[number]
        with _Appending(self, now, number):
            self._carry_out(now, number, coordinator.operate(now, decide))

    # Timers

    def expire(self, now: int) -> int | None:
        """Fire the timers that are due; return the time of the next call.

        A timer of the node that comes too early was superseded by an earlier one. It sets no
        further timer: otherwise each of them would go on beside the others.
        """
        if self._armed_at is None or now < self._armed_at:
            return None
        self._armed_at = now
        self._armed_at = self._fire(now)
        return self._armed_at

    def _fire(self, now: int) -> int | None:
        while self._heap and self._heap[0][0] <= now:
            at_ms, _, number, key = heappop(self._heap)
            coordinator = self.by_partition.get(number)
            if coordinator is None or self._due.get((number, key)) != at_ms:
                continue
            del self._due[number, key]
            loading = coordinator.state is CoordinatorState.LOADING
            with _Appending(self, now, number):
                self._carry_out(now, number, coordinator.due(now, key))
            if loading:
                self._loaded(coordinator)
                return now  # others get their turn between two parts of a load
        return self._heap[0][0] if self._heap else None

    def timers_of(self, number: int) -> Mapping[TimerKey, int]:
        """The due time of each timer of the coordinator of a partition."""
        return {key: at_ms for (of, key), at_ms in self._due.items() if of == number}

    # Outputs

    def _carry_out(self, now: int, number: int, outputs: Sequence[Output]) -> None:
        for output in outputs:
            if isinstance(output, Answer):
                self._requests.pop(output.token)(output.body)
            elif isinstance(output, Performed):
                name = TopicPartition(self.topic, number)
                self.context.outputs.append(CoordinatorOperation(name, output))
            elif isinstance(output, LogStart):
                self._delete_below(now, number, output.offset)
            elif output.at_ms is not None:
                self._set(number, output.key, max(output.at_ms, now))
            else:
                self._due.pop((number, output.key), None)

    def _delete_below(self, now: int, number: int, offset: int) -> None:
        """Delete records of a coordinator's log; followers hear of it as of DeleteRecords."""
        partition = self.context.partitions[TopicPartition(self.topic, number)]
        try:
            partition.log.advance_start(min(offset, partition.replica.high_watermark))
        except Refusal as refusal:
            self.context.refused(self.owner, refusal)
            return
        self.context.outputs.append(LogPruned(partition.name, partition.log.start))
        self.appended(now, partition)

    def _set(self, number: int, key: TimerKey, at_ms: int) -> None:
        if self._due.get((number, key)) == at_ms:
            return
        self._due[number, key] = at_ms
        self._count += 1
        heappush(self._heap, (at_ms, self._count, number, key))
        if self._armed_at is None or at_ms < self._armed_at:
            self._armed_at = at_ms
            self.arm(at_ms)


@define(eq=False)
class _Appending:
    """A context in which a coordinator may append; on exit the append is observed, and followers
    wake.
    """

    here: Coordinators[Any]
    now: int
    number: int
    _partition: Partition = field(init=False)
    _end: int = field(init=False)

    def __enter__(self) -> None:
        name = TopicPartition(self.here.topic, self.number)
        self._partition = self.here.context.partitions[name]
        self._end = self._partition.log.end

    def __exit__(self, *_: object) -> None:
        partition, end = self._partition, self._partition.log.end
        if end > self._end:
            self.here.context.outputs.append(Written(partition.name, self._end, end))
            self.here.appended(self.now, partition)
