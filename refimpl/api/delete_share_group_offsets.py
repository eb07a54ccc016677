"""DeleteShareGroupOffsets: delete the state of topics in a share group (KIP-932)."""

from refimpl.api.call import Call, Handling
from refimpl.messages.group import DeleteShareOffsetsRequest, DeleteShareOffsetsResponse


def handle(call: Call) -> Handling:
    """Delete the state of each topic."""
    request = call.request
    answer: DeleteShareOffsetsResponse = yield DeleteShareOffsetsRequest(
        request.group_id, tuple(one.topic_name for one in request.topics)
    )
    return {
        "error_code": answer.error,
        "error_message": answer.error_message,
        "responses": [
            {"topic_name": name, "topic_id": topic_id, "error_code": error, "error_message": None}
            for name, error, topic_id in answer.topics
        ],
    }
