"""CreateAcls: without an authorizer nothing keeps them (KIP-140)."""

from refimpl.api.call import Call, Values

DISABLED: Values = {
    "error_code": "SECURITY_DISABLED",
    "error_message": "No Authorizer is configured.",
}


def handle(call: Call) -> Values:
    """Answer as Kafka does if authorizer.class.name is empty."""
    return {"results": [DISABLED for _ in call.request.creations]}
