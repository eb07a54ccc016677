"""An application that reads orders, writes an invoice for each, and commits both in one transaction
(KIP-447); and the scenarios that let two instances of it commit the same orders."""

import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from attrs import define, field
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from examples.brokers import until
from highwater import recorded

GROUP, INPUT, OUTPUT = "billing", "orders", "invoices"
RECORDS_EACH = 3
"""Orders in each partition."""


@define
class Instance:
    """One instance of the application: consumer, transactional producer, and what was polled."""

    name: str
    bootstrap: str
    run: Path
    settings: Mapping[str, Any]
    """More settings of its consumer."""
    consumer: Any = field(init=False)
    producer: Any = field(init=False)
    polled: dict[int, list[Any]] = field(factory=dict[int, list[Any]])

    def __attrs_post_init__(self) -> None:
        """Join the group."""
        conf = {"bootstrap.servers": self.bootstrap, "log_level": 0}
        reading = {
            **{"group.id": GROUP, "client.id": self.name},
            **{"auto.offset.reset": "earliest", "enable.auto.commit": False},
        }
        writing = {"transactional.id": f"billing-{self.name}"}
        self.producer = recorded(
            Producer, self.run, {**conf, **writing}, name=f"producer-{self.name}"
        )
        self.producer.init_transactions(60)
        self.consumer = recorded(
            Consumer, self.run, {**conf, **reading, **self.settings}, name=f"consumer-{self.name}"
        )
        self.consumer.subscribe([INPUT], on_revoke=self.let_go)

    def let_go(self, consumer: Any, partitions: list[Any]) -> None:
        """Give partitions up when `poll` says so, without waiting for anybody."""

    def poll(self, patience_s: float = 0.1) -> None:
        """Poll once, and keep what comes."""
        message = self.consumer.poll(patience_s)
        if message is not None and message.error() is None:
            self.polled.setdefault(message.partition(), []).append(message)

    def process(self, partition: int, membership: Any) -> str:
        """One transaction: an invoice for each order of a partition, and the orders' offset.

        Returns "" when it is committed, else why it was refused.
        """
        orders = self.polled[partition]
        behind = TopicPartition(INPUT, partition, orders[-1].offset() + 1)
        self.producer.begin_transaction()
        try:
            for order in orders:
                self.producer.produce(OUTPUT, order.value(), partition=0)
            self.producer.send_offsets_to_transaction([behind], membership, 30)
            self.producer.commit_transaction(60)
        except KafkaException as refused:
            self.producer.abort_transaction(60)
            return str(refused.args[0].name())
        return ""

    def close(self) -> None:
        self.consumer.close()
        self.producer.close()


@define
class Billing:
    """A scenario about orders: it writes them, reads the invoices, and says what happens."""

    bootstrap: str
    run: Path
    admin: Any = field(init=False)
    started: float = field(factory=time.monotonic, init=False)

    def __attrs_post_init__(self) -> None:
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def create(self, partitions: int) -> None:
        """The topics, and the orders, once there are three brokers."""
        until("three brokers", 60, lambda: len(self.admin.list_topics(timeout=5).brokers) == 3)
        topics = [NewTopic(INPUT, partitions, 3), NewTopic(OUTPUT, 1, 3)]
        for created in self.admin.create_topics(topics).values():
            created.result(60)
        conf = {"bootstrap.servers": self.bootstrap, "log_level": 0}
        producer: Any = recorded(Producer, self.run, conf, name="shop")
        for number in range(partitions * RECORDS_EACH):
            producer.produce(INPUT, f"order {number}", partition=number % partitions)
        producer.close()

    def read_output(self) -> Counter[str]:
        """How often a reader of committed records reads each invoice."""
        reading = {"group.id": "reader", "isolation.level": "read_committed"}
        consumer: Any = Consumer({"bootstrap.servers": self.bootstrap, **reading})
        consumer.assign([TopicPartition(OUTPUT, 0, 0)])
        found: Counter[str] = Counter()
        while (message := consumer.poll(5)) is not None:
            found[message.value().decode()] += 1
        consumer.close()
        return found

    def say(self, what: str) -> None:
        click.echo(f"{time.monotonic() - self.started:7.3f} s  {what}")


def conclude(run: Path, refused: str, invoices: Counter[str]) -> None:
    """Say what came of it; exit code 1 if the output has an invoice twice."""
    twice = sorted(invoice for invoice, times in invoices.items() if times > 1)
    click.echo(f"recorded in {run}; judge it: highwater check {run}")
    if twice:
        click.echo(f"In the committed output twice: {', '.join(twice)}.")
        sys.exit(1)
    click.echo(f"The late commit was refused ({refused}): nothing is there twice.")
