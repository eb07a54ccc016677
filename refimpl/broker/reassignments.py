"""Where a partition's replicas move: pure functions over its assignment (KIP-455).

While a reassignment is under way the replicas are the target's, followed by those that will be
removed. It is over when all that were added are in sync.
"""

from collections.abc import Collection, Mapping, Sequence

from attrs import frozen

from refimpl.broker.cluster import ClusterMetadata, PartitionRegistration
from refimpl.broker.control_errors import ApiError, unknown_topic_or_partition
from refimpl.broker.control_messages import OngoingReassignment, ReassignablePartition
from refimpl.broker.messages import TopicPartition
from refimpl.broker.topics import check_assignment


@frozen
class Assignment:
    """A partition's replicas in the order of preference, and which of them come and go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def in_progress(self) -> bool:
        """Whether a reassignment is under way."""
        return bool(self.adding or self.removing)

    @property
    def original(self) -> tuple[int, ...]:
        """What it was before the reassignment, in any order."""
        return tuple(one for one in self.replicas if one not in self.adding)

    @property
    def target(self) -> tuple[int, ...]:
        """What it will be."""
        return tuple(one for one in self.replicas if one not in self.removing)

    def moved_to(self, target: Sequence[int]) -> "Assignment":
        """The beginning of a move; one under way is given up for it.

        What the earlier one added, and this one wants as well, is still being added.
        """
        adding = [one for one in target if one not in self.original]
        removing = [one for one in self.replicas if one not in target]
        return Assignment(
            (*target, *sorted(removing)), tuple(sorted(adding)), tuple(sorted(removing))
        )

    def cancelled(self) -> "Assignment":
        """Nothing moves any more; the order of before is not known."""
        return Assignment(self.original)

    def completed(self, isr: Collection[int]) -> "Assignment | None":
        """The assignment after the move, if with this ISR it is over.

        All that are added are in sync, somebody who stays is, and, if there will be fewer replicas
        than before, all who stay are (KAFKA-15665 and after).
        """
        if not self.in_progress:
            return None
        target, staying = self.target, set(isr) - set(self.removing)
        if not staying or not staying >= set(self.adding):
            return None
        if len(self.adding) < len(self.removing) and not staying >= set(target):
            return None
        return Assignment(target)


def plan_move(
    wanted: ReassignablePartition, metadata: ClusterMetadata, *, may_change_factor: bool
) -> tuple[PartitionRegistration, tuple[int, ...] | None]:
    """The partition, and its target; None for the target that takes a move back.

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
    """What moves, of the partitions that are asked for, or of all."""
    names = partitions if wanted is None else wanted
    found = [partitions[name] for name in names if name in partitions]
    return [
        OngoingReassignment(one.partition, one.replicas, one.adding, one.removing)
        for one in found
        if one.adding or one.removing
    ]
