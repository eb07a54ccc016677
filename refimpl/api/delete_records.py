"""DeleteRecords: nothing before these offsets is read any more (KIP-107)."""

from refimpl.api.authorization import Each
from refimpl.api.call import Call, Handling, Values
from refimpl.api.permissions import DELETE, named_topic, refused_partitions
from refimpl.messages.broker import DeleteRecordsRequest, TopicPartition
from refimpl.wire.messages import milliseconds


def handle(call: Call) -> Handling:
    """Have each log's start moved."""
    request = call.request
    # Of a partition that is named twice the last offset counts, as in Kafka's broker.
    wanted = {
        TopicPartition(topic.name, one.partition_index): one.offset
        for topic in request.topics
        for one in topic.partitions
    }
    response = yield DeleteRecordsRequest(list(wanted.items()), milliseconds(request.timeout))
    topics: dict[str, list[Values]] = {}
    for one in response.partitions:
        topics.setdefault(one.partition.topic, []).append(
            {
                "partition_index": one.partition.partition,
                "low_watermark": one.low_watermark,
                "error_code": one.error,
            }
        )
    return {"topics": [{"name": name, "partitions": many} for name, many in topics.items()]}


PERMISSIONS = (Each("topics", DELETE, named_topic, refused_partitions(low_watermark=-1), "topics"),)
