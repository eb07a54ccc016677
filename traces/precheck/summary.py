"""The rows that stand for many: a kind, a place, three keys and eight numbers."""

from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Any

import numpy as np
from attrs import define, field

from traces.arrow import pa
from traces.context import Ints

KEYS, VALUES = 3, 8
NAMES = (
    *("kind", "run", "topic", "partition"),
    *(f"k{n}" for n in range(KEYS)),
    *(f"v{n}" for n in range(VALUES)),
)
SUMMARIES = pa.schema([(name, pa.int64()) for name in NAMES])
SUMMARIES_DDL = ", ".join(f"{name} bigint" for name in NAMES)
# The partition of what concerns a group, a producer or the order of rows; its topic says which.
NOWHERE = -2
PRODUCERS, GROUPS, ORDER = range(3)


class SummaryKind(IntEnum):
    """What a summary is of. Keys and values follow, in their order."""

    BLOCK = 0  # block, side, who: pairs, sums of both halves of their hashes
    PIECE = 1  # process, seq, idx: begun by, told, first, last, in order, records, who, first ret
    RUN = 2  # process, sort, sub: seq, idx, first, last, in order, rows, and what is beside both
    POSITION = (
        3  # process, seq, idx: highest told, commit above, first inv, last inv, its inv, group
    )
    UNSURE = 4  # id, process, seq: idx, must be there, of a transaction that is not kept
    SEEN = 5  # id, who: offset
    DOUBT = 6  # reason: the partition is to be judged exactly
    COUNT = 7  # what is counted: how much
    OWNER = 8  # group, generation, process
    REACH = 9  # group: highest offset that is committed
    GENERATION = 10  # group, generation: earliest assignment, latest commit, commits
    EPOCH = (
        11  # transactional id, producer id, process: seq, from, to, first sign, last send, n, init
    )
    SESSION = 12  # transactional id, process: first begin, last commit, commits
    INIT = 13  # transactional id, producer id: inv, producer epoch
    SPAN = 14  # process, whether of reads: the first seq and idx in a piece, the last seq and idx


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
        columns |= {f"k{n}": key for n, key in enumerate(keys)}
        columns |= {f"v{n}": value for n, value in enumerate(values)}
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
        """Those of one kind."""
        return self.where(self["kind"] == kind)

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
