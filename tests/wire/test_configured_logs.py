"""Configurations that are changed while brokers run take effect in open logs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from refimpl.edge.testing.blocking import BlockingCluster
from refimpl.storage.format.batch import encode_batch
from refimpl.storage.format.record import Record
from tests.wire.client import Client

TOPIC, BROKER = 2, 4
HALF = encode_batch([Record(0, 1_790_000_000_000, None, bytes(600_000))], base_offset=0)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def client(data: Path) -> Iterator[Client]:
    with (
        BlockingCluster(brokers=1, data=data) as cluster,
        Client.connect(int(cluster.bootstrap.rpartition(":")[2])) as client,
    ):
        topic = {"name": "t", "num_partitions": 1, "replication_factor": 1}
        client.ask("CreateTopics", 7, {"topics": [topic], "timeout": 30_000})
        yield client


def alter(client: Client, type: int, name: str, key: str, value: str) -> None:
    change = {"name": key, "config_operation": 0, "value": value}
    resource = {"resource_type": type, "resource_name": name, "configs": [change]}
    (answer,) = client.ask("IncrementalAlterConfigs", 1, {"resources": [resource]})["responses"]
    assert answer["error_code"] == "NONE", answer


def produce(client: Client) -> dict[str, Any]:
    data = {"name": "t", "partition_data": [{"index": 0, "records": HALF}]}
    answer = client.ask("Produce", 9, {"acks": -1, "timeout": 30_000, "topic_data": [data]})
    return answer["responses"][0]["partition_responses"][0]


def segments(data: Path) -> int:
    return len(list((data / "broker-1" / "t-0").glob("*.log")))


@pytest.mark.parametrize(
    ("type", "name", "key"),
    [
        (TOPIC, "t", "segment.bytes"),
        (BROKER, "1", "log.segment.bytes"),
        (BROKER, "", "log.segment.bytes"),
    ],
)
def test_segments_are_rolled_at_their_new_size(
    client: Client, data: Path, type: int, name: str, key: str
) -> None:
    produce(client)
    produce(client)
    assert segments(data) == 1
    alter(client, type, name, key, str(1 << 20))
    produce(client)
    produce(client)
    assert segments(data) == 3


def test_batches_are_refused_above_their_new_size(client: Client) -> None:
    assert produce(client)["error_code"] == "NONE"
    alter(client, TOPIC, "t", "max.message.bytes", "1000")
    assert produce(client)["error_code"] == "MESSAGE_TOO_LARGE"
    alter(client, TOPIC, "t", "max.message.bytes", "1000000")
    assert produce(client)["error_code"] == "NONE"


def test_a_topic_is_held_against_what_it_takes_from_its_brokers_file() -> None:
    configs = {"log.cleaner.max.compaction.lag.ms": "1000"}
    lag = {"name": "min.compaction.lag.ms", "value": "2000"}
    topic = {"name": "t", "num_partitions": 1, "replication_factor": 1, "configs": [lag]}
    with (
        BlockingCluster(brokers=1, configs=configs) as cluster,
        Client.connect(int(cluster.bootstrap.rpartition(":")[2])) as client,
    ):
        asked = {"topics": [topic], "timeout": 30_000}
        (answer,) = client.ask("CreateTopics", 7, asked)["topics"]
    assert answer["error_message"] == (
        "conflict topic config setting min.compaction.lag.ms (2000) > max.compaction.lag.ms (1000)"
    )
