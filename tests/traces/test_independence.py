"""A verdict depends on the trace, not on how its table was cut, shuffled or computed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import traces.model.table
from tests.traces.anomalous import NAMES, anomalous
from tests.traces.fixture import fixture, write
from tests.traces.judging import SEEDED, examples, judged
from traces.engines import local
from traces.engines.scopes import SCOPES
from traces.engines.spark import find, read_ops
from traces.generate.small import IN_CALLS, NotHere, injected
from traces.ingest.history import Reading, read_history
from traces.ingest.run import Run, read_trace
from traces.model.arrow import pa, pq
from traces.model.table import by_key, from_arrow
from traces.model.table import part as part_of
from traces.verdicts.judged import Judged

DATA = Path(__file__).parent / "data"


def judge_table(run: Run, table: Any) -> dict[str, Any]:
    one = Judged(run.path, run)
    one.settle(local.find(table, {0: run.context}), strict=False)
    return one.as_json()


@pytest.mark.parametrize("name", [None, *NAMES])
@given(seed=st.integers(0, 10**9))
@settings(max_examples=examples(1), phases=SEEDED)
def test_the_order_of_the_rows_does_not_matter(name: str | None, seed: int) -> None:
    try:
        made = anomalous(name, seed)
    except NotHere:
        assume(False)
        return
    rows = pa.array(np.random.default_rng(seed).permutation(made.table.num_rows))
    assert made.judged.as_json() == judge_table(made.run, made.table.take(rows))


def test_columns_in_files_say_what_columns_in_memory_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines, meta = injected(fixture(5, 40), IN_CALLS["lost"])
    run = read_trace(write(tmp_path, lines, meta))
    table = run.table(0)
    expected = judge_table(run, table)
    monkeypatch.setattr(traces.model.table, "LARGE", 10)
    assert judge_table(run, table) == expected
    assert expected["verdict"] == "violated"
    columns = from_arrow(table)
    whole, spans = by_key(columns, SCOPES["partition"])
    part = part_of(whole, *spans[0])
    owners: list[Any] = [part["offset"]]
    while owners[-1] is not None:
        owners.append(getattr(owners[-1], "base", None))
    assert any(isinstance(owner, np.memmap) for owner in owners)


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Run], list[Any]]:
    """Runs of all kinds, the folder of their tables in small row groups, and their verdicts."""
    written, folder = tmp_path_factory.mktemp("runs"), tmp_path_factory.mktemp("ops")
    runs = [read_history(path, Reading()) for path in sorted((DATA / "histories").glob("*.edn"))]
    runs += [read_trace(DATA / "recordings" / "auto-commit")]
    for seed, name in enumerate(IN_CALLS):
        try:
            made = injected(fixture(seed, 20), IN_CALLS[name])
        except NotHere:
            continue
        runs.append(read_trace(write(written / name, *made)))
    for number, run in enumerate(runs):
        pq.write_table(run.table(number), folder / f"{number:05}.parquet", row_group_size=7_000)
    return folder, runs, [judge_table(run, run.table(0)) for run in runs]


@pytest.mark.spark
@pytest.mark.parametrize(("partitions", "rows"), [(1, "files"), (5, "files"), (5, "frame")])
def test_spark_says_what_the_kernels_say(
    spark: SparkSession,
    several: tuple[Path, list[Run], list[Any]],
    partitions: int,
    rows: str,
) -> None:
    """Several runs in one job, each with its own configuration, over any number of partitions."""
    folder, runs, expected = several
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    contexts = {number: run.context for number, run in enumerate(runs)}
    ops = read_ops(spark, str(folder)) if rows == "files" else spark.read.parquet(str(folder))
    found = [r.asDict(recursive=True) for r in find(ops, contexts).collect()]
    answers: list[Any] = []
    for number, run in enumerate(runs):
        one = Judged(run.path, run)
        one.settle([row for row in found if row["run"] == number], strict=False)
        answers.append(one.as_json())
    assert answers == expected
    assert sum(one["verdict"] == "violated" for one in expected) > 20


@pytest.mark.spark
def test_one_shuffle_serves_all_checks(spark: SparkSession, tmp_path: Path) -> None:
    """One exchange, whatever the number of checks and scopes, and whatever the input is."""
    run = read_trace(DATA / "recordings" / "auto-commit")
    pq.write_table(run.table(0), tmp_path / "ops.parquet")
    # With one shuffle partition Spark plans `Exchange SinglePartition`, so say how many.
    spark.conf.set("spark.sql.shuffle.partitions", "5")
    for ops in (read_ops(spark, str(tmp_path)), spark.read.parquet(str(tmp_path))):
        found: Any = find(ops, {0: run.context})
        text: str = found._jdf.queryExecution().executedPlan().toString()
        assert text.count("Exchange") == text.count("Exchange hashpartitioning") == 1
    assert judged(DATA / "recordings" / "auto-commit").verdict == "allowed"
