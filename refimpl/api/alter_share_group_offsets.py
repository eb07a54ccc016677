"""AlterShareGroupOffsets: set the starts of a share group without members (KIP-932)."""

from refimpl.api.authorization import Each
from refimpl.api.call import Call, Handling, Values
from refimpl.api.permissions import READ, on_group, refused_offsets_of_shares, topic_of_shares
from refimpl.api.shares import NO_PARTITION, UNKNOWN, refusal_of
from refimpl.messages.broker import TopicPartition
from refimpl.messages.group import AlterShareOffsetsRequest, AlterShareOffsetsResponse


def handle(call: Call) -> Handling:
    """Set the starts."""
    request = call.request
    answer: AlterShareOffsetsResponse = yield AlterShareOffsetsRequest(
        request.group_id,
        tuple(
            (TopicPartition(topic.topic_name, one.partition_index), one.start_offset)
            for topic in request.topics
            for one in topic.partitions
        ),
    )
    topics: dict[tuple[str, bytes], list[Values]] = {}
    for name, error, topic_id in answer.partitions:
        topics.setdefault((name.topic, topic_id), []).append(
            {
                "partition_index": name.partition,
                "error_code": error,
                "error_message": NO_PARTITION if error == UNKNOWN else None,
            }
        )
    known = call.broker.node.metadata.topics
    for topic in request.topics if answer.error is None else ():
        if not topic.partitions and topic.topic_name in known:
            topics.setdefault((topic.topic_name, known[topic.topic_name].topic_id), [])
    return {
        "error_code": answer.error,
        "error_message": refusal_of(answer),
        "responses": [
            {"topic_name": name, "topic_id": topic_id, "partitions": partitions}
            for (name, topic_id), partitions in topics.items()
        ],
    }


PERMISSIONS = (
    on_group(READ),
    Each("topics", READ, topic_of_shares, refused_offsets_of_shares, "responses", whole_first=True),
)
