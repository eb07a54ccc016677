"""The judging of a command's runs: in this process, or all of them in one Spark job."""

import os
import re
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.progress import Progress

from traces.engines.modes import asked, find_here, find_in_spark, is_quick
from traces.model.arrow import pq
from traces.model.output import number_of
from traces.model.problems import BadInput, Problem
from traces.verdicts.judged import Judged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from traces.engines.spark import Files

ENGINES = ("auto", "local", "spark")
# Spark takes as long to start as the kernels take for so many rows.
LOCAL_ROWS = 2_000_000
# The line of a worker's traceback that says what was raised.
_RAISED = re.compile(r"^Traceback .*\n(?:[ \t].*\n)+(\S.*)", re.MULTILINE)
_BAD_INPUT = f"{BadInput.__module__}.{BadInput.__name__}: "
_SHUFFLE_FULL = "java.io.IOException: No space left on device"


class NoSparkError(click.ClickException):
    """Spark was asked for, and its package is not there."""

    exit_code = 2

    def __init__(self) -> None:
        super().__init__("--engine spark needs the package `pyspark`, which is not installed")


def judge_all(
    judged: Sequence[Judged],
    strict: bool,
    bar: Progress,
    engine: str = "auto",
    mode: str = "exact",
) -> None:
    """Judge all runs; the engine `auto` leaves Spark aside while the rows are few.

    A run that a worker refuses has an error instead of verdicts, as one that cannot be read.
    """
    if not judged:
        return
    rows = sum(one.run.rows for one in judged if one.run is not None)
    task = bar.add_task(f"judging {number_of(len(judged), 'run')}, {rows:,} rows", total=None)
    here = engine == "local" or (engine == "auto" and rows <= LOCAL_ROWS)
    quick = is_quick(mode, rows)
    found = _here(judged, quick) if here else _in_spark(judged, quick)
    bar.update(task, description="weighing what was found")
    for number, one in enumerate(judged):
        if one.run is not None:
            mine = [row for row in found if row["run"] == number]
            one.settle(mine, strict, asked(quick, one.run.jepsen))
    bar.remove_task(task)


def _here(judged: Sequence[Judged], quick: bool) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for number, one in enumerate(judged):
        assert one.run is not None
        exactly = one.run.jepsen or not quick
        ops = one.lazily(number) if exactly else one.table(number)
        try:
            found += find_here(ops, {number: one.run.context}, not exactly, bool(one.run.parts))
        except BadInput as error:
            _refuse(one, str(error))
    return found


def _in_spark(judged: Sequence[Judged], quick: bool) -> list[dict[str, Any]]:
    try:
        from py4j.protocol import Py4JError  # pyright: ignore[reportMissingTypeStubs]
        from pyspark.errors import PySparkException, PythonException

        from traces.engines.session import session
        from traces.engines.spark import read_ops
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("pyspark"):
            raise NoSparkError from missing
        raise
    runs = {n: one.run for n, one in enumerate(judged) if one.run is not None}
    written = {n: run for n, run in runs.items() if run.parts}
    few = {n: run.context for n, run in runs.items() if n not in written}
    histories = {n for n in few if quick and runs[n].jepsen}
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="highwater-", dir=cache()) as folder:
        for number in few:
            if number in histories:
                ops = judged[number].lazily(number)
                found += find_here(ops, {number: few[number]}, quick=False)
            else:
                table = judged[number].table(number)
                pq.write_table(table, f"{folder}/{number:05}.parquet", compression="zstd")
        # The outer one is for a session that does not start; once it has ended, nothing tells more.
        with (
            _refusals(PySparkException),
            session() as spark,
            _refusals(PySparkException, Py4JError, spark=spark),
        ):
            if few.keys() - histories:
                found += find_in_spark(_sent(spark, folder), few, quick)
            for number, run in written.items():  # its rows do not know its number
                try:
                    rows = find_in_spark(read_ops(spark, *run.parts), {0: run.context}, quick)
                except PythonException as error:
                    if not (reason := reason_of(error)).startswith(_BAD_INPUT):
                        raise
                    _refuse(judged[number], reason.removeprefix(_BAD_INPUT))
                    continue
                found += [row | {"run": number} for row in rows]
    return found


def _sent(spark: "SparkSession", folder: str) -> "DataFrame | Files":
    """The operations in a folder of this machine, where the workers of a session find them."""
    from traces.engines.spark import read_ops

    local = str(spark.conf.get("spark.master", "")).startswith("local")
    return read_ops(spark, folder) if local else spark.createDataFrame(pq.read_table(folder))


class FailedJobError(click.ClickException):
    """A job that did not come to its end says nothing of any promise."""

    exit_code = 2


@contextmanager
def _refusals(*failed: type[Exception], spark: "SparkSession | None" = None) -> Generator[None]:
    """Refusals of Spark as one line, and never as a verdict."""
    try:
        yield
    except failed as error:
        line = reason_of(error).removeprefix(_BAD_INPUT)
        if _SHUFFLE_FULL in line and spark is not None:
            line += f" ({_local_folder(spark)})"
        raise FailedJobError(f"the Spark job failed, so nothing was judged: {line}") from error


def reason_of(error: Exception) -> str:
    """Why a job failed, in a line: what a worker raised, or else what Spark says first."""
    text = str(error)
    if raised := _RAISED.findall(text):
        return raised[-1]
    # py4j's first line names a method of the JVM, and the next one what was thrown there.
    lines = [line for line in text.splitlines() if line.strip()]
    thrown = (line.removeprefix(": ") for line in lines if line.startswith(": "))
    return next(thrown, lines[0] if lines else type(error).__name__)


def _refuse(one: Judged, reason: str) -> None:
    one.run, one.error = None, BadInput([Problem(str(one.path), None, "", reason)], 1)


def _local_folder(spark: "SparkSession") -> str:
    """The folder to which Spark writes its shuffle files."""
    if not str(spark.conf.get("spark.master", "")).startswith("local"):
        return "in spark.local.dir of a worker"
    named = os.environ.get("SPARK_LOCAL_DIRS") or spark.conf.get("spark.local.dir", None)
    temporary = "/tmp" if sys.platform == "linux" else tempfile.gettempdir()  # as Java has it
    return f"in spark.local.dir: {named or temporary}"


def cache() -> str | None:
    """The folder of the table of operations while it is judged."""
    cache = os.environ.get("HIGHWATER_CACHE")
    if cache:
        Path(cache).mkdir(parents=True, exist_ok=True)
    return cache
