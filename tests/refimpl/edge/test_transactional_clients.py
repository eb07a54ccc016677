"""Transactions of librdkafka, kafka-python and aiokafka."""

import asyncio
import warnings
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from refimpl.edge import BlockingCluster
from refimpl.messages.controller import SAFE_DOWNGRADE, UPGRADE
from refimpl.records.coordinators import partition_for
from tests.refimpl.edge.patience import PATIENCE_S
from tests.wire.asking import TIMEOUT
from tests.wire.client import Client

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # how kafka-python reads its own files
    kafka: Any = import_module("kafka")
confluent: Any = import_module("confluent_kafka")
aiokafka: Any = import_module("aiokafka")
aiokafka_errors: Any = import_module("aiokafka.errors")

KEPT = [b"0-0", b"0-1", b"2-0", b"2-1"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[BlockingCluster]:
    """Three brokers for all tests here; each has topics and ids of its own."""
    with BlockingCluster(brokers=3, seed=1) as cluster:
        yield cluster


def read(cluster: BlockingCluster, topic: str, isolation: str = "read_committed") -> list[bytes]:
    """The values of a topic of one partition, up to its end."""
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": "nobody",
        "isolation.level": isolation,
        "enable.partition.eof": True,
    }
    reader = confluent.Consumer(settings)
    reader.assign([confluent.TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    while (message := reader.poll(PATIENCE_S)) is not None and message.error() is None:
        found.append(message.value())
    reader.close()
    assert message is not None, "nothing within the time"
    return found


# librdkafka


def librdkafka(cluster: BlockingCluster, transactional_id: str) -> Any:
    """A producer that is initialised."""
    settings = {"transactional.id": transactional_id, "log_level": 0}
    producer = confluent.Producer({"bootstrap.servers": cluster.bootstrap, **settings})
    producer.init_transactions(PATIENCE_S)
    return producer


def test_librdkafka_commits_and_aborts(cluster: BlockingCluster) -> None:
    producer = librdkafka(cluster, "rd")
    for number, ends in enumerate(("commit", "abort", "commit")):
        producer.begin_transaction()
        for one in range(2):
            producer.produce("rd", b"%d-%d" % (number, one), partition=0)
        assert producer.flush(PATIENCE_S) == 0
        getattr(producer, f"{ends}_transaction")(PATIENCE_S)
    assert read(cluster, "rd") == KEPT
    assert len(read(cluster, "rd", "read_uncommitted")) == 6


def test_a_zombie_of_librdkafka_is_fenced_and_its_records_aborted(cluster: BlockingCluster) -> None:
    zombie = librdkafka(cluster, "rd-zombie")
    zombie.begin_transaction()
    zombie.produce("rd-zombie", b"old", partition=0)
    assert zombie.flush(PATIENCE_S) == 0
    newest = librdkafka(cluster, "rd-zombie")
    with pytest.raises(confluent.KafkaException) as fenced:
        zombie.commit_transaction(PATIENCE_S)
    assert fenced.value.args[0].name() == "_FENCED"
    newest.begin_transaction()
    newest.produce("rd-zombie", b"new", partition=0)
    newest.commit_transaction(PATIENCE_S)
    assert read(cluster, "rd-zombie") == [b"new"]


def test_librdkafka_commits_offsets_with_records(cluster: BlockingCluster) -> None:
    producer = librdkafka(cluster, "rd-offsets")
    producer.begin_transaction()
    for one in range(3):
        producer.produce("rd-in", b"%d" % one, partition=0)
    producer.commit_transaction(PATIENCE_S)
    consumer = confluent.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "rd-group",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["rd-in"])
    polled = consumer.consume(3, PATIENCE_S)
    for ends, committed in (("abort", [-1001]), ("commit", [3])):
        producer.begin_transaction()
        for message in polled:
            producer.produce("rd-out", message.value(), partition=0)
        where = [confluent.TopicPartition("rd-in", 0, 3)]
        group = consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction(where, group, PATIENCE_S)
        getattr(producer, f"{ends}_transaction")(PATIENCE_S)
        found = consumer.committed(where, timeout=PATIENCE_S)
        assert [one.offset for one in found] == committed, ends
    consumer.close()
    assert read(cluster, "rd-out") == [b"0", b"1", b"2"]


# Upgrades of transaction.version


TV = "transaction.version"


@pytest.mark.parametrize("configs", [{TV: "1"}, {TV: "0"}], ids=["from 1", "from 0"])
def test_librdkafka_and_aiokafka_go_on_across_upgrades_and_downgrades(
    configs: dict[str, str],
) -> None:
    """Each level is finalized while a transaction of each client is open."""
    with BlockingCluster(brokers=3, seed=1, configs=configs) as cluster:
        _across(cluster, [(2, UPGRADE), (1, SAFE_DOWNGRADE), (2, UPGRADE), (0, SAFE_DOWNGRADE)])
        for topic in ("rd-up", "aio-up"):
            assert read(cluster, topic) == [b"%d" % n for n in range(10)], topic


def _across(cluster: BlockingCluster, levels: list[tuple[int, int]]) -> None:
    async def play() -> None:
        rd = librdkafka(cluster, "rd-up")
        servers = cluster.bootstrap.split(",")
        aio = aiokafka.AIOKafkaProducer(bootstrap_servers=servers, transactional_id="aio-up")
        await aio.start()
        for step, update in enumerate([*levels, None]):
            rd.begin_transaction()
            await aio.begin_transaction()
            for half in (0, 1):
                if half and update is not None:
                    _finalize(cluster, *update)
                value = b"%d" % (2 * step + half)
                rd.produce("rd-up", value, partition=0)
                assert rd.flush(PATIENCE_S) == 0
                await aio.send_and_wait("aio-up", value, partition=0)
            rd.commit_transaction(PATIENCE_S)
            await aio.commit_transaction()
        await aio.stop()

    asyncio.run(play())


def _finalize(cluster: BlockingCluster, level: int, kind: int) -> None:
    update = {"feature": TV, "max_version_level": level, "upgrade_type": kind}
    asked = {"timeout": TIMEOUT, "feature_updates": [update], "validate_only": False}
    with Client.connect(int(cluster.bootstrap.split(",")[0].rpartition(":")[2])) as client:
        assert client.ask("UpdateFeatures", 2, asked)["error_code"] == "NONE"


# kafka-python


def test_kafka_python_commits_aborts_and_is_fenced(cluster: BlockingCluster) -> None:
    servers = cluster.bootstrap.split(",")
    first, second = [
        kafka.KafkaProducer(bootstrap_servers=servers, transactional_id="kp") for _ in range(2)
    ]
    first.init_transactions()
    for number, ends in enumerate(("commit", "abort", "commit")):
        first.begin_transaction()
        for one in range(2):
            first.send("kp", b"%d-%d" % (number, one), partition=0).get(PATIENCE_S)
        getattr(first, f"{ends}_transaction")()
    first.begin_transaction()
    first.send("kp", b"old", partition=0).get(PATIENCE_S)
    second.init_transactions()
    with pytest.raises(kafka.errors.ProducerFencedError):
        first.commit_transaction()
    second.begin_transaction()
    second.send("kp", b"new", partition=0)
    where = {kafka.TopicPartition("kp", 0): kafka.structs.OffsetAndMetadata(4, "", -1)}
    second.send_offsets_to_transaction(where, "kp-group")
    second.commit_transaction()
    for one in (first, second):
        one.close(1)
    assert read(cluster, "kp") == [*KEPT, b"new"]


# aiokafka


async def with_aiokafka(cluster: BlockingCluster) -> Any:
    """Commit, abort, be fenced; answers the group's committed offset."""
    settings = {"bootstrap_servers": cluster.bootstrap, "transactional_id": "aio"}
    first, second = (aiokafka.AIOKafkaProducer(**settings) for _ in range(2))
    part = aiokafka.TopicPartition("aio", 0)
    await first.start()
    async with first.transaction():
        await first.send_and_wait("aio", b"kept", partition=0)
        await first.send_offsets_to_transaction({part: 5}, "aio-group")
    await first.begin_transaction()
    await first.send_and_wait("aio", b"aborted", partition=0)
    await first.abort_transaction()
    await first.begin_transaction()
    await first.send_and_wait("aio", b"old", partition=0)
    await second.start()
    with pytest.raises(aiokafka_errors.ProducerFenced):
        await first.commit_transaction()
    async with second.transaction():
        await second.send_and_wait("aio", b"new", partition=0)
    await second.stop()
    await first.stop()
    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap, group_id="aio-group")
    await consumer.start()
    committed = await consumer.committed(part)
    await consumer.stop()
    return committed


def test_aiokafka_commits_aborts_and_is_fenced(cluster: BlockingCluster) -> None:
    assert asyncio.run(with_aiokafka(cluster)) == 5
    assert read(cluster, "aio") == [b"kept", b"new"]


# Failover


def coordinator_of(cluster: BlockingCluster, transactional_id: str) -> int:
    """The broker that coordinates an id."""
    topic = "__transaction_state"
    count = len(cluster.hosts[1].node.metadata.topics[topic].partitions)
    leader = cluster.leader(topic, partition_for(transactional_id, count))
    assert leader is not None
    return leader


@pytest.mark.parametrize("api", ["AddPartitionsToTxn", "EndTxn"])
def test_a_transaction_outlives_the_coordinator(api: str) -> None:
    """It ends as soon as a request has come; the client asks the next one again."""
    with BlockingCluster(brokers=3, seed=2) as cluster:

        def kill(event: Any) -> None:
            cluster.kill(event.broker, expire=True)

        cluster.create_topic("t", replicas=3)
        producer = librdkafka(cluster, "id")
        for value, ends in ((b"before", "commit"), (b"aborted", "abort"), (b"during", "commit")):
            if value == b"during":
                cluster.when("requested", api=api, do=kill)
            producer.begin_transaction()
            producer.produce("t", value, partition=0)
            getattr(producer, f"{ends}_transaction")(PATIENCE_S)
        assert len([one for one in cluster.hosts.values() if one.up]) == 2
        producer.begin_transaction()
        producer.produce("t", b"after", partition=0)
        producer.commit_transaction(PATIENCE_S)
        assert read(cluster, "t") == [b"before", b"during", b"after"]


def test_a_lost_answer_to_a_commit_is_told_again(cluster: BlockingCluster) -> None:
    producer = librdkafka(cluster, "lost")
    producer.begin_transaction()
    producer.produce("lost", b"once", partition=0)
    lost = cluster.disconnect("EndTxn", count=1)
    producer.commit_transaction(PATIENCE_S)
    cluster.met(lost)
    assert read(cluster, "lost", "read_uncommitted") == read(cluster, "lost") == [b"once"]


def test_the_markers_of_a_restarted_partition_come_when_it_leads_again() -> None:
    """Kafka 4.3 drops a marker whose partition has no leader (KAFKA-20734)."""
    with BlockingCluster(brokers=3, seed=3) as cluster:
        producer = librdkafka(cluster, "id")
        here = coordinator_of(cluster, "id")
        elsewhere = next(one for one in (1, 2, 3) if one != here)
        cluster.create_topic("t", assignments={0: [elsewhere]})
        producer.begin_transaction()
        producer.produce("t", b"kept", partition=0)
        assert producer.flush(PATIENCE_S) == 0
        cluster.stop(elsewhere)
        cluster.until(lambda: cluster.leader("t", 0) is None)
        producer.commit_transaction(PATIENCE_S)
        cluster.restart(elsewhere)
        assert read(cluster, "t") == [b"kept"]
