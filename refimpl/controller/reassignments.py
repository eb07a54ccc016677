"""The reassignment of a partition's replicas: pure functions of its assignment (KIP-455).

While a reassignment is under way the replicas are the target's, followed by those that will be
removed. It is over when all that were added are in sync.
"""

from collections.abc import Mapping, Sequence

from refimpl.controller.errors import ApiError, unknown_topic_or_partition
from refimpl.controller.topics import check_assignment
from refimpl.messages.broker import TopicPartition
from refimpl.messages.cluster import ClusterMetadata, PartitionRegistration
from refimpl.messages.controller import OngoingReassignment, ReassignablePartition


def plan_move(
    wanted: ReassignablePartition, metadata: ClusterMetadata, *, may_change_factor: bool
) -> tuple[PartitionRegistration, tuple[int, ...] | None]:
    """The partition and its target; None for a target that cancels a reassignment.

    Raises ApiError.
    """
    name = wanted.partition
    topic = metadata.topics.get(name.topic)
    if topic is None:
        raise unknown_topic_or_partition(f"Unable to find a topic named {name.topic}.")
    here = topic.partitions.get(name.partition)
    if here is None:
        raise unknown_topic_or_partition(f"Unable to find partition {name.topic}:{name.partition}.")
    if wanted.replicas is None:
        if not (here.adding or here.removing):
            raise ApiError("NO_REASSIGNMENT_IN_PROGRESS")
        return here, None
    check_assignment(wanted.replicas, metadata)
    factor = len(here.replicas) - len(here.removing)
    if not may_change_factor and factor != len(wanted.replicas):
        raise ApiError(
            "INVALID_REPLICATION_FACTOR",
            f"The replication factor is changed from {factor} to {len(wanted.replicas)}",
        )
    return here, tuple(wanted.replicas)


def ongoing(
    partitions: Mapping[TopicPartition, PartitionRegistration],
    wanted: Sequence[TopicPartition] | None,
) -> list[OngoingReassignment]:
    """The reassignments under way, among these partitions or all."""
    names = partitions if wanted is None else wanted
    found = [partitions[name] for name in names if name in partitions]
    return [
        OngoingReassignment(one.partition, one.replicas, one.adding, one.removing)
        for one in found
        if one.adding or one.removing
    ]
