"""AlterPartitionReassignments: where replicas shall be; null takes a move back (KIP-455)."""

from typing import Any

from refimpl.api.call import Call, Handling, Values
from refimpl.api.control import as_asked, refused, timeout_ms
from refimpl.messages.broker import TopicPartition
from refimpl.messages.controller import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    PartitionResult,
    ReassignablePartition,
)


def handle(call: Call) -> Handling:
    """Have the controller begin, replace or take back moves of replicas."""
    request = call.request
    wanted = tuple(
        ReassignablePartition(
            TopicPartition(topic.name, one.partition_index),
            None if one.replicas is None else tuple(one.replicas),
        )
        for topic in request.topics
        for one in topic.partitions
    )
    change_factor = getattr(request, "allow_replication_factor_change", True)
    answer: Any = yield AlterPartitionReassignmentsRequest(wanted, change_factor, timeout_ms(call))
    if failure := refused(answer):
        refusals = [PartitionResult(one.partition, *failure) for one in wanted]
        answer = AlterPartitionReassignmentsResponse(refusals, *failure)
    results = {one.partition: _result(one) for one in answer.partitions}
    return {
        "allow_replication_factor_change": change_factor,
        "error_code": answer.error,
        "error_message": answer.message,
        "responses": [
            {"name": topic, "partitions": of}
            for topic, of in as_asked(request.topics, "name", "partitions", results)
        ],
    }


def _result(one: PartitionResult) -> Values:
    return {
        "partition_index": one.partition.partition,
        "error_code": one.error,
        "error_message": one.message,
    }
