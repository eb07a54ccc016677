"""A share group at its coordinator (KIP-932): a value, and a replay of its records.

Its members are those of a consumer group without revocation: a partition may go to many members,
so each has its target at once. Only partitions whose state is initialised are assigned.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from attrs import evolve, field, frozen

from refimpl.machines import consumer_group_errors as errors
from refimpl.records import share_groups as r
from refimpl.records.coordinators import GROUP_RECORDS, CoordinatorRecord
from refimpl.records.schema import Uuid

Partition: TypeAlias = tuple[Uuid, int]

MEMBER, GROUP, TARGET, TARGET_OF, CURRENT, STATE = (
    GROUP_RECORDS[number] for number in (10, 11, 12, 13, 14, 15)
)
RECORD_TYPES = frozenset((10, 11, 12, 13, 14, 15))
LEAVE, STABLE = -1, 0
SIMPLE = "simple"
"""The name of the only assignor."""

Topics: TypeAlias = Mapping[Uuid, tuple[str, frozenset[int]]]
"""Partitions of topics, each topic with its name."""


@frozen
class ShareMember:
    """A member, what it said of itself, and its partitions."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    epoch: int = 0
    previous_epoch: int = -1
    assigned: frozenset[Partition] = frozenset()


@frozen
class ShareGroup:
    """A group. A member's epoch is never above `target_epoch`, nor that above `epoch`."""

    group_id: str
    epoch: int = 0
    metadata_hash: int = 0
    target_epoch: int = 0
    #: The time at which the target was computed, 0 if it never was
    target_ms: int = 0
    members: Mapping[str, ShareMember] = field(factory=dict[str, ShareMember])
    target: Mapping[str, frozenset[Partition]] = field(factory=dict[str, frozenset[Partition]])
    initializing: Topics = field(factory=dict[Uuid, Any])
    initialized: Topics = field(factory=dict[Uuid, Any])

    @property
    def state(self) -> str:
        """The state, by Kafka's names."""
        return "Stable" if self.members else "Empty"

    def subscribed(self) -> frozenset[str]:
        """The topics that some member subscribes to."""
        return frozenset[str]().union(*(one.topics for one in self.members.values()))

    def is_target_due(self, now: int, interval_ms: int) -> bool:
        """True if the epoch is newer than the last target, and that one is old enough.

        A target of the future is one of a coordinator whose clock was ahead.
        """
        rests = self.target_ms and self.target_ms <= now < self.target_ms + interval_ms
        return self.epoch > self.target_epoch and not rests

    def known(self, member_id: str) -> ShareMember:
        """A member by its id."""
        if member_id not in self.members:
            raise errors.UnknownMember(member_id, self.group_id)
        return self.members[member_id]

    def member(self, member_id: str, epoch: int) -> ShareMember:
        """A member in its epoch, or the one before: its last answer may be lost."""
        member = self.known(member_id)
        if epoch > member.epoch or (epoch < member.epoch and epoch != member.previous_epoch):
            raise errors.FencedMemberEpoch(member_id, epoch, member.epoch)
        return member

    def without_state(self, partitions: Iterable[tuple[Uuid, str, int]]) -> list[Any]:
        """Those of these partitions whose state is not initialised, nor about to be."""
        return [
            (topic_id, name, number)
            for topic_id, name, number in partitions
            if number not in _numbers(self.initializing, topic_id)
            and number not in _numbers(self.initialized, topic_id)
        ]


def _numbers(topics: Topics, topic_id: Uuid) -> frozenset[int]:
    return topics[topic_id][1] if topic_id in topics else frozenset()


def with_partitions(topics: Topics, added: Iterable[tuple[Uuid, str, int]]) -> Topics:
    """Topics with further partitions."""
    found = dict(topics)
    for topic_id, name, number in added:
        found[topic_id] = name, _numbers(found, topic_id) | {number}
    return found


def without_partitions(topics: Topics, removed: Iterable[Partition]) -> Topics:
    """Topics without these partitions; a topic without any is left out."""
    gone = set(removed)
    return {
        topic_id: (name, left)
        for topic_id, (name, numbers) in topics.items()
        if (left := frozenset(one for one in numbers if (topic_id, one) not in gone))
    }


def simple(
    members: Iterable[ShareMember], partitions: Mapping[str, Sequence[Partition]]
) -> Mapping[str, frozenset[Partition]]:
    """The simple assignor: every partition has a member, and every member a partition, if it can.

    Members that subscribe to the same topics share them evenly: partitions go round the members,
    and where members are more they go round the partitions.
    """
    target: dict[str, set[Partition]] = {}
    alike: dict[frozenset[str], list[str]] = {}
    for member in sorted(members, key=lambda one: one.member_id):
        target[member.member_id] = set()
        alike.setdefault(member.topics, []).append(member.member_id)
    for topics, ids in alike.items():
        theirs = [one for topic in sorted(topics) for one in partitions.get(topic, ())]
        for turn in range(max(len(ids), len(theirs)) if theirs else 0):
            target[ids[turn % len(ids)]].add(theirs[turn % len(theirs)])
    return {member_id: frozenset(own) for member_id, own in target.items()}


# Records


def replay(group: ShareGroup | None, record: CoordinatorRecord) -> ShareGroup | None:
    """The group after a record; None if it leaves none."""
    key, value, number = record.key, record.value, record.kind.number
    if group is None and value is None:
        return None
    known = group or ShareGroup(key.group_id)
    if number == GROUP.number:
        if value is None:
            return None
        return evolve(known, epoch=value.epoch, metadata_hash=value.metadata_hash)
    if number == TARGET.number:
        if value is None:
            return evolve(known, target_epoch=0, target_ms=0)
        return evolve(
            known, target_epoch=value.assignment_epoch, target_ms=value.assignment_timestamp
        )
    if number == STATE.number:
        if value is None:
            return evolve(known, initializing={}, initialized={})
        return evolve(
            known,
            initializing=_read(value.initializing_topics),
            initialized=_read(value.initialized_topics),
        )
    if number == TARGET_OF.number:
        target = dict(known.target)
        target.pop(key.member_id, None)
        if value is not None:
            target[key.member_id] = _partitions(value.topic_partitions)
        return evolve(known, target=target)
    members = dict(known.members)
    member = members.get(key.member_id) or ShareMember(key.member_id)
    if value is None:
        if number == MEMBER.number:
            members.pop(key.member_id, None)
    elif number == MEMBER.number:
        members[key.member_id] = evolve(
            member,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
        )
    else:
        members[key.member_id] = evolve(
            member,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            assigned=_partitions(value.assigned_partitions),
        )
    return evolve(known, members=members)


def _read(topics: Iterable[r.TopicPartitionsInfo]) -> Topics:
    return {one.topic_id: (one.topic_name, frozenset(one.partitions)) for one in topics}


def _partitions(topics: Iterable[Any]) -> frozenset[Partition]:
    return frozenset((one.topic_id, number) for one in topics for number in one.partitions)


def _by_topic(partitions: Iterable[Partition]) -> Mapping[Uuid, tuple[int, ...]]:
    found: dict[Uuid, tuple[int, ...]] = {}
    for topic_id, number in sorted(partitions):
        found[topic_id] = (*found.get(topic_id, ()), number)
    return found


def member_record(group_id: str, member: ShareMember) -> CoordinatorRecord:
    """A member's own metadata."""
    value = r.ShareGroupMemberMetadataValue(
        member.rack_id, member.client_id, member.client_host, tuple(sorted(member.topics))
    )
    key = r.ShareGroupMemberMetadataKey(group_id, member.member_id)
    return CoordinatorRecord(MEMBER, key, value)


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    """A group's epoch."""
    value = r.ShareGroupMetadataValue(epoch, metadata_hash)
    return CoordinatorRecord(GROUP, r.ShareGroupMetadataKey(group_id), value)


def target_record(
    group_id: str, member_id: str, partitions: Iterable[Partition]
) -> CoordinatorRecord:
    """A member's target assignment."""
    value = r.ShareGroupTargetAssignmentMemberValue(
        tuple(r.TopicPartition(*one) for one in _by_topic(partitions).items())
    )
    key = r.ShareGroupTargetAssignmentMemberKey(group_id, member_id)
    return CoordinatorRecord(TARGET_OF, key, value)


def target_epoch_record(group_id: str, epoch: int, now: int) -> CoordinatorRecord:
    """The epoch of the target assignment."""
    value = r.ShareGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=now
    )
    return CoordinatorRecord(TARGET, r.ShareGroupTargetAssignmentMetadataKey(group_id), value)


def current_record(group_id: str, member: ShareMember) -> CoordinatorRecord:
    """A member's epoch and its partitions."""
    value = r.ShareGroupCurrentMemberAssignmentValue(
        member.epoch,
        member.previous_epoch,
        STABLE,
        tuple(r.TopicPartitions(*one) for one in _by_topic(member.assigned).items()),
    )
    key = r.ShareGroupCurrentMemberAssignmentKey(group_id, member.member_id)
    return CoordinatorRecord(CURRENT, key, value)


def state_record(group_id: str, initializing: Topics, initialized: Topics) -> CoordinatorRecord:
    """The partitions whose state is initialised, or about to be."""

    def shown(topics: Topics) -> tuple[r.TopicPartitionsInfo, ...]:
        return tuple(
            r.TopicPartitionsInfo(topic_id, name, tuple(sorted(numbers)))
            for topic_id, (name, numbers) in sorted(topics.items())
        )

    value = r.ShareGroupStatePartitionMetadataValue(shown(initializing), shown(initialized), ())
    return CoordinatorRecord(STATE, r.ShareGroupStatePartitionMetadataKey(group_id), value)


def removal(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """The tombstones of a member."""
    return [
        CoordinatorRecord(CURRENT, r.ShareGroupCurrentMemberAssignmentKey(group_id, member_id)),
        CoordinatorRecord(TARGET_OF, r.ShareGroupTargetAssignmentMemberKey(group_id, member_id)),
        CoordinatorRecord(MEMBER, r.ShareGroupMemberMetadataKey(group_id, member_id)),
    ]


def deletion(group_id: str) -> list[CoordinatorRecord]:
    """The tombstones of a group without members."""
    return [
        CoordinatorRecord(TARGET, r.ShareGroupTargetAssignmentMetadataKey(group_id)),
        CoordinatorRecord(STATE, r.ShareGroupStatePartitionMetadataKey(group_id)),
        CoordinatorRecord(GROUP, r.ShareGroupMetadataKey(group_id)),
    ]
