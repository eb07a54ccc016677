"""DeleteTopics, by name or, since version 6, by id (KIP-516)."""

from typing import Any

from refimpl.api.authorization import Each, Resource, may
from refimpl.api.call import Call, Handling, Values
from refimpl.api.control import mutator, refused, timeout_ms
from refimpl.api.permissions import (
    DELETE,
    DESCRIBE,
    TOPIC,
    refused_element,
    topic_by_id,
    with_message,
)
from refimpl.messages.controller import (
    DeletedTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

_WITH_IDS = 6
_STRICT = 5
"""Since this version clients are refused that are above controller_mutation_rate (KIP-599)."""
ZERO_ID = bytes(16)


def handle(call: Call) -> Handling:
    """Have topics deleted by the controller."""
    request, misnamed = call.request, list[DeletedTopic]()
    if call.version < _WITH_IDS:
        names, topic_ids = tuple(request.topic_names), ()
    else:
        ids = [(one.name, _bytes(one.topic_id)) for one in request.topics]
        misnamed = [DeletedTopic(n, id, *error) for n, id in ids if (error := _misnamed(n, id))]
        rest = [(name, id) for name, id in ids if not _misnamed(name, id)]
        names = tuple(name for name, _ in rest if name is not None)
        topic_ids = tuple(id for name, id in rest if name is None)
    body = DeleteTopicsRequest(names, topic_ids, timeout_ms(call), mutator(call, _STRICT))
    answer: Any = yield body
    if failure := refused(answer):
        answer = DeleteTopicsResponse(
            [
                *(DeletedTopic(name, ZERO_ID, *failure) for name in body.names),
                *(DeletedTopic(None, id, *failure) for id in body.topic_ids),
            ]
        )
    call.throttle_ms = answer.throttle_ms
    return {"responses": [_deleted(one) for one in (*misnamed, *answer.topics)]}


def _bytes(topic_id: Any) -> bytes:
    return ZERO_ID if topic_id is None else topic_id.bytes


def _misnamed(name: str | None, topic_id: bytes) -> tuple[str, str] | None:
    """The error of a topic that has both a name and an id, or neither; None for others."""
    if name is not None and topic_id != ZERO_ID:
        return "INVALID_REQUEST", "You may not specify both topic name and topic id."
    if name is None and topic_id == ZERO_ID:
        return "INVALID_REQUEST", "Neither topic name nor id were specified."
    return None


def _deleted(topic: DeletedTopic) -> Values:
    return {
        "name": topic.name,
        "topic_id": topic.topic_id,
        "error_code": topic.error,
        "error_message": topic.message,
    }


def _deletable(call: Call, element: Any) -> Resource | None:
    """None as well for a topic that is known not to be there to who may know it."""
    resource = (TOPIC, element) if isinstance(element, str) else topic_by_id(call, element)
    if resource is None or resource[1] in call.broker.node.metadata.topics:
        return resource
    return None if may(call, DESCRIBE, *resource) else resource


_refused = refused_element("name", "topic_id", named=True)


def _refused_topic(call: Call, element: Any, error: str) -> Values:
    """Of a topic by id the name is told only to who may describe it."""
    if isinstance(element, str):
        return {"name": element, **with_message(call, error)}
    name = element.name
    if name is None:
        resource = topic_by_id(call, element)
        if resource is not None and may(call, DESCRIBE, *resource):
            name = resource[1]
    return {**_refused(call, element, error), "name": name}


PERMISSIONS = (
    Each("topic_names", DELETE, _deletable, _refused_topic, "responses", or_cluster=DELETE),
    Each("topics", DELETE, _deletable, _refused_topic, "responses", or_cluster=DELETE),
)
