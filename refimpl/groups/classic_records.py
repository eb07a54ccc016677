"""The record of a classic group: GroupMetadata, version 3.

A group that is loaded is Stable or Empty, without parked requests: nothing else is in the record.
"""

from refimpl.errors import CorruptBatch
from refimpl.machines.classic_group import ClassicGroup
from refimpl.machines.classic_member import ClassicGroupMember
from refimpl.records.consumer_protocol import Subscription, read_versioned
from refimpl.records.coordinators import (
    GROUP_RECORDS,
    CoordinatorRecord,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)

NUMBER = 2
VERSION = 3
CONSUMER_TYPE = "consumer"
"""The protocol type of groups whose members read topics."""


def record_of(group_id: str, group: ClassicGroup) -> CoordinatorRecord:
    """The record of a group."""
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader if group.members else None,
        current_state_timestamp=group.since,
        members=tuple([_written(one, group.protocol) for one in group.members.values()]),
    )
    return CoordinatorRecord(GROUP_RECORDS[NUMBER], GroupMetadataKey(group_id), value, VERSION)


def tombstone_of(group_id: str) -> CoordinatorRecord:
    """The tombstone of a group."""
    return CoordinatorRecord(GROUP_RECORDS[NUMBER], GroupMetadataKey(group_id))


def group_of(value: GroupMetadataValue) -> ClassicGroup:
    """The group in a record."""
    members = {one.member_id: _read(one, value.protocol) for one in value.members}
    return ClassicGroup(
        state="Stable" if members else "Empty",
        generation=value.generation,
        protocol_type=value.protocol_type or None,
        protocol=value.protocol,
        leader=value.leader,
        members=members,
        since=value.current_state_timestamp,
    )


def subscribed_topics(group: ClassicGroup) -> frozenset[str] | None:
    """The topics of all members; None if they are not known.

    They are not known in a group of another type, or between generations.
    """
    if group.protocol_type != CONSUMER_TYPE:
        return None
    if not group.members:
        return frozenset()
    topics: set[str] = set()
    try:
        for member in group.members.values():
            subscription, _ = read_versioned(Subscription, member.metadata(group.protocol))
            topics.update(subscription.topics)
    except CorruptBatch:
        return None
    return frozenset(topics)


def _written(member: ClassicGroupMember, protocol: str | None) -> MemberMetadata:
    return MemberMetadata(
        member_id=member.id,
        group_instance_id=member.instance,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_ms,
        session_timeout=member.session_ms,
        subscription=member.metadata(protocol),
        assignment=member.assignment,
    )


def _read(member: MemberMetadata, protocol: str | None) -> ClassicGroupMember:
    """A member in a record. Version 0 has no rebalance timeout: the session timeout serves for
    it.
    """
    session_ms = member.session_timeout
    return ClassicGroupMember(
        id=member.member_id,
        protocols=((protocol or "", member.subscription),),
        instance=member.group_instance_id,
        session_ms=session_ms,
        rebalance_ms=session_ms if member.rebalance_timeout < 0 else member.rebalance_timeout,
        client_id=member.client_id,
        client_host=member.client_host,
        assignment=member.assignment,
    )
