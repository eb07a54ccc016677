"""ConsumerGroupDescribe: consumer groups and their members (KIP-848, KIP-1099)."""

from collections.abc import Iterable

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
from refimpl.messages.group import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedConsumerMember,
    NamedTopicPartitions,
)


def handle(call: Call) -> Handling:
    """Describe each group."""
    groups: list[Values] = []
    for group_id in call.request.group_ids:
        answer: ConsumerGroupDescribeResponse = yield ConsumerGroupDescribeRequest(group_id)
        groups.append(_described(call, answer))
    return {"groups": groups}


def _described(call: Call, one: ConsumerGroupDescribeResponse) -> Values:
    return {
        "error_code": one.error,
        "error_message": one.error_message,
        "group_id": one.group_id,
        "group_state": one.group_state,
        "group_epoch": one.group_epoch,
        "assignment_epoch": one.assignment_epoch,
        "assignor_name": one.assignor_name,
        "members": [_member(member) for member in one.members],
        "authorized_operations": operations(call, one.error),
    }


def _member(one: DescribedConsumerMember) -> Values:
    return {
        **one._asdict(),
        "assignment": _assigned(one.assignment),
        "target_assignment": _assigned(one.target_assignment),
    }


def _assigned(topics: Iterable[NamedTopicPartitions]) -> Values:
    return {"topic_partitions": [one._asdict() for one in topics]}


PERMISSIONS = (
    Each("group_ids", DESCRIBE, group_itself, refused_name("group_id"), "groups"),
    DESCRIBED_MEMBERS,
    DESCRIBED_GROUPS,
)
