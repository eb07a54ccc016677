"""What it costs to make the table of operations of NDJSON, and how much memory a task takes.

Usage: python bench/bench_ingest.py [--rows N …] [--split-size BYTES] [--engines local,spark]

A trace is made up: messages over 16 partitions, sent one by one by 8 producers, read and
processed in polls of 200 by a group of 4, and scanned in lines of 10,000 records: four rows for a
message. CPU seconds are those of all processes together. Reading the same bytes line by line with
orjson alone, in the same run, is the yardstick.
"""

import argparse
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import psutil
from attrs import define

from traces.ingest.ingesting import SPLIT, ingest, load
from traces.ingest.maps import in_spark, processes
from traces.session import session

PARTITIONS, PRODUCERS, CONSUMERS, POLLED, SCANNED = 16, 8, 4, 200, 10_000


def made_up(folder: Path, messages: int) -> Path:
    """A valid trace of this many messages, written without holding it."""
    folder.mkdir()
    each = messages // PARTITIONS
    for p in range(PRODUCERS):
        with (folder / f"p{p}#0.ndjson").open("w") as out:
            out.writelines(sends(p, each))
    for c in range(CONSUMERS):
        with (folder / f"c{c}#0.ndjson").open("w") as out:
            out.writelines(polls(c, each))
    with (folder / "scan#0.ndjson").open("w") as out:
        out.writelines(scans(each))
    topic = {"partitions": PARTITIONS, "min_insync_replicas": 2, "unclean_leader_election": False}
    producer = {"acks": "all", "idempotence": True, "max_in_flight": 5, "retries": 5}
    consumer = {"group": "g", "commit_order": "process_then_commit"}
    told = {
        "format": 1,
        "run": "made up",
        "complete": True,
        "topics": {"t": topic},
        "producers": {f"p{n}": producer for n in range(PRODUCERS)},
        "consumers": {f"c{n}": consumer for n in range(CONSUMERS)},
    }
    (folder / "meta.json").write_bytes(orjson.dumps(told))
    return folder


def call(process: str, seq: int, op: str, now: int, rest: str) -> str:
    times = f'"invoked_ns": {now}, "returned_ns": {now + 2}'
    head = f'{{"process": "{process}", "seq": {seq}, "op": "{op}", "outcome": "ok", {times}'
    return f"{head}{rest}}}\n"


def record(partition: int, offset: int) -> str:
    id = offset * PARTITIONS + partition
    place = f'"topic": "t", "partition": {partition}, "offset": {offset}'
    return f'{{{place}, "id": {id}, "key": "k{id % 1000}"}}'


def sends(producer: int, each: int) -> Iterator[str]:
    name, seq = f"p{producer}#0", 0
    for offset in range(each):
        for partition in range(producer, PARTITIONS, PRODUCERS):
            rest = f', "records": [{record(partition, offset)}]'
            yield call(name, seq, "send", seq * 10, rest)
            seq += 1
    yield call(name, seq, "close", seq * 10, "")


def polls(consumer: int, each: int) -> Iterator[str]:
    name, seq = f"c{consumer}#0", 0
    for partition in range(consumer, PARTITIONS, CONSUMERS):
        for start in range(0, each, POLLED):
            several = ", ".join(
                record(partition, o) for o in range(start, min(start + POLLED, each))
            )
            rest = f', "group": "g", "isolation": "read_committed", "records": [{several}]'
            for op in ("poll", "process"):
                yield call(name, seq, op, 10**12 + seq * 10, rest)
                seq += 1
    yield call(name, seq, "close", 10**12 + seq * 10, "")


def scans(each: int) -> Iterator[str]:
    seq = 0
    for partition in range(PARTITIONS):
        for start in range(0, each, SCANNED):
            end = min(start + SCANNED, each)
            several = ", ".join(record(partition, offset) for offset in range(start, end))
            rest = f', "isolation": "read_uncommitted", "records": [{several}]'
            if end == each:
                rest += f', "partitions": ["t:{partition}"], "offsets": {{"t:{partition}": {each}}}'
            yield call("scan#0", seq, "scan", 10**13 + seq * 10, rest)
            seq += 1
    yield call("scan#0", seq, "close", 10**13 + seq * 10, "")


@define
class Tree:
    """CPU and memory of this process and all below it, looked at now and then."""

    peak: int = 0
    stopped: bool = False

    def cpu(self) -> float:
        total = 0.0
        for process in self._all():
            try:
                used: Any = process.cpu_times()
                total += used.user + used.system + used.children_user + used.children_system
            except psutil.NoSuchProcess:
                continue
        return total

    def watch(self) -> None:
        """The highest memory of any single Python process."""
        while not self.stopped:
            for process in self._all():
                try:
                    if "python" in process.name():
                        self.peak = max(self.peak, process.memory_info().rss)
                except psutil.NoSuchProcess:
                    continue
            time.sleep(0.2)

    def _all(self) -> list[psutil.Process]:
        me = psutil.Process()
        return [me, *me.children(recursive=True)]


def timed(what: str, rows: int, work: Callable[[], Any]) -> None:
    tree = Tree()
    watcher = threading.Thread(target=tree.watch)
    watcher.start()
    cpu, wall = tree.cpu(), time.perf_counter()
    work()
    cpu, wall = tree.cpu() - cpu, time.perf_counter() - wall
    tree.stopped = True
    watcher.join()
    rate, peak = rows / cpu / 1e6, tree.peak / 2**20
    print(
        f"  {what:<26} {cpu:8.1f} CPU-s {wall:8.1f} s {rate:7.3f} M rows per CPU-s {peak:6.0f} MB"
    )


def yardstick(folder: Path) -> None:
    for path in folder.glob("*.ndjson"):
        with path.open("rb") as lines:
            for line in lines:
                orjson.loads(line)


def measure(folder: Path, rows: int, out: Path, size: int, engines: list[str]) -> None:
    size_of_all = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{rows:,} rows, {size_of_all / 1e6:,.0f} MB of NDJSON")
    timed("orjson alone", rows, lambda: yardstick(folder))
    timed("ingest, one process", rows, lambda: ingest(folder, out / "one", size))
    assert load(out / "one").rows == rows
    if "local" in engines:

        def local() -> None:
            with processes() as over:
                ingest(folder, out / "local", size, over)

        timed("ingest, all cores", rows, local)
    if "spark" in engines:
        with session(memory="1g") as spark:
            warm: Any = spark.range(10).mapInArrow(lambda batches: batches, "id bigint")
            warm.collect()
            over = in_spark(spark)
            timed("ingest, Spark (warm)", rows, lambda: ingest(folder, out / "spark", size, over))
    timed("again, nothing to do", rows, lambda: ingest(folder, out / "one", size))
    table = sum(path.stat().st_size for path in (out / "one").glob("part-*.parquet"))
    print(f"  {table / rows:.2f} B per row in Parquet")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[1_000_000])
    parser.add_argument("--split-size", type=int, default=SPLIT)
    parser.add_argument("--engines", default="local,spark")
    given = parser.parse_args()
    busy = psutil.getloadavg()[0]
    print(f"Python {sys.version.split()[0]}, {psutil.cpu_count()} cores, load {busy:.1f}")
    for rows in given.rows:
        scratch = Path(tempfile.mkdtemp(prefix="highwater-bench-"))
        try:
            each = rows // 4 // PARTITIONS
            folder = made_up(scratch / "run", each * PARTITIONS)
            made = each * PARTITIONS * 4 + PARTITIONS + PRODUCERS + CONSUMERS + 1
            measure(folder, made, scratch, given.split_size, given.engines.split(","))
        finally:
            shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
