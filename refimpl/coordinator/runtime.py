"""The coordinator of one partition of an internal topic, while its broker leads the partition.

Its state is a replay of that log. An operation decides on records, which are appended as one batch
and replayed. Its answers go out once the high watermark has passed all records written so far. So
an answer never depends on a record that an election may still truncate. Kafka's CoordinatorRuntime,
without its threads.

Spec: GroupLog. KIP-848, KAFKA-16374, KAFKA-17267.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Generic, NamedTuple, TypeVar

from attrs import define, field

from refimpl.coordinator.errors import (
    CoordinatorLoadInProgress,
    NotCoordinator,
    UnsupportedCoordinatorRequest,
)
from refimpl.coordinator.log import CoordinatorLog
from refimpl.coordinator.operation import (
    Answer,
    LogStart,
    Outcome,
    Output,
    Performed,
    SetTimer,
    TimerKey,
    Token,
)
from refimpl.coordinator.shard import CoordinatorShard
from refimpl.errors import CorruptBatch, Refusal

S = TypeVar("S", bound=CoordinatorShard)


class CoordinatorState(Enum):
    """The states of a coordinator."""

    LOADING = "loading"
    ACTIVE = "active"
    CLOSED = "closed"


class Deferred(NamedTuple):
    """Answers that wait until all records before this offset are committed, and their deadline."""

    end: int
    deadline_ms: int
    answers: Sequence[Answer]


LOAD, APPEND = TimerKey("load"), TimerKey("append")
"""The runtime's own timers: to go on loading, and to give up records that are not committed in
time.
"""

_APPEND_ERRORS: Mapping[str, str] = {
    "UNKNOWN_TOPIC_OR_PARTITION": "COORDINATOR_NOT_AVAILABLE",
    "NOT_ENOUGH_REPLICAS": "COORDINATOR_NOT_AVAILABLE",
    "REQUEST_TIMED_OUT": "COORDINATOR_NOT_AVAILABLE",
    "NOT_LEADER_OR_FOLLOWER": "NOT_COORDINATOR",
    "KAFKA_STORAGE_ERROR": "NOT_COORDINATOR",
    "MESSAGE_TOO_LARGE": "UNKNOWN_SERVER_ERROR",
    "RECORD_LIST_TOO_LARGE": "UNKNOWN_SERVER_ERROR",
    **{
        error: error
        for error in (
            *("INVALID_PRODUCER_EPOCH", "INVALID_TXN_STATE", "OUT_OF_ORDER_SEQUENCE_NUMBER"),
            "TRANSACTION_COORDINATOR_FENCED",
        )
    },
}
"""The error that a client receives for each error of an append."""


@define(eq=False)
class Coordinator(Generic[S]):
    """The coordinator of one partition, from an election of its broker to its next resignation."""

    partition: int
    log: CoordinatorLog
    shard: S
    #: Bytes that one step of loading reads
    load_buffer_size: int
    #: The time for which an answer waits for its records to be committed
    commit_timeout_ms: int
    #: True if it becomes active only once everything that it has loaded is committed
    waits_for_commit: bool = False
    state: CoordinatorState = CoordinatorState.LOADING
    #: The offset up to which the log has been read
    position: int = field(init=False)
    #: The end of the records that were written, or that were there to be loaded
    written: int = field(init=False)
    #: The reason why its log could not be read
    failure: str | None = None
    #: Requests without an answer
    waiting: dict[Token, Any] = field(factory=dict[Token, Any])
    deferred: deque[Deferred] = field(factory=lambda: deque[Deferred]())
    _outputs: list[Output] = field(factory=list[Output])

    def __attrs_post_init__(self) -> None:
        """Load from the log's start to its end as it is now."""
        self.position, self.written = self.log.start, self.log.end

    # Loading

    def load(self, now: int) -> Sequence[Output]:
        """Load the next part of the log; at the log end of the election the coordinator becomes
        active.

        Records above the high watermark count as written, and not yet as committed. A coordinator
        whose log cannot be read does not serve what it has.
        """
        if self.state is CoordinatorState.LOADING:
            high_watermark = self.log.high_watermark
            try:
                records, self.position = self.log.read(self.position, self.load_buffer_size)
                for offset, record in records:
                    self.shard.replay(record, None if offset < high_watermark else offset, offset)
            except (CorruptBatch, Refusal) as failure:
                self.state, self.failure = CoordinatorState.CLOSED, str(failure)
                return self._take_outputs()
            if self.position < self.written:
                self._set(LOAD, now)
            elif self._may_act(high_watermark):
                self._activate(now)
        return self._take_outputs()

    def _may_act(self, high_watermark: int) -> bool:
        """True if nothing that was loaded may still be lost, or answers alone depend on it."""
        return not self.waits_for_commit or high_watermark >= self.written

    def _activate(self, now: int) -> None:
        self.state = CoordinatorState.ACTIVE
        self.committed(self.log.high_watermark)
        for outcome in self.shard.loaded(now):
            self._perform(now, outcome)

    # Requests

    def handle(self, now: int, token: Token, request: Any) -> Sequence[Output]:
        """Take a request; its answer is among these outputs, or later ones."""
        self.waiting[token] = request
        try:
            if self.state is not CoordinatorState.ACTIVE:
                raise self._not_active()
            handler = self.shard.handlers.get(request.__class__)
            if handler is None:
                raise UnsupportedCoordinatorRequest(type(request).__name__)
            self._perform(now, handler(now, token, request), request)
        except Refusal as refusal:
            self._refuse(now, token, request, refusal)
        return self._take_outputs()

    def _not_active(self) -> Refusal:
        if self.state is CoordinatorState.LOADING:
            return CoordinatorLoadInProgress(self.partition, self.position, self.written)
        return NotCoordinator(self.shard.topic, self.partition)

    def _refuse(self, now: int, token: Token, request: Any, refusal: Refusal) -> None:
        """Answer with a refusal. It waits as other answers do, because it may depend on records
        that are not committed yet.
        """
        error = refusal.kafka_error
        body = self.shard.refused(request, error, str(refusal).partition(": ")[2])
        active = self.state is CoordinatorState.ACTIVE
        key = self.shard.subject(request)
        if active and key is not None:
            value = self.shard.value(key)
            self._outputs.append(Performed(key, request, error, value, value, (), self.written))
        self._answer(now, (Answer(token, body),), waits=active)

    def due(self, now: int, key: TimerKey) -> Sequence[Output]:
        """Handle a timer that is due."""
        if key == LOAD:
            return self.load(now)
        if self.state is CoordinatorState.ACTIVE:
            if key == APPEND:
                self._expire(now)
            else:
                self._perform(now, self.shard.due(now, key), key)
        return self._take_outputs()

    def operate(self, now: int, decide: Callable[[S], Outcome]) -> Sequence[Output]:
        """Carry out an operation that no request or timer asked for."""
        if self.state is CoordinatorState.ACTIVE:
            self._perform(now, decide(self.shard))
        return self._take_outputs()

    # Operations

    def _perform(self, now: int, outcome: Outcome, about: Any = None) -> None:
        """Append the records of an operation, replay them, and answer once they are committed.

        A refused append has changed nothing, because records are replayed after they are appended.
        Every request that the operation would have answered receives that refusal.
        """
        records, offset = outcome.records, None
        if records or (outcome.transaction is not None and outcome.transaction.marker is not None):
            try:
                offset = self.log.append(now, records, outcome.transaction)
            except Refusal as refusal:
                self._not_appended(now, outcome, refusal)
                return
            self.written = offset + 1
        key = self.shard.subject(about)
        before = None if key is None else self.shard.value(key)
        self.shard.apply(outcome.changes, offset)
        if key is not None:
            after = self.shard.value(key)
            done = Performed(key, about, None, before, after, outcome.answers, self.written)
            self._outputs.append(done)
        self._answer(now, outcome.answers, waits=outcome.waits)
        for timer, at_ms in outcome.timers.items():
            self._set(timer, at_ms)
        if outcome.needed_from is not None and outcome.needed_from > self.log.start:
            self._outputs.append(LogStart(outcome.needed_from))

    def _not_appended(self, now: int, outcome: Outcome, refusal: Refusal) -> None:
        error = _APPEND_ERRORS.get(refusal.kafka_error, "UNKNOWN_SERVER_ERROR")
        answers = [
            Answer(token, self.shard.refused(self.waiting[token], error))
            for token, _ in outcome.answers
        ]
        self._answer(now, answers, waits=False)

    # Answers

    def _answer(self, now: int, answers: Sequence[Answer], *, waits: bool) -> None:
        if not waits or self.log.high_watermark >= self.written:
            for answer in answers:
                self._release(answer)
        elif answers:
            deadline = now + self.commit_timeout_ms
            if not self.deferred:
                self._set(APPEND, deadline)
            self.deferred.append(Deferred(self.written, deadline, answers))

    def _release(self, answer: Answer) -> None:
        if self.waiting.pop(answer.token, None) is not None:
            self._outputs.append(answer)

    def committed(self, high_watermark: int) -> Sequence[Output]:
        """Take a new high watermark: send the answers that waited for it, in order."""
        self.shard.commit(high_watermark)
        if self.state is CoordinatorState.LOADING and self.waits_for_commit:
            if self.position >= self.written <= high_watermark:
                self._set(LOAD, 0)
            return self._take_outputs()
        deferred = self.deferred
        while deferred and deferred[0].end <= high_watermark:
            for answer in deferred.popleft().answers:
                self._release(answer)
        return self._take_outputs()

    def _expire(self, now: int) -> None:
        """Refuse requests whose records were not committed in time; they may still be committed."""
        deferred = self.deferred
        while deferred and deferred[0].deadline_ms <= now:
            for token, _ in deferred.popleft().answers:
                request = self.waiting.get(token)
                if request is not None:
                    error = self.shard.timed_out(request)
                    self._release(Answer(token, self.shard.refused(request, error)))
        if deferred:
            self._set(APPEND, deferred[0].deadline_ms)

    def resign(self) -> Sequence[Output]:
        """Close the coordinator, because its broker no longer leads: records written here may be
        lost.
        """
        self.state = CoordinatorState.CLOSED
        self.deferred.clear()
        for token, request in list(self.waiting.items()):
            self._release(Answer(token, self.shard.refused(request, NotCoordinator.kafka_error)))
        return self._take_outputs()

    # Outputs

    def _set(self, key: TimerKey, at_ms: int | None) -> None:
        self._outputs.append(SetTimer(key, at_ms))

    def _take_outputs(self) -> Sequence[Output]:
        outputs = tuple(self._outputs)
        self._outputs.clear()
        return outputs
