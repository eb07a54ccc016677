"""Both consumers on brokers of ours: groups, positions, commits, listeners, faults, settings."""

import asyncio
import re
import struct
from collections.abc import Iterator
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from highwater import (
    AsyncConsumer,
    AsyncProducer,
    BlockingCluster,
    Cluster,
    ConfigError,
    Consumer,
    ConsumerError,
    ConsumerRecord,
    Producer,
)
from refimpl.messages.broker import Timer
from tests.refimpl.edge.clients.consuming import Listener, read, until
from tests.refimpl.edge.patience import PATIENCE_S

PROTOCOLS = ("classic", "consumer")
BOTH = [("orders", 0), ("orders", 1)]


@pytest.fixture
def cluster() -> Iterator[BlockingCluster]:
    with BlockingCluster(brokers=3) as cluster:
        cluster.create_topic("orders", partitions=2, replicas=3)
        yield cluster


def fill(cluster: BlockingCluster, count: int, topic: str = "orders", start: int = 0) -> None:
    """Records with the numbers from start on, in two partitions by turns."""
    with Producer({"bootstrap.servers": cluster.bootstrap}) as producer:
        for number in range(start, start + count):
            producer.send(topic, b"%d" % number, partition=number % 2)


def settings(cluster: BlockingCluster, **more: Any) -> dict[str, Any]:
    """A consumer that begins at the beginning."""
    given = {name.replace("_", "."): value for name, value in more.items()}
    return {
        "bootstrap.servers": cluster.bootstrap,
        "auto.offset.reset": "earliest",
        "group.id": "g",
        **given,
    }


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_goes_on_where_it_has_committed(cluster: BlockingCluster, protocol: str) -> None:
    fill(cluster, 1000)
    heard = Listener()
    with Consumer(settings(cluster, group_protocol=protocol)) as consumer:
        consumer.subscribe(["orders"], heard)
        found = read(consumer, 1000)
        assert sorted(int(one.value) for one in found) == list(range(1000))
        for partition in (0, 1):
            offsets = [one.offset for one in found if one.partition == partition]
            assert offsets == list(range(500))
    assert heard.heard == [("assigned", [0, 1]), ("revoked", [0, 1])]
    fill(cluster, 10, start=1000)
    with Consumer(settings(cluster, group_protocol=protocol)) as consumer:
        consumer.subscribe("orders")
        assert sorted(int(one.value) for one in read(consumer, 10)) == list(range(1000, 1010))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_without_automatic_commits_only_what_is_committed_counts(
    cluster: BlockingCluster, protocol: str
) -> None:
    fill(cluster, 20)
    given = settings(cluster, group_protocol=protocol, enable_auto_commit=False)
    with Consumer(given) as consumer:
        consumer.subscribe("orders")
        read(consumer, 20)
        consumer.commit({("orders", 0): 3, ("orders", 1): (4, "note")})
        assert consumer.committed(BOTH) == {("orders", 0): 3, ("orders", 1): 4}
    with Consumer(given) as consumer:
        consumer.subscribe("orders")
        found = read(consumer, 13)
        first = {one.partition: one.offset for one in reversed(found)}
        assert first == {0: 3, 1: 4}
        consumer.commit()
        assert consumer.committed(BOTH) == {("orders", 0): 10, ("orders", 1): 10}


ASSIGNORS = ("range", "cooperative-sticky", "sticky", "roundrobin")


@pytest.mark.parametrize("assignor", [*ASSIGNORS, None])
def test_two_members_share_and_one_takes_over(
    cluster: BlockingCluster, assignor: str | None
) -> None:
    fill(cluster, 100)
    given = settings(cluster, group_protocol="classic" if assignor else "consumer")
    if assignor:
        given |= {"partition.assignment.strategy": assignor, "heartbeat.interval.ms": 100}
    first, second = Consumer(given), Consumer(given)
    with first, second:
        first.subscribe("orders", heard := Listener())
        found = read(first, 100)
        second.subscribe("orders")
        for _ in range(300):
            found += first.poll(0.05)
            found += second.poll(0.05)
            if len(first.assignment()) == len(second.assignment()) == 1:
                break
        assert sorted(first.assignment() + second.assignment()) == BOTH
        gone = next(len(one) for kind, one in heard.heard if kind == "revoked")
        assert gone == (1 if assignor in ("cooperative-sticky", None) else 2)
        fill(cluster, 20, start=100)
        second.poll(0.2)
        second.close()
        found += until(first, lambda more: len(first.assignment()) == 2 and len(more) >= 10)
        for _ in range(10):
            found += first.poll(0.1)
    numbers = [int(one.value) for one in found]
    assert len(numbers) == len(set(numbers))  # orderly rebalances repeat nothing


def test_seek_pause_and_position(cluster: BlockingCluster) -> None:
    fill(cluster, 20)
    with Consumer(settings(cluster)) as consumer:
        consumer.assign(BOTH)
        read(consumer, 20)
        consumer.seek(("orders", 0), 7)
        consumer.pause([("orders", 1)])
        assert [one.offset for one in read(consumer, 3)] == [7, 8, 9]
        assert consumer.position(("orders", 0)) == 10
        consumer.seek_to_beginning([("orders", 1)])
        assert consumer.poll(0.3) == []
        assert consumer.paused() == [("orders", 1)]
        consumer.resume([("orders", 1)])
        assert [one.offset for one in read(consumer, 10)] == list(range(10))
        consumer.seek_to_end(BOTH)
        assert until(consumer, lambda found: consumer.position(("orders", 1)) == 10) == []
        with pytest.raises(ValueError, match="orders-2 is not assigned"):
            consumer.seek(("orders", 2), 0)


def test_offsets_are_told(cluster: BlockingCluster) -> None:
    with Producer({"bootstrap.servers": cluster.bootstrap}) as producer:
        for time in (1000, 2000, 3000):
            producer.send("orders", "a", partition=0, timestamp_ms=time)
    with Consumer({"bootstrap.servers": cluster.bootstrap}) as consumer:
        assert consumer.end_offsets(BOTH) == {("orders", 0): 3, ("orders", 1): 0}
        assert consumer.beginning_offsets(BOTH) == {("orders", 0): 0, ("orders", 1): 0}
        asked = {("orders", 0): 1500, ("orders", 1): 0}
        assert consumer.offsets_for_times(asked) == {("orders", 0): 1, ("orders", 1): None}
        with pytest.raises(ConsumerError, match="INVALID_GROUP_ID"):
            consumer.commit({("orders", 0): 1})


@pytest.mark.parametrize(
    ("reset", "first"), [("earliest", 0), ("by_duration:PT1H", 1), ("latest", 2)]
)
def test_a_reset_begins_where_it_is_said(cluster: BlockingCluster, reset: str, first: int) -> None:
    with Producer({"bootstrap.servers": cluster.bootstrap}) as producer:
        producer.send("orders", "old", partition=0, timestamp_ms=1000)
        producer.send("orders", "new", partition=0)
    given = {"bootstrap.servers": cluster.bootstrap, "auto.offset.reset": reset}
    with Consumer(given) as consumer:
        consumer.assign([("orders", 0)])
        consumer.poll(0)
        found: list[ConsumerRecord] = []
        for _ in range(50):
            found += consumer.poll(0.1)
            if consumer.position(("orders", 0)) == 2:
                break
        assert [one.offset for one in found] == list(range(first, 2))


def test_without_a_reset_a_missing_position_is_an_error(cluster: BlockingCluster) -> None:
    fill(cluster, 4)
    with Consumer(settings(cluster, auto_offset_reset="none")) as consumer:
        consumer.assign([("orders", 0)])
        with pytest.raises(ConsumerError, match="NO_OFFSET_FOR_PARTITION") as failed:
            consumer.poll(10)
        assert failed.value.partitions == (("orders", 0),)
        consumer.seek(("orders", 0), 99)
        with pytest.raises(ConsumerError, match="OFFSET_OUT_OF_RANGE"):
            consumer.poll(10)
        consumer.seek(("orders", 0), 1)
        assert [one.offset for one in consumer.poll(10)] == [1]


def test_a_pattern_selects_topics_and_new_ones_join(cluster: BlockingCluster) -> None:
    cluster.create_topic("order-lines")
    fill(cluster, 2)
    given = settings(cluster, metadata_max_age_ms=200)
    with Consumer(given) as consumer:
        consumer.subscribe(re.compile("order.*"))
        read(consumer, 2)
        assert consumer.subscription() == {"orders", "order-lines"}
        cluster.create_topic("order-notes")
        with Producer({"bootstrap.servers": cluster.bootstrap}) as producer:
            producer.send("order-notes", "a").result(30)
        assert until(consumer, bool)[0].topic == "order-notes"


def test_deserializers_and_a_record_that_cannot_be_read(cluster: BlockingCluster) -> None:
    with Producer({"bootstrap.servers": cluster.bootstrap}) as producer:
        producer.send("orders", 1, key="a", partition=0, headers={"h": b"x"})
        producer.send("orders", "bad", partition=0)
        producer.send("orders", 3, partition=0)
    given = settings(cluster) | {"key.deserializer": "str", "value.deserializer": "int"}
    with Consumer(given) as consumer:
        consumer.assign([("orders", 0)])
        (one,) = read(consumer, 1)
        assert (one.key, one.value, one.headers) == ("a", 1, (("h", b"x"),))
        for _ in range(2):
            with pytest.raises(ConsumerError, match="record 1 of orders-0 cannot be read"):
                consumer.poll(10)
        consumer.seek(("orders", 0), 2)
        assert read(consumer, 1)[0].value == 3


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_are_read(cluster: BlockingCluster, codec: str) -> None:
    config = {"bootstrap.servers": cluster.bootstrap, "compression.type": codec}
    with Producer(config) as producer:
        for number in range(200):
            producer.send("orders", struct.pack(">q", number), partition=0)
    with Consumer(settings(cluster) | {"value.deserializer": "int"}) as consumer:
        consumer.assign([("orders", 0)])
        assert [one.value for one in read(consumer, 200)] == list(range(200))


class Interceptor:
    """Drops odd offsets, and notes what is committed."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        return [one for one in records if one.offset % 2 == 0]

    def on_commit(self, offsets: Any) -> None:
        self.seen.append(dict(offsets))

    def close(self) -> None:
        self.seen.append("closed")


def test_interceptors_see_records_and_commits(cluster: BlockingCluster) -> None:
    fill(cluster, 10)
    interceptor = Interceptor()
    given = settings(cluster) | {"interceptor.classes": [interceptor]}
    with Consumer(given) as consumer:
        consumer.assign([("orders", 0)])
        assert [one.offset for one in read(consumer, 3)] == [0, 2, 4]
        consumer.commit()
    committed = {("orders", 0): 5}
    assert interceptor.seen == [committed, committed, "closed"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_member_that_polls_no_more_loses_its_partitions(
    cluster: BlockingCluster, protocol: str
) -> None:
    fill(cluster, 10)
    given = settings(cluster, group_protocol=protocol)
    if protocol == "classic":
        given["heartbeat.interval.ms"] = 100
    hasty = given | {"max.poll.interval.ms": 1000}
    with Consumer(hasty) as slow, Consumer(given) as other:
        slow.subscribe("orders", heard := Listener())
        read(slow, 10)
        other.subscribe("orders")
        until(other, lambda found: len(other.assignment()) == 2)
        with pytest.raises(ConsumerError):
            slow.commit({("orders", 0): 1})
        for _ in range(100):
            slow.poll(0.05)
            other.poll(0.05)
            if heard.heard[-1][0] == "assigned" and len(heard.heard) > 2:
                break
        assert heard.heard[:2] == [("assigned", [0, 1]), ("lost", [0, 1])]


def test_a_listener_may_seek_and_commit(cluster: BlockingCluster) -> None:
    fill(cluster, 20)

    class Seeker:
        def on_partitions_assigned(self, partitions: list[Any]) -> None:
            for one in partitions:
                consumer.seek(one, 8)

        def on_partitions_revoked(self, partitions: list[Any]) -> None:
            consumer.commit(dict.fromkeys(partitions, 5))

    with Consumer(settings(cluster, enable_auto_commit=False)) as consumer:
        consumer.subscribe("orders", Seeker())
        assert {one.offset for one in read(consumer, 4)} == {8, 9}
    with Consumer(settings(cluster)) as consumer:
        assert consumer.committed(BOTH) == {("orders", 0): 5, ("orders", 1): 5}


def test_a_listener_that_raises_is_heard_and_loses_nothing(cluster: BlockingCluster) -> None:
    fill(cluster, 4)

    class Broken:
        def on_partitions_assigned(self, partitions: list[Any]) -> None:
            raise RuntimeError("no")

    with Consumer(settings(cluster)) as consumer:
        consumer.subscribe("orders", Broken())
        found: list[ConsumerRecord] = []
        raised = 0
        for _ in range(50):
            try:
                found += consumer.poll(0.2)
            except RuntimeError:
                raised += 1
            if len(found) == 4 and raised:
                break
        assert (len(found), raised) == (4, 1)


async def reads_while_leaders_die(cluster: Cluster, protocol: str) -> list[ConsumerRecord]:
    """Records are written and read, while one broker after the other is killed."""
    found: list[ConsumerRecord] = []
    config = {
        "bootstrap.servers": cluster.bootstrap,
        "auto.offset.reset": "earliest",
        "group.id": "g",
        "group.protocol": protocol,
        "retry.backoff.ms": 20,
        "auto.commit.interval.ms": 50,
    }
    producing = {"bootstrap.servers": cluster.bootstrap, "retry.backoff.ms": 20}
    async with AsyncProducer(producing) as producer, AsyncConsumer(config) as consumer:
        consumer.subscribe(["orders"])
        for number in range(300):
            await producer.send("orders", b"%d" % number, partition=number % 2)
            if number % 100 == 50:
                leader = cluster.leader("orders", 0)
                assert leader is not None
                cluster.kill(leader, expire=True)
                await producer.flush()
                found += await consumer.poll(0.2)
                await cluster.restart(leader)
                await cluster.settled()
        await producer.flush()
        for _ in range(200):
            found += await consumer.poll(0.2)
            if len({one.value for one in found}) == 300:
                break
    return found


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_leaders_are_killed_and_each_record_is_read_in_order(protocol: str) -> None:
    async def run() -> None:
        async with Cluster(brokers=3) as cluster:
            await cluster.create_topic("orders", partitions=2, replicas=3)
            found = await reads_while_leaders_die(cluster, protocol)
            for partition in (0, 1):
                offsets = [one.offset for one in found if one.partition == partition]
                assert sorted(set(offsets)) == list(range(150))

    asyncio.run(run())


def test_a_cancelled_poll_loses_nothing() -> None:
    async def run() -> None:
        async with Cluster(brokers=1) as cluster:
            await cluster.create_topic("orders")
            async with AsyncProducer({"bootstrap.servers": cluster.bootstrap}) as producer:
                for number in range(50):
                    await producer.send("orders", b"%d" % number)
            config = {"bootstrap.servers": cluster.bootstrap, "auto.offset.reset": "earliest"}
            async with AsyncConsumer(config | {"max.poll.records": 1}) as consumer:
                consumer.assign([("orders", 0)])
                found: list[ConsumerRecord] = []
                for number in range(500):
                    try:
                        async with asyncio.timeout(0.0005 * (number % 3)):
                            found += await consumer.poll(1)
                    except TimeoutError:
                        found += await consumer.poll(0)
                    if len(found) == 50:
                        break
                assert [one.offset for one in found] == list(range(50))

    asyncio.run(run())


def test_a_wrong_setting_gets_one_sentence() -> None:
    at = {"bootstrap.servers": "a:1"}
    for config, says in (
        ({}, "bootstrap.servers is not given"),
        (at | {"auto.offset.rest": "latest"}, "did you mean auto.offset.reset"),
        (at | {"auto.offset.reset": "first"}, "expected latest, earliest, none, or by_duration:"),
        (at | {"enable.auto.commit": True}, "needs a group.id"),
        (at | {"partition.assignment.strategy": "fair"}, "'fair' is none of range"),
        (at | {"session.timeout.ms": 1000}, "must be less than session.timeout.ms"),
        (at | {"group.protocol": "consumer", "session.timeout.ms": 9}, "of group.protocol=classic"),
        (at | {"group.remote.assignor": "uniform"}, "of group.protocol=consumer alone"),
        (at | {"value.deserializer": "string"}, "did you mean str"),
        (at | {"ssl.keystore.locations": "x"}, "did you mean ssl.keystore.location"),
    ):
        with pytest.raises(ConfigError, match=says):
            Consumer(config)


def test_calls_that_make_no_sense_are_refused(cluster: BlockingCluster) -> None:
    with Consumer({"bootstrap.servers": cluster.bootstrap}) as consumer:
        with pytest.raises(RuntimeError, match="nothing to poll"):
            consumer.poll()
        with pytest.raises(ConfigError, match="needs a group\\.id; without"):
            consumer.subscribe("orders")
    with pytest.raises(RuntimeError, match="this consumer is closed"):
        consumer.poll()
    with Consumer(settings(cluster)) as consumer:
        consumer.subscribe("orders")
        with pytest.raises(RuntimeError, match="unsubscribe before you assign"):
            consumer.assign(BOTH)
        consumer.unsubscribe()
        consumer.assign(BOTH)
        assert consumer.assignment() == BOTH


def test_timers_are_set_in_the_order_of_the_machine() -> None:
    """A timer that an application's call has set must not undo a later one of the loop."""
    consumer: Any = Consumer({"bootstrap.servers": "127.0.0.1:1"})

    def timer(now: int, after_ms: int) -> list[Timer]:
        return [Timer(now + after_ms, "consumer")]

    real, consumer._machine = consumer._machine, SimpleNamespace(handle=timer)
    given, held, done = Event(), Event(), Event()

    def in_the_loop() -> None:
        held.set()
        assert given.wait(PATIENCE_S)
        consumer._give(60_000)
        done.set()

    consumer._thread.loop.call_soon_threadsafe(in_the_loop)
    assert held.wait(PATIENCE_S)
    consumer._give(3_600_000)
    given.set()
    assert done.wait(PATIENCE_S)
    after = Event()
    consumer._thread.loop.call_soon_threadsafe(after.set)
    assert after.wait(PATIENCE_S)
    assert consumer._timer is not None
    assert consumer._timer.when() < consumer._thread.loop.time() + 600
    consumer._machine = real
    consumer.close()
