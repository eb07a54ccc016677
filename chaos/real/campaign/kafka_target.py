"""Apache Kafka as the target: three brokers and a controller, with the agent in each.

Replication and the controller's protocol pass proxies, so that rules reach them as well.
"""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from attrs import define, field

from chaos.real.agent.build import agent_jar
from chaos.real.campaign.disks import Disk
from chaos.real.campaign.kafka_jars import jars_of
from chaos.real.campaign.plan import BROKERS, CONTROLLER
from chaos.real.campaign.proxies import Proxies, before, own_port
from chaos.real.kafka.judge import CLUSTER_ID, LEAN, LOG4J, free_port
from chaos.real.kafka.process import ServerProcess

START_S = 120
STOP_S = 60

COMMON = """\
node.id={id}
controller.quorum.voters={controller}@127.0.0.1:{controller_proxy}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT
log.dirs={data}
"""
OF_CONTROLLER = """\
process.roles=controller
listeners=CONTROLLER://127.0.0.1:{port}
advertised.listeners=CONTROLLER://127.0.0.1:{proxy}
"""
OF_BROKER = """\
process.roles=broker
listeners=PLAINTEXT://127.0.0.1:{port},INTERNAL://127.0.0.1:{internal}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},INTERNAL://127.0.0.1:{proxy}
inter.broker.listener.name=INTERNAL
"""
#: For both; three copies of everything that the promises rest on.
REPLICATED = """\
auto.create.topics.enable=false
offsets.topic.replication.factor=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
share.coordinator.state.topic.replication.factor=3
min.insync.replicas=2
"""


@define
class KafkaNode(ServerProcess):
    """One process: a broker, or the controller."""

    id: int
    folder: Path
    classpath: str
    agent: str
    port: int = field(factory=free_port)
    internal: int = field(factory=free_port)

    @property
    def data(self) -> Path:
        """The one log directory."""
        return self.folder / "data"

    @property
    def disk(self) -> Disk:
        """That directory, and where copies of it are."""
        return Disk(self.data, self.folder / "copies")

    @property
    def properties(self) -> Path:
        """The settings."""
        return self.folder / "server.properties"

    def java(self, *arguments: str | Path, watched: bool = False) -> list[str]:
        """The command line of a JVM with Kafka's jars."""
        logging = self.folder / "log4j2.properties"
        logging.write_text(LOG4J.replace("level=WARN", "level=INFO").replace("%p", "%d %p"))
        agent = (f"-javaagent:{self.agent}",) if watched else ()
        more = *LEAN, *agent, f"-Dlog4j2.configurationFile={logging}"
        return ["java", *more, "-cp", self.classpath, *map(str, arguments)]

    def format(self) -> None:
        """Lay out the empty log directory, as `kafka-storage.sh format` does."""
        told = ("format", "-t", CLUSTER_ID, "-c", self.properties)
        command = self.java("kafka.tools.StorageTool", *told)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            said = f"{done.stdout} {done.stderr}".strip()[-500:]
            raise RuntimeError(f"cannot format {self.data}: {said}")

    def start(self) -> None:
        """Start it; it listens later."""
        with (self.folder / "output.log").open("ab") as output:
            command = self.java("kafka.Kafka", self.properties, watched=True)
            # Ctrl-C is for the campaign, which ends its processes itself.
            self.process = subprocess.Popen(
                command, stdout=output, stderr=output, start_new_session=True
            )

    def wait_until_it_listens(self) -> None:
        """Polled, for a broker announces nothing."""
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            if not self.running:
                break
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        said = (self.folder / "output.log").read_text(errors="replace")[-1000:]
        raise RuntimeError(f"node {self.id} does not listen after {START_S} s: {said}")


@define(eq=False)
class KafkaTarget:
    """The nodes by number."""

    nodes: dict[int, KafkaNode]
    proxies: Proxies

    @property
    def ports(self) -> Mapping[int, int]:
        """The brokers' own."""
        return {id: self.nodes[id].port for id in BROKERS}

    def running(self, node: int) -> bool:
        """True between a start and an end."""
        return self.nodes[node].running

    def signal(self, node: int, number: int) -> None:
        """To the JVM."""
        self.nodes[node].signal(number)

    def end(self, node: int, number: int) -> None:
        """Wait for the JVM; a controlled shutdown that takes too long is cut short."""
        process = self.nodes[node].process
        assert process is not None
        process.send_signal(number)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def start(self, node: int) -> None:
        """Start it, and wait until it listens."""
        self.nodes[node].start()
        self.nodes[node].wait_until_it_listens()

    def empty(self, node: int) -> int:
        """A new disk, formatted as the first was."""
        lost = self.nodes[node].disk.empty()
        self.nodes[node].format()
        return lost

    def copy(self, node: int) -> Path:
        """With the metadata log, and the file of the clean shutdown."""
        return self.nodes[node].disk.copy()

    def put_back(self, node: int, copy: Path) -> int:
        """All of it."""
        return self.nodes[node].disk.put_back(copy)


@contextmanager
def kafka(
    folder: Path, version: str, settings: Mapping[str, str], steps: Path
) -> Generator[KafkaTarget]:
    """A cluster on empty folders, up; at the end none of its processes runs any more."""
    libraries = os.pathsep.join([f"{jars_of(version).resolve()}/*"])
    agent = f"{agent_jar().resolve()}={steps.resolve()}"
    steps.mkdir(parents=True)
    nodes = {id: KafkaNode(id, folder / f"node-{id}", libraries, agent) for id in _ALL}
    proxies = Proxies(
        before(nodes[id].port for id in BROKERS),
        {id: before([_reached(nodes[id])]) for id in _ALL},
    )
    with proxies.running():
        try:
            for node in nodes.values():
                node.folder.mkdir(parents=True)
                node.properties.write_text(_settings(node, proxies, settings))
                node.format()
                node.start()
            for node in nodes.values():
                node.wait_until_it_listens()
            yield KafkaTarget(nodes, proxies)
        finally:
            for node in nodes.values():
                if node.running:
                    node.signal(signal.SIGCONT)
                    node.kill()


_ALL = (CONTROLLER, *BROKERS)


def _reached(node: KafkaNode) -> int:
    return node.port if node.id == CONTROLLER else node.internal


def _settings(node: KafkaNode, proxies: Proxies, settings: Mapping[str, str]) -> str:
    role = OF_CONTROLLER if node.id == CONTROLLER else OF_BROKER
    values = {
        "id": node.id,
        "controller": CONTROLLER,
        "controller_proxy": own_port(proxies.between[CONTROLLER]),
        "data": node.data,
        "port": node.port,
        "internal": node.internal,
        "proxy": own_port(proxies.between[node.id]),
    }
    lines = "".join(f"{name}={value}\n" for name, value in settings.items())
    return (COMMON + role).format(**values) + REPLICATED + lines
