"""The quotas that a DescribeClientQuotas request asks for: a pure function (KIP-546)."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from refimpl.controller.errors import ApiError
from refimpl.controller.quotas import CLIENT_ID, IP, USER
from refimpl.messages.cluster import QuotaEntity

EXACT, DEFAULT, SPECIFIED = 0, 1, 2
"""Match types: a name, the default of a type, or any name of a type."""

_NAMES = {EXACT: "EXACT", DEFAULT: "DEFAULT", SPECIFIED: "SPECIFIED"}


class Component(NamedTuple):
    """The filter on one type of entity."""

    type: str
    match_type: int
    match: str | None


def matching(
    components: Iterable[Component],
    strict: bool,
    quotas: Mapping[QuotaEntity, Mapping[str, float]],
) -> Iterator[tuple[QuotaEntity, Mapping[str, float]]]:
    """The entities that match every component, and, if `strict`, have no other type; raises
    ApiError.
    """
    wanted: dict[str, Component] = {}
    for one in components:
        _check(one, wanted)
        wanted[one.type] = one
    if IP in wanted and wanted.keys() & {USER, CLIENT_ID}:
        raise _invalid(
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component."
        )
    for entity, values in quotas.items():
        if _matches(dict(entity), wanted, strict):
            yield entity, values


def _check(one: Component, others: Mapping[str, Component]) -> None:
    if not one.type:
        raise _invalid("Invalid empty entity type.")
    if one.type in others:
        raise _invalid(f"Entity type {one.type} cannot appear more than once in the filter.")
    if one.type not in (IP, USER, CLIENT_ID):
        raise ApiError("UNSUPPORTED_VERSION", f"Unsupported entity type {one.type}")
    if one.match_type not in _NAMES:
        raise _invalid(f"Unknown match type {one.match_type}")
    what = f"Request specified MATCH_TYPE_{_NAMES[one.match_type]}, but "
    if one.match_type == EXACT and one.match is None:
        raise _invalid(f"{what}set match string to null.")
    if one.match_type != EXACT and one.match is not None:
        raise _invalid(f"{what}also specified a match string.")


def _matches(
    entity: Mapping[str, str | None], wanted: Mapping[str, Component], strict: bool
) -> bool:
    if strict and len(entity) != len(wanted):
        return False
    return all(
        one.type in entity and (one.match_type == SPECIFIED or entity[one.type] == one.match)
        for one in wanted.values()
    )


def _invalid(message: str) -> ApiError:
    return ApiError("INVALID_REQUEST", message)
