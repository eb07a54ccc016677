"""DeleteAcls: those that filters select, if there is an authorizer (KIP-140)."""

from typing import Any

from refimpl.api.acls import check_known, filter_of
from refimpl.api.authorization import OnCluster
from refimpl.api.call import Call, Handling, Values
from refimpl.api.control import refused
from refimpl.api.create_acls import DISABLED
from refimpl.api.permissions import ALTER, refused_acl, refused_all
from refimpl.messages.controller import DeleteAclsRequest, DeleteAclsResponse, DeletedAcls
from refimpl.security.acls import AclBinding


def handle(call: Call) -> Handling:
    """Have the controller delete ACLs; without an authorizer refuse, as Kafka does."""
    filters = [
        filter_of(
            *(one.resource_type_filter, one.resource_name_filter, one.pattern_type_filter),
            *(one.principal_filter, one.host_filter, one.operation, one.permission_type),
        )
        for one in call.request.filters
    ]
    check_known(filters)
    if call.broker.node.authorizer is None:
        return {"filter_results": [DISABLED for _ in filters]}
    answer: Any = yield DeleteAclsRequest(filters)
    if failure := refused(answer):
        answer = DeleteAclsResponse([DeletedAcls(*failure) for _ in filters])
    return {
        "filter_results": [
            {
                "error_code": one.error,
                "error_message": one.message,
                "matching_acls": [_deleted(binding) for binding in one.bindings],
            }
            for one in answer.filters
        ]
    }


def _deleted(binding: AclBinding) -> Values:
    pattern, entry = binding
    return {
        "error_code": None,
        "error_message": None,
        "resource_type": pattern.type,
        "resource_name": pattern.name,
        "pattern_type": pattern.pattern_type,
        "principal": entry.principal,
        "host": entry.host,
        "operation": entry.operation,
        "permission_type": entry.permission,
    }


PERMISSIONS = (OnCluster((ALTER,), refused_all("filters", "filter_results", refused_acl)),)
