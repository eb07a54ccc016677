"""Filters of ACLs, and what changes with ACLs that are created and deleted."""

import pytest

from refimpl.controller.acls import plan_creation, plan_deletion
from refimpl.security.acls import (
    AccessControlEntry,
    AclBinding,
    AclFilter,
    Acls,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

TOPIC, GROUP = ResourceType.TOPIC.value, ResourceType.GROUP.value
LITERAL, PREFIXED, MATCH = (
    *(PatternType.LITERAL.value, PatternType.PREFIXED.value),
    PatternType.MATCH.value,
)
READ, ALLOW = Operation.READ.value, Permission.ALLOW.value
ENTRY = AccessControlEntry("User:reader", "*", READ, ALLOW)
ON_T = AclBinding(ResourcePattern(TOPIC, "t", LITERAL), ENTRY)
PREFIX = AclBinding(ResourcePattern(TOPIC, "t", PREFIXED), ENTRY)
ALL = AclBinding(ResourcePattern(TOPIC, "*", LITERAL), ENTRY)
OF_GROUP = AclBinding(ResourcePattern(GROUP, "t", LITERAL), ENTRY)
EVERY = (ON_T, PREFIX, ALL, OF_GROUP)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (AclFilter(), EVERY),
        (AclFilter(TOPIC), (ON_T, PREFIX, ALL)),
        (AclFilter(TOPIC, "t"), (ON_T, PREFIX)),
        (AclFilter(TOPIC, "t", LITERAL), (ON_T,)),
        (AclFilter(TOPIC, "t", MATCH), (ON_T, PREFIX, ALL)),
        (AclFilter(TOPIC, "two", MATCH), (PREFIX, ALL)),
        (AclFilter(TOPIC, "*", MATCH), (ALL,)),
        (AclFilter(principal="User:writer"), ()),
        (AclFilter(host="*", operation=READ, permission=ALLOW), EVERY),
        (AclFilter(operation=Operation.WRITE.value), ()),
    ],
)
def test_a_filter_selects_by_each_of_its_fields(
    wanted: AclFilter, found: tuple[AclBinding, ...]
) -> None:
    assert tuple(one for one in EVERY if wanted.matches(one)) == found


def acls(*bindings: AclBinding) -> Acls:
    known = Acls()
    for pattern, entries in plan_creation(bindings, known)[0].items():
        known.put(pattern, entries)
    return known


def test_an_acl_that_is_there_already_changes_nothing() -> None:
    changed, results = plan_creation([ON_T, PREFIX], acls(ON_T))
    assert [one.error for one in results] == [None, None]
    assert list(changed) == [PREFIX.pattern]


@pytest.mark.parametrize(
    "wrong",
    [
        AclBinding(ResourcePattern(ResourceType.CLUSTER.value, "t"), ENTRY),
        AclBinding(ResourcePattern(TOPIC, ""), ENTRY),
        AclBinding(ResourcePattern(ResourceType.ANY.value, "t"), ENTRY),
        AclBinding(ResourcePattern(TOPIC, "t", MATCH), ENTRY),
        AclBinding(ON_T.pattern, ENTRY._replace(operation=Operation.ANY.value)),
        AclBinding(ON_T.pattern, ENTRY._replace(permission=Permission.ANY.value)),
        AclBinding(ON_T.pattern, ENTRY._replace(principal="reader")),
    ],
)
def test_an_acl_that_cannot_be_is_refused_beside_others(wrong: AclBinding) -> None:
    changed, results = plan_creation([wrong, ON_T], Acls())
    assert [one.error for one in results] == ["INVALID_REQUEST", None]
    assert dict(changed) == {ON_T.pattern: frozenset((ENTRY,))}


def test_a_filter_deletes_what_it_selects_and_says_so() -> None:
    other = AclBinding(ON_T.pattern, ENTRY._replace(principal="User:writer"))
    known = acls(ON_T, other, OF_GROUP)
    changed, results = plan_deletion([AclFilter(TOPIC, principal="User:reader")], known)
    assert results[0].bindings == [ON_T]
    assert dict(changed) == {ON_T.pattern: frozenset((other.entry,))}
    changed, _ = plan_deletion([AclFilter()], known)
    assert set(changed.values()) == {frozenset()}
