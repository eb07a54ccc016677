"""LeaveGroup, of many members at once since version 3 (KIP-345)."""

from refimpl.api.call import Call, Handling
from refimpl.api.permissions import READ, on_group
from refimpl.messages.group import LeaveGroupRequest, LeaveGroupResponse, LeavingMember

BATCHED = 3


def handle(call: Call) -> Handling:
    """Members leave."""
    request = call.request
    if call.version < BATCHED:
        members = (LeavingMember(request.member_id),)
    else:
        members = tuple(
            LeavingMember(one.member_id, one.group_instance_id, getattr(one, "reason", None))
            for one in request.members
        )
    answer: LeaveGroupResponse = yield LeaveGroupRequest(request.group_id, members)
    error = answer.error
    if call.version < BATCHED and error is None and answer.members:
        error = answer.members[0].error
    left = [
        {
            "member_id": one.member_id,
            "group_instance_id": one.group_instance_id,
            "error_code": one.error,
        }
        for one in answer.members
    ]
    return {"error_code": error, "members": left}


PERMISSIONS = (on_group(READ),)
