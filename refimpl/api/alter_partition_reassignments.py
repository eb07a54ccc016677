"""AlterPartitionReassignments: where replicas shall be; null takes a move back (KIP-455)."""

from typing import Any

from refimpl.api.authorization import OnCluster
from refimpl.api.call import Call, Handling, Values
from refimpl.api.control import as_asked, refused, timeout_ms
from refimpl.api.permissions import ALTER, refused_partitions, with_request_error
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


def _no_move(call: Call, error: str) -> Values:
    moved = refused_partitions(named=True)
    return {"responses": [moved(call, topic, error) for topic in call.request.topics]}


PERMISSIONS = (OnCluster((ALTER,), with_request_error(_no_move)),)
