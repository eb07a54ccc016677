"""ListConfigResources, as Kafka 4.3 answers it: what there are configurations of."""

from collections.abc import Iterator
from typing import Any

import pytest

from refimpl.edge import BlockingCluster
from tests.wire.client import Client

TOPIC, BROKER, BROKER_LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with BlockingCluster(brokers=2) as cluster:
        cluster.create_topic("t")
        with Client.connect(int(cluster.bootstrap.split(",")[0].rpartition(":")[2])) as asking:
            yield asking


def listed(client: Client, version: int, *types: int) -> tuple[str, list[tuple[int, str]]]:
    values: dict[str, Any] = {"resource_types": types} if version else {}
    answer = client.ask("ListConfigResources", version, values)
    found = answer["config_resources"]
    pairs = [(one.get("resource_type", METRICS), one["resource_name"]) for one in found]
    return answer["error_code"], pairs


def test_everything_is_listed_where_nothing_is_named(client: Client) -> None:
    brokers = [(kind, name) for kind in (BROKER_LOGGER, BROKER) for name in ("1", "2")]
    assert listed(client, 1) == ("NONE", [*brokers, (TOPIC, "t")])


def test_only_what_is_named_is_listed(client: Client) -> None:
    assert listed(client, 1, GROUP, TOPIC, METRICS) == ("NONE", [(TOPIC, "t")])


def test_version_0_is_about_client_metrics_of_which_there_are_none(client: Client) -> None:
    assert listed(client, 0) == ("NONE", [])


def test_an_unknown_type_is_refused(client: Client) -> None:
    assert listed(client, 1, TOPIC, 1) == ("UNSUPPORTED_VERSION", [])
