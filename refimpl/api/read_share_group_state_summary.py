"""ReadShareGroupStateSummary: epochs and starts of share partitions (KIP-932, KIP-1226)."""

from typing import Any

from refimpl.api.call import Call, Handling, Values
from refimpl.api.permissions import ON_SHARE_STATE
from refimpl.api.share_state import each, start_of
from refimpl.messages.share import ReadShareStateSummaryRequest, ShareKey, ShareStateResponse


def handle(call: Call) -> Handling:
    """One request of the node for each partition."""
    return each(call, _request, _values)


def _request(key: ShareKey, one: Any) -> ReadShareStateSummaryRequest:
    return ReadShareStateSummaryRequest(key)


def _values(one: Any, answer: ShareStateResponse) -> Values:
    return {
        "state_epoch": answer.state_epoch,
        "leader_epoch": max(answer.leader_epoch, 0),
        "start_offset": start_of(answer),
        "delivery_complete_count": answer.delivery_complete_count,
    }


PERMISSIONS = (ON_SHARE_STATE,)
