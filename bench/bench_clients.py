"""Our producers beside kafka-python and aiokafka: the same broker, in turn, as ratios.

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

from aiokafka import AIOKafkaProducer  # pyright: ignore[reportMissingTypeStubs]
from kafka import KafkaProducer

from highwater import AsyncProducer, Producer

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
    producer: Any = KafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=5)
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
        producer: Any = AIOKafkaProducer(
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


PAIRS = ((blocking, kafka_python), (in_loop, aiokafka))


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description="Our producers beside others, as ratios.")
    parser.add_argument("--records", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    highwater = str(Path(sys.executable).with_name("highwater"))
    command = [highwater, "broker", "--port", "0", "--set", "num.partitions=3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as broker:
        try:
            assert broker.stdout is not None
            bootstrap = broker.stdout.readline().split()[1]
            for size in (100, 1024):
                for ours, theirs in PAIRS:
                    row(bootstrap, size, ours, theirs, given.records, given.rounds)
        finally:
            broker.terminate()


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
