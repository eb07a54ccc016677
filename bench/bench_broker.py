"""Cost of the broker: its start, produce, consume and single sends, by librdkafka's client.

    python bench/bench_broker.py [--brokers N] [--records N]

The broker runs as a user starts it, `highwater broker`, in a process of its own. CPU-seconds are of
that process alone; a client on the same machine takes as much again.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Consumer, Producer, TopicPartition

HIGHWATER = Path(sys.executable).with_name("highwater")
AS_INSTALLED = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
"""The environment of a broker: its modules are compiled once, as after an install."""


class Broker:
    """A broker process, from its start on."""

    def __init__(self, brokers: int, *more: str) -> None:
        command = [str(HIGHWATER), "broker", "--brokers", str(brokers), "--port", "0", *more]
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=AS_INSTALLED
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.ready_s = time.perf_counter() - self.started
        self.bootstrap = line.split()[1]
        self._usage = psutil.Process(self.process.pid)

    def cpu(self) -> float:
        """CPU-seconds so far."""
        times = self._usage.cpu_times()
        return times.user + times.system

    def memory(self) -> int:
        """Resident bytes."""
        return self._usage.memory_info().rss


@contextmanager
def broker(brokers: int, *more: str) -> Generator[Broker]:
    """A broker, until it is stopped."""
    started = Broker(brokers, *more)
    try:
        yield started
    finally:
        started.process.terminate()
        started.process.wait(30)


def create(bootstrap: str, topic: str, replicas: int, partitions: int = 1) -> None:
    """A topic."""
    admin: Any = import_module("confluent_kafka.admin")
    client = admin.AdminClient({"bootstrap.servers": bootstrap})
    client.create_topics([admin.NewTopic(topic, partitions, replicas)])[topic].result(30)


def produce(bootstrap: str, topic: str, count: int, size: int) -> float:
    """Seconds for so many records with acks=all, batched as librdkafka does by default."""
    producer: Any = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "linger.ms": 5,
            "queue.buffering.max.messages": 1_000_000,
            "log_level": 0,
        }
    )
    value, failed = b"x" * size, 0

    def delivered(error: Any, message: Any) -> None:
        nonlocal failed
        failed += error is not None

    start = time.perf_counter()
    for number in range(count):
        while True:
            try:
                producer.produce(topic, value, partition=0, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 1000 == 0:
            producer.poll(0)
    left = producer.flush(120)
    assert not left, left
    assert not failed, failed
    return time.perf_counter() - start


def consume(bootstrap: str, topic: str, count: int) -> float:
    """Seconds until a consumer that has just connected has so many records."""
    settings: Any = {"group.id": "none", "enable.auto.commit": False}
    consumer: Any = Consumer({"bootstrap.servers": bootstrap, **settings})
    seen, start = 0, time.perf_counter()
    consumer.assign([TopicPartition(topic, 0, 0)])
    while seen < count:
        found = consumer.consume(min(10_000, count - seen), 10)
        assert found, f"{seen} of {count}"
        seen += len(found)
    spent = time.perf_counter() - start
    consumer.close()
    return spent


def single_sends(bootstrap: str, topic: str, count: int) -> list[float]:
    """Milliseconds for each of so many sends that wait for their acknowledgement."""
    producer: Any = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
    spent: list[float] = []
    for number in range(count + 100):
        start = time.perf_counter()
        producer.produce(topic, b"x" * 100, partition=0)
        producer.flush(30)
        if number >= 100:
            spent.append((time.perf_counter() - start) * 1000)
    return spent


def small_produces(bootstrap: str, topic: str, count: int, limit_s: float) -> float | None:
    """Seconds for so many Produce requests of one record of 100 B, many in flight; None for longer
    than the limit."""
    producer: Any = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "linger.ms": 0,
            "batch.num.messages": 1,
            "max.in.flight.requests.per.connection": 100,
            "queue.buffering.max.messages": 1_000_000,
            "log_level": 0,
        }
    )
    start = time.perf_counter()
    for number in range(count):
        producer.produce(topic, b"x" * 100, partition=0)
        if number % 1000 == 0:
            producer.poll(0)
    if producer.flush(limit_s):
        producer.purge()
        return None
    return time.perf_counter() - start


def first_acknowledgement(bootstrap: str) -> None:
    """A record is acknowledged, its topic made on the way."""
    producer: Any = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
    producer.produce("first", b"x")
    assert not producer.flush(120)


def measure_start(brokers: int) -> None:
    """From nothing to the first acknowledgement, topic made on the way; the second start, for the
    first one compiles."""
    with broker(brokers) as one:
        first_acknowledgement(one.bootstrap)
    with broker(brokers) as one:
        first_acknowledgement(one.bootstrap)
        total = time.perf_counter() - one.started
        print(
            f"start to `ready` {one.ready_s:.2f} s, to first acknowledgement {total:.2f} s;"
            f" {one.cpu():.2f} CPU-s, {one.memory() / 1e6:.0f} MB"
        )


def measure(brokers: int, records: int) -> None:
    """Throughput and latency against one cluster."""
    with broker(brokers) as one:
        for size, count in ((100, records), (1024, records // 4)):
            topic = f"records-{size}"
            create(one.bootstrap, topic, brokers)
            cpu = one.cpu()
            wall = produce(one.bootstrap, topic, count, size)
            cpu = one.cpu() - cpu
            print(
                f"produce {size:5} B acks=all: {count / wall / 1e3:7.0f} k/s,"
                f" {count * size / wall / 1e6:6.0f} MB/s; {count / cpu / 1e3:7.0f} k per CPU-s"
            )
            cpu = one.cpu()
            wall = consume(one.bootstrap, topic, count)
            cpu = max(one.cpu() - cpu, 0.01)
            print(
                f"consume {size:5} B         : {count / wall / 1e3:7.0f} k/s,"
                f" {count * size / wall / 1e6:6.0f} MB/s; {count / cpu / 1e3:7.0f} k per CPU-s"
            )
        create(one.bootstrap, "single", brokers)
        cpu = one.cpu()
        spent = single_sends(one.bootstrap, "single", 3000)
        cpu = (one.cpu() - cpu) / 3100
        cuts = statistics.quantiles(spent, n=100)
        print(
            f"single sends: p50 {cuts[49]:.2f} ms, p99 {cuts[98]:.2f} ms;"
            f" {cpu * 1e6:.0f} us of the broker's CPU each"
        )
        create(one.bootstrap, "small", brokers)
        small_produces(one.bootstrap, "small", 2000, 60)
        cpu, count = one.cpu(), 20_000
        wall = small_produces(one.bootstrap, "small", count, 120)
        cpu = (one.cpu() - cpu) / count
        assert wall is not None, "over 120 s"
        print(
            f"small produces: {count / wall / 1e3:.1f} k requests/s;"
            f" {cpu * 1e6:.0f} us of the broker's CPU each"
        )
        print(f"memory afterwards: {one.memory() / 1e6:.0f} MB")


def main() -> None:
    """Print every figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", type=int, nargs="*", default=[1, 3])
    parser.add_argument("--records", type=int, default=400_000)
    given = parser.parse_args()
    for brokers in given.brokers:
        print(f"{brokers} broker(s), as many replicas")
        measure_start(brokers)
        measure(brokers, given.records)


if __name__ == "__main__":
    main()
