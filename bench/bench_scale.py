"""Cost of judging as traces grow, in CPU-seconds of all processes together.

Usage: python -m bench.bench_scale [--rows 1e5,1e6,1e7] [--keep FOLDER] [--only WORDS]

Each trace is generated (highwater generate), with anomalies of known number: an engine that finds
another number of them is wrong, and the benchmark says so. Spark is warm. The marginal rate is
what the rows cost that one size has more than the size before, without what any run costs.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import psutil
from attrs import define, field
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import traces.engines.session
from bench import core_sql
from bench.measuring import conditions, spent
from traces.engines import local
from traces.engines.cutting import LIMITS, Limits
from traces.engines.kernel import CORE, chosen, columns_of
from traces.engines.session import session
from traces.engines.spark import find, read_ops
from traces.generate.schedule import plan_of
from traces.generate.write import Generated, context_in, truth_in, write_parquet
from traces.model.arrow import pq
from traces.model.stored import stored

UNCUT = Limits(rows=10**12)  # what a partition costs that is never cut
WORDS = (
    "spark-scan",
    "pyarrow-scan",
    "core",
    "all",
    "whole",
    "frame",
    "local-core",
    "local-all",
    "local-few",
    "duckdb",
    "duckdb-few",
)
ELSEWHERE = {"T6", "L11"}  # found by a step after the kernels, or not written down in the table


@define
class Bench:
    """One Spark session, and what everything has cost so far."""

    spark: SparkSession
    costs: dict[str, list[tuple[int, float]]] = field(factory=dict[str, list[tuple[int, float]]])

    def measure(self, word: str, folder: Path, rows: int, work: Callable[[], Any]) -> None:
        """Do it once, and say what it cost and whether it found what is there."""
        self.spark.sparkContext.setJobDescription(f"{word} {rows}")
        found, cost = spent(work)
        costs = self.costs.setdefault(word, [])
        marginal = ""
        if costs and cost.cpu > costs[-1][1]:
            marginal = f"{(rows - costs[-1][0]) / (cost.cpu - costs[-1][1]) / 1e6:.2f}"
        costs.append((rows, cost.cpu))
        truth = truth_in(folder, scenarios=not word.startswith("duckdb"))
        said = f"{wrong(found, truth)}" if found is not None else ""
        print(
            f"  {word:<14}{cost.cpu:8.2f}{cost.wall:8.1f}{cost.rate(rows):8.2f}{marginal:>9}"
            f"{cost.memory / 1e6:9,.0f}{cost.python / 1e6:9,.0f}  {said}",
            flush=True,
        )


def wrong(found: dict[str, int], truth: dict[str, int]) -> str:
    """The numbers that differ from the truth."""
    others = {k: (n, truth.get(k, 0)) for k, n in found.items() if n != truth.get(k, 0)}
    return ", ".join(f"{k}: {n} found, {m} told" for k, (n, m) in others.items()) or "all found"


def counted(rows: Iterable[Any], ids: Iterable[str]) -> dict[str, int]:
    """The number of findings by check, and the checks whose kernels found nothing."""
    found = {id: 0 for id in ids if id not in ELSEWHERE}
    for row in rows:
        if row["found"]:
            found[row["check"]] = found.get(row["check"], 0) + row["found"]
    return found


def works(spark: SparkSession, folder: Path) -> dict[str, Callable[[], Any]]:
    """The works to measure, by name."""
    ops, contexts, truth = str(folder / "ops"), {0: context_in(folder)}, truth_in(folder)

    def scan() -> None:
        columns = columns_of("partition", chosen(CORE)["partition"], contexts)
        spark.read.parquet(ops).agg(*[F.max(name) for name in columns]).collect()

    def arrow_scan() -> None:
        columns = list(columns_of("partition", chosen(CORE)["partition"], contexts))
        for path in sorted(Path(ops).iterdir()):
            for _ in pq.ParquetFile(path).iter_batches(500_000, columns=columns, use_threads=False):
                pass

    def here(checks: tuple[str, ...] | None) -> dict[str, int]:
        return counted(local.find(stored([ops]), contexts, checks), checks or truth)

    def by_spark(
        given: Any, checks: tuple[str, ...] | None, limits: Limits | None = LIMITS
    ) -> dict[str, int]:
        return counted(find(given, contexts, checks, limits=limits).collect(), checks or truth)

    return {
        "spark-scan": scan,
        "pyarrow-scan": arrow_scan,
        "core": lambda: by_spark(read_ops(spark, ops), CORE),
        "all": lambda: by_spark(read_ops(spark, ops), None),
        "whole": lambda: by_spark(read_ops(spark, ops), None, UNCUT),
        "frame": lambda: by_spark(spark.read.parquet(ops), CORE, None),  # as `violations`
        "local-core": lambda: here(CORE),
        "local-all": lambda: here(None),
        "local-few": lambda: here(core_sql.FEW),
        "duckdb": lambda: core_sql.counts(folder / "ops", os.cpu_count() or 1),
        "duckdb-few": lambda: core_sql.few(folder / "ops", os.cpu_count() or 1),
    }


def shuffled(events: Path) -> dict[str, int]:
    """Bytes that each description's jobs wrote to shuffle files, by Spark's own event log."""
    stages: dict[int, str] = {}
    written: dict[str, int] = {}
    for path in sorted(events.rglob("events_*")):
        for line in path.read_text().splitlines():
            event = json.loads(line)
            if event["Event"] == "SparkListenerJobStart":
                description = event["Properties"].get("spark.job.description", "")
                stages |= dict.fromkeys(event["Stage IDs"], description)
            elif event["Event"] == "SparkListenerTaskEnd" and event.get("Task Metrics"):
                metrics = event["Task Metrics"]["Shuffle Write Metrics"]
                what = stages.get(event["Stage ID"], "")
                written[what] = written.get(what, 0) + metrics["Shuffle Bytes Written"]
    return {what: n for what, n in written.items() if n}


def made(folder: Path, rows: int) -> Path:
    """A trace of so many rows, made unless it is there."""
    path = folder / f"{rows:.0e}"
    if not path.exists():
        write_parquet(Generated(plan_of(rows)), path)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="1e5,1e6,1e7")
    parser.add_argument("--keep", type=Path, help="folder of the traces, for another time")
    parser.add_argument("--only", default=",".join(WORDS))
    parser.add_argument("--memory", default="4g", help="of the JVM")
    given = parser.parse_args()
    sizes, words = [int(float(n)) for n in given.rows.split(",")], given.only.split(",")
    if unknown := set(words) - set(WORDS):
        sys.exit(
            f"--only: there is no {', '.join(sorted(unknown))} (there are: {', '.join(WORDS)})"
        )
    with tempfile.TemporaryDirectory(prefix="highwater-bench-") as scratch:
        events = Path(scratch) / "events"
        events.mkdir()
        traces.engines.session.LEAN |= {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": str(events),
            "spark.eventLog.compress": "false",
        }
        folder = given.keep or Path(scratch)
        with session(memory=given.memory) as spark:
            bench, warm = Bench(spark), works(spark, made(folder, 100_000))
            for word in {"core", "all", "whole", "frame"} & set(words):
                warm[word]()
            print(f"{conditions()}; CPU-s, s, M rows per CPU-s, marginal, MB, in one Python")
            for size in sizes:
                path = made(folder, size)
                rows = json.loads((path / "truth.json").read_bytes())["rows"]
                print(f"{rows:,} rows, load {psutil.getloadavg()[0]:.1f}", flush=True)
                for word, work in works(spark, path).items():
                    if word in words:
                        bench.measure(word, path, rows, work)
        for what, n in shuffled(events).items():
            if " " in what and (rows := int(what.split()[1])):
                print(f"  shuffled by {what:<16}{n / rows:8.1f} B per row")


if __name__ == "__main__":
    main()
