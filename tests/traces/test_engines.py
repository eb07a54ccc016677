"""The same answers from every engine, and no engine that is not needed."""

import json
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from py4j.protocol import Py4JError  # pyright: ignore[reportMissingTypeStubs]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from refimpl.__main__ import highwater
from tests.traces.fixture import fixture, write
from traces.checks.base import REGISTRY
from traces.commands.check import check
from traces.engines.kernel import chosen, columns_of, judge
from traces.engines.local import rows_of
from traces.generate.small import IN_CALLS, NotHere, injected
from traces.ingest.history import Reading, read_history
from traces.ingest.ingesting import ingest
from traces.ingest.run import Run, read_trace
from traces.model.columns import Columns
from traces.model.context import Context
from traces.model.table import _in_file, from_arrow  # pyright: ignore[reportPrivateUsage]
from traces.verdicts.judging import reason_of

Findings = dict[str, list[dict[str, Any]]]  # by check
DATA = Path(__file__).parent / "data"
WITHOUT = """
import sys
from click.testing import CliRunner
from traces.commands.check import check
result = CliRunner().invoke(check, sys.argv[1:], catch_exceptions=False)
print(result.exit_code, [name for name in sys.modules if name.split(".")[0] in ("pyspark", "py4j")])
"""


def test_a_small_run_is_judged_without_spark() -> None:
    paths = [str(DATA / "histories" / "basic.edn"), str(DATA / "recordings" / "auto-commit")]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, *paths], capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n")[0] == "0 []"


@pytest.mark.spark
def test_both_engines_write_the_same_report(spark: SparkSession, tmp_path: Path) -> None:
    reports: list[Any] = []
    for engine in ("local", "spark"):
        out = tmp_path / f"{engine}.json"
        paths = [DATA / "histories", DATA / "recordings"]
        CliRunner().invoke(check, [*map(str, paths), "--engine", engine, "--json", str(out)])
        reports.append(json.loads(out.read_text()))
    assert reports[0] == reports[1]
    assert len(reports[0]["runs"]) > 10


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_merged_runs_are_refused_and_the_others_judged(engine: str, tmp_path: Path) -> None:
    """A worker's refusal is reported for its run, not as an exception of a Python worker."""
    for seed, name in enumerate("ab"):
        one = fixture(seed)
        ingest(write(tmp_path / f"run-{name}", one.lines, one.meta), tmp_path / name)
    for n, part in enumerate((tmp_path / "b").glob("part-*.parquet")):
        shutil.copy(part, tmp_path / "a" / f"part-{n}.parquet")
    out, paths = tmp_path / "out.json", [str(tmp_path / name) for name in "ab"]
    done = CliRunner().invoke(highwater, ["check", *paths, "--engine", engine, "--json", str(out)])
    assert (done.exit_code, "Traceback" in done.output) == (2, False)
    merged, alone = json.loads(out.read_text())["runs"]
    (error,) = merged["errors"]
    assert error.startswith(f"{tmp_path / 'a'}: operations: run: 0 has two calls with seq ")
    assert error in done.stdout
    assert (merged["verdict"], alone["verdict"]) == ("bad input", "holds")


@pytest.mark.spark
def test_what_a_worker_raised_is_the_reason_of_a_failed_job(spark: SparkSession) -> None:
    def fails(batches: Any) -> Any:
        try:
            raise ValueError("an old one")
        except ValueError as old:
            raise OSError(28, "No space left on device", "there") from old

    with pytest.raises(PySparkException) as raised:
        spark.range(1).mapInArrow(fails, "id long").collect()
    assert reason_of(raised.value) == "OSError: [Errno 28] No space left on device: 'there'"


class _OfTheJvm(Py4JError):
    """An error whose words the JVM keeps, while there is one."""

    ended = False

    def __str__(self) -> str:
        assert not _OfTheJvm.ended
        return (
            "An error occurred while calling o1.collectToPython.\n: org.apache.spark."
            "SparkException: Task 0 failed: java.io.IOException: No space left on device\n"
            "\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)"
        )


@pytest.mark.spark
def test_a_full_disk_of_spark_is_told_by_its_folder(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the session lasts: afterwards nobody knows what failed."""

    @contextmanager
    def session() -> Generator[SparkSession]:
        try:
            yield spark
        finally:
            _OfTheJvm.ended = True

    def full(*_: Any) -> Any:
        raise _OfTheJvm

    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/scratch")
    monkeypatch.setattr("traces.engines.session.session", session)
    monkeypatch.setattr("traces.verdicts.judging.find_in_spark", full)
    path = str(DATA / "recordings" / "auto-commit")
    done = CliRunner().invoke(highwater, ["check", path, "--engine", "spark"])
    assert (done.exit_code, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: the Spark job failed, so nothing was judged: org.apache.spark.")
    assert line.endswith("No space left on device (in spark.local.dir: /scratch)")


def test_a_full_scratch_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow names no file, and Spark has not begun."""

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "Error writing bytes to file. Detail: [errno 28] No space left on device")

    monkeypatch.setenv("HIGHWATER_CACHE", str(tmp_path))
    monkeypatch.setattr("traces.model.arrow.pq.write_table", full)
    path = str(DATA / "recordings" / "auto-commit")
    done = CliRunner().invoke(highwater, ["check", path, "--engine", "spark"])
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"Error: {tmp_path}/highwater-")
    assert line.endswith(": No space left on device")


def test_a_full_scratch_folder_is_not_said_to_be_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of a large run go there while it is read."""

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setenv("HIGHWATER_CACHE", str(tmp_path))
    monkeypatch.setattr("traces.commands.check.read_input", full)
    path = str(DATA / "recordings" / "auto-commit")
    done = CliRunner().invoke(highwater, ["check", path])
    assert done.exit_code == 2
    assert done.stdout.splitlines()[-1].startswith(f"{tmp_path}/highwater-")


def test_a_full_folder_of_columns_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They lie in files that have no name."""

    def full(**_: Any) -> Any:
        return open("/dev/full", "w+b", buffering=0)

    monkeypatch.setenv("HIGHWATER_CACHE", str(tmp_path))
    monkeypatch.setattr("tempfile.TemporaryFile", full)
    with pytest.raises(OSError, match=f"No space left on device: '{tmp_path}'"):
        _in_file(np.arange(10))


@cache
def runs() -> list[Run]:
    found = [read_history(path, Reading()) for path in sorted((DATA / "histories").glob("*.edn"))]
    with TemporaryDirectory() as folder:
        for seed, name in enumerate(IN_CALLS):
            try:
                lines, meta = injected(fixture(seed, 20), IN_CALLS[name])
            except NotHere:
                continue
            found.append(read_trace(write(Path(folder) / name, lines, meta)))
    return found


@cache
def with_all_columns(scope: str) -> list[tuple[Columns, dict[int, Context], Findings]]:
    """Of each run the rows of this scope, and what each check finds in them."""
    out: list[tuple[Columns, dict[int, Context], Findings]] = []
    for run in runs():
        contexts = {0: run.context}
        columns, found = rows_of(from_arrow(run.table(0)), scope), Findings()
        for row in judge(columns, scope, chosen(None)[scope], contexts):
            found.setdefault(row["check"], []).append(row)
        out.append((columns, contexts, found))
    return out


@pytest.mark.xdist_group("columns")  # whose runs are read once, and judged once with all columns
@pytest.mark.parametrize("id", REGISTRY)
def test_a_check_reads_only_the_columns_that_it_says(id: str) -> None:
    """It loads no other columns, and finds with these what it finds with all."""
    ((scope, checks),) = chosen([id]).items()
    for columns, contexts, found in with_all_columns(scope):
        some = {name: columns[name] for name in columns_of(scope, checks, contexts)}
        assert judge(some, scope, checks, contexts) == found.get(id, [])


@pytest.mark.xdist_group("columns")
def test_a_column_that_is_not_said_is_missed() -> None:
    run = runs()[0]
    columns = rows_of(from_arrow(run.table(0)), "partition")
    some = {name: column for name, column in columns.items() if name != "epoch"}
    with pytest.raises(AttributeError, match="epoch"):
        judge(some, "partition", chosen(["C2"])["partition"], {0: run.context})
