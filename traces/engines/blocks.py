"""A partition that is too large for one task is cut into blocks of offsets, which are judged apart.

The checks compare the rows at one offset, the rows about one record, neighbours in the order of
one process, and extremes (first, last, lowest, highest). So a block is judged together with the
partition's *boundary rows*, which every block sees:

* all rows that are not about a record: assignments, commits, watermarks, ends of transactions;
* the first, last, earliest and latest row of each stretch of a process's rows in a block, and
  those beside a move of its position, or a watermark (was the poll empty?);
* records whose send has no offset, and records at offsets of more than one block, with all rows
  at the same offsets; and all rows about every record of the boundary.

A finding belongs to the block of the last record of its witness, and is counted there alone.
Boundary rows are looked at in each block; the "looked at" count counts each of them once.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
from attrs import define, evolve, frozen

from traces.checks.base import Found
from traces.checks.rows import Rows
from traces.model.columns import Bools, Column, Columns, calls, firsts
from traces.model.context import Ints
from traces.model.schema import NONE, Op
from traces.model.sorting import order_by
from traces.model.table import spans, take

PartitionKey = tuple[int, int, int]  # run, topic and partition
SHARED = -1  # the block that is nothing but the boundary
RECORDS = (
    *(Op.SEND, Op.POLL, Op.SCAN, Op.PROCESS, Op.DUMP, Op.ACQUIRE, Op.ACKNOWLEDGE),
    Op.LIST_OFFSETS,  # is judged where its answer lies
)
_READS = (Op.POLL, Op.SCAN)
_TURNS = (
    *(Op.ASSIGNED, Op.REVOKED, Op.LOST, Op.FORGET, Op.SEEK, Op.ASSIGN, Op.RESET),
    *(Op.PAUSE, Op.RESUME, Op.COMMITTED, Op.MARK),
)
# Rows that the checks take for neighbours: those of a process that agree in these columns.
LANES = (
    ("op", "outcome", "txn_state", "isolation"),
    ("op", "epoch"),
    ("op", "node", "pid", "pepoch"),
)
_EXTREMES = ("offset", "inv", "ret", "end_inv", "timestamp")
BORDER_COLUMNS = tuple(
    dict.fromkeys(
        ["run", "topic", "partition", "process", "seq", "idx", "id", "flags"]
        + [name for lane in LANES for name in lane]
        + [*_EXTREMES]
    )
)


@frozen(eq=False)
class Cut:
    """The blocks of one partition: their first offsets, and the records of the boundary."""

    partition: PartitionKey
    starts: Ints  # offsets, ascending; the first block has no lower end
    ids: Ints  # sorted
    offsets: Ints  # sorted

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return len(self.starts)

    def block(self, offsets: Column) -> Ints:
        """The block of each offset."""
        return np.maximum(np.searchsorted(self.starts, offsets, side="right") - 1, 0)

    def here(self, columns: Columns) -> Bools:
        """Mask of the rows of this partition."""
        here = columns["run"] == self.partition[0]
        return (
            here
            & (columns["topic"] == self.partition[1])
            & (columns["partition"] == self.partition[2])
        )

    def homes(self, columns: Columns) -> Ints:
        """The block of each row, SHARED if it is not about a record at an offset."""
        return np.where(_at_offsets(columns), self.block(columns["offset"]), SHARED)

    def of_boundary(self, columns: Columns) -> Bools:
        """Mask of the rows that every block is given."""
        ids, offsets = columns["id"], columns["offset"]
        known = (among(ids, self.ids) & (ids != NONE)) | among(offsets, self.offsets)
        return known | ~_at_offsets(columns) | calls(columns, Op.LIST_OFFSETS)


def among(values: Column, some: Ints) -> Bools:
    """Mask of the values that are among `some`, which is sorted."""
    if not len(some):
        return np.zeros(len(values), bool)
    return some.take(np.searchsorted(some, values), mode="clip") == values


def _at_offsets(columns: Columns) -> Bools:
    return calls(columns, *RECORDS) & (columns["offset"] >= 0)


@frozen(eq=False)
class JudgedUnit:
    """A unit of work of a partition that is cut: a block with boundary rows, or these alone."""

    cut: Cut
    block: int

    def own(self, found: Found, rows: Rows) -> Found:
        """The findings that belong to this block, and the rows looked at beyond the boundary's."""
        if self.block == SHARED:
            times = 1 - self.cut.blocks
            found = evolve(found, seen=times * found.seen, extra=times * found.extra)
        if not len(found.rows):
            return found
        homes = np.append(self.cut.homes(rows.columns), SHARED)  # where a witness has no more rows
        last = np.full(len(found.rows), SHARED)
        for column in homes[found.rows].T:
            last = np.where(column != SHARED, column, last)
        mine = last == self.block
        return evolve(found, rows=found.rows[mine], clause=found.clause[mine])


@define(slots=False)
class Cuts:
    """All partitions that are cut, and a number for each unit of each."""

    cuts: Sequence[Cut] = ()

    def __len__(self) -> int:
        return len(self.cuts)

    @cached_property
    def units(self) -> list[JudgedUnit]:
        """By their numbers."""
        return [JudgedUnit(cut, block) for cut in self.cuts for block in range(SHARED, cut.blocks)]

    def cut(self, columns: Columns) -> Bools:
        """Mask of the rows of partitions that are cut."""
        found = np.zeros(len(columns["op"]), bool)
        for cut in self.cuts:
            found |= cut.here(columns)
        return found

    def parts(self, columns: Columns, wanted: Bools) -> Iterator[tuple[range, Ints]]:
        """Rows, each time with the units that see them, by their numbers."""
        number = 0
        for cut in self.cuts:
            rows = np.flatnonzero(wanted & cut.here(columns))
            if len(rows):
                for blocks, some in _shares(cut, columns, rows):
                    yield range(number + 1 + blocks.start, number + 1 + blocks.stop), some
            number += 1 + cut.blocks


def _shares(cut: Cut, columns: Columns, rows: Ints) -> Iterator[tuple[range, Ints]]:
    names = ("op", "offset", "id")
    mine = {name: take(columns[name], rows) for name in names}
    of_boundary = cut.of_boundary(mine)
    boundary, others, homes = rows[of_boundary], rows[~of_boundary], cut.homes(mine)[~of_boundary]
    if len(boundary):
        yield range(SHARED, cut.blocks), boundary
    order = order_by(homes)
    for start, end in spans(homes[order]):
        block = int(homes[order[start]])
        yield range(block, block + 1), others[order[start:end]]


def border(columns: Columns, cut: Cut) -> Ints:
    """The boundary rows of a piece by their position; it has each process's rows in order."""
    rows = np.flatnonzero(_at_offsets(columns))
    found = np.zeros(len(columns["op"]), bool)
    if len(rows):
        home = cut.block(columns["offset"])
        process = columns["process"]
        sort = np.where(calls(columns, *_READS), int(Op.POLL), columns["op"])
        found[_ranges(rows, home, (process, sort), {})] = True
        for lane in LANES:
            extremes = {n: columns[n] for n in _EXTREMES} if lane == LANES[0] else {}
            keys = (process, *(columns[name] for name in lane))
            found[_ranges(rows, home, keys, extremes)] = True
        found[_beside_turns(columns, rows)] = True
    return np.flatnonzero(found)


def _ranges(rows: Ints, home: Ints, keys: tuple[Column, ...], extremes: Columns) -> Ints:
    """The first and the last row of each contiguous range, and those with the extreme values."""
    order = rows[order_by(*(key[rows] for key in keys))]
    begins = firsts(*(key[order] for key in keys), home[order])
    starts = np.flatnonzero(begins)
    found = [order[starts], order[np.r_[starts[1:], len(order)] - 1]]
    number = np.cumsum(begins) - 1
    for column in extremes.values():
        values = column[order].astype(np.int64)
        for best in (np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)):
            at = np.flatnonzero(values == best[number])
            found.append(order[at[firsts(number[at])]])
    return np.concatenate(found)


def _beside_turns(columns: Columns, records: Ints) -> Ints:
    """Records next to a move of their process's position or to a watermark, on either side."""
    turns = calls(columns, *_TURNS)
    there = turns.copy()
    there[records] = True
    rows = np.flatnonzero(there)
    turn = turns[rows]
    beside = np.zeros(len(rows), bool)
    beside[1:] |= turn[:-1]
    beside[:-1] |= turn[1:]
    return rows[beside & ~turn]
