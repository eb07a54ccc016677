"""The recorder of a group, by its protocol."""

from collections.abc import Callable, Sequence

from chaos.recorders.classic import ClassicGroupRecorder
from chaos.recorders.consumer import ConsumerGroupRecorder
from chaos.recorders.group import GroupRecorder
from refimpl.machines.replica import Replica
from refimpl.messages.broker import TopicPartition
from refimpl.records.schema import Uuid


def group_recorder(
    protocol: str,
    group_id: str,
    clock: Callable[[], int],
    replica_of: Callable[[int], Replica],
    names: Sequence[TopicPartition],
    topic_id: bytes,
) -> GroupRecorder:
    """Of a group that reads these partitions of one topic; `protocol` is classic or consumer.

    `replica_of` is a broker's replica of the partition of `__consumer_offsets` that it is on.
    """
    if protocol == "classic":
        return ClassicGroupRecorder(group_id, clock, replica_of, partitions=names)
    topics = {names[0].topic: Uuid(topic_id)}
    return ConsumerGroupRecorder(group_id, clock, replica_of, topics=topics, names=names)
