"""Brokers that are processes of their own, in a cluster whose metadata are in real ZooKeeper."""

import json
import signal
import subprocess
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kazoo.client import KazooClient  # pyright: ignore[reportMissingTypeStubs]

from chaos.real.kafka.judge import LEAN, free_port, jars
from chaos.real.stored.brokers import ROOT, SECONDS, SESSION_MS, BrokerProcess, Stored, until
from chaos.real.stored.zookeeper import Server, zookeeper


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    folder = tmp_path_factory.mktemp("stored")
    with zookeeper(folder) as [server]:
        client: Any = KazooClient(server.address)
        client.start()
        stored = Stored({id: BrokerProcess(id, server, folder) for id in (1, 2, 3)}, client)
        try:
            for one in stored.brokers.values():
                one.start()
            for one in stored.brokers.values():
                one.wait_until_ready()
            yield stored
        finally:
            for one in stored.brokers.values():
                one.kill()
            client.stop()
            client.close()


def test_the_znodes_are_those_of_kafka(cluster: Stored) -> None:
    cluster.create("layout")
    zk = cluster.zk
    assert sorted(zk.get_children(f"{ROOT}/brokers/ids")) == ["1", "2", "3"]
    one, stat = zk.get(f"{ROOT}/brokers/ids/1")
    registered = json.loads(one)
    assert registered["endpoints"][0] == f"PLAINTEXT://127.0.0.1:{cluster.brokers[1].port}"
    assert (registered["host"], registered["version"]) == ("127.0.0.1", 5)
    assert stat.ephemeralOwner
    assert stat.version == 1
    topic = cluster.read("/brokers/topics/layout")
    assert topic["version"] == 3
    assert sorted(topic["partitions"]["0"]) == [1, 2, 3]
    state = cluster.state("layout")
    assert state["controller_epoch"] == int(zk.get(f"{ROOT}/controller_epoch")[0])
    assert sorted(state["isr"]) == [1, 2, 3]
    assert set(cluster.read("/cluster/id")) == {"version", "id"}


def test_records_are_replicated_between_processes(cluster: Stored) -> None:
    cluster.create("replicated")
    values = [str(number) for number in range(500)]
    cluster.produce("replicated", values)
    assert cluster.consume("replicated", 500) == values
    logs = [
        (one.folder / f"broker-{one.id}" / "replicated-0" / "00000000000000000000.log")
        for one in cluster.brokers.values()
    ]
    until(lambda: len({path.read_bytes() for path in logs}) == 1)
    assert logs[0].stat().st_size > 0


def test_whoever_is_controller_may_be_killed(cluster: Stored) -> None:
    """Another one takes over, with the next epoch; what was acknowledged is there."""
    cluster.create("survives")
    cluster.produce("survives", [f"before {number}" for number in range(100)])
    old, epoch = cluster.controller(), int(cluster.zk.get(f"{ROOT}/controller_epoch")[0])
    cluster.brokers[old].kill()
    until(lambda: cluster.controller() != old)
    until(lambda: cluster.state("survives")["leader"] not in (old, -1))
    assert int(cluster.zk.get(f"{ROOT}/controller_epoch")[0]) == epoch + 1
    cluster.produce("survives", [f"after {number}" for number in range(100)])
    found = cluster.consume("survives", 200)
    assert found[:100] == [f"before {number}" for number in range(100)]
    assert found[100:] == [f"after {number}" for number in range(100)]
    cluster.brokers[old].start()
    cluster.brokers[old].wait_until_ready()
    until(lambda: sorted(cluster.state("survives")["isr"]) == [1, 2, 3])


def test_a_leader_that_slept_leads_no_more(cluster: Stored) -> None:
    """Its session ends while it is stopped; it comes back as another incarnation."""
    cluster.create("sleepy")
    cluster.produce("sleepy", ["before"])
    leader = cluster.state("sleepy")["leader"]
    before = cluster.zk.exists(f"{ROOT}/brokers/ids/{leader}").czxid
    cluster.brokers[leader].signal(signal.SIGSTOP)
    try:
        until(lambda: cluster.state("sleepy")["leader"] not in (leader, -1))
        cluster.produce("sleepy", ["while it slept"])
    finally:
        cluster.brokers[leader].signal(signal.SIGCONT)
    until(lambda: cluster.zk.exists(f"{ROOT}/brokers/ids/{leader}").czxid > before)
    until(lambda: sorted(cluster.state("sleepy")["isr"]) == [1, 2, 3])
    cluster.produce("sleepy", ["after"])
    assert cluster.consume("sleepy", 3) == ["before", "while it slept", "after"]


def test_a_broker_that_is_asked_to_stop_hands_over_first(cluster: Stored) -> None:
    cluster.create("handed")
    leader = cluster.state("handed")["leader"]
    stopping = cluster.brokers[leader]
    stopping.signal(signal.SIGTERM)
    assert stopping.process.wait(SECONDS) == 0
    assert cluster.zk.exists(f"{ROOT}/brokers/ids/{leader}") is None
    assert cluster.state("handed")["leader"] not in (leader, -1)
    stopping.kill()
    stopping.start()
    stopping.wait_until_ready()
    until(lambda: sorted(cluster.state("handed")["isr"]) == [1, 2, 3])


def lives(cluster: Stored) -> tuple[Any, ...]:
    """The controller epoch, and each broker's epoch."""
    zk = cluster.zk
    epochs = [zk.exists(f"{ROOT}/brokers/ids/{id}").czxid for id in cluster.brokers]
    return int(zk.get(f"{ROOT}/controller_epoch")[0]), *epochs


def test_zookeeper_may_be_down_for_longer_than_sessions_last(cluster: Stored) -> None:
    """Leaders need it for changes alone; sessions survive, so nobody is elected because of it."""
    cluster.create("without")
    before, server = lives(cluster), cluster.brokers[1].server
    assert isinstance(server, Server)
    server.kill()
    values = [str(number) for number in range(50)]
    cluster.produce("without", values)
    time.sleep(2 * SESSION_MS / 1000)
    server.start()
    server.wait_until_up()
    until(lambda: bool(cluster.zk.connected))
    cluster.create("afterwards")
    assert cluster.consume("without", 50) == values
    assert lives(cluster) == before


def test_a_frozen_controller_writes_nothing_when_it_wakes(cluster: Stored) -> None:
    """SIGSTOP beyond its session: another one is elected, and the old one hears that it is not."""
    cluster.create("awake")
    old, epoch = cluster.controller(), lives(cluster)[0]
    cluster.brokers[old].signal(signal.SIGSTOP)
    try:
        until(lambda: cluster.controller() != old)
        until(lambda: old not in cluster.state("awake")["isr"])
        decided = cluster.state("awake")
        assert decided["leader"] not in (old, -1)
    finally:
        cluster.brokers[old].signal(signal.SIGCONT)
    until(lambda: sorted(cluster.state("awake")["isr"]) == [1, 2, 3])
    assert lives(cluster)[0] == epoch + 1 == cluster.state("awake")["controller_epoch"]
    assert cluster.controller() != old
    assert cluster.state("awake")["leader_epoch"] >= decided["leader_epoch"]
    cluster.produce("awake", ["after"])


KAFKA = """\
broker.id=4
listeners=PLAINTEXT://127.0.0.1:{port}
zookeeper.connect={zookeeper}
zookeeper.session.timeout.ms=4000
log.dirs={folder}/kafka-4
offsets.topic.replication.factor=1
auto.create.topics.enable=false
auto.leader.rebalance.enable=false
"""
LOG4J = """\
log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%p %c{1} %m%n
"""


@contextmanager
def real_kafka(folder: Path, connect: str) -> Generator[str]:
    """A broker of Kafka 3.9 on the same ZooKeeper; its address."""
    port = free_port()
    properties, log4j = folder / "kafka-4.properties", folder / "log4j.properties"
    properties.write_text(KAFKA.format(port=port, zookeeper=connect, folder=folder))
    log4j.write_text(LOG4J)
    pom = Path(__file__).parent / "zookeeper" / "kafka" / "pom.xml"
    classpath = f"{jars(pom, 'kafka-on-zookeeper')}/*"
    logging = f"-Dlog4j.configuration=file:{log4j}"
    command = ["java", *LEAN, logging, "-cp", classpath, "kafka.Kafka", str(properties)]
    with (folder / "kafka-4.out").open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        yield f"127.0.0.1:{port}"
        process.terminate()
        process.wait(SECONDS)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def described(bootstrap: str, topic: str) -> dict[int, tuple[list[int], list[int]]]:
    """Replicas and ISR of each partition, as a broker of this address says it."""
    admin: Any = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    found = admin.list_topics(topic, timeout=5).topics[topic]
    assert found.error is None, found.error
    return {id: (sorted(one.replicas), sorted(one.isrs)) for id, one in found.partitions.items()}


def test_kafka_takes_over_what_we_wrote_and_we_what_it_wrote(cluster: Stored) -> None:
    """Our brokers end, and Kafka 3.9's controller reads their cluster; then they come back."""
    cluster.create("handed-on")
    values = [str(number) for number in range(50)]
    cluster.produce("handed-on", values)
    epoch = int(cluster.zk.get(f"{ROOT}/controller_epoch")[0])
    for one in cluster.brokers.values():
        one.signal(signal.SIGTERM)
    for one in cluster.brokers.values():
        assert one.process.wait(SECONDS) == 0
        one.kill()
    first = cluster.brokers[1]
    with real_kafka(first.folder, f"{first.server.address}{ROOT}") as kafka:
        until(lambda: cluster.controller() == 4)
        assert int(cluster.zk.get(f"{ROOT}/controller_epoch")[0]) > epoch
        until(lambda: described(kafka, "handed-on")[0][0] == [1, 2, 3])
        admin: Any = AdminClient({"bootstrap.servers": kafka, "log_level": 0})
        admin.create_topics([NewTopic("of-kafka", 1, 1)])["of-kafka"].result(30)
        until(lambda: cluster.state("of-kafka")["leader"] == 4)
    for one in cluster.brokers.values():
        one.start()
    for one in cluster.brokers.values():
        one.wait_until_ready()
    until(lambda: sorted(cluster.state("handed-on")["isr"]) == [1, 2, 3])
    assert cluster.consume("handed-on", 50) == values
    assert described(cluster.bootstrap, "of-kafka")[0][0] == [4]
    until(lambda: cluster.state("of-kafka").get("elr") == [4])  # KIP-966: it left the ISR last
