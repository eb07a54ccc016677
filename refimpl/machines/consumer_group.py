"""A consumer group of KIP-848: a value, and a replay of its records.

Spec: ConsumerGroup. The group's epoch grows when members or topics change. The target assignment
belongs to one of these epochs, and each member is led to it (`consumer_heartbeat`). All state is in
records; `replay` is the only way a group changes, and loading uses it too.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from attrs import evolve, field, frozen

from refimpl.errors import Refusal
from refimpl.machines import consumer_group_errors as errors
from refimpl.records import consumer_groups as r
from refimpl.records.coordinators import GROUP_RECORDS, CoordinatorRecord, RecordType
from refimpl.records.schema import Uuid

Partition: TypeAlias = tuple[Uuid, int]
"""A topic's id and a partition's number."""
Owned: TypeAlias = Mapping[Partition, int]
"""Partitions, each with the member epoch in which it was assigned (KIP-1251)."""

STABLE, UNREVOKED, UNRELEASED = 0, 1, 2
"""States of a member, as they are written in records."""
LEAVE, LEAVE_FOR_A_WHILE = -1, -2
"""Special epochs of a heartbeat; a static member that is away has the second."""
NO_EPOCH = -1
"""The previous epoch of a member that had none, as Kafka writes it."""

GROUP, PARTITION_METADATA, MEMBER, TARGET, TARGET_OF, CURRENT, REGEX = (
    GROUP_RECORDS[number] for number in (3, 4, 5, 6, 7, 8, 16)
)
RECORD_TYPES = frozenset((3, 4, 5, 6, 7, 8, 16))

NEW_MEMBER = r.ConsumerGroupMemberMetadata(
    instance_id=None,
    rack_id=None,
    client_id="",
    client_host="",
    subscribed_topic_names=(),
    subscribed_topic_regex="",
    server_assignor=None,
    classic_member_metadata=None,
)


@frozen
class ConsumerMember:
    """A member as the coordinator knows it: its own metadata, and its partitions.

    It may own the partitions in `assigned`. It was asked to give up those in `pending`, and may
    still own them.
    """

    member_id: str
    said: r.ConsumerGroupMemberMetadata = NEW_MEMBER
    epoch: int = 0
    previous_epoch: int = NO_EPOCH
    state: int = STABLE
    assigned: Owned = field(factory=dict[Partition, int])
    pending: Owned = field(factory=dict[Partition, int])

    @property
    def regex(self) -> str:
        """The regular expression that it subscribes to, "" if none."""
        return self.said.subscribed_topic_regex or ""

    @property
    def is_classic(self) -> bool:
        """True if it uses the classic protocol, in a group that is being migrated."""
        return self.said.classic_member_metadata is not None

    def holds(self, partition: Partition) -> bool:
        """True if it may own a partition."""
        return partition in self.assigned or partition in self.pending

    def is_reconciled_to(self, epoch: int) -> bool:
        """True if it has all partitions of its target in this epoch."""
        return self.state == STABLE and self.epoch == epoch


@frozen
class ConsumerGroup:
    """A group. `epoch` is never below `target_epoch`, nor that below a member's."""

    group_id: str
    epoch: int = 1
    metadata_hash: int = 0
    target_epoch: int = 1
    target_timestamp: int = 0
    members: Mapping[str, ConsumerMember] = field(factory=dict[str, ConsumerMember])
    target: Mapping[str, frozenset[Partition]] = field(factory=dict[str, frozenset[Partition]])
    regexes: Mapping[str, r.RegularExpression] = field(factory=dict[str, r.RegularExpression])

    @property
    def state(self) -> str:
        """The state, by Kafka's names."""
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        settled = all(one.is_reconciled_to(self.target_epoch) for one in self.members.values())
        return "Stable" if settled else "Reconciling"

    def member(self, member_id: str) -> ConsumerMember:
        """A member by its id; refused if there is none."""
        if member_id not in self.members:
            raise errors.UnknownMember(member_id, self.group_id)
        return self.members[member_id]

    def instance(self, instance_id: str | None) -> ConsumerMember | None:
        """The static member of an instance id; None if there is none."""
        if instance_id is None:
            return None
        found = (one for one in self.members.values() if one.said.instance_id == instance_id)
        return next(found, None)

    def is_free(self, partition: Partition, member_id: str) -> bool:
        """True if no other member holds a partition."""
        return not any(
            one.holds(partition) for one in self.members.values() if one.member_id != member_id
        )

    def topic_names(self, member: ConsumerMember) -> frozenset[str]:
        """The topics that a member subscribes to; an unresolved regular expression adds none."""
        names = frozenset(member.said.subscribed_topic_names)
        resolved = self.regexes.get(member.regex)
        return names if resolved is None else names | frozenset(resolved.topics)

    def subscribed_topics(self) -> frozenset[str]:
        """The topics that any member subscribes to."""
        return frozenset[str]().union(*map(self.topic_names, self.members.values()))

    def subscribers(self, regex: str) -> int:
        """The number of members that subscribe to a regular expression."""
        return sum(one.regex == regex for one in self.members.values())

    # Offsets

    def check_commit(self, member_id: str, epoch: int, partitions: Iterable[Partition]) -> None:
        """Refuse a commit unless the member has had these partitions since that epoch.

        Stronger than Kafka 4.2 and 4.3, which check the partitions only if the epoch is older than
        the member's: a member may lose one and keep its epoch (KAFKA-19974).
        """
        if epoch < 0 and not self.members:
            return
        member = self.member(member_id)
        if epoch > member.epoch:
            raise _other_epoch(member, epoch)
        for partition in partitions:
            since = member.assigned.get(partition, member.pending.get(partition))
            if since is None or epoch < since:
                refused = errors.NotAssignedSince
                raise (errors.NotInGenerationSince if member.is_classic else refused)(epoch, since)

    def check_fetch(self, member_id: str, epoch: int) -> None:
        """Refuse to read offsets in another epoch than the member's. A reader that names no member
        may.
        """
        if not member_id and epoch < 0:
            return
        member = self.member(member_id)
        if epoch != member.epoch:
            raise _other_epoch(member, epoch)

    def deletion(self) -> list[CoordinatorRecord]:
        """The tombstones of a group without members."""
        if self.members:
            raise errors.NonEmptyGroup(self.group_id, len(self.members))
        key = r.GroupKey(self.group_id)
        regexes = [r.RegularExpressionKey(self.group_id, one) for one in self.regexes]
        return [
            CoordinatorRecord(TARGET, key),
            *(CoordinatorRecord(REGEX, one) for one in regexes),
            CoordinatorRecord(GROUP, key),
        ]


def _other_epoch(member: ConsumerMember, epoch: int) -> Refusal:
    """The refusal of an epoch, by the name that the member's protocol has for it."""
    named = errors.NotInGeneration if member.is_classic else errors.StaleMemberEpoch
    return named(epoch, member.epoch)


def replay(group: ConsumerGroup | None, record: CoordinatorRecord) -> ConsumerGroup | None:
    """The group after a record; None if no group is left.

    A record of an unknown group creates it, and a tombstone of an unknown group changes nothing
    (KAFKA-17306): a compacted log has gaps.
    """
    kind, key, value = record.kind, record.key, record.value
    if kind is GROUP and value is None:
        return None
    if group is None:
        if value is None:
            return None
        group = ConsumerGroup(key.group_id)
    if kind is GROUP:
        return evolve(group, epoch=value.epoch, metadata_hash=value.metadata_hash)
    if kind is TARGET:
        epoch, timestamp = (
            (1, 0) if value is None else (value.assignment_epoch, value.assignment_timestamp)
        )
        return evolve(group, target_epoch=epoch, target_timestamp=timestamp)
    if kind is TARGET_OF:
        wanted = None if value is None else _target(value)
        return evolve(group, target=_with(group.target, key.member_id, wanted))
    if kind is REGEX:
        return evolve(group, regexes=_with(group.regexes, key.regular_expression, value))
    if kind is MEMBER or kind is CURRENT:
        member = _member(group.members.get(key.member_id), kind, key.member_id, value)
        return evolve(group, members=_with(group.members, key.member_id, member))
    return group


def _member(
    member: ConsumerMember | None, kind: RecordType, member_id: str, value: Any
) -> ConsumerMember | None:
    if kind is MEMBER:
        return None if value is None else evolve(member or ConsumerMember(member_id), said=value)
    if value is None:
        return None if member is None else ConsumerMember(member_id, member.said)
    return evolve(
        member or ConsumerMember(member_id),
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=value.state,
        assigned=_owned(value.assigned_partitions, value.member_epoch),
        pending=_owned(value.partitions_pending_revocation, value.member_epoch),
    )


def _owned(topics: Iterable[r.OwnedPartitions], epoch: int) -> Owned:
    """Partitions and their epochs. Records from before KIP-1251 have no epochs, so their partitions
    count as new.
    """
    return {
        (topic.topic_id, number): since
        for topic in topics
        for number, since in zip(
            topic.partitions,
            topic.assignment_epochs or [epoch] * len(topic.partitions),
            strict=True,
        )
    }


def _target(value: r.TargetAssignmentMember) -> frozenset[Partition]:
    topics = value.topic_partitions
    return frozenset((topic.topic_id, number) for topic in topics for number in topic.partitions)


def _with(mapping: Mapping[str, Any], key: str, value: Any) -> dict[str, Any]:
    """A copy of a mapping with this value for a key; None removes the key."""
    copy = dict(mapping)
    if value is None:
        copy.pop(key, None)
    else:
        copy[key] = value
    return copy
