"""ListOffsets: offsets by time, and the ends of logs (KIP-79, KIP-98, KIP-320, KIP-734)."""

from refimpl.api.call import Call, Handling, Values
from refimpl.messages.broker import (
    READ_UNCOMMITTED,
    ListedOffset,
    ListOffsetsPartition,
    ListOffsetsRequest,
    TopicPartition,
)


def handle(call: Call) -> Handling:
    """Have each partition's offset looked up."""
    request = call.request
    wanted = [
        ListOffsetsPartition(
            TopicPartition(topic.name, one.partition_index),
            one.timestamp,
            getattr(one, "current_leader_epoch", -1),
        )
        for topic in request.topics
        for one in topic.partitions
    ]
    isolation_level = getattr(request, "isolation_level", READ_UNCOMMITTED)
    response = yield ListOffsetsRequest(wanted, isolation_level, request.replica_id)
    topics: dict[str, list[Values]] = {}
    for one in response.partitions:
        topics.setdefault(one.partition.topic, []).append(_partition(one))
    return {
        "topics": [{"name": name, "partitions": many} for name, many in topics.items()],
    }


def _partition(one: ListedOffset) -> Values:
    return {
        "partition_index": one.partition.partition,
        "error_code": one.error,
        "timestamp": one.timestamp,
        "offset": one.offset,
        "leader_epoch": one.leader_epoch,
    }
