"""A broker's checks before it asks the controller: its own configurations; and quota filters."""

from typing import Any

import pytest

from refimpl.controller.config_changes import check_incremental, check_replacement
from refimpl.controller.errors import ApiError
from refimpl.controller.quota_filter import Component, matching
from refimpl.messages.cluster import BROKER, TOPIC, ConfigResource
from refimpl.messages.controller import APPEND, DELETE, SET, SUBTRACT, ConfigAlteration

T, ONE, ALL = (ConfigResource(*of) for of in ((TOPIC, "t"), (BROKER, "1"), (BROKER, "")))
THREADS, REPORTERS = "log.cleaner.threads", "metric.reporters"


def change(
    resource: ConfigResource, *changes: tuple[str, int, str | None], **configured: str
) -> str | None:
    """Why it is refused, if it is."""
    try:
        check_incremental(1, resource, [ConfigAlteration(*one) for one in changes], configured)
    except ApiError as error:
        return str(error)
    return None


def replacement(resource: ConfigResource, *values: tuple[str, str | None]) -> str | None:
    try:
        check_replacement(1, resource, values)
    except ApiError as error:
        return str(error)
    return None


def test_a_broker_changes_what_is_its_own_or_all_brokers() -> None:
    for resource in (T, ONE, ALL):
        assert change(resource, (THREADS, SET, "2")) is None
        assert replacement(resource, (THREADS, "2")) is None
    for name, says in (
        ("2", "Unexpected broker id, expected 1, but received 2"),
        ("x", "Node id must be an integer, but it is: x"),
    ):
        other = ConfigResource(BROKER, name)
        assert change(other, (THREADS, SET, "2")) == f"INVALID_REQUEST: {says}"
        assert replacement(other, (THREADS, "2")) == f"INVALID_REQUEST: {says}"
        assert change(ConfigResource(TOPIC, name), (THREADS, SET, "2")) is None


def test_a_key_is_named_once_and_has_a_value_unless_it_goes() -> None:
    twice = "INVALID_REQUEST: Error due to duplicate config keys"
    assert change(T, ("a", SET, "1"), ("a", DELETE, None)) == twice
    assert replacement(T, ("a", "1"), ("a", "2")) == twice
    assert change(T, ("a", DELETE, None), ("b", SET, "1")) is None
    missing = "INVALID_REQUEST: Null value not supported for : a, b"
    assert change(T, ("a", SET, None), ("b", APPEND, None), ("c", SET, "")) == missing
    assert replacement(T, ("a", None), ("b", None), ("c", "")) == missing


def test_an_operation_is_one_of_four() -> None:
    for operation in (SET, DELETE, APPEND, SUBTRACT):
        assert change(T, ("a", operation, "1")) is None
    unknown = "INVALID_REQUEST: Unknown operations type "
    assert change(T, ("a", 4, "1")) == unknown + "4"
    assert change(T, ("a", -1, "1")) == unknown + "-1"


def test_values_of_brokers_are_judged_and_those_of_topics_are_not() -> None:
    refused = change(ONE, (THREADS, SET, "many"))
    assert refused is not None
    assert refused.startswith("INVALID_REQUEST: ")
    assert replacement(ONE, (THREADS, "many")) == refused
    assert change(T, (THREADS, SET, "many")) is None
    assert change(ONE, (THREADS, DELETE, None), **{THREADS: "many"}) is None
    assert change(ONE, (THREADS, DELETE, "many")) is None, "what goes has no value"
    held = change(ONE, ("log.retention.ms", SET, "5"), **{THREADS: "many"})
    assert held == refused, "what holds so far is judged with it"


def test_what_each_broker_has_of_its_own_is_not_set_for_all() -> None:
    listeners = ("listeners", SET, "PLAINTEXT://:9092")
    assert change(ONE, listeners) is None
    refused = change(ALL, listeners)
    assert refused is not None
    assert "broker id must be specified" in refused


def test_parts_are_taken_from_the_default_where_nothing_is_set() -> None:
    default, other = "PLAINTEXT://:9092", "SSL://:9093"
    assert change(ONE, ("listeners", SUBTRACT, other)) is None
    assert change(ONE, ("listeners", APPEND, default)) is None
    refused = change(ONE, ("listeners", SUBTRACT, default))
    assert refused is not None
    assert "must not be empty" in refused
    assert change(ONE, ("listeners", SUBTRACT, default), listeners=other) is None


def test_only_lists_have_parts() -> None:
    for operation, kind in ((APPEND, "append"), (SUBTRACT, "subtract")):
        assert change(ONE, (THREADS, operation, "2")) == (
            f"INVALID_CONFIG: Config value {kind} is not allowed for config key: {THREADS}"
        )
        assert change(ONE, (REPORTERS, operation, "a.B")) is None


# Which quotas are asked for (KIP-546)

EXACT, ANY_DEFAULT, ANY = 0, 1, 2
QUOTAS: dict[frozenset[tuple[str, str | None]], dict[str, float]] = {
    frozenset({("user", "a")}): {"x": 1.0},
    frozenset({("user", None)}): {"x": 2.0},
    frozenset({("user", "a"), ("client-id", "app")}): {"x": 3.0},
    frozenset({("client-id", "app")}): {"x": 4.0},
    frozenset({("ip", "127.0.0.1")}): {"x": 5.0},
}


def found(*components: tuple[str, int, str | None], strict: bool = False) -> list[float]:
    wanted = [Component(*one) for one in components]
    return [values["x"] for _, values in matching(wanted, strict, QUOTAS)]


def test_entities_are_found_by_their_parts() -> None:
    assert found() == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert found(strict=True) == []
    assert found(("user", EXACT, "a")) == [1.0, 3.0]
    assert found(("user", EXACT, "a"), strict=True) == [1.0]
    assert found(("user", ANY_DEFAULT, None)) == [2.0]
    assert found(("user", ANY, None)) == [1.0, 2.0, 3.0]
    assert found(("user", EXACT, "a"), ("client-id", EXACT, "app")) == [3.0]
    assert found(("user", ANY, None), ("client-id", ANY, None), strict=True) == [3.0]
    assert found(("client-id", EXACT, "other")) == []
    assert found(("ip", ANY, None)) == [5.0]


@pytest.mark.parametrize(
    ("components", "says"),
    [
        ([("", EXACT, "a")], "INVALID_REQUEST: Invalid empty entity type."),
        ([("user", EXACT, "a"), ("user", EXACT, "b")], "cannot appear more than once"),
        ([("group", EXACT, "a")], "UNSUPPORTED_VERSION: Unsupported entity type group"),
        ([("user", 3, "a")], "Unknown match type 3"),
        ([("user", EXACT, None)], "MATCH_TYPE_EXACT, but set match string to null"),
        ([("user", ANY_DEFAULT, "a")], "MATCH_TYPE_DEFAULT, but also specified a match string"),
        ([("user", ANY, "a")], "MATCH_TYPE_SPECIFIED, but also specified a match string"),
        ([("ip", ANY, None), ("user", ANY, None)], "IP filter component should not be used"),
        ([("ip", ANY, None), ("client-id", ANY, None)], "IP filter component should not be used"),
    ],
)
def test_a_filter_that_cannot_be_is_refused(components: list[Any], says: str) -> None:
    with pytest.raises(ApiError) as refused:
        found(*components)
    assert says in str(refused.value)
