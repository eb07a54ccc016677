"""Share groups at level 0 of `share.version`: their APIs refuse, whoever asks (KIP-932)."""

from collections.abc import Callable, Mapping

from refimpl.api.call import Call, Values
from refimpl.controller.features import level_of
from refimpl.messages.cluster import SHARE_VERSION

UNSUPPORTED = "UNSUPPORTED_VERSION"
MESSAGE = "The version of API is not supported."
"""Kafka's message of that error."""


def refused(call: Call) -> Values | None:
    """The refusal of a request about share groups, if none are served."""
    refuse = REFUSALS.get(call.api_key)
    if refuse is None:
        return None
    broker = call.broker
    level = level_of(SHARE_VERSION, broker.node.metadata.features, broker.configs)
    return None if level else refuse(call)


def _whole(_: Call) -> Values:
    return {"error_code": UNSUPPORTED}


def _whole_with_message(_: Call) -> Values:
    return {"error_code": UNSUPPORTED, "error_message": MESSAGE}


def _each_described(call: Call) -> Values:
    groups = [{"group_id": one, "error_code": UNSUPPORTED} for one in call.request.group_ids]
    return {"groups": groups}


def _each_with_offsets(call: Call) -> Values:
    groups = [{"group_id": one.group_id, "error_code": UNSUPPORTED} for one in call.request.groups]
    return {"groups": groups}


REFUSALS: Mapping[int, Callable[[Call], Values]] = {
    76: _whole,  # ShareGroupHeartbeat
    77: _each_described,  # ShareGroupDescribe
    78: _whole,  # ShareFetch
    79: _whole,  # ShareAcknowledge
    90: _each_with_offsets,  # DescribeShareGroupOffsets
    91: _whole_with_message,  # AlterShareGroupOffsets
    92: _whole_with_message,  # DeleteShareGroupOffsets
}
"""By keys of APIs. Those of share coordinators are asked by brokers, and go on."""
