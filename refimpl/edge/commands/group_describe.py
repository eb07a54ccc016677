"""Groups of either protocol, described: ConsumerGroupDescribe (KIP-848), or else DescribeGroups.

kafka-python brings the message of the classic protocol alone. The other's schema is in this
folder, in Kafka's JSON, which kafka-python's class of messages reads.
"""

import warnings
from functools import cache
from typing import Any, cast

from attrs import frozen

from refimpl.edge.commands.connection import library, refused

Partition = tuple[str, int]
GROUP_ID_NOT_FOUND = 69
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


@cache
def _request() -> Any:
    """The class of requests; that of answers registers itself by its number."""
    base: Any = library("kafka.protocol.api_message").ApiMessage
    _MADE.append(_message(base, "ConsumerGroupDescribeResponse"))
    return _message(base, "ConsumerGroupDescribeRequest")


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


async def _described(admin: Any, group: str) -> DescribedGroup:
    coordinator = await admin._find_coordinator_id(group)
    ask = admin._manager.send
    try:
        request = _request()(group_ids=[group], include_authorized_operations=False)
        (one,) = (await ask(request, node_id=coordinator)).groups
    except library("kafka.errors").IncompatibleBrokerVersion:
        one = None
    if one is not None and not one.error_code:
        return DescribedGroup(one.group_state, one.assignor_name, coordinator, _members(one))
    if one is not None and one.error_code != GROUP_ID_NOT_FOUND:
        raise refused(f"group {group}", one.error_code, one.error_message)
    found = (await admin._async_describe_groups([group], coordinator))[group]
    members = tuple(map(_classic, found["members"]))
    return DescribedGroup(
        found["group_state"] or DEAD, found["protocol_data"], coordinator, members
    )


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
