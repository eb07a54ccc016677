"""CreatePartitions (KIP-195)."""

from typing import Any

from refimpl.api.authorization import Each
from refimpl.api.call import Call, Handling
from refimpl.api.control import mutator, refused, timeout_ms
from refimpl.api.permissions import ALTER, named_topic, refused_element
from refimpl.messages.controller import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    NewPartitions,
    TopicResult,
)

_STRICT = 3
"""Since this version clients are refused that are above controller_mutation_rate (KIP-599)."""


def handle(call: Call) -> Handling:
    """Have the controller give topics more partitions."""
    request = call.request
    wanted = tuple(map(_wanted, request.topics))
    answer: Any = yield CreatePartitionsRequest(
        wanted, request.validate_only, timeout_ms(call), mutator(call, _STRICT)
    )
    if failure := refused(answer):
        answer = CreatePartitionsResponse([TopicResult(one.name, *failure) for one in wanted])
    call.throttle_ms = answer.throttle_ms
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


PERMISSIONS = (Each("topics", ALTER, named_topic, refused_element("name"), "results"),)
