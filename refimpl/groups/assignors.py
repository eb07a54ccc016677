"""The coordinator's assignors for consumer groups (KIP-848): uniform and range.

Equal to Kafka's, down to which member gets which partition: where Kafka iterates over a HashMap,
so does this. Uniform is balanced and sticky; range gives each member a range of each topic.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from attrs import frozen

from refimpl.groups.uniform_different import assign_different
from refimpl.groups.uniform_equal import assign_equal
from refimpl.java_hash import HashSet, string_hash, string_order
from refimpl.records.schema import Uuid

Assignment: TypeAlias = dict[str, dict[Uuid, set[int]]]
"""What each member shall have: topics, and their partitions."""


@frozen
class MemberSpec:
    """A member, as an assignor sees it: what it subscribes to, and its target of before.

    `topics` are in the order in which Kafka's set of them iterates, which breaks ties.
    """

    topics: Sequence[Uuid]
    target: Mapping[Uuid, Sequence[int]]
    instance_id: str | None = None


Members: TypeAlias = Mapping[str, MemberSpec]
Partitions: TypeAlias = Mapping[Uuid, int]
"""How many partitions each topic has."""
Assignor: TypeAlias = Callable[[Members, Partitions, bool], Assignment]
"""Takes members, topics, and whether the subscriptions of all members are equal."""


def uniform(members: Members, partitions: Partitions, homogeneous: bool) -> Assignment:
    """Each member as many partitions as any other, or one less, and as few moves as may be."""
    if not members:
        return {}
    order = list(HashSet(string_hash, members))
    targets = {member: members[member].target for member in order}
    if homogeneous:
        return assign_equal(targets, members[order[0]].topics, partitions)
    topics = {member: members[member].topics for member in order}
    return assign_different(targets, topics, partitions)


def range_(members: Members, partitions: Partitions, homogeneous: bool) -> Assignment:
    """Of each topic each member a range; static members first, so that they keep theirs."""
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
"""By the names of `group.consumer.assignors`."""
