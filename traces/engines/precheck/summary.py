"""Rows that summarise many: a kind, a partition, up to three keys and eight values."""

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Any

import numpy as np
from attrs import define, field, frozen

from traces.model.arrow import pa
from traces.model.context import Ints

COMMON = ("kind", "run", "topic", "partition")
# Columns of the table; what they hold depends on the kind, and has a name there.
KEYS = tuple(f"key_{n}" for n in range(3))
VALUES = tuple(f"value_{n}" for n in range(8))
NAMES = (*COMMON, *KEYS, *VALUES)
SUMMARIES = pa.schema([(name, pa.int64()) for name in NAMES])
SUMMARIES_DDL = ", ".join(f"{name} bigint" for name in NAMES)
# The partition of what concerns a group, a producer or the order of rows; its topic says which.
NOWHERE = -2
PRODUCERS, GROUPS, ORDER = range(3)


class SummaryKind(IntEnum):
    """The kind of a summary."""

    WINDOW = 0  # the pairs of a record and an offset that one side has in a window of offsets
    PIECE = 1  # what a client read from one position on, within one file
    RUN = 2  # numbers that must not fall, and what stands beside the first and the last
    POSITION = 3  # the highest position a client was given, and the highest it committed above it
    UNSURE = 4  # a send that nobody answered
    SEEN = 5  # a read of the record of such a send
    DOUBT = 6  # a reason to judge the partition exactly
    COUNT = 7  # how many rows there are of one sort
    OWNER = 8  # who was assigned the partition
    REACH = 9  # the highest offset that a group committed
    GENERATION = 10  # the earliest assignment in a generation, and the latest commit
    EPOCH = 11  # when an epoch of a producer began, its first sign and its last send
    SESSION = 12  # a process's first and last transaction under one transactional id
    INIT = 13  # an initialisation of a producer
    SPAN = 14  # where the rows of a process begin and end in a piece of a table


@frozen
class Fields:
    """The names of the columns of a kind."""

    keys: tuple[str, ...]
    values: tuple[str, ...] = ()

    @property
    def columns(self) -> dict[str, str]:
        """The column of the table that holds each."""
        keys, values = zip(self.keys, KEYS, strict=False), zip(self.values, VALUES, strict=False)
        return dict(keys) | dict(values)


_ROW = ("process", "seq", "idx")
FIELDS: Mapping[SummaryKind, Fields] = {
    SummaryKind.WINDOW: Fields(("window", "side", "who"), ("pairs", "low", "high")),
    SummaryKind.PIECE: Fields(
        _ROW, ("begun", "start", "first", "last", "in_order", "records", "who", "first_ret")
    ),
    SummaryKind.RUN: Fields(
        ("process", "sort", "sub"),
        ("seq", "idx", "first", "last", "in_order", "rows", "beside_first", "beside_last"),
    ),
    SummaryKind.POSITION: Fields(_ROW, ("highest", "committed", "first_inv", "last_inv")),
    SummaryKind.UNSURE: Fields(("id", "process", "seq"), ("idx", "needed", "undone")),
    SummaryKind.SEEN: Fields(("id", "who", "side"), ("offset",)),
    SummaryKind.DOUBT: Fields(("reason",), ("rows",)),
    SummaryKind.COUNT: Fields(("what",), ("rows",)),
    SummaryKind.OWNER: Fields(("group", "generation", "process")),
    SummaryKind.REACH: Fields(("group",), ("highest", "commits")),
    SummaryKind.GENERATION: Fields(("group", "generation"), ("joined", "committed", "commits")),
    SummaryKind.EPOCH: Fields(
        ("tid", "pid", "process"),
        ("seq", "began", "settled", "first_sign", "last_send", "sends", "initialised"),
    ),
    SummaryKind.SESSION: Fields(("tid", "process"), ("begun", "ended", "commits")),
    SummaryKind.INIT: Fields(("tid", "pid"), ("inv", "epoch")),
    SummaryKind.SPAN: Fields(("process", "reads"), ("seq", "idx", "last_seq", "last_idx")),
}


@define
class SummaryBuilder:
    """Summaries, gathered column by column."""

    run: int
    parts: list[dict[str, Any]] = field(factory=list[dict[str, Any]])

    def add(
        self, kind: SummaryKind, topic_partition: tuple[Any, Any], keys: Iterable[Any], *values: Any
    ) -> None:
        """Several of one kind: arrays, or one number for all."""
        columns: dict[str, Any] = {"kind": int(kind), "run": self.run}
        columns["topic"], columns["partition"] = topic_partition
        columns |= zip(FIELDS[kind].columns.values(), (*keys, *values), strict=True)
        size = max(np.size(column) for column in columns.values())
        if all(np.size(column) in (1, size) for column in columns.values()) and size:
            if any(np.ndim(column) and not np.size(column) for column in columns.values()):
                return
            self.parts.append(columns | {"size": size})

    def batch(self) -> Any:
        """All of them as a record batch."""
        sizes = [part["size"] for part in self.parts]
        arrays = [
            np.concatenate(
                [
                    np.broadcast_to(np.asarray(part.get(name, 0), np.int64), size)
                    for part, size in zip(self.parts, sizes, strict=True)
                ]
            )
            for name in NAMES
        ]
        return pa.RecordBatch.from_arrays([pa.array(a) for a in arrays], schema=SUMMARIES)


@define
class Summaries:
    """Summaries as columns again."""

    columns: dict[str, Ints]

    @classmethod
    def of(cls, batches: Iterable[Any]) -> "Summaries":
        """Those of these record batches."""
        table = pa.Table.from_batches(list(batches), schema=SUMMARIES)
        return cls({n: table[n].to_numpy() for n in NAMES})

    def __len__(self) -> int:
        return len(self.columns["kind"])

    def __getitem__(self, name: str) -> Ints:
        return self.columns[name]

    def kind(self, kind: SummaryKind) -> "Summaries":
        """Those of one kind, under the names that their columns have there."""
        rows, named = self["kind"] == kind, FIELDS[kind].columns
        columns = {name: self[name][rows] for name in COMMON}
        return Summaries(columns | {name: self[of][rows] for name, of in named.items()})

    def where(self, rows: Any) -> "Summaries":
        """Some of them."""
        return Summaries({name: column[rows] for name, column in self.columns.items()})

    def sorted(self, *names: str) -> "Summaries":
        """In the order of these columns."""
        return self.where(np.lexsort([self[name] for name in reversed(names)]))

    def groups(self, *names: str) -> "Iterator[tuple[tuple[int, ...], Summaries]]":
        """Those that agree in these columns, in the order in which they came."""
        if not len(self):
            return
        order = np.lexsort([self[name] for name in reversed(names)])
        mine = self.where(order)
        change = np.zeros(len(mine), bool)
        change[0] = True
        for name in names:
            change[1:] |= mine[name][1:] != mine[name][:-1]
        starts = np.flatnonzero(change)
        for start, end in zip(starts, [*starts[1:], len(mine)], strict=True):
            yield (
                tuple(int(mine[name][start]) for name in names),
                mine.where(slice(int(start), int(end))),
            )
