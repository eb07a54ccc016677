"""The plans for requests to change client quotas (KIP-13, KIP-546, KIP-599, KIP-612): pure.

Messages are those of Kafka 4.3's ClientQuotaControlManager.
"""

from collections.abc import Mapping, Sequence

from refimpl.configs import ConfigError, validate_quota
from refimpl.controller.errors import ApiError
from refimpl.messages.cluster import QuotaEntity
from refimpl.messages.controller import QuotaAlteration

USER, CLIENT_ID, IP = "user", "client-id", "ip"


def plan_quotas(
    alteration: QuotaAlteration,
    quotas: Mapping[QuotaEntity, Mapping[str, float]],
    *,
    is_repeated: bool = False,
) -> tuple[QuotaEntity, Mapping[str, float]]:
    """The entity, and all of its quotas after the change; raises ApiError INVALID_REQUEST.

    An entity or a quota that a request names twice is not changed.
    """
    keys = {key for key, _ in alteration.operations}
    if is_repeated or len(keys) < len(alteration.operations):
        names = ", ".join(f"{kind}={name}" for kind, name in alteration.entity)
        raise _invalid(f"Ignoring duplicate entity ClientQuotaEntity(entries={{{names}}})")
    entity = _entity(alteration.entity)
    values = dict(quotas.get(entity, {}))
    for key, value in alteration.operations:
        if value is None:
            values.pop(key, None)
        else:
            _check(key, value, of_address=IP in dict(entity))
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
    if IP in kinds and len(kinds) > 1:
        raise _invalid(
            "Invalid quota entity combination, IP entity should"
            "not be combined with User or ClientId"
        )
    return frozenset(parts)


def _check(key: str, value: float, *, of_address: bool) -> None:
    try:
        validate_quota(key, value, of_address=of_address)
    except ConfigError as error:
        raise _invalid(str(error)) from None
