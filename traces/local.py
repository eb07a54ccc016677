"""The checks without Spark: the same kernels over one Arrow table in this process.

For a trace of a few hundred thousand rows Spark's start alone takes longer than all the checks.
The rules are the same because the functions are the same.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from traces.context import Context
from traces.kernel import chosen, judge
from traces.scopes import SCOPES, Columns
from traces.table import from_arrow, take


def find(
    ops: Any, contexts: Mapping[int, Context], checks: Iterable[str] | None = None
) -> list[dict[str, Any]]:
    """All findings of all checks, or of these, in all runs of this table."""
    columns = from_arrow(ops)
    return [
        row
        for scope, mine in chosen(checks).items()
        for row in judge(rows_of(columns, scope), scope, mine, contexts)
    ]


def rows_of(columns: Columns, scope: str) -> Columns:
    """The rows that a scope looks at."""
    wanted = SCOPES[scope].wanted(columns)
    if bool(wanted.all()):
        return columns
    rows = np.flatnonzero(wanted)
    return {name: take(column, rows) for name, column in columns.items()}
