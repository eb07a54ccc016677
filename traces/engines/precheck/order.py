"""Summarise one process in one partition, in program order, in a few numbers that can be joined.

Rows of a file are in program order, and stay so however the file is cut. A *piece* is all that a
process read between two moves (an assignment, a seek, an answer about committed offsets). A *run*
is a row of numbers that must not fall, such as the offsets of one producer's sends.
"""

import numpy as np
from attrs import define

from traces.engines.precheck import sides
from traces.engines.precheck.piece import PieceRows
from traces.engines.precheck.sides import Sends
from traces.engines.precheck.summary import SummaryBuilder, SummaryKind
from traces.model.columns import Bools, Column, firsts
from traces.model.context import Ints
from traces.model.schema import NONE, Op

GOES_ON = -1  # the piece was begun before this part of the file
SOUGHT = (Op.SEEK, Op.ASSIGN, Op.RESET)  # moves to a position that is told
MOVES = (Op.ASSIGNED, Op.REVOKED, Op.LOST, Op.FORGET, *SOUGHT)
SENT, MARKED, EARLIEST, LATEST, COMMITTED, EPOCHS = range(6)  # sorts of runs


@define
class Lane:
    """Rows by partition and process, each process's own in its order."""

    piece: PieceRows
    rows: Ints
    new: Bools  # where another process or another partition begins

    @classmethod
    def of(cls, piece: PieceRows, rows: Ints) -> "Lane":
        """These rows of a piece."""
        return cls.at_rows(piece, piece.ordered(rows))

    @classmethod
    def at_rows(cls, piece: PieceRows, rows: Ints) -> "Lane":
        """These rows, which are in order."""
        return cls(piece, rows, firsts(piece.topic_partition[rows], piece.take("process", rows)))

    def __getitem__(self, name: str) -> Column:
        return self.piece.take(name, self.rows)

    def some(self, wanted: Bools) -> "Lane":
        """Some of the rows, in their order."""
        if bool(wanted.all()):
            return self
        rows = self.rows[wanted]
        return Lane(
            self.piece,
            rows,
            firsts(self.piece.topic_partition[rows], self.piece.take("process", rows)),
        )

    def at(self, start: Ints, *names: str) -> tuple[Column, ...]:
        """Columns of rows of the lane."""
        return tuple(self.piece.take(name, self.rows[start]) for name in names)

    def where(self, start: Ints) -> tuple[Ints, Ints]:
        """Topic and partition of rows of the lane."""
        return self.piece.where(self.piece.topic_partition[self.rows[start]])


def add_reads(summary: SummaryBuilder, piece: PieceRows) -> None:
    """All that members and readers did."""
    lane = Lane.of(piece, np.flatnonzero(piece.called(*_READING) & piece.in_partition))
    if not len(lane.rows):
        return
    op, offset, ok = lane["op"], lane["offset"], piece.ok[lane.rows]
    located = ok & (offset != NONE)
    read = one_of(op, Op.POLL, Op.SCAN) & (offset >= 0) & ok
    add_pieces(summary, lane, op, offset, read)
    commit = (op == Op.COMMIT) & located & (lane["group"] != NONE)
    if commit.any():
        step = one_of(op, Op.POLL, Op.COMMITTED, *SOUGHT) & located
        add_positions(summary, lane, offset + (op == Op.POLL), step, commit)
        commits = lane.some(commit & (lane["generation"] != NONE))
        # Group and generation together name the run; small numbers, or hashes of 31 bits.
        sub = (commits["group"].astype(np.int64) << 32) ^ commits["generation"]
        add_runs(summary, commits, COMMITTED, "offset", sub, beside="inv")
    for sort, mine in (
        (MARKED, (op == Op.MARK) & located),
        (EARLIEST, (op == Op.EARLIEST) & located),
        (LATEST, (op == Op.LATEST) & located),
    ):
        if mine.any():
            add_runs(summary, lane.some(mine), sort, "offset")
    final = read & (op == Op.SCAN)
    if final.any():
        scanned = lane.some(final & (lane["epoch"] != NONE))
        epoch = scanned["epoch"]
        add_runs(
            *(summary, scanned, EPOCHS, "epoch"),
            cut=np.r_[False, epoch[1:] != epoch[:-1]][: len(epoch)],
            beside="offset",
        )


_READING = (*MOVES, *(Op.POLL, Op.SCAN, Op.COMMIT, Op.COMMITTED, Op.MARK, Op.EARLIEST, Op.LATEST))


def one_of(op: Column, *ops: Op) -> Bools:
    """Mask of the calls that are one of these."""
    wanted = np.zeros(128, bool)
    wanted[list(ops)] = True
    return wanted[op]


def add_pieces(
    summary: SummaryBuilder, lane: Lane, op: Column, offset: Column, read: Bools
) -> None:
    """Reads, cut where the position of the client may have changed."""
    begins = lane.new | one_of(op, *MOVES, Op.COMMITTED)
    start, at = np.flatnonzero(begins), np.flatnonzero(read)
    number = np.cumsum(begins)[at] - 1
    moved = one_of(op[start], *MOVES, Op.COMMITTED)
    given, who = offset[at], _accounts(lane, op, at)
    one = firsts(number)
    used, ends = number[one], np.r_[np.flatnonzero(one)[1:], len(at)] - 1
    first, last, begun = (np.full(len(start), NONE) for _ in range(3))
    readers = np.zeros(len(start), np.int64)
    if len(at):
        first[used], last[used], readers[used] = given[one], given[ends], who[one]
        (begun[used],) = lane.at(at[one], "ret")
    bad = ~one[1:] & ((given[1:] <= given[:-1]) | (who[1:] != who[:-1]))
    wrong = np.bincount(number[1:][bad], minlength=len(start))
    summary.add(
        SummaryKind.PIECE,
        lane.where(start),
        lane.at(start, "process", "seq", "idx"),
        np.where(moved, op[start], GOES_ON),
        np.where(moved, offset[start], NONE),
        *(first, last, wrong == 0, np.bincount(number, minlength=len(start)), readers, begun),
    )


def _accounts(lane: Lane, op: Column, at: Ints) -> Column:
    final = op[at] == Op.SCAN
    rows = lane.rows[at]
    if not final.any() or final.all():
        return sides.who_of(lane.piece, rows, bool(final.any()))
    whole = (sides.who_of(lane.piece, rows, one) for one in (True, False))
    return np.where(final, *whole)


def add_positions(
    summary: SummaryBuilder, lane: Lane, offset: Ints, located: Bools, commit: Bools
) -> None:
    """Compare commits with the offsets that the process itself had been given before."""
    # Cut at moves as well: what one owner was told ends before the next owner begins.
    begins = lane.new | one_of(lane["op"], *MOVES)
    start, group = np.flatnonzero(begins), np.cumsum(begins) - 1
    # A running maximum in each group: the groups are lifted above each other.
    width = int(offset.max()) + 3
    best = np.maximum.accumulate(np.where(located, offset, NONE) + 1 + group * width)
    best -= group * width + 1
    at = np.flatnonzero(commit)
    short = at[offset[at] > best[at]]
    need = np.full(len(start), NONE)
    np.maximum.at(need, group[short], offset[short])
    inv = lane["inv"]
    steps = np.flatnonzero(located | commit)
    times, where = inv[steps], group[steps]
    back = np.r_[False, (times[1:] < times[:-1]) & (where[1:] == where[:-1])][: len(steps)]
    need[where[back | (times == NONE)]] = _NEVER  # then the order of the calls proves nothing
    need[group[at[lane.at(at, "ret")[0] < inv[at]]]] = _NEVER
    end = np.r_[start[1:], len(group)] - 1
    keys = lane.at(start, "process", "seq", "idx")
    summary.add(
        *(SummaryKind.POSITION, lane.where(start), keys, best[end], need, inv[start], inv[end])
    )


_NEVER = int(np.iinfo(np.int64).max)


def add_runs(
    summary: SummaryBuilder,
    lane: Lane,
    sort: int,
    value: str,
    sub: Ints | None = None,
    cut: Bools | None = None,
    beside: str | None = None,
) -> None:
    """Numbers that must not fall, and neither must those `beside` them."""
    values, new = lane[value], lane.new.copy()
    if sub is not None:
        new[1:] |= sub[1:] != sub[:-1]
    if cut is not None:
        new |= cut
    start = np.flatnonzero(new)
    if not len(start):
        return
    end = np.r_[start[1:], len(values)] - 1
    inv = values if beside is None else lane[beside]
    falls = (values[1:] < values[:-1]) | (inv[1:] < inv[:-1])
    at = np.flatnonzero(falls & ~new[1:])
    wrong = np.zeros(len(start), bool)
    wrong[np.searchsorted(start, at + 1, side="right") - 1] = True
    process, seq, idx = lane.at(start, "process", "seq", "idx")
    summary.add(
        *(SummaryKind.RUN, lane.where(start), (process, sort, 0 if sub is None else sub[start])),
        *(seq, idx, values[start], values[end], ~wrong, end - start + 1, inv[start], inv[end]),
    )


def add_sends(summary: SummaryBuilder, piece: PieceRows, sends: Sends) -> None:
    """The offsets that each producer's sends were given, and the sends that may have any."""
    lane = Lane.of(piece, sends.rows[sends.acked | sends.unsure])
    if not sends.unsure.any():
        add_runs(summary, lane, SENT, "offset")
        return
    open_ = np.zeros(len(piece.topic_partition), bool)
    open_[sends.rows[sends.unsure]] = True
    unsure = open_[lane.rows]
    # After one of which nobody knows, a new run; the first kept row behind it begins it.
    behind = np.cumsum(unsure)[~unsure]
    begins = np.r_[False, behind[1:] != behind[:-1]][: len(behind)]
    add_runs(summary, lane.some(~unsure), SENT, "offset", cut=begins)
