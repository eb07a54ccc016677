"""The checks as Spark runs them: rows are packed, shuffled once, and judged where they arrive.

Nothing here creates or stops a session, and nothing needs the JVM's classes or RDDs: a check takes
a DataFrame (or the place of Parquet files) and answers with a lazy DataFrame.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from attrs import frozen
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from traces.engines import cutting
from traces.engines.blocks import BORDER_COLUMNS, Cuts
from traces.engines.cutting import LIMITS, STATISTICS_DDL, STRETCHES, STRETCHES_DDL, Limits
from traces.engines.kernel import FINDINGS, FINDINGS_DDL, chosen, columns_of, judge
from traces.engines.packed_batches import PACKED_BATCHES_DDL, Packer, unpack
from traces.engines.scopes import SCOPES
from traces.model.arrow import pa
from traces.model.columns import Columns
from traces.model.context import Context
from traces.model.frames import Layout
from traces.model.problems import Problems
from traces.model.schema import wrong_columns
from traces.model.splits import Split, SplitPlan, read, splits_of
from traces.model.table import refuse_unknown

ROWS_OF_A_BUCKET = 250_000
BUCKETS_OF_A_TASK = 8  # where the number of rows is not known

BatchStep = Callable[[Iterable[Any]], Iterator[Any]]  # over record batches
Work = Callable[[Iterable[Columns]], Iterator[Any]]  # over pieces of a table
Keep = Callable[[Columns], Columns]


@frozen
class Files:
    """The table of operations in Parquet files, which the workers read themselves."""

    sparkSession: SparkSession  # noqa: N815  as a DataFrame names it
    splits: tuple[Split, ...]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(split.rows for split in self.splits)


def read_ops(spark: SparkSession, *paths: str) -> Files:
    """The operations of one or more runs: Parquet files, or folders of them, by path or URI."""
    return Files(spark, splits_of(paths))


def find(
    ops: DataFrame | Files,
    contexts: Mapping[int, Context],
    checks: Iterable[str] | None = None,
    buckets: int | None = None,
    keep: Keep | None = None,
    limits: Limits | None = LIMITS,
) -> DataFrame:
    """All findings of all checks, or of these, in all runs of `ops`; lazy, and few rows.

    All rows of a partition, group or producer fall into one of so many buckets. A task holds one
    bucket at a time, so more buckets mean less memory. A partition of more rows than the `limits`
    say is cut into blocks, each a bucket of its own; `ops` are looked at at once to find such, but
    for no limits.
    `keep` leaves rows out of files while they are read; of a DataFrame `where` does that.
    """
    mine = chosen(checks)
    columns = {scope: columns_of(scope, checks, contexts) for scope, checks in mine.items()}
    names = tuple(dict.fromkeys(name for several in columns.values() for name in several))
    cuts = cuts_of(ops, contexts, limits, keep) if limits and "partition" in mine else Cuts()
    packer = Packer(columns, buckets or _buckets(ops), cuts)
    packed = over(ops, packer, names, PACKED_BATCHES_DDL, keep)
    gathered = packed.repartition("bucket").sortWithinPartitions("bucket", "scope")
    return gathered.mapInArrow(_judge(contexts, checks, packer), FINDINGS_DDL)


def cuts_of(
    ops: DataFrame | Files,
    contexts: Mapping[int, Context],
    limits: Limits,
    keep: Keep | None = None,
) -> Cuts:
    """Cut the partitions that are too large, in two jobs; the second only if there are any."""
    if isinstance(ops, Files) and ops.rows <= limits.rows:
        return Cuts()
    names = ("run", "op", "topic", "partition", "offset", "flags")
    counted = over(ops, partial(cutting.stretches, limits=limits), names, STRETCHES_DDL, keep)
    keys = [name for name in STRETCHES.names if name != "rows"]
    cuts = cutting.laid_out(
        counted.groupBy(*keys).agg(F.sum("rows").alias("rows")).toArrow(), contexts, limits
    )
    if not cuts:
        return Cuts()
    look = partial(cutting.statistics, cuts=cuts, buckets=_buckets(ops))
    found = over(ops, look, BORDER_COLUMNS, STATISTICS_DDL, keep).repartition("bucket")
    kept = found.mapInArrow(partial(cutting.gathered, cuts=cuts), STATISTICS_DDL)
    return cutting.of_boundary(kept.toArrow().to_pylist(), cuts, limits)


def over(
    ops: DataFrame | Files,
    step: Work,
    names: Sequence[str],
    ddl: str,
    keep: Keep | None = None,
    calls: Collection[int] | None = None,
) -> DataFrame:
    """Apply a step to the pieces of a table; map-only, and lazy.

    It reads these columns, and skips pieces of files that hold none of these calls.
    """
    if isinstance(ops, Files):
        plan = SplitPlan.of(ops.splits)
        parts = ops.sparkSession.range(0, len(plan), 1, len(plan))
        return parts.mapInArrow(_files(step, plan, names, keep, calls), ddl)
    refuse_other_tables(ops)
    mine = ops if calls is None else ops.where(F.col("op").isin([int(op) for op in calls]))
    layout = Layout.of(ops, names)
    return layout.packed(mine).mapInArrow(_rows(step, layout, names), ddl)


def refuse_other_tables(ops: DataFrame) -> None:
    """Raise `BadInput` unless these are operations: a missing column would read as unknown."""
    problems = Problems()
    known = {"tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64()}
    fields = [(name, known.get(kind, pa.string())) for name, kind in ops.dtypes]
    types = dict(ops.dtypes)
    for name, message in wrong_columns(pa.schema(fields)):
        problems.add("DataFrame", None, name, message.replace("string", types.get(name, "")))
    problems.raise_any()


def _buckets(ops: DataFrame | Files) -> int:
    tasks = int(ops.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    if isinstance(ops, Files):
        return max(tasks, -(-ops.rows // ROWS_OF_A_BUCKET))
    return tasks * BUCKETS_OF_A_TASK


def _files(
    step: Work,
    plan: SplitPlan,
    names: Sequence[str],
    keep: Keep | None,
    calls: Collection[int] | None,
) -> BatchStep:
    def work(batches: Iterable[Any]) -> Iterator[Any]:
        for number in [n for batch in batches for n in batch.column(0).to_pylist()]:
            pieces = map(refuse_unknown, read(plan[number], names, calls))
            yield from step(pieces if keep is None else map(keep, pieces))

    return work


def _rows(step: Work, layout: Layout, names: Sequence[str]) -> BatchStep:
    def work(batches: Iterable[Any]) -> Iterator[Any]:
        return step(
            refuse_unknown(layout.unpacked(batch, names)) for batch in batches if batch.num_rows
        )

    return work


def _judge(
    contexts: Mapping[int, Context],
    checks: Iterable[str] | None,
    packer: Packer,
) -> BatchStep:
    def judge_packed_batches(batches: Iterable[Any]) -> Iterator[Any]:
        mine, names = chosen(checks), list(SCOPES)
        rows = (row for batch in batches for row in _packed_batches(batch))
        for (bucket, number), several in groupby(rows, key=lambda row: row[:2]):
            scope = names[number]
            columns = unpack([packed for *_, packed in several])
            found = judge(columns, scope, mine[scope], contexts, packer.unit(bucket), foreign=True)
            yield pa.RecordBatch.from_pylist(found, schema=FINDINGS)

    return judge_packed_batches


def _packed_batches(batch: Any) -> Iterator[tuple[int, int, Any]]:
    buckets, scopes = batch.column("bucket").to_pylist(), batch.column("scope").to_pylist()
    for row, (bucket, scope) in enumerate(zip(buckets, scopes, strict=True)):
        yield bucket, scope, batch.column("packed")[row].as_buffer()
