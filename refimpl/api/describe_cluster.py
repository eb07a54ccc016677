"""DescribeCluster: brokers and controller (KIP-700), fenced ones too since version 2 (KIP-1073)."""

from refimpl.api.authorization import Changed
from refimpl.api.call import Call, Values
from refimpl.api.errors import endpoint_of
from refimpl.api.metadata import CLUSTER_OPERATIONS, controller_id
from refimpl.api.permissions import with_cluster_operations

BROKERS, CONTROLLERS = 1, 2
"""Types of endpoints (KIP-919)."""


def handle(call: Call) -> Values:
    """The cluster as this broker knows it."""
    request = call.request
    kind = getattr(request, "endpoint_type", BROKERS)
    if kind != BROKERS:
        return _other_endpoint(kind)
    fenced_too = getattr(request, "include_fenced_brokers", False)
    known = sorted(call.broker.node.metadata.brokers.values())
    answer: Values = {
        "error_code": None,
        "cluster_id": call.broker.cluster_id,
        "controller_id": controller_id(call.broker),
        "endpoint_type": BROKERS,
        "brokers": [
            {
                "broker_id": one.broker_id,
                "host": endpoint_of(call.broker, one).host,
                "port": endpoint_of(call.broker, one).port,
                "rack": one.rack,
                "is_fenced": one.fenced,
            }
            for one in known
            if one.endpoints and (fenced_too or not one.fenced)
        ],
    }
    if request.include_cluster_authorized_operations:
        return {**answer, "cluster_authorized_operations": CLUSTER_OPERATIONS}
    return answer


def _other_endpoint(kind: int) -> Values:
    if kind == CONTROLLERS:
        message = (
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of "
            "type CONTROLLER"
        )
        return {"error_code": "MISMATCHED_ENDPOINT_TYPE", "error_message": message}
    message = f"Unsupported endpoint type {kind}"
    return {"error_code": "UNSUPPORTED_ENDPOINT_TYPE", "error_message": message}


PERMISSIONS = (Changed(with_cluster_operations),)
