"""What becomes of requests to change client quotas (KIP-13, KIP-546, KIP-599, KIP-612): pure.

In the words of Kafka 4.3's ClientQuotaControlManager.
"""

from collections.abc import Mapping, Sequence

from refimpl.broker.cluster import QuotaEntity
from refimpl.broker.control_errors import ApiError
from refimpl.broker.control_messages import QuotaAlteration

USER, CLIENT_ID, IP = "user", "client-id", "ip"

WHOLE, FRACTION = True, False
CLIENT_QUOTAS: Mapping[str, bool] = {
    "producer_byte_rate": WHOLE,
    "consumer_byte_rate": WHOLE,
    "request_percentage": FRACTION,
    "controller_mutation_rate": FRACTION,
}
"""The quotas of users and client ids, and whether they are whole numbers."""

IP_QUOTAS: Mapping[str, bool] = {"connection_creation_rate": WHOLE}

_LARGEST = {"connection_creation_rate": (2**31 - 1, "INT")}
_ANY_LARGEST = (2**63 - 1, "LONG")


def plan_quotas(
    alteration: QuotaAlteration, quotas: Mapping[QuotaEntity, Mapping[str, float]]
) -> tuple[QuotaEntity, Mapping[str, float]]:
    """The entity, and all of its quotas after the change; raises ApiError INVALID_REQUEST."""
    entity = _entity(alteration.entity)
    known = _quotas_of({kind for kind, _ in entity})
    values = dict(quotas.get(entity, {}))
    keys: set[str] = set()
    for key, value in alteration.operations:
        if key in keys:
            raise _invalid(f"Duplicate quota key {key} not updating quota for this entity")
        keys.add(key)
        if value is None:
            values.pop(key, None)
        else:
            _check(key, value, known)
            values[key] = value
    return entity, values


def _invalid(message: str) -> ApiError:
    return ApiError("INVALID_REQUEST", message)


def _entity(parts: Sequence[tuple[str, str | None]]) -> QuotaEntity:
    if not parts:
        raise _invalid("Invalid empty client quota entity")
    kinds: set[str] = set()
    for kind, name in parts:
        if kind in kinds:
            raise _invalid(f"Invalid client quota entity, duplicate entity entry {kind}")
        if kind not in (USER, CLIENT_ID, IP):
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
        kinds.add(kind)
    return frozenset(parts)


def _quotas_of(kinds: set[str]) -> Mapping[str, bool]:
    """Which quotas an entity of these types may have."""
    if IP not in kinds:
        return CLIENT_QUOTAS
    if len(kinds) > 1:
        raise _invalid(
            "Invalid quota entity combination, IP entity should"
            "not be combined with User or ClientId"
        )
    return IP_QUOTAS


def _check(key: str, value: float, known: Mapping[str, bool]) -> None:
    if key not in known:
        raise _invalid(f"Invalid configuration key {key}")
    if not value > 0:
        raise _invalid(f"Quota {key} must be greater than 0")
    if known[key] == WHOLE:
        largest, kind = _LARGEST.get(key, _ANY_LARGEST)
        if value > largest:
            raise _invalid(f"Proposed value for {key} is too large for a {kind}.")
        if abs(value % 1.0) > 1e-6:
            raise _invalid(f"{key} cannot be a fractional value.")
