"""From calls to rows: the reader of process files, given a few calls at a time."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import define, field

from traces.ingest.clocks import contradicted, extremes, go_back, go_on, goes_back
from traces.ingest.columns import Malformed
from traces.ingest.process_file import Reader
from traces.ingest.transactions import write_transactions
from traces.ingest.validate import findings
from traces.model.columns import MutableColumns
from traces.model.names import Names
from traces.model.problems import BadInput, Problems
from traces.model.schema import COLUMNS, Txn
from traces.watch.following import Numbered

#: So many ended transactions of a process are remembered at least.
KEPT = 5_000


@define
class Transactions:
    """The outcomes of all processes' transactions, as far as their clients were answered."""

    #: By process and transaction, as the reader of process files keeps it.
    ends: dict[int, Any] = field(factory=dict[int, Any])

    def of(self, process: int) -> Any:
        """The ends of one process; those of long ago are forgotten, like their rows."""
        mine = self.ends.setdefault(process, {})
        for txn in sorted(mine)[: -KEPT if len(mine) > 2 * KEPT else 0]:
            del mine[txn]
        return mine

    def write(self, columns: MutableColumns) -> None:
        """Write the state of each row's transaction; one that has not ended is undecided."""
        for process in np.unique(columns["process"][columns["txn"] >= 0]).tolist():
            rows = np.flatnonzero(columns["process"] == process)
            mine = {name: column[rows].astype(np.int64) for name, column in columns.items()}
            write_transactions(mine, self.ends.get(process, {}), Txn.UNKNOWN)
            for name, column in mine.items():
                columns[name] = columns[name].astype(np.int64)
                columns[name][rows] = column


def rows_of(
    names: Names,
    process: str,
    file: str,
    calls: Sequence[Numbered],
    ended: Transactions,
    latest: dict[str, int],
) -> MutableColumns:
    """The rows of these calls of one process; what ended its transactions goes to `ended`.

    `latest` says when the last call before them was made, by clock.
    """
    reader = Reader(names, process)
    reader.ends = ended.of(reader.process)
    try:
        for line, call in sorted(calls, key=lambda item: item[1]["seq"]):
            reader.line = line
            reader.add(call)
        columns = reader.finish(torn=True)
    except (Malformed, LookupError, TypeError, ValueError, AttributeError, OverflowError):
        raise malformed(file, calls, process) from None
    times = extremes(columns, names)
    if goes_back(columns) or go_back(times, latest):
        raise _gone_back(file, calls, dict(latest))
    go_on(times, latest)
    columns["run"] = np.zeros(len(columns["op"]), np.int64)
    return narrow(columns)


def _gone_back(file: str, calls: Sequence[Numbered], latest: dict[str, int]) -> BadInput:
    """On which lines a clock went back."""
    problems = Problems()
    for line, call in sorted(calls, key=lambda item: item[1]["seq"]):
        for where, message in contradicted(call, latest):
            problems.add(file, line or None, where, message)
    return BadInput(problems.first, problems.count)


def narrow(columns: MutableColumns) -> MutableColumns:
    """As few bytes as the table of operations has: what is watched stays in memory."""
    return {name: columns[name].astype(kind.to_pandas_dtype()) for name, kind in COLUMNS.items()}


def malformed(file: str, calls: Sequence[Numbered], process: str = "") -> BadInput:
    """The error that names the wrong lines and fields."""
    problems = Problems()
    for line, call in calls:
        found = list(findings(call))
        for where, message in found:
            problems.add(file, line or None, where, message)
        if not found and process and call["process"] != process:
            message = f"expected {process!r} as on the first line, found {call['process']!r}"
            problems.add(file, line or None, "process", message)
    if not problems.count:
        problems.add(file, None, "", "cannot be read as trace format v1")
    return BadInput(problems.first, problems.count)
