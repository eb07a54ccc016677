"""Kafka Streams with `exactly_once_v2` counts each order once, however its instances are killed."""

import subprocess
from collections import defaultdict
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from chaos.real.kafka.judge import Judge, KafkaBroker, java
from refimpl.edge.testing.blocking import BlockingCluster

CUSTOMERS, ORDERS = 7, 1_400
PARTITIONS = 3
SECONDS = 120
EXACTLY, AT_LEAST = "exactly_once_v2", "at_least_once"
ONCE = {str(customer): [*range(1, ORDERS // CUSTOMERS + 1)] for customer in range(CUSTOMERS)}


class Counted:
    """The committed counts of each customer, in their order, read while they are written."""

    def __init__(self, bootstrap: str) -> None:
        self.counts: dict[str, list[int]] = defaultdict(list)
        self.total = 0
        self.consumer: Any = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "counts-read",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )
        self.consumer.subscribe(["counts"])

    def until(self, total: int, running: subprocess.Popen[str]) -> None:
        """Read until so many counts have come; the application has to be alive meanwhile."""
        for _ in range(SECONDS):
            if self.total >= total:
                return
            assert running.poll() is None, "the application has ended by itself"
            self._read(1.0)
        raise AssertionError(f"{self.total} counts of {total}: {dict(self.counts)}")

    def rest(self) -> None:
        """Read until no more comes for some seconds."""
        while self._read(5.0):
            pass

    def _read(self, seconds: float) -> int:
        found = self.consumer.consume(100, seconds)
        for message in found:
            assert message.error() is None
            self.counts[message.key().decode()].append(int(message.value()))
        self.total += len(found)
        return len(found)


@contextmanager
def instance(
    bootstrap: str, folder: Path, guarantee: str, commit_ms: int
) -> Generator[subprocess.Popen[str]]:
    """One instance of the application; the end of its input stops it."""
    command = java("Counts", bootstrap, folder, guarantee, str(commit_ms))
    with (folder.with_suffix(".out")).open("w") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT, text=True
        )
        try:
            yield process
            process.communicate(timeout=SECONDS)
        finally:
            process.kill()
            process.wait()


def orders(bootstrap: str, numbers: Sequence[int]) -> None:
    producer: Any = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in numbers:
        producer.produce(
            "orders", str(number % CUSTOMERS), b"%d" % number, partition=number % PARTITIONS
        )
    assert producer.flush(SECONDS) == 0


def topics(bootstrap: str) -> None:
    admin: Any = AdminClient({"bootstrap.servers": bootstrap})
    wanted = [NewTopic(topic, PARTITIONS) for topic in ("orders", "counts")]
    for one in admin.create_topics(wanted).values():
        one.result()


def killed_twice(bootstrap: str, folder: Path, guarantee: str, commit_ms: int) -> Counted:
    """Two instances are killed, one in the middle of what it does, one beside another."""
    topics(bootstrap)
    counted, third = Counted(bootstrap), ORDERS // 3
    orders(bootstrap, range(third))
    with instance(bootstrap, folder / "a", guarantee, commit_ms) as first:
        counted.until(third // 2, first)
        first.kill()
    orders(bootstrap, range(third, 2 * third))
    with instance(bootstrap, folder / "b", guarantee, commit_ms) as second:
        counted.until(third + third // 2, second)
        with instance(bootstrap, folder / "c", guarantee, commit_ms) as other:
            orders(bootstrap, range(2 * third, ORDERS))
            counted.until(2 * third, other)
            second.kill()
            counted.until(ORDERS, other)
    counted.rest()
    return counted


@contextmanager
def cluster_of(whose: str, folder: Path, judge: Judge) -> Generator[str]:
    """The bootstrap address of one broker of Kafka, or of ours."""
    with ExitStack() as stack:
        if whose == "kafka":
            broker = KafkaBroker(folder / "kafka")
            broker.folder.mkdir()
            broker.format(judge)
            stack.enter_context(broker.running())
            yield broker.address
        else:
            ours = BlockingCluster(brokers=int(whose), data=folder / "ours")
            yield stack.enter_context(ours).bootstrap


@pytest.mark.parametrize("whose", ["kafka", "1", "3"])
def test_each_order_counts_once(whose: str, judge: Judge, tmp_path: Path) -> None:
    with cluster_of(whose, tmp_path, judge) as bootstrap:
        counted = killed_twice(bootstrap, tmp_path, EXACTLY, commit_ms=100)
    assert counted.counts == ONCE


def test_without_transactions_orders_count_twice(judge: Judge, tmp_path: Path) -> None:
    """The same kills, and no commit before them: so the test above can fail."""
    with cluster_of("3", tmp_path, judge) as bootstrap:
        counted = killed_twice(bootstrap, tmp_path, AT_LEAST, commit_ms=60_000)
    assert sum(map(len, counted.counts.values())) > ORDERS
