"""The producer without I/O: `handle(now, input) → outputs`, as Kafka's KafkaProducer and Sender.

A record waits for metadata and for memory, becomes part of a batch, and the batch goes to its
leader until it has a result. Its host carries requests, says when a connection has ended, and comes
back when a timer is due. Time is in ms, and any clock's that does not go back.
"""

from collections import deque
from collections.abc import Sequence
from math import inf
from typing import Any

from attrs import define, field

from refimpl.clients.backoff import Backoff, Chance
from refimpl.clients.errors import OLD_METADATA, RETRIABLE
from refimpl.clients.metadata import ClientMetadata, KnownTopic
from refimpl.clients.network import NetworkClient
from refimpl.clients.producer.accumulator import (
    Accumulator,
    RecordAppendResult,
    ToAppend,
)
from refimpl.clients.producer.batch import NONE, BuilderFactory, ProducerBatch
from refimpl.clients.producer.config import ProducerConfig
from refimpl.clients.producer.delivery import Delivery
from refimpl.clients.producer.errors import (
    InvalidTransactionState,
)
from refimpl.clients.producer.messages import (
    Accepted,
    CloseProducer,
    Delivered,
    Disconnect,
    Disconnected,
    Failed,
    Flush,
    Flushed,
    Input,
    Output,
    TransactionCall,
    TransactionFailed,
    Unauthenticated,
)
from refimpl.clients.producer.partitioner import (
    ROUND_ROBIN,
    RoundRobin,
    Sticky,
    partition_of_key,
)
from refimpl.clients.producer.transactions import Transactions
from refimpl.clients.requests import Nodes
from refimpl.configs import ConfigError
from refimpl.messages.broker import (
    ProducedPartition,
    ProduceRequest,
    ProduceResponse,
    Response,
    Timer,
    TopicPartition,
)
from refimpl.messages.controller import InitProducerIdRequest, InitProducerIdResponse

DELIVERY = "producer"
"""The name of the producer's timer."""

TOO_LARGE, TIMED_OUT, CLOSED, DISCONNECTED = (
    *("MESSAGE_TOO_LARGE", "REQUEST_TIMED_OUT", "UNKNOWN_SERVER_ERROR", "NETWORK_EXCEPTION"),
)
UNKNOWN_PARTITION = "UNKNOWN_TOPIC_OR_PARTITION"
ABORTED, NO_STATE = "TRANSACTION_ABORTED", "INVALID_TXN_STATE"
"""A record of an aborted transaction has no code in Kafka: TransactionAbortedException."""


@define(eq=False)
class Waiting:
    """A record that has no batch yet, and until when it may wait for one."""

    record: ToAppend
    until_ms: int
    #: It waited for metadata, and waits for memory now
    has_metadata: bool = False


@define(eq=False)
class ProducerMachine:
    """One producer. `id` is its name in the requests that it sends."""

    config: ProducerConfig
    builders: BuilderFactory
    bootstrap: Sequence[int]
    chance: Chance
    id: int = -1
    metadata: ClientMetadata = field(init=False)
    delivery: Delivery = field(init=False)
    accumulator: Accumulator = field(init=False)
    network: NetworkClient = field(init=False)
    _waiting: deque[Waiting] = field(factory=deque[Waiting], init=False)
    _flushes: list[tuple[Any, set[ProducerBatch], set[int]]] = field(
        factory=list[tuple[Any, set[ProducerBatch], set[int]]], init=False
    )
    _closing: CloseProducer | None = field(default=None, init=False)
    _closed_at: float = field(default=inf, init=False)
    _fatal: str | None = field(default=None, init=False)
    #: An InitProducerId request that failed is not sent again before this time
    _id_not_before: int = field(default=0, init=False)
    _timer: float = field(default=inf, init=False)
    _choose: Any = field(init=False)
    #: None without a transactional.id
    transactions: Transactions | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        """Begin without metadata and without a producer id."""
        config = self.config
        retry = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, self.chance)
        reconnect = Backoff(
            config.reconnect_backoff_ms, config.reconnect_backoff_max_ms, self.chance
        )
        self.metadata = ClientMetadata(
            self.bootstrap, config.metadata_max_age_ms, config.metadata_max_idle_ms
        )
        transactional = config.transactional_id is not None
        self.delivery = Delivery(config.enable_idempotence, config.max_in_flight, transactional)
        nodes = Nodes(reconnect, config.request_timeout_ms, config.max_in_flight)
        self.network = NetworkClient(
            *(self.id, nodes, self.metadata, retry, True),
            *(config.rebootstraps, config.rebootstrap_trigger_ms),
        )
        self.accumulator = Accumulator(
            *(config, self.metadata, self.delivery, self.builders, retry),
            lambda size: Sticky(size, self._draw),
        )
        if config.transactional_id is not None:
            self.transactions = Transactions(
                *(config.transactional_id, config.transaction_timeout_ms, config.max_block_ms),
                *(self.delivery, self.network),
            )
            self.accumulator.held = self.transactions.adding
        self._choose = config.partitioner
        if isinstance(self._choose, str):
            if self._choose not in ROUND_ROBIN:
                raise ConfigError(
                    f"partitioner.class is {self._choose!r}: expected a function, or "
                    f"{ROUND_ROBIN[0]}"
                )
            self._choose = RoundRobin(self.chance)

    def _draw(self) -> int:
        """A number from 0 to below 2^31."""
        return int(self.chance() * 2**31)

    # Inputs

    def handle(self, now: int, message: Input) -> list[Output]:
        """Take one input, and send what is to be sent now."""
        match message:
            case ToAppend():
                if not self.take(now, message):
                    return self._taken()
            case Response():
                self.network.answered(now, message)
            case Disconnected(node, reason):
                self.network.lost(now, node)
                if reason is not None:
                    self._refused(reason)
            case Flush():
                self._flush(message)
            case CloseProducer():
                self._close(now, message)
            case TransactionCall():
                self._transact(now, message)
            case Timer():
                self._timer = inf
        self.run(now)
        return self._taken()

    @property
    def outputs(self) -> list[Output]:
        """The outputs of this input so far, requests among them."""
        return self.network.outputs

    def _taken(self) -> list[Output]:
        outputs, self.network.outputs = self.network.outputs, []
        return outputs

    # Records

    @property
    def waiting(self) -> int:
        """The number of records that wait for metadata or memory."""
        return len(self._waiting)

    def take(self, now: int, record: ToAppend) -> bool:
        """Put a record into a batch, or let it wait. True if there is something to do now.

        A host with many records calls this for each, and then `handle` with a timer once.
        """
        if self._closing is not None:
            self._fail(record, CLOSED, "the producer is closed")
            return True
        if self._fatal is not None:
            self._fail(record, self._fatal, "the producer cannot go on after this error")
            return True
        if self.transactions is not None and (refusal := self.transactions.why_not()):
            self._fail(record, *refusal)
            return True
        topic = self.metadata.topics.get(record.topic)
        if topic is None or not topic.partitions or self._waiting:
            self.metadata.use(record.topic, now)
            self._waiting.append(Waiting(record, now + self.config.max_block_ms))
            return True
        topic.used_ms = now
        placed = self._place(now, record, topic)
        if placed is None:
            return True
        if isinstance(placed, str):
            waiting = Waiting(record, now + self.config.max_block_ms, has_metadata=True)
            self._waiting.append(waiting)
            self.accumulator.waiting = 1
            return True
        return placed.is_full or placed.is_new

    def _place(
        self, now: int, record: ToAppend, topic: KnownTopic
    ) -> "RecordAppendResult | str | None":
        """The batch that took a record; None if it was failed."""
        if not self._fits(record):
            return None
        partition = record.partition
        if partition is None:
            partition = self._partition(record, topic)
        elif not 0 <= partition < len(topic.partitions):
            count = len(topic.partitions)
            self._fail(record, UNKNOWN_PARTITION, f"the topic has {count} partitions")
            return None
        if partition is not record.partition:
            record = record._replace(partition=partition)
        placed = self.accumulator.append(now, record, topic)
        if placed is None:
            return "no memory"
        if self.transactions is not None:
            self.transactions.see(placed.batch.partition)
        return placed

    def _fits(self, record: ToAppend) -> bool:
        config = self.config
        size = len(record.key or b"") + len(record.value or b"")
        if not record.headers and size + 100 <= min(config.max_request_size, config.buffer_memory):
            return True
        size = self.accumulator.bound(record)
        for name, most in (
            ("max.request.size", config.max_request_size),
            ("buffer.memory", config.buffer_memory),
        ):
            if size > most:
                self._fail(record, TOO_LARGE, f"it takes {size} bytes, and {name} is {most}")
                return False
        return True

    def _partition(self, record: ToAppend, topic: KnownTopic) -> int | None:
        """The partition by the partitioner, or by the key; None is left to the batches."""
        if self._choose is not None:
            return self._choose(
                record.topic, record.key, record.value, topic.partitions, topic.available
            )
        if record.key is None or self.config.ignore_keys:
            return None
        return partition_of_key(record.key, len(topic.partitions))

    def _admit(self, now: int) -> None:
        """Records that waited, in their order: of one topic, or of all while memory is short."""
        blocked: set[str] = set()
        full = False
        kept: deque[Waiting] = deque()
        while self._waiting:
            one = self._waiting.popleft()
            record = one.record
            topic = self.metadata.topics.get(record.topic) or self.metadata.use(record.topic, now)
            if record.topic in blocked or full or not topic.partitions:
                blocked.add(record.topic)
                if not self._expire_waiting(now, one, topic):
                    kept.append(one)
                continue
            placed = self._place(now, record, topic)
            if placed == "no memory":
                full = True
                one.has_metadata = True
                if not self._expire_waiting(now, one, topic):
                    kept.append(one)
            elif placed is not None:
                self.outputs.append(Accepted(record.handle))
        self._waiting = kept
        self.accumulator.waiting = sum(1 for one in kept if one.has_metadata)

    def _expire_waiting(self, now: int, one: Waiting, topic: KnownTopic) -> bool:
        """max.block.ms is over, or the topic cannot be."""
        record = one.record
        if topic.error is not None and topic.error not in RETRIABLE:
            self._fail(record, topic.error, f"there is no topic {record.topic}")
        elif now >= one.until_ms:
            what = "memory (buffer.memory)" if one.has_metadata else f"metadata of {record.topic}"
            reason = f"no {what} within {self.config.max_block_ms} ms (max.block.ms)"
            self._fail(record, TIMED_OUT, reason)
        else:
            return False
        return True

    def _fail(self, record: ToAppend, error: str, message: str) -> None:
        """A record that has no batch."""
        partition = TopicPartition(
            record.topic, NONE if record.partition is None else record.partition
        )
        self.outputs.append(Failed(record.handle, partition, error, message, True))

    # Flush and close

    def _flush(self, message: Flush) -> None:
        waiting = {id(one.record.handle) for one in self._waiting}
        self._flushes.append((message.handle, set(self.accumulator.incomplete), waiting))
        self.accumulator.flushing = True

    def _close(self, now: int, message: CloseProducer) -> None:
        if self.transactions is not None and self.transactions.state in ("open", "abortable"):
            self._abort("the producer is closed")
        self._closing = message
        self._closed_at = inf if message.timeout_ms is None else now + message.timeout_ms
        self.accumulator.closing = True

    def _settle_flushes(self) -> None:
        kept: list[tuple[Any, set[ProducerBatch], set[int]]] = []
        for handle, batches, waiting in self._flushes:
            batches &= self.accumulator.incomplete.keys()
            waiting &= {id(one.record.handle) for one in self._waiting}
            if batches or waiting:
                kept.append((handle, batches, waiting))
            else:
                self.outputs.append(Flushed(handle))
        self._flushes = kept
        ending = self.transactions is not None and self.transactions.is_ending
        self.accumulator.flushing = bool(kept) or ending

    def _settle_close(self, now: int) -> None:
        if self._closing is None or self.is_closed:
            return
        transactions = self.transactions
        if now >= self._closed_at:
            self._abandon(CLOSED, "the producer was closed before it was written")
        elif transactions is not None and transactions.is_open:
            return
        if not self.accumulator.incomplete and not self._waiting:
            self.outputs.append(Flushed(self._closing.handle))
            self._closing, self._closed_at = CloseProducer(None), inf
            self._fatal = self._fatal or CLOSED

    @property
    def is_closed(self) -> bool:
        """True once all is done."""
        return self._closing is not None and self._closing.handle is None

    def _abandon(self, error: str, message: str) -> None:
        """Fail all that has no result."""
        for batch in [*self.accumulator.incomplete]:
            certain = batch.attempts == 0 and not batch.closed
            if not batch.done:
                self.delivery.expire(batch)
            self._failed(batch, error, message, certain)
        while self._waiting:
            self._fail(self._waiting.popleft().record, error, message)

    # Transactions

    def begin_transaction(self) -> None:
        """Begin a transaction. Raises InvalidTransactionState."""
        if self.transactions is None:
            raise InvalidTransactionState("begin", "none: transactional.id is not set")
        self.transactions.begin()

    def _transact(self, now: int, call: TransactionCall) -> None:
        if self.transactions is None:
            sentence = "transactional.id is not set"
            self.outputs.append(TransactionFailed(call.handle, NO_STATE, sentence, False))
            return
        self.transactions.call(now, call)
        if self.transactions.state == "aborting":
            self._abort("the transaction is aborted")
        self.accumulator.flushing = self.transactions.is_ending or self.accumulator.flushing

    def _abort(self, message: str) -> None:
        """End the transaction without what was not sent yet; the rest is waited for."""
        assert self.transactions is not None
        self.transactions.abort()
        self._fail_unsent(ABORTED, message)

    def _fail_unsent(self, error: str, message: str) -> None:
        """Fail what has not been sent, and what cannot be sent again before there is another
        epoch.
        """
        while self._waiting:
            self._fail(self._waiting.popleft().record, error, message)
        for batch in [*self.accumulator.incomplete]:
            is_stuck = bool(self.delivery.restarting) and not batch.in_flight
            if not batch.done and (is_stuck or not batch.has_sequence):
                certain = not batch.has_sequence
                self.delivery.expire(batch)
                self._failed(batch, error, message, certain)

    def _run_transactions(self, now: int) -> None:
        transactions = self.transactions
        if transactions is None:
            return
        transactions.run(now, is_idle=not self.accumulator.incomplete and not self._waiting)
        if transactions.state == "fatal" and self._fatal is None and transactions.error:
            self._fatal = transactions.error[0]
            self._abandon(*transactions.error)
        elif transactions.state == "abortable" and transactions.error:
            self._fail_unsent(*transactions.error)
        elif transactions.state == "aborting" and self.delivery.restarting:
            self._fail_unsent(ABORTED, "the transaction is aborted")
        self.outputs.extend(transactions.outputs)
        transactions.outputs.clear()

    # The sender

    def run(self, now: int) -> None:
        """Do all that can be done now, and set a timer for the rest."""
        self._time_out(now)
        if self._waiting:
            self._admit(now)
        again = True
        while again:
            again = self._send(now)
            for batch in self.accumulator.expired(now):
                self._expire(now, batch)
                again = True
        if self._waiting:
            self._admit(now)
        self._run_transactions(now)
        self._settle_flushes()
        self._settle_close(now)
        if not self.is_closed:
            self.network.ask_for_metadata(now)
            self._ask_for_id(now)
            self._set_timer(now)

    def _send(self, now: int) -> bool:
        """One request to each node that has batches and may have one. True if one was sent."""
        self._settle_epochs()
        ready = self.accumulator.ready(now)
        self._next_ready = ready.next_ms
        if ready.leaderless:
            self.metadata.wanted = True
        sent = False
        for node in sorted(ready.nodes):
            if not self.network.nodes.is_ready(node, now):
                self.accumulator.not_ready_since.setdefault(node, now)
                self._next_ready = min(self._next_ready, self.network.nodes.ready_at(node))
                continue
            self.accumulator.not_ready_since.pop(node, None)
            batches = self.accumulator.drain(now, node, self.network.nodes.in_flight(node))
            if batches:
                self._produce(now, node, batches)
                sent = True
        return sent

    _next_ready: float = field(default=inf, init=False)

    def _settle_epochs(self) -> None:
        if not self.config.enable_idempotence:
            return
        for partition in [*self.delivery.resolvable()]:
            self.delivery.resolve(partition)
        if self.transactions is not None:
            if self.delivery.restarting and self.transactions.state in ("open", "committing"):
                self.transactions.batch_failed("OUT_OF_ORDER_SEQUENCE_NUMBER", "")
        elif self.delivery.restarting and self.delivery.producer_id != NONE:
            self.delivery.bump()

    def _produce(self, now: int, node: int, batches: list[ProducerBatch]) -> None:
        config = self.config
        # One request in flight is what keeps order without idempotence: over all leaders.
        if config.max_in_flight == 1:
            self.accumulator.muted.update(one.partition for one in batches)
        sent = [(one, one.epoch, one.sequence) for one in batches]
        parts = [
            (one.partition, one.builder.build(one.producer_id, one.epoch, one.sequence))
            for one in batches
        ]
        body = ProduceRequest(
            config.acks, config.request_timeout_ms, parts, config.transactional_id
        )
        for batch in batches:
            batch.in_flight = config.acks != 0

        def answered(at: int, answer: ProduceResponse | None) -> None:
            self._produced(at, now, sent, answer)

        self.network.ask(now, node, body, answered, expects_answer=config.acks != 0)
        if config.acks == 0:
            for batch in batches:
                self._completed(now, batch, ProducedPartition(batch.partition, None), (-1, -1))

    # Answers

    def _produced(
        self,
        now: int,
        sent_ms: int,
        sent: Sequence[tuple[ProducerBatch, int, int]],
        answer: ProduceResponse | None,
    ) -> None:
        if answer is not None:
            missing = "INVALID_RESPONSE"
        elif now - sent_ms >= self.config.request_timeout_ms:
            missing = TIMED_OUT
        else:
            missing = DISCONNECTED
        results = {one.partition: one for one in answer.partitions} if answer is not None else {}
        for batch, epoch, sequence in sent:
            batch.in_flight = False
            result = results.get(batch.partition) or ProducedPartition(batch.partition, missing)
            self._completed(now, batch, result, (epoch, sequence))

    def _identified(self, now: int, answer: InitProducerIdResponse | None) -> None:
        if answer is None:
            return
        if answer.error is None:
            self.delivery.identify(answer.producer_id, answer.producer_epoch)
        elif answer.error in RETRIABLE:
            self._id_not_before = now + self.accumulator.backoff.wait_ms(0)
        else:
            self._fatal = answer.error
            self._abandon(answer.error, "the cluster gives this producer no id")

    def _completed(
        self,
        now: int,
        batch: ProducerBatch,
        result: ProducedPartition,
        sent_as: tuple[int, int],
    ) -> None:
        error = result.error
        self.accumulator.muted.discard(batch.partition)
        if error in OLD_METADATA:
            self.metadata.wanted = True
        if error == TOO_LARGE and batch.count > 1 and not batch.done:
            self.accumulator.split(batch)
            self.accumulator.release(batch)
            return
        config = self.config
        may_retry = batch.attempts < config.retries and not batch.has_expired(
            now, config.delivery_timeout_ms
        )
        outcome = self.delivery.take_answer(
            *(batch, error),
            sent_as=sent_as,
            may_retry=may_retry,
            log_start_offset=result.log_start_offset,
        )
        if outcome == "written":
            self._written(batch, result)
        elif outcome == "retried":
            batch.fail_attempt(now)
        elif outcome == "failed":
            certain = batch.attempts == 0 and error not in RETRIABLE
            self._failed(batch, error or "", result.message or "", certain, dict(result.records))

    def _written(self, batch: ProducerBatch, result: ProducedPartition) -> None:
        self.accumulator.release(batch)
        offset, time = result.base_offset, result.log_append_time_ms
        partition, put = batch.partition, self.outputs.append
        for handle in batch.handles:
            put(Delivered(handle, partition, offset, time))
            offset += offset != NONE

    def _failed(
        self,
        batch: ProducerBatch,
        error: str,
        message: str,
        certain: bool,
        records: dict[int, str] | None = None,
    ) -> None:
        """All records of a batch fail, those that caused it with their own reason (KIP-467)."""
        self.accumulator.release(batch)
        if self.transactions is not None:
            self.transactions.batch_failed(error, message)
        other = "another record of its batch is not valid" if records else message
        for at, handle in enumerate(batch.handles):
            reason = (records or {}).get(at, other)
            self.outputs.append(Failed(handle, batch.partition, error, reason, certain))

    def _expire(self, now: int, batch: ProducerBatch) -> None:
        sent = batch.closed and (batch.has_sequence or batch.attempts > 0 or batch.in_flight)
        self.delivery.expire(batch)
        waited = now - batch.created_ms
        message = f"no result within {waited} ms of its batch's beginning (delivery.timeout.ms)"
        self._failed(batch, TIMED_OUT, message, not sent)

    # Connections

    def _time_out(self, now: int) -> None:
        self.network.time_out(now)
        self.outputs.extend(map(Disconnect, self.network.gone))
        self.network.gone.clear()

    def _refused(self, reason: Unauthenticated) -> None:
        """A broker does not let this client in: a send that waits fails, as Kafka's does.

        Without a producer id there will be none: the producer ends, as KafkaProducer's sender does.
        """
        if self.config.enable_idempotence and self.delivery.producer_id == NONE:
            self._fatal = reason.error
            self._abandon(*reason)
            if self.transactions is not None:
                self.transactions.fail(*reason)
        while self._waiting:
            self._fail(self._waiting.popleft().record, *reason)

    def _ask_for_id(self, now: int) -> None:
        """Ask any node for a producer id, once there is something to send."""
        if (
            not self.config.enable_idempotence
            or self.transactions is not None
            or self.delivery.producer_id != NONE
            or self.network.is_asking(InitProducerIdRequest)
            or now < self._id_not_before
            or self._fatal is not None
        ):
            return
        node = self.network.anybody(now)
        if node is not None:
            self.network.ask(now, node, InitProducerIdRequest(), self._identified)

    def _set_timer(self, now: int) -> None:
        """Come back when the next thing is due; a timer that is set already is not set again."""
        due = min(
            self._next_ready,
            self.accumulator.next_expiry_ms(),
            min((one.until_ms for one in self._waiting), default=inf),
            self._closed_at,
            self.network.due(now),
        )
        if self.transactions is not None:
            due = min(due, self.transactions.due(now))
        elif self.delivery.producer_id == NONE and self.config.enable_idempotence:
            due = min(due, self._id_due(now))
        if due != self._timer or due <= now:
            self._timer = due
            if due != inf:
                self.outputs.append(Timer(max(int(due), now), DELIVERY))

    def _id_due(self, now: int) -> float:
        if self.network.is_asking(InitProducerIdRequest) or self._fatal is not None:
            return inf
        return max(self._id_not_before, self.network.anybody_at(now))
