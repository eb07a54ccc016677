"""The choice of a consumer group's assignor, and its input."""

from collections import Counter
from collections.abc import Mapping

from refimpl.groups.assignors import ASSIGNORS, MemberSpec
from refimpl.groups.consumer_topics import TopicView
from refimpl.groups.uniform_equal import capacity_of
from refimpl.java_hash import HashSet, string_hash
from refimpl.machines.consumer_group import ConsumerGroup, Partition
from refimpl.records.schema import Uuid


def preferred_assignor(group: ConsumerGroup, default: str) -> str:
    """The assignor that most members name; of several, the first in Java's order."""
    named = (one.said.server_assignor for one in group.members.values())
    votes = Counter(name for name in named if name is not None)
    return max(HashSet(string_hash, sorted(votes)), key=lambda name: votes[name], default=default)


def is_homogeneous(group: ConsumerGroup) -> bool:
    """True if all members have the same subscription: names, or one regular expression and no
    names.
    """
    said = {
        (frozenset(one.said.subscribed_topic_names), one.regex) for one in group.members.values()
    }
    return len(said) == 1 and not all(next(iter(said)))


def assign(
    group: ConsumerGroup, topics: TopicView, default: str
) -> Mapping[str, frozenset[Partition]]:
    """The target partitions of each member of the group."""
    members = {
        member_id: MemberSpec(
            topics.ids_in_order(_in_java_order(group.topic_names(one))),
            _by_topic(group.target.get(member_id, frozenset())),
            one.said.instance_id,
        )
        for member_id, one in group.members.items()
    }
    assignor = ASSIGNORS[preferred_assignor(group, default)]
    partitions = topics.partitions(group.subscribed_topics())
    found = assignor(members, partitions, is_homogeneous(group))
    return {
        member_id: frozenset((topic, p) for topic, ps in of_topics.items() for p in ps)
        for member_id, of_topics in found.items()
    }


def _in_java_order(names: frozenset[str]) -> HashSet[str]:
    return HashSet(string_hash, sorted(names), capacity_of(len(names)))


def _by_topic(partitions: frozenset[Partition]) -> Mapping[Uuid, list[int]]:
    found: dict[Uuid, list[int]] = {}
    for topic, p in sorted(partitions):
        found.setdefault(topic, []).append(p)
    return found
