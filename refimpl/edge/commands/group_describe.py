"""Groups of any type, described: ConsumerGroupDescribe (KIP-848), ShareGroupDescribe (KIP-932), or
else DescribeGroups.

kafka-python brings the message of the classic protocol alone. The schemas of the others are in this
folder, in Kafka's JSON, which kafka-python's class of messages reads.
"""

import warnings
from functools import cache
from typing import Any, cast

from attrs import frozen

from refimpl.edge.commands.connection import library, refused

Partition = tuple[str, int]
UNSUPPORTED_VERSION, GROUP_ID_NOT_FOUND = 35, 69
#: The errors of a coordinator that has no such group, or no groups of that type at all
NONE_OF_THE_TYPE = (UNSUPPORTED_VERSION, GROUP_ID_NOT_FOUND)
SHARE_GROUP_DESCRIBE, DESCRIBE_OFFSETS = "ShareGroupDescribe", "DescribeShareGroupOffsets"
#: Asked in this order, before DescribeGroups
DESCRIBING = ("ConsumerGroupDescribe", SHARE_GROUP_DESCRIBE)
DEAD = "Dead"


@frozen
class MemberRow:
    """One member, and the partitions that it has."""

    consumer_id: str
    host: str
    client_id: str
    partitions: frozenset[Partition]


@frozen
class DescribedGroup:
    """A group's state in Kafka's words, and its members; a group that nobody knows is dead."""

    state: str
    assignor: str
    coordinator: int
    members: tuple[MemberRow, ...]
    is_share: bool = False


@frozen
class ShareStart:
    """The first offset of a partition that a share group is not done with; None where unknown.

    `lag` is how many records between it and the log's end are not done with.
    """

    offset: int | None = None
    lag: int | None = None


@cache
def _request(name: str) -> Any:
    """The class of requests of an API; that of answers registers itself by its number."""
    base: Any = library("kafka.protocol.api_message").ApiMessage
    _MADE.append(_message(base, f"{name}Response"))
    return _message(base, f"{name}Request")


#: kafka-python itself holds the class of an answer by a weak reference.
_MADE: list[Any] = []


def _message(base: Any, name: str) -> Any:
    kind = cast("Any", type(base))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return kind(name, (base,), {}, load_json=__package__)


def described(admin: Any, group: str) -> DescribedGroup:
    """A group of any protocol."""
    return admin._manager.run(_described, admin, group)


def share_starts(admin: Any, group: str) -> dict[Partition, ShareStart]:
    """The partitions of a share group, and where it is in each."""
    return admin._manager.run(_share_starts, admin, group)


async def _described(admin: Any, group: str) -> DescribedGroup:
    coordinator = await admin._find_coordinator_id(group)
    for name in DESCRIBING:
        request = _request(name)(group_ids=[group], include_authorized_operations=False)
        one = await _answer(admin, request, coordinator)
        if one is not None:
            members, is_share = _members(one), name == SHARE_GROUP_DESCRIBE
            return DescribedGroup(
                one.group_state, one.assignor_name, coordinator, members, is_share
            )
    found = (await admin._async_describe_groups([group], coordinator))[group]
    members = tuple(map(_classic, found["members"]))
    return DescribedGroup(
        found["group_state"] or DEAD, found["protocol_data"], coordinator, members
    )


async def _share_starts(admin: Any, group: str) -> dict[Partition, ShareStart]:
    coordinator = await admin._find_coordinator_id(group)
    make = _request(DESCRIBE_OFFSETS)
    every = make.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
    one = await _answer(admin, make(groups=[every]), coordinator)
    topics = () if one is None else one.topics
    return {
        (topic.topic_name, part.partition_index): _start(group, topic.topic_name, part)
        for topic in topics
        for part in topic.partitions
    }


async def _answer(admin: Any, request: Any, coordinator: int) -> Any:
    """A coordinator's answer about one group; None if it has none of that type, or no such API."""
    try:
        (one,) = (await admin._manager.send(request, node_id=coordinator)).groups
    except library("kafka.errors").IncompatibleBrokerVersion:
        return None
    if one.error_code in NONE_OF_THE_TYPE:
        return None
    if one.error_code:
        raise refused(f"group {one.group_id}", one.error_code, one.error_message)
    return one


def _start(group: str, topic: str, part: Any) -> ShareStart:
    if part.error_code:
        what = f"group {group}, {topic}-{part.partition_index}"
        raise refused(what, part.error_code, part.error_message)
    return ShareStart(*(None if one < 0 else one for one in (part.start_offset, part.lag)))


def _members(group: Any) -> tuple[MemberRow, ...]:
    return tuple(
        MemberRow(one.member_id, one.client_host, one.client_id, _partitions(one.assignment))
        for one in group.members
    )


def _partitions(assignment: Any) -> frozenset[Partition]:
    return frozenset(
        (topic.topic_name, number)
        for topic in assignment.topic_partitions
        for number in topic.partitions
    )


def _classic(one: Any) -> MemberRow:
    assigned: Any = one["member_assignment"]
    topics: Any = assigned["assigned_partitions"] if hasattr(assigned, "items") else ()
    partitions = frozenset((part["topic"], at) for part in topics for at in part["partitions"])
    return MemberRow(one["member_id"], one["client_host"], one["client_id"], partitions)
