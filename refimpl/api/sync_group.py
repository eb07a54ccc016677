"""SyncGroup: the leader's assignment for everybody, and everybody's own."""

from refimpl.api.call import Call, Handling
from refimpl.api.permissions import READ, on_group
from refimpl.messages.group import SyncGroupRequest, SyncGroupResponse

NAMES_PROTOCOL = 5
"""Since this version members have to name their protocol (KIP-559)."""


def handle(call: Call) -> Handling:
    """Sync; followers wait for the leader."""
    request = call.request
    if call.version >= NAMES_PROTOCOL and None in (request.protocol_type, request.protocol_name):
        return {"error_code": "INCONSISTENT_GROUP_PROTOCOL", "assignment": b""}
    answer: SyncGroupResponse = yield SyncGroupRequest(
        request.group_id,
        request.generation_id,
        request.member_id,
        getattr(request, "group_instance_id", None),
        getattr(request, "protocol_type", None),
        getattr(request, "protocol_name", None),
        tuple((one.member_id, bytes(one.assignment)) for one in request.assignments),
    )
    return {
        "error_code": answer.error,
        "protocol_type": answer.protocol_type,
        "protocol_name": answer.protocol_name,
        "assignment": answer.assignment,
    }


PERMISSIONS = (on_group(READ),)
