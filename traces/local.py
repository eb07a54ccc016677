"""The checks without Spark: the same kernels over one Arrow table in this process.

For a trace of a few hundred thousand rows Spark's start alone takes longer than all the checks.
The rules are the same because the functions are the same.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from traces.context import Context
from traces.kernel import chosen, columns_of, judge
from traces.scopes import SCOPES, Columns
from traces.table import by_bucket, from_arrow, take

ROWS_AT_ONCE = 250_000  # about as many as the processor's caches hold


def find(
    ops: Any, contexts: Mapping[int, Context], checks: Iterable[str] | None = None
) -> list[dict[str, Any]]:
    """All findings of all checks, or of these, in all runs of this table."""
    columns = from_arrow(ops)
    found: list[dict[str, Any]] = []
    for scope, mine in chosen(checks).items():
        some = {name: columns[name] for name in columns_of(scope, mine, contexts)}
        for part in portions(some, scope):
            found += judge(part, scope, mine, contexts)
    return found


def portions(columns: Columns, scope: str) -> Iterator[Columns]:
    """The rows that a scope looks at, some keys at a time."""
    buckets = 1 + len(columns["op"]) // ROWS_AT_ONCE
    for _, rows in by_bucket(columns, SCOPES[scope], buckets):
        yield {name: take(column, rows) for name, column in columns.items()}


def rows_of(columns: Columns, scope: str) -> Columns:
    """The rows that a scope looks at."""
    rows = np.flatnonzero(SCOPES[scope].wanted(columns))
    return {name: take(column, rows) for name, column in columns.items()}
