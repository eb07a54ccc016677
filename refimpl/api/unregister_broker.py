"""UnregisterBroker: a broker that will not come back is removed from the cluster (KIP-500)."""

from typing import Any

from refimpl.api.authorization import OnCluster
from refimpl.api.call import Call, Handling
from refimpl.api.permissions import ALTER, with_message
from refimpl.messages.controller import UnregisterBrokerRequest


def handle(call: Call) -> Handling:
    """Have the controller remove its registration."""
    answer: Any = yield UnregisterBrokerRequest(call.request.broker_id)
    return {"error_code": answer.error, "error_message": answer.message or ""}


PERMISSIONS = (OnCluster((ALTER,), with_message),)
