"""The authorizer's rules, one by one: Kafka's StandardAuthorizer as a table of cases."""

import pytest

from refimpl.security.acls import (
    CLUSTER_NAME,
    AccessControlEntry,
    Acls,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from refimpl.security.authorizer import Asked, Authorizer

READER, WRITER = "User:reader", "User:writer"
HERE = "127.0.0.1"
TOPIC = ResourceType.TOPIC
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = Permission.ALLOW, Permission.DENY
READ, WRITE, DESCRIBE, ALL = (
    *(Operation.READ, Operation.WRITE, Operation.DESCRIBE),
    Operation.ALL,
)


def acl(
    name: str,
    operation: Operation,
    permission: Permission = ALLOW,
    *,
    of: PatternType = LITERAL,
    principal: str = READER,
    host: str = "*",
    type: ResourceType = TOPIC,
) -> tuple[ResourcePattern, AccessControlEntry]:
    entry = AccessControlEntry(principal, host, operation.value, permission.value)
    return ResourcePattern(type.value, name, of.value), entry


def authorizer(
    *acls: tuple[ResourcePattern, AccessControlEntry], everyone: bool = False
) -> Authorizer:
    found = Acls()
    for pattern, entry in acls:
        found.put(pattern, {*found.by_pattern.get(pattern, ()), entry})
    return Authorizer(found, frozenset(("User:admin",)), everyone)


def asked(name: str, operation: Operation, principal: str = READER, host: str = HERE) -> Asked:
    return Asked(principal, host, operation.value, TOPIC.value, name)


def test_nothing_is_allowed_without_an_acl() -> None:
    assert not authorizer().authorize(asked("t", READ))


def test_a_super_user_may_do_everything_whatever_is_denied() -> None:
    denied = authorizer(acl("t", ALL, DENY, principal="User:*"))
    assert denied.authorize(asked("t", WRITE, "User:admin"))
    assert not denied.authorize(asked("t", WRITE))


def test_without_any_acl_of_a_resource_everyone_may_where_that_is_set() -> None:
    open_ = authorizer(acl("other", READ, principal=WRITER), everyone=True)
    assert open_.authorize(asked("t", READ))
    assert not open_.authorize(asked("other", READ)), "an ACL is about it, of somebody else"


@pytest.mark.parametrize(
    ("pattern", "of", "name", "allowed"),
    [
        ("orders", LITERAL, "orders", True),
        ("orders", LITERAL, "orders-2", False),
        ("orders", PREFIXED, "orders-2", True),
        ("orders", PREFIXED, "orders", True),
        ("orders", PREFIXED, "order", False),
        ("*", LITERAL, "anything", True),
        ("*", PREFIXED, "anything", False),
        ("*", PREFIXED, "*x", True),
    ],
)
def test_patterns_are_names_prefixes_or_all(
    pattern: str, of: PatternType, name: str, allowed: bool
) -> None:
    assert authorizer(acl(pattern, READ, of=of)).authorize(asked(name, READ)) == allowed


@pytest.mark.parametrize(
    "denied", [("t", LITERAL), ("*", LITERAL), ("", PREFIXED), ("t", PREFIXED)]
)
@pytest.mark.parametrize("allowed", [("t", LITERAL), ("*", LITERAL), ("t", PREFIXED)])
def test_deny_comes_before_allow_whatever_is_more_specific(
    denied: tuple[str, PatternType], allowed: tuple[str, PatternType]
) -> None:
    both = authorizer(
        acl(denied[0], READ, DENY, of=denied[1]), acl(allowed[0], READ, of=allowed[1])
    )
    assert not both.authorize(asked("t", READ))


@pytest.mark.parametrize(
    ("operation", "implies"),
    [
        *((READ, True), (WRITE, True), (Operation.DELETE, True), (Operation.ALTER, True)),
        *((Operation.CREATE, False), (Operation.ALTER_CONFIGS, False)),
    ],
)
def test_describing_is_implied_by_what_is_allowed_and_not_denied_with_it(
    operation: Operation, implies: bool
) -> None:
    assert authorizer(acl("t", operation)).authorize(asked("t", DESCRIBE)) == implies
    mixed = authorizer(acl("t", operation, DENY), acl("t", DESCRIBE))
    assert mixed.authorize(asked("t", DESCRIBE))


def test_describing_configurations_is_implied_by_altering_them() -> None:
    alters = authorizer(acl("t", Operation.ALTER_CONFIGS))
    assert alters.authorize(asked("t", Operation.DESCRIBE_CONFIGS))
    assert not authorizer(acl("t", READ)).authorize(asked("t", Operation.DESCRIBE_CONFIGS))


def test_an_acl_of_another_host_or_principal_says_nothing() -> None:
    assert not authorizer(acl("t", READ, host="10.0.0.1")).authorize(asked("t", READ))
    assert authorizer(acl("t", READ, host=HERE)).authorize(asked("t", READ))
    assert not authorizer(acl("t", READ, principal=WRITER)).authorize(asked("t", READ))
    assert authorizer(acl("t", READ, principal="User:*")).authorize(asked("t", READ))


def test_a_decision_is_forgotten_when_an_acl_changes() -> None:
    changing = authorizer()
    assert not changing.authorize(asked("t", READ))
    pattern, entry = acl("t", READ)
    changing.acls.put(pattern, {entry})
    assert changing.authorize(asked("t", READ))
    changing.acls.put(pattern, ())
    assert not changing.authorize(asked("t", READ))


@pytest.mark.parametrize(
    ("acls", "allowed"),
    [
        ([], False),
        ([acl("t", WRITE)], True),
        ([acl("t", READ)], False),
        ([acl("t", WRITE), acl("t", WRITE, DENY)], False),
        ([acl("t", WRITE), acl("*", WRITE, DENY)], False),
        ([acl("to", WRITE), acl("t", WRITE, DENY, of=PREFIXED)], False),
        ([acl("to", WRITE, of=PREFIXED), acl("top", WRITE, DENY, of=PREFIXED)], True),
        ([acl("*", WRITE), acl("t", WRITE, DENY)], True),
        ([acl("t", WRITE, principal=WRITER)], False),
    ],
)
def test_whether_there_may_be_a_topic_that_one_may_write_to(
    acls: list[tuple[ResourcePattern, AccessControlEntry]], allowed: bool
) -> None:
    found = authorizer(*acls).authorize_by_resource_type(READER, HERE, WRITE.value, TOPIC.value)
    assert found == allowed


def test_operations_on_a_resource_are_bits_by_their_numbers() -> None:
    reader = authorizer(acl("t", READ))
    bits = reader.operations(READER, HERE, TOPIC, "t")
    assert bits == 1 << READ | 1 << DESCRIBE
    everything = reader.operations("User:admin", HERE, ResourceType.CLUSTER, CLUSTER_NAME)
    assert everything == 0b1_1111_1010_0000
