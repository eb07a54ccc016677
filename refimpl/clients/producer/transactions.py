"""A producer's transactions: begun, filled, and ended once, at the coordinator of their id.

As Kafka's TransactionManager: KIP-98, KIP-360 (a new epoch after what nobody knows), KIP-447
(offsets with the group's generation). Its requests are those before transaction.version 2, which
every Kafka from 2.8 on takes: partitions are added before their first batch is sent. One request is
under way at a time.
"""

from collections.abc import Callable, Mapping
from math import inf
from typing import Any, Literal, NamedTuple, TypeAlias

from attrs import define, field

from refimpl.clients.coordinator import Coordinator
from refimpl.clients.errors import COORDINATOR_MOVED, RETRIABLE
from refimpl.clients.network import NetworkClient
from refimpl.clients.producer.batch import NONE
from refimpl.clients.producer.delivery import Delivery
from refimpl.clients.producer.errors import InvalidTransactionState
from refimpl.clients.producer.messages import (
    GroupMetadata,
    TransactionCall,
    TransactionDone,
    TransactionFailed,
)
from refimpl.clients.requests import Then
from refimpl.messages import group as g
from refimpl.messages import transaction_coordination as t
from refimpl.messages.broker import TopicPartition
from refimpl.messages.controller import InitProducerIdResponse

State: TypeAlias = Literal[
    "uninitialized", "initializing", "ready", "open", "committing", "aborting", "abortable", "fatal"
]
Offsets = Mapping[TopicPartition, tuple[int, int, str]]

MOVED = frozenset(("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"))
TIMED_OUT, FORGOTTEN = "REQUEST_TIMED_OUT", "UNKNOWN_PRODUCER_ID"
FENCED = frozenset(("INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"))
NOT_AUTHORIZED = frozenset(
    ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED")
)
#: Of these nothing can be aborted, whatever was asked
FATAL = NOT_AUTHORIZED | {"INVALID_TXN_STATE", "INVALID_PRODUCER_ID_MAPPING"}
ABORTABLE = frozenset(
    (
        *("TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "OPERATION_NOT_ATTEMPTED"),
        *("FENCED_INSTANCE_ID", "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "TRANSACTION_ABORTABLE"),
        *("STALE_MEMBER_EPOCH", "INVALID_COMMIT_OFFSET_SIZE", "OFFSET_METADATA_TOO_LARGE"),
        *("REBALANCE_IN_PROGRESS", "GROUP_ID_NOT_FOUND", FORGOTTEN),
    )
)


DONE = "", ""


class PendingCall(NamedTuple):
    """A call of the application that waits for its result."""

    handle: Any
    kind: str
    until_ms: float


@define
class SentOffsets:
    """Offsets of a group on their way into the transaction."""

    group: GroupMetadata
    offsets: Offsets
    is_added: bool = False


@define(eq=False)
class Transactions:
    """The transactions of one producer, and the requests by which they are made."""

    id: str
    timeout_ms: int
    max_block_ms: int
    delivery: Delivery
    network: NetworkClient
    state: State = "uninitialized"
    #: Partitions that are in the transaction, and those that have to be added
    added: set[TopicPartition] = field(factory=set[TopicPartition], init=False)
    adding: dict[TopicPartition, None] = field(factory=dict[TopicPartition, None], init=False)
    outputs: list[TransactionDone | TransactionFailed] = field(
        factory=list[TransactionDone | TransactionFailed], init=False
    )
    error: tuple[str, str] | None = field(default=None, init=False)
    _offsets: SentOffsets | None = field(default=None, init=False)
    #: The coordinator may know of the transaction
    _is_begun: bool = field(default=False, init=False)
    #: Another epoch is needed once the transaction is aborted
    _needs_epoch: bool = field(default=False, init=False)
    _call: PendingCall | None = field(default=None, init=False)
    #: A call of which the application has heard only that it timed out, and what became of it
    _unheard: str | None = field(default=None, init=False)
    _result: tuple[str, str] | None = field(default=None, init=False)
    _coordinator: Coordinator = field(init=False)
    _of_groups: dict[str, Coordinator] = field(factory=dict[str, Coordinator], init=False)
    _asking: bool = field(default=False, init=False)
    #: No batch is without a result
    _is_idle: bool = field(default=True, init=False)
    _not_before: int = field(default=0, init=False)
    _failures: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        """Begin without a coordinator."""
        self._coordinator = Coordinator(self.id, self.network, g.TRANSACTION, gives_up=False)

    # The application

    @property
    def is_ending(self) -> bool:
        """True from the call that ends a transaction until it has ended."""
        return self.state in ("committing", "aborting")

    @property
    def is_open(self) -> bool:
        """True if there is a transaction that has not ended."""
        return self.state in ("open", "abortable") or self.is_ending

    def why_not(self) -> tuple[str, str] | None:
        """The reason for which no record may be sent now, if there is one."""
        if self.state == "open":
            return None
        if self.state in ("abortable", "fatal"):
            return self.error
        return "INVALID_TXN_STATE", f"a record needs a transaction, and this one is {self.state}"

    def begin(self) -> None:
        """Begin a transaction. Raises InvalidTransactionState."""
        if self._unheard is not None:
            raise InvalidTransactionState("begin", self._must_be_heard(self._unheard))
        self._must_be("begin", "ready")
        self.state = "open"

    def call(self, now: int, message: TransactionCall) -> None:
        """A call that has a result. After a time-out the same call must be made again, and goes on
        with what it began.
        """
        kind, handle = message.kind, message.handle
        if self._call is not None:
            self._refuse(handle, "INVALID_TXN_STATE", f"{self._call.kind} has no result yet")
        elif self._unheard is None:
            self._begin_call(now, message)
        elif kind != self._unheard:
            self._refuse(handle, "INVALID_TXN_STATE", self._must_be_heard(self._unheard))
        else:
            self._call = PendingCall(handle, kind, now + self.max_block_ms)
            result, self._unheard, self._result = self._result, None, None
            if result == DONE:
                self._done(kind)
            elif result is not None:
                self._refuse_call(*result)

    def _begin_call(self, now: int, message: TransactionCall) -> None:
        kind, handle = message.kind, message.handle
        expected: Mapping[str, tuple[State, ...]] = {
            "init": ("uninitialized",),
            "offsets": ("open",),
            "commit": ("open",),
            "abort": ("open", "abortable"),
        }
        if kind != "abort" and self.state == "abortable" and self.error is not None:
            self._refuse(handle, *self.error)
            return
        try:
            self._must_be(kind, *expected[kind])
        except InvalidTransactionState as refusal:
            self._refuse(handle, *(self.error or (refusal.kafka_error, str(refusal))))
            return
        self._call = PendingCall(handle, kind, now + self.max_block_ms)
        if kind == "init":
            self.state = "initializing"
        elif kind == "commit":
            self.state = "committing"
        elif kind == "abort":
            self.abort()
        elif message.group is not None:
            self._offsets = SentOffsets(message.group, message.offsets)

    def _must_be_heard(self, kind: str) -> str:
        return f"without the result of {kind}, which timed out: call it again"

    def abort(self) -> None:
        """End the transaction without what is in it."""
        self.state = "aborting"
        self.adding.clear()
        self._offsets = None

    def see(self, partition: TopicPartition) -> None:
        """A record is for this partition, which has to be added first."""
        if partition not in self.added:
            self.adding[partition] = None

    def _must_be(self, wanted: str, *states: State) -> None:
        if self.state not in states:
            cause = "" if self.error is None else self.error[0]
            raise InvalidTransactionState(wanted, self.state, cause, self.state == "abortable")

    # Errors

    def batch_failed(self, error: str, message: str) -> None:
        """Records were not written: the transaction can only be aborted."""
        if error == "PRODUCER_FENCED" or error in FATAL - {"INVALID_TXN_STATE"}:
            self.fail(error, message)
        elif self.state in ("open", "committing"):
            self._needs_epoch |= self.state == "open"
            self._give_up(error, message or "a batch of the transaction was not written")

    def fail(self, error: str, message: str) -> None:
        """Nothing more can be done with this producer."""
        self.state, self.error = "fatal", (error, message)
        self._refuse_call(error, message)

    def _give_up(self, error: str, message: str) -> None:
        """The transaction can only be aborted; an abort goes on."""
        if self.state in ("open", "committing"):
            self.state, self.error = "abortable", (error, message)
            self._offsets = None
            self._refuse_call(error, message)

    def _refuse_call(self, error: str, message: str) -> None:
        if self._call is not None:
            call, self._call = self._call, None
            self._refuse(call.handle, error, message)
        elif self._unheard is not None and self._result is None:
            self._result = error, message

    def _refuse(self, handle: Any, error: str, message: str) -> None:
        abortable = self.state != "fatal"
        self.outputs.append(TransactionFailed(handle, error, message, abortable))

    def _done(self, *kinds: str) -> None:
        if self._call is not None and self._call.kind in kinds:
            call, self._call = self._call, None
            self.outputs.append(TransactionDone(call.handle))
        elif self._unheard in kinds:
            self._result = DONE

    # Requests

    def run(self, now: int, *, is_idle: bool) -> None:
        """Ask the next thing. `is_idle`: no batch is without a result."""
        if self._call is not None and now >= self._call.until_ms:
            kind = self._call.kind
            waited = f"no result within {self.max_block_ms} ms (max.block.ms)"
            self._refuse_call(TIMED_OUT, waited)
            self._unheard = None if kind == "offsets" else kind
        self._is_idle = is_idle
        if self.is_asking or now < self._not_before:
            return
        if self._may_end:
            for partition in [*self.delivery.resolvable()]:
                self.delivery.resolve(partition)
            if not self._is_begun:
                self._ended()
        wanted = self._next()
        if wanted is not None:
            self._at(now, *wanted)

    def due(self, now: int) -> float:
        """When there is something to do by time alone."""
        until = inf if self._call is None else self._call.until_ms
        wanted = None if self.is_asking else self._next()
        if wanted is None:
            return until
        return min(until, max(self._not_before, now + 1, wanted[0].due(now)))

    def _next(self) -> "tuple[Coordinator, Callable[[int], None]] | None":
        """The next request and its coordinator, None if there is none to send."""
        if self.state == "fatal":
            return None
        if self.state == "initializing":
            return self._coordinator, self._initialize
        if self.state in ("open", "committing") and self.adding:
            return self._coordinator, self._add_partitions
        sent = self._offsets
        if sent is not None and not sent.is_added:
            return self._coordinator, lambda now: self._add_offsets(now, sent)
        if sent is not None:
            group = sent.group.group_id
            found = self._of_groups.setdefault(
                group, Coordinator(group, self.network, gives_up=False)
            )
            return found, lambda now: self._commit_offsets(now, found, sent)
        return (self._coordinator, self._end) if self._may_end else None

    @property
    def _may_end(self) -> bool:
        return self.is_ending and self._is_idle and not self.adding and self._offsets is None

    @property
    def is_asking(self) -> bool:
        """True if a request of the transaction is under way."""
        coordinators = self._coordinator, *self._of_groups.values()
        return self._asking or any(one.finding for one in coordinators)

    def _at(self, now: int, coordinator: Coordinator, ask: Callable[[int], None]) -> None:
        if coordinator.error is not None:
            error, coordinator.error = coordinator.error, None
            self._react(now, error)
        elif coordinator.is_ready(now):
            ask(now)
        else:
            coordinator.find(now)

    def _ask(self, now: int, body: Any, then: Then, of: Coordinator | None = None) -> None:
        self._asking = True

        def answered(at: int, answer: Any) -> None:
            self._asking = False
            if self.state != "fatal":
                then(at, answer)

        (of or self._coordinator).ask(now, body, answered)

    def _initialize(self, now: int) -> None:
        identity = self.delivery.producer_id, self.delivery.epoch
        body = t.InitTransactionalIdRequest(self.id, self.timeout_ms, *identity)

        def told(at: int, answer: InitProducerIdResponse | None) -> None:
            error = None if answer is None else answer.error
            if error in NOT_AUTHORIZED:
                self.state, self.error = "uninitialized", None
                self.delivery.producer_id = self.delivery.epoch = NONE
                self._refuse_call(error, "this producer may not have its transactional.id")
                return
            if answer is None or error is not None:
                self._react(at, error)
                return
            self._failures = 0
            self.delivery.identify(answer.producer_id, answer.producer_epoch)
            self.state, self.error, self._needs_epoch = "ready", None, False
            self._done("init", "abort", "commit")

        self._ask(now, body, told)

    def _add_partitions(self, now: int) -> None:
        asked = tuple(self.adding)
        identity = self.delivery.producer_id, self.delivery.epoch
        body = t.AddPartitionsToTxnRequest(self.id, *identity, asked, transaction_version=0)

        def told(at: int, answer: t.AddPartitionsToTxnResponse | None) -> None:
            errors = dict(answer.partitions) if answer is not None else {}
            wrong = [error for error in errors.values() if error is not None]
            # The others were not attempted: the reason is another one.
            wrong.sort(key="OPERATION_NOT_ATTEMPTED".__eq__)
            error = wrong[0] if wrong else None
            self._is_begun |= not wrong or error in RETRIABLE
            if answer is None or wrong:
                self._react(at, error, is_abortable=error not in FATAL)
                return
            self._failures = 0
            for partition in asked:
                self.adding.pop(partition, None)
                self.added.add(partition)

        self._ask(now, body, told)

    def _add_offsets(self, now: int, sent: SentOffsets) -> None:
        identity = self.delivery.producer_id, self.delivery.epoch
        body = t.AddOffsetsToTxnRequest(self.id, *identity, sent.group.group_id)

        def told(at: int, answer: t.AddOffsetsToTxnResponse | None) -> None:
            self._is_begun |= answer is None or answer.error is None or answer.error in RETRIABLE
            if answer is None or answer.error is not None:
                self._react(at, None if answer is None else answer.error)
                return
            self._failures, sent.is_added = 0, True

        self._ask(now, body, told)

    def _commit_offsets(self, now: int, of: Coordinator, sent: SentOffsets) -> None:
        group = sent.group
        rows = [
            g.CommittedPartition(partition, offset, epoch, metadata)
            for partition, (offset, epoch, metadata) in sent.offsets.items()
        ]
        body = g.TxnOffsetCommitRequest(
            *(group.group_id, self.id, self.delivery.producer_id, self.delivery.epoch, rows),
            *(group.member_id, group.generation_id, group.group_instance_id),
        )

        def told(at: int, answer: g.TxnOffsetCommitResponse | None) -> None:
            wrong = [] if answer is None else [e for _, e in answer.partitions if e is not None]
            if answer is None or wrong:
                self._react(at, wrong[0] if wrong else None, of)
                return
            self._failures = 0
            if self._offsets is sent:
                self._offsets = None
                self._done("offsets")

        self._ask(now, body, told, of)

    # The end

    def _end(self, now: int) -> None:
        identity = self.delivery.producer_id, self.delivery.epoch
        commits = self.state == "committing"
        body = t.EndTxnRequest(self.id, *identity, commits, transaction_version=0)

        def told(at: int, answer: t.EndTxnResponse | None) -> None:
            if answer is None or answer.error is not None:
                error = None if answer is None else answer.error
                if error == FORGOTTEN and not commits:  # the coordinator knows of none
                    self._needs_epoch = True
                    self._ended()
                elif error == "TRANSACTION_ABORTABLE" and not commits:
                    self.fail(error, "the coordinator does not abort it")
                else:
                    self._react(at, error)
                return
            self._failures = 0
            self._ended()

        self._ask(now, body, told)

    def _ended(self) -> None:
        """The next transaction may begin, in another epoch if one is needed."""
        self.added.clear()
        self.adding.clear()
        self._is_begun = False
        if self._needs_epoch or self.delivery.restarting:
            self.state = "initializing"
        else:
            self.state, self.error = "ready", None
            self._done("abort", "commit")

    def _react(
        self,
        now: int,
        error: str | None,
        group: Coordinator | None = None,
        *,
        is_abortable: bool = False,
    ) -> None:
        """Do what an error asks for; None is a connection that has ended."""
        if error is None or error in (MOVED if group is None else COORDINATOR_MOVED):
            (group or self._coordinator).unknown(now)
        elif error in RETRIABLE:
            self._not_before = now + self.network.backoff.wait_ms(self._failures)
            self._failures += 1
        elif error in FENCED:
            self.fail("PRODUCER_FENCED", "another producer has this transactional.id now")
        elif (is_abortable or error in ABORTABLE) and self.is_open:
            self._needs_epoch |= error == FORGOTTEN
            self._give_up(error, "the transaction can only be aborted")
        else:
            self.fail(error, "the coordinator refuses it, and this producer cannot go on")
