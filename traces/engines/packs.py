"""Many small partitions are judged as one: a check that finds nothing in the pack needs no loop.

The partitions of a pack follow one another, as if they were one log. Each has offsets, ids,
processes, groups, epochs and times of its own, above those of the one before. So no row of one can
be taken for a row of another, and every later one has later times and higher offsets. If a check
finds nothing in the pack, every partition in it is clean. Otherwise the check judges each partition
alone, because the packing itself may have caused the finding.

Left out are partitions whose checks need one number of the whole partition: a log start above 0,
records removed by compaction or retention, share groups, dumps and former lives of a topic.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from attrs import evolve, fields, frozen

from traces.checks.partition import Partition
from traces.model.columns import Bools, Columns, calls
from traces.model.context import UNSET, Context, Ints, Setting
from traces.model.schema import DUMPS, NONE, Flag, Op
from traces.model.table import Lazy

# Checks that count what they look at only where a partition has something else as well: aborted
# transactions, committed ones, last stable offsets. Numbers of several do not add up then.
CONDITIONAL = frozenset({"T3", "T4", "T11"})
LARGE = 1_000  # rows of a partition that is judged by itself
FEWEST = 8  # partitions of a pack
ROWS = 100_000  # of a pack
_SPECIAL = (
    *(Op.ACQUIRE, Op.ACKNOWLEDGE, Op.WAITED, Op.LIST_OFFSETS, Op.TXN_OFFSETS),
    *(Op.FORGET, Op.DELETE_RECORDS, *DUMPS),
)
_APART = Flag.FORMER | Flag.REMADE | Flag.UNKNOWN_PARTITION
_TIMES = ("inv", "ret", "end_inv")
_LONGEST = 1 << 61


@frozen
class Lifted(Setting):
    """A setting by the numbers that processes or groups have in a pack."""

    real: Ints

    def __getitem__(self, numbers: Ints | np.int64 | int) -> Ints:
        there = np.asarray(numbers)
        return super().__getitem__(np.where(there >= 0, self.real[there % len(self.real)], there))


def packed(
    columns: Columns, spans: list[tuple[int, int]], context: Context
) -> Iterator[list[tuple[int, int]]]:
    """Group these partitions (rows from, to) of one run into packs."""
    shares = (context.lock, context.delivery_limit, context.share_committed_only)
    if context.jepsen or any((one.values != UNSET).any() for one in shares):
        return
    starts = np.array([start for start, _ in spans], np.int64)
    sizes = np.array([end - start for start, end in spans], np.int64)
    kind = np.where(sizes <= LARGE, _kinds(columns, starts), NONE)
    topic = columns["topic"][starts]
    kind[np.asarray(context.compacted[topic.astype(np.int64)]) != 0] = NONE
    for one in np.unique(np.stack([topic, kind], 1)[kind != NONE], axis=0).tolist():
        mine = np.flatnonzero((topic == one[0]) & (kind == one[1]))
        pack = np.cumsum(sizes[mine]) // ROWS
        for number in np.unique(pack).tolist():
            if np.count_nonzero(pack == number) >= FEWEST:
                yield [spans[at] for at in mine[pack == number].tolist()]


def _kinds(columns: Columns, starts: Ints) -> Ints:
    """NONE for a partition that is judged by itself; else what it has in common with others."""

    def some(rows: Bools) -> Bools:
        return np.logical_or.reduceat(rows, starts)

    ok, offset = columns["outcome"] == 0, columns["offset"]
    asked = calls(columns, Op.EARLIEST) & ok & (offset != NONE)
    final = (columns["flags"] & Flag.FINAL) != 0
    final &= calls(columns, Op.POLL, Op.SCAN) & ok & (columns["id"] != NONE) & (offset >= 0)
    apart = some(calls(columns, *_SPECIAL) | ((columns["flags"] & _APART) != 0))
    apart |= some(asked & (offset > 0))
    headless = ~some(asked) & some(final) & ~some(final & (offset == 0))
    return np.where(apart | headless, NONE, some(asked) * 2 + some(final))


def pack_of(whole: Lazy, spans: list[tuple[int, int]], context: Context) -> Partition | None:
    """Partitions one behind the other; None if their times are too many for one clock."""
    rows = np.concatenate([np.arange(start, end) for start, end in spans])
    rank = np.repeat(np.arange(len(spans)), [end - start for start, end in spans])

    def column(name: str) -> Ints:
        return whole[name][rows]

    def lifted(name: str) -> Ints:
        values = column(name)
        known = values != NONE
        if not known.any():
            return values
        low, high = int(values[known].min()), int(values[known].max())
        return np.where(known, values - low + rank * (high - low + 2), NONE)

    times = np.concatenate([column(name) for name in ("inv", "ret")])
    known = times[times != NONE]
    low, high = (int(known.min()), int(known.max())) if len(known) else (0, 0)
    if (high - low + 2) * len(spans) > _LONGEST:
        return None
    processes, groups = (np.unique(column(name)) for name in ("process", "group"))

    def load(name: str) -> Ints:
        values = column(name)
        if name in _TIMES:
            return np.where(values != NONE, values - low + rank * (high - low + 2), NONE)
        if name in ("process", "group"):
            real = processes if name == "process" else groups
            number = np.searchsorted(real, values) + rank * len(real)
            return np.where(values == NONE, NONE, number)
        if name == "offset":
            width = int(values.max(initial=0)) + 2
            return np.where(values >= 0, values + rank * width, values)
        if name == "id":
            order = np.lexsort((values, rank))
            new = np.r_[True, (np.diff(values[order]) != 0) | (np.diff(rank[order]) != 0)]
            number = np.empty(len(values), np.int64)
            number[order] = np.cumsum(new[: len(order)])
            return np.where(values == NONE, NONE, number)
        return lifted(name) if name in ("epoch", "timestamp") else values

    pack = Partition(Lazy(len(rank), load), _in_pack(context, processes, groups))
    pack.__dict__["log_start"] = 0
    return pack


_OF_GROUPS = ("order", "reset_latest", "classic", "processes")
_OF_TOPICS = (
    *("unclean", "min_isr", "compacted", "deletes", "append_time", "compaction_lag"),
    *("delete_retention", "unflushed", "partitions"),
)


def _in_pack(context: Context, processes: Ints, groups: Ints) -> Context:
    """The context by the numbers that processes and groups have in a pack."""
    changed: dict[str, Any] = {}
    for field in fields(Context):
        one = getattr(context, field.name)
        if isinstance(one, Setting) and field.name not in _OF_TOPICS:
            real = groups if field.name in _OF_GROUPS else processes
            changed[field.name] = Lifted(one.numbers, one.values, real)
    # Whoever had members all the time is excused less: partition by partition all is asked again.
    return evolve(context, **changed, lives=None, sizes=None)
