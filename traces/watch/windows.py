"""The newest rows of each partition, group and producer, which can be judged while more come.

A window bounds the cost of watching, in memory and for each batch. Dropping rows takes no finding
back, because a finding among fewer rows is one among all of them. A breach that is missed here is
found at the end, when the whole trace is judged.
"""

from collections.abc import Iterator

import numpy as np
from attrs import define, field

from traces.engines.scopes import SCOPES
from traces.model.columns import Column, MutableColumns, firsts
from traces.model.context import Ints

WindowKey = tuple[str, int, int]  # the scope, and what its rows have in common

#: So many rows are kept of each partition, and as many again come in before the oldest go.
ROWS = 50_000


@define
class Window:
    """The rows of one key."""

    pieces: list[MutableColumns] = field(factory=list[MutableColumns])
    rows: int = 0

    def add(self, piece: MutableColumns, keep: int) -> None:
        """Rows that came in; the oldest go when there are too many."""
        self.pieces.append(piece)
        self.rows += len(piece["op"])
        if self.rows > 2 * keep:
            self._drop(keep)

    def columns(self) -> MutableColumns:
        """All rows as one."""
        if len(self.pieces) > 1:
            first, *_ = self.pieces
            self.pieces = [{n: np.concatenate([p[n] for p in self.pieces]) for n in first}]
        return self.pieces[0]

    def _drop(self, keep: int) -> None:
        """Cut in time, and not between rows: a call goes with all that it was made in."""
        columns = self.columns()
        called = columns["inv"]
        oldest = np.partition(called, self.rows - keep)[self.rows - keep]
        kept = np.flatnonzero(called >= oldest)
        self.pieces = [{name: column[kept] for name, column in columns.items()}]
        self.rows = len(kept)


@define
class RunWindows:
    """The windows of a run, and which of them have changed."""

    keep: int = ROWS
    by_key: dict[WindowKey, Window] = field(factory=dict[WindowKey, Window])
    changed: set[WindowKey] = field(factory=set[WindowKey])
    _of_transactions: dict[int, set[WindowKey]] = field(factory=dict[int, set[WindowKey]])

    def add(self, columns: MutableColumns) -> None:
        """New rows, each to the keys that it belongs to."""
        for name, scope in SCOPES.items():
            wanted = np.flatnonzero(scope.wanted(columns))
            if not len(wanted):
                continue
            mine = {column: values[wanted] for column, values in columns.items()}
            for key, rows in _split(*scope.key(mine)):
                piece = {column: values[rows] for column, values in mine.items()}
                self._put((name, *key), piece)

    def ended(self, process: int) -> None:
        """A transaction of this process has ended: its rows say more than they did."""
        self.changed |= self._of_transactions.get(process, set())

    def all_changed(self) -> None:
        """The configuration is another."""
        self.changed |= set(self.by_key)

    def _put(self, key: WindowKey, piece: MutableColumns) -> None:
        self.by_key.setdefault(key, Window()).add(piece, self.keep)
        self.changed.add(key)
        for process in np.unique(piece["process"][piece["txn"] >= 0]):
            self._of_transactions.setdefault(int(process), set()).add(key)


def _split(one: Column, two: Column) -> Iterator[tuple[tuple[int, int], Ints]]:
    """The rows of each pair of values."""
    order = np.lexsort((two, one))
    one, two = one[order], two[order]
    starts = np.flatnonzero(firsts(one.astype(np.int64), two.astype(np.int64)))
    for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
        yield (int(one[start]), int(two[start])), np.sort(order[start:end])
