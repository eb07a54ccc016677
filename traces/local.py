"""The checks without Spark: the same kernels over one Arrow table in this process.

For a trace of a few hundred thousand rows Spark's start alone takes longer than all the checks.
The rules are the same because the functions are the same.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from traces.arrow import pa
from traces.context import Context
from traces.kernel import SCOPES, kernel
from traces.schema import NONE, Op


def find(ops: Any, contexts: Mapping[int, Context]) -> list[dict[str, Any]]:
    """All findings of all checks in all runs of this table."""
    return [
        row
        for scope in SCOPES
        for batch in kernel(scope, contexts)(rows_of(ops, scope))
        for row in batch.to_pylist()
    ]


def rows_of(ops: Any, scope: str) -> Iterator[Any]:
    """The rows that a scope looks at; `traces.spark` says the same in Column expressions."""
    op = ops["op"].to_numpy()
    if scope == "partition":
        wanted = (ops["topic"].to_numpy() != NONE) & (ops["partition"].to_numpy() != NONE)
    elif scope == "group":
        wanted = np.isin(op, (Op.COMMIT, Op.ASSIGNED)) & (ops["group"].to_numpy() != NONE)
    else:
        tid, pid = ops["tid"].to_numpy(), ops["pid"].to_numpy()
        calls = np.isin(op, (Op.SEND, Op.INIT_PRODUCER, Op.TXN_BEGIN, Op.TXN_COMMIT))
        wanted = calls & ((tid != NONE) | (pid != NONE))
        ops = ops.append_column("producer", pa.array(np.where(tid == NONE, pid, NONE)))
    yield from ops.filter(pa.array(wanted)).to_batches()
