"""The history of one partition over time, as arrays of a size that does not grow with the run.

Time is cut into `BINS`. A curve keeps the first, last, lowest and highest value of each bin, so ten
rows and ten million draw alike, and no step back is smoothed away.
"""

from itertools import pairwise
from typing import TypeAlias

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from traces.model.columns import Bools, IntColumns, firsts
from traces.model.context import Ints

BINS = 480
CELLS = 160  # of time, and of offsets, in a plot of every record of a partition

Floats = NDArray[np.float64]
TopicPartition: TypeAlias = tuple[int, int]  # topic and partition


@frozen(eq=False)
class OffsetRanges:
    """The offsets touched over time: in each bin, the ranges from `low` to `high`."""

    at: Ints
    low: Ints
    high: Ints


@frozen(eq=False)
class Steps:
    """Values at times, in their order; of many in one bin only those that shape the curve."""

    at: Ints
    value: Ints


@frozen
class Scale:
    """From nanoseconds to bins."""

    start: int
    end: int

    def bins(self, at: Ints, number: int = BINS) -> Ints:
        """The bin of each time; times outside fall into the first or the last."""
        share = (at - self.start) / (self.end - self.start)
        return np.clip((share * number).astype(np.int64), 0, number - 1)


@frozen(eq=False)
class Series:
    """Times, offsets and ids of one partition, by time."""

    at: Ints
    offset: Ints
    id: Ints


_NONE = np.empty(0, np.int64)
NOTHING = Series(_NONE, _NONE, _NONE)


def by_partition(columns: IntColumns, rows: Bools, at: Ints) -> dict[TopicPartition, Series]:
    """These rows by partition, and in each by time."""
    chosen = np.flatnonzero(rows)
    topic, partition = columns["topic"][chosen], columns["partition"][chosen]
    order = np.lexsort((at[chosen], partition, topic))
    chosen, topic, partition = chosen[order], topic[order], partition[order]
    edges = [*np.flatnonzero(firsts(topic, partition)).tolist(), len(chosen)]
    out: dict[TopicPartition, Series] = {}
    for start, end in pairwise(edges):
        mine = chosen[start:end]
        key = int(topic[start]), int(partition[start])
        out[key] = Series(at[mine], columns["offset"][mine], columns["id"][mine])
    return out


def first_of_each(series: Series) -> tuple[Ints, Ints]:
    """The ids, sorted, and when each first came."""
    ids, first = np.unique(series.id, return_index=True)
    return ids, series.at[first]


def running(at: Ints, scale: Scale) -> Ints:
    return np.cumsum(np.bincount(scale.bins(at), minlength=BINS))


def spans(series: Series, scale: Scale) -> OffsetRanges:
    """The cells of a grid that hold anything, those of one bin joined where they touch."""
    if not len(series.at):
        return OffsetRanges(series.at, series.at, series.at)
    at, low = scale.bins(series.at, CELLS), series.offset
    height = max(int(low.max()) - int(low.min()) + 1, 1)
    step = max(height / CELLS, 1.0)
    cell = ((low - int(low.min())) / step).astype(np.int64)
    order = np.lexsort((low, cell, at))
    at, cell, low = at[order], cell[order], low[order]
    new = firsts(at) | (np.diff(cell, prepend=cell[0]) > 1)
    starts = np.flatnonzero(new)
    return OffsetRanges(
        at[starts], np.minimum.reduceat(low, starts), np.maximum.reduceat(low, starts)
    )


def end_of_log(sends: Series, reads: Series, scale: Scale) -> Floats:
    """The log end offset at the end of each bin, NaN while it is unknown.

    Acknowledgements give it, and also show when a log was truncated. If no senders are recorded,
    reads give a lower bound.
    """
    longest = sends if len(sends.at) else reads
    last = np.full(BINS, -1, np.int64)
    np.maximum.at(last, scale.bins(longest.at), longest.offset + 1)
    if not len(sends.at):
        last = np.maximum.accumulate(last)
    return _carried(np.where(last >= 0, last, np.nan))


def _carried(values: Floats) -> Floats:
    """Each gap filled with what came before it."""
    at = np.where(np.isnan(values), -1, np.arange(len(values)))
    at = np.maximum.accumulate(at)
    return np.where(at >= 0, values[at], np.nan)


def thinned(series: Series, scale: Scale) -> Steps:
    """A curve of steps in which each bin keeps its first, last, lowest and highest value."""
    if len(series.at) <= 2 * BINS:
        return Steps(series.at, series.offset)
    bins, index = scale.bins(series.at), np.arange(len(series.at))
    by_value = np.lexsort((index, series.offset, bins))
    edge = firsts(bins)
    last = np.r_[edge[1:], True]
    keep = [index[edge], index[last], by_value[edge], by_value[last]]
    chosen = np.unique(np.concatenate(keep))
    return Steps(series.at[chosen], series.offset[chosen])


def lag_behind(end: Floats, position: Series, scale: Scale) -> Floats:
    """The lag of a group behind the end of the log; before its first position, the end itself."""
    if not len(position.at):
        return end.copy()
    last = np.searchsorted(scale.bins(position.at), np.arange(BINS), side="right") - 1
    known = np.where(last >= 0, position.offset[np.maximum(last, 0)], 0)
    return np.maximum(end - known, 0)
