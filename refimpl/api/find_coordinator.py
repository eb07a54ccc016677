"""FindCoordinator, of many groups at once since version 4 (KIP-699)."""

from collections.abc import Iterable

from refimpl.api.authorization import Each, OnCluster, Proceed, Result, Whole
from refimpl.api.call import Call, Handling, Values
from refimpl.api.errors import MALFORMED, endpoint_of
from refimpl.api.permissions import (
    CLUSTER_ACTION,
    DESCRIBE,
    TRANSACTIONAL_ID,
    refused_name,
    with_message,
)
from refimpl.messages.group import GROUP, TRANSACTION, FindCoordinatorRequest, FoundCoordinator
from refimpl.security.acls import ResourceType

BATCHED, SHARES = 4, 6
SHARE = 2
NOBODY = {"node_id": -1, "host": "", "port": -1}
_MESSAGES = {
    None: "NONE",
    "COORDINATOR_NOT_AVAILABLE": "The coordinator is not available.",
}
"""Kafka's error messages of the versions with one key."""


def handle(call: Call) -> Handling:
    """Answer with the endpoints of the coordinators."""
    request = call.request
    key_type = getattr(request, "key_type", GROUP)
    keys = request.coordinator_keys if call.version >= BATCHED else (request.key,)
    if key_type == SHARE and call.version < SHARES:
        return _refused(call, keys)
    answer = yield FindCoordinatorRequest(key_type, tuple(keys))
    found = [_found(call, one) for one in answer.coordinators]
    if call.version >= BATCHED:
        return {"coordinators": found}
    one = answer.coordinators[0]
    return {**found[0], "error_message": _MESSAGES.get(one.error, _message(one))}


def _refused(call: Call, keys: Iterable[str]) -> Values:
    """The answer to a version that knows no coordinators of share groups (KIP-932)."""
    refused = {"error_code": "INVALID_REQUEST", "error_message": "", **NOBODY}
    if call.version >= BATCHED:
        return {"coordinators": [{"key": key, **refused} for key in keys]}
    return {**refused, "error_message": MALFORMED}


def _message(one: FoundCoordinator) -> str:
    return one.message or (MALFORMED if one.error == "INVALID_REQUEST" else "")


def _found(call: Call, one: FoundCoordinator) -> Values:
    broker = call.broker.node.metadata.brokers.get(one.node_id)
    where = NOBODY
    if one.error is None and broker is not None and broker.endpoints:
        endpoint = endpoint_of(call.broker, broker)
        where = {"node_id": one.node_id, "host": endpoint.host, "port": endpoint.port}
    return {"key": one.key, "error_code": one.error, "error_message": _message(one), **where}


_KINDS = {GROUP: ResourceType.GROUP, TRANSACTION: TRANSACTIONAL_ID}


def _find_coordinator(call: Call, proceed: Proceed) -> Result:
    """DESCRIBE on each group or transactional id; CLUSTER_ACTION for those of share groups."""
    kind = _KINDS.get(getattr(call.request, "key_type", GROUP))
    if kind is None:
        return _SHARE_COORDINATORS(call, proceed)
    if call.version < BATCHED:
        return Whole(DESCRIBE, kind, lambda call: call.request.key, _no_coordinator)(call, proceed)
    refused = refused_name("key", error_message="", **NOBODY)
    return Each(
        "coordinator_keys", DESCRIBE, lambda call, key: (kind, key), refused, "coordinators"
    )(call, proceed)


def _no_coordinator(call: Call, error: str) -> Values:
    return {**with_message(call, error), **NOBODY}


_SHARE_COORDINATORS = OnCluster((CLUSTER_ACTION,), _no_coordinator)


PERMISSIONS = (_find_coordinator,)
