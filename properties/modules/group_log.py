"""GroupLog: the group coordinator of one partition, and its log.

The coordinator is the broker's own. Its logic, for one type of groups, writes the requested
records. Members hold partitions in the spec; here groups have committed offsets. The log is a list,
from which a cleaner has removed some records.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, ClassVar

from attrs import define, field, frozen

from properties.conformance.binding import Binding, Bound, Environment, OtherAction
from properties.modules.descriptor import Module
from properties.tla import Value
from refimpl.coordinator.errors import CoordinatorLoadInProgress
from refimpl.coordinator.operation import (
    Answer,
    Handler,
    Outcome,
    Output,
    Token,
    TransactionalWrite,
)
from refimpl.coordinator.runtime import APPEND, LOAD, CoordinatorState, Deferred
from refimpl.errors import Refusal
from refimpl.groups.config import GroupConfig
from refimpl.groups.offsets import tombstone
from refimpl.groups.shard import GroupCoordinator, coordinator_of
from refimpl.groups.store import GroupStore
from refimpl.messages import group as m
from refimpl.messages.broker import TopicPartition
from refimpl.records.coordinators import (
    GROUP_RECORDS,
    CoordinatorRecord,
    OffsetCommitKey,
    OffsetCommitValue,
)

GROUP, TOPIC = "g", "t"
CONFIG = GroupConfig()


class AppendRefused(Refusal):
    """The log takes nothing now."""

    kafka_error = "KAFKA_STORAGE_ERROR"


@cache
def name(key: int) -> TopicPartition:
    """The partition whose offset represents a key of the spec."""
    return TopicPartition(TOPIC, key)


@cache
def record(key: int, value: int) -> CoordinatorRecord:
    """A committed offset, or with 0 the end of one."""
    if value == 0:
        return tombstone(GROUP, name(key))
    content = OffsetCommitValue(offset=value, metadata="", commit_timestamp=0)
    return CoordinatorRecord(GROUP_RECORDS[1], OffsetCommitKey(GROUP, TOPIC, key), content, 4)


@define(eq=False)
class ListedLog:
    """A log whose offsets begin at 0, read one record at a time."""

    records: list[tuple[int, int]] = field(factory=list[tuple[int, int]])
    gone: set[int] = field(factory=set[int])
    high_watermark: int = 0
    refuses: bool = False

    @property
    def start(self) -> int:
        return 0

    @property
    def end(self) -> int:
        return len(self.records)

    def append(
        self,
        now: int,
        records: Sequence[CoordinatorRecord],
        transaction: TransactionalWrite | None = None,
    ) -> int:
        if self.refuses:
            raise AppendRefused
        for one in records:
            value = 0 if one.value is None else one.value.offset
            self.records.append((one.key.partition, value))
        return len(self.records) - 1

    def read(self, offset: int, size: int) -> tuple[Sequence[tuple[int, CoordinatorRecord]], int]:
        if offset >= len(self.records):
            return (), offset
        if offset in self.gone:
            return (), offset + 1
        return [(offset, record(*self.records[offset]))], offset + 1


@frozen
class WritesTombstones:
    """The logic of a type of groups: a leave deletes the group's offset, a heartbeat reads it."""

    group_type: str = "none"
    timers: Mapping[str, Any] = {}
    record_types: frozenset[int] = frozenset()

    @property
    def handlers(self) -> Mapping[type, Handler]:
        return {m.LeaveGroupRequest: self.leave, m.HeartbeatRequest: self.heartbeat}

    def leave(self, now: int, token: Token, request: m.LeaveGroupRequest) -> Outcome:
        gone = record(int(request.members[0].member_id), 0)
        return Outcome([gone], (Answer(token, m.LeaveGroupResponse(None)),))

    def heartbeat(self, now: int, token: Token, request: m.HeartbeatRequest) -> Outcome:
        return Outcome(answers=(Answer(token, m.HeartbeatResponse(None)),))


class GroupLog(Binding):
    """A coordinator and its log; a token is the number of records that its answer rests on."""

    module = "GroupLog"
    knobs: ClassVar = {
        "AnswerCommitted": True,
        "AppendFirst": True,
        "LoadToEnd": True,
        "KeepOnTimeOut": True,
        "ReadCommitted": True,
        "HearWhileLoading": True,
        "TombstonesStay": True,
        "ReplayIsTotal": True,
    }
    shared_on_purpose: ClassVar = (GroupStore, ListedLog)

    def __init__(self, constants: Mapping[str, Value]) -> None:
        self.keys = tuple(range(1, constants["Keys"] + 1))
        self.max_log: int = constants["MaxLog"]
        self.log = ListedLog()
        self.now = self.tokens = 0
        self.rests_on: dict[Token, tuple[tuple[int, int], ...]] = {}
        self.told: tuple[tuple[int, int], ...] = ()
        self.coordinator = self._elected()
        self.coordinator.load(0)

    def _elected(self) -> GroupCoordinator:
        store = GroupStore()
        store.serve((WritesTombstones(),))  # type: ignore[arg-type]
        return coordinator_of(0, self.log, store, CONFIG)

    def _take(self, outputs: Sequence[Output]) -> None:
        """A client that receives an answer, and no refusal, relies on everything that the answer
        rests on."""
        for output in outputs:
            if isinstance(output, Answer):
                rested = self.rests_on.pop(output.token)
                body = output.body
                error = body.partitions[0][1] if hasattr(body, "partitions") else body.error
                if error is None and len(rested) > len(self.told):
                    self.told = rested

    def _handle(self, request: Any) -> None:
        """The answer rests on all that is written when it is decided."""
        self.now += 1
        self.tokens += 1
        outputs = self.coordinator.handle(self.now, self.tokens, request)
        self.rests_on[self.tokens] = tuple(self.log.records)
        self._take(outputs)

    def _values(self, *, committed: bool) -> tuple[int, ...]:
        offsets = self.coordinator.shard.store.offsets
        view = offsets.committed if committed else offsets.get
        found = [view((GROUP, name(key))) for key in self.keys]
        return tuple([0 if one is None else one.offset for one in found])

    def _request(self, k: int, v: int) -> Any:
        """The request that writes this record. A partition is assigned only if it has no owner."""
        self._must_be_active()
        if len(self.log.records) >= self.max_log:
            raise Bound
        held = self._values(committed=False)
        if v and v in (*held[: k - 1], *held[k:]):
            raise Environment
        if v == 0:
            return m.LeaveGroupRequest(GROUP, [m.LeavingMember(str(k))])
        commit = m.CommittedPartition(name(k), v)
        return m.OffsetCommitRequest(GROUP, "", -1, None, [commit])

    def _must_be_active(self) -> None:
        """Refused as a client is that comes too early."""
        if self.coordinator.state is CoordinatorState.LOADING:
            (output,) = self.coordinator.handle(self.now, 0, m.DeleteGroupRequest(GROUP))
            if output == Answer(0, m.DeleteGroupResponse(GROUP, "COORDINATOR_LOAD_IN_PROGRESS")):
                raise CoordinatorLoadInProgress(0, self.coordinator.position, self.log.end)

    # The coordinator

    def op(self, k: int, v: int) -> None:
        self._handle(self._request(k, v))

    def fail_append(self, k: int, v: int) -> None:
        request = self._request(k, v)
        self.log.refuses = True
        self._handle(request)
        self.log.refuses = False

    def ask(self) -> None:
        self._must_be_active()
        self._handle(m.HeartbeatRequest(GROUP, 0, ""))

    def time_out(self) -> None:
        deferred = self.coordinator.deferred
        if not deferred:
            raise OtherAction
        first = [one for one in deferred if one.end == deferred[0].end]
        deadline = first[-1].deadline_ms
        self.now = max(self.now, deadline)
        self._take(self.coordinator.due(deadline, APPEND))

    def load_next(self) -> None:
        if self.coordinator.state is not CoordinatorState.LOADING:
            raise OtherAction
        self._take(self.coordinator.due(self.now, LOAD))

    # The log

    def advance(self, n: int) -> None:
        if not self.log.high_watermark < n <= self.log.end:
            raise Environment
        self.log.high_watermark = n
        self._take(self.coordinator.committed(n))

    def elect(self, n: int) -> None:
        if not self.log.high_watermark <= n <= self.log.end:
            raise Environment
        self._take(self.coordinator.resign())
        del self.log.records[n:]
        self.coordinator = self._elected()

    def compact(self, i: int) -> None:
        self._clean(i)
        later = self.log.records[i : self.log.high_watermark]
        if self.log.records[i - 1][0] not in [key for key, _ in later]:
            raise Environment
        self.log.gone.add(i - 1)

    def drop_tombstone(self, i: int) -> None:
        self._clean(i)
        key, value = self.log.records[i - 1]
        earlier = [at for at in range(i - 1) if self.log.records[at][0] == key]
        loading = self.coordinator.state is CoordinatorState.LOADING
        if value or not self.log.gone.issuperset(earlier):
            raise Environment
        if loading and 0 < self.coordinator.position < i:
            raise Environment
        self.log.gone.add(i - 1)

    def _clean(self, i: int) -> None:
        if i > self.log.high_watermark or i - 1 in self.log.gone:
            raise Environment

    def load(self, state: Mapping[str, Value]) -> None:
        """The coordinator in a state of the spec.

        It has replayed the records above the high watermark one by one, and loaded the rest as a
        whole.
        """
        high_watermark, records = state["hw"], list(state["log"])
        gone = {at - 1 for at in state["gone"]}
        self.log = ListedLog(records, gone, high_watermark)
        self.told, self.now, self.tokens, self.rests_on = state["told"], 0, 0, {}
        coordinator = self.coordinator = self._elected()
        coordinator.state = CoordinatorState(state["role"])
        coordinator.position = state["position"]
        for key, value in zip(self.keys, state["stable"], strict=True):
            if value:
                coordinator.shard.store.replay(record(key, value))
        end = state["position"] if coordinator.state is CoordinatorState.LOADING else len(records)
        for offset in range(high_watermark, end):
            coordinator.shard.store.replay(record(*records[offset]), offset)
        for count in sorted(state["waiting"]):
            self.now += 1
            self.tokens += 1
            request = m.HeartbeatRequest(GROUP, 0, "")
            coordinator.waiting[self.tokens] = request
            answer = Answer(self.tokens, m.HeartbeatResponse(None))
            deadline = self.now + CONFIG.offsets_commit_timeout_ms
            coordinator.deferred.append(Deferred(count, deadline, (answer,)))
            self.rests_on[self.tokens] = tuple(records[:count])


GroupLog.projection = {
    "log": lambda c: tuple(c.log.records),
    "gone": lambda c: frozenset(at + 1 for at in c.log.gone),
    "hw": lambda c: c.log.high_watermark,
    "role": lambda c: c.coordinator.state.value,
    "position": lambda c: c.coordinator.position,
    "state": lambda c: c._values(committed=False),
    "stable": lambda c: c._values(committed=True),
    "waiting": lambda c: frozenset(one.end for one in c.coordinator.deferred),
    "told": lambda c: c.told,
}

MODULE = Module(binding=GroupLog, machines=("runtime", "store", "versioned"))
