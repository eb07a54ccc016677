"""The same answers from every engine, and no engine that is not needed."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from tests.traces.fixture import fixture, write
from traces.checks.base import REGISTRY
from traces.cli import check
from traces.generate.small import IN_CALLS, NotHere, injected
from traces.ingest.history import Reading, read_history
from traces.ingest.run import Run, read_trace
from traces.kernel import chosen, columns_of, judge
from traces.local import rows_of
from traces.table import from_arrow

DATA = Path(__file__).parent / "data"
WITHOUT = """
import sys
from click.testing import CliRunner
from traces.cli import check
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


@pytest.mark.parametrize("id", REGISTRY)
def test_a_check_reads_only_the_columns_that_it_says(id: str) -> None:
    """What it does not say does not travel; and with the rest it finds what it finds with all."""
    ((scope, checks),) = chosen([id]).items()
    for run in runs():
        contexts = {0: run.context}
        columns = rows_of(from_arrow(run.table(0)), scope)
        some = {name: columns[name] for name in columns_of(scope, checks, contexts)}
        assert judge(some, scope, checks, contexts) == judge(columns, scope, checks, contexts)


def test_a_column_that_is_not_said_is_missed() -> None:
    run = runs()[0]
    columns = rows_of(from_arrow(run.table(0)), "partition")
    some = {name: column for name, column in columns.items() if name != "epoch"}
    with pytest.raises(AttributeError, match="epoch"):
        judge(some, "partition", chosen(["C2"])["partition"], {0: run.context})
