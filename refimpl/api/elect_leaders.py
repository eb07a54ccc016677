"""ElectLeaders: preferred ones, and since version 1 any out of sync (KIP-183, KIP-460)."""

from collections.abc import Iterable
from typing import Any

from refimpl.api.authorization import OnCluster
from refimpl.api.call import Call, Handling, Values
from refimpl.api.control import as_asked, by_topic, partitions, refused, timeout_ms
from refimpl.api.permissions import ALTER, refused_partitions, with_request_error
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
    asked = request.topic_partitions
    wanted = None if asked is None else partitions(asked, "topic", "partitions")
    if kind not in (PREFERRED, UNCLEAN):
        why = "INVALID_REQUEST", f"Unknown election type {kind}"
        refusals = {name: _result(PartitionResult(name, *why)) for name in wanted or ()}
        return _answer(why[0], as_asked(asked or (), "topic", "partitions", refusals))
    answer: Any = yield ElectLeadersRequest(kind, wanted, timeout_ms(call))
    if failure := refused(answer):
        refusals = [PartitionResult(name, *failure) for name in wanted or ()]
        answer = ElectLeadersResponse(refusals, failure.error)
    results = {one.partition: _result(one) for one in answer.partitions}
    if asked is not None:
        found = as_asked(asked, "topic", "partitions", results)
    elif answer.error is None:
        # Of all topics Kafka names each, those without a word as well.
        told = by_topic(results.items())
        found = [(name, told.get(name, [])) for name in call.broker.node.metadata.topics]
    else:
        found = []
    return _answer(answer.error, found)


def _answer(error: str | None, found: Iterable[tuple[str, list[Values]]]) -> Values:
    listed = [{"topic": topic, "partition_result": of} for topic, of in found]
    return {"error_code": error, "replica_election_results": listed}


def _result(one: PartitionResult) -> Values:
    return {
        "partition_id": one.partition.partition,
        "error_code": one.error,
        "error_message": one.message,
    }


def _no_election(call: Call, error: str) -> Values:
    of = refused_partitions(index="partition_id", results="partition_result", named=True)
    topics = call.request.topic_partitions or ()
    return {"replica_election_results": [of(call, topic, error) for topic in topics]}


PERMISSIONS = (OnCluster((ALTER,), with_request_error(_no_election, message=False)),)
