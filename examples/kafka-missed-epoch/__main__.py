"""Lose a record that real Kafka has acknowledged with acks=all and min.insync.replicas=2.

Starts a controller and three brokers with default settings, lets a leader miss one leader epoch,
and records its client in RUN (trace format v1). Exit code 1: the acknowledged record is lost; 0: it
survives; 2: the scenario could not be played.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn

import click
import orjson
from attrs import define, field
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from examples.brokers import (
    Node,
    NotInTimeError,
    cluster,
    elect_preferred_leader,
    until,
)
from tests.kafka.judge import NoMavenError
from tests.kafka.judge import jars as maven_jars
from traces.record import recorded

TOPIC = "missed-epoch"
#: The preferred leader comes first; after its shutdown the next in this order leads.
ASSIGNMENT = [3, 1, 2]
#: Longer than replica.fetch.wait.max.ms and metadata.max.idle.interval.ms (both 0.5 s), so that
#: what a paused broker had asked for has been answered.
ANSWERED_S = 1.0


@define
class Scenario:
    """What happens, step by step; each step waits until the one before has taken effect."""

    brokers: Mapping[int, Node]
    run: Path
    admin: Any = field(init=False)
    producer: Any = field(init=False)
    started: float = field(factory=time.monotonic)
    faults: list[dict[str, object]] = field(factory=list[dict[str, object]])

    def __attrs_post_init__(self) -> None:
        where: dict[str, Any] = {"bootstrap.servers": self.bootstrap, "log_level": 0}
        self.admin = AdminClient(where)
        self.producer = recorded(Producer, self.run, {**where, "acks": "all", "linger.ms": 0})

    @property
    def bootstrap(self) -> str:
        return ",".join(node.address for node in self.brokers.values())

    def play(self) -> list[bytes]:
        """The values that a consumer reads at the end."""
        self.create_topic()
        size = self.write_a_everywhere()
        b = self.write_b_without_broker_3(size)
        self.lead_without_b(size)
        self.lead_again(b)
        self.lose_the_leader()
        self.write("C", 60)
        self.producer.close()
        return self.read()

    def create_topic(self) -> None:
        """Broker 3 is the preferred leader; a restart has moved the leadership to broker 1."""
        until("three brokers", 60, lambda: len(self.admin.list_topics(timeout=5).brokers) == 3)
        topic = NewTopic(
            TOPIC, 1, replica_assignment=[ASSIGNMENT], config={"min.insync.replicas": "2"}
        )
        self.admin.create_topics([topic])[TOPIC].result(60)
        until("all in sync", 60, lambda: self.state() == (3, {1, 2, 3}))
        self.brokers[3].signal(signal.SIGTERM)
        self.brokers[3].wait()
        self.brokers[3].start()
        until("broker 3 is back", 120, lambda: self.state() == (1, {1, 2, 3}))
        self.say("broker 1 leads in epoch 1, ISR {1, 2, 3}, broker 3 is preferred")

    def write_a_everywhere(self) -> int:
        self.write("A", 60)
        size = self.brokers[1].log_size(TOPIC)
        until("A on all brokers", 30, lambda: set(self.sizes()) == {size})
        return size

    def write_b_without_broker_3(self, size: int) -> "Sent":
        """Broker 2 has B and has told the leader so; broker 3 lags, for less than any time-out."""
        self.signal(3, signal.SIGSTOP)
        time.sleep(ANSWERED_S)
        b = Sent(self.producer, "B")
        until("B on broker 2", 10, lambda: self.brokers[2].log_size(TOPIC) > size)
        time.sleep(0.3)  # until broker 2 has fetched from behind B
        b.poll()
        self.say(f"B acknowledged: {b.offset is not None}; log sizes {self.sizes()}")
        return b

    def lead_without_b(self, size: int) -> None:
        """Broker 1 is paused and misses two decisions: epoch 2, led by 3, and epoch 3, its own."""
        self.signal(1, signal.SIGSTOP)
        self.signal(3, signal.SIGCONT)
        time.sleep(ANSWERED_S)
        elect_preferred_leader(self.brokers[2], TOPIC)
        self.say("preferred leader elected")
        until("B truncated", 6, lambda: self.brokers[2].log_size(TOPIC) == size)
        self.say(f"broker 2 has truncated B in epoch 2; log sizes {self.sizes()}")
        self.signal(3, signal.SIGTERM)
        follows = rf"Follower {TOPIC}-0 .*starts at leader epoch 3 "
        until("broker 2 in epoch 3", 6, lambda: self.brokers[2].said(follows))
        self.say("broker 2 follows broker 1 in epoch 3")

    def lead_again(self, b: "Sent") -> None:
        """Broker 1 resumes, and learns of both epochs at once."""
        self.signal(1, signal.SIGCONT)
        b.wait(60)
        self.say(f"B acknowledged at offset {b.offset}; log sizes {self.sizes()}")

    def lose_the_leader(self) -> None:
        """Broker 2, of the ISR, is elected; then all come back."""
        self.signal(1, signal.SIGKILL)
        self.brokers[1].wait()
        until("broker 2 leads", 60, lambda: self.state()[0] == 2)
        self.say("broker 2 leads")
        self.brokers[3].wait()
        self.brokers[1].start()
        self.brokers[3].start()
        until("all in sync", 120, lambda: self.state()[1] == {1, 2, 3})

    def write(self, value: str, seconds: float) -> None:
        sent = Sent(self.producer, value)
        sent.wait(seconds)
        self.say(f"{value} acknowledged at offset {sent.offset}")

    def read(self) -> list[bytes]:
        """Everything in the partition, by a consumer of its own."""
        consumer: Any = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "reader", "enable.auto.commit": False}
        )
        where = TopicPartition(TOPIC, 0, 0)
        consumer.assign([where])
        end = consumer.get_watermark_offsets(where, 30)[1]
        values: list[bytes] = []
        while len(values) < end and (message := consumer.poll(30)) is not None:
            values.append(message.value())
        consumer.close()
        self.say(f"a consumer reads {b', '.join(values).decode()}")
        return values

    def state(self) -> tuple[int, set[int]]:
        """Leader and ISR."""
        try:
            partition = self.admin.list_topics(TOPIC, timeout=5).topics[TOPIC].partitions[0]
        except (KafkaException, KeyError):
            return -1, set()
        return partition.leader, set(partition.isrs)

    def sizes(self) -> list[int]:
        return [node.log_size(TOPIC) for node in self.brokers.values()]

    def signal(self, broker: int, number: signal.Signals) -> None:
        self.faults.append({"at_ns": time.monotonic_ns(), "what": f"{number.name} broker {broker}"})
        self.brokers[broker].signal(number)
        self.say(f"{number.name} broker {broker}")

    def say(self, what: str) -> None:
        click.echo(f"{time.monotonic() - self.started:7.3f} s  {what}")


@define
class Sent:
    """A record under way, and the offset at which it was acknowledged."""

    producer: Any
    value: str
    offset: int | None = None
    error: object = None

    def __attrs_post_init__(self) -> None:
        self.producer.produce(TOPIC, self.value, partition=0, on_delivery=self._delivered)
        self.producer.poll(0)

    def poll(self) -> bool:
        self.producer.poll(0.001)
        if self.error is not None:
            raise RuntimeError(f"{self.value} was not acknowledged: {self.error}")
        return self.offset is not None

    def wait(self, seconds: float) -> None:
        until(f"{self.value} acknowledged", seconds, self.poll)

    def _delivered(self, error: object, message: Any) -> None:
        self.error, self.offset = error, None if error else message.offset()


@click.command(help=__doc__)
@click.argument("run", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--jars",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A folder of Kafka's jars, such as libs/ of a download.  [default: 4.3.1, by Maven]",
)
@click.option(
    "--classes",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A folder of classes to put before the jars: a Kafka with a patch.",
)
@click.option(
    "--brokers",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep settings, logs and output of the brokers in this new folder.",
)
def main(run: Path, jars: Path | None, classes: Path | None, brokers: Path | None) -> None:
    with ExitStack() as stack:
        if run.exists() and any(run.iterdir()):
            refuse(f"{run} is not empty: name a new folder for the recording")
        if brokers is not None and brokers.exists():
            refuse(f"{brokers} exists: name a new folder for the brokers")
        folder = brokers or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        run.mkdir(parents=True, exist_ok=True)
        try:
            patched = [str(classes.resolve())] if classes else []
            classpath = os.pathsep.join([*patched, f"{(jars or maven_jars()).resolve()}/*"])
            nodes = stack.enter_context(cluster(folder.resolve(), classpath))
            scenario = Scenario(nodes, run)
            values = scenario.play()
            (run / "meta.json").write_bytes(orjson.dumps({"faults": scenario.faults}))
            scan(run, scenario.bootstrap)
        except (NoMavenError, NotInTimeError) as unplayed:
            refuse(str(unplayed))
    click.echo(f"recorded in {run}; judge it: highwater check {run}")
    if b"B" not in values:
        click.echo("B was acknowledged with acks=all and min.insync.replicas=2, and is lost.")
        sys.exit(1)
    click.echo("B survives: this Kafka keeps what it has acknowledged.")


def scan(run: Path, bootstrap: str) -> None:
    """The end of a recording: what all partitions hold (`highwater record-scan`)."""
    command = [sys.executable, "-m", "refimpl", "record-scan", str(run), "--bootstrap", bootstrap]
    subprocess.run(command, check=True)


def refuse(why: str) -> NoReturn:
    click.echo(why, err=True)
    sys.exit(2)


if __name__ == "__main__":
    main()
