"""Metrics that clients push, on the wire: who is asked, and who gets them (KIP-714)."""

import threading
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from highwater import BlockingCluster, ClientTelemetry, Security
from refimpl.messages.cluster import CLIENT_METRICS, ConfigResource
from refimpl.messages.controller import ConfigAlteration, IncrementalAlterConfigsRequest
from tests.refimpl.edge.patience import PATIENCE_S
from tests.wire.client import Client
from tests.wire.telemetry_scripts import METRICS, SET

confluent: Any = import_module("confluent_kafka")
SUBSCRIPTIONS, PUSH = 71, 72


class Taken:
    """The pushes so far, and a way to wait for them."""

    def __init__(self) -> None:
        self.all: list[ClientTelemetry] = []
        self.changed = threading.Condition()

    def __call__(self, pushed: ClientTelemetry) -> None:
        with self.changed:
            self.all.append(pushed)
            self.changed.notify_all()

    def until(self, count: int) -> list[ClientTelemetry]:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.all) >= count, PATIENCE_S)
            return list(self.all)


@pytest.fixture
def taken() -> Taken:
    return Taken()


@pytest.fixture
def cluster(taken: Taken) -> Iterator[BlockingCluster]:
    with BlockingCluster(brokers=2, client_telemetry=taken) as cluster:
        yield cluster


def connect(cluster: BlockingCluster, broker: int = 1) -> Client:
    return Client.connect(int(cluster.bootstrap.split(",")[broker - 1].rpartition(":")[2]), "me")


def configure(client: Client, **values: str) -> None:
    """The one subscription."""
    changes = [
        {"name": key.replace("_", "."), "config_operation": SET, "value": one}
        for key, one in values.items()
    ]
    resource = {"resource_type": METRICS, "resource_name": "s", "configs": changes}
    asked = {"resources": [resource], "validate_only": False}
    (answer,) = client.ask("IncrementalAlterConfigs", 1, asked)["responses"]
    assert answer["error_code"] == "NONE"


def subscribe(client: Client, instance: UUID | None = None) -> dict[str, Any]:
    return client.ask("GetTelemetrySubscriptions", 0, {"client_instance_id": instance})


def push(client: Client, answer: dict[str, Any], metrics: bytes = b"m", **more: Any) -> str:
    known = UUID(answer["client_instance_id"])
    values = {"client_instance_id": known, "subscription_id": answer["subscription_id"]}
    rest = {"terminating": False, "compression_type": 0, "metrics": metrics, **more}
    return client.ask("PushTelemetry", 0, {**values, **rest})["error_code"]


def announced(client: Client, **software: str) -> set[int]:
    named = {"client_software_name": "x", "client_software_version": "1", **software}
    answer = client.ask("ApiVersions", 4, named)
    return {one["api_key"] for one in answer["api_keys"]}


def test_clients_are_asked_where_somebody_takes_it(cluster: BlockingCluster) -> None:
    with connect(cluster) as client:
        assert {SUBSCRIPTIONS, PUSH} <= announced(client)
    with BlockingCluster(brokers=1) as nobody, connect(nobody) as client:
        assert not {SUBSCRIPTIONS, PUSH} & announced(client)
        assert push(client, subscribe(client)) == "NONE"  # as by Kafka, it goes nowhere


def test_a_push_is_handed_on_with_who_it_is_from(cluster: BlockingCluster, taken: Taken) -> None:
    with connect(cluster) as client:
        configure(client, metrics="a.", interval_ms="200", match="client_software_version=4.*")
        announced(client, client_software_name="java", client_software_version="4.3")
        cluster.settled()
        answer = subscribe(client)
        assert answer["requested_metrics"] == ["a."]
        assert push(client, answer, b"", terminating=False) == "NONE"  # and nothing to hand on
        assert push(client, answer, b"last", terminating=True) == "NONE"
    (pushed,) = taken.until(1)
    assert pushed.metrics == b"last"
    assert (pushed.client_id, pushed.software_name, pushed.software_version) == (
        "me",
        "java",
        "4.3",
    )
    assert (pushed.address, pushed.principal) == ("127.0.0.1", "User:ANONYMOUS")
    assert pushed.is_terminating
    assert pushed.push_interval_ms == 200
    assert len(pushed.client_instance_id) == 22


def test_a_client_without_an_id_has_an_empty_one(cluster: BlockingCluster, taken: Taken) -> None:
    with connect(cluster) as client:
        client.client_id = None
        assert push(client, subscribe(client)) == "NONE"
    (pushed,) = taken.until(1)
    assert pushed.client_id == ""


def test_what_the_plug_in_refuses_its_client_hears(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refuse(pushed: ClientTelemetry) -> None:
        raise LookupError("no such place")

    with BlockingCluster(brokers=1, client_telemetry=refuse) as cluster, connect(cluster) as client:
        assert push(client, subscribe(client)) == "INVALID_RECORD"
    assert "client_telemetry failed: LookupError: no such place" in capsys.readouterr().err


def test_a_callable_is_expected() -> None:
    with pytest.raises(ValueError, match="client_telemetry: a function is expected, found 'x'"):
        BlockingCluster(client_telemetry="x")  # type: ignore[arg-type]


def test_an_instance_ends_with_its_connection_whichever_listener_it_came_by(
    taken: Taken,
) -> None:
    listeners = {
        "listeners": "ONE://127.0.0.1:0,TWO://127.0.0.1:0",
        "listener.security.protocol.map": "ONE:PLAINTEXT,TWO:PLAINTEXT",
    }
    with BlockingCluster(brokers=1, configs=listeners, client_telemetry=taken) as cluster:
        first = connect(cluster)
        _, second_listener = cluster.hosts[1].node.lifecycle.address.endpoints
        port = second_listener.port
        with Client.connect(port) as second:
            known = UUID(subscribe(second)["client_instance_id"])
            subscribe(first)
            first.__exit__()
            cluster.until(lambda: len(cluster.hosts[1].node.client_metrics.instances) == 1)
            assert subscribe(second, known)["error_code"] == "THROTTLING_QUOTA_EXCEEDED"
        cluster.until(lambda: not cluster.hosts[1].node.client_metrics.instances)


def test_subscriptions_outlive_the_process(tmp_path: Path, taken: Taken) -> None:
    for asked in ([], ["a."]):
        with (
            BlockingCluster(brokers=1, data=tmp_path, client_telemetry=taken) as cluster,
            connect(cluster) as client,
        ):
            assert subscribe(client)["requested_metrics"] == asked
            configure(client, metrics="a.")


def test_librdkafka_pushes_what_it_is_asked_for(cluster: BlockingCluster, taken: Taken) -> None:
    with connect(cluster) as client:
        configure(client, metrics="*", interval_ms="100")
    producer = confluent.Producer({"bootstrap.servers": cluster.bootstrap, "client.id": "p"})
    producer.produce("t", b"x")
    assert producer.flush(PATIENCE_S) == 0
    taken.until(1)
    first = taken.all[0]
    assert (first.client_id, first.software_name) == ("p", "confluent-kafka-python")
    assert b"org.apache.kafka.producer" in first.metrics


def test_a_client_that_has_logged_in_is_known_by_its_principal(taken: Taken) -> None:
    security = Security(users={"admin": "a", "reader": "r"})
    with BlockingCluster(brokers=1, security=security, client_telemetry=taken) as cluster:
        settings = security.confluent(cluster.bootstrap, "reader")
        values = {"metrics": "*", "interval.ms": "100", "match": "client_software_name=confluent.*"}
        changes = [ConfigAlteration(name, SET, value) for name, value in values.items()]
        resource = ConfigResource(CLIENT_METRICS, "s")
        cluster.ask(IncrementalAlterConfigsRequest([(resource, changes)], validate_only=False))
        cluster.settled()
        producer = confluent.Producer(settings)
        producer.list_topics(timeout=PATIENCE_S)
        taken.until(1)
        assert {one.principal for one in taken.all} == {"User:reader"}
