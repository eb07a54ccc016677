"""Our clients beside kafka-python and aiokafka: the same broker, in turn, as ratios.

    python bench/bench_clients.py [--records 40000] [--rounds 3]

The broker is a process of its own, so CPU-seconds are the client's alone. A figure is the best of
the rounds; a ratio above 1 means that ours is better. Single sends wait for each answer.
"""

import argparse
import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiokafka as aio  # pyright: ignore[reportMissingTypeStubs]
import kafka
from kafka.structs import TopicPartition

from highwater import AsyncConsumer, AsyncProducer, Consumer, Producer

Measured = tuple[float, list[float]]
"""CPU-seconds of many sends, and the seconds of single ones."""
SINGLE = 200


def blocking(bootstrap: str, topic: str, value: bytes, records: int) -> Measured:
    """`highwater.Producer`."""
    with Producer({"bootstrap.servers": bootstrap}) as producer:
        producer.send(topic, b"first").result()
        began = time.process_time()
        for _ in range(records):
            producer.send(topic, value)
        producer.flush()
        spent = time.process_time() - began
        return spent, [timed(lambda: producer.send(topic, value).result()) for _ in range(SINGLE)]


def kafka_python(bootstrap: str, topic: str, value: bytes, records: int) -> Measured:
    """`kafka.KafkaProducer`, with the same settings."""
    producer: Any = kafka.KafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=5)
    producer.send(topic, b"first").get(30)
    began = time.process_time()
    for _ in range(records):
        producer.send(topic, value)
    producer.flush()
    spent = time.process_time() - began
    single = [timed(lambda: producer.send(topic, value).get(30)) for _ in range(SINGLE)]
    producer.close()
    return spent, single


def in_loop(bootstrap: str, topic: str, value: bytes, records: int) -> Measured:
    """`highwater.AsyncProducer`."""

    async def run() -> Measured:
        async with AsyncProducer({"bootstrap.servers": bootstrap}) as producer:
            return await _sends(producer, producer.send_and_wait, topic, value, records)

    return asyncio.run(run())


def aiokafka(bootstrap: str, topic: str, value: bytes, records: int) -> Measured:
    """`aiokafka.AIOKafkaProducer`, with the same settings."""

    async def run() -> Measured:
        producer: Any = aio.AIOKafkaProducer(
            bootstrap_servers=bootstrap, acks="all", enable_idempotence=True, linger_ms=5
        )
        await producer.start()
        try:
            return await _sends(producer, producer.send_and_wait, topic, value, records)
        finally:
            await producer.stop()

    return asyncio.run(run())


async def _sends(producer: Any, wait: Any, topic: str, value: bytes, records: int) -> Measured:
    await wait(topic, b"first")
    began = time.process_time()
    for _ in range(records):
        await producer.send(topic, value)
    await producer.flush()
    spent = time.process_time() - began
    single: list[float] = []
    for _ in range(SINGLE):
        at = time.perf_counter()
        await wait(topic, value)
        single.append(time.perf_counter() - at)
    return spent, single


def timed(call: Callable[[], Any]) -> float:
    """The seconds of a call."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


# Consumers read what is there, from the beginning, by hand: no group, no commits.


def reads(bootstrap: str, topic: str, records: int) -> float:
    """`highwater.Consumer`: CPU-seconds until all is read."""
    given = {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"}
    with Consumer(given) as consumer:
        consumer.assign([(topic, number) for number in range(PARTITIONS)])
        began, found = time.process_time(), 0
        while found < records:
            for record in consumer.poll(1):
                found += record.value is not None
        return time.process_time() - began


def reads_kafka_python(bootstrap: str, topic: str, records: int) -> float:
    """`kafka.KafkaConsumer`."""
    consumer: Any = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", group_id=None
    )
    consumer.assign([TopicPartition(topic, number) for number in range(PARTITIONS)])
    began, found = time.process_time(), 0
    while found < records:
        for part in consumer.poll(1000).values():
            for record in part:
                found += record.value is not None
    spent = time.process_time() - began
    consumer.close()
    return spent


def reads_in_loop(bootstrap: str, topic: str, records: int) -> float:
    """`highwater.AsyncConsumer`."""

    async def run() -> float:
        given = {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"}
        async with AsyncConsumer(given) as consumer:
            consumer.assign([(topic, number) for number in range(PARTITIONS)])
            began, found = time.process_time(), 0
            while found < records:
                for record in await consumer.poll(1):
                    found += record.value is not None
            return time.process_time() - began

    return asyncio.run(run())


def reads_aiokafka(bootstrap: str, topic: str, records: int) -> float:
    """`aiokafka.AIOKafkaConsumer`."""

    async def run() -> float:
        consumer: Any = aio.AIOKafkaConsumer(
            bootstrap_servers=bootstrap, auto_offset_reset="earliest", group_id=None
        )
        await consumer.start()
        try:
            consumer.assign([aio.TopicPartition(topic, number) for number in range(PARTITIONS)])
            began, found = time.process_time(), 0
            while found < records:
                parts = await consumer.getmany(timeout_ms=1000, max_records=500)
                for part in parts.values():
                    for record in part:
                        found += record.value is not None
            return time.process_time() - began
        finally:
            await consumer.stop()

    return asyncio.run(run())


PARTITIONS = 3
READERS = ((reads, reads_kafka_python), (reads_in_loop, reads_aiokafka))
PAIRS = ((blocking, kafka_python), (in_loop, aiokafka))


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description="Our producers beside others, as ratios.")
    parser.add_argument("--records", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--side", nargs="*", default=["produce", "consume"])
    given = parser.parse_args()
    highwater = str(Path(sys.executable).with_name("highwater"))
    command = [highwater, "broker", "--port", "0", "--set", "num.partitions=3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as broker:
        try:
            assert broker.stdout is not None
            bootstrap = broker.stdout.readline().split()[1]
            for size in (100, 1024):
                for ours, theirs in PAIRS if "produce" in given.side else ():
                    row(bootstrap, size, ours, theirs, given.records, given.rounds)
                for ours, theirs in READERS if "consume" in given.side else ():
                    reading(bootstrap, size, ours, theirs, given.records, given.rounds)
        finally:
            broker.terminate()


def reading(bootstrap: str, size: int, ours: Any, theirs: Any, records: int, rounds: int) -> None:
    """One pair of consumers, in turn, on the same records."""
    topic = f"read-{size}"
    with Producer({"bootstrap.servers": bootstrap}) as producer:
        for number in range(records if ours is reads else 0):
            producer.send(topic, bytes(size), partition=number % PARTITIONS)
    spent = {
        one: min(one(bootstrap, topic, records) for _ in range(rounds)) for one in (ours, theirs)
    }
    rates = [records / one for one in spent.values()]
    print(
        f"{size:5} B  {ours.__name__:13} {rates[0]:9,.0f} records/CPU-s, {theirs.__name__:18} "
        f"{rates[1]:9,.0f}: ratio {rates[0] / rates[1]:.2f}",
        flush=True,
    )


def row(bootstrap: str, size: int, ours: Any, theirs: Any, records: int, rounds: int) -> None:
    """One pair at one size of record, in turn."""
    found: dict[str, list[Measured]] = {ours.__name__: [], theirs.__name__: []}
    for _ in range(rounds):
        for one in (ours, theirs):
            topic = f"{one.__name__.replace('_', '-')}-{size}"
            found[one.__name__].append(one(bootstrap, topic, bytes(size), records))
    rates = [records / min(spent for spent, _ in measured) for measured in found.values()]
    singles = [
        sorted(one for _, single in measured for one in single) for measured in found.values()
    ]
    p50 = [statistics.median(one) * 1000 for one in singles]
    p99 = [one[int(len(one) * 0.99)] * 1000 for one in singles]
    print(
        f"{size:5} B  {ours.__name__:9} {rates[0]:9,.0f} records/CPU-s, {theirs.__name__:12} "
        f"{rates[1]:9,.0f}: ratio {rates[0] / rates[1]:.2f}; single sends p50 {p50[0]:.1f} and "
        f"{p50[1]:.1f} ms, p99 {p99[0]:.1f} and {p99[1]:.1f} ms",
        flush=True,
    )


if __name__ == "__main__":
    main()
