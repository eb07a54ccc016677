"""WriteShareGroupState: changes of the state of share partitions (KIP-932)."""

from typing import Any

from refimpl.api.call import Call, Handling
from refimpl.api.permissions import ON_SHARE_STATE
from refimpl.api.share_state import each, nothing
from refimpl.messages.share import ShareKey, StoredBatch, WriteShareStateRequest


def handle(call: Call) -> Handling:
    """One request of the node for each partition."""
    return each(call, _request, nothing)


def _request(key: ShareKey, one: Any) -> WriteShareStateRequest:
    return WriteShareStateRequest(
        key,
        one.state_epoch,
        one.leader_epoch,
        one.start_offset,
        getattr(one, "delivery_complete_count", -1),
        [
            StoredBatch(
                *(batch.first_offset, batch.last_offset),
                *(batch.delivery_state, batch.delivery_count),
            )
            for batch in one.state_batches
        ],
    )


PERMISSIONS = (ON_SHARE_STATE,)
