"""Three real brokers on the loopback address, to be frozen, killed and started again."""

import signal
import socket
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import define, field
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from chaos.real.kafka.judge import CLUSTER_ID, Judge, free_port, java
from chaos.real.kafka.process import ServerProcess

NODES = (1, 2, 3)
SECONDS_TO_START = 120

# One process is broker and controller at once: three JVMs instead of six. The quorum of
# controllers survives the loss of one, and that is all that the tests take away at a time.
SERVER = """\
process.roles=broker,controller
node.id={node}
controller.quorum.voters={voters}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
log.dirs={log_dir}
offsets.topic.num.partitions=3
offsets.topic.replication.factor=3
transaction.state.log.num.partitions=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
replica.lag.time.max.ms=8000
replica.fetch.wait.max.ms=100
controller.quorum.election.timeout.ms=1000
controller.quorum.fetch.timeout.ms=2000
controlled.shutdown.enable=false
auto.create.topics.enable=false
"""

ONLY_BROKER = """\
process.roles=broker
listeners=PLAINTEXT://127.0.0.1:{port}
"""


@define
class KafkaNode(ServerProcess):
    """One broker, which is a controller as well."""

    id: int
    folder: Path
    port: int = field(factory=free_port)
    controller: int = field(factory=free_port)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def properties(self) -> Path:
        return self.folder / "server.properties"

    def format(self, judge: Judge) -> None:
        """Lay out the log directories that are empty, as `kafka-storage.sh format` does."""
        tool = "kafka.tools.StorageTool"
        answer = judge.run(tool, "format", "-t", CLUSTER_ID, "-c", self.properties)
        assert answer.status == 0, answer

    def start(self) -> None:
        with (self.folder / "broker.out").open("ab") as output:
            command = java("kafka.Kafka", self.properties)
            self.process = subprocess.Popen(command, stdout=output, stderr=output)

    def stop(self) -> None:
        """As an operator does; with a controlled shutdown, where that is enabled."""
        self.signal(signal.SIGTERM)
        assert self.process is not None
        self.process.wait(SECONDS_TO_START)


@define
class KafkaCluster:
    """Three brokers; what they lead and who is in sync is asked of them, never assumed."""

    nodes: dict[int, KafkaNode]
    admin: AdminClient

    @property
    def bootstrap(self) -> str:
        return bootstrap(self.nodes)

    def create(self, topic: str, partitions: int, settings: dict[str, str]) -> None:
        new = NewTopic(topic, partitions, 3, config=settings)
        admin: Any = self.admin
        admin.create_topics([new])[topic].result(60)
        self.wait_until_healed(topic)

    def partitions(self, topic: str) -> dict[int, Any]:
        metadata: Any = self.admin.list_topics(topic, timeout=30)
        return metadata.topics[topic].partitions

    def wait_until_all_are_there(self) -> None:
        """Until every broker knows of every other; polled."""
        until = time.monotonic() + SECONDS_TO_START
        while time.monotonic() < until:
            try:
                if len(self.admin.list_topics(timeout=5).brokers) == len(self.nodes):
                    return
            except KafkaException:
                pass
            time.sleep(0.2)
        raise RuntimeError("the brokers did not find each other")

    def wait_until_healed(self, topic: str) -> None:
        """Until every partition has a leader and all its replicas in sync; polled."""
        until = time.monotonic() + SECONDS_TO_START
        while time.monotonic() < until:
            try:
                partitions = list(self.partitions(topic).values())
            except KafkaException:
                partitions = list[Any]()
            if partitions and all(
                p.leader > 0 and len(p.isrs) == len(p.replicas) for p in partitions
            ):
                return
            time.sleep(0.2)
        raise RuntimeError(f"{topic} is not whole again")

    def wait_for_another_leader(self, topic: str, gone: int) -> None:
        """Until no partition is led by the one that is gone; polled."""
        until = time.monotonic() + SECONDS_TO_START
        while time.monotonic() < until:
            leaders = {p.leader for p in self.partitions(topic).values()}
            if gone not in leaders and min(leaders) > 0:
                return
            time.sleep(0.1)
        raise RuntimeError(f"{topic} is still led by {gone}")


@contextmanager
def cluster(
    folder: Path,
    judge: Judge,
    more: Callable[[KafkaNode], str] = lambda node: "",
    only_brokers: tuple[int, ...] = (),
) -> Generator[KafkaCluster]:
    """A cluster on empty folders, up; at the end nothing of it runs any more.

    `more` are settings of a node besides; `only_brokers` are nodes that are no controllers.
    """
    nodes = {id: KafkaNode(id, folder / f"node-{id}") for id in (*NODES, *only_brokers)}
    voters = ",".join(f"{id}@127.0.0.1:{nodes[id].controller}" for id in NODES)
    for node in nodes.values():
        node.folder.mkdir()
        node.properties.write_text(
            SERVER.format(
                node=node.id,
                voters=voters,
                port=node.port,
                controller=node.controller,
                log_dir=node.folder / "data",
            )
            + (ONLY_BROKER.format(port=node.port) if node.id in only_brokers else "")
            + more(node)  # of two lines with one name the last counts
        )
        node.format(judge)
    try:
        for node in nodes.values():
            node.start()
        for node in nodes.values():
            _wait_for(node)
        # librdkafka tells the world of every broken connection; here they are broken on purpose.
        settings: dict[str, Any] = {"bootstrap.servers": bootstrap(nodes), "log_level": 0}
        running = KafkaCluster(nodes, AdminClient(settings))
        running.wait_until_all_are_there()
        yield running
    finally:
        for node in nodes.values():
            if node.process is not None and node.process.poll() is None:
                node.kill()


def bootstrap(nodes: dict[int, KafkaNode]) -> str:
    return ",".join(node.address for node in nodes.values())


def _wait_for(node: KafkaNode) -> None:
    """Until the port answers; polled, for the broker tells nobody that it is ready."""
    until = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < until and node.process is not None and node.process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", node.port), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    said = (node.folder / "broker.out").read_text()[-2000:]
    raise RuntimeError(f"broker {node.id} did not start: {said}")
