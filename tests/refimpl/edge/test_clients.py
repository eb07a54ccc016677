"""Real clients against the broker: librdkafka, kafka-python and aiokafka."""

import asyncio
import warnings
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from refimpl.edge import BlockingCluster, Cluster
from tests.refimpl.edge.patience import PATIENCE_S

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # how kafka-python reads its own files
    kafka: Any = import_module("kafka")
confluent: Any = import_module("confluent_kafka")
aiokafka: Any = import_module("aiokafka")

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Three brokers for all tests here; each has topics of its own."""
    with BlockingCluster(brokers=3, seed=1) as cluster:
        yield cluster


def producer(cluster: Any, **configs: Any) -> Any:
    """librdkafka's."""
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    return confluent.Producer({"bootstrap.servers": cluster.bootstrap, **settings})


def consumer(cluster: Any, **configs: Any) -> Any:
    """librdkafka's, for `assign`."""
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    return confluent.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "nobody",
            "enable.auto.commit": False,
            **settings,
        }
    )


def read(cluster: Any, topic: str, count: int, offset: int = 0, **configs: Any) -> list[Any]:
    """So many messages of partition 0."""
    reader = consumer(cluster, **configs)
    reader.assign([confluent.TopicPartition(topic, 0, offset)])
    found: list[Any] = []
    while len(found) < count:
        messages = reader.consume(count - len(found), timeout=PATIENCE_S)
        assert messages, f"{len(found)} of {count} messages"
        for message in messages:
            assert message.error() is None, message.error()
        found += messages
    reader.close()
    return found


def send(producer: Any, topic: str, values: list[bytes], **which: Any) -> list[int]:
    """Offsets at which values were acknowledged."""
    offsets: list[int] = []

    def acknowledged(error: Any, message: Any) -> None:
        assert error is None, error
        offsets.append(message.offset())

    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=acknowledged, **which)
    assert producer.flush(PATIENCE_S) == 0
    return offsets


@pytest.mark.parametrize("codec", CODECS)
def test_librdkafka_reads_what_it_wrote(cluster: Any, codec: str) -> None:
    topic = f"rd-{codec}"
    cluster.create_topic(topic, replicas=3)
    values = [b"%d" % number * 20 for number in range(200)]
    writer = producer(cluster, compression_type=codec, acks="all")
    assert send(writer, topic, values, headers={"h": b"v"}) == list(range(200))
    found = read(cluster, topic, 200)
    assert [one.value() for one in found] == values
    assert found[0].headers() == [("h", b"v")]
    assert found[0].timestamp()[0] == confluent.TIMESTAMP_CREATE_TIME
    leader = cluster.leader(topic, 0)
    assert cluster.high_watermark(topic, 0, leader) == 200


def test_replicas_hold_the_same_bytes(cluster: Any) -> None:
    cluster.create_topic("same", replicas=3)
    send(producer(cluster, acks="all"), "same", [b"a", b"b", b"c"])
    logs = [cluster.log("same", 0, broker) for broker in (1, 2, 3)]
    assert logs[0] == logs[1] == logs[2]
    assert [record.value for record in logs[0]] == [b"a", b"b", b"c"]


def test_an_idempotent_producer_gets_an_id_and_keeps_order(cluster: Any) -> None:
    cluster.create_topic("idempotent", replicas=3)
    writer = producer(cluster, enable_idempotence=True)
    assert send(writer, "idempotent", [b"%d" % n for n in range(500)]) == list(range(500))


def test_a_topic_is_made_by_who_asks_for_it(cluster: Any) -> None:
    writer = producer(cluster)
    assert send(writer, "made-by-asking", [b"first"]) == [0]
    assert [one.value() for one in read(cluster, "made-by-asking", 1)] == [b"first"]


def test_offsets_by_time_and_the_ends_of_the_log(cluster: Any) -> None:
    cluster.create_topic("times")
    writer = producer(cluster)
    for number in range(3):
        send(writer, "times", [b"x"], timestamp=1_000_000 + 1000 * number)
    reader = consumer(cluster)
    assert reader.get_watermark_offsets(confluent.TopicPartition("times", 0)) == (0, 3)
    wanted = [confluent.TopicPartition("times", 0, 1_000_500)]
    assert reader.offsets_for_times(wanted)[0].offset == 1
    reader.close()


def test_a_consumer_waits_for_what_is_written_later(cluster: Any) -> None:
    cluster.create_topic("later")
    reader = consumer(cluster, fetch_wait_max_ms=5000)
    reader.assign([confluent.TopicPartition("later", 0, 0)])
    assert reader.poll(0.2) is None
    send(producer(cluster), "later", [b"now"])
    assert reader.poll(PATIENCE_S).value() == b"now"
    reader.close()


def test_an_offset_that_is_not_there_is_reset(cluster: Any) -> None:
    cluster.create_topic("reset")
    send(producer(cluster), "reset", [b"a", b"b"])
    settings = {"auto_offset_reset": "earliest"}
    assert [one.value() for one in read(cluster, "reset", 2, offset=99, **settings)] == [b"a", b"b"]


def test_kafka_python_writes_and_reads(cluster: Any) -> None:
    cluster.create_topic("kp", replicas=3)
    servers = cluster.bootstrap.split(",")
    writer = kafka.KafkaProducer(bootstrap_servers=servers, acks="all", compression_type="gzip")
    sent = [writer.send("kp", b"%d" % number, key=b"k", partition=0) for number in range(50)]
    assert [one.get(30).offset for one in sent] == list(range(50))
    writer.close()
    reader = kafka.KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest")
    place = kafka.TopicPartition("kp", 0)
    reader.assign([place])
    found: list[bytes] = []
    while len(found) < 50:
        for messages in reader.poll(1000 * PATIENCE_S).values():
            found += [one.value for one in messages]
    assert found == [b"%d" % number for number in range(50)]
    assert reader.beginning_offsets([place]) == {place: 0}
    assert reader.end_offsets([place]) == {place: 50}
    reader.close()


def test_aiokafka_writes_and_reads() -> None:
    async def both() -> list[bytes]:
        async with Cluster(brokers=2) as cluster:
            await cluster.create_topic("aio", replicas=2)
            writer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=cluster.bootstrap, acks="all", compression_type="zstd"
            )
            await writer.start()
            for number in range(20):
                await writer.send_and_wait("aio", b"%d" % number, partition=0)
            await writer.stop()
            reader = aiokafka.AIOKafkaConsumer(
                bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest"
            )
            await reader.start()
            place = aiokafka.TopicPartition("aio", 0)
            reader.assign([place])
            await reader.seek_to_beginning(place)
            found = [(await reader.getone()).value for _ in range(20)]
            await reader.stop()
            return found

    assert asyncio.run(both()) == [b"%d" % number for number in range(20)]


def test_clients_are_told_what_is_advertised() -> None:
    told: dict[int, tuple[Any, ...]] = {}

    async def run() -> None:
        proxy = {"advertised.listeners": "PLAINTEXT://proxy:19092"}
        async with Cluster(brokers=2, configs=proxy) as cluster:
            for id, one in cluster.hosts[1].node.metadata.brokers.items():
                told[id] = one.endpoints[0][1:3]

    asyncio.run(run())
    assert told == {1: ("proxy", 19092), 2: ("proxy", 19093)}
