"""Assign rows to the sides of the equations, and collect the records that are not sure.

In every window of a partition, counted as pairs of a record and its offset:

* the final scan holds the records that were acknowledged, and those proved to be stored;
* a group was given the records that were acknowledged and committed;
* a group processed the records that it was given.

A send that nobody answered may be on either side. Its record is left out of all sums, and each of
its reads is listed by record.
"""

from collections.abc import Container, Sequence
from typing import Protocol

import numpy as np
from attrs import frozen

from traces.engines.precheck.hashing import pair_hash
from traces.model.columns import Bools, Column, Columns
from traces.model.context import Ints
from traces.model.schema import NONE, Flag, Isolation, Op, Outcome, Txn
from traces.model.table import is_constant

WINDOW_BITS = 12
KEPT, UNDONE, FINAL, GIVEN, DONE = range(5)  # sides
WHOLE, VISIBLE = -2, -3  # who: the final scan of everything, of what is committed
_READERS = -10  # and below: readers that are in no group
_WIDE = 1 << 32  # values as far apart as this are numbered before they are put together


class Sided(Protocol):
    """The part of a piece of the table that is needed here (`traces.engines.precheck.piece`)."""

    record: Bools

    def called(self, *ops: Op) -> Bools:
        """The rows of these calls."""
        ...

    def take(self, name: str, rows: Ints) -> Column:
        """These rows of a column."""
        ...


@frozen
class Unsure:
    """The records whose sends nobody answered, of all runs."""

    keys: Ints  # sorted
    _filter: Bools

    @classmethod
    def of(cls, runs: Ints, ids: Ints) -> "Unsure":
        """These records of these runs."""
        keys = np.unique(_keys(runs, ids))
        there = np.zeros(1 << 20, bool)
        there[_slots(keys)] = True
        return cls(keys, there)

    def among(self, run: int, ids: Column) -> Bools:
        """Mask of the ids that belong to these records."""
        keys = _keys(np.int64(run), ids)
        hit = self._filter[_slots(keys)] if len(self.keys) else np.zeros(len(ids), bool)
        found = np.flatnonzero(hit)
        at = np.minimum(np.searchsorted(self.keys, keys[found]), max(len(self.keys) - 1, 0))
        hit[found] = self.keys[at] == keys[found]
        return hit


def _keys(runs: Ints | np.int64, ids: Column) -> Ints:
    with np.errstate(over="ignore"):
        return ids.astype(np.int64) ^ (runs * np.int64(0x1E3779B97F4A7C15))


def _slots(keys: Ints) -> Ints:
    return (keys ^ (keys >> 20) ^ (keys >> 40)) & ((1 << 20) - 1)


def who_of(piece: Sided, rows: Ints, final: bool) -> Column:
    """On whose account a read is: of the final scan, of a group, or of a reader by itself."""
    committed = piece.take("isolation", rows) == Isolation.READ_COMMITTED
    if final:
        return WHOLE - committed.astype(np.int64)
    group = piece.take("group", rows).astype(np.int64)
    who = 2 * group + committed
    alone = np.flatnonzero(group == NONE)
    if len(alone):
        process = piece.take("process", rows[alone]).astype(np.int64)
        who[alone] = _READERS - 2 * process + committed[alone]
    return who


@frozen
class Sends:
    """The sends of a piece of a table."""

    rows: Ints
    acked: Bools
    kept: Bools
    unsure: Bools


def sends_of(piece: Sided) -> Sends:
    """The sends, acknowledged or kept; `traces.checks.partition` has the same of rows."""
    rows = np.flatnonzero(piece.called(Op.SEND) & piece.record)
    state, outcome = piece.take("txn_state", rows), piece.take("outcome", rows)
    acked = ((outcome == Outcome.OK) | (state == Txn.PROVED)) & (piece.take("offset", rows) >= 0)
    kept = (state == Txn.NOT) | (state == Txn.COMMITTED) | (state == Txn.PROVED)
    return Sends(rows, acked, kept, ~acked & (outcome != Outcome.FAIL))


def must_be_there(columns: Columns, rows: Ints) -> Bools:
    """Mask of the sends whose record must be in the log at the end (L4, T1)."""
    state, outcome = columns["txn_state"][rows], columns["outcome"][rows]
    whole = ((state == Txn.COMMITTED) | (state == Txn.PROVED)) & (outcome != Outcome.FAIL)
    stored = (outcome == Outcome.OK) & ((state == Txn.NOT) | whole)
    return (whole | stored) & ((columns["flags"][rows] & Flag.UNKNOWN_PARTITION) == 0)


def sums(
    groups: tuple[Column, ...], offsets: Column, ids: Column, seed: int
) -> tuple[tuple[Column, ...], Column, Ints, Ints, Ints]:
    """For each group of rows and each window: its keys, and how much is in it.

    Halves of the hash are added up apart, as whole numbers: they do not overflow, and Spark's SQL
    adds up the same.
    """
    hashes = pair_hash(ids, offsets, seed)
    window = offsets >> WINDOW_BITS
    number, first = numbered(*groups, window)
    size = len(first)
    low = np.bincount(number, (hashes & np.uint64(0xFFFFFFFF)).astype(np.float64), size)
    high = np.bincount(number, (hashes >> np.uint64(32)).astype(np.float64), size)
    count = np.bincount(number, minlength=size)
    keys = tuple(group[first] for group in groups)
    return keys, window[first], count, low.astype(np.int64), high.astype(np.int64)


def bearing(columns: Columns, names: Sequence[str], keys: Container[tuple[int, ...]]) -> Bools:
    """Mask of the rows that have one of these keys."""
    mine = [columns[name] for name in names]
    number, first = numbered(*mine)
    shown = zip(*(column[first].tolist() for column in mine), strict=True)
    return np.array([key in keys for key in shown], bool)[number]


def numbered(*columns: Column) -> tuple[Ints, Ints]:
    """A small number for each combination, and a row that has it."""
    number, size = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        if is_constant(column):
            continue
        low, high = (int(column.min()), int(column.max())) if len(column) else (0, 0)
        if high - low >= _WIDE:
            _, column = np.unique(column, return_inverse=True)
            low, high = 0, int(column.max())
        width = high - low + 1
        number, size = number * width + (column.astype(np.int64) - low), size * width
        if size > 4 * len(number) + 1024:
            _, first, number = np.unique(number, return_index=True, return_inverse=True)
            size = len(first)
    there = np.full(size, -1)
    there[number] = np.arange(len(number))
    used = np.flatnonzero(there >= 0)
    small = np.empty(size, np.int64)
    small[used] = np.arange(len(used))
    return small[number], there[used]
