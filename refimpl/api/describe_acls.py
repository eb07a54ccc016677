"""DescribeAcls: without an authorizer there are none (KIP-140)."""

from refimpl.api.call import Call, Values


def handle(call: Call) -> Values:
    """Answer as Kafka does if authorizer.class.name is empty."""
    message = "No Authorizer is configured on the broker"
    return {"error_code": "SECURITY_DISABLED", "error_message": message, "resources": []}
