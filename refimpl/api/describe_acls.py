"""DescribeAcls: those that a filter selects, if there is an authorizer (KIP-140)."""

from refimpl.api.acls import check_known, filter_of
from refimpl.api.authorization import OnCluster
from refimpl.api.call import Call, Values
from refimpl.api.permissions import DESCRIBE, with_message
from refimpl.security.acls import AccessControlEntry, ResourcePattern


def handle(call: Call) -> Values:
    """Answer from this broker's metadata; without an authorizer refuse, as Kafka does."""
    one = call.request
    wanted = filter_of(
        *(one.resource_type_filter, one.resource_name_filter, one.pattern_type_filter),
        *(one.principal_filter, one.host_filter, one.operation, one.permission_type),
    )
    check_known([wanted])
    if call.broker.node.authorizer is None:
        message = "No Authorizer is configured on the broker"
        return {"error_code": "SECURITY_DISABLED", "error_message": message, "resources": []}
    found: dict[ResourcePattern, list[AccessControlEntry]] = {}
    for binding in call.broker.node.metadata.acls.bindings():
        if wanted.matches(binding):
            found.setdefault(binding.pattern, []).append(binding.entry)
    return {
        "error_code": None,
        "error_message": "",
        "resources": [_resource(pattern, entries) for pattern, entries in found.items()],
    }


def _resource(pattern: ResourcePattern, entries: list[AccessControlEntry]) -> Values:
    return {
        "resource_type": pattern.type,
        "resource_name": pattern.name,
        "pattern_type": pattern.pattern_type,
        "acls": [
            {
                "principal": entry.principal,
                "host": entry.host,
                "operation": entry.operation,
                "permission_type": entry.permission,
            }
            for entry in entries
        ],
    }


PERMISSIONS = (OnCluster((DESCRIBE,), with_message),)
