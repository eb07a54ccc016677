"""A coordinator of transactions that loads a long log, beside real Kafka's.

    python bench/bench_transaction_load.py [--records 100000] [--ids 1000] [--rounds 3]

Each broker has a log of so many records, in which so many transactional ids have committed one
transaction after the other. A client writes these records as an administrator, so both brokers have
the same. Then each broker is stopped, and started again: a figure is the time from the start of its
process until it lists every id, and its CPU until then. The same is asked of a broker with the
first record of each id alone. The difference is the load. A round of one broker is followed by a
round of the other, and figures are medians. A ratio is Kafka's figure to ours: above 1 we are
better. Needs Maven and a JDK for Kafka.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any, TypeAlias

import psutil
from attrs import define, evolve, frozen
from confluent_kafka import Producer

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from chaos.real.kafka.judge import Judge, KafkaBroker, free_port  # noqa: E402
from refimpl.machines.transaction_coordinator import (  # noqa: E402
    ProducerIdentity,
    TransactionMetadata,
    TransactionState,
)
from refimpl.messages.broker import TopicPartition  # noqa: E402
from refimpl.records.coordinators import TRANSACTIONS_TOPIC, write_record  # noqa: E402
from refimpl.transactions.log_records import record_of  # noqa: E402
from tests.wire.client import Client  # noqa: E402

ADMIN_CLIENT, TOPIC, PATIENCE_S, PAUSE_S = "__admin_client", "written", 300.0, 0.02
SETTINGS = {
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
STATES = TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT


@frozen
class Start:
    """The start of a process until it lists all ids."""

    wall_s: float
    cpu_s: float


Running: TypeAlias = Callable[[], Any]


@define(eq=False)
class Broker:
    """One broker that is started again and again on its files."""

    name: str
    port: int
    running: Running

    def write(self, ids: int, each: int) -> None:
        """Give every id so many records behind the first one."""
        with self.running():
            settings: dict[str, Any] = {"bootstrap.servers": f"127.0.0.1:{self.port}"}
            first = Producer({**settings, "transactional.id": "first", "log_level": 0})
            first.init_transactions(PATIENCE_S)  # which makes the topic
            settings |= {"client.id": ADMIN_CLIENT, "queue.buffering.max.messages": 1_000_000}
            producer: Any = Producer({**settings, "log_level": 0})
            failed: list[Any] = []

            def told(error: Any, _: Any) -> None:
                if error is not None:
                    failed.append(error)

            for number in range(each + 1):
                for id in range(ids):
                    key, value = _record(id, number)
                    producer.produce(TRANSACTIONS_TOPIC, value, key, partition=0, on_delivery=told)
                producer.poll(0)
            assert producer.flush(PATIENCE_S) == 0
            assert not failed, failed[0]

    def start(self, ids: int) -> Start:
        """Start it, and wait for all ids."""
        began = time.perf_counter()
        with self.running() as process:
            with Client.connect(self.port) as client:
                while _listed(client) < ids + 1:
                    assert time.perf_counter() - began < PATIENCE_S
                    time.sleep(PAUSE_S)
            spent = time.perf_counter() - began
            times = psutil.Process(process.pid).cpu_times()
            return Start(spent, times.user + times.system)


def _record(id: int, number: int) -> tuple[bytes, bytes | None]:
    """The record of that number of an id: its transactions go on and on."""
    at = ProducerIdentity(1_000_000 + id, number // len(STATES) + 1)
    metadata = TransactionMetadata(at=at, next=at)
    if number:
        state = STATES[(number - 1) % len(STATES)]
        written = (
            frozenset[TopicPartition]()
            if state is TransactionState.COMPLETE_COMMIT
            else _partitions(id)
        )
        times = {"updated_ms": _NOW_MS, "started_ms": _NOW_MS}
        metadata = evolve(metadata, state=state, partitions=written, client_version=2, **times)
    return write_record(record_of(f"id-{id}", evolve(metadata, updated_ms=_NOW_MS), flexible=True))


def _partitions(id: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(TOPIC, (id + n) % 12) for n in range(3))


_NOW_MS = int(time.time() * 1000)


def _listed(client: Client) -> int:
    asked: dict[str, Any] = {"state_filters": [], "producer_id_filters": [], "duration_filter": -1}
    return len(client.ask("ListTransactions", 1, asked)["transaction_states"])


def kafkas(folder: Path, judge: Judge) -> Broker:
    """Kafka 4.3.1."""
    folder.mkdir()
    broker = KafkaBroker(folder, settings=SETTINGS)
    broker.format(judge)
    return Broker("kafka", broker.port, broker.running)


def ours(folder: Path) -> Broker:
    """`highwater broker`, with files."""
    port = free_port()
    highwater = str(Path(sys.executable).with_name("highwater"))
    command = [highwater, "broker", "--port", str(port), "--data", str(folder)]
    command += [part for one in SETTINGS.items() for part in ("--set", "=".join(one))]

    @contextmanager
    def running() -> Generator[subprocess.Popen[str]]:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("ready")
            yield process
        finally:
            process.terminate()
            process.wait(PATIENCE_S)

    return Broker("ours", port, running)


def median(starts: list[Start]) -> Start:
    return Start(
        statistics.median(one.wall_s for one in starts),
        statistics.median(one.cpu_s for one in starts),
    )


def main() -> None:
    """Measure both, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--ids", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    before, each = os.getloadavg()[0], given.records // given.ids - 1
    judge = Judge.start()
    with tempfile.TemporaryDirectory() as name:
        found: dict[tuple[str, int], list[Start]] = {}
        brokers = {
            (one.name, many): one
            for many in (0, each)
            for one in (ours(Path(name) / f"ours-{many}"), kafkas(Path(name) / f"k-{many}", judge))
        }
        for (_, many), broker in brokers.items():
            broker.write(given.ids, many)
            broker.start(given.ids)  # its second start: the first one has made folders
        for _ in range(given.rounds):
            for key, broker in brokers.items():
                found.setdefault(key, []).append(broker.start(given.ids))
    judge.stop()
    figures = {key: median(starts) for key, starts in found.items()}
    print("| broker, records in the log | until all ids are listed, s | CPU-s |\n|---|---|---|")
    for (name, many), one in figures.items():
        records = (many + 1) * given.ids
        print(f"| {name}, {records:,} | {one.wall_s:.2f} | {one.cpu_s:.2f} |")
    load = {
        name: Start(
            figures[name, each].wall_s - figures[name, 0].wall_s,
            figures[name, each].cpu_s - figures[name, 0].cpu_s,
        )
        for name in ("ours", "kafka")
    }
    for name, one in load.items():
        print(f"| {name}, difference | {one.wall_s:.2f} | {one.cpu_s:.2f} |")
    print(
        f"{date.today()}, {os.cpu_count()} cores, load {before:.1f} at the start and "
        f"{os.getloadavg()[0]:.1f} at the end"
    )


if __name__ == "__main__":
    main()
