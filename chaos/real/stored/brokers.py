"""`highwater broker` as processes of their own, in one cluster on ZooKeeper."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from attrs import define, field
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from chaos.real.kafka.judge import free_port

SECONDS = 300
SESSION_MS = 3000
ROOT = "/kafka"
SETTINGS = {
    "zookeeper.session.timeout.ms": SESSION_MS,
    "zookeeper.connection.timeout.ms": 60_000,  # on a busy machine the first answer comes late
    "replica.lag.time.max.ms": 4000,
    "min.insync.replicas": 2,
    "auto.create.topics.enable": "false",
}


class Address(Protocol):
    """An address of ZooKeeper: a server's, or that of a proxy before it."""

    @property
    def address(self) -> str:
        """Host and port."""
        ...


@define
class BrokerProcess:
    """`highwater broker --id N --zookeeper …`, on one port over restarts."""

    id: int
    server: Address
    folder: Path
    port: int = field(factory=free_port)
    process: Any = None
    #: The module that runs; another one may observe the broker
    program: tuple[str, ...] = ("refimpl", "broker")
    #: Beside those of all
    settings: Mapping[str, Any] = field(factory=dict[str, Any])

    def start(self, *more: str) -> None:
        all_of_them = {**SETTINGS, **self.settings}.items()
        settings = [f"--set={name}={value}" for name, value in all_of_them]
        settings += [f"--set={one}" for one in more]
        command = [
            *(sys.executable, "-m", *self.program, "--id", str(self.id)),
            *("--zookeeper", f"{self.server.address}{ROOT}", "--port", str(self.port)),
            *("--data", str(self.folder / f"broker-{self.id}"), *settings),
        ]
        with (self.folder / f"broker-{self.id}.err").open("ab") as errors:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True
            )

    def wait_until_ready(self) -> None:
        said = self.process.stdout.readline()
        errors = (self.folder / f"broker-{self.id}.err").read_text()[-2000:]
        assert said == f"ready 127.0.0.1:{self.port}\n", said + errors

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
        if self.process is not None:
            self.process.wait()
            self.process.stdout.close()


@define
class Stored:
    """Three brokers, and what ZooKeeper says of them."""

    brokers: dict[int, BrokerProcess]
    zk: Any

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{one.port}" for one in self.brokers.values())

    def read(self, path: str) -> Any:
        return json.loads(self.zk.get(f"{ROOT}{path}")[0])

    def controller(self) -> int:
        return self.read("/controller")["brokerid"]

    def state(self, topic: str, partition: int = 0) -> Any:
        return self.read(f"/brokers/topics/{topic}/partitions/{partition}/state")

    def create(self, topic: str) -> None:
        admin: Any = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        new = NewTopic(topic, 1, 3)
        until(lambda: _made(admin, new))
        until(lambda: len(self.state(topic)["isr"]) == 3)

    def produce(self, topic: str, values: Sequence[str]) -> None:
        """Return when all of them are acknowledged."""
        failed: list[Any] = []
        producer: Any = Producer(
            {"bootstrap.servers": self.bootstrap, "acks": "all", "log_level": 0}
        )

        def delivered(error: Any, message: Any) -> None:
            failed.extend([error] * (error is not None))

        for value in values:
            producer.produce(topic, value, on_delivery=delivered)
        assert producer.flush(SECONDS) == 0
        assert failed == []

    def consume(self, topic: str, count: int) -> list[str]:
        consumer: Any = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "reader",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[str] = []
        ends = time.monotonic() + SECONDS
        while len(found) < count and time.monotonic() < ends:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                found.append(message.value().decode())
        consumer.close()
        return found


def _made(admin: Any, new: NewTopic) -> bool:
    try:
        # Who was controller may be it no more, and does not answer then: ask again soon.
        admin.create_topics([new], request_timeout=5)[new.topic].result(6)
    except KafkaException as error:
        return "TOPIC_ALREADY_EXISTS" in str(error)
    return True


def until(condition: Callable[[], bool]) -> None:
    """Wait for it; what fails while it is not so is tried again."""
    ends, last = time.monotonic() + SECONDS, None
    while time.monotonic() < ends:
        try:
            if condition():
                return
        except Exception as failure:
            last = failure
        time.sleep(0.05)
    raise TimeoutError(f"not so within {SECONDS} s; {last!r}")
