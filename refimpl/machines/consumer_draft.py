"""What an operation on a consumer group is about to write down: records in Kafka's shapes.

An operation looks at the group as it will be after the records so far, and changes nothing.
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
    """What an operation writes down, the group after it, and what the member is told.

    `assignment` is None where the member is told nothing of it: it has not changed.
    """

    records: tuple[CoordinatorRecord, ...]
    group: ConsumerGroup
    member: ConsumerMember | None = None
    assignment: Owned | None = None


@define
class Draft:
    """A group, and what is to be written to make it so."""

    group: ConsumerGroup
    records: list[CoordinatorRecord] = field(factory=list[CoordinatorRecord])

    def write(self, kind: RecordType, key: Any, value: Any = None) -> None:
        """One record more; the group is as after it."""
        record = CoordinatorRecord(kind, key, value)
        self.records.append(record)
        self.group = g.replay(self.group, record) or ConsumerGroup(self.group.group_id)

    def key(self, member_id: str) -> r.MemberKey:
        return r.MemberKey(self.group.group_id, member_id)

    def decided(self, member_id: str | None = None, assignment: Owned | None = None) -> Decision:
        member = None if member_id is None else self.group.members[member_id]
        return Decision(tuple(self.records), self.group, member, assignment)

    def write_current(self, member: ConsumerMember) -> None:
        """What a member has from now on."""
        value = r.CurrentMemberAssignment(
            member.epoch,
            member.previous_epoch,
            member.state,
            _owned_record(member.assigned),
            _owned_record(member.pending),
        )
        self.write(g.CURRENT, self.key(member.member_id), value)

    def write_target(self, target: Mapping[str, frozenset[Partition]], now: int) -> None:
        """A target for the group's epoch: what is news to a member, and at last the epoch."""
        group = self.group
        for member_id in group.members:
            wanted = target.get(member_id, frozenset[Partition]())
            if wanted != group.target.get(member_id):
                self.write_target_of(member_id, wanted)
        value = r.TargetAssignmentMetadata(assignment_epoch=group.epoch, assignment_timestamp=now)
        self.write(g.TARGET, r.GroupKey(group.group_id), value)

    def write_target_of(self, member_id: str, partitions: Iterable[Partition]) -> None:
        """What a member shall have."""
        topics = _by_topic(partitions).items()
        value = r.TargetAssignmentMember(
            tuple([r.TopicPartitions(topic_id, tuple(numbers)) for topic_id, numbers in topics])
        )
        self.write(g.TARGET_OF, self.key(member_id), value)

    def remove(self, member_id: str) -> None:
        """The end of a member."""
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
