"""The coordinator's assignors for consumer groups (KIP-848): uniform and range.

They equal Kafka's, partition by partition: where Kafka iterates over a HashMap, they do too.
Uniform is balanced and sticky; range gives each member a range of each topic.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from attrs import frozen

from refimpl.groups.uniform_different import assign_different
from refimpl.groups.uniform_equal import assign_equal
from refimpl.java_hash import HashSet, string_hash, string_order
from refimpl.records.schema import Uuid

Assignment: TypeAlias = dict[str, dict[Uuid, set[int]]]
"""The target of each member: topics, and their partitions."""


@frozen
class MemberSpec:
    """An assignor's view of a member: its subscribed topics, and its previous target.

    `topics` are in the order in which Kafka's set of them iterates, which breaks ties.
    """

    topics: Sequence[Uuid]
    target: Mapping[Uuid, Sequence[int]]
    instance_id: str | None = None


Members: TypeAlias = Mapping[str, MemberSpec]
Partitions: TypeAlias = Mapping[Uuid, int]
"""The number of partitions of each topic."""
Assignor: TypeAlias = Callable[[Members, Partitions, bool], Assignment]
"""Takes members, topics, and whether all members have the same subscription."""


def uniform(members: Members, partitions: Partitions, homogeneous: bool) -> Assignment:
    """An assignment with loads that differ by one at most, and as few moves as possible."""
    if not members:
        return {}
    order = list(HashSet(string_hash, members))
    targets = {member: members[member].target for member in order}
    if homogeneous:
        return assign_equal(targets, members[order[0]].topics, partitions)
    topics = {member: members[member].topics for member in order}
    return assign_different(targets, topics, partitions)


def range_(members: Members, partitions: Partitions, homogeneous: bool) -> Assignment:
    """A range of each topic for each subscriber; static members first, so that they keep theirs."""
    order = sorted(members, key=lambda member: _rank(member, members[member].instance_id))
    found: Assignment = {member: {} for member in order}
    for topic in {topic for one in members.values() for topic in one.topics}:
        readers = [member for member in order if topic in members[member].topics]
        quota, more = divmod(partitions[topic], len(readers))
        start = 0
        for number, member in enumerate(readers):
            end = start + quota + (number < more)
            if start < end:
                found[member][topic] = set(range(start, end))
            start = end
    return found


def _rank(member: str, instance_id: str | None) -> tuple[bool, bytes]:
    return instance_id is None, string_order(member if instance_id is None else instance_id)


ASSIGNORS: Mapping[str, Assignor] = {"uniform": uniform, "range": range_}
"""The assignors by their names in `group.consumer.assignors`."""
