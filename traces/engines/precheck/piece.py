"""A piece of the table of one run: its partitions numbered once, for several summaries."""

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from attrs import define, field

from traces.engines.precheck.sides import numbered
from traces.model.columns import Bools, Column, Columns, calls, firsts
from traces.model.context import Ints
from traces.model.schema import NONE, Flag, Op, Outcome
from traces.model.table import is_constant, take


@define(slots=False)
class PieceRows:
    """Rows as they lie in a file."""

    run: int
    columns: Columns
    topic_partition: Ints = field(init=False)  # the number of each row's partition
    topic: Ints = field(init=False)  # by number
    partition: Ints = field(init=False)
    ok: Bools = field(init=False)
    in_partition: Bools = field(init=False)
    record: Bools = field(init=False)

    def __attrs_post_init__(self) -> None:
        columns = self.columns
        self.topic_partition, first = numbered(columns["topic"], columns["partition"])
        self.topic = columns["topic"][first].astype(np.int64)
        self.partition = columns["partition"][first].astype(np.int64)
        nowhere = (self.topic == NONE) | (self.partition == NONE)
        self.in_partition = (
            ~nowhere[self.topic_partition]
            if nowhere.any()
            else np.ones(len(self.topic_partition), bool)
        )
        self.ok = columns["outcome"] == Outcome.OK
        self.record = self.in_partition & (columns["id"] != NONE)

    def __getitem__(self, name: str) -> Column:
        return self.columns[name]

    def called(self, *ops: Op) -> Bools:
        """The rows of these calls."""
        return calls(self.columns, *ops)

    def where(self, topic_partition: Column) -> tuple[Ints, Ints]:
        """Topic and partition of places by their numbers."""
        return self.topic[topic_partition], self.partition[topic_partition]

    def take(self, name: str, rows: Ints) -> Column:
        """These rows of a column."""
        return take(self.columns[name], rows)

    def ordered(self, rows: Ints) -> Ints:
        """These rows by partition and process, each process's own in its order."""
        if not self._forth:
            names = ("idx", "seq", "process")
            return rows[
                np.lexsort((*(self.take(n, rows) for n in names), self.topic_partition[rows]))
            ]
        if len(self.topic) == 1:
            return rows
        # Files are written process by process, so that places alone have to be sorted.
        topic_partition = self.topic_partition[rows]
        width = np.uint8 if len(self.topic) <= 256 else np.uint16
        return rows[
            np.argsort(
                topic_partition.astype(width) if len(self.topic) <= 65_536 else topic_partition,
                kind="stable",
            )
        ]

    def spans(self) -> tuple[Ints, ...]:
        """The first and the last row of each process: process, seq and idx, seq and idx.

        Copies of sends whose partition is unknown are left out: they are in files of their own.
        """
        rows = np.flatnonzero((self.columns["flags"] & Flag.UNKNOWN_PARTITION) == 0)
        names = ("process", "seq", "idx")
        if not self._forth:
            rows = rows[np.lexsort([self.take(name, rows) for name in reversed(names)])]
        start = np.flatnonzero(firsts(self.take("process", rows)))
        end = np.r_[start[1:], len(rows)][: len(start)] - 1
        process, *first = (self.take(name, rows[start]) for name in names)
        last = (self.take(name, rows[end]) for name in names[1:])
        return tuple(column.astype(np.int64) for column in (process, *first, *last))

    @cached_property
    def _forth(self) -> bool:
        """True if the rows are sorted by process, and each process's by its own order."""
        process, seq, idx = (self.columns[name] for name in ("process", "seq", "idx"))
        same, again = process[1:] == process[:-1], seq[1:] == seq[:-1]
        back = (seq[1:] < seq[:-1]) | (again & (idx[1:] < idx[:-1]))
        return not bool(np.any((same & back) | (process[1:] < process[:-1])))


def pieces_of(columns: Columns) -> Iterator[PieceRows]:
    """One piece for each run."""
    run = columns["run"]
    if is_constant(run) or bool(np.all(run == run[0])):
        yield PieceRows(int(run[0]), columns)
        return
    for one in np.unique(run).tolist():
        rows = np.flatnonzero(run == one)
        yield PieceRows(one, {name: column[rows] for name, column in columns.items()})
