"""AlterClientQuotas: limits of users, clients and addresses (KIP-546)."""

from typing import Any

from refimpl.api.authorization import OnCluster
from refimpl.api.call import Call, Handling, Values
from refimpl.api.control import refused
from refimpl.api.permissions import ALTER_CONFIGS, refused_all, with_message
from refimpl.messages.controller import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    QuotaAlteration,
    QuotaResult,
)


def handle(call: Call) -> Handling:
    """Have the controller keep them."""
    request = call.request
    wanted = tuple(map(_alteration, request.entries))
    answer: Any = yield AlterClientQuotasRequest(wanted, request.validate_only)
    if failure := refused(answer):
        results = [QuotaResult(one.entity, *failure) for one in wanted]
        answer = AlterClientQuotasResponse(results)
    return {"entries": list(map(_result, answer.entities))}


def _alteration(entry: Any) -> QuotaAlteration:
    return QuotaAlteration(
        tuple({one.entity_type: one.entity_name for one in entry.entity}.items()),
        tuple((one.key, None if one.remove else one.value) for one in entry.ops),
    )


def _result(one: QuotaResult) -> Values:
    return {
        "error_code": one.error,
        "error_message": one.message,
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in one.entity],
    }


def _no_quota(call: Call, one: Any, error: str) -> Values:
    entity = [{"entity_type": o.entity_type, "entity_name": o.entity_name} for o in one.entity]
    return {**with_message(call, error), "entity": entity}


PERMISSIONS = (OnCluster((ALTER_CONFIGS,), refused_all("entries", "entries", _no_quota)),)
