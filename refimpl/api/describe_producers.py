"""DescribeProducers: who writes to a partition, as a replica remembers (KIP-664)."""

from typing import Any

from refimpl.api.authorization import Each
from refimpl.api.call import Call, Handling, Values
from refimpl.api.control import as_asked, partitions
from refimpl.api.permissions import READ, named_topic, refused_partitions
from refimpl.controller.errors import ApiError
from refimpl.controller.topics import check_name
from refimpl.messages.broker import (
    ActiveProducer,
    DescribedProducers,
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicPartition,
)


def handle(call: Call) -> Handling:
    """Describe the producers of the partitions that this broker has a replica of."""
    known = call.broker.node.metadata.topics
    wanted = partitions(call.request.topics, "name", "partition_indexes")
    answer: DescribeProducersResponse = yield DescribeProducersRequest(
        [name for name in wanted if name.topic in known]
    )
    here = {one.partition: one for one in answer.partitions}
    results = {name: _described(name, here.get(name)) for name in wanted}
    found = as_asked(call.request.topics, "name", "partition_indexes", results)
    return {"topics": [{"name": topic, "partitions": of} for topic, of in found]}


def _described(name: TopicPartition, one: DescribedProducers | None) -> Values:
    try:
        check_name(name.topic)
    except ApiError as refusal:
        return {
            "partition_index": name.partition,
            "error_code": refusal.error,
            "error_message": refusal.message,
        }
    if one is None:
        return {
            "partition_index": name.partition,
            "error_code": "UNKNOWN_TOPIC_OR_PARTITION",
            "error_message": "This server does not host this topic-partition.",
        }
    return {
        "partition_index": name.partition,
        "error_code": one.error,
        "active_producers": [_producer(producer) for producer in one.producers],
    }


def _producer(one: ActiveProducer) -> dict[str, Any]:
    return {
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "last_sequence": one.last_sequence,
        "last_timestamp": one.last_timestamp_ms,
        "coordinator_epoch": one.coordinator_epoch,
        "current_txn_start_offset": one.txn_start_offset,
    }


PERMISSIONS = (
    Each(
        "topics", READ, named_topic, refused_partitions("partition_indexes", named=True), "topics"
    ),
)
