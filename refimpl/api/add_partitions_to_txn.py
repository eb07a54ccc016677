"""AddPartitionsToTxn: partitions that a transaction writes to (KIP-98).

Since version 4 brokers send it, of several transactions at once, and may ask if a partition is in
its transaction already (KIP-890).
"""

from typing import Any

from refimpl.api.authorization import OnCluster, Proceed, Result, may
from refimpl.api.call import Call, Handling, Values
from refimpl.api.control import as_asked, partitions
from refimpl.api.permissions import (
    CLUSTER_ACTION,
    TOPIC,
    TOPIC_FAILED,
    TRANSACTIONAL_FAILED,
    TRANSACTIONAL_ID,
    WRITE,
    refused_partitions,
    with_error,
)
from refimpl.api.transactions import error_of
from refimpl.messages.cluster import INTERNAL_TOPICS
from refimpl.messages.transaction_coordination import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)

FENCED, BATCHED, ADDED_BY_LEADERS = 2, 4, 5


def handle(call: Call) -> Handling:
    """Let each transaction's coordinator answer."""
    request = call.request
    if call.version < BATCHED:
        answer: AddPartitionsToTxnResponse = yield AddPartitionsToTxnRequest(
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            partitions(request.v3_and_below_topics, "name", "partitions"),
            transaction_version=0,
        )
        return {
            "results_by_topic_v3_and_below": _results(call, request.v3_and_below_topics, answer)
        }
    results: list[Values] = []
    for one in request.transactions:
        answer = yield _request(call, one)
        results.append(
            {
                "transactional_id": one.transactional_id,
                "topic_results": _results(call, one.topics, answer),
            }
        )
    return {"error_code": None, "results_by_transaction": results}


def _request(call: Call, one: Any) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        *(one.transactional_id, one.producer_id, one.producer_epoch),
        partitions(one.topics, "name", "partitions"),
        one.verify_only,
        2 if call.version >= ADDED_BY_LEADERS else 0,
    )


def _results(call: Call, topics: Any, answer: AddPartitionsToTxnResponse) -> list[Values]:
    results = {
        name: {
            "partition_index": name.partition,
            "partition_error_code": error_of(call, error, FENCED),
        }
        for name, error in answer.partitions
    }
    return [
        {"name": topic, "results_by_partition": of}
        for topic, of in as_asked(topics, "name", "partitions", results)
    ]


_BROKERS_ADD = 4


def _add_partitions(call: Call, proceed: Proceed) -> Result:
    """WRITE on the transactional id and each topic; CLUSTER_ACTION from brokers (KIP-890)."""
    if call.version >= _BROKERS_ADD:
        return OnCluster((CLUSTER_ACTION,), with_error)(call, proceed)
    request, known = call.request, call.broker.node.metadata.partitions
    topics = request.v3_and_below_topics
    if not may(call, WRITE, TRANSACTIONAL_ID, request.v3_and_below_transactional_id):
        return {_ADDED: [_not_added(call, one, TRANSACTIONAL_FAILED) for one in topics]}
    denied = {
        one.name
        for one in topics
        if one.name in INTERNAL_TOPICS or not may(call, WRITE, TOPIC, one.name)
    }
    if not denied:
        return proceed(call)

    def error(topic: str, number: int) -> str:
        if topic in denied:
            return TOPIC_FAILED
        exists = (topic, number) in known
        return "OPERATION_NOT_ATTEMPTED" if exists else "UNKNOWN_TOPIC_OR_PARTITION"

    return {
        _ADDED: [
            {
                "name": one.name,
                "results_by_partition": [
                    {"partition_index": n, "partition_error_code": error(one.name, n)}
                    for n in one.partitions
                ],
            }
            for one in topics
        ]
    }


_ADDED = "results_by_topic_v3_and_below"


_not_added = refused_partitions(error_code="partition_error_code", results="results_by_partition")


PERMISSIONS = (_add_partitions,)
