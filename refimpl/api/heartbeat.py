"""Heartbeat of members of classic groups."""

from refimpl.api.call import Call, Handling
from refimpl.api.permissions import READ, on_group
from refimpl.messages.group import HeartbeatRequest


def handle(call: Call) -> Handling:
    """A member lives."""
    request = call.request
    instance_id = getattr(request, "group_instance_id", None)
    answer = yield HeartbeatRequest(
        request.group_id, request.generation_id, request.member_id, instance_id
    )
    return {"error_code": answer.error}


PERMISSIONS = (on_group(READ),)
