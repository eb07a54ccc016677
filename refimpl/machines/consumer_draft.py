"""The records that an operation on a consumer group is about to write, in Kafka's formats.

An operation sees the group as it is after the records so far, and changes nothing itself.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import define, field, frozen

from refimpl.machines import consumer_group as g
from refimpl.machines.consumer_group import ConsumerGroup, ConsumerMember, Owned, Partition
from refimpl.records import consumer_groups as r
from refimpl.records.coordinators import CoordinatorRecord, RecordType
from refimpl.records.schema import Uuid


@frozen
class Decision:
    """The records that an operation writes, the group after them, and the member's answer.

    `assignment` is None if it has not changed.
    """

    records: tuple[CoordinatorRecord, ...]
    group: ConsumerGroup
    member: ConsumerMember | None = None
    assignment: Owned | None = None


@define
class Draft:
    """A group, and the records that lead to it."""

    group: ConsumerGroup
    records: list[CoordinatorRecord] = field(factory=list[CoordinatorRecord])

    def write(self, kind: RecordType, key: Any, value: Any = None) -> None:
        """Add a record, and apply it to the group."""
        record = CoordinatorRecord(kind, key, value)
        self.records.append(record)
        self.group = g.replay(self.group, record) or ConsumerGroup(self.group.group_id)

    def key(self, member_id: str) -> r.MemberKey:
        return r.MemberKey(self.group.group_id, member_id)

    def decided(self, member_id: str | None = None, assignment: Owned | None = None) -> Decision:
        member = None if member_id is None else self.group.members[member_id]
        return Decision(tuple(self.records), self.group, member, assignment)

    def write_current(self, member: ConsumerMember) -> None:
        """Write a member's current assignment."""
        value = r.CurrentMemberAssignment(
            member.epoch,
            member.previous_epoch,
            member.state,
            _owned_record(member.assigned),
            _owned_record(member.pending),
        )
        self.write(g.CURRENT, self.key(member.member_id), value)

    def write_target(self, target: Mapping[str, frozenset[Partition]], now: int) -> None:
        """Write a target for the group's epoch: the members' assignments that changed, then the
        epoch.
        """
        group = self.group
        for member_id in group.members:
            wanted = target.get(member_id, frozenset[Partition]())
            if wanted != group.target.get(member_id):
                self.write_target_of(member_id, wanted)
        value = r.TargetAssignmentMetadata(assignment_epoch=group.epoch, assignment_timestamp=now)
        self.write(g.TARGET, r.GroupKey(group.group_id), value)

    def write_target_of(self, member_id: str, partitions: Iterable[Partition]) -> None:
        """Write a member's target assignment."""
        topics = _by_topic(partitions).items()
        value = r.TargetAssignmentMember(
            tuple([r.TopicPartitions(topic_id, tuple(numbers)) for topic_id, numbers in topics])
        )
        self.write(g.TARGET_OF, self.key(member_id), value)

    def remove(self, member_id: str) -> None:
        """Write the tombstones of a member."""
        for kind in (g.CURRENT, g.TARGET_OF, g.MEMBER):
            self.write(kind, self.key(member_id))


def _by_topic(partitions: Iterable[Partition]) -> dict[Uuid, list[int]]:
    found: dict[Uuid, list[int]] = {}
    for topic_id, number in sorted(partitions):
        found.setdefault(topic_id, []).append(number)
    return found


def _owned_record(owned: Owned) -> tuple[r.OwnedPartitions, ...]:
    return tuple(
        [
            r.OwnedPartitions(
                topic_id=topic_id,
                partitions=tuple(numbers),
                assignment_epochs=tuple([owned[topic_id, number] for number in numbers]),
            )
            for topic_id, numbers in _by_topic(owned).items()
        ]
    )
