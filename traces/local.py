"""The checks without Spark: the same kernels over one Arrow table in this process.

For a trace of a few hundred thousand rows Spark's start alone takes longer than all the checks.
The rules are the same because the functions are the same. So is the way: rows are packed a million
at a time and judged bucket by bucket, because sorting a whole table at once is slower by half.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from traces import cutting
from traces.arrow import pa
from traces.blocks import BORDER_COLUMNS, Cuts
from traces.columns import Columns
from traces.context import Context
from traces.cutting import LIMITS, Limits
from traces.kernel import chosen, columns_of, judge
from traces.parcels import HELD, Packer, unpack
from traces.scopes import SCOPES
from traces.table import from_arrow, take

ROWS_OF_A_BUCKET = 250_000  # about as many as the processor's caches hold


def find(
    ops: Any,
    contexts: Mapping[int, Context],
    checks: Iterable[str] | None = None,
    limits: Limits = LIMITS,
) -> list[dict[str, Any]]:
    """All findings of all checks, or of these, in all runs of this table.

    A partition of more rows than the limits say is judged block by block.
    """
    mine, names = chosen(checks), list(SCOPES)
    columns = {scope: columns_of(scope, some, contexts) for scope, some in mine.items()}
    used = list(dict.fromkeys(name for several in columns.values() for name in several))
    cuts = cuts_of(ops, contexts, limits) if "partition" in mine else Cuts()
    packer = Packer(columns, 1 + ops.num_rows // ROWS_OF_A_BUCKET, cuts)
    buckets: dict[tuple[int, int], list[Any]] = {}
    for packed in packer(from_arrow(batch, used) for batch in ops.to_batches(HELD)):
        (row,) = packed.to_pylist()
        buckets.setdefault((row["scope"], row["bucket"]), []).append(row["parcel"])
    found: list[dict[str, Any]] = []
    for number, bucket in sorted(buckets):
        scope = names[number]
        rows, unit = unpack(buckets.pop((number, bucket))), packer.unit(bucket)
        found += judge(rows, scope, mine[scope], contexts, unit)
    return found


def cuts_of(ops: Any, contexts: Mapping[int, Context], limits: Limits) -> Cuts:
    """How the partitions that are too large are cut."""
    if ops.num_rows <= limits.rows:
        return Cuts()
    counted = pa.Table.from_batches(cutting.stretches(_pieces(ops), limits), cutting.STRETCHES)
    cuts = cutting.laid_out(counted, contexts, limits)
    if not cuts:
        return Cuts()
    told = cutting.survey(_pieces(ops), cuts, 1)
    rows = (row for batch in cutting.gathered(told, cuts) for row in batch.to_pylist())
    return cutting.framed(rows, cuts, limits)


def _pieces(ops: Any) -> Iterator[Columns]:
    return (from_arrow(batch, BORDER_COLUMNS) for batch in ops.to_batches(HELD))


def rows_of(columns: Columns, scope: str) -> Columns:
    """The rows that a scope looks at."""
    rows = np.flatnonzero(SCOPES[scope].wanted(columns))
    return {name: take(column, rows) for name, column in columns.items()}
