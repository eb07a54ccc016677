"""ConsumerGroupHeartbeat: the one request of members of consumer groups (KIP-848)."""

from refimpl.api.call import Call, Handling, Values
from refimpl.api.groups import by_id, client
from refimpl.api.permissions import READ, on_group, sees_subscribed_topics
from refimpl.messages.group import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from refimpl.wire.messages import milliseconds

OWN_MEMBER_ID = 1


def handle(call: Call) -> Handling:
    """A member joins, lives or leaves."""
    request = call.request
    names = request.subscribed_topic_names
    answer: ConsumerGroupHeartbeatResponse = yield ConsumerGroupHeartbeatRequest(
        request.group_id,
        request.member_id,
        request.member_epoch,
        request.instance_id,
        request.rack_id,
        milliseconds(request.rebalance_timeout),
        None if names is None else tuple(names),
        getattr(request, "subscribed_topic_regex", None),
        request.server_assignor,
        by_id(request.topic_partitions),
        **client(call),
        may_lack_member_id=call.version < OWN_MEMBER_ID,
    )
    assignment: Values | None = None
    if answer.assignment is not None:
        assignment = {"topic_partitions": [one._asdict() for one in answer.assignment]}
    return {
        "error_code": answer.error,
        "error_message": answer.error_message,
        "member_id": answer.member_id,
        "member_epoch": answer.member_epoch,
        "heartbeat_interval": answer.heartbeat_interval_ms,
        "assignment": assignment,
    }


PERMISSIONS = (on_group(READ), sees_subscribed_topics)
