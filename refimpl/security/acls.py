"""ACLs: who may do what on which resource, and filters that select some of them (KIP-11, KIP-290).

Numbers are those of Kafka's protocol. Messages keep them as plain `int`, so an operation that a
client made up is kept until somebody refuses it.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from attrs import define, field


class Operation(IntEnum):
    """Something that is done to a resource; ALL stands for each of them."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """The permission type of an ACL: it allows or denies."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class ResourceType(IntEnum):
    """The kind of thing that an ACL protects."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """The type of a pattern's name; ANY and MATCH are for filters alone."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


WILDCARD = "*"
"""As a literal name: every resource of the type; as a host: every host."""

CLUSTER_NAME = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""


class ResourcePattern(NamedTuple):
    """The resources that an ACL is about: one by its name, all, or those with a prefix."""

    type: int
    name: str
    pattern_type: int = PatternType.LITERAL.value


class AccessControlEntry(NamedTuple):
    """An operation that a principal may do, or must not do, from a host."""

    principal: str
    host: str
    operation: int
    permission: int


class AclBinding(NamedTuple):
    """An ACL: a pattern of resources and an entry."""

    pattern: ResourcePattern
    entry: AccessControlEntry


class AclFilter(NamedTuple):
    """A selection of ACLs; None and ANY admit everything."""

    type: int = ResourceType.ANY.value
    name: str | None = None
    pattern_type: int = PatternType.ANY.value
    principal: str | None = None
    host: str | None = None
    operation: int = Operation.ANY.value
    permission: int = Permission.ANY.value

    def matches(self, binding: AclBinding) -> bool:
        """True if it selects this ACL."""
        pattern, entry = binding
        return (
            self.matches_pattern(pattern)
            and self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (Operation.ANY, entry.operation)
            and self.permission in (Permission.ANY, entry.permission)
        )

    def matches_pattern(self, pattern: ResourcePattern) -> bool:
        """True if it selects ACLs of this pattern; MATCH selects those that apply to the name."""
        wanted, name = self.pattern_type, self.name
        if self.type not in (ResourceType.ANY, pattern.type):
            return False
        if wanted not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if name is None or name == pattern.name:
            return True
        if wanted != PatternType.MATCH:
            return False
        if pattern.pattern_type == PatternType.LITERAL:
            return pattern.name == WILDCARD
        return name.startswith(pattern.name)

    @property
    def has_zero(self) -> bool:
        """True if a type, an operation or a permission is 0, the number of those unknown."""
        return 0 in (self.type, self.pattern_type, self.operation, self.permission)

    @property
    def selects_unknown(self) -> str | None:
        """The part that has a type, an operation or a permission that nobody knows."""
        if self.type not in RESOURCE_TYPES or self.pattern_type not in PATTERN_TYPES:
            return "patternFilter"
        if self.operation not in OPERATIONS or self.permission not in PERMISSIONS:
            return "entryFilter"
        return None


RESOURCE_TYPES = frozenset(ResourceType) - {ResourceType.UNKNOWN}
PATTERN_TYPES = frozenset(PatternType) - {PatternType.UNKNOWN}
OPERATIONS = frozenset(Operation) - {Operation.UNKNOWN}
PERMISSIONS = frozenset(Permission) - {Permission.UNKNOWN}

Entries = frozenset[AccessControlEntry]


@define(eq=False)
class Acls:
    """All ACLs of a cluster by their patterns.

    `version` counts the changes, for whoever keeps decisions. `prefix_lengths` are the lengths of
    the prefixes of each type of resource.
    """

    by_pattern: dict[ResourcePattern, Entries] = field(factory=dict[ResourcePattern, Entries])
    version: int = 0
    prefix_lengths: dict[int, list[int]] = field(factory=dict[int, list[int]])

    def put(self, pattern: ResourcePattern, entries: Iterable[AccessControlEntry]) -> None:
        """Replace the entries of a pattern; without any the pattern is gone."""
        kept = frozenset(entries)
        if kept:
            self.by_pattern[pattern] = kept
        else:
            self.by_pattern.pop(pattern, None)
        lengths: dict[int, set[int]] = {}
        for one in self.by_pattern:
            if one.pattern_type == PatternType.PREFIXED:
                lengths.setdefault(one.type, set()).add(len(one.name))
        self.prefix_lengths = {kind: sorted(some) for kind, some in lengths.items()}
        self.version += 1

    def applying(self, type: int, name: str) -> Iterator[Entries]:
        """The entries of every pattern that this resource matches."""
        found = self.by_pattern
        literal = PatternType.LITERAL.value
        for one in dict.fromkeys((name, WILDCARD)):
            if entries := found.get(ResourcePattern(type, one, literal)):
                yield entries
        for length in self.prefix_lengths.get(type, ()):
            if length > len(name):
                return
            prefix = ResourcePattern(type, name[:length], PatternType.PREFIXED.value)
            if entries := found.get(prefix):
                yield entries

    def bindings(self) -> Iterator[AclBinding]:
        """Every ACL, in an order that is the same in every process."""
        for pattern in sorted(self.by_pattern):
            for entry in sorted(self.by_pattern[pattern]):
                yield AclBinding(pattern, entry)


def with_acls(
    patterns: Mapping[ResourcePattern, Entries], bindings: Iterable[AclBinding]
) -> dict[ResourcePattern, Entries]:
    """The entries of the patterns that new ACLs change."""
    changed: dict[ResourcePattern, Entries] = {}
    for pattern, entry in bindings:
        before = changed.get(pattern, patterns.get(pattern, frozenset()))
        if entry not in before:
            changed[pattern] = before | {entry}
    return changed


def without_acls(
    patterns: Mapping[ResourcePattern, Entries], bindings: Iterable[AclBinding]
) -> dict[ResourcePattern, Entries]:
    """The entries of the patterns that lose ACLs."""
    changed: dict[ResourcePattern, Entries] = {}
    for pattern, entry in bindings:
        before = changed.get(pattern, patterns.get(pattern, frozenset()))
        changed[pattern] = before - {entry}
    return changed
