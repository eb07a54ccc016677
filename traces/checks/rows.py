"""Rows of a trace that are judged together: those of one partition, one group or one producer.

The rows arrive in any order and leave sorted by process and program order, so that a verdict
cannot depend on how the table was cut or shuffled.
"""

from collections.abc import Callable, Mapping
from functools import cached_property, wraps
from typing import Any, TypeVar

import numpy as np
from attrs import define

from traces.model.columns import Bools
from traces.model.context import Context, Ints
from traces.model.schema import Op, Outcome, Txn
from traces.model.table import Lazy

T = TypeVar("T")


@define(slots=False)
class Rows:
    """Columns of rows that belong together, in canonical order."""

    columns: Mapping[str, Ints]
    context: Context

    def __getattr__(self, name: str) -> Ints:
        try:
            column = self.columns[name]
        except KeyError as error:
            raise AttributeError(name) from error
        self.__dict__[name] = column  # found without asking here from now on
        return column

    def __len__(self) -> int:
        return len(self.columns["op"])

    def few(self, name: str, rows: Ints) -> Ints:
        """These rows of a column, which for their sake alone is not brought forth."""
        if name == "unit":
            txn = self.few("txn", rows)
            return np.where(txn >= 0, -2 - txn, self.few("seq", rows))
        columns = self.columns
        return columns.pick(name, rows) if isinstance(columns, Lazy) else columns[name][rows]

    @cached_property
    def txn_state(self) -> Ints:
        """The state of the transaction of each row.

        Where somebody else ends transactions, a partition at a time, a commit that was answered,
        or that was seen elsewhere, does not decide.
        """
        state = self.columns["txn_state"]
        if self.context.ends_known:
            return state
        committed = (state == Txn.COMMITTED) | (state == Txn.PROVED)
        return np.where(committed, int(Txn.UNKNOWN), state)

    @cached_property
    def _rows_of(self) -> dict[tuple[Op, ...], Ints]:
        return {}

    @cached_property
    def _there(self) -> frozenset[int]:
        """The calls that there are."""
        return frozenset((np.flatnonzero(np.bincount(self.op + 1)) - 1).tolist())

    def where(self, *ops: Op) -> Ints:
        """The rows of these calls, in order."""
        if ops not in self._rows_of:
            rows = np.flatnonzero(self.called(*ops))
            rows.flags.writeable = False  # several checks get the same
            self._rows_of[ops] = rows
        return self._rows_of[ops]

    def called(self, *ops: Op) -> Bools:
        """Mask of the rows of these calls."""
        wanted = np.zeros(len(self), bool)
        for op in self._there.intersection(ops):
            wanted |= self.op == op
        return wanted

    def has(self, flag: int) -> Bools:
        """Mask of the rows that carry the flag."""
        return (self.flags & flag) != 0

    @cached_property
    def ok(self) -> Bools:
        """Rows of calls that certainly happened."""
        return self.outcome == Outcome.OK

    @cached_property
    def done(self) -> Bools:
        """As `ok`, or nobody answered and a reader has shown since that it happened."""
        return self.ok | (self.txn_state == Txn.PROVED)

    @cached_property
    def unit(self) -> Ints:
        """The transaction that a row belongs to, or its call where there is none; per process."""
        return np.where(self.txn >= 0, -2 - self.txn, self.seq)


def once(function: Callable[[Any], T]) -> Callable[[Any], T]:
    """A function whose answer is kept: several checks ask it of the same rows."""
    name = f"{function.__module__}.{function.__qualname__}"

    @wraps(function)
    def answer(rows: Any) -> T:
        if name not in rows.__dict__:
            rows.__dict__[name] = function(rows)
        return rows.__dict__[name]

    return answer
