"""JoinGroup: static members (KIP-345), known member ids (KIP-394), reasons (KIP-800)."""

from refimpl.api.call import Call, Handling, Values
from refimpl.api.groups import client
from refimpl.api.permissions import READ, on_group
from refimpl.messages.group import JoinGroupRequest, JoinGroupResponse
from refimpl.wire.messages import milliseconds

KNOWN_MEMBER_ID, MAYBE_NO_PROTOCOL, SKIPS_ASSIGNMENT = 4, 7, 9


def handle(call: Call) -> Handling:
    """Join; the answer comes when all others have joined as well."""
    request = call.request
    session_ms = milliseconds(request.session_timeout)
    rebalance = getattr(request, "rebalance_timeout", None)
    answer: JoinGroupResponse = yield JoinGroupRequest(
        request.group_id,
        session_ms,
        session_ms if rebalance is None else milliseconds(rebalance),
        request.member_id,
        getattr(request, "group_instance_id", None),
        request.protocol_type,
        tuple((one.name, bytes(one.metadata)) for one in request.protocols),
        **client(call),
        reason=getattr(request, "reason", None),
        requires_known_member_id=call.version >= KNOWN_MEMBER_ID,
        can_skip_assignment=call.version >= SKIPS_ASSIGNMENT,
    )
    nothing = None if call.version >= MAYBE_NO_PROTOCOL else ""
    return {
        "error_code": answer.error,
        "generation_id": answer.generation_id,
        "protocol_type": answer.protocol_type,
        "protocol_name": answer.protocol_name or nothing,
        "leader": answer.leader,
        "skip_assignment": answer.skip_assignment,
        "member_id": answer.member_id,
        "members": [one._asdict() for one in answer.members],
    }


def _no_member(call: Call, error: str) -> Values:
    nothing = None if call.version >= 7 else ""
    return {"error_code": error, "generation_id": -1, "protocol_name": nothing, "members": ()}


PERMISSIONS = (on_group(READ, _no_member),)
