"""CreatePartitions (KIP-195)."""

from typing import Any

from refimpl.api.call import Call, Handling
from refimpl.api.control import refused, timeout_ms
from refimpl.broker.control_messages import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    NewPartitions,
    TopicResult,
)


def handle(call: Call) -> Handling:
    """Have the controller give topics more partitions."""
    request = call.request
    wanted = tuple(map(_wanted, request.topics))
    answer: Any = yield CreatePartitionsRequest(wanted, request.validate_only, timeout_ms(call))
    if failure := refused(answer):
        answer = CreatePartitionsResponse([TopicResult(one.name, *failure) for one in wanted])
    return {
        "results": [
            {"name": one.name, "error_code": one.error, "error_message": one.message}
            for one in answer.topics
        ]
    }


def _wanted(topic: Any) -> NewPartitions:
    assignments = topic.assignments
    if assignments is not None:
        assignments = tuple(tuple(one.broker_ids) for one in assignments)
    return NewPartitions(topic.name, topic.count, assignments)
