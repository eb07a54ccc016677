"""A client above its quota is told for how long it is not heard, and is not heard for so long."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from refimpl.edge.blocking import BlockingCluster
from refimpl.storage.batch import encode_batch
from refimpl.storage.record import Record
from tests.wire.client import Client

BATCH = encode_batch([Record(0, 1_790_000_000_000, None, bytes(20_000))], base_offset=0)


@pytest.fixture
def client() -> Iterator[Client]:
    with (
        BlockingCluster(brokers=1, configs={"quota.window.num": "2"}) as cluster,
        Client.connect(int(cluster.bootstrap.rpartition(":")[2]), "loud") as client,
    ):
        topic = {"name": "t", "num_partitions": 1, "replication_factor": 1}
        client.ask("CreateTopics", 7, {"topics": [topic], "timeout": 30_000})
        yield client


def limit(client: Client, quota: str, value: float) -> None:
    entry = {
        "entity": [{"entity_type": "client-id", "entity_name": "loud"}],
        "ops": [{"key": quota, "value": value, "remove": False}],
    }
    (answer,) = client.ask("AlterClientQuotas", 1, {"entries": [entry]})["entries"]
    assert answer["error_code"] == "NONE"


def produce(client: Client) -> dict[str, Any]:
    data = {"name": "t", "partition_data": [{"index": 0, "records": BATCH}]}
    return client.ask("Produce", 9, {"acks": -1, "timeout": 30_000, "topic_data": [data]})


def fetch(client: Client) -> dict[str, Any]:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    topic = {"topic": "t", "partitions": [{"current_leader_epoch": -1, **partition}]}
    asked = {"replica_id": -1, "max_bytes": 1 << 20, "topics": [topic], "session_epoch": -1}
    return client.ask("Fetch", 12, {**asked, "last_fetched_epoch": -1, "rack_id": ""})


@pytest.mark.parametrize(
    ("quota", "ask"), [("producer_byte_rate", produce), ("consumer_byte_rate", fetch)]
)
def test_who_is_above_a_quota_is_told_and_muted(client: Client, quota: str, ask: Any) -> None:
    produce(client)
    assert ask(client)["throttle_time"] == 0
    limit(client, quota, 16_000.0)
    began = time.monotonic()  # not behind the answer: a slow client hears of it late
    told_ms = ask(client)["throttle_time"]
    assert 100 < told_ms < 1000
    client.ask("Metadata", 9, {"topics": []})
    assert 1000 * (time.monotonic() - began) > told_ms - 20


def test_others_are_neither_told_nor_muted(client: Client) -> None:
    limit(client, "producer_byte_rate", 1.0)
    client.client_id = "quiet"
    assert produce(client)["throttle_time"] == 0
