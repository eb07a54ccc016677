"""The checks as Spark runs them: rows are packed, shuffled once, and judged where they arrive.

Nothing here creates or stops a session, and nothing needs the JVM's classes or RDDs: a check takes
a DataFrame (or the place of Parquet files) and answers with a lazy DataFrame.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from attrs import frozen
from pyspark.sql import DataFrame, SparkSession

from traces.arrow import pa
from traces.context import Context
from traces.kernel import FINDINGS, FINDINGS_DDL, chosen, columns_of, judge
from traces.parcels import PARCELS_DDL, Packer, unpack
from traces.scopes import SCOPES, Columns
from traces.splits import Split, read, splits_of, tasks
from traces.table import from_arrow

ROWS_OF_A_BUCKET = 250_000
BUCKETS_OF_A_TASK = 8  # where the number of rows is not known

Step = Callable[[Iterable[Any]], Iterator[Any]]
Keep = Callable[[Columns], Columns]


@frozen
class Files:
    """The table of operations in Parquet files, which the workers read themselves."""

    sparkSession: SparkSession  # noqa: N815  as a DataFrame names it
    splits: tuple[Split, ...]

    @property
    def rows(self) -> int:
        """How many rows there are."""
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
) -> DataFrame:
    """All findings of all checks, or of these, in all runs of `ops`; lazy, and few rows.

    All rows of a partition, group or producer fall into one of so many buckets. A task holds one
    bucket at a time, so more buckets mean less memory. `keep` leaves rows out of files while they
    are read; of a DataFrame `where` does that.
    """
    mine = chosen(checks)
    columns = {scope: columns_of(scope, checks, contexts) for scope, checks in mine.items()}
    names = tuple(dict.fromkeys(name for several in columns.values() for name in several))
    packer = Packer(columns, buckets or _buckets(ops))
    if isinstance(ops, Files):
        count = len(list(tasks(ops.splits)))
        parts = ops.sparkSession.range(0, count, 1, count)
        packed = parts.mapInArrow(_pack_files(packer, ops.splits, names, keep), PARCELS_DDL)
    else:
        held = [name for name in names if name in ops.columns]
        packed = ops.select(*held).mapInArrow(_pack_rows(packer, names), PARCELS_DDL)
    gathered = packed.repartition("bucket").sortWithinPartitions("bucket", "scope")
    return gathered.mapInArrow(_judge(contexts, checks), FINDINGS_DDL)


def _buckets(ops: DataFrame | Files) -> int:
    tasks = int(ops.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    if isinstance(ops, Files):
        return max(tasks, -(-ops.rows // ROWS_OF_A_BUCKET))
    return tasks * BUCKETS_OF_A_TASK


def _pack_files(
    packer: Packer, splits: tuple[Split, ...], names: tuple[str, ...], keep: Keep | None
) -> Step:
    def pack(batches: Iterable[Any]) -> Iterator[Any]:
        numbers = {number for batch in batches for number in batch.column(0).to_pylist()}
        for number, mine in enumerate(tasks(splits)):
            if number in numbers:
                pieces = read(mine, names)
                yield from packer(pieces if keep is None else map(keep, pieces))

    return pack


def _pack_rows(packer: Packer, names: tuple[str, ...]) -> Step:
    def pack(batches: Iterable[Any]) -> Iterator[Any]:
        return packer(from_arrow(batch, names) for batch in batches if batch.num_rows)

    return pack


def _judge(contexts: Mapping[int, Context], checks: Iterable[str] | None) -> Step:
    def judge_parcels(batches: Iterable[Any]) -> Iterator[Any]:
        mine, names = chosen(checks), list(SCOPES)
        rows = (row for batch in batches for row in _parcels(batch))
        for (_, number), several in groupby(rows, key=lambda row: row[:2]):
            scope = names[number]
            columns = unpack([parcel for *_, parcel in several])
            found = judge(columns, scope, mine[scope], contexts)
            yield pa.RecordBatch.from_pylist(found, schema=FINDINGS)

    return judge_parcels


def _parcels(batch: Any) -> Iterator[tuple[int, int, Any]]:
    buckets, scopes = batch.column("bucket").to_pylist(), batch.column("scope").to_pylist()
    for row, (bucket, scope) in enumerate(zip(buckets, scopes, strict=True)):
        yield bucket, scope, batch.column("parcel")[row].as_buffer()
