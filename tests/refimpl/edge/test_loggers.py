"""The levels of loggers, which Kafka's protocol changes while brokers run (KIP-412)."""

import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from refimpl.api import loggers
from refimpl.edge.server.log import CLIENTS, REQUESTS
from refimpl.edge.testing.blocking import BlockingCluster
from tests.wire.client import Client
from tests.wire.telemetry_scripts import DELETE, LOGGER, ROOT, SET

OURS = ("highwater.broker", "highwater.certificates", "highwater.clients", "highwater.requests")


@pytest.fixture
def client() -> Iterator[Client]:
    kept = {one: one.level for one in (logging.root, CLIENTS, REQUESTS)}
    with (
        BlockingCluster(brokers=1) as cluster,
        Client.connect(int(cluster.bootstrap.rpartition(":")[2]), "me") as client,
    ):
        yield client
    for one, level in kept.items():
        one.setLevel(level)


def alter(client: Client, name: str, operation: int, value: str | None, **more: Any) -> str:
    change = {"name": name, "config_operation": operation, "value": value}
    resource = {"resource_type": LOGGER, "resource_name": "1", "configs": [change]}
    asked = {"resources": [resource], "validate_only": False, **more}
    return client.ask("IncrementalAlterConfigs", 1, asked)["responses"][0]["error_code"]


def levels(client: Client) -> dict[str, str]:
    resource = {"resource_type": LOGGER, "resource_name": "1", "configuration_keys": None}
    (answer,) = client.ask("DescribeConfigs", 4, {"resources": [resource]})["results"]
    return {one["name"]: one["value"] for one in answer["configs"]}


def test_loggers_have_the_level_of_their_parent_or_their_own(client: Client) -> None:
    assert {ROOT, *OURS} <= levels(client).keys()
    assert alter(client, ROOT, SET, "ERROR") == "NONE"
    assert alter(client, "highwater.clients", SET, "TRACE") == "NONE"
    assert alter(client, "highwater.requests", SET, "FATAL", validate_only=True) == "NONE"
    found = levels(client)
    assert [found[one] for one in (ROOT, *OURS)] == ["ERROR"] * 3 + ["TRACE", "ERROR"]
    assert alter(client, "highwater.clients", DELETE, None) == "NONE"
    assert levels(client)["highwater.clients"] == "ERROR"


@pytest.mark.parametrize(
    ("number", "name"), [(1, "TRACE"), (6, "DEBUG"), (25, "WARN"), (41, "FATAL"), (99, "FATAL")]
)
def test_levels_of_pythons_own_are_described_by_kafkas(number: int, name: str) -> None:
    kept = CLIENTS.level
    CLIENTS.setLevel(number)
    try:
        assert loggers.levels()["highwater.clients"] == name
    finally:
        CLIENTS.setLevel(kept)


def test_a_level_decides_what_is_said_of_clients(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    levels(client)
    assert "DescribeConfigs" not in capsys.readouterr().err
    alter(client, "highwater.requests", SET, "DEBUG")
    levels(client)
    assert "highwater: broker 1: DescribeConfigs of me at 127.0.0.1\n" in capsys.readouterr().err
    alter(client, "highwater.clients", SET, "FATAL")
    port = client.connection.getpeername()[1]
    with Client.connect(port) as other:
        other.connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
        with suppress(ConnectionResetError):
            assert other.connection.recv(1) == b""
    assert "HTTP" not in capsys.readouterr().err
