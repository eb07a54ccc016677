"""The plans for requests to create and delete ACLs (KIP-140): pure.

Messages are those of Kafka 4.3's AclControlManager and AclApis.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum

from refimpl.controller.errors import ApiError
from refimpl.messages.controller import AclResult, DeletedAcls
from refimpl.security.acls import (
    CLUSTER_NAME,
    OPERATIONS,
    PERMISSIONS,
    RESOURCE_TYPES,
    AclBinding,
    AclFilter,
    Acls,
    Entries,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    with_acls,
    without_acls,
)

Changed = Mapping[ResourcePattern, Entries]
"""The entries of the patterns that change."""


def plan_creation(
    bindings: Sequence[AclBinding], acls: Acls
) -> tuple[Changed, Sequence[AclResult]]:
    """The ACLs of a request that may be, and the result for each of its ACLs."""
    valid: list[AclBinding] = []
    results: list[AclResult] = []
    for binding in bindings:
        try:
            check_new(binding)
            valid.append(binding)
            results.append(AclResult(None))
        except ApiError as error:
            results.append(AclResult(error.error, error.message))
    return with_acls(acls.by_pattern, valid), results


def plan_deletion(
    filters: Sequence[AclFilter], acls: Acls
) -> tuple[Changed, Sequence[DeletedAcls]]:
    """The ACLs that are left after filters, and those that each filter selects."""
    everything = list(acls.bindings())
    results: list[DeletedAcls] = []
    gone: list[AclBinding] = []
    for one in filters:
        if part := one.selects_unknown:
            results.append(DeletedAcls("INVALID_REQUEST", f"Unknown {part}.", []))
            continue
        selected = [binding for binding in everything if one.matches(binding)]
        gone += selected
        results.append(DeletedAcls(None, None, selected))
    return without_acls(acls.by_pattern, gone), results


def check_new(binding: AclBinding) -> None:
    """Raises ApiError for an ACL that cannot be."""
    pattern, entry = binding
    if pattern.type == ResourceType.CLUSTER and pattern.name != CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not pattern.name:
        raise _invalid("Invalid empty resource name")
    if pattern.type not in RESOURCE_TYPES - {ResourceType.ANY}:
        raise _invalid(f"Invalid resourceType {name_of(ResourceType, pattern.type)}")
    if pattern.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise _invalid(f"Invalid patternType {name_of(PatternType, pattern.pattern_type)}")
    if entry.operation not in OPERATIONS - {Operation.ANY}:
        raise _invalid(f"Invalid operation {name_of(Operation, entry.operation)}")
    if entry.permission not in PERMISSIONS - {Permission.ANY}:
        raise _invalid(f"Invalid permissionType {name_of(Permission, entry.permission)}")
    kind, separator, name = entry.principal.partition(":")
    if not kind or not separator or not name:
        raise _invalid(
            "Could not parse principal from "
            f"`{entry.principal}` (no colon is present separating the principal type from the "
            "principal name)"
        )


def name_of(kind: type[IntEnum], number: int) -> str:
    """The name of a number; UNKNOWN where nobody knows it."""
    return kind(number).name if number in set(kind) else "UNKNOWN"


def _invalid(message: str) -> ApiError:
    return ApiError("INVALID_REQUEST", message)
