"""ShareGroupHeartbeat: members of share groups join, live and leave (KIP-932)."""

from refimpl.api.call import Call, Handling
from refimpl.api.groups import client
from refimpl.api.permissions import READ, on_group, sees_subscribed_topics
from refimpl.messages.group import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse


def handle(call: Call) -> Handling:
    """A member joins, lives or leaves."""
    request = call.request
    names = request.subscribed_topic_names
    answer: ShareGroupHeartbeatResponse = yield ShareGroupHeartbeatRequest(
        request.group_id,
        request.member_id,
        request.member_epoch,
        request.rack_id,
        None if names is None else tuple(names),
        **client(call),
    )
    parts = answer.assignment
    return {
        "error_code": answer.error,
        "error_message": answer.error_message or None,
        "member_id": answer.member_id,
        "member_epoch": answer.member_epoch,
        "heartbeat_interval": answer.heartbeat_interval_ms,
        "assignment": None
        if parts is None
        else {"topic_partitions": [one._asdict() for one in parts]},
    }


PERMISSIONS = (on_group(READ), sees_subscribed_topics)
