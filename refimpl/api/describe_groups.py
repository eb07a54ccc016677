"""DescribeGroups: classic groups and their members; an error for those that are not there since
version 6 (KIP-1043)."""

from refimpl.api.authorization import Each
from refimpl.api.call import Call, Handling, Values
from refimpl.api.groups import operations
from refimpl.api.permissions import DESCRIBE, DESCRIBED_GROUPS, group_itself, refused_name
from refimpl.messages.group import (
    DescribedMember,
    DescribeGroupRequest,
    DescribeGroupResponse,
)

NOT_FOUND = 6


def handle(call: Call) -> Handling:
    """Describe each group."""
    groups: list[Values] = []
    for group_id in call.request.groups:
        answer: DescribeGroupResponse = yield DescribeGroupRequest(group_id)
        groups.append(_described(call, answer))
    return {"groups": groups}


def _described(call: Call, one: DescribeGroupResponse) -> Values:
    error, message = one.error, one.message
    if error == "GROUP_ID_NOT_FOUND" and call.version < NOT_FOUND:
        error = message = None
    return {
        "error_code": error,
        "error_message": message,
        "group_id": one.group_id,
        "group_state": one.state,
        "protocol_type": one.protocol_type,
        "protocol_data": one.protocol,
        "members": [_member(member) for member in one.members],
        "authorized_operations": operations(call, error),
    }


def _member(one: DescribedMember) -> Values:
    return {
        "member_id": one.member_id,
        "group_instance_id": one.group_instance_id,
        "client_id": one.client_id,
        "client_host": one.client_host,
        "member_metadata": one.metadata,
        "member_assignment": one.assignment,
    }


PERMISSIONS = (
    Each("groups", DESCRIBE, group_itself, refused_name("group_id"), "groups"),
    DESCRIBED_GROUPS,
)
