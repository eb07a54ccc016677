"""The transactional ids of one partition of `__transaction_state`, as a shard."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from attrs import define, evolve, field

from refimpl.coordinator.log import CoordinatorLog
from refimpl.coordinator.operation import NOTHING, Answer, Handler, Outcome, Soft, TimerKey, Token
from refimpl.coordinator.runtime import Coordinator
from refimpl.errors import Refusal
from refimpl.machines.transaction_coordinator import (
    IDLE,
    NewId,
    ProducerIdentity,
    TransactionMetadata,
    TransactionState,
)
from refimpl.machines.transaction_errors import ConcurrentTransactions, InvalidProducerIdMapping
from refimpl.messages import transaction_coordination as m
from refimpl.messages.broker import TopicPartition
from refimpl.messages.controller import InitProducerIdResponse
from refimpl.messages.transactions import TxnMarker
from refimpl.records.coordinators import TRANSACTIONS_TOPIC, CoordinatorRecord
from refimpl.transactions.config import TransactionConfig
from refimpl.transactions.errors import HalfAnIdentity, InvalidTransactionTimeout
from refimpl.transactions.log_records import record_of, tombstone
from refimpl.transactions.operators import TransactionOperators
from refimpl.transactions.store import TransactionStore

TIME_OUT, EXPIRE = TimerKey("time out transactions"), TimerKey("expire transactional ids")
NO_PRODUCER = -1
AT_ONCE = 500
"""The number of ids that time out or expire in one batch; more could be too large for the log
(KAFKA-13099).
"""

Decided: TypeAlias = Callable[[str], None]
"""Called when the decision about an id's transaction is committed: markers are owed."""


@define(eq=False)
class TransactionShard:
    """The coordinator's half of transactions: decides, and remembers who has to be told."""

    config: TransactionConfig
    #: The leader epoch of its partition, which partitions compare
    coordinator_epoch: int
    new_id: NewId
    #: The partition of a group's offsets
    offsets_of: Callable[[str], TopicPartition]
    on_decided: Decided
    #: The finalized level of transaction.version, which may change at any time
    level: Callable[[], int] = field(kw_only=True)
    topic: str = TRANSACTIONS_TOPIC
    store: TransactionStore = field(factory=TransactionStore)
    operators: TransactionOperators = field(init=False)
    handlers: Mapping[type, Handler] = field(init=False)
    #: True once all that was loaded is committed
    active: bool = False
    #: The time at which it became active
    active_since_ms: int = 0

    def __attrs_post_init__(self) -> None:
        """Register the handler of each type of request."""
        self.operators = TransactionOperators(self.store)
        self.handlers = {
            m.InitTransactionalIdRequest: self.init,
            m.AddPartitionsToTxnRequest: self.add_partitions,
            m.AddOffsetsToTxnRequest: self.add_offsets,
            m.EndTxnRequest: self.end,
            m.DescribeTransactionRequest: self.operators.describe,
        }

    # Change

    def replay(
        self, record: CoordinatorRecord, offset: int | None = None, at: int | None = None
    ) -> None:
        """Apply the record of an id."""
        self.store.replay(record, offset)

    def apply(self, changes: Sequence[CoordinatorRecord | Soft], offset: int | None) -> None:
        """Apply the changes of an operation."""
        for change in changes:
            if isinstance(change, CoordinatorRecord):
                self.replay(change, offset)

    def commit(self, high_watermark: int) -> None:
        """Take a new high watermark: decisions below it are final, and their markers go out."""
        self.store.ids.commit(high_watermark)
        if self.active:
            self._decide(high_watermark)

    def _decide(self, high_watermark: int) -> None:
        for transactional_id in self.store.decided(high_watermark):
            self.on_decided(transactional_id)

    # InitProducerId

    def init(self, now: int, token: Token, request: m.InitTransactionalIdRequest) -> Outcome:
        """Give a producer its next epoch; an open transaction is aborted first."""
        self._must_be_allowed(request.timeout_ms)
        expected = _expected(request)
        known = self.store.settled(request.transactional_id)
        if known is None:
            known, expected = self._new(), None
        elif known.state not in IDLE:
            fenced = known.init_fences(expected)
            answer = InitProducerIdResponse(ConcurrentTransactions.kafka_error)
            return self._change(now, request.transactional_id, fenced, Answer(token, answer))
        elif expected is not None and expected == known.last:
            given = InitProducerIdResponse(None, *known.init_again(expected))
            return Outcome(answers=(Answer(token, given),), waits=False)
        begun = known.init_producer_id(expected, self.new_id)
        begun = evolve(begun, timeout_ms=request.timeout_ms, started_ms=-1)
        answer = InitProducerIdResponse(None, *begun.at)
        return self._change(now, request.transactional_id, begun, Answer(token, answer))

    def _must_be_allowed(self, timeout_ms: int) -> None:
        most = self.config.transaction_max_timeout_ms
        if not 0 < timeout_ms <= most:
            raise InvalidTransactionTimeout(timeout_ms, most)

    def _new(self) -> TransactionMetadata:
        at = ProducerIdentity(self.new_id(), -1)
        return TransactionMetadata(at=at, next=at, last_epoch=self.store.last_epoch)

    # The transaction

    def add_partitions(
        self, now: int, token: Token, request: m.AddPartitionsToTxnRequest
    ) -> Outcome:
        """Add partitions to the transaction, or verify that they are in it."""
        if request.verify_only:
            return self._verified(token, request)
        done = m.AddPartitionsToTxnResponse([(one, None) for one in request.partitions])
        return self._added(now, request, request.partitions, Answer(token, done))

    def add_offsets(self, now: int, token: Token, request: m.AddOffsetsToTxnRequest) -> Outcome:
        """Add the partition of a group's offsets."""
        partitions = (self.offsets_of(request.group_id),)
        answer = Answer(token, m.AddOffsetsToTxnResponse(None))
        return self._added(now, request, partitions, answer, version=0)

    def _added(
        self,
        now: int,
        request: m.AddPartitionsToTxnRequest | m.AddOffsetsToTxnRequest,
        partitions: Iterable[TopicPartition],
        answer: Answer,
        version: int | None = None,
    ) -> Outcome:
        known = self._known(request, settled=True)
        added = known.add_partitions(_identity(request), partitions)
        if added is known:
            return Outcome(answers=(answer,), waits=False)
        if isinstance(request, m.AddPartitionsToTxnRequest):
            version = request.transaction_version
        started_ms = known.started_ms if known.state is TransactionState.ONGOING else now
        added = evolve(
            added, started_ms=started_ms, client_version=2 if version and version >= 2 else 0
        )
        return self._change(now, request.transactional_id, added, answer)

    def _verified(self, token: Token, request: m.AddPartitionsToTxnRequest) -> Outcome:
        """Answer by the committed state: a write must not rely on what may still be lost."""
        metadata = self._known(request, settled=False)
        results = [
            (one, _error_of(metadata, _identity(request), one)) for one in request.partitions
        ]
        answer = Answer(token, m.AddPartitionsToTxnResponse(results))
        return Outcome(answers=(answer,), waits=False)

    def end(self, now: int, token: Token, request: m.EndTxnRequest) -> Outcome:
        """Decide the transaction; the producer is told before any partition is."""
        known = self._known(request, settled=True)
        at, version = _identity(request), request.transaction_version
        committed = request.committed
        again = known.end_again(at, version, committed=committed)
        if again is not None:
            return Outcome(answers=(Answer(token, _ended(again, version)),), waits=False)
        ended = known.end_txn(at, version, self.new_id, committed=committed)
        if known.state is not TransactionState.ONGOING:
            ended = evolve(ended, started_ms=now)
        answer = Answer(token, _ended(ended.next, version))
        return self._change(now, request.transactional_id, ended, answer)

    def _known(self, request: Any, *, settled: bool) -> TransactionMetadata:
        transactional_id: str = request.transactional_id
        if settled:
            metadata = self.store.settled(transactional_id)
        else:
            metadata = self.store.ids.committed(transactional_id)
        if metadata is None:
            raise InvalidProducerIdMapping(request.producer_id, None)
        return metadata

    def _change(
        self, now: int, transactional_id: str, metadata: TransactionMetadata, *answers: Answer
    ) -> Outcome:
        return Outcome((self._record(now, transactional_id, metadata),), answers)

    def _record(
        self, now: int, transactional_id: str, metadata: TransactionMetadata
    ) -> CoordinatorRecord:
        flexible = self.level() >= 1
        return record_of(transactional_id, evolve(metadata, updated_ms=now), flexible=flexible)

    # Markers

    def marker(self, transactional_id: str, partitions: Iterable[TopicPartition]) -> TxnMarker:
        """The marker of a decided transaction for some of its partitions."""
        metadata = self.store.ids.current[transactional_id]
        return TxnMarker(
            *metadata.at,
            metadata.committed,
            tuple(partitions),
            self.coordinator_epoch,
            min(metadata.client_version, self.level()),
        )

    def written(
        self, transactional_id: str, at: ProducerIdentity, partition: TopicPartition
    ) -> None:
        """A partition has written its marker, or is deleted; one of an earlier transaction is
        ignored."""
        metadata = self.store.ids.get(transactional_id)
        if metadata is not None and metadata.at == at:
            self.store.owed.get(transactional_id, set()).discard(partition)

    def complete(self, now: int, transactional_id: str) -> Outcome:
        """End a transaction whose markers are all written."""
        metadata = self.store.settled(transactional_id)
        if metadata is None:
            return NOTHING
        completed = metadata.complete(len(self.store.owed.get(transactional_id, ())))
        return self._change(now, transactional_id, completed)

    # Decide

    def loaded(self, now: int) -> Iterable[Outcome]:
        """Go on with what was decided, and start the timers. All that was loaded is committed."""
        self.active, self.active_since_ms = True, now
        self._decide(2**63)
        yield Outcome(timers={TIME_OUT: self._next(now, TIME_OUT), EXPIRE: self._next(now, EXPIRE)})

    def _next(self, now: int, key: TimerKey) -> int:
        config = self.config
        if key == TIME_OUT:
            return now + config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        return now + config.transaction_remove_expired_transaction_cleanup_interval_ms

    def due(self, now: int, key: TimerKey) -> Outcome:
        """Abort transactions that take too long, or remove ids that nobody uses."""
        change = self._time_out if key == TIME_OUT else self._expire
        records = [
            record
            for transactional_id, metadata in self.store.idle()
            if (record := change(now, transactional_id, metadata)) is not None
        ]
        again = self._next(now, key) if len(records) <= AT_ONCE else now
        return Outcome(records[:AT_ONCE], timers={key: again})

    def _time_out(
        self, now: int, transactional_id: str, metadata: TransactionMetadata
    ) -> CoordinatorRecord | None:
        if metadata.state is not TransactionState.ONGOING:
            return None
        if self._started_ms(now, metadata) + metadata.timeout_ms > now:
            return None
        return self._record(now, transactional_id, metadata.time_out())

    def _started_ms(self, now: int, metadata: TransactionMetadata) -> int:
        """The time at which a transaction began, as far as this clock can tell.

        If the clock of the coordinator before was ahead, its transactions begin in the future. They
        count from the load; else they would stay open for as long as that clock was wrong.
        """
        started_ms = metadata.started_ms
        return started_ms if started_ms <= now else self.active_since_ms

    def _expire(
        self, now: int, transactional_id: str, metadata: TransactionMetadata
    ) -> CoordinatorRecord | None:
        kept_ms = self.config.transactional_id_expiration_ms
        if metadata.state not in IDLE or metadata.updated_ms + kept_ms > now:
            return None
        return tombstone(transactional_id)

    # Observe and answer

    def subject(self, about: Any) -> str | None:
        """The transactional id that a request is about."""
        return about.transactional_id if about.__class__ in m.REQUESTS else None

    def value(self, key: str) -> Any:
        """The state of this id as written; None for none."""
        return self.store.ids.get(key)

    def refused(self, request: Any, error: str, message: str | None = None) -> Any:
        """The response that refuses a request."""
        return m.refused(request, error, message)

    def timed_out(self, request: Any) -> str:
        """The error of a request whose record is not committed in time."""
        return "COORDINATOR_NOT_AVAILABLE"


def _expected(request: m.InitTransactionalIdRequest) -> ProducerIdentity | None:
    given = request.producer_id, request.producer_epoch
    if (given[0] == NO_PRODUCER) is not (given[1] == NO_PRODUCER):
        raise HalfAnIdentity(*given)
    return None if given[0] == NO_PRODUCER else ProducerIdentity(*given)


def _identity(
    request: m.AddPartitionsToTxnRequest | m.AddOffsetsToTxnRequest | m.EndTxnRequest,
) -> ProducerIdentity:
    return ProducerIdentity(request.producer_id, request.producer_epoch)


def _error_of(
    metadata: TransactionMetadata, at: ProducerIdentity, partition: TopicPartition
) -> str | None:
    try:
        metadata.verify_partition(at, partition)
    except Refusal as refusal:
        return refusal.kafka_error
    return None


def _ended(at: ProducerIdentity, version: int) -> m.EndTxnResponse:
    return m.EndTxnResponse(None, *at) if version >= 2 else m.EndTxnResponse(None)


TransactionCoordinator: TypeAlias = Coordinator[TransactionShard]


def coordinator_of(
    partition: int, log: CoordinatorLog, shard: TransactionShard
) -> TransactionCoordinator:
    """The coordinator of a partition, which has yet to load its log into this shard.

    It acts once all that it has loaded is committed: Kafka's acts at once, on what may be lost.
    """
    config = shard.config
    size, waits_ms = config.transaction_state_log_load_buffer_size, config.request_timeout_ms
    return Coordinator(partition, log, shard, size, waits_ms, waits_for_commit=True)
