"""The cost of `highwater proxy`, with and without --record, beside a plain relay of bytes and none.

    python bench/bench_proxy.py [--records 200000] [--rounds 3]

The same producer of librdkafka writes records of 1 KiB with acks=all to one broker of ours:
directly, through a relay that copies bytes, through the proxy, and through one that records. Then
each of many single records is acknowledged before the next one is sent, and all are read again.
Proxies are processes of their own; CPU is theirs.
"""

import argparse
import asyncio
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

import psutil
from attrs import frozen
from confluent_kafka import Consumer, Producer, TopicPartition

sys.path[:0] = [os.fspath(__file__).rpartition("/bench/")[0]]

from chaos.real.kafka.judge import free_port  # noqa: E402
from chaos.real.proxy.addresses import Upstream  # noqa: E402
from chaos.real.proxy.proxy import HOST, Proxy  # noqa: E402
from chaos.real.proxy.recording.recorder import Recorder  # noqa: E402
from refimpl.edge.testing.blocking import BlockingCluster  # noqa: E402

VALUE, SECONDS, SINGLE = b"x" * 1024, 120, 1_000
CHUNK = 1 << 16


async def proxied(target: Upstream, told: Pipe, port: int) -> None:
    """The proxy, until its process is ended."""
    async with Proxy([target], port) as made:
        told.send(made.bootstrap)
        await asyncio.Event().wait()


async def recorded(target: Upstream, told: Pipe, port: int) -> None:
    """The proxy, and what passes is written down."""
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(Path(folder) / "run")
        async with Proxy([target], port, recorder=recorder) as made:
            told.send(made.bootstrap)
            await asyncio.Event().wait()


async def relayed(target: Upstream, told: Pipe, port: int) -> None:
    """A relay of bytes, which knows nothing of Kafka."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs, ours = await asyncio.open_connection(*target)
        await asyncio.gather(pump(reader, ours), pump(theirs, writer), return_exceptions=True)

    server = await asyncio.start_server(serve, HOST, port)
    told.send(":".join(map(str, server.sockets[0].getsockname())))
    await server.serve_forever()


Kind = Callable[[Upstream, Pipe, int], Any]


def _run(kind: Kind, target: Upstream, told: Pipe, port: int) -> None:
    asyncio.run(kind(target, told, port))


@frozen
class System:
    """The address for clients, and the process between them and the broker, if there is one."""

    bootstrap: str
    process: psutil.Process | None = None

    def cpu(self) -> float:
        """Seconds of the process between."""
        if self.process is None:
            return 0.0
        times = self.process.cpu_times()
        return times.user + times.system


@contextmanager
def between(kind: Kind, target: Upstream, port: int = 0) -> Generator[System]:
    """A process between clients and a broker."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=_run, args=(kind, target, theirs, port), daemon=True
    )
    process.start()
    try:
        yield System(ours.recv(), psutil.Process(process.pid))
    finally:
        process.terminate()
        process.join()


@frozen
class Figures:
    """One round: MiB a second, CPU seconds for a GiB sent and read, and ms of a single send."""

    mib_per_s: float
    cpu_s_per_gib: float
    p50_ms: float
    read_cpu_s_per_gib: float


def measured(system: System, records: int) -> Figures:
    """So many records in batches, then single ones."""
    producer: Any = Producer({"bootstrap.servers": system.bootstrap, "linger.ms": 5})
    cpu, began = system.cpu(), time.perf_counter()
    for _ in range(records):
        while True:
            try:
                producer.produce("bench", VALUE)
                break
            except BufferError:
                producer.poll(0.01)
    assert producer.flush(SECONDS) == 0
    spent, used = time.perf_counter() - began, system.cpu() - cpu
    single: Any = Producer({"bootstrap.servers": system.bootstrap, "linger.ms": 0})
    times: list[float] = []
    for _ in range(SINGLE):
        asked = time.perf_counter()
        single.produce("bench", VALUE)
        assert single.flush(SECONDS) == 0
        times.append(1000 * (time.perf_counter() - asked))
    size = records * len(VALUE)
    before = system.cpu()
    read(system, records)
    gib = size / 2**30
    reading = (system.cpu() - before) / gib
    return Figures(size / 2**20 / spent, used / gib, statistics.median(times), reading)


def read(system: System, records: int) -> None:
    """The last so many records of the topic."""
    consumer: Any = Consumer({"bootstrap.servers": system.bootstrap, "group.id": "bench"})
    _, end = consumer.get_watermark_offsets(TopicPartition("bench", 0), SECONDS)
    consumer.assign([TopicPartition("bench", 0, end - records)])
    while records > 0:
        records -= len(consumer.consume(records, SECONDS))
    consumer.close()


def main() -> None:
    """Measure by turns, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    port, relay_port = free_port(), free_port()
    # Clients of a relay keep to it only if the broker advertises the relay's address.
    behind = {"advertised.listeners": f"PLAINTEXT://{HOST}:{relay_port}"}
    with (
        BlockingCluster(brokers=1) as plain,
        BlockingCluster(brokers=1, port=port, configs=behind) as other,
    ):
        plain.create_topic("bench")
        other.create_topic("bench")
        host, _, number = plain.bootstrap.rpartition(":")
        with (
            between(proxied, Upstream(host, int(number))) as proxy,
            between(relayed, Upstream(HOST, port), relay_port) as relay,
            between(recorded, Upstream(host, int(number))) as records,
        ):
            none = System(plain.bootstrap)
            report({"none": none, "relay": relay, "proxy": proxy, "record": records}, given)


def report(systems: dict[str, System], given: argparse.Namespace) -> None:
    """The medians of all rounds."""
    found: dict[str, list[Figures]] = {name: [] for name in systems}
    for _ in range(given.rounds):
        for name, system in systems.items():
            found[name].append(measured(system, given.records))
    for name, rounds in found.items():
        told = [f"{statistics.median(getattr(one, of) for one in rounds):8.2f} {of}" for of in OF]
        print(f"{name:6} {'  '.join(told)}")


OF = ("mib_per_s", "cpu_s_per_gib", "p50_ms", "read_cpu_s_per_gib")

if __name__ == "__main__":
    main()
