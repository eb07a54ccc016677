"""Records a group of the consumer protocol as steps of ConsumerCoordinator."""

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field

from chaos.recorders.group import GroupRecorder, by_partition
from refimpl.coordinator.operation import Performed, TimerKey
from refimpl.events import Json, as_set
from refimpl.machines.consumer_group import (
    LEAVE,
    LEAVE_FOR_A_WHILE,
    ConsumerGroup,
    ConsumerMember,
    Partition,
)
from refimpl.messages import group as m
from refimpl.messages.broker import TopicPartition
from refimpl.projection import CONSUMER_GROUP, consumer_member
from refimpl.records.schema import Uuid

FENCED = "UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH", "GROUP_ID_NOT_FOUND"
STALE = "UNKNOWN_MEMBER_ID", "STALE_MEMBER_EPOCH", "GROUP_ID_NOT_FOUND"
UNKNOWN = ConsumerMember("")
PERHAPS_OTHERS = 0
"""The ownership of a heartbeat that does not report its partitions."""


@define(eq=False)
class ConsumerGroupRecorder(GroupRecorder):
    """The steps of one group; static members end the recording."""

    topics: Mapping[str, Uuid] = field(kw_only=True)
    names: Sequence[TopicPartition] = field(kw_only=True)

    @property
    def partitions(self) -> Sequence[Partition]:
        """The partitions by the ids of their topics."""
        return [(self.topics[one.topic], one.partition) for one in self.names]

    @property
    def spec(self) -> str:
        """The spec that the steps are of."""
        return "ConsumerCoordinator"

    def constants(self, beyond: int) -> Mapping[str, Json]:
        """Kafka's rules, but for commits, which are held to the assignment of their partition."""
        return {
            "M": self.size,
            "P": len(self.partitions),
            **dict.fromkeys(("MaxEpoch", "MaxOffset", "MaxLog"), beyond),
            **dict.fromkeys(("WaitUntilFree", "WaitUntilRevoked", "Subset"), True),
            "CommitBy": "assignment",
        }

    # Operations

    def request(self, body: Any, done: Performed) -> None:
        """A heartbeat; other requests change nothing."""
        if not isinstance(body, m.ConsumerGroupHeartbeatRequest):
            return
        if body.instance_id is not None or body.member_epoch == LEAVE_FOR_A_WHILE:
            self.ended = "a static member"
        elif done.error is not None:
            if done.error in FENCED and body.member_epoch > 0:
                params = self._claims(body)
                self.add("RefuseHeartbeat", params)
        elif body.member_epoch == LEAVE:
            self._step("Leave", {"m": self.member(body.member_id)}, done)
        else:
            self._heartbeat(body, done)

    def _claims(self, body: m.ConsumerGroupHeartbeatRequest) -> dict[str, Any]:
        owns = frozenset((PERHAPS_OTHERS, *range(1, len(self.partitions) + 1)))
        if body.topic_partitions is not None:
            said = [(one.topic_id, n) for one in body.topic_partitions for n in one.partitions]
            owns = frozenset([self.partitions.index(one) + 1 for one in said])
        return {
            "m": self.member(body.member_id),
            "epoch": body.member_epoch,
            "owns": as_set(owns),
        }

    def _heartbeat(self, body: m.ConsumerGroupHeartbeatRequest, done: Performed) -> None:
        """The steps of a heartbeat: a new group epoch, a new target assignment, and the member's
        own step."""
        before: ConsumerGroup = done.before or ConsumerGroup(self.group_id)
        after: ConsumerGroup = done.after
        who = self.member(body.member_id)
        computed = after.target_epoch != before.target_epoch
        if body.member_id not in before.members:
            params = {"m": who, "computed": computed, "newTarget": _Target(after)}
            self._step("Join", params, done)
            return
        if after.epoch != before.epoch:
            self.changed(done)
            self.add("ChangeTopics", {})
        if computed:
            self.changed(done)
            self.add("ComputeTarget", {"newTarget": _Target(after)})
        if before.members[who.id] != after.members[who.id]:
            self.changed(done)
        action, params = ("Rejoin", {"m": who}) if body.member_epoch == 0 else ("", {})
        self.add(action or "Heartbeat", params or self._claims(body), after)

    def timer(self, key: TimerKey, done: Performed) -> None:
        """A member is given up."""
        if done.after != done.before:
            self._step("Fence", {"m": self.member(key.member_id)}, done)

    def _step(self, action: str, params: dict[str, Any], done: Performed) -> None:
        self.changed(done)
        self.add(action, params, done.after)

    # Commits

    def _partition(self, name: TopicPartition) -> int:
        return self.partitions.index((self.topics[name.topic], name.partition)) + 1

    def take_commit(self, body: m.OffsetCommitRequest, one: m.CommittedPartition) -> None:
        """A partition's offset is committed."""
        epoch, p = body.generation_id, self._partition(one.partition)
        params = {"m": self.member(body.member_id), "p": p, "epoch": epoch, "offset": one.offset}
        self.add("TakeCommit", params)

    def refuse_commit(self, body: m.OffsetCommitRequest, error: str) -> None:
        """A commit was refused because of at least one of its partitions."""
        if error in STALE:
            those = as_set([self._partition(one.partition) for one in body.partitions])
            params = {"m": self.member(body.member_id), "those": those}
            self.add("RefuseCommit", {**params, "epoch": body.generation_id})

    # Variables

    def value(self, value: Any, numbers: Mapping[str, int]) -> Any:
        """A target in the spec's words."""
        return value.of(self.partitions, numbers) if isinstance(value, _Target) else value

    def project(self, group: Any, numbers: Mapping[str, int]) -> dict[str, Any]:
        """The group's epochs, its target, and its members."""
        one: ConsumerGroup = group or ConsumerGroup(self.group_id)
        seen = {at: consumer_member(UNKNOWN, self.partitions) for at in range(1, self.size + 1)}
        for id, member in one.members.items():
            seen[numbers[id]] = consumer_member(member, self.partitions)
        return {
            **{name: of(one) for name, of in CONSUMER_GROUP.items()},
            "target": _Target(one).of(self.partitions, numbers),
            "member": list(seen.values()),
        }

    def offsets(self, committed: Mapping[TopicPartition, int]) -> Sequence[int]:
        """The offset that is committed of each partition."""
        by_id = {(self.topics[one.topic], one.partition): at for one, at in committed.items()}
        return [by_id.get(one, 0) for one in self.partitions]


@define(eq=False)
class _Target:
    """A group's target, as an argument."""

    group: ConsumerGroup

    def of(self, partitions: Sequence[Partition], numbers: Mapping[str, int]) -> list[int]:
        """The owner's number of each partition in the target assignment."""
        owners = {one: id for id, those in self.group.target.items() for one in those}
        return by_partition(partitions, owners, numbers)
