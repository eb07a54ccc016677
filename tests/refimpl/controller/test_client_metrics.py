"""Clients' metrics without bytes: when an instance may ask and push, and how long it is known."""

from collections import OrderedDict
from typing import Any

import pytest
from attrs import evolve

from refimpl.controller import client_metrics
from refimpl.controller.client_metrics import (
    KEPT_INTERVALS,
    KEPT_MS,
    Asked,
    ClientInstance,
    ClientMetrics,
    Subscription,
)
from refimpl.controller.errors import ApiError
from refimpl.messages.cluster import (
    CLIENT_METRICS,
    ClusterMetadata,
    ConfigResource,
    ConfigsAltered,
)

NOW = 1_790_000_000_000
INTERVAL_MS = 60_000
DEFAULT_MS = 300_000
CLIENT = ClientInstance(bytes(15) + b"7", "AAAA7", "me", ("java", "4.3.1"), "127.0.0.1", 999, 1)
OTHER = evolve(CLIENT, id=bytes(15) + b"8", connection=2)


def configure(of: ClientMetrics, name: str, **values: str) -> None:
    dotted = {key.replace("_", "."): value for key, value in values.items()}
    of.metadata.apply(ConfigsAltered(ConfigResource(CLIENT_METRICS, name), dotted))


@pytest.fixture
def metrics() -> ClientMetrics:
    made = ClientMetrics(ClusterMetadata(), telemetry_max_bytes=10)
    configure(made, "s", metrics="a.", interval_ms=str(INTERVAL_MS))
    return made


def push(
    metrics: ClientMetrics, now: int, asked: Asked, client: ClientInstance = CLIENT, size: int = 1
) -> str | None:
    """The error of a push."""
    try:
        metrics.push(now, client, asked.subscription_id, 0, size, is_terminating=False)
    except ApiError as refusal:
        return refusal.error
    return None


def subscribe(metrics: ClientMetrics, now: int, client: ClientInstance = CLIENT) -> str | None:
    """The error of a question."""
    try:
        metrics.subscribe(now, client)
    except ApiError as refusal:
        return refusal.error
    return None


def test_the_interval_is_that_of_the_last_request_before(metrics: ClientMetrics) -> None:
    asked = metrics.subscribe(NOW, CLIENT)
    early = "THROTTLING_QUOTA_EXCEEDED"
    assert push(metrics, NOW + 1, asked) is None
    assert push(metrics, NOW + INTERVAL_MS, asked) == early
    assert subscribe(metrics, NOW + INTERVAL_MS) == early
    assert push(metrics, NOW + 1 + INTERVAL_MS, asked) is None
    assert subscribe(metrics, NOW + 2 * INTERVAL_MS) == early
    assert subscribe(metrics, NOW + 1 + 2 * INTERVAL_MS) is None


def test_a_changed_subscription_begins_anew(metrics: ClientMetrics) -> None:
    before = metrics.subscribe(NOW, CLIENT)
    assert subscribe(metrics, NOW) == "THROTTLING_QUOTA_EXCEEDED"
    configure(metrics, "s", metrics="a.,b.", interval_ms=str(INTERVAL_MS))
    assert push(metrics, NOW, before) == "UNKNOWN_SUBSCRIPTION_ID"
    after = metrics.subscribe(NOW, CLIENT)
    assert after.subscription_id != before.subscription_id
    assert after.metrics == ["a.", "b."]


def test_instances_have_ids_of_their_own_for_one_subscription(metrics: ClientMetrics) -> None:
    mine, other = metrics.subscribe(NOW, CLIENT), metrics.subscribe(NOW, OTHER)
    assert mine.subscription_id != other.subscription_id
    assert -(2**31) <= mine.subscription_id < 2**31


@pytest.mark.parametrize(
    ("interval_ms", "kept_ms"), [(100, KEPT_MS), (INTERVAL_MS, 3 * INTERVAL_MS)]
)
def test_a_silent_instance_is_forgotten_after_three_intervals(
    metrics: ClientMetrics, interval_ms: int, kept_ms: int
) -> None:
    assert KEPT_INTERVALS == 3
    configure(metrics, "s", metrics="a.", interval_ms=str(interval_ms))
    asked = metrics.subscribe(NOW, CLIENT)
    terminating = (NOW, CLIENT, asked.subscription_id, 0, 0)
    metrics.push(*terminating, is_terminating=True)
    assert push(metrics, NOW + kept_ms - 1, asked) == "INVALID_REQUEST"
    later = NOW + 2 * kept_ms - 2
    assert push(metrics, later, asked) is None or kept_ms > KEPT_MS
    assert push(metrics, later + kept_ms, asked) is None


def test_the_end_of_its_connection_ends_an_instance(metrics: ClientMetrics) -> None:
    metrics.subscribe(NOW, CLIENT)
    metrics.subscribe(NOW, OTHER)
    metrics.disconnected(CLIENT.connection)
    assert subscribe(metrics, NOW) is None
    assert subscribe(metrics, NOW, OTHER) == "THROTTLING_QUOTA_EXCEEDED"


def test_one_instance_too_many_ends_the_one_that_was_silent_for_longest(
    metrics: ClientMetrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_metrics, "MOST_INSTANCES", 2)
    asked = metrics.subscribe(NOW, CLIENT)
    metrics.subscribe(NOW, OTHER)
    assert push(metrics, NOW, asked) is None
    metrics.subscribe(NOW, evolve(CLIENT, id=bytes(15) + b"9"))
    assert set(metrics.instances) == {CLIENT.id, bytes(15) + b"9"}


def test_what_could_not_be_handed_on_is_remembered(metrics: ClientMetrics) -> None:
    asked = metrics.subscribe(NOW, CLIENT)
    assert push(metrics, NOW, asked) is None
    metrics.failed(CLIENT, "INVALID_RECORD")
    assert metrics.instances[CLIENT.id].last_error == "INVALID_RECORD"
    metrics.failed(OTHER, "INVALID_RECORD")


def test_of_several_subscriptions_all_metrics_and_the_shortest_interval_count(
    metrics: ClientMetrics,
) -> None:
    configure(metrics, "more", metrics="b.,a.", match="client_id=m.,client_source_port=99\\d")
    configure(metrics, "others", metrics="c.", interval_ms="100", match="client_id=somebody")
    assert metrics.subscribe(NOW, CLIENT) == Asked(
        metrics.instances[CLIENT.id].asked.subscription_id, ["a.", "b."], INTERVAL_MS
    )
    configure(metrics, "s", metrics="", interval_ms="3600000")
    assert metrics.subscribe(NOW, CLIENT).interval_ms == DEFAULT_MS
    configure(metrics, "more", metrics="*,b.")
    assert metrics.subscribe(NOW, CLIENT).metrics == ["*"]


@pytest.mark.parametrize("name", client_metrics.ATTRIBUTES)
def test_a_pattern_is_about_the_whole_of_an_attribute(name: str) -> None:
    value = CLIENT.attributes[name]
    whole, part = (Subscription.of({"match": f"{name}={one}"}) for one in (value, value[:-1]))
    assert whole.is_for(CLIENT.attributes)
    assert not part.is_for(CLIENT.attributes)
    anything = Subscription.of({"match": f"{name}=.*"})
    assert not anything.is_for({**CLIENT.attributes, name: ""})


def test_requests_and_ends_of_connections_look_at_nothing_but_their_own(
    metrics: ClientMetrics,
) -> None:
    class Counting(OrderedDict[bytes, Any]):
        looked = 0

        def __iter__(self) -> Any:
            self.looked += 1
            return super().__iter__()

    metrics.instances = Counting()
    metrics.metadata.configs = Unread()
    for number in range(50):
        client = evolve(CLIENT, id=number.to_bytes(16), connection=number)
        assert subscribe(metrics, NOW + number, client) is None
    for number in range(0, 50, 2):
        metrics.disconnected(number)
    assert metrics.instances.looked == 0
    assert len(metrics.instances) == 25
    metrics.disconnected(0)
    for number in range(1, 50, 2):
        metrics.disconnected(number)
    assert not metrics.instances


def test_an_instance_that_comes_again_is_of_its_new_connection(metrics: ClientMetrics) -> None:
    assert subscribe(metrics, NOW) is None
    later = evolve(CLIENT, connection=5)
    assert subscribe(metrics, NOW + 10 * DEFAULT_MS, later) is None
    metrics.disconnected(CLIENT.connection)
    assert set(metrics.instances) == {CLIENT.id}
    metrics.disconnected(5)
    assert not metrics.instances


def test_a_subscription_that_is_told_again_is_the_same(metrics: ClientMetrics) -> None:
    assert subscribe(metrics, NOW) is None
    configure(metrics, "s", metrics="a.", interval_ms=str(INTERVAL_MS))
    assert subscribe(metrics, NOW + 1) == "THROTTLING_QUOTA_EXCEEDED"
    configure(metrics, "s")
    assert metrics.metadata.client_metrics == {}


class Unread(dict[ConfigResource, Any]):
    """Configurations that may be set and not be gone through."""

    def items(self) -> Any:
        """Nobody asks."""
        raise AssertionError
