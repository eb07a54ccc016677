"""DeleteGroups: groups without members (KIP-229)."""

from refimpl.api.authorization import Each
from refimpl.api.call import Call, Handling, Values
from refimpl.api.permissions import DELETE, group_itself, refused_name
from refimpl.messages.group import DeleteGroupRequest


def handle(call: Call) -> Handling:
    """Delete each group once."""
    results: list[Values] = []
    for group_id in dict.fromkeys(call.request.groups_names):
        answer = yield DeleteGroupRequest(group_id)
        results.append({"group_id": group_id, "error_code": answer.error})
    return {"results": results}


PERMISSIONS = (Each("groups_names", DELETE, group_itself, refused_name("group_id"), "results"),)
