"""Cost of judging a trace, in CPU-seconds of all processes together.

Usage: python bench/bench_check.py [RUN …] [--messages N] [--without-spark]

A RUN is a folder or an .edn file. Without one a trace of N messages is generated
(highwater generate) that keeps every promise, as files of its clients. Spark is warm (its start is
timed apart, and the first job is not counted), because `highwater check` judges all its runs in one
session.
"""

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import Any

from bench.measuring import conditions, cpu_seconds, timed
from traces.engines import local
from traces.engines.session import session
from traces.engines.spark import find, read_ops
from traces.generate.lines import write_lines
from traces.generate.plan import Plan
from traces.generate.write import Generated
from traces.ingest.history import Reading, read_history
from traces.ingest.run import Run, read_trace
from traces.model.arrow import pq
from traces.verdicts.judged import Judged

SEED = 7


def made_up(folder: Path, messages: int) -> Path:
    """A valid trace of this many messages."""
    write_lines(Generated(Plan(messages, SEED, anomalies={}, scenarios=True)), folder)
    return folder


def measure(path: Path, spark: Any) -> None:
    """Read a run, judge it with the kernels alone, and with Spark."""
    print(path.name)
    run = read(path)
    rows = len(run.columns["seq"])
    print(f"  {run.calls:,} calls, {rows:,} rows")
    run, _ = timed("read", rows, lambda: read(path))
    table = run.table(0)
    found, _ = timed("judge, kernels alone", rows, lambda: local.find(table, {0: run.context}))
    answer = verdict(run, found)
    if spark is not None:
        with tempfile.TemporaryDirectory() as folder:
            pq.write_table(table, f"{folder}/ops.parquet", compression="zstd")
            size = Path(folder, "ops.parquet").stat().st_size
            by_spark, _ = timed("judge, Spark", rows, lambda: collected(spark, folder, run))
        assert verdict(run, by_spark) == answer
        print(f"  {size / rows:.1f} B per row in Parquet, verdict {answer}")


def read(path: Path) -> Run:
    return read_history(path, Reading()) if path.suffix == ".edn" else read_trace(path)


def collected(spark: Any, folder: str, run: Run) -> list[dict[str, Any]]:
    rows = find(read_ops(spark, folder), {0: run.context}).collect()
    return [row.asDict(recursive=True) for row in rows]


def verdict(run: Run, found: list[dict[str, Any]]) -> str:
    one = Judged(run.path, run)
    one.settle(found, strict=False)
    return one.verdict


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--messages", type=int, default=250_000)
    parser.add_argument("--without-spark", action="store_true")
    given = parser.parse_args()
    print(conditions())
    scratch = Path(tempfile.mkdtemp(prefix="highwater-bench-"))
    try:
        paths = given.folders or [made_up(scratch / "made-up", given.messages)]
        if given.without_spark:
            for path in paths:
                measure(path, None)
            return
        cpu = cpu_seconds()
        with session(memory="4g") as spark:
            spark.range(1000).selectExpr("sum(id)").collect()
            warm = made_up(scratch / "warm", 1_000)
            run = read_trace(warm)
            pq.write_table(run.table(0), scratch / "warm.parquet")
            collected(spark, str(scratch / "warm.parquet"), run)
            print(f"start of Spark and a first, tiny run: {cpu_seconds() - cpu:.1f} CPU-s")
            for path in paths:
                measure(path, spark)
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
