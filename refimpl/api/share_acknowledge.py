"""ShareAcknowledge: accept, release, reject or renew records (KIP-932, KIP-1222)."""

from refimpl.api.authorization import Each
from refimpl.api.call import Call, Handling
from refimpl.api.errors import MOVED
from refimpl.api.permissions import READ, on_group, refused_partitions, topic_by_id
from refimpl.api.shares import (
    NO_LEADER,
    REFUSED,
    UNKNOWN_ID,
    acknowledgements,
    by_topic_id,
    endpoints,
    is_nameless,
    leader,
    named,
)
from refimpl.messages.share import ShareAcknowledgeRequest, ShareAcknowledgeResponse


def handle(call: Call) -> Handling:
    """Acknowledge; the answer comes once that is written."""
    request = call.request
    if is_nameless(request):
        return REFUSED
    partitions, unknown = named(call, request.topics)
    answer: ShareAcknowledgeResponse = yield ShareAcknowledgeRequest(
        request.group_id,
        request.member_id,
        request.share_session_epoch,
        acknowledgements(partitions),
        getattr(request, "is_renew_ack", False),
    )
    found = by_topic_id(
        call,
        [
            (
                name,
                {
                    "partition_index": name.partition,
                    "error_code": error,
                    "error_message": why,
                    "current_leader": leader(call, name, error),
                },
            )
            for name, error, why in answer.partitions
        ],
    )
    for topic_id, number in unknown if answer.error is None else ():
        refused = {
            "partition_index": number,
            "error_code": UNKNOWN_ID,
            "error_message": None,
            "current_leader": NO_LEADER,
        }
        found.append({"topic_id": topic_id, "partitions": [refused]})
    return {
        "error_code": answer.error,
        "error_message": None,
        "acquisition_lock_timeout": answer.lock_timeout_ms,
        "responses": found,
        "node_endpoints": endpoints(
            call, [name for name, error, _ in answer.partitions if error in MOVED]
        ),
    }


PERMISSIONS = (
    on_group(READ),
    Each("topics", READ, topic_by_id, refused_partitions(), "responses", whole_first=True),
)
