"""OffsetDelete: forget what a group has committed (KIP-496)."""

from refimpl.api.authorization import Each
from refimpl.api.call import Call, Handling, Values
from refimpl.api.control import as_asked
from refimpl.api.groups import UNKNOWN, exists
from refimpl.api.permissions import DELETE, READ, named_topic, on_group, refused_partitions
from refimpl.messages.broker import TopicPartition
from refimpl.messages.group import OffsetDeleteRequest, OffsetDeleteResponse


def handle(call: Call) -> Handling:
    """Delete the offsets of partitions that exist."""
    request = call.request
    known: list[TopicPartition] = []
    results: list[tuple[TopicPartition, str | None]] = []
    for topic in request.topics:
        for one in topic.partitions:
            name = TopicPartition(topic.name, one.partition_index)
            if exists(call, name):
                known.append(name)
            else:
                results.append((name, UNKNOWN))
    answer: OffsetDeleteResponse = yield OffsetDeleteRequest(request.group_id, known)
    if answer.error is not None:
        return {"error_code": answer.error}
    found: dict[TopicPartition, Values] = {
        name: {"partition_index": name.partition, "error_code": error}
        for name, error in (*results, *answer.partitions)
    }
    listed = as_asked(request.topics, "name", "partitions", found)
    return {"topics": [{"name": name, "partitions": of} for name, of in listed if of]}


PERMISSIONS = (
    on_group(DELETE),
    Each("topics", READ, named_topic, refused_partitions(), "topics"),
)
