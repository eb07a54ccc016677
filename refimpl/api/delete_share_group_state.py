"""DeleteShareGroupState: end a life of share partitions (KIP-932)."""

from typing import Any

from refimpl.api.call import Call, Handling
from refimpl.api.permissions import ON_SHARE_STATE
from refimpl.api.share_state import each, nothing
from refimpl.messages.share import DeleteShareStateRequest, ShareKey


def handle(call: Call) -> Handling:
    """One request of the node for each partition."""
    return each(call, _request, nothing)


def _request(key: ShareKey, one: Any) -> DeleteShareStateRequest:
    return DeleteShareStateRequest(key)


PERMISSIONS = (ON_SHARE_STATE,)
