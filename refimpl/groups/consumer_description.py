"""The description of a consumer group for ConsumerGroupDescribe (KIP-848)."""

from collections.abc import Iterable

from refimpl.groups.consumer_assignment import preferred_assignor
from refimpl.groups.topics import Topics
from refimpl.machines.consumer_group import ConsumerGroup, ConsumerMember, Partition
from refimpl.messages import group as m
from refimpl.records.schema import Uuid

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


def describe(
    group: ConsumerGroup, topics: Topics, default_assignor: str
) -> m.ConsumerGroupDescribeResponse:
    """The group and its members, with their current and target partitions.

    Current partitions include those that a member was asked to give up, because it may still own
    them.
    """
    return m.ConsumerGroupDescribeResponse(
        group.group_id,
        None,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=preferred_assignor(group, default_assignor),
        members=[_member(group, one, topics) for one in group.members.values()],
    )


def _member(
    group: ConsumerGroup, member: ConsumerMember, topics: Topics
) -> m.DescribedConsumerMember:
    said = member.said
    return m.DescribedConsumerMember(
        member.member_id,
        said.instance_id,
        said.rack_id,
        member.epoch,
        said.client_id,
        said.client_host,
        tuple(sorted(said.subscribed_topic_names)),
        said.subscribed_topic_regex or "",
        _named((*member.assigned, *member.pending), topics),
        _named(group.target.get(member.member_id, ()), topics),
        CONSUMER_MEMBER if said.classic_member_metadata is None else CLASSIC_MEMBER,
    )


def by_topic(partitions: Iterable[Partition]) -> dict[Uuid, tuple[int, ...]]:
    """Partitions by their topics, in order."""
    found: dict[Uuid, tuple[int, ...]] = {}
    for topic_id, number in sorted(partitions):
        found[topic_id] = (*found.get(topic_id, ()), number)
    return found


def _named(partitions: Iterable[Partition], topics: Topics) -> tuple[m.NamedTopicPartitions, ...]:
    """Partitions with their topics' names; deleted topics are left out."""
    return tuple(
        m.NamedTopicPartitions(topic_id, topic.name, numbers)
        for topic_id, numbers in by_topic(partitions).items()
        if (topic := topics.by_id(topic_id)) is not None
    )
