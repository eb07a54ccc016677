"""Functions that the handlers of ACL APIs share."""

from collections.abc import Iterable
from typing import Any

from refimpl.security.acls import AccessControlEntry, AclBinding, AclFilter, ResourcePattern
from refimpl.wire.errors import MalformedRequest


def binding_of(creation: Any) -> AclBinding:
    """The ACL that a request creates."""
    return AclBinding(
        ResourcePattern(
            creation.resource_type, creation.resource_name, creation.resource_pattern_type
        ),
        AccessControlEntry(
            creation.principal, creation.host, creation.operation, creation.permission_type
        ),
    )


def filter_of(*fields: Any) -> AclFilter:
    """A filter, from the fields of a request."""
    return AclFilter(*fields)


def check_known(filters: Iterable[AclFilter]) -> None:
    """Raises MalformedRequest for a type, an operation or a permission of number 0, which stands
    for unknown: Kafka does not read such a request. It answers to other numbers."""
    for one in filters:
        if one.has_zero:
            raise MalformedRequest(f"an ACL of unknown elements, {one}")
