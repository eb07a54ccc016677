"""CreateAcls: the controller keeps them, if there is an authorizer (KIP-140)."""

from typing import Any

from refimpl.api.acls import binding_of, check_known
from refimpl.api.authorization import OnCluster
from refimpl.api.call import Call, Handling, Values
from refimpl.api.control import refused
from refimpl.api.permissions import ALTER, refused_acl, refused_all
from refimpl.messages.controller import AclResult, CreateAclsRequest, CreateAclsResponse
from refimpl.security.acls import AclFilter

DISABLED: Values = {
    "error_code": "SECURITY_DISABLED",
    "error_message": "No Authorizer is configured.",
}


def handle(call: Call) -> Handling:
    """Have the controller keep ACLs; without an authorizer refuse, as Kafka does."""
    creations = call.request.creations
    if call.broker.node.authorizer is None:
        return {"results": [DISABLED for _ in creations]}
    bindings = [binding_of(one) for one in creations]
    check_known([AclFilter(*one.pattern, *one.entry) for one in bindings])
    answer: Any = yield CreateAclsRequest(bindings)
    if failure := refused(answer):
        answer = CreateAclsResponse([AclResult(*failure) for _ in bindings])
    return {
        "results": [
            {"error_code": one.error, "error_message": one.message if one.error else ""}
            for one in answer.results
        ]
    }


PERMISSIONS = (OnCluster((ALTER,), refused_all("creations", "results", refused_acl)),)
