"""The authorizer: Kafka's StandardAuthorizer (KIP-801) as a pure machine.

A super user may do everything. Otherwise an ACL that denies comes before one that allows, and
without either the answer is no, unless no ACL is about the resource at all and
`allow.everyone.if.no.acl.found` is set.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from attrs import define, field

from refimpl.security.acls import (
    CLUSTER_NAME,
    WILDCARD,
    AccessControlEntry,
    Acls,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

EVERYBODY = "User:*"
"""The principal of ACLs for all users."""

ALL, ALLOW = Operation.ALL.value, Permission.ALLOW.value

_IMPLIED_BY: Mapping[int, frozenset[int]] = {
    Operation.DESCRIBE: frozenset(
        (Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)
    ),
    Operation.DESCRIBE_CONFIGS: frozenset((Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)),
}
"""Operations that imply DESCRIBE when allowed; to deny one does not deny describing."""

SUPPORTED_OPERATIONS = {
    ResourceType.TOPIC: (
        *(Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DESCRIBE, Operation.DELETE),
        *(Operation.ALTER, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS),
    ),
    ResourceType.GROUP: (
        *(Operation.READ, Operation.DESCRIBE, Operation.DELETE),
        *(Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS),
    ),
    ResourceType.CLUSTER: (
        *(Operation.CREATE, Operation.CLUSTER_ACTION, Operation.DESCRIBE_CONFIGS),
        *(Operation.ALTER_CONFIGS, Operation.IDEMPOTENT_WRITE, Operation.ALTER),
        Operation.DESCRIBE,
    ),
}
"""The operations that answers tell a client of, for each type of resource (KIP-430)."""

_ANY_RESOURCE = "hardcode"
"""The name that Kafka asks for to find out who may do everything, or nothing was configured."""

MOST_DECISIONS = 100_000


class Asked(NamedTuple):
    """A question to the authorizer: may this principal do this from this host?"""

    principal: str
    host: str
    operation: int
    type: int
    name: str


@define(eq=False)
class Authorizer:
    """Decides by the ACLs of the metadata, and remembers what it decided until one changes."""

    acls: Acls
    super_users: frozenset[str] = frozenset()
    allow_everyone_if_no_acl_found: bool = False
    _decided: dict[Asked, bool] = field(factory=dict[Asked, bool], init=False)
    _version: int = field(default=-1, init=False)

    def authorize(self, asked: Asked) -> bool:
        """True if that is allowed."""
        decided = self._decided
        if self._version != self.acls.version or len(decided) >= MOST_DECISIONS:
            self._version = self.acls.version
            decided.clear()
        known = decided.get(asked)
        if known is None:
            known = decided[asked] = self._decide(asked)
        return known

    def _decide(self, asked: Asked) -> bool:
        if asked.principal in self.super_users:
            return True
        found = allowed = False
        for entries in self.acls.applying(asked.type, asked.name):
            found = True
            for entry in entries:
                if not applies(entry, asked):
                    continue
                if entry.permission != ALLOW:
                    return False
                allowed = True
        return allowed or (not found and self.allow_everyone_if_no_acl_found)

    def authorize_by_resource_type(
        self, principal: str, host: str, operation: int, type: int
    ) -> bool:
        """True if there may be a resource of this type on which that is allowed (KIP-679)."""
        if self.authorize(Asked(principal, host, operation, type, _ANY_RESOURCE)):
            return True
        patterns: dict[tuple[bool, int], set[str]] = {}
        for (kind, name, pattern_type), entries in self.acls.by_pattern.items():
            for entry in entries:
                mine = entry.principal in (principal, EVERYBODY)
                here = entry.host in (host, WILDCARD)
                if kind == type and mine and here and entry.operation in (operation, ALL):
                    key = entry.permission == ALLOW, pattern_type
                    patterns.setdefault(key, set()).add(name)
        literal, prefixed = PatternType.LITERAL.value, PatternType.PREFIXED.value
        denied = patterns.get((False, literal), set[str]())
        denied_prefixes = patterns.get((False, prefixed), set[str]())
        if WILDCARD in denied:
            return False
        names = patterns.get((True, literal), set[str]())
        if WILDCARD in names:
            return True
        prefixes = patterns.get((True, prefixed), set[str]())
        return any(not _dominated(one, denied_prefixes) for one in (*(names - denied), *prefixes))

    def operations(self, principal: str, host: str, type: ResourceType, name: str) -> int:
        """The operations on a resource that are allowed, as bits by their numbers (KIP-430)."""
        return bits(
            one
            for one in SUPPORTED_OPERATIONS[type]
            if self.authorize(Asked(principal, host, one.value, type.value, name))
        )


def bits(operations: Iterable[int]) -> int:
    """Operations as a field of bits, in the order of their numbers."""
    return sum(1 << one for one in operations)


def applies(entry: AccessControlEntry, asked: Asked) -> bool:
    """True if an ACL of a matching resource says something about this question."""
    if entry.principal not in (asked.principal, EVERYBODY):
        return False
    if entry.host not in (WILDCARD, asked.host):
        return False
    if entry.operation in (ALL, asked.operation):
        return True
    implied_by = _IMPLIED_BY.get(asked.operation)
    return entry.permission == ALLOW and implied_by is not None and entry.operation in implied_by


def _dominated(name: str, denied_prefixes: set[str]) -> bool:
    return any(name.startswith(prefix) for prefix in denied_prefixes if prefix)


CLUSTER = ResourceType.CLUSTER, CLUSTER_NAME
"""The one resource of type CLUSTER."""
