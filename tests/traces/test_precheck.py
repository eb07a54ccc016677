"""The quick pre-checks are right: where they have no doubt, the exact checks find nothing."""

from collections.abc import Generator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import orjson
import pytest
from click.testing import CliRunner
from hypothesis import example, given, reject, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.traces.anomalous import NAMES, anomalous
from tests.traces.dense import dense_trace
from tests.traces.fixture import Line, fixture, meta, write
from tests.traces.judging import SEEDED, examples
from tests.traces.small import trace
from tests.traces.stories import story
from tests.traces.test_recordings import KEPT
from traces.commands.check import check
from traces.engines import kernel, local
from traces.engines.precheck import alone, quick
from traces.engines.precheck import spark as prechecks
from traces.engines.precheck.partitions import PartitionSummaries
from traces.engines.precheck.quick import COVERED
from traces.engines.spark import read_ops
from traces.generate.plan import TOPICS
from traces.generate.scenarios.renewed import GROUPS
from traces.generate.schedule import plan_of
from traces.generate.small import NotHere
from traces.generate.write import Generated, context_in, table_of, write_parquet
from traces.ingest.run import read_trace
from traces.model.arrow import pa, pc, pq
from traces.model.problems import BadInput
from traces.model.schema import COLUMNS, OPS, Op
from traces.verdicts.jepsen import add_cycles
from traces.verdicts.verdict import tally

SEEDS = st.integers(0, 10**9)
KEY = ("run", "topic", "partition")


@pytest.fixture(autouse=True, scope="module")
def vouched() -> Generator[None]:
    """No partition is too small here, or the pre-checks would vouch for next to nothing."""
    with pytest.MonkeyPatch.context() as here:
        here.setattr(quick, "FEW_RECORDS", 0)
        yield


def said(findings: list[dict[str, Any]], *, seen: bool = False) -> dict[str, Any]:
    """The findings of each check: clauses, witnesses, and things looked at."""
    tallies = tally(findings).get(0, {})
    add_cycles(tallies, jepsen=False)
    return {
        check: (dict(one.found), one.first_witnesses(), one.seen if seen else bool(one.seen))
        for check, one in sorted(tallies.items())
        if check in COVERED and (one.found or one.seen)
    }


def agree(table: Any, contexts: Any, *, seen: bool = False) -> None:
    found, exact = alone.find(table, contexts), local.find(table, contexts, COVERED)
    assert said(found, seen=seen) == said(exact, seen=seen)


def table_and_contexts(lines: dict[str, list[Line]], meta: dict[str, Any]) -> tuple[Any, Any]:
    with TemporaryDirectory() as folder:
        run = read_trace(write(Path(folder), lines, meta))
    return run.table(0), {0: run.context}


def with_anomaly(name: str, seed: int) -> tuple[Any, Any]:
    """A fixture with this anomaly, where it has room for it."""
    try:
        made = anomalous(name, seed)
    except NotHere:
        reject()
    return made.table, {0: made.run.context}


@given(SEEDS)
@settings(max_examples=examples(5), phases=SEEDED)
def test_a_fixture_that_keeps_its_promises(seed: int) -> None:
    w = fixture(seed)
    agree(*table_and_contexts(w.lines, w.meta))


@pytest.mark.parametrize("name", NAMES)
@given(seed=SEEDS)
@settings(max_examples=examples(2), phases=SEEDED)
def test_every_anomaly_in_it(name: str, seed: int) -> None:
    agree(*with_anomaly(name, seed))


@pytest.mark.parametrize("scenarios", [True, False])
@pytest.mark.parametrize("seed", [7, 8])
def test_every_anomaly_of_a_generated_trace(seed: int, scenarios: bool) -> None:
    """Counts of things looked at are equal too, except with scenarios."""
    made = Generated(plan_of(100_000, seed, scenarios=scenarios))
    agree(table_of(made), {0: made.context()}, seen=not scenarios)


@pytest.mark.parametrize("scenarios", [True, False])
def test_a_trace_without_anomalies_leaves_no_doubt(scenarios: bool) -> None:
    """But about topics on which things are done that the sums cannot vouch for.

    Nor do sums tell lives of groups apart, where their generations begin again.
    """
    made = Generated(plan_of(100_000, anomalies=0, scenarios=scenarios))
    left = alone.doubts(table_of(made), {0: made.context()})
    doubtful = [key for key in left.partitions if key[1] < TOPICS]
    again = {(0, made.clients.names.groups.number(name)) for name in GROUPS if scenarios}
    assert (doubtful, left.groups, left.producers) == ([], again, set())
    assert bool(left.partitions) == scenarios


@pytest.mark.parametrize("name", sorted(one.name for one in KEPT.iterdir() if one.is_dir()))
def test_every_recording_of_a_real_cluster(name: str) -> None:
    run = read_trace(KEPT / name)
    agree(run.table(0), {0: run.context})


def test_a_healthy_cluster_leaves_no_doubt() -> None:
    """Or the quick pre-checks would be no quicker than the exact checks."""
    run = read_trace(KEPT / "healthy-acks-all")
    assert not alone.doubts(run.table(0), {0: run.context}).partitions


def test_what_quick_does_not_cover_is_not_checked(tmp_path: Path) -> None:
    """And is said so: silence would pass for a verdict."""
    out = tmp_path / "out.json"
    run = ["--engine", "local", "--mode", "quick", "--json", str(out)]
    result = CliRunner().invoke(check, [str(KEPT / "healthy-acks-all"), *run])
    assert result.exit_code == 0, result.output
    (judged,) = orjson.loads(out.read_bytes())["runs"]
    for id, one in judged["checks"].items():
        if id not in COVERED:
            assert one["verdict"] == "not checked"
            assert "--mode exact" in one["reason"]
    assert judged["checks"]["L4"]["verdict"] == "holds"


@given(seed=SEEDS, rows=st.sampled_from((50, 1 << 20)))
@settings(max_examples=examples(5), phases=SEEDED)
def test_a_dump_is_nobodys_answer(seed: int, rows: int) -> None:
    """Its high watermark is not looked at, be the dump in the same piece of the table or not."""
    w = fixture(seed)
    table, contexts = table_and_contexts(w.lines, w.meta)
    assert pc.any(pc.equal(table["op"], int(Op.DUMP_MARK))).as_py()
    pieces = pa.Table.from_batches(table.combine_chunks().to_batches(max_chunksize=rows))
    quick, exact = alone.find(pieces, contexts), local.find(table, contexts, ("L11",))
    assert said(quick, seen=True)["L11"] == said(exact, seen=True)["L11"]


CELLS = ("partition", "process", "seq", "op", "outcome", "offset", "id", "inv", "ret", "group")
MORE_CELLS = ("generation", "txn", "txn_state", "isolation", "epoch", "tid", "pid", "pepoch")


def damaged(table: Any, random: Random) -> Any:
    """A row is dropped, written twice, or given a value that stands in another."""
    columns: dict[str, Any] = {name: table[name].to_numpy().copy() for name in COLUMNS}
    for _ in range(random.randint(1, 3)):
        size = len(columns["op"])
        row, other, drawn = random.randrange(size), random.randrange(size), random.random()
        if drawn < 0.2:
            columns = {name: np.delete(column, row) for name, column in columns.items()}
        elif drawn < 0.4:
            columns = {n: np.insert(column, other, column[row]) for n, column in columns.items()}
        else:
            for name in random.sample(CELLS + MORE_CELLS, random.choice((1, 1, 2))):
                column = columns[name]
                column[row], column[other] = column[other], column[row]
    arrays = [pa.array(columns[name]) for name in COLUMNS]
    return pa.Table.from_arrays(arrays, schema=OPS)


@given(SEEDS)
@settings(max_examples=examples(30), phases=SEEDED)
def test_whatever_is_damaged(seed: int) -> None:
    """No row can be changed so that the exact checks find something and the sums do not."""
    w = fixture(seed % 20)
    table, contexts = table_and_contexts(w.lines, w.meta)
    agree(damaged(table, Random(seed)), contexts)


@given(SEEDS)
@example(1101025)  # epochs of KIP-848
@example(1101070)  # a share group that commits
@example(1101097)  # an assignment that failed
@example(1103747)  # a dump of markers alone
@example(1105074)  # an aborted record, sent again
@settings(max_examples=examples(30), phases=SEEDED)
def test_whatever_clients_do(seed: int) -> None:
    """Nothing is looked at that the exact checks leave out, or it would hold and is not checked."""
    try:
        table, contexts = table_and_contexts(*dense_trace(seed))
    except BadInput:
        reject()
    quick, exact = said(alone.find(table, contexts)), said(local.find(table, contexts, COVERED))
    if "L2" in exact and all(exact["L2"][0]):  # what an application sent twice is not seen
        for one in (quick, exact):
            one.pop("L2", None)
    assert quick.keys() <= exact.keys()
    assert all(quick.get(check, ({}, [], True)) == exact[check] for check in exact)


def test_commits_of_a_group_whose_members_have_epochs_are_not_looked_at() -> None:
    """G1 and G4 are about generations, which KIP-848 has not: quick said that they hold."""
    one = {"group": "g", "member": "c", "generation": 1}
    lines = in_order(
        ("c0#0", "assigned", 1, {**one, "partitions": ["t:0"]}),
        ("c0#0", "commit", 2, {**one, "offsets": {"t:0": 0}}),
    )
    for protocol, wanted in (("classic", {"G1", "G4"}), ("consumer", set[str]())):
        settings = {"c0": {"group": "g", "group_protocol": protocol}}
        table, contexts = table_and_contexts(lines, meta() | {"consumers": settings})
        for found in (alone.find(table, contexts), local.find(table, contexts, COVERED)):
            assert said(found).keys() & {"G1", "G4"} == wanted


@pytest.fixture(scope="module")
def clean() -> tuple[Any, Any]:
    """A trace of which every partition is vouched for, before it is damaged."""
    made = Generated(plan_of(20_000, anomalies=0))
    return table_of(made), {0: made.context()}


@given(seed=SEEDS)
@settings(max_examples=examples(15), phases=SEEDED)
def test_whatever_is_damaged_where_there_was_no_doubt(clean: tuple[Any, Any], seed: int) -> None:
    table, contexts = clean
    agree(damaged(table, Random(seed)), contexts)


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("generated") / "run"
    write_parquet(Generated(plan_of(80_000, anomalies=1)), folder)
    return folder


@pytest.mark.spark
def test_spark_finds_the_same(spark: SparkSession, generated: Path) -> None:
    """From files that its workers read themselves, and from any other table."""
    contexts = {0: context_in(generated)}
    expected = said(alone.find(pq.read_table(generated / "ops"), contexts))
    files = read_ops(spark, str(generated / "ops"))
    for ops in (files, spark.read.parquet(str(generated / "ops"))):
        found = [row.asDict(recursive=True) for row in prechecks.find(ops, contexts).collect()]
        assert said(found) == expected


@pytest.mark.spark
def test_small_partitions_are_left_to_the_exact_checks_all_at_once(
    spark: SparkSession, generated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pre-check costs a millisecond for each partition, whatever its rows: 100,000 took 113 s."""
    monkeypatch.setattr(quick, "FEW_RECORDS", 1_000)
    table, contexts = pq.read_table(generated / "ops"), {0: context_in(generated)}
    looked: list[int] = []

    class Watched(PartitionSummaries):
        def __attrs_post_init__(self) -> None:
            looked.append(len(self.summaries))
            super().__attrs_post_init__()

    monkeypatch.setattr(quick, "PartitionSummaries", Watched)
    left = alone.doubts(table, contexts)
    partitions = {
        row for row in zip(*(table[n].to_pylist() for n in KEY), strict=True) if row[2] >= 0
    }
    assert 0 < len(looked) < len(partitions) / 4
    assert len(left.partitions) + len(looked) >= len(partitions)
    judged: list[str] = []

    def judge(columns: Any, scope: str, *more: Any, **named: Any) -> list[dict[str, Any]]:
        judged.append(scope)
        return kernel.judge(columns, scope, *more, **named)

    monkeypatch.setattr(alone, "judge", judge)
    found = alone.find(table, contexts)
    assert judged.count("partition") == 1
    exact = said(local.find(table, contexts, COVERED))
    assert said(found) == exact
    rows = prechecks.find(read_ops(spark, str(generated / "ops")), contexts).collect()
    assert said([row.asDict(recursive=True) for row in rows]) == exact


def clustered(rows: list[tuple[int, int]], pieces: int) -> Any:
    """Polls of one process, (seq, offset), in a table that is clustered by offset."""
    columns: dict[str, Any] = {name: np.full(len(rows), -1) for name in COLUMNS}
    columns |= {name: np.zeros(len(rows), int) for name in ("run", "topic", "partition", "process")}
    columns |= {name: np.zeros(len(rows), int) for name in ("idx", "outcome", "flags", "clock")}
    columns["seq"], columns["offset"] = (np.array(column) for column in zip(*rows, strict=True))
    columns |= {"op": np.full(len(rows), int(Op.POLL)), "id": columns["offset"]}
    table = pa.table([pa.array(columns[n], t) for n, t in COLUMNS.items()], OPS)
    size = len(rows) // pieces
    return pa.Table.from_batches(
        [b for n in range(pieces) for b in table[n * size :][:size].to_batches()]
    )


def test_rows_that_lie_in_no_order_are_looked_at_exactly() -> None:
    """Each piece goes forward and begins above the one before, and the reader went back."""
    w = fixture(1)
    _, contexts = table_and_contexts(w.lines, w.meta)
    table = clustered([(0, 0), (2, 1), (1, 2), (3, 3)], pieces=2)
    assert [batch.num_rows for batch in table.to_batches()] == [2, 2]
    assert alone.doubts(table, contexts).disorder == {0}
    found = tally(alone.find(table, contexts))[0]
    assert found["C2"].total == 1
    agree(table, contexts, seen=True)


def test_what_another_group_was_given_when_the_clock_began_vouches_for_no_commit() -> None:
    """The time and the group of a commit were left out of its summary, and both read as 0."""
    one = [{"topic": "t", "partition": 0, "offset": 0, "id": 1}]
    g, h = ({"group": name, "member": name, "generation": 1} for name in "gh")
    lines = in_order(
        ("p0#0", "send", 0, {"records": one}),
        ("d0#0", "assigned", 0, {**h, "partitions": ["t:0"]}),
        ("d0#0", "poll", 0, {"group": "h", "records": one}),
        ("d0#0", "commit", 0, {**h, "offsets": {"t:0": 1}}),
        ("c0#0", "assigned", 5, {**g, "partitions": ["t:0"]}),
        ("c0#0", "commit", 6, {**g, "offsets": {"t:0": 1}}),
        ("c0#0", "poll", 7, {"group": "g", "records": one}),
        ("s0#0", "scan", 9, {"records": one, "offsets": {"t:0": 1}}),
    )
    table, contexts = table_and_contexts(lines, meta())
    assert tally(local.find(table, contexts, {"G6"}))[0]["G6"].total == 1
    agree(table, contexts)


def in_order(*calls: tuple[str, str, int, Line]) -> dict[str, list[Line]]:
    """The lines of these calls, each with its process, its verb and when it began and ended."""
    lines: dict[str, list[Line]] = {}
    for process, op, at, more in calls:
        mine = lines.setdefault(process, [])
        call = {"process": process, "seq": len(mine), "op": op, "outcome": "ok"}
        mine.append(call | {"invoked_ns": at, "returned_ns": at} | more)
    return lines


def test_markers_alone_are_a_dump() -> None:
    """Of a log of which compaction left nothing but markers quick mode did not look at L12."""
    markers = [{"topic": "t", "partition": 0, "offset": n, "epoch": 2 - n} for n in range(2)]
    dump = {"replica": 1, "control": "commit", "transactional": True}
    lines = in_order(*(("b1", "dump", 1, {**dump, "records": [one]}) for one in markers))
    table, contexts = table_and_contexts(lines, meta())
    assert set(table["op"].to_pylist()) == {int(Op.MARKER)}
    assert tally(local.find(table, contexts, {"L12"}))[0]["L12"].total == 1
    agree(table, contexts)


def test_rows_in_order_are_not_taken_for_disorder() -> None:
    w = fixture(1)
    table, contexts = table_and_contexts(w.lines, w.meta)
    for size in (7, 50, 10_000):
        pieces = pa.Table.from_batches(table.to_batches(max_chunksize=size))
        assert not alone.doubts(pieces, contexts).disorder


def test_too_many_unanswered_sends_are_left_to_the_exact_checks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table, contexts = two_unanswered()
    for most, left in ((1, set(contexts)), (2, set[int]())):
        monkeypatch.setattr(quick, "MOST_UNSURE", most)
        assert alone.doubts(table, contexts).disorder == left
        agree(table, contexts, seen=True)


@pytest.mark.spark
def test_and_so_by_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, contexts = two_unanswered()
    pq.write_table(table, tmp_path / "ops.parquet")
    for most, left in ((1, set(contexts)), (2, set[int]())):
        monkeypatch.setattr(quick, "MOST_UNSURE", most)
        ops = read_ops(spark, str(tmp_path))
        assert prechecks.doubts(ops, contexts).disorder == left


def two_unanswered() -> tuple[Any, Any]:
    """A record that was sent and read, and two of which nobody knows."""
    calls = story("p0 send 1@0; p0 send 2 outcome=info; p0 send 3 outcome=info; scan 1@0 end=1")
    return table_and_contexts(*trace(*calls))
