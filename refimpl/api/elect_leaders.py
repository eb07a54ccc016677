"""ElectLeaders: preferred ones, and since version 1 any out of sync (KIP-183, KIP-460)."""

from typing import Any

from refimpl.api.call import Call, Handling, Values
from refimpl.api.control import by_topic, partitions, refused, timeout_ms
from refimpl.messages.controller import (
    PREFERRED,
    UNCLEAN,
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
)


def handle(call: Call) -> Handling:
    """Have the controller elect leaders."""
    request = call.request
    kind = getattr(request, "election_type", PREFERRED)
    if kind not in (PREFERRED, UNCLEAN):
        return {"error_code": "INVALID_REQUEST", "replica_election_results": []}
    asked = request.topic_partitions
    wanted = None if asked is None else partitions(asked, "topic", "partitions")
    answer: Any = yield ElectLeadersRequest(kind, wanted, timeout_ms(call))
    if failure := refused(answer):
        refusals = [PartitionResult(name, *failure) for name in wanted or ()]
        answer = ElectLeadersResponse(refusals, failure.error)
    results: dict[str, list[PartitionResult]] = by_topic(
        (one.partition, one) for one in answer.partitions
    )
    if asked is None and answer.error is None:
        # Of all topics Kafka names each, those without a word as well.
        results = {name: results.get(name, []) for name in call.broker.node.metadata.topics}
    return {
        "error_code": answer.error,
        "replica_election_results": [
            {"topic": topic, "partition_result": list(map(_result, of))}
            for topic, of in results.items()
        ],
    }


def _result(one: PartitionResult) -> Values:
    return {
        "partition_id": one.partition.partition,
        "error_code": one.error,
        "error_message": one.message,
    }
