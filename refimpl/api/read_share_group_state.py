"""ReadShareGroupState: the state of share partitions, for their new leader (KIP-932)."""

from typing import Any

from refimpl.api.call import Call, Handling, Values
from refimpl.api.permissions import ON_SHARE_STATE
from refimpl.api.share_state import each, start_of
from refimpl.messages.share import ReadShareStateRequest, ShareKey, ShareStateResponse


def handle(call: Call) -> Handling:
    """One request of the node for each partition."""
    return each(call, _request, _values)


def _request(key: ShareKey, one: Any) -> ReadShareStateRequest:
    return ReadShareStateRequest(key, one.leader_epoch)


def _values(one: Any, answer: ShareStateResponse) -> Values:
    return {
        "state_epoch": answer.state_epoch,
        "start_offset": start_of(answer),
        "state_batches": [batch._asdict() for batch in answer.batches],
    }


PERMISSIONS = (ON_SHARE_STATE,)
