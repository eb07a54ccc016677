"""A partition that is cut into blocks tells what it tells as a whole, to the last witness."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.traces.anomalous import NAMES
from tests.traces.fixture import fixture
from tests.traces.judging import SEEDED, examples
from tests.traces.test_precheck import damaged, table_and_contexts, with_anomaly
from tests.traces.test_recordings import KEPT
from traces.engines import blocks, cutting, kernel, local, packed_batches
from traces.engines.cutting import Limits
from traces.engines.spark import cuts_of, find, read_ops
from traces.generate.schedule import plan_of
from traces.generate.write import Generated, context_in, table_of, write_parquet
from traces.ingest.run import read_trace
from traces.model.arrow import pa, pq
from traces.model.context import same
from traces.model.schema import COLUMNS, NONE, OPS, Op, Outcome, Txn
from traces.verdicts.verdict import Tally, tally

SEEDS = st.integers(0, 10**9)
SMALL = Limits(rows=30, block=20, boundary=10_000)
MEDIUM = Limits(rows=2_000, block=1_500, boundary=10_000)

MANY = Limits(rows=2_000, block=900, boundary=10_000)


@pytest.fixture(autouse=True, scope="module")
def closely() -> Iterator[None]:
    """Every witness, not only the first few of each check, and tables in several pieces."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "WITNESSES", 10**9)
        for module in (packed_batches, local):
            patch.setattr(module, "HELD", 5_000)
        yield


def said(findings: list[dict[str, Any]]) -> Mapping[str, Any]:
    """Counts, clauses and all witnesses of each check."""
    return {
        check: (one.found, one.kinds, one.seen, one.extra, sorted(map(shown, one.witnesses)))
        for check, one in tally(findings).get(0, {}).items()
        if one != Tally()
    }


def shown(witness: tuple[int, list[dict[str, Any]]]) -> tuple[Any, ...]:
    clause, events = witness
    return (clause, *((e["process"], e["seq"], e["op"], e["offset"], e["id"]) for e in events))


def agree(table: Any, contexts: Any, limits: Limits) -> None:
    cuts = local.cuts_of(table, contexts, limits)
    assert len(cuts), "nothing was cut"
    assert all(one.blocks > 1 for one in cuts.cuts)
    whole, apart = local.find(table, contexts), local.find(table, contexts, limits=limits)
    assert said(apart) == said(whole)


@given(SEEDS)
@settings(max_examples=examples(5), phases=SEEDED)
def test_a_fixture_that_keeps_its_promises(seed: int) -> None:
    w = fixture(seed)
    agree(*table_and_contexts(w.lines, w.meta), SMALL)


@pytest.mark.parametrize("name", NAMES)
@given(seed=SEEDS)
@settings(max_examples=examples(1), phases=SEEDED)
def test_every_anomaly_in_it(name: str, seed: int) -> None:
    table, contexts = with_anomaly(name, seed)
    assume(len(local.cuts_of(table, contexts, SMALL)))  # not of compacted topics
    agree(table, contexts, SMALL)


@given(SEEDS)
@settings(max_examples=examples(10), phases=SEEDED)
def test_whatever_is_damaged(seed: int) -> None:
    w = fixture(seed % 20)
    table, contexts = table_and_contexts(w.lines, w.meta)
    table = damaged(table, Random(seed))
    assume(len(local.cuts_of(table, contexts, SMALL)))  # a share group may wait for its records now
    agree(table, contexts, SMALL)


@pytest.fixture(scope="module")
def generated() -> tuple[Any, Any]:
    made = Generated(plan_of(100_000))
    return table_of(made), {0: made.context()}


def test_every_lie_of_a_generated_trace(generated: tuple[Any, Any]) -> None:
    agree(*generated, MEDIUM)


@given(seed=SEEDS)
@settings(max_examples=examples(3), phases=SEEDED)
def test_whatever_is_damaged_in_it(generated: tuple[Any, Any], seed: int) -> None:
    table, contexts = generated
    table = damaged(table, Random(seed))
    assume(len(local.cuts_of(table, contexts, MEDIUM)))  # as above
    agree(table, contexts, MEDIUM)


@pytest.mark.parametrize("name", sorted(one.name for one in KEPT.iterdir() if one.is_dir()))
def test_every_recording_of_a_real_cluster(name: str) -> None:
    run = read_trace(KEPT / name)
    table = run.table(0)
    limits = Limits(rows=table.num_rows // 20, block=table.num_rows // 40, boundary=10**6)
    whole = local.find(table, {0: run.context})
    assert said(local.find(table, {0: run.context}, limits=limits)) == said(whole)


@pytest.mark.spark
def test_spark_finds_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """From files that its workers read themselves, and from any other table."""
    write_parquet(Generated(plan_of(80_000, anomalies=1)), tmp_path / "run")
    contexts = {0: context_in(tmp_path / "run")}
    expected = said(local.find(pq.read_table(tmp_path / "run" / "ops"), contexts))
    files = read_ops(spark, str(tmp_path / "run" / "ops"))
    for ops in (files, spark.read.parquet(str(tmp_path / "run" / "ops"))):
        assert len(cuts_of(ops, contexts, MEDIUM))
        found = [row.asDict(recursive=True) for row in find(ops, contexts, limits=MEDIUM).collect()]
        assert said(found) == expected


def test_rows_in_no_order_are_left_whole(generated: tuple[Any, Any]) -> None:
    """Neighbouring rows of a process cannot be found in pieces that hold rows from anywhere."""
    table, contexts = generated
    rows = np.random.default_rng(1).permutation(table.num_rows)
    assert len(local.cuts_of(table, contexts, MEDIUM))
    assert not len(local.cuts_of(table.take(rows), contexts, MEDIUM))


def test_what_is_little_else_than_its_frame_is_left_whole(generated: tuple[Any, Any]) -> None:
    assert not len(local.cuts_of(*generated, evolve(MEDIUM, boundary=10)))


# What the boundary is for: of each part of it, what a block that does not see it gets wrong.
Columns = dict[str, Any]
Pick = Callable[..., int]  # a record of this sort in this block, that no boundary holds


def here(c: Columns) -> Any:
    """The rows of the largest partition."""
    return (c["topic"] == 0) & (c["partition"] == 0)


def acknowledged_before_all(c: Columns, pick: Pick) -> str:
    """In the middle of its producer's reach to a block: neither its first row nor its last."""
    row, begin = pick(Op.SEND, 5), int(c["inv"].min())
    c["inv"][row], c["ret"][row] = begin + 1, begin + 2
    return "L9"


def read_at_two_offsets(c: Columns, pick: Pick) -> str:
    """Each block by itself sees the record at one place."""
    c["id"][pick(Op.SCAN, 6)] = c["id"][pick(Op.SCAN, 1)]
    return "L2"


def committed_nobody_knows_where(c: Columns, pick: Pick) -> str:
    """Nobody answered the send, so every block sees it, and one block sees it in the log."""
    row = pick(Op.SEND, 4)
    c["outcome"][row], c["offset"][row] = Outcome.INFO, NONE
    c["txn_state"][row], c["txn"][row] = Txn.COMMITTED, 1
    return "T1"


def skipped_at_the_border(c: Columns, pick: Pick) -> str:
    """Readers go on in the next block, and left out the last record of this one."""
    last = c["offset"][pick(Op.SCAN, 4, first=True)] - 1
    skipped = here(c) & (c["op"] == Op.POLL) & (c["offset"] == last)
    c["id"][skipped] = c["offset"][skipped] = NONE
    return "C1"


def stamped_earlier(c: Columns, pick: Pick) -> str:
    """One leader epoch in two blocks, beside another one with later times."""
    for block, nth, epoch, time in ((1, 0, 78, 300), (1, 1, 77, 200), (4, 0, 77, 100)):
        row = pick(Op.SCAN, block, nth)
        c["epoch"][row], c["timestamp"][row] = epoch, time
    return "L17"


def gap_in_a_dumped_session(c: Columns, pick: Pick) -> str:
    """A producer's batches in two blocks, among those of another producer."""
    for block, nth, pid, sequence in ((1, 0, 78, 0), (1, 1, 77, 0), (1, 2, 78, 1), (4, 0, 77, 5)):
        row = pick(Op.SCAN, block, nth)
        c["op"][row], c["node"][row], c["pepoch"][row] = Op.DUMP, 3, 0
        c["pid"][row], c["sequence"][row] = pid, sequence
    return "P2"


@pytest.fixture(scope="module")
def calm() -> tuple[Any, Any, Pick]:
    """A trace without an anomaly, whose leaders stamp, and a way to its innermost rows."""
    made = Generated(plan_of(60_000, seed=1, anomalies=0))
    table, contexts = table_of(made), {0: evolve(made.context(), append_time=same(1))}
    (cut,) = local.cuts_of(table, contexts, MANY).cuts
    columns = {name: table[name].to_numpy() for name in COLUMNS}
    inner = cut.here(columns) & ~cut.of_boundary(columns) & (columns["txn_state"] == Txn.NOT)
    homes = cut.homes(columns)

    def pick(op: Op, block: int, nth: int = 0, *, first: bool = False) -> int:
        every = cut.here(columns) & (columns["op"] == op) & (homes == block)
        if first:
            return int(np.flatnonzero(every)[np.argmin(columns["offset"][every])])
        rows = np.flatnonzero(every & inner)
        return int(rows[len(rows) // 2 + nth])

    return table, contexts, pick


def nothing(*_: Any) -> Any:
    return np.empty(0, np.int64)


PARTS: Mapping[str, tuple[Any, str, Any]] = {
    "the ends of ranges": (blocks, "_ranges", nothing),
    "extremes": (blocks, "_EXTREMES", ()),
    "what is beside a turn": (blocks, "_beside_turns", nothing),
    "scattered records": (cutting, "_scattered", nothing),
    "sends without an offset": (cutting, "_of_unknown_offset", nothing),
    **{
        " ".join(one): (blocks, "LANES", [x for x in blocks.LANES if x != one])
        for one in blocks.LANES
    },
}


@pytest.mark.parametrize(
    ("edit", "part"),
    [
        (acknowledged_before_all, "extremes"),
        (acknowledged_before_all, "what is beside a turn"),
        (read_at_two_offsets, "scattered records"),
        (committed_nobody_knows_where, "sends without an offset"),
        (skipped_at_the_border, "the ends of ranges"),
        (stamped_earlier, "op epoch"),
        (gap_in_a_dumped_session, "op node pid pepoch"),
    ],
)
def test_no_part_of_the_frame_can_be_left_out(
    calm: tuple[Any, Any, Pick], edit: Any, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, contexts, pick = calm
    columns = {name: table[name].to_numpy().copy() for name in COLUMNS}
    check = edit(columns, pick)
    arrays = [pa.array(columns[name], field.type) for name, field in zip(COLUMNS, OPS, strict=True)]
    edited = pa.Table.from_arrays(arrays, schema=OPS)
    whole = said(local.find(edited, contexts))
    if check != "T1":  # which is found where there is nothing
        assert whole[check][0]
    assert said(local.find(edited, contexts, limits=MANY)) == whole
    monkeypatch.setattr(*PARTS[part])
    assert said(local.find(edited, contexts, limits=MANY)) != whole
