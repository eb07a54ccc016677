"""GroupOffsets: the offset of one partition that a classic group commits, keeps and loses.

The broker's own coordinator and its classic groups run on a log of committed records only. Two
members, `a` and `b`, represent all; a tick is a minute.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, ClassVar

from attrs import define, field, frozen

from properties.conformance.binding import Binding, Bound, Environment, OtherAction
from properties.modules.descriptor import Module
from properties.tla import Rec, Value
from refimpl.coordinator.operation import Answer, TimerKey, TransactionalWrite
from refimpl.errors import Refusal
from refimpl.groups.classic_records import record_of
from refimpl.groups.config import GroupConfig
from refimpl.groups.consumer_topics import TopicView
from refimpl.groups.registry import LOGICS, new_coordinator
from refimpl.groups.shard import EXPIRE, GroupCoordinator
from refimpl.groups.store import GroupStore
from refimpl.groups.topics import TopicDescription
from refimpl.machines.classic_group import ClassicGroup
from refimpl.messages import group as m
from refimpl.messages.broker import TopicPartition
from refimpl.records.consumer_protocol import Subscription
from refimpl.records.coordinators import (
    GROUP_RECORDS,
    CoordinatorRecord,
    OffsetCommitKey,
    OffsetCommitValue,
)
from refimpl.records.schema import INT16, Uuid, write

GROUP, NAME = "g", TopicPartition("t", 0)
TICK_MS, START_MS = 60_000, 1_000_000_000
JOIN = TimerKey("join", GROUP)


@cache
def answered(error: str) -> type[Refusal]:
    """The refusal that a client receives under this name."""
    return type(error, (Refusal,), {"kafka_error": error})


def id_of(topic: int) -> Uuid:
    """The id of the topic that bears the name as the so-manieth."""
    return Uuid(topic.to_bytes(16, "big"))


@define(eq=False)
class CommittedLog:
    """A log that is replicated at once."""

    records: list[CoordinatorRecord] = field(factory=list[CoordinatorRecord])

    @property
    def start(self) -> int:
        return 0

    @property
    def end(self) -> int:
        return len(self.records)

    @property
    def high_watermark(self) -> int:
        return len(self.records)

    def append(
        self,
        now: int,
        records: Sequence[CoordinatorRecord],
        transaction: TransactionalWrite | None = None,
    ) -> int:
        self.records += records
        return len(self.records) - 1

    def read(self, offset: int, size: int) -> tuple[Sequence[tuple[int, CoordinatorRecord]], int]:
        return list(enumerate(self.records[offset:], offset)), len(self.records)


@frozen
class NoTopics:
    """Classic groups do not ask what topics there are."""

    version = 0

    def names(self) -> Sequence[str]:
        return ()

    def by_name(self, name: str) -> TopicDescription | None:
        return None

    def by_id(self, topic_id: Uuid) -> TopicDescription | None:
        return None


class GroupOffsets(Binding):
    """A coordinator, and two members."""

    module = "GroupOffsets"
    knobs: ClassVar = {
        "Fenced": True,
        "AwaitAssignment": True,
        "KeptInUse": True,
        "KeptMeanwhile": True,
        "CountFromCommit": True,
        "SameTopic": True,
    }
    shared_on_purpose: ClassVar = (GroupStore, CommittedLog, TopicView, *LOGICS)

    def __init__(self, constants: Mapping[str, Value]) -> None:
        self.max_generation: int = constants["MaxGeneration"]
        self.max_topic: int = constants["MaxTopic"]
        self.retention: int = constants["Retention"]
        self.config = GroupConfig(
            offsets_retention_minutes=self.retention, initial_rebalance_delay_ms=1
        )
        self._anew()

    def _anew(self) -> None:
        self.log, self.topics = CommittedLog(), NoTopics()
        self.now, self.tokens, self.ids = START_MS, 0, 0
        self.topic, self.by, self.gone, self.subscribed = 1, 0, "", False
        self.members = ["", ""]
        self.coordinator = self._elected()

    def _elected(self) -> GroupCoordinator:
        coordinator = new_coordinator(0, self.log, self.config, self.topics, self._new_id)
        coordinator.load(self.now)
        return coordinator

    def _new_id(self) -> str:
        self.ids += 1
        return str(self.ids)

    def _ask(self, request: Any) -> Any:
        """The answer, None if it waits for other requests."""
        self.tokens += 1
        outputs = self.coordinator.handle(self.now, self.tokens, request)
        self._replicated()
        answers = {one.token: one.body for one in outputs if isinstance(one, Answer)}
        answer = answers.get(self.tokens)
        if answer is not None:
            self.tokens -= 1
        return answer

    def _replicated(self) -> None:
        """Followers have all that is written."""
        self.coordinator.committed(self.log.high_watermark)

    def _due(self, key: TimerKey) -> None:
        self.coordinator.due(self.now, key)
        self._replicated()

    @property
    def _group(self) -> ClassicGroup:
        return self.coordinator.shard.store.groups.get(GROUP) or ClassicGroup()

    # The group

    def _must_be(self, phase: str) -> None:
        if self._group.state != phase:
            raise OtherAction

    def _has_a_generation_left(self) -> None:
        if self._group.generation >= self.max_generation:
            raise Bound

    def _joins(self, which: int) -> None:
        topics = (NAME.topic,) if self.subscribed else ("another",)
        metadata = INT16.packing.pack(0) + write(Subscription(topics=topics), 0)
        request = m.JoinGroupRequest(
            GROUP,
            10_000,
            10_000,
            self.members[which],
            None,
            "consumer",
            (("range", metadata),),
            client_id="ab"[which],
            requires_known_member_id=False,
        )
        known = set(self._group.members)
        self._ask(request)
        if not self.members[which]:
            (self.members[which],) = set(self._group.members) - known

    def join(self, s: bool) -> None:
        self._must_be("Empty")
        self._has_a_generation_left()
        self.members, self.subscribed = ["", ""], s
        self._joins(0)
        self._joins(1)

    def rejoin(self) -> None:
        self._must_be("Stable")
        self._has_a_generation_left()
        self._joins(0)

    def complete(self) -> None:
        self._must_be("PreparingRebalance")
        self._has_a_generation_left()
        if self._group.initial is None:
            self._joins(1)
        self._joins_are_over()

    def _joins_are_over(self) -> None:
        """The initial delay ends without further members."""
        while self._group.state == "PreparingRebalance":
            self._due(JOIN)

    def sync(self) -> None:
        self._must_be("CompletingRebalance")
        for member in self.members:
            generation, assigned = self._group.generation, [(one, b"") for one in self.members]
            given = assigned if member == self._group.leader else ()
            self._ask(m.SyncGroupRequest(GROUP, generation, member, assignments=given))

    def leave(self) -> None:
        if self._group.state == "Empty":
            raise OtherAction
        self._has_a_generation_left()
        self._ask(m.LeaveGroupRequest(GROUP, [m.LeavingMember(one) for one in self.members]))
        self._joins_are_over()
        self.subscribed = False

    # Offsets

    def _committed(self) -> Any:
        return self.coordinator.shard.store.offsets.get((GROUP, NAME))

    def commit(self, g: int, o: int) -> None:
        """Member `a` of generation `g` commits, or a client outside the group."""
        member, generation = (self.members[0] or "gone", g) if g else ("", -1)
        commit = m.CommittedPartition(NAME, o, topic_id=id_of(self.topic))
        request = m.OffsetCommitRequest(GROUP, member, generation, None, [commit])
        ((_, error),) = self._ask(request).partitions
        if error is not None:
            raise answered(error)
        self.by, self.gone = g, ""

    def delete(self) -> None:
        if self._group.state not in ("Empty", "Stable"):
            raise Environment
        if self._committed() is None:
            raise OtherAction
        answer = self._ask(m.OffsetDeleteRequest(GROUP, [NAME]))
        error = answer.error or answer.partitions[0][1]
        if error is not None:
            raise answered(error)
        self.gone = "deletion"

    def expire(self) -> None:
        if self._committed() is None:
            raise OtherAction
        self._due(EXPIRE)
        if self._committed() is not None:
            raise OtherAction
        self.gone = "expiry"

    # The world

    def _age(self, since: int) -> int:
        return min(self.retention, (self.now - since) // TICK_MS)

    def _ages(self) -> tuple[int, int]:
        """Of the offset, and of the group without members."""
        committed, group = self._committed(), self._group
        age = 0 if committed is None else self._age(committed.commit_timestamp)
        if group.state != "Empty":
            return age, 0
        known = self.coordinator.shard.store.groups.get(GROUP) is not None
        return age, self._age(group.since) if known else self.retention

    def tick(self) -> None:
        ages = self._ages()
        self.now += TICK_MS
        if self._ages() == ages:
            self.now -= TICK_MS
            raise OtherAction

    def recreate_topic(self) -> None:
        if self.topic >= self.max_topic:
            raise Bound
        was = self._committed()
        gone = NAME.topic, id_of(self.topic)
        self.coordinator.operate(self.now, lambda shard: shard.topic_deleted(*gone))
        self._replicated()
        if was is not None and self._committed() is None:
            self.gone = "topic"
        self.topic += 1

    def recreate_unseen(self) -> None:
        if self.topic >= self.max_topic:
            raise Bound
        self.topic += 1

    def reload(self) -> None:
        if self._group.state not in ("Empty", "Stable"):
            raise Environment
        self.coordinator.resign()
        self.coordinator = self._elected()

    # Looking

    def _shown(self) -> Value:
        value = self._committed()
        if value is None:
            return Rec.of(value=0, topic=0, by=0)
        return Rec.of(value=value.offset, topic=int.from_bytes(value.topic_id, "big"), by=self.by)

    def _fetched(self) -> int:
        wanted = [(NAME, id_of(self.topic))]
        answer = self._ask(m.OffsetFetchRequest(GROUP, wanted))
        return max(0, answer.partitions[0].offset)

    def load(self, state: Mapping[str, Value]) -> None:
        """The way to this state: a group of the generation before, and the steps from there."""
        self._anew()
        phase, generation = state["phase"], state["generation"]
        before = generation - (phase in ("CompletingRebalance", "Stable"))
        if before or (phase == "Empty" and generation):
            since = self.now - state["idle"] * TICK_MS
            empty = ClassicGroup(generation=before, protocol_type="consumer", since=since)
            self._write(record_of(GROUP, empty))
        most, self.max_generation = self.max_generation, 1000
        if phase != "Empty":
            self.join(state["subscribed"])
        if phase in ("CompletingRebalance", "Stable"):
            self.complete()
        if phase == "Stable":
            self.sync()
        self.max_generation = most
        committed = dict(state["committed"].items())
        if committed["value"]:
            self._commit_as_it_was(committed, self.now - state["age"] * TICK_MS)
        self.topic, self.by, self.gone = state["topic"], committed["by"], state["gone"]

    def _write(self, record: CoordinatorRecord) -> None:
        self.log.records.append(record)
        self.coordinator.shard.store.replay(record)
        self.coordinator.written = self.log.end

    def _commit_as_it_was(self, committed: Mapping[str, int], timestamp: int) -> None:
        value = OffsetCommitValue(
            offset=committed["value"],
            metadata="",
            commit_timestamp=timestamp,
            topic_id=id_of(committed["topic"]),
        )
        self._write(CoordinatorRecord(GROUP_RECORDS[1], OffsetCommitKey(GROUP, *NAME), value, 4))


GroupOffsets.projection = {
    "phase": lambda c: c._group.state,
    "generation": lambda c: c._group.generation,
    "subscribed": lambda c: c.subscribed,
    "committed": lambda c: c._shown(),
    "topic": lambda c: c.topic,
    "age": lambda c: c._ages()[0],
    "idle": lambda c: c._ages()[1],
    "gone": lambda c: c.gone,
    "fetch": lambda c: c._fetched(),
}

MODULE = Module(binding=GroupOffsets, machines=("offsets", "classic"))
