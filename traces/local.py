"""The checks without Spark: the same kernels over one Arrow table in this process.

For a trace of a few hundred thousand rows Spark's start alone takes longer than all the checks.
The rules are the same because the functions are the same. So is the way: rows are packed a million
at a time and judged bucket by bucket, because sorting a whole table at once is slower by half.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from traces.context import Context
from traces.kernel import chosen, columns_of, judge
from traces.parcels import HELD, Packer, unpack
from traces.scopes import SCOPES, Columns
from traces.table import from_arrow, take

ROWS_OF_A_BUCKET = 250_000  # about as many as the processor's caches hold


def find(
    ops: Any, contexts: Mapping[int, Context], checks: Iterable[str] | None = None
) -> list[dict[str, Any]]:
    """All findings of all checks, or of these, in all runs of this table."""
    mine, names = chosen(checks), list(SCOPES)
    columns = {scope: columns_of(scope, some, contexts) for scope, some in mine.items()}
    used = list(dict.fromkeys(name for several in columns.values() for name in several))
    packer = Packer(columns, 1 + ops.num_rows // ROWS_OF_A_BUCKET)
    buckets: dict[tuple[int, int], list[Any]] = {}
    for packed in packer(from_arrow(batch, used) for batch in ops.to_batches(HELD)):
        (row,) = packed.to_pylist()
        buckets.setdefault((row["scope"], row["bucket"]), []).append(row["parcel"])
    found: list[dict[str, Any]] = []
    for number, bucket in sorted(buckets):
        scope = names[number]
        found += judge(unpack(buckets.pop((number, bucket))), scope, mine[scope], contexts)
    return found


def rows_of(columns: Columns, scope: str) -> Columns:
    """The rows that a scope looks at."""
    rows = np.flatnonzero(SCOPES[scope].wanted(columns))
    return {name: take(column, rows) for name, column in columns.items()}
