"""The quick pre-checks in Spark: every row is read in place, and none is shuffled.

Only summaries are shuffled, some thousandths of the rows, to be put together by partition. Sends
are read first, so that the second pass knows the sends without an answer. Doubtful partitions go to
the exact checks, which shuffle their rows and no others.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import reduce
from typing import Any

import numpy as np
from attrs import frozen
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from traces.engines import spark as exact
from traces.engines.kernel import FINDINGS, FINDINGS_DDL
from traces.engines.precheck import quick
from traces.engines.precheck.order import MOVES
from traces.engines.precheck.quick import COVERED, GROUPED, PRODUCED, SEED, Answer, Doubts, answers
from traces.engines.precheck.sides import Unsure, bearing
from traces.engines.precheck.summarise import READ_COLUMNS, SEND_COLUMNS, Summariser
from traces.engines.precheck.summary import FIELDS, SUMMARIES_DDL, Summaries, SummaryKind
from traces.engines.spark import BatchStep, Files
from traces.model.arrow import pa
from traces.model.columns import Columns
from traces.model.context import Context
from traces.model.schema import Op
from traces.model.table import take

_SENDING = (Op.SEND, Op.INIT_PRODUCER, Op.TXN_BEGIN, Op.TXN_COMMIT)
_READING = (
    *(Op.POLL, Op.PROCESS, Op.COMMIT, Op.COMMITTED, Op.SCAN, Op.MARK, Op.EARLIEST, Op.LATEST),
    *(Op.PAUSE, Op.DUMP, Op.MARKER, Op.ACQUIRE, Op.ACKNOWLEDGE, *MOVES),
)
ANSWERS_DDL = "run int, topic int, partition int, what string, number bigint, doubt boolean"
_ANSWERS = pa.schema(
    [
        *((name, pa.int32()) for name in ("run", "topic", "partition")),
        *(("what", pa.string()), ("number", pa.int64()), ("doubt", pa.bool_())),
    ]
)


def find(ops: DataFrame | Files, contexts: Mapping[int, Context], seed: int = SEED) -> DataFrame:
    """The findings of all checks that are covered; the summaries are made at once.

    Those of the exact checks, for partitions where there is doubt, are made when they are asked
    for.
    """
    left = doubts(ops, contexts, seed)
    if left.disorder:
        return exact.find(ops, contexts, COVERED)
    return findings(ops, contexts, left)


def doubts(ops: DataFrame | Files, contexts: Mapping[int, Context], seed: int = SEED) -> Doubts:
    """The doubts left by the fingerprints and the order of these operations."""
    sent = summaries(ops, Summariser(seed), SEND_COLUMNS, _SENDING).persist()
    try:
        id = FIELDS[SummaryKind.UNSURE].columns["id"]
        open_ = sent.where(F.col("kind") == int(SummaryKind.UNSURE)).select("run", id)
        open_ = open_.limit(quick.MOST_UNSURE + 1).toArrow()
        if open_.num_rows > quick.MOST_UNSURE:
            return Doubts(disorder=set(contexts))
        unsure = Unsure.of(open_["run"].to_numpy(), open_[id].to_numpy())
        given = summaries(ops, Summariser(seed, unsure), READ_COLUMNS, _READING)
        together = sent.unionByName(given).repartition("run", "topic", "partition")
        step = _answers(contexts, quick.FEW_RECORDS)
        rows: list[Any] = together.mapInArrow(step, ANSWERS_DDL).collect()
    finally:
        sent.unpersist()
    return Doubts.of(Answer(*row) for row in rows)


def summaries(
    ops: DataFrame | Files, fold: Summariser, names: tuple[str, ...], calls: Collection[int]
) -> DataFrame:
    """Summaries of the rows of these calls; map-only, and lazy."""
    return exact.over(ops, fold, names, SUMMARIES_DDL, calls=calls)


def _answers(contexts: Mapping[int, Context], few: int) -> BatchStep:
    def work(batches: Iterable[Any]) -> Iterator[Any]:
        summaries = Summaries.of(batches)
        rows = [
            (a.run, a.topic, a.partition, a.what, a.number, a.doubt)
            for a in answers(summaries, contexts, few)
        ]
        if rows:
            columns = [list(column) for column in zip(*rows, strict=True)]
            yield pa.RecordBatch.from_arrays(
                [pa.array(c, f.type) for c, f in zip(columns, _ANSWERS, strict=True)],
                schema=_ANSWERS,
            )

    return work


def findings(ops: DataFrame | Files, contexts: Mapping[int, Context], left: Doubts) -> DataFrame:
    """The exact checks' findings where there is doubt; elsewhere, counts of things looked at."""
    left = left.widened()
    settled = pa.Table.from_pylist(left.settled(), schema=FINDINGS)
    parts = [ops.sparkSession.createDataFrame(settled, FINDINGS_DDL)]
    for names, keys, checks in (
        (("run", "topic", "partition"), set(left.partitions), left.checks),
        (("run",), {(run,) for run, _ in left.groups}, set(GROUPED)),
        (("run",), {(run,) for run, _ in left.producers}, set(PRODUCED)),
    ):
        if keys:
            parts.append(_exactly(ops, contexts, checks, Chosen(names, frozenset(keys))))
    return reduce(DataFrame.unionByName, parts)


@frozen
class Chosen:
    """Rows that have one of these keys."""

    names: tuple[str, ...]
    keys: frozenset[tuple[int, ...]]

    def __call__(self, columns: Columns) -> Columns:
        """Those of a piece of a file."""
        rows = np.flatnonzero(bearing(columns, self.names, self.keys))
        return {name: take(column, rows) for name, column in columns.items()}

    def among(self, ops: DataFrame) -> DataFrame:
        """Those of a DataFrame, which keep their order."""
        columns = zip(*sorted(self.keys), strict=True)
        table = pa.table([pa.array(c, pa.int32()) for c in columns], list(self.names))
        keys = ops.sparkSession.createDataFrame(table)
        return ops.join(F.broadcast(keys), list(self.names), "left_semi")


def _exactly(
    ops: DataFrame | Files, contexts: Mapping[int, Context], checks: set[str], chosen: Chosen
) -> DataFrame:
    if isinstance(ops, Files):
        return exact.find(ops, contexts, checks, keep=chosen)
    return exact.find(chosen.among(ops), contexts, checks)
