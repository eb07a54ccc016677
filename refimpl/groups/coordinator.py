"""The group coordinator of one partition of `__consumer_offsets`, while its broker leads it.

Its state is a replay of that log. An operation decides on records; they are appended as one batch
and replayed; its answers go out once the high watermark has passed all that was written when they
were decided, so that nobody is told what may yet be lost. Kafka's CoordinatorRuntime, without its
threads.

Spec: GroupLog. KIP-848, KAFKA-16374, KAFKA-17267.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from attrs import define, field

from refimpl.errors import Refusal
from refimpl.groups.config import GroupConfig
from refimpl.groups.errors import (
    CoordinatorLoadInProgress,
    NotCoordinator,
    UnsupportedGroupRequest,
)
from refimpl.groups.log import CoordinatorLog
from refimpl.groups.offsets import Offsets
from refimpl.groups.operation import (
    Answer,
    GroupLogic,
    Handler,
    Outcome,
    Performed,
    TimerKey,
    Token,
)
from refimpl.groups.operators import Operators
from refimpl.groups.store import GroupStore
from refimpl.messages import group as m


class State(Enum):
    """Where a coordinator stands."""

    LOADING = "loading"
    ACTIVE = "active"
    CLOSED = "closed"


class SetTimer(NamedTuple):
    """Come back with this key at that time in ms, and not when it was said before; None: never."""

    key: TimerKey
    at_ms: int | None


class Deferred(NamedTuple):
    """Answers that wait until all before this offset is committed, and until when."""

    end: int
    deadline_ms: int
    answers: Sequence[Answer]


Output: TypeAlias = Answer | SetTimer | Performed

LOAD, APPEND, EXPIRE = TimerKey("load"), TimerKey("append"), TimerKey("expire offsets")

_APPEND_ERRORS: Mapping[str, str] = {
    "UNKNOWN_TOPIC_OR_PARTITION": "COORDINATOR_NOT_AVAILABLE",
    "NOT_ENOUGH_REPLICAS": "COORDINATOR_NOT_AVAILABLE",
    "REQUEST_TIMED_OUT": "COORDINATOR_NOT_AVAILABLE",
    "NOT_LEADER_OR_FOLLOWER": "NOT_COORDINATOR",
    "KAFKA_STORAGE_ERROR": "NOT_COORDINATOR",
    "MESSAGE_TOO_LARGE": "UNKNOWN_SERVER_ERROR",
    "RECORD_LIST_TOO_LARGE": "UNKNOWN_SERVER_ERROR",
}
"""What a client is told of what became of an append."""


@define(eq=False)
class GroupCoordinator:
    """The groups of one partition, from an election of its broker to the next resignation."""

    partition: int
    log: CoordinatorLog
    config: GroupConfig
    logics: Sequence[GroupLogic]
    store: GroupStore
    state: State = State.LOADING
    #: How far the log has been read
    position: int = field(init=False)
    #: Where what was written, or was there to be loaded, ends
    written: int = field(init=False)
    #: Requests without an answer
    waiting: dict[Token, Any] = field(factory=dict[Token, Any])
    deferred: deque[Deferred] = field(factory=lambda: deque[Deferred]())
    offsets: Offsets = field(init=False)
    operators: Operators = field(init=False)
    _handlers: Mapping[type, Handler] = field(init=False)
    _outputs: list[Output] = field(factory=list[Output])

    def __attrs_post_init__(self) -> None:
        """Look up once who handles what."""
        self.position, self.written = self.log.start, self.log.end
        self.offsets = Offsets(self.store, self.config)
        self.operators = Operators(self.store)
        self._handlers = {
            **self.offsets.handlers,
            **self.operators.handlers,
            **{kind: self._by_type for one in self.logics for kind in one.handlers},
        }

    # Loading

    def load(self, now: int) -> Sequence[Output]:
        """Read on; when all is read that was there at the election, the coordinator is active.

        What stands above the high watermark counts as written, and not yet as committed.
        """
        if self.state is State.LOADING:
            records, self.position = self.log.read(
                self.position, self.config.offsets_load_buffer_size
            )
            high_watermark = self.log.high_watermark
            for offset, record in records:
                self.store.replay(record, None if offset < high_watermark else offset)
            if self.position < self.written:
                self._outputs.append(SetTimer(LOAD, now))
            else:
                self._activate(now)
        return self._take_outputs()

    def _activate(self, now: int) -> None:
        self.state = State.ACTIVE
        self.committed(self.log.high_watermark)
        for group_id, group in list(self.store.groups.current.items()):
            self._perform(now, self.store.logic_of(group).loaded(now, group_id, group))
        self._set(EXPIRE, now + self.config.offsets_retention_check_interval_ms)

    # Requests

    def handle(self, now: int, token: Token, request: Any) -> Sequence[Output]:
        """Take a request; its answer is among these outputs, or later ones."""
        self.waiting[token] = request
        try:
            if self.state is not State.ACTIVE:
                raise self._not_active()
            handler = self._handlers.get(request.__class__)
            if handler is None:
                raise UnsupportedGroupRequest(type(request).__name__)
            self._perform(now, handler(now, token, request), request)
        except Refusal as refusal:
            self._refuse(now, token, request, refusal)
        return self._take_outputs()

    def _by_type(self, now: int, token: Token, request: Any) -> Outcome:
        """The logic of the group that is there and has members, if it takes such requests, or else
        the first that does: a classic member may be one of a consumer group (KIP-848)."""
        kind, group = request.__class__, self.store.groups.get(request.group_id)
        logics = [one for one in self.logics if kind in one.handlers]
        if group is not None:
            logics.sort(key=lambda one: not one.owns(group) or one.is_empty(group))
        return logics[0].handlers[kind](now, token, request)

    def _not_active(self) -> Refusal:
        if self.state is State.LOADING:
            return CoordinatorLoadInProgress(self.partition, self.position, self.written)
        return NotCoordinator(self.partition)

    def _refuse(self, now: int, token: Token, request: Any, refusal: Refusal) -> None:
        """A refusal is an answer like any other: it may rest on what is not committed yet."""
        error = refusal.kafka_error
        if isinstance(refusal, CoordinatorLoadInProgress) and isinstance(
            request, m.HeartbeatRequest
        ):
            body: Any = m.HeartbeatResponse(None)  # as Kafka: a member is not to rejoin for it
        else:
            body = m.refused(request, error, str(refusal).partition(": ")[2])
        active = self.state is State.ACTIVE
        if active and request.__class__ in m.REQUESTS:
            group = self.store.groups.get(request.group_id)
            self._outputs.append(Performed(request, error, group, group, (), self.written))
        self._answer(now, (Answer(token, body),), waits=active)

    def due(self, now: int, key: TimerKey) -> Sequence[Output]:
        """The time of a timer has come."""
        if key == LOAD:
            return self.load(now)
        if self.state is State.ACTIVE:
            if key == APPEND:
                self._expire(now)
            elif key == EXPIRE:
                self._perform(now, self.offsets.expire(now))
                self._set(EXPIRE, now + self.config.offsets_retention_check_interval_ms)
            else:
                fire = next(one.timers[key.kind] for one in self.logics if key.kind in one.timers)
                self._perform(now, fire(now, key), key)
        return self._take_outputs()

    def topic_deleted(self, now: int, topic: str, topic_id: bytes) -> Sequence[Output]:
        """A topic is gone, and what is committed of it goes (KAFKA-2000)."""
        if self.state is State.ACTIVE:
            self._perform(now, self.offsets.topic_deleted(topic, topic_id))
        return self._take_outputs()

    # Operations

    def _perform(self, now: int, outcome: Outcome, about: Any = None) -> None:
        """Write down what was decided, take it over, and answer when it is committed.

        `about` is the request or the timer, if it is one group's.

        What cannot be written has changed nothing: it is replayed after it is appended. A refused
        append is the answer to everyone who would have been answered.
        """
        records, offset = outcome.records, None
        if records:
            try:
                offset = self.log.append(now, records)
            except Refusal as refusal:
                self._not_appended(now, outcome, refusal)
                return
            self.written = offset + 1
        groups = self.store.groups
        before = None if about is None else groups.get(about.group_id)
        self.store.apply(outcome.changes, offset)
        if about is not None:
            after = groups.get(about.group_id)
            performed = Performed(about, None, before, after, outcome.answers, self.written)
            self._outputs.append(performed)
        self._answer(now, outcome.answers, waits=outcome.waits)
        for key, at_ms in outcome.timers.items():
            self._set(key, at_ms)

    def _not_appended(self, now: int, outcome: Outcome, refusal: Refusal) -> None:
        error = _APPEND_ERRORS.get(refusal.kafka_error, "UNKNOWN_SERVER_ERROR")
        answers = [
            Answer(token, m.refused(self.waiting[token], error)) for token, _ in outcome.answers
        ]
        self._answer(now, answers, waits=False)

    # Answers

    def _answer(self, now: int, answers: Sequence[Answer], *, waits: bool) -> None:
        if not waits or self.log.high_watermark >= self.written:
            for answer in answers:
                self._release(answer)
        elif answers:
            deadline = now + self.config.offsets_commit_timeout_ms
            if not self.deferred:
                self._set(APPEND, deadline)
            self.deferred.append(Deferred(self.written, deadline, answers))

    def _release(self, answer: Answer) -> None:
        if self.waiting.pop(answer.token, None) is not None:
            self._outputs.append(answer)

    def committed(self, high_watermark: int) -> Sequence[Output]:
        """The high watermark has moved: whoever waited for it is answered, in order."""
        self.store.commit(high_watermark)
        deferred = self.deferred
        while deferred and deferred[0].end <= high_watermark:
            for answer in deferred.popleft().answers:
                self._release(answer)
        return self._take_outputs()

    def _expire(self, now: int) -> None:
        """offsets.commit.timeout.ms is over: nobody knows whether what was written stays."""
        deferred = self.deferred
        while deferred and deferred[0].deadline_ms <= now:
            for token, _ in deferred.popleft().answers:
                request = self.waiting.get(token)
                if request is not None:
                    stable = isinstance(request, m.OffsetFetchRequest)
                    error = "NOT_COORDINATOR" if stable else "COORDINATOR_NOT_AVAILABLE"
                    self._release(Answer(token, m.refused(request, error)))
        if deferred:
            self._set(APPEND, deferred[0].deadline_ms)

    def resign(self) -> Sequence[Output]:
        """Another broker leads, or none: nothing that is written here counts any more."""
        self.state = State.CLOSED
        self.deferred.clear()
        for token, request in list(self.waiting.items()):
            self._release(Answer(token, m.refused(request, NotCoordinator.kafka_error)))
        return self._take_outputs()

    # Outputs

    def _set(self, key: TimerKey, at_ms: int | None) -> None:
        self._outputs.append(SetTimer(key, at_ms))

    def _take_outputs(self) -> Sequence[Output]:
        outputs = tuple(self._outputs)
        self._outputs.clear()
        return outputs
