"""UnregisterBroker on the wire: a broker that is gone, one that lives, and one that was none."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from refimpl.edge.testing.blocking import BlockingCluster
from tests.wire.client import Client

NOT_REGISTERED = "BROKER_ID_NOT_REGISTERED"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[BlockingCluster]:
    with BlockingCluster(brokers=3, data=tmp_path) as cluster:
        cluster.create_topic("t", assignments={0: [3, 1]})
        yield cluster


def ask(cluster: BlockingCluster, api: str, **of: Any) -> dict[str, Any]:
    """The answer of broker 2, which is not the controller's."""
    port = int(cluster.bootstrap.split(",")[1].rpartition(":")[2])
    with Client.connect(port) as client:
        return client.ask(api, 0, of)


def unregister(cluster: BlockingCluster, broker: int) -> str:
    return ask(cluster, "UnregisterBroker", broker_id=broker)["error_code"]


def brokers(cluster: BlockingCluster) -> list[int]:
    answer = ask(cluster, "DescribeCluster", include_cluster_authorized_operations=False)
    return [one["broker_id"] for one in answer["brokers"]]


def test_a_broker_that_is_gone_is_forgotten_until_it_starts_again(cluster: BlockingCluster) -> None:
    cluster.stop(3)
    assert unregister(cluster, 3) == "NONE"
    assert brokers(cluster) == [1, 2]
    assert unregister(cluster, 3) == NOT_REGISTERED
    cluster.restart(3)
    assert brokers(cluster) == [1, 2, 3]
    cluster.until(lambda: set(cluster.isr("t", 0)) == {1, 3})


def test_a_broker_that_lives_leads_nothing_any_more(cluster: BlockingCluster) -> None:
    assert cluster.leader("t", 0) == 3
    assert unregister(cluster, 3) == "NONE"
    assert cluster.leader("t", 0) == 1
    assert brokers(cluster) == [1, 2]


@pytest.mark.parametrize("broker", [77, -1])
def test_a_broker_that_never_was_is_refused(cluster: BlockingCluster, broker: int) -> None:
    assert unregister(cluster, broker) == NOT_REGISTERED
