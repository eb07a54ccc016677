"""A scenario on three real brokers: records that are written and acknowledged, faults, a reader.

The client that writes is recorded in trace format v1, for `highwater check`.
"""

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NoReturn

import click
import orjson
from attrs import define, field
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from examples.brokers import Node, playing, until
from examples.kafka_jars import class_path, classes_option, jars_option
from highwater import recorded


@define
class Scenario:
    """What happens, step by step; each step waits until the one before has taken effect.

    `assignment` is the one partition's, the preferred leader first.
    """

    brokers: Mapping[int, Node]
    run: Path
    topic: str
    assignment: list[int]
    settings: Mapping[str, Any] = field(factory=dict[str, Any])
    """More settings of the producer."""
    min_isr: int = 2
    """min.insync.replicas of the topic."""
    may_be_unreadable: bool = field(default=False, init=False)
    """A log may have offsets that no consumer gets past."""
    admin: Any = field(init=False)
    producer: Any = field(init=False)
    started: float = field(factory=time.monotonic)
    faults: list[dict[str, object]] = field(factory=list[dict[str, object]])

    def __attrs_post_init__(self) -> None:
        where: dict[str, Any] = {"bootstrap.servers": self.bootstrap, "log_level": 0}
        self.admin = AdminClient(where)
        settings = {**where, "acks": "all", "linger.ms": 0, **self.settings}
        self.producer = recorded(Producer, self.run, settings)

    @property
    def bootstrap(self) -> str:
        return ",".join(node.address for node in self.brokers.values())

    def play(self) -> list[bytes]:
        """The values that a consumer reads at the end."""
        raise NotImplementedError

    def loss(self, values: list[bytes]) -> str | None:
        """The acknowledged records that a consumer does not read, in a sentence."""
        if b"B" in values:
            return None
        return "B was acknowledged with acks=all and min.insync.replicas=2, and is lost."

    def kept(self) -> str:
        """The same where all are read."""
        return "B survives: this Kafka keeps what it has acknowledged."

    def create_topic(self) -> None:
        """All three are in sync, and the preferred leader leads."""
        until("three brokers", 60, lambda: len(self.admin.list_topics(timeout=5).brokers) == 3)
        config = {"min.insync.replicas": str(self.min_isr)}
        topic = NewTopic(self.topic, 1, replica_assignment=[self.assignment], config=config)
        self.admin.create_topics([topic])[self.topic].result(60)
        until("all in sync", 60, lambda: self.state() == (self.assignment[0], {1, 2, 3}))

    def restart(self, broker: int) -> None:
        """In good order; whoever comes next in the assignment leads then."""
        self.brokers[broker].signal(signal.SIGTERM)
        self.brokers[broker].wait()
        self.brokers[broker].start()
        self.in_sync({1, 2, 3}, 120)

    def in_sync(self, isr: set[int], seconds: float) -> None:
        until(f"ISR {isr}", seconds, lambda: self.state()[1] == isr)

    def write(self, value: str, seconds: float) -> None:
        sent = Sent(self.producer, self.topic, value)
        sent.wait(seconds)
        self.say(f"{value} acknowledged at offset {sent.offset}")

    def write_c_and_read(self) -> list[bytes]:
        """The last record, and everything that is there then."""
        self.write("C", 60)
        self.producer.close()
        return self.read()

    def read(self) -> list[bytes]:
        """Everything in the partition, by a consumer of its own."""
        consumer: Any = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "reader", "enable.auto.commit": False}
        )
        where = TopicPartition(self.topic, 0)
        start, end = consumer.get_watermark_offsets(where, 30)
        consumer.assign([TopicPartition(self.topic, 0, start)])
        values: list[bytes] = []
        while len(values) < end - start and (message := consumer.poll(30)) is not None:
            values.append(message.value())
        consumer.close()
        self.say(f"a consumer reads {b', '.join(values).decode()}")
        return values

    def state(self) -> tuple[int, set[int]]:
        """Leader and ISR."""
        try:
            partition = self.admin.list_topics(self.topic, timeout=5).topics[self.topic].partitions
            return partition[0].leader, set(partition[0].isrs)
        except (KafkaException, KeyError):
            return -1, set()

    def alive(self) -> set[int]:
        """The brokers that are not fenced."""
        try:
            return set(self.admin.list_topics(timeout=5).brokers)
        except KafkaException:
            return set()

    def sizes(self) -> list[int]:
        return [node.log_size(self.topic) for node in self.brokers.values()]

    def signal(self, broker: int, number: signal.Signals) -> None:
        self.fault(f"{number.name} broker {broker}")
        self.brokers[broker].signal(number)

    def fault(self, what: str) -> None:
        """Write into the recording what is about to be done to the brokers."""
        self.faults.append({"at_ns": time.monotonic_ns(), "what": what})
        self.say(what)

    def say(self, what: str) -> None:
        click.echo(f"{time.monotonic() - self.started:7.3f} s  {what}")


@define
class Sent:
    """A record under way, and the offset at which it was acknowledged."""

    producer: Any
    topic: str
    value: str
    partition: int = 0
    age_ms: int = 0
    """Its age by its timestamp."""
    offset: int | None = field(default=None, init=False)
    error: object = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        where = {"partition": self.partition, "on_delivery": self._delivered}
        if self.age_ms:
            where["timestamp"] = int(time.time() * 1000) - self.age_ms
        self.producer.produce(self.topic, self.value, **where)
        self.producer.poll(0)

    def poll(self) -> bool:
        self.producer.poll(0.001)
        if self.error is not None:
            raise RuntimeError(f"{self.value[:20]} was not acknowledged: {self.error}")
        return self.offset is not None

    def wait(self, seconds: float) -> None:
        until(f"{self.value[:20]} acknowledged", seconds, self.poll)

    def _delivered(self, error: object, message: Any) -> None:
        self.error, self.offset = error, None if error else message.offset()


def set_min_isr(admin: Any, topic: str, value: int) -> None:
    """Change min.insync.replicas of a topic; the controller has confirmed it."""
    how = AlterConfigOpType.SET
    entry = ConfigEntry("min.insync.replicas", str(value), incremental_operation=how)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(60)


def flags_of(texts: Mapping[str, str]) -> list[click.Option]:
    """Flags for `program`, each with its help."""
    return [click.Option([name], is_flag=True, help=text) for name, text in texts.items()]


def program(summary: str, start: Callable[..., Scenario], *flags: click.Option) -> click.Command:
    """The command line of a scenario that loses records.

    `start(folder, classpath, run, stack)` lays the brokers out in a folder, with this class path,
    and starts them for as long as the stack lasts. It is called with the flags, too.
    """

    folder = click.Path(path_type=Path, file_okay=False)
    kept = "Keep settings, logs and output of the brokers in this new folder."

    @click.command(help=summary)
    @click.argument("run", type=folder)
    @jars_option
    @classes_option
    @click.option("--brokers", type=folder, help=kept)
    def main(
        run: Path, jars: Path | None, classes: Path | None, brokers: Path | None, **more: Any
    ) -> None:
        if brokers is not None and brokers.exists():
            refuse(f"{brokers} exists: name a new folder for the brokers")
        with recording(run) as (folder, stack):
            home = (brokers or folder).resolve()
            scenario = start(home, class_path(jars, classes), run, stack, **more)
            values = scenario.play()
            (run / "meta.json").write_bytes(orjson.dumps({"faults": scenario.faults}))
            scan(run, scenario.bootstrap, may_end_early=scenario.may_be_unreadable)
        click.echo(f"recorded in {run}; judge it: highwater check {run}")
        if lost := scenario.loss(values):
            click.echo(lost)
            sys.exit(1)
        click.echo(scenario.kept())

    main.params.extend(flags)
    return main


@contextmanager
def recording(run: Path) -> Generator[tuple[Path, ExitStack]]:
    """A new folder for the recording; what is yielded is a temporary one for the brokers, and a
    stack for what has to end before it goes."""
    if run.exists() and any(run.iterdir()):
        refuse(f"{run} is not empty: name a new folder for the recording")
    run.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        with playing():
            yield folder, stack


def scan(run: Path, bootstrap: str, *, may_end_early: bool = False) -> None:
    """The end of a recording: what all partitions hold (`highwater record-scan`)."""
    command = [sys.executable, "-m", "refimpl", "record-scan", str(run), "--bootstrap", bootstrap]
    subprocess.run(command, check=not may_end_early)


def refuse(why: str) -> NoReturn:
    """Bad input, or a scenario that could not be played."""
    click.echo(why, err=True)
    sys.exit(2)
