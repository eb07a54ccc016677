"""Client activity over time: numbers of records, latencies, and the times each process was busy."""

from itertools import pairwise

import numpy as np
from attrs import field, frozen

from traces.html.series import BINS, CELLS, Floats, Scale
from traces.model.columns import Bools, IntColumns
from traces.model.context import Ints
from traces.model.schema import NONE, Op, Outcome

ROWS = 24  # processes that are drawn
_QUANTILES = (0.5, 0.99, 1.0)
_EMPTY: Floats = np.empty(0)


@frozen
class Busy:
    """One process: the bins of time in which it had a call under way, as ranges."""

    process: int
    sends: bool  # a producer; others are drawn as readers
    calls: tuple[tuple[int, int], ...]
    troubled: tuple[tuple[int, int], ...]  # a call failed, or nobody answered it
    crashed_at: int | None = None


@frozen(eq=False)
class Activity:
    """The whole run, in bins of time."""

    acknowledged: Floats = field(factory=lambda: _EMPTY)  # records per second
    unacknowledged: Floats = field(factory=lambda: _EMPTY)
    read: Floats = field(factory=lambda: _EMPTY)
    # Nanoseconds from a send to its answer: the median, 99 of 100, the highest; NaN without sends.
    latency: tuple[Floats, ...] = ()
    processes: tuple[Busy, ...] = ()
    others: int = 0  # processes that are not drawn


def activity(columns: IntColumns, at: Ints, during: Bools, scale: Scale, every: int) -> Activity:
    """Sum up these rows; one of `every` records is among them."""
    op, ok = columns["op"], columns["outcome"] == Outcome.OK
    sends, reads = during & (op == Op.SEND), during & np.isin(op, (Op.POLL, Op.ACQUIRE)) & ok
    reads &= columns["offset"] != NONE

    def per_second(rows: Bools) -> Floats:
        counts = np.bincount(scale.bins(at[rows]), minlength=BINS)
        return counts * every * BINS * 1e9 / (scale.end - scale.start)

    processes, others = _processes(columns, at, during, scale)
    return Activity(
        acknowledged=per_second(sends & ok),
        unacknowledged=per_second(sends & ~ok),
        read=per_second(reads),
        latency=_latency(columns, sends & ok & (columns["inv"] != NONE), scale),
        processes=processes,
        others=others,
    )


def _latency(columns: IntColumns, answered: Bools, scale: Scale) -> tuple[Floats, ...]:
    rows = np.flatnonzero(answered & (columns["ret"] != NONE))
    if not len(rows):
        return ()
    bins, took = scale.bins(columns["ret"][rows]), columns["ret"][rows] - columns["inv"][rows]
    order = np.lexsort((took, bins))
    bins, took = bins[order], took[order]
    known, first, counts = np.unique(bins, return_index=True, return_counts=True)
    out: list[Floats] = []
    for share in _QUANTILES:
        curve = np.full(BINS, np.nan)
        curve[known] = took[first + np.ceil(share * counts).astype(np.int64) - 1]
        out.append(curve)
    return tuple(out)


def _processes(
    columns: IntColumns, at: Ints, during: Bools, scale: Scale
) -> tuple[tuple[Busy, ...], int]:
    """The busiest processes, in the order of their first calls."""
    rows = np.flatnonzero(during | (np.isin(columns["op"], (Op.CRASH, Op.CLOSE)) & (at != NONE)))
    process = columns["process"][rows]
    known, counts = np.unique(process, return_counts=True)
    shown = known[np.argsort(-counts, kind="stable")[:ROWS]]
    rows = rows[np.isin(process, shown)]
    begun = np.where(columns["inv"][rows] != NONE, columns["inv"][rows], at[rows])
    lane = np.searchsorted(np.sort(shown), columns["process"][rows])
    cells = scale.bins(begun, CELLS), scale.bins(at[rows], CELLS)
    calls = _under_way(len(shown), lane, *cells)
    bad = columns["outcome"][rows] != Outcome.OK
    troubled = _under_way(len(shown), lane[bad], cells[0][bad], cells[1][bad])
    first = np.full(len(shown), np.iinfo(np.int64).max)
    np.minimum.at(first, lane, begun)
    senders = np.bincount(lane, columns["op"][rows] == Op.SEND, len(shown)) > 0
    crashes = columns["op"][rows] == Op.CRASH
    ends = dict(zip(lane[crashes].tolist(), at[rows][crashes].tolist(), strict=True))
    found = [
        Busy(
            process=number,
            sends=bool(senders[index]),
            calls=_ranges(calls[index]),
            troubled=_ranges(troubled[index]),
            crashed_at=ends.get(index),
        )
        for index, number in enumerate(np.sort(shown).tolist())
    ]
    order = sorted(range(len(found)), key=lambda n: (first[n], found[n].process))
    return tuple(found[n] for n in order), len(known) - len(shown)


def _under_way(lanes: int, lane: Ints, start: Ints, end: Ints) -> Bools:
    """In which cells of its lane anything of these goes on."""
    change = np.zeros((lanes, CELLS + 1), np.int64)
    np.add.at(change, (lane, start), 1)
    np.add.at(change, (lane, end + 1), -1)
    return np.cumsum(change, axis=1)[:, :CELLS] > 0


def _ranges(cells: Bools) -> tuple[tuple[int, int], ...]:
    """The ranges in which the flags are set, each with its end."""
    edges = np.flatnonzero(np.diff(np.r_[False, cells, False].astype(np.int8)))
    return tuple(pairwise(edges.tolist()))[::2]
