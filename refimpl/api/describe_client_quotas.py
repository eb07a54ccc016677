"""DescribeClientQuotas: the limits of users, clients and addresses (KIP-546)."""

from refimpl.api.authorization import OnCluster
from refimpl.api.call import Call, Values
from refimpl.api.permissions import DESCRIBE_CONFIGS, with_message
from refimpl.controller.errors import ApiError
from refimpl.controller.quota_filter import Component, matching


def handle(call: Call) -> Values:
    """Answer from the quotas in this broker's metadata."""
    request = call.request
    components = [Component(o.entity_type, o.match_type, o.match) for o in request.components]
    try:
        found = list(matching(components, request.strict, call.broker.node.metadata.quotas))
    except ApiError as error:
        return {"error_code": error.error, "error_message": error.message, "entries": None}
    return {
        "error_code": None,
        "error_message": "",
        "entries": [
            {
                "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
                "values": [{"key": key, "value": value} for key, value in values.items()],
            }
            for entity, values in found
        ],
    }


PERMISSIONS = (OnCluster((DESCRIBE_CONFIGS,), with_message),)
