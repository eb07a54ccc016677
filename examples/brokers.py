"""One controller and three brokers of Apache Kafka on the loopback address."""

import re
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import click
from attrs import define, field
from confluent_kafka import KafkaException

from chaos.real.kafka.asking import ask

CONTROLLER = 100
BROKERS = (1, 2, 3)
CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"
SECONDS_TO_START = 120

# Nothing but addresses and folders: every other setting is Kafka's default.
SERVER = """\
node.id={node}
process.roles={role}
controller.quorum.voters={controller_id}@127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT
listeners={listener}://127.0.0.1:{port}
log.dirs={data}
"""
ADVERTISED = "advertised.listeners={listener}://127.0.0.1:{port}\n"

# Kafka 4 reads the first, Kafka 3 the second.
LOG4J2 = """\
rootLogger.level=INFO
rootLogger.appenderRef.out.ref=out
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d{HH:mm:ss.SSS} %p %c{1} %m%n
"""
LOG4J = """\
log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{HH:mm:ss,SSS} %p %c{1} %m%n
"""

ELECT_LEADERS, PREFERRED, UNCLEAN = 43, 0, 1


class NotInTimeError(RuntimeError):
    """The cluster did not do in time what the scenario waits for."""


@define
class Node:
    """One process: a broker, or the controller.

    `reached_at` is the port under which the others reach it, if that is not its own: a relay's.
    `settings` are more lines of its server.properties, `logging` of its log4j2.properties.
    """

    id: int
    folder: Path
    classpath: str
    port: int = field(factory=lambda: free_port())
    reached_at: int | None = None
    settings: str = ""
    logging: str = ""
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def output(self) -> Path:
        return self.folder / "output.log"

    def format(self, controller: "Node") -> None:
        """Write the settings and lay out the empty log directories."""
        self.folder.mkdir(parents=True)
        (self.folder / "log4j2.properties").write_text(LOG4J2 + self.logging)
        (self.folder / "log4j.properties").write_text(LOG4J)
        leads = self is controller
        settings = SERVER.format(
            node=self.id,
            role="controller" if leads else "broker",
            controller_id=controller.id,
            controller_port=controller.reached_at or controller.port,
            listener="CONTROLLER" if leads else "PLAINTEXT",
            port=self.port,
            data=self.folder / "data",
        )
        if leads and self.reached_at is not None:
            settings += ADVERTISED.format(listener="CONTROLLER", port=self.reached_at)
        settings += self.settings
        (self.folder / "server.properties").write_text(settings)
        self.format_directories()

    def format_directories(self) -> None:
        """Lay out those of its log directories that are empty, by the settings."""
        arguments = ("format", "-t", CLUSTER_ID, "-c", self.folder / "server.properties")
        arguments = (*arguments, "--ignore-formatted")
        done = subprocess.run(
            self._java("kafka.tools.StorageTool", *arguments), capture_output=True, text=True
        )
        if done.returncode != 0:
            said = [
                line for line in done.stderr.splitlines() if "rror: " in line or "xception" in line
            ]
            raise RuntimeError(f"cannot format the log directory: {' '.join(said[:1])}")

    def start(self) -> None:
        with self.output.open("ab") as output:
            command = self._java("kafka.Kafka", self.folder / "server.properties")
            self.process = subprocess.Popen(command, stdout=output, stderr=output)

    def signal(self, number: signal.Signals) -> None:
        """SIGSTOP pauses it, SIGCONT resumes, SIGTERM begins a controlled shutdown."""
        assert self.process is not None
        self.process.send_signal(number)

    def wait(self) -> None:
        assert self.process is not None
        self.process.wait(SECONDS_TO_START)

    def said(self, pattern: str) -> bool:
        """Whether its output has a line like this."""
        return re.search(pattern, self.output.read_text(errors="replace")) is not None

    def segment(self, topic: str, partition: int = 0) -> Path:
        """The first segment of a partition."""
        return self.folder / "data" / f"{topic}-{partition}" / f"{0:020}.log"

    def log_size(self, topic: str, partition: int = 0) -> int:
        """Bytes in the first segment of a partition, -1 if there is none."""
        segment = self.segment(topic, partition)
        return segment.stat().st_size if segment.exists() else -1

    def _java(self, main: str, *arguments: str | Path) -> list[str]:
        lean = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        logging = (
            f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}",
            f"-Dlog4j.configuration=file:{self.folder / 'log4j.properties'}",
        )
        return ["java", *lean, *logging, "-cp", self.classpath, main, *map(str, arguments)]


def laid_out(folder: Path, classpath: str, brokers: tuple[int, ...] = BROKERS) -> dict[int, Node]:
    """The controller and the brokers by number, not yet formatted."""
    ids = (CONTROLLER, *brokers)
    return {node: Node(node, folder / f"node-{node}", classpath) for node in ids}


@contextmanager
def cluster(folder: Path, classpath: str) -> Generator[Mapping[int, Node]]:
    """The brokers by number, up; at the end none of the processes runs any more."""
    with started(laid_out(folder, classpath)) as brokers:
        yield brokers


@contextmanager
def started(nodes: Mapping[int, Node]) -> Generator[Mapping[int, Node]]:
    """The same, of nodes that were laid out."""
    try:
        for node in nodes.values():
            node.format(nodes[CONTROLLER])
            node.start()
        for node in nodes.values():
            until(f"node {node.id} listens", SECONDS_TO_START, lambda node=node: listens(node))
        yield {id: node for id, node in nodes.items() if id != CONTROLLER}
    finally:
        for node in nodes.values():
            if node.process is not None and node.process.poll() is None:
                node.process.kill()
                node.process.wait()


def elect_preferred_leader(broker: Node, topic: str) -> None:
    """Ask for the preferred leader of partition 0, as kafka-leader-election does."""
    _elect(broker, topic, PREFERRED)


def elect_unclean_leader(broker: Node, topic: str) -> None:
    """Ask for any live replica of partition 0 to lead, as the same tool does."""
    _elect(broker, topic, UNCLEAN)


def _elect(broker: Node, topic: str, kind: int) -> None:
    """The request goes to the broker named here: a client of Kafka sends it to a broker of its own
    choice, which may be the paused one.
    """
    first = {"topic": topic, "partitions": [0]}
    asked = {"election_type": kind, "topic_partitions": [first], "timeout": 5000}
    answer = ask(broker.port, ELECT_LEADERS, 1, asked, patience_s=10)
    (of_topic,) = answer.replica_election_results
    error = of_topic.partition_result[0].error_code
    if error:
        named = {PREFERRED: "preferred", UNCLEAN: "unclean"}[kind]
        raise NotInTimeError(f"the {named} leader was not elected: error code {error}")


@contextmanager
def playing() -> Generator[None]:
    """Exit with 2 when a scenario cannot be played to its end: 1 is what Kafka did."""
    try:
        yield
    except Exception as unplayed:
        known = RuntimeError | KafkaException | subprocess.CalledProcessError | TimeoutError
        if not isinstance(unplayed, known):
            traceback.print_exc()
        click.echo(f"the scenario could not be played: {unplayed}", err=True)
        sys.exit(2)


def until(what: str, seconds: float, condition: Callable[[], bool]) -> None:
    """Wait for a condition; polled, for brokers tell nobody."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise NotInTimeError(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.005)


def listens(node: Node) -> bool:
    if node.process is not None and node.process.poll() is not None:
        said = node.output.read_text(errors="replace")[-2000:]
        raise RuntimeError(f"node {node.id} did not start: {said}")
    try:
        socket.create_connection(("127.0.0.1", node.port), 1).close()
    except OSError:
        return False
    return True


def free_port() -> int:
    """A port of the loopback address that nobody listens on just now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
