"""The broker beside real Kafka and kfake: the same client, the same run, as ratios.

    python bench/bench_beside.py [--write docs/wire_figures.md] [--again]

All figures of both tables, at one and at three replicas, in about ten minutes on a quiet machine;
a line tells how far it is. Each figure is kept in `build/beside.json`: interrupted, the next start
goes on behind the last whole group of rows, and `--again` forgets what was kept. A measurement that
takes longer than `--limit` seconds is given up, and said.

Needs Maven and a JDK for Kafka, and Go for kfake (`bench/kfake`); what is missing is left out, and
said. All systems are started first and measured in turn, row by row, so that what else the machine
does meets all of them. A ratio is of the first system to the others: above 1 we are better.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import orjson
import psutil
from attrs import define, field, frozen
from confluent_kafka import KafkaException, Producer

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from bench_broker import (  # noqa: E402
    AS_INSTALLED,
    consume,
    create,
    first_acknowledgement,
    produce,
    single_sends,
    small_produces,
)

MANY_PARTITIONS, MANY_CLIENTS, SMALL_REQUESTS = 1000, 200, 20_000
KEPT = ROOT / "build" / "beside.json"
TITLES = {"ours": "ours", "kafka": "Kafka 4.3.1", "kfake": "kfake"}


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


@contextmanager
def process_of(name: str, command: list[str], bootstrap: str | None) -> Generator[System]:
    began = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=AS_INSTALLED
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
        with process_of("ours", [highwater, "broker", "--port", "0"], None):
            pass  # the first start compiles
        with process_of("ours", [*command, "--set", factor], None) as system:
            yield system


@contextmanager
def kafka(brokers: int) -> Generator[System]:
    """Kafka 4.3.1, one process for each broker, with C1 and the serial collector."""
    judge: Any = import_module("chaos.real.kafka.judge")
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
        broker = judge.KafkaBroker(folder)
        broker.format(tools)
        with broker.running() as process:
            yield broker.address, [psutil.Process(process.pid)]
        return
    cluster: Any = import_module("chaos.real.kafka.cluster")
    with cluster.cluster(folder, tools) as running:
        processes = [psutil.Process(one.process.pid) for one in running.nodes.values()]
        yield running.bootstrap, processes


@contextmanager
def kfake(brokers: int) -> Generator[System]:
    """kfake, in memory, of the newest module; it replicates nothing."""
    binary = ROOT / "build" / "kfake"
    if not binary.exists():
        subprocess.run(["go", "build", "-o", binary, "."], cwd=ROOT / "bench/kfake", check=True)
    with process_of("kfake", [str(binary), str(brokers)], None) as system:
        yield system


SYSTEMS: dict[str, tuple[Callable[[int], Any], str]] = {
    "ours": (ours, sys.executable),
    "kafka": (kafka, "mvn"),
    "kfake": (kfake, "go"),
}


class Late(Exception):
    """A measurement took longer than it may."""


def small_requests(system: System, limit_s: float) -> float:
    """Produce requests a second, of one record of 100 B each, many in flight."""
    spent_s = small_produces(system.bootstrap, "small", SMALL_REQUESTS, limit_s)
    if spent_s is None:
        raise Late
    return SMALL_REQUESTS / spent_s


def many_partitions(system: System, replicas: int, limit_s: float) -> float:
    """Seconds until a topic of 1,000 partitions is made and each has a record."""
    admin: Any = import_module("confluent_kafka.admin")
    client = admin.AdminClient({"bootstrap.servers": system.bootstrap, "log_level": 0})
    start = time.perf_counter()
    topic = admin.NewTopic("many", MANY_PARTITIONS, replicas)
    times = {"operation_timeout": limit_s, "request_timeout": limit_s}
    try:
        client.create_topics([topic], **times)["many"].result(limit_s)
    except (KafkaException, TimeoutError):
        raise Late from None
    producer: Any = Producer({"bootstrap.servers": system.bootstrap, "acks": "all", "log_level": 0})
    for number in range(MANY_PARTITIONS):
        producer.produce("many", b"x" * 100, partition=number)
    if producer.flush(limit_s):
        producer.purge()
        raise Late
    return time.perf_counter() - start


def many_clients(system: System, limit_s: float) -> float:
    """Seconds until 200 producers, each with connections of its own, have sent 10 records each."""
    start = time.perf_counter()
    producers: list[Any] = [
        Producer({"bootstrap.servers": system.bootstrap, "acks": "all", "log_level": 0})
        for _ in range(MANY_CLIENTS)
    ]
    for producer in producers:
        for _ in range(10):
            producer.produce("clients", b"x" * 100, partition=0)
    if any(producer.flush(limit_s) for producer in producers):
        raise Late
    return time.perf_counter() - start


@frozen
class Row:
    """One figure, of every system."""

    name: str
    unit: str
    measure: Callable[[System], float]
    more_is_better: bool = False


def groups(replicas: int, records: int, limit_s: float) -> list[list[Row]]:
    """All rows; those of a group are measured one behind the other, for they need each other."""
    spent: dict[str, list[float]] = {}

    def produced(size: int, count: int) -> Row:
        def measure(one: System) -> float:
            return count / produce(one.bootstrap, f"records-{size}", count, size) / 1e3

        return Row(f"produce {size} B", "k records/s", measure, more_is_better=True)

    def consumed(size: int, count: int) -> Row:
        def measure(one: System) -> float:
            # The best of five: it takes a fifth of a second, and the client makes pauses.
            spent_s = [consume(one.bootstrap, f"records-{size}", count) for _ in range(5)]
            return count / min(spent_s) / 1e3

        return Row(f"consume {size} B", "k records/s", measure, more_is_better=True)

    def p50(one: System) -> float:
        spent[one.name] = single_sends(one.bootstrap, "single", 2000)
        return statistics.median(spent[one.name])

    def p99(one: System) -> float:
        return statistics.quantiles(spent[one.name], n=100)[98]

    sizes = [(100, records), (1024, records // 4)]
    bulk = [row for size in sizes for row in (produced(*size), consumed(*size))]
    whole = f"memory after {records * 5 // 4:,} records"
    return [
        [
            Row("start to first acknowledgement", "s", lambda one: one.started_s),
            Row("memory, idle", "MB", System.memory),
            *bulk,
            Row(whole, "MB", System.memory),
        ],
        [Row("single sends, p50", "ms", p50), Row("single sends, p99", "ms", p99)],
        [
            Row(
                "small produce requests",
                "requests/s",
                lambda one: small_requests(one, limit_s),
                more_is_better=True,
            )
        ],
        [Row("200 producers, 10 records each", "s", lambda one: many_clients(one, limit_s))],
        [
            Row(
                "1,000 partitions, a record each",
                "s",
                lambda one: many_partitions(one, replicas, limit_s),
            ),
            Row("memory after all that", "MB", System.memory),
        ],
    ]


Kept: TypeAlias = dict[str, dict[str, Any]]
"""By `replicas: row`: its unit, and value and CPU-seconds of each system; None for too late."""


@define(eq=False)
class Run:
    """The measurements that have been made, of all that are to be."""

    names: list[str]
    total: int
    limit_s: float
    kept: Kept
    began: float = field(factory=time.monotonic)

    def keep(self) -> None:
        """Write down what there is."""
        KEPT.parent.mkdir(exist_ok=True)
        KEPT.write_bytes(orjson.dumps(self.kept, option=orjson.OPT_INDENT_2))

    def tell(self, what: str) -> None:
        """The line of progress."""
        minutes, seconds = divmod(int(time.monotonic() - self.began), 60)
        done = f"[{minutes:02}:{seconds:02} {len(self.kept)}/{self.total}]"
        print(f"\r\033[K{done} {what}", end="", file=sys.stderr, flush=True)

    def row(self, replicas: int, row: Row, systems: list[System]) -> None:
        """Measure one row of all systems in turn, and print it."""
        values: dict[str, Any] = {}
        for system in systems:
            self.tell(f"{replicas} replica(s), {row.name}: {system.name}")
            cpu = system.cpu()
            try:
                value: float | None = row.measure(system)
            except Late:
                value = None
            values[system.name] = value, system.cpu() - cpu
        key = f"{replicas}: {row.name}"
        self.kept[key] = {"unit": row.unit, "more": row.more_is_better, "values": values}
        self.tell("")
        print(f"{key:36} " + "; ".join(self.cells(key)), flush=True)

    def cells(self, key: str) -> list[str]:
        """A row's figures, with ratios of the first system to the others."""
        kept = self.kept[key]
        first, _ = kept["values"][self.names[0]]
        found: list[str] = []
        for name in self.names:
            value, cpu = kept["values"][name]
            if value is None:
                found.append(f"over {self.limit_s:.0f} s, {cpu:.1f} CPU-s")
                continue
            text = f"{value:,.2f} {kept['unit']}" + (f", {cpu:.1f} CPU-s" if cpu >= 0.05 else "")
            if name != self.names[0] and first is not None:
                ratio = first / value if kept["more"] else value / first
                text += f" (**{ratio:.2f}**)"
            found.append(text)
        return found

    def tables(self, conditions: str) -> str:
        """All of it as Markdown."""
        parts = [f"{conditions}\n"]
        for replicas in dict.fromkeys(key.partition(":")[0] for key in self.kept):
            many = f"{replicas} broker{'s' if replicas != '1' else ''} and as many replicas:"
            head = f"| | {' | '.join(TITLES[name] for name in self.names)} |"
            rows = [
                f"| {key.partition(': ')[2]} | {' | '.join(self.cells(key))} |"
                for key in self.kept
                if key.startswith(f"{replicas}: ")
            ]
            rule = "|---" * (len(self.names) + 1) + "|"
            parts.append("\n".join([f"{many}\n", head, rule, *rows, ""]))
        return "\n".join(parts)


def measure(run: Run, replicas: int, records: int) -> None:
    """All rows at so many brokers and replicas that were not measured yet."""
    wanted = [
        group
        for group in groups(replicas, records, run.limit_s)
        if any(f"{replicas}: {row.name}" not in run.kept for row in group)
    ]
    if not wanted:
        return
    with ExitStack() as stack:
        systems: list[System] = []
        for name in run.names:
            run.tell(f"{replicas} replica(s): start {name}")
            systems.append(stack.enter_context(SYSTEMS[name][0](replicas)))
        for system in systems:
            for topic in ("records-100", "records-1024", "single", "small", "clients"):
                create(system.bootstrap, topic, replicas)
        for group in wanted:
            for row in group:
                run.row(replicas, row, systems)
            run.keep()


def main() -> None:
    """Measure what is not kept, print it, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--replicas", default="1,3")
    parser.add_argument("--systems", default="ours,kafka,kfake")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds of one measurement")
    parser.add_argument("--again", action="store_true", help="forget what was measured before")
    parser.add_argument("--write", type=Path, help="the page that the tables go to")
    given = parser.parse_args()
    names = given.systems.split(",")
    for name in list(names):
        if shutil.which(SYSTEMS[name][1]) is None:
            print(f"{name} is left out: {SYSTEMS[name][1]} is not on PATH")
            names.remove(name)
    if given.again:
        KEPT.unlink(missing_ok=True)
    kept: Kept = orjson.loads(KEPT.read_bytes()) if KEPT.exists() else {}
    if any(one["values"].keys() != set(names) for one in kept.values()):
        parser.error(f"{KEPT} was measured with other systems: --again forgets it")
    brokers = [int(one) for one in given.replicas.split(",")]
    total = sum(len(group) for one in brokers for group in groups(one, given.records, 0))
    run, before = Run(names, total, given.limit, kept), os.getloadavg()[0]
    for replicas in brokers:
        measure(run, replicas, given.records)
    conditions = (
        f"{date.today()}, {os.cpu_count()} cores, load {before:.1f} at the start (the run itself "
        f"adds to it) and {os.getloadavg()[0]:.1f} at the end."
    )
    run.tell(f"done: {conditions}\n")
    if given.write is not None:
        given.write.write_text(run.tables(conditions))


if __name__ == "__main__":
    main()
