"""ShareGroupDescribe: share groups and their members (KIP-932)."""

from refimpl.api.authorization import Each
from refimpl.api.call import Call, Handling, Values
from refimpl.api.groups import operations
from refimpl.api.permissions import (
    DESCRIBE,
    DESCRIBED_GROUPS,
    DESCRIBED_MEMBERS,
    group_itself,
    refused_name,
)
from refimpl.messages.group import ShareGroupDescribeRequest, ShareGroupDescribeResponse


def handle(call: Call) -> Handling:
    """Describe each group."""
    groups: list[Values] = []
    for group_id in call.request.group_ids:
        one: ShareGroupDescribeResponse = yield ShareGroupDescribeRequest(group_id)
        groups.append(
            {
                "error_code": one.error,
                "error_message": one.error_message,
                "group_id": one.group_id,
                "group_state": one.group_state,
                "group_epoch": one.group_epoch,
                "assignment_epoch": one.assignment_epoch,
                "assignor_name": one.assignor_name,
                "members": [
                    {
                        **member._asdict(),
                        "assignment": {
                            "topic_partitions": [part._asdict() for part in member.assignment]
                        },
                    }
                    for member in one.members
                ],
                "authorized_operations": operations(call, one.error),
            }
        )
    return {"groups": groups}


PERMISSIONS = (
    Each("group_ids", DESCRIBE, group_itself, refused_name("group_id"), "groups"),
    DESCRIBED_MEMBERS,
    DESCRIBED_GROUPS,
)
