"""Functions of the five APIs of the share coordinator, which several partitions share."""

from collections.abc import Callable
from typing import Any

from refimpl.api.call import Call, Handling, Values
from refimpl.messages.share import ShareKey, ShareStateResponse
from refimpl.records.schema import NO_ID, Uuid


def each(
    call: Call,
    request_of: Callable[[ShareKey, Any], Any],
    values_of: Callable[[Any, ShareStateResponse], Values],
) -> Handling:
    """Ask about each partition of a request, and answer by topics."""
    results: list[Values] = []
    for topic in call.request.topics:
        topic_id = NO_ID if topic.topic_id is None else Uuid(topic.topic_id.bytes)
        partitions: list[Values] = []
        for one in topic.partitions:
            key = ShareKey(call.request.group_id, topic_id, one.partition)
            answer: ShareStateResponse = yield request_of(key, one)
            partitions.append(
                {
                    "partition": one.partition,
                    "error_code": answer.error,
                    "error_message": answer.error_message,
                    **values_of(one, answer),
                }
            )
        results.append({"topic_id": topic.topic_id, "partitions": partitions})
    return {"results": results}


def nothing(one: Any, answer: ShareStateResponse) -> Values:
    """No values beside the error."""
    return {}
