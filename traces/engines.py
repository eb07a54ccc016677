"""Where the runs of a command are judged: in this process, or all of them in one Spark job."""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.progress import Progress

from traces import local
from traces.arrow import pq
from traces.report import Judged

ENGINES = ("auto", "local", "spark")
# Spark takes as long to start as the kernels take for so many rows.
LOCAL_ROWS = 2_000_000


class NoSparkError(click.ClickException):
    """Spark was asked for, and its package is not there."""

    exit_code = 2

    def __init__(self) -> None:
        super().__init__("--engine spark needs the package `pyspark`, which is not installed")


def judge_all(judged: Sequence[Judged], strict: bool, bar: Progress, engine: str = "auto") -> None:
    """Judge all runs; `auto` leaves Spark aside while the rows are few."""
    if not judged:
        return
    rows = sum(one.run.rows for one in judged if one.run is not None)
    task = bar.add_task(f"judging {len(judged)} runs, {rows:,} rows", total=None)
    here = engine == "local" or (engine == "auto" and rows <= LOCAL_ROWS)
    found = _here(judged) if here else _in_spark(judged)
    bar.update(task, description="weighing what was found")
    for number, one in enumerate(judged):
        one.settle([row for row in found if row["run"] == number], strict)
    bar.remove_task(task)


def _here(judged: Sequence[Judged]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for number, one in enumerate(judged):
        assert one.run is not None
        found += local.find(one.table(number), {number: one.run.context})
    return found


def _in_spark(judged: Sequence[Judged]) -> list[dict[str, Any]]:
    try:
        from traces.session import session
        from traces.spark import find, read_ops
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("pyspark"):
            raise NoSparkError from missing
        raise
    runs = {n: one.run for n, one in enumerate(judged) if one.run is not None}
    written = {n: run for n, run in runs.items() if run.parts}
    few = {n: run.context for n, run in runs.items() if n not in written}
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="highwater-", dir=cache()) as folder:
        for number in few:
            table = judged[number].table(number)
            pq.write_table(table, f"{folder}/{number:05}.parquet", compression="zstd")
        with session() as spark:
            if few:
                rows = find(read_ops(spark, folder), few).collect()
                found += [row.asDict(recursive=True) for row in rows]
            for number, run in written.items():  # its rows do not know its number
                rows = find(read_ops(spark, *run.parts), {0: run.context}).collect()
                found += [row.asDict(recursive=True) | {"run": number} for row in rows]
    return found


def cache() -> str | None:
    """Where the table of operations lives while it is judged."""
    cache = os.environ.get("HIGHWATER_CACHE")
    if cache:
        Path(cache).mkdir(parents=True, exist_ok=True)
    return cache
