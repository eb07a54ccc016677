"""The front door: `import traces`, and nothing else."""

import doctest
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import traces
from tests.traces.fixture import fixture, write
from traces.engines.precheck import spark as prechecks
from traces.engines.spark import read_ops
from traces.generate.small import IN_CALLS, injected
from traces.ingest.ingesting import ingest
from traces.model.problems import BadInput

ROOT = Path(__file__).parents[2]


def test_what_the_docs_show_is_what_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    page = doctest.testfile(str(ROOT / "docs" / "traces.md"), module_relative=False)
    module = doctest.testmod(traces)
    assert (page.failed, module.failed) == (0, 0)
    assert min(page.attempted, module.attempted) >= 4


def test_a_recorder_opens_no_door() -> None:
    """It lives in an application, where there is no numpy."""
    script = (
        "import sys\n"
        "for name in ('numpy', 'pyarrow', 'pandas', 'pyspark', 'attrs', 'attr', 'rich', 'click'):\n"
        "    sys.modules[name] = None\n"
        "from traces.record import recorded\n"
        "print(recorded.__name__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert (done.stdout, done.stderr) == ("recorded\n", "")


def with_anomaly(folder: Path) -> Path:
    return write(folder, *injected(fixture(3), IN_CALLS["lost"]))


def test_a_run_is_judged_as_often_as_one_likes(tmp_path: Path) -> None:
    run = traces.load(with_anomaly(tmp_path / "run"))
    first, again = traces.check(run), traces.check(run, strict=True)
    assert (first.verdict, first["L4"].verdict, first["L4"].count) == ("violated", "violated", 1)
    assert again["L4"].count == 1
    (witness, *_) = first.as_json()["checks"]["L4"]["witnesses"]
    assert witness["events"][0]["op"] == "send"
    assert traces.check(run, mode="quick")["L4"].count == 1


@pytest.mark.parametrize("wrong", [{"sub_via": "magic"}, {"cleanup_policy": "delte"}])
def test_a_misspelt_word_is_refused(wrong: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"expected one of .*, found"):
        traces.load(tmp_path, **wrong)


@pytest.mark.spark
def test_violations_have_names_and_come_when_they_are_asked_for(
    spark: SparkSession, tmp_path: Path
) -> None:
    ingest(with_anomaly(tmp_path / "run"), tmp_path / "ops")
    run = traces.load(tmp_path / "ops")
    here = traces.check(run)
    assert traces.check(run, spark)["L4"] == here["L4"]
    frame = spark.read.parquet(str(tmp_path / "ops" / "part-*.parquet"))
    jobs = spark.sparkContext.statusTracker()
    before = len(jobs.getJobIdsForGroup(None))
    found = traces.violations(frame, run, checks=["L4", "L1"])
    assert len(jobs.getJobIdsForGroup(None)) == before
    rows: list[dict[str, Any]] = [row.asDict(recursive=True) for row in found.collect()]
    assert [(r["check"], r["verdict"], r["count"]) for r in rows if r["count"]] == [
        ("L4", "violated", here["L4"].count)
    ]
    (witness,) = [r["witness"] for r in rows if r["witness"]]
    events = here.as_json()["checks"]["L4"]["witnesses"][0]["events"]
    assert [(e["process"], e["seq"], e["partition"], e["id"]) for e in witness] == [
        (e["process"], e["seq"], e["partition"], str(e["id"])) for e in events
    ]
    files = traces.violations(read_ops(spark, str(tmp_path / "ops")), run, ["L4", "L1"])
    assert sorted(map(str, files.collect())) == sorted(map(str, found.collect()))


@pytest.mark.spark
def test_a_table_of_something_else_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    run = traces.load(with_anomaly(tmp_path / "run"))
    with pytest.raises(BadInput, match="DataFrame: process: is missing"):
        traces.violations(spark.createDataFrame([(1, 2)], "Offset int, run int"), run)
    with pytest.raises(ValueError, match="there is no check L99"):
        traces.violations(spark.createDataFrame([(1, 2)], "Offset int, run int"), run, ["L99"])


@pytest.mark.spark
def test_two_runs_under_one_number_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Every ingested folder says run 0: the records of one were lost and made up in the other."""
    for seed, name in enumerate("ab"):
        one = fixture(seed)
        ingest(write(tmp_path / f"run-{name}", one.lines, one.meta), tmp_path / name)
    runs = [traces.load(tmp_path / name) for name in "ab"]
    a, b = (spark.read.parquet(*run.parts) for run in runs)
    a.unionAll(b).write.parquet(str(tmp_path / "merged"))
    untimed = [frame.withColumns({"inv": F.lit(-1), "ret": F.lit(-1)}) for frame in (a, b)]
    for ops in (
        a.unionAll(b),
        untimed[0].unionAll(untimed[1]),
        a.unionAll(a),
        read_ops(spark, str(tmp_path / "merged")),
        read_ops(spark, str(tmp_path / "a"), str(tmp_path / "a")),
    ):
        found = traces.violations(ops, runs[0], ["L4"])
        with pytest.raises(PythonException, match=r"run: 0 has two calls with seq \d+ of"):
            found.collect()
    folders = read_ops(spark, *(str(tmp_path / name) for name in "ab"))
    files = read_ops(spark, *runs[0].parts, *runs[1].parts)
    for apart in (folders, files):
        assert not traces.violations(apart, dict(enumerate(runs)), ["L4"]).collect()
    only = {0: runs[0].context}
    for found in (
        lambda: traces.violations(folders, runs[0], ["L4"]),
        lambda: prechecks.find(folders, only),
    ):
        with pytest.raises(PythonException, match="run: expected the number of a run that was"):
            found().collect()


@pytest.mark.spark
def test_a_row_that_does_not_tell_its_flags_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Each of them was taken for set, and the row for one of a topic that is gone."""
    run = traces.load(with_anomaly(tmp_path / "run"))
    frame = spark.createDataFrame(run.table(0)).withColumn("flags", F.lit(None).cast("smallint"))
    with pytest.raises(PythonException, match="operations: flags: is null, or below 0"):
        traces.violations(frame, run, ["L4"]).collect()
