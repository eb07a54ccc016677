"""DeleteShareGroupOffsets: delete the state of topics in a share group (KIP-932)."""

from refimpl.api.authorization import Each
from refimpl.api.call import Call, Handling
from refimpl.api.permissions import DELETE, READ, on_group, refused_element, topic_of_shares
from refimpl.api.shares import NO_PARTITION, UNKNOWN, refusal_of
from refimpl.messages.group import DeleteShareOffsetsRequest, DeleteShareOffsetsResponse

NOTHING = "There is no offset information to delete."


def handle(call: Call) -> Handling:
    """Delete the state of each topic."""
    request = call.request
    answer: DeleteShareOffsetsResponse = yield DeleteShareOffsetsRequest(
        request.group_id, tuple(dict.fromkeys(one.topic_name for one in request.topics))
    )
    return {
        "error_code": answer.error,
        "error_message": refusal_of(answer),
        "responses": [
            {
                "topic_name": name,
                "topic_id": topic_id,
                "error_code": error,
                "error_message": _message(call, name, error),
            }
            for name, error, topic_id in answer.topics
        ],
    }


def _message(call: Call, name: str, error: str | None) -> str | None:
    if error != UNKNOWN:
        return None
    return NOTHING if name in call.broker.node.metadata.topics else NO_PARTITION


PERMISSIONS = (
    on_group(DELETE),
    Each(
        *("topics", READ, topic_of_shares, refused_element("topic_name", named=True), "responses"),
        whole_first=True,
    ),
)
