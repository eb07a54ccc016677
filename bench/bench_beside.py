"""The broker beside real Kafka and kfake: the same client, the same run, as ratios.

    python bench/bench_beside.py [--records N] [--systems ours,kafka,kfake] [--replicas 1,3]

Needs Maven and a JDK for Kafka, and Go for kfake (`bench/kfake`); what is missing is left out, and
said. All systems are started first and measured in turn, row by row, so that what else the machine
does meets all of them. A ratio is of the first system to the others: above 1 we are better.
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil
from attrs import define, field
from confluent_kafka import Producer

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from bench_broker import consume, create, produce, single_sends  # noqa: E402

MANY_PARTITIONS, MANY_CLIENTS = 1000, 200


@define(eq=False)
class System:
    """A cluster that runs: where it is, and its processes."""

    name: str
    bootstrap: str
    processes: list[psutil.Process]
    started_s: float

    def cpu(self) -> float:
        """CPU-seconds of all its processes so far."""
        times = [one.cpu_times() for one in self.processes]
        return sum(one.user + one.system for one in times)

    def memory(self) -> float:
        """Resident megabytes of all its processes."""
        return sum(one.memory_info().rss for one in self.processes) / 1e6


def first_acknowledgement(bootstrap: str) -> None:
    """A record is acknowledged, its topic made on the way."""
    producer: Any = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
    producer.produce("first", b"x")
    assert not producer.flush(120)


@contextmanager
def _process(name: str, command: list[str], bootstrap: str | None) -> Generator[System]:
    began = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        address = bootstrap or _printed(process)
        first_acknowledgement(address)
        started = time.perf_counter() - began
        yield System(name, address, [psutil.Process(process.pid)], started)
    finally:
        process.terminate()
        process.wait(60)


def _printed(process: subprocess.Popen[str]) -> str:
    """The address in the line that a broker prints when it serves: `ready HOST:PORT,...`."""
    assert process.stdout is not None
    return process.stdout.readline().split()[1]


@contextmanager
def ours(brokers: int) -> Generator[System]:
    """`highwater broker`, with its logs in files as the others have them."""
    highwater = str(Path(sys.executable).with_name("highwater"))
    with tempfile.TemporaryDirectory() as folder:
        command = [highwater, "broker", "--brokers", str(brokers), "--port", "0", "--data", folder]
        factor = f"default.replication.factor={brokers}"
        with _process("ours", [*command, "--set", factor], None) as system:
            yield system


@contextmanager
def kafka(brokers: int) -> Generator[System]:
    """Kafka 4.3.1, one process for each broker, with C1 and the serial collector."""
    judge: Any = import_module("tests.kafka.judge")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tools = judge.Judge.start()
        try:
            with _kafka(folder, brokers, judge, tools) as (bootstrap, processes):
                if brokers > 1:  # where topics are not made by asking for them
                    create(bootstrap, "first", 1)
                first_acknowledgement(bootstrap)
                began = min(one.create_time() for one in processes)
                yield System("kafka", bootstrap, processes, time.time() - began)
        finally:
            tools.stop()


@contextmanager
def _kafka(
    folder: Path, brokers: int, judge: Any, tools: Any
) -> Generator[tuple[str, list[psutil.Process]]]:
    if brokers == 1:
        broker = judge.Broker(folder)
        broker.format(tools)
        with broker.running() as process:
            yield broker.address, [psutil.Process(process.pid)]
        return
    cluster: Any = import_module("tests.kafka.cluster")
    with cluster.cluster(folder, tools) as running:
        processes = [psutil.Process(one.process.pid) for one in running.nodes.values()]
        yield running.bootstrap, processes


@contextmanager
def kfake(brokers: int) -> Generator[System]:
    """kfake, in memory, of the newest module; it replicates nothing."""
    binary = ROOT / "build" / "kfake"
    if not binary.exists():
        subprocess.run(["go", "build", "-o", binary, "."], cwd=ROOT / "bench/kfake", check=True)
    with _process("kfake", [str(binary), str(brokers)], None) as system:
        yield system


SYSTEMS: dict[str, tuple[Callable[[int], Any], str]] = {
    "ours": (ours, sys.executable),
    "kafka": (kafka, "mvn"),
    "kfake": (kfake, "go"),
}


@define(eq=False)
class Rows:
    """What was measured, row by row."""

    systems: list[System]
    lines: list[str] = field(factory=list[str])

    def row(
        self, what: str, unit: str, measure: Callable[[System], float], *, more_is_better: bool
    ) -> None:
        """Measure all systems in turn, and print the row."""
        values: dict[str, tuple[float, float]] = {}
        for system in self.systems:
            cpu = system.cpu()
            values[system.name] = measure(system), system.cpu() - cpu
        first = values[self.systems[0].name][0]
        parts: list[str] = []
        for system in self.systems:
            value, cpu = values[system.name]
            ratio = first / value if more_is_better else value / first
            told = "" if system is self.systems[0] else f", ratio {ratio:.2f}"
            parts.append(f"{system.name} {value:,.2f} {unit} ({cpu:.1f} CPU-s{told})")
        print(f"{what:34} {'; '.join(parts)}", flush=True)


def small_produces(system: System, count: int) -> float:
    """Produce requests a second, of one record of 100 B each, many in flight."""
    producer: Any = Producer(
        {
            "bootstrap.servers": system.bootstrap,
            "acks": "all",
            "linger.ms": 0,
            "batch.num.messages": 1,
            "max.in.flight.requests.per.connection": 100,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    start = time.perf_counter()
    for number in range(count):
        producer.produce("small", b"x" * 100, partition=0)
        if number % 1000 == 0:
            producer.poll(0)
    assert not producer.flush(300)
    return count / (time.perf_counter() - start)


def many_partitions(system: System, replicas: int) -> float:
    """Seconds until a topic of 1,000 partitions is made and each has a record."""
    admin: Any = import_module("confluent_kafka.admin")
    client = admin.AdminClient({"bootstrap.servers": system.bootstrap})
    start = time.perf_counter()
    topic = admin.NewTopic("many", MANY_PARTITIONS, replicas)
    client.create_topics([topic], operation_timeout=120, request_timeout=120)["many"].result(180)
    producer: Any = Producer({"bootstrap.servers": system.bootstrap, "acks": "all"})
    for number in range(MANY_PARTITIONS):
        producer.produce("many", b"x" * 100, partition=number)
    assert not producer.flush(300)
    return time.perf_counter() - start


def many_clients(system: System) -> float:
    """Seconds until 200 producers, each with connections of its own, have sent 10 records each."""
    start = time.perf_counter()
    producers: list[Any] = [
        Producer({"bootstrap.servers": system.bootstrap, "acks": "all", "log_level": 0})
        for _ in range(MANY_CLIENTS)
    ]
    for producer in producers:
        for _ in range(10):
            producer.produce("clients", b"x" * 100, partition=0)
    assert not any(producer.flush(120) for producer in producers)
    return time.perf_counter() - start


def measure(replicas: int, records: int, names: list[str]) -> None:
    """All rows, at so many brokers and replicas."""
    print(f"{replicas} broker(s), as many replicas, acks=all")
    with ExitStack() as stack:
        rows = Rows([stack.enter_context(SYSTEMS[name][0](replicas)) for name in names])
        lower = {"more_is_better": False}
        rows.row("start to first acknowledgement", "s", lambda one: one.started_s, **lower)
        rows.row("memory, idle", "MB", System.memory, **lower)
        for system in rows.systems:
            for topic in ("records-100", "records-1024", "single", "small", "clients"):
                create(system.bootstrap, topic, replicas)
        for size, count in ((100, records), (1024, records // 4)):
            name = f"records-{size}"

            def produced(one: System, size: int = size, count: int = count) -> float:
                return count / produce(one.bootstrap, f"records-{size}", count, size) / 1e3

            def consumed(one: System, name: str = name, count: int = count) -> float:
                # The best of three: it takes a fifth of a second, and the client makes pauses.
                return count / min(consume(one.bootstrap, name, count) for _ in range(3)) / 1e3

            rows.row(f"produce {size} B", "k records/s", produced, more_is_better=True)
            rows.row(f"consume {size} B", "k records/s", consumed, more_is_better=True)
        rows.row(f"memory after {records * 5 // 4:,} records", "MB", System.memory, **lower)
        spent: dict[str, list[float]] = {}

        def p50(one: System) -> float:
            spent[one.name] = single_sends(one.bootstrap, "single", 2000)
            return statistics.median(spent[one.name])

        rows.row("single sends, p50", "ms", p50, **lower)
        rows.row(
            "single sends, p99",
            "ms",
            lambda one: statistics.quantiles(spent[one.name], n=100)[98],
            **lower,
        )
        rows.row(
            "small produce requests",
            "requests/s",
            lambda one: small_produces(one, 20_000),
            more_is_better=True,
        )
        rows.row("200 producers, 10 records each", "s", many_clients, **lower)
        rows.row(
            "1,000 partitions, a record each",
            "s",
            lambda one: many_partitions(one, replicas),
            **lower,
        )
        rows.row("memory after all that", "MB", System.memory, **lower)


def main() -> None:
    """Print every row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--replicas", default="1,3")
    parser.add_argument("--systems", default="ours,kafka,kfake")
    given = parser.parse_args()
    names = given.systems.split(",")
    for name in list(names):
        if shutil.which(SYSTEMS[name][1]) is None:
            print(f"{name} is left out: {SYSTEMS[name][1]} is not on PATH")
            names.remove(name)
    for replicas in map(int, given.replicas.split(",")):
        measure(replicas, given.records, names)


if __name__ == "__main__":
    main()
