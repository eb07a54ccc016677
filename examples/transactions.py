"""Scenarios of transactions on real brokers: recorded producers, coordinators, and who reads."""

import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import click
import orjson
from attrs import define, field
from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewTopic

from chaos.real.kafka.asking import STATE, STATE_PARTITIONS, Replicas, partitions
from examples.brokers import BROKERS, CONTROLLER, Node, laid_out, listens, started, until
from examples.kafka_jars import class_path, classes_option, jars_option
from examples.relay import Relay, relay
from examples.scenario import Sent, recording, scan
from highwater import recorded

COMMITTED, ALL = "read_committed", "read_uncommitted"
ISOLATIONS = {COMMITTED: IsolationLevel.READ_COMMITTED, ALL: IsolationLevel.READ_UNCOMMITTED}
PATIENCE_S = 60
#: Longer than any scenario, so that no coordinator ends a transaction by itself.
TIMEOUT_MS = 300_000


@define
class Transactional:
    """The scenario, step by step; each step waits until the one before has taken effect."""

    nodes: Mapping[int, Node]
    run: Path
    admin: Any = field(init=False)
    began: float = field(factory=time.monotonic)
    faults: list[dict[str, object]] = field(factory=list[dict[str, object]])

    def __attrs_post_init__(self) -> None:
        self.admin = AdminClient(self.where)

    @property
    def brokers(self) -> dict[int, Node]:
        return {id: node for id, node in self.nodes.items() if id != CONTROLLER}

    @property
    def bootstrap(self) -> str:
        return ",".join(node.address for node in self.brokers.values())

    @property
    def where(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.bootstrap, "log_level": 0}

    def play(self) -> str:
        """The promise that was broken, in a sentence; "" if none was."""
        raise NotImplementedError

    def create(self, topic: str, assignment: list[list[int]], **config: str) -> None:
        """A topic with these replicas of each partition, once there are all brokers."""
        many = len(self.brokers)
        until(
            "all brokers",
            PATIENCE_S,
            lambda: len(self.admin.list_topics(timeout=5).brokers) == many,
        )
        new = NewTopic(topic, len(assignment), replica_assignment=assignment, config=config)
        self.admin.create_topics([new])[topic].result(PATIENCE_S)

    def create_state(self) -> dict[int, Replicas]:
        """The partitions of `__transaction_state`, once a first producer has had them made."""
        first: Any = Producer({**self.where, "transactional.id": "first"})
        first.init_transactions(PATIENCE_S)
        known: dict[int, Replicas] = {}

        def made() -> bool:
            known.update(self.partitions(STATE))
            full = all(one.leader >= 0 and len(one.isr) == 3 for one in known.values())
            return len(known) == STATE_PARTITIONS and full

        until("all partitions of the state topic in sync", PATIENCE_S, made)
        return known

    def partitions(self, topic: str, broker: int | None = None) -> dict[int, Replicas]:
        """As this broker knows them; else as the first that answers does."""
        asked = self.brokers.values() if broker is None else (self.brokers[broker],)
        for node in asked:
            with suppress(OSError):
                if known := partitions(node.port, topic):
                    return known
        return {}

    def producer(self, name: str, transactional_id: str, **settings: Any) -> Any:
        """A recorded producer, initialised."""
        conf = {**self.where, "linger.ms": 0, "transactional.id": transactional_id}
        conf |= {"transaction.timeout.ms": TIMEOUT_MS, **settings}
        producer: Any = recorded(Producer, self.run, conf, name=name)
        producer.init_transactions(PATIENCE_S)
        return producer

    def send(self, producer: Any, topic: str, value: str, partition: int) -> int:
        """The offset at which the record was acknowledged."""
        sent = Sent(producer, topic, value, partition)
        sent.wait(PATIENCE_S)
        assert sent.offset is not None
        return sent.offset

    def read(self, topic: str, partition: int, isolation: str) -> list[str]:
        """The values that a new consumer reads in a partition, up to its end."""
        reading = {"group.id": "reader", "enable.auto.commit": False, "isolation.level": isolation}
        consumer: Any = Consumer({**self.where, **reading, "enable.partition.eof": True})
        consumer.assign([TopicPartition(topic, partition, 0)])
        values: list[str] = []
        while True:
            message = consumer.poll(PATIENCE_S)
            if message is None or message.error() is not None:
                break
            values.append(message.value().decode())
        ended = message is not None and message.error().code() == KafkaError._PARTITION_EOF
        consumer.close()
        if not ended:
            raise RuntimeError(f"{topic}-{partition} was not read to its end")
        return values

    def ends(self, topic: str, number: int, isolation: str) -> list[int]:
        """Of each partition the last stable offset, or the high watermark."""
        asked = {TopicPartition(topic, one): OffsetSpec.latest() for one in range(number)}
        answers = self.admin.list_offsets(
            asked, isolation_level=ISOLATIONS[isolation], request_timeout=PATIENCE_S
        )
        return [answers[one].result(PATIENCE_S).offset for one in asked]

    def stable(self, topic: str, number: int) -> bool:
        """True if no transaction is open in any of these partitions, as far as readers know."""
        try:
            return self.ends(topic, number, COMMITTED) == self.ends(topic, number, ALL)
        except KafkaException:
            return False

    def sizes(self, partition: int) -> list[int]:
        """Bytes of each broker's log of a partition of the state topic."""
        return [node.log_size(STATE, partition) for node in self.brokers.values()]

    def signal(self, broker: int, number: signal.Signals) -> None:
        self.fault(f"{number.name} broker {broker}")
        self.brokers[broker].signal(number)

    def start(self, broker: int) -> None:
        """Start a broker again that has ended, until it listens."""
        node = self.brokers[broker]
        node.wait()
        node.start()
        until(f"broker {broker} listens", PATIENCE_S, lambda: listens(node))

    def fault(self, what: str) -> None:
        """Write into the recording what is about to be done to the brokers."""
        self.faults.append({"at_ns": time.monotonic_ns(), "what": what})
        self.say(what)

    def meta(self) -> dict[str, Any]:
        """The run's settings for meta.json."""
        return {"faults": self.faults}

    def say(self, what: str) -> None:
        click.echo(f"{time.monotonic() - self.began:7.3f} s  {what}")


def laid(
    scenario: type[Transactional], brokers: tuple[int, ...] = BROKERS
) -> Callable[..., Transactional]:
    """Starts a scenario on brokers with default settings."""

    def start(folder: Path, classpath: str, run: Path, stack: ExitStack) -> Transactional:
        nodes = laid_out(folder, classpath, brokers)
        stack.enter_context(started(nodes))
        return scenario(nodes, run)

    return start


def relayed(nodes: Mapping[int, Node], stack: ExitStack, *brokers: int) -> list[Relay]:
    """Lead whoever asks for these brokers through relays."""
    relays = [stack.enter_context(relay(nodes[broker].port)) for broker in brokers]
    for broker, hop in zip(brokers, relays, strict=True):
        nodes[broker].settings += f"advertised.listeners=PLAINTEXT://127.0.0.1:{hop.port}\n"
    return relays


def program(
    summary: str, start: Callable[..., Transactional], kept: str, *flags: click.Option
) -> click.Command:
    """The command line of a scenario. `kept` is what it says where no promise was broken.

    `start(folder, classpath, run, stack)` lays the brokers out in a folder, with this class path,
    and starts them for as long as the stack lasts. It is called with the flags, too.
    """

    folder = click.Path(path_type=Path, file_okay=False)

    @click.command(help=summary)
    @click.argument("run", type=folder)
    @jars_option
    @classes_option
    def main(run: Path, jars: Path | None, classes: Path | None, **more: bool) -> None:
        with recording(run) as (home, stack):
            scenario = start(home / "cluster", class_path(jars, classes), run, stack, **more)
            broken = scenario.play()
            (run / "meta.json").write_bytes(orjson.dumps(scenario.meta()))
            scan(run, scenario.bootstrap)
        click.echo(f"recorded in {run}; judge it: highwater check {run}")
        click.echo(broken or kept)
        sys.exit(1 if broken else 0)

    main.params.extend(flags)
    return main
