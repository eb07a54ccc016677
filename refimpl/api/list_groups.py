"""ListGroups: the groups of this broker, by state (KIP-518) and by type (KIP-848)."""

from operator import itemgetter

from refimpl.api.authorization import Seen
from refimpl.api.call import Call, Handling
from refimpl.api.permissions import DESCRIBE, GROUP
from refimpl.messages.group import ListGroupsRequest, ListGroupsResponse


def handle(call: Call) -> Handling:
    """Every group that this broker coordinates."""
    states = tuple(getattr(call.request, "states_filter", ()))
    types = tuple(getattr(call.request, "types_filter", ()))
    answer: ListGroupsResponse = yield ListGroupsRequest(states, types)
    groups = [
        {
            "group_id": one.group_id,
            "protocol_type": one.protocol_type,
            "group_state": one.state,
            "group_type": one.type,
        }
        for one in answer.groups
    ]
    return {"error_code": answer.error, "groups": groups}


PERMISSIONS = (Seen("groups", DESCRIBE, GROUP, itemgetter("group_id"), or_cluster=DESCRIBE),)
