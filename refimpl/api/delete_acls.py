"""DeleteAcls: without an authorizer there are none (KIP-140)."""

from refimpl.api.call import Call, Values
from refimpl.api.create_acls import DISABLED


def handle(call: Call) -> Values:
    """Answer as Kafka does if authorizer.class.name is empty."""
    return {"filter_results": [DISABLED for _ in call.request.filters]}
