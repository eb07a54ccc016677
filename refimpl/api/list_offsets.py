"""ListOffsets: offsets by time, and the ends of logs (KIP-79, KIP-98, KIP-320, KIP-734).

A partition that is named twice is refused, and so is a special timestamp that this version does not
have.
"""

from collections import Counter

from refimpl.api.authorization import Each
from refimpl.api.call import Call, Handling, Values
from refimpl.api.permissions import DESCRIBE, named_topic, refused_partitions
from refimpl.messages.broker import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    ListedOffset,
    ListOffsetsPartition,
    ListOffsetsRequest,
    TopicPartition,
)

SINCE = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""The first version with each special timestamp."""


def handle(call: Call) -> Handling:
    """Have each partition's offset looked up."""
    request = call.request
    asked = [
        ListOffsetsPartition(
            TopicPartition(topic.name, one.partition_index),
            one.timestamp,
            getattr(one, "current_leader_epoch", -1),
        )
        for topic in request.topics
        for one in topic.partitions
    ]
    isolation_level = getattr(request, "isolation_level", READ_UNCOMMITTED)
    found: dict[TopicPartition, ListedOffset] = {}
    wanted: list[ListOffsetsPartition] = []
    times = Counter(one.partition for one in asked)
    for one in asked:
        error = None
        if isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
            error = "UNKNOWN_SERVER_ERROR"
        elif times[one.partition] > 1:
            error = "INVALID_REQUEST"
        elif one.timestamp < 0 and call.version < SINCE.get(one.timestamp, call.version + 1):
            error = "UNSUPPORTED_VERSION"
        if error is None:
            wanted.append(one)
        else:
            found[one.partition] = ListedOffset(one.partition, error)
    if wanted:
        response = yield ListOffsetsRequest(wanted, isolation_level, request.replica_id)
        found |= {one.partition: one for one in response.partitions}
    topics: dict[str, list[Values]] = {}
    for one in dict.fromkeys(each.partition for each in asked):
        topics.setdefault(one.topic, []).append(_partition(found[one]))
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


PERMISSIONS = (
    Each("topics", DESCRIBE, named_topic, refused_partitions(timestamp=-1, offset=-1), "topics"),
)
