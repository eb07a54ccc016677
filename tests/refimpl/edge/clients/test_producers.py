"""Both producers on brokers of ours: results, faults, settings, serializers, interceptors."""

import asyncio
import json
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest

from highwater import (
    AsyncProducer,
    BlockingCluster,
    Cluster,
    ConfigError,
    Producer,
    ProducerRecord,
    RecordMetadata,
    SendError,
)
from traces.model.partitioners import murmur2


def values(cluster: Any, topic: str, partition: int) -> list[bytes]:
    """The records in the leader's log."""
    return [one.value for one in cluster.log(topic, partition, cluster.leader(topic, partition))]


@pytest.fixture
def cluster() -> Iterator[BlockingCluster]:
    with BlockingCluster(brokers=3) as cluster:
        cluster.create_topic("orders", partitions=2, replicas=3)
        yield cluster


def test_a_send_returns_where_the_record_is(cluster: BlockingCluster) -> None:
    with Producer({"bootstrap.servers": cluster.bootstrap, "client.id": "shop"}) as producer:
        first = producer.send("orders", "a", partition=1, timestamp_ms=17).result(30)
        second = producer.send("orders", "b", partition=1).result(30)
    assert first == RecordMetadata("orders", 1, 0, 17)
    assert second[:3] == ("orders", 1, 1)
    assert values(cluster, "orders", 1) == [b"a", b"b"]


def test_a_callback_hears_of_success_and_of_failure(cluster: BlockingCluster) -> None:
    heard: list[tuple[Any, Any]] = []

    def hear(metadata: Any, error: Any) -> None:
        heard.append((metadata, error))

    with Producer({"bootstrap.servers": cluster.bootstrap}) as producer:
        producer.send("orders", "a", partition=0, on_delivery=hear)
        bad = producer.send("orders", "b", partition=9, on_delivery=hear)
        with pytest.raises(SendError, match="the topic has 2 partitions"):
            bad.result(30)
    (one, other) = sorted(heard, key=lambda both: both[0] is None)
    assert (one[0].offset, one[1]) == (0, None)
    assert (other[0], other[1].certain) == (None, True)


def refuse(metadata: Any, error: Any) -> None:
    """A callback with a bug."""
    raise RuntimeError("no")


def test_a_callback_that_raises_stops_nobody(
    cluster: BlockingCluster, caplog: pytest.LogCaptureFixture
) -> None:
    with Producer({"bootstrap.servers": cluster.bootstrap}) as producer:
        sent = producer.send("orders", "a", partition=0, on_delivery=refuse)
        assert sent.result(30).offset == 0
        assert producer.send("orders", "b", partition=0).result(30).offset == 1
    assert "on_delivery failed" in caplog.text


def test_threads_share_a_producer_and_each_keeps_its_order(cluster: BlockingCluster) -> None:
    with Producer({"bootstrap.servers": cluster.bootstrap}) as producer:

        def send(thread: int) -> None:
            for number in range(100):
                producer.send("orders", f"{thread}:{number}", partition=0)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(send, range(4)))
        producer.flush()
    found = [tuple(map(int, one.decode().split(":"))) for one in values(cluster, "orders", 0)]
    for thread in range(4):
        assert [number for who, number in found if who == thread] == list(range(100))


def test_keys_go_where_kafka_sends_them(cluster: BlockingCluster) -> None:
    cluster.create_topic("keys", partitions=6)
    with Producer({"bootstrap.servers": cluster.bootstrap}) as producer:
        sent = {key: producer.send("keys", None, key=key) for key in ("", "a", "order-17", "Ä")}
        found = {key: one.result(30).partition for key, one in sent.items()}
    assert found == {key: (murmur2(key.encode()) & 0x7FFFFFFF) % 6 for key in found}


async def sends_while_leaders_die(bootstrap: str, cluster: Cluster, config: dict[str, Any]) -> Any:
    """Records to both partitions, while one broker after the other is killed and comes back."""
    results: list[Any] = []
    async with AsyncProducer({"bootstrap.servers": bootstrap, **config}) as producer:
        for number in range(600):
            value = b"%04d" % number
            results.append((value, await producer.send("orders", value, partition=number % 2)))
            if number % 200 == 100:
                leader = cluster.leader("orders", 0)
                assert leader is not None
                cluster.kill(leader, expire=True)
                await producer.flush()
                await cluster.restart(leader)
                await cluster.settled()
            await asyncio.sleep(0)
        await producer.flush()
    return [(value, sent.result()) for value, sent in results]


def test_leaders_are_killed_and_each_record_is_there_once_in_order() -> None:
    async def run() -> None:
        async with Cluster(brokers=3) as cluster:
            await cluster.create_topic("orders", partitions=2, replicas=3)
            config = {"linger.ms": 1, "batch.size": 100, "retry.backoff.ms": 20}
            written = await sends_while_leaders_die(cluster.bootstrap, cluster, config)
            for partition in (0, 1):
                log = values(cluster, "orders", partition)
                assert log == [b"%04d" % number for number in range(600) if number % 2 == partition]
                for value, where in written:
                    if where.partition == partition:
                        assert log[where.offset] == value

    asyncio.run(run())


def test_an_answer_that_is_lost_leaves_no_duplicate() -> None:
    async def run() -> None:
        async with Cluster(brokers=1) as cluster:
            await cluster.create_topic("orders")
            config = {"bootstrap.servers": cluster.bootstrap, "linger.ms": 0}
            async with AsyncProducer(config) as producer:
                await producer.send_and_wait("orders", "first")
                rule = cluster.disconnect("Produce", count=1)
                sent = [await producer.send("orders", f"{number}") for number in range(5)]
                await cluster.met(rule)
                assert [(await one).offset for one in sent] == [1, 2, 3, 4, 5]
            assert values(cluster, "orders", 0) == [b"first", b"0", b"1", b"2", b"3", b"4"]

    asyncio.run(run())


def test_no_broker_at_all_means_a_failure_after_max_block_ms() -> None:
    with (
        Producer({"bootstrap.servers": "127.0.0.1:1", "max.block.ms": 50}) as producer,
        pytest.raises(SendError, match="no metadata of orders within 50 ms"),
    ):
        producer.send("orders", "a").result(30)


def test_memory_is_given_back_and_a_send_waits_for_it(cluster: BlockingCluster) -> None:
    config = {
        "bootstrap.servers": cluster.bootstrap,
        "buffer.memory": 40_000,
        "linger.ms": 1000,
    }
    with Producer(config) as producer:
        sent = [producer.send("orders", b"x" * 1000, partition=0) for _ in range(200)]
        producer.flush()
        assert [one.result().offset for one in sent] == list(range(200))


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_batches_are_compressed(cluster: BlockingCluster, codec: str) -> None:
    config = {"bootstrap.servers": cluster.bootstrap, "compression.type": codec}
    with Producer(config) as producer:
        producer.send("orders", "b" * 500, partition=0)
        producer.flush()
    assert values(cluster, "orders", 0) == [b"b" * 500]


def spaced(value: Any) -> bytes:
    """A serializer of one's own."""
    return json.dumps(value).encode()


ID = UUID("12345678-1234-5678-1234-567812345678")


@pytest.mark.parametrize(
    ("name", "value", "content"),
    [
        (None, "text", b"text"),
        (None, 5, struct.pack(">q", 5)),
        (None, 0.5, struct.pack(">d", 0.5)),
        (None, ID, str(ID).encode()),
        (None, {"a": [1]}, b'{"a":[1]}'),
        (None, None, None),
        ("int32", 5, struct.pack(">i", 5)),
        ("json", 5, b"5"),
        ("uuid", str(ID), str(ID).encode()),
        (spaced, [1, 2], b"[1, 2]"),
    ],
)
def test_a_value_is_serialized_by_its_type_or_as_it_is_said(
    cluster: BlockingCluster, name: Any, value: Any, content: bytes | None
) -> None:
    config = {"bootstrap.servers": cluster.bootstrap, "value.serializer": name}
    with Producer(config) as producer:
        producer.send("orders", value, partition=0)
    assert values(cluster, "orders", 0) == [content]


def test_what_no_serializer_takes_is_a_type_error(cluster: BlockingCluster) -> None:
    with Producer({"bootstrap.servers": cluster.bootstrap}) as producer:
        with pytest.raises(TypeError, match="no serializer for a object"):
            producer.send("orders", object())
        with pytest.raises(TypeError, match="header 1: expected a text and bytes"):
            producer.send("orders", "a", headers=[(1, b"x")])
        with pytest.raises(ValueError, match="partition -1"):
            producer.send("orders", "a", partition=-1)


class Interceptor:
    """Notes what it sees, and marks each record."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def configure(self, config: Any) -> None:
        self.seen.append(config["client.id"])

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return ProducerRecord(record.topic, f"{record.value}!", record.key, record.partition)

    def on_acknowledgement(self, metadata: Any, error: Any) -> None:
        self.seen.append(metadata and metadata.offset)

    def close(self) -> None:
        self.seen.append("closed")


class Broken:
    """An interceptor that raises."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        raise RuntimeError("no")


def test_interceptors_change_records_and_hear_of_results(
    cluster: BlockingCluster, caplog: pytest.LogCaptureFixture
) -> None:
    interceptor = Interceptor()
    config = {
        "bootstrap.servers": cluster.bootstrap,
        "client.id": "me",
        "interceptor.classes": [Broken(), interceptor],
    }
    with Producer(config) as producer:
        producer.send("orders", "a", partition=0).result(30)
    assert values(cluster, "orders", 0) == [b"a!"]
    assert interceptor.seen == ["me", 0, "closed"]
    assert "is passed over" in caplog.text


def test_a_wrong_setting_gets_one_sentence() -> None:
    for config, says in (
        ({}, "bootstrap.servers is not given"),
        ({"bootstrap.servers": "nowhere"}, "'nowhere' is no host:port"),
        ({"bootstrap.servers": "a:1", "linger.s": 1}, "did you mean linger.ms"),
        ({"bootstrap.servers": "a:1", "value.serializer": "string"}, "did you mean str"),
    ):
        with pytest.raises(ConfigError, match=says):
            Producer(config)


def test_close_fails_what_is_not_written_in_time() -> None:
    with BlockingCluster(brokers=1) as cluster:
        cluster.create_topic("orders")
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        producer.send("orders", "first").result(30)
        rule = cluster.hold("Produce")
        sent = producer.send("orders", "a")
        cluster.met(rule)
        producer.close(0.01)
        with pytest.raises(SendError, match="closed before it was written") as failed:
            sent.result(30)
        assert not failed.value.certain
        with pytest.raises(RuntimeError, match="this producer is closed"):
            producer.send("orders", "b")
