"""ListPartitionReassignments: which moves of replicas are under way (KIP-455)."""

from typing import Any

from refimpl.api.authorization import OnCluster
from refimpl.api.call import Call, Handling, Values
from refimpl.api.control import by_topic, partitions, refused, timeout_ms
from refimpl.api.permissions import DESCRIBE, with_message
from refimpl.messages.controller import ListPartitionReassignmentsRequest, OngoingReassignment


def handle(call: Call) -> Handling:
    """Ask the controller."""
    asked = call.request.topics
    wanted = None if asked is None else partitions(asked, "name", "partition_indexes")
    answer: Any = yield ListPartitionReassignmentsRequest(wanted, timeout_ms(call))
    if failure := refused(answer):
        return {"error_code": failure.error, "error_message": failure.message, "topics": []}
    moves: dict[str, list[OngoingReassignment]] = by_topic(
        (one.partition, one) for one in answer.partitions
    )
    return {
        "error_code": answer.error,
        "error_message": answer.message,
        "topics": [
            {"name": name, "partitions": list(map(_move, of))} for name, of in moves.items()
        ],
    }


def _move(one: OngoingReassignment) -> Values:
    return {
        "partition_index": one.partition.partition,
        "replicas": one.replicas,
        "adding_replicas": one.adding,
        "removing_replicas": one.removing,
    }


PERMISSIONS = (OnCluster((DESCRIBE,), with_message),)
