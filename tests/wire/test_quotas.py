"""A client above its quota is told for how long it is not heard, and is not heard for so long."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from refimpl.edge.testing.blocking import BlockingCluster
from refimpl.storage.format.batch import encode_batch
from refimpl.storage.format.record import Record
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


def limit(client: Client, quota: str, value: float, kind: str = "client-id") -> None:
    name = "loud" if kind == "client-id" else None
    entry = {
        "entity": [{"entity_type": kind, "entity_name": name}],
        "ops": [{"key": quota, "value": value, "remove": False}],
    }
    (answer,) = client.ask("AlterClientQuotas", 1, {"entries": [entry]})["entries"]
    assert answer["error_code"] == "NONE"


def produce(client: Client) -> dict[str, Any]:
    data = {"name": "t", "partition_data": [{"index": 0, "records": BATCH}]}
    return client.ask("Produce", 9, {"acks": -1, "timeout": 30_000, "topic_data": [data]})


def create(client: Client, name: str) -> dict[str, Any]:
    topic = {"name": name, "num_partitions": 9, "replication_factor": 1}
    return client.ask("CreateTopics", 7, {"topics": [topic], "timeout": 30_000})


def describe(client: Client) -> dict[str, Any]:
    return client.ask("Metadata", 9, {"topics": None})


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


@pytest.mark.parametrize("ask", [describe, produce, fetch])
def test_who_takes_too_much_of_a_thread_waits_for_a_window(client: Client, ask: Any) -> None:
    limit(client, "request_percentage", 1e-6)
    for _ in range(2):
        assert ask(client)["throttle_time"] == 1000
        client.again()
    client.client_id = "quiet"
    assert ask(client)["throttle_time"] == 0


def test_requests_that_wait_for_others_take_no_time(client: Client) -> None:
    """A fetch that waits for records is not charged for the time that it waits."""
    produce(client)
    limit(client, "request_percentage", 200.0)
    partition = {"partition": 0, "fetch_offset": 1, "partition_max_bytes": 1 << 20}
    topic = {"topic": "t", "partitions": [{"current_leader_epoch": -1, **partition}]}
    asked = {"replica_id": -1, "max_bytes": 1 << 20, "topics": [topic], "session_epoch": -1}
    asked |= {"last_fetched_epoch": -1, "rack_id": "", "min_bytes": 1, "max_wait": 2_500}
    assert client.ask("Fetch", 12, asked)["throttle_time"] == 0


def test_who_creates_too_much_is_refused_and_told_for_how_long(client: Client) -> None:
    limit(client, "controller_mutation_rate", 1e-3)
    assert create(client, "u")["topics"][0]["error_code"] == "NONE"
    answer = create(client, "v")
    assert answer["topics"][0]["error_code"] == "THROTTLING_QUOTA_EXCEEDED"
    assert answer["throttle_time"] > 1_000_000
    client.again()
    asked = {"topics": [{"name": "w"}], "allow_auto_topic_creation": True}
    for _ in range(2):
        client.ask("Metadata", 9, asked)
    client.client_id = "quiet"
    assert create(client, "w")["topics"][0]["error_code"] == "NONE"


def test_connections_above_the_rate_of_their_address_are_not_served(client: Client) -> None:
    limit(client, "connection_creation_rate", 1.0, "ip")
    port = client.connection.getpeername()[1]
    with ExitStack() as stack:
        clients = [stack.enter_context(Client.connect(port)) for _ in range(200)]
        with pytest.raises(ConnectionError):
            list(map(describe, clients))
    describe(client)
