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
    """Ask about each partition of a request, and answer by topics.

    As with Kafka a partition that is named twice has one answer, a topic without partitions has
    none, and neither has anything that is asked of a group without a name.
    """
    results: dict[Uuid, dict[int, Values]] = {}
    for topic in call.request.topics if call.request.group_id else ():
        topic_id = NO_ID if topic.topic_id is None else Uuid(topic.topic_id.bytes)
        for one in topic.partitions:
            key = ShareKey(call.request.group_id, topic_id, one.partition)
            answer: ShareStateResponse = yield request_of(key, one)
            results.setdefault(topic_id, {})[one.partition] = {
                "partition": one.partition,
                "error_code": answer.error,
                "error_message": answer.error_message,
                **values_of(one, answer),
            }
    return {
        "results": [
            {"topic_id": topic_id, "partitions": list(of.values())}
            for topic_id, of in results.items()
        ]
    }


def start_of(answer: ShareStateResponse) -> int:
    """The start of a state; with an error it is 0, as in Kafka."""
    return answer.start_offset if answer.error is None else 0


def nothing(one: Any, answer: ShareStateResponse) -> Values:
    """No values beside the error."""
    return {}
