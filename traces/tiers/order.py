"""What one process did in one partition, in its own order, in a few numbers that can be joined.

Rows of a file are in program order, and stay so however the file is cut. A *piece* is what a
process read between two moves (an assignment, a seek, an answer about committed offsets); a *run*
is a row of numbers that must not fall, such as the offsets of one producer's sends.
"""

from collections.abc import Mapping

import numpy as np

from traces.checks.base import Bools
from traces.checks.partition import firsts
from traces.context import Ints
from traces.schema import NONE, Flag, Op, Outcome
from traces.sorting import order_by
from traces.tiers.sides import Sends, who_of
from traces.tiers.summary import Kind, Summary

GOES_ON = -1  # the piece was begun before this part of the file
MOVES = (Op.ASSIGNED, Op.REVOKED, Op.LOST, Op.SEEK, Op.FORGET, Op.ASSIGN)
SENT, MARKED, EARLIEST, LATEST, COMMITTED, EPOCHS = range(6)  # sorts of runs
ROW = ("topic", "partition", "process", "seq", "idx")
Named = Mapping[str, Ints]


def in_order(columns: Named, rows: Ints, *more: str) -> dict[str, Ints]:
    """These rows by partition and process, each process's own in its order."""
    mine = {name: columns[name][rows] for name in dict.fromkeys((*ROW, *more))}
    order = order_by(mine["topic"], mine["partition"], mine["process"])
    mine = {name: column[order] for name, column in mine.items()}
    same = ~firsts(mine["topic"], mine["partition"], mine["process"])[1:]
    seq, idx = mine["seq"], mine["idx"]
    back = (seq[1:] < seq[:-1]) | ((seq[1:] == seq[:-1]) & (idx[1:] < idx[:-1]))
    if bool(np.any(back & same)):
        order = order_by(*(mine[name] for name in ROW))
        mine = {name: column[order] for name, column in mine.items()}
    return mine


def add_pieces(summary: Summary, rows: Named) -> None:
    """Reads, cut where the position of the client may have changed; rows are `in_order`."""
    op = rows["op"]
    read = (op == Op.POLL) | (op == Op.SCAN)
    new = firsts(rows["topic"], rows["partition"], rows["process"])
    start = np.flatnonzero(new | ~read)
    if not len(start):
        return
    piece = np.cumsum(new | ~read) - 1
    told = np.where(read, NONE, rows["offset"])[start]
    begun = np.where(read, GOES_ON, op)[start]
    at = np.flatnonzero(read)
    mine, offset, who = piece[at], rows["offset"][at], rows["who"][at]
    one = firsts(mine)
    used = mine[one]
    first, last = np.full(len(start), NONE), np.full(len(start), NONE)
    first[used] = offset[one]
    last[used] = offset[np.r_[np.flatnonzero(one)[1:], len(at)] - 1] if len(at) else offset
    readers = np.zeros(len(start), np.int64)
    readers[used] = who[one]
    bad = (~one[1:]) & ((offset[1:] <= offset[:-1]) | (who[1:] != who[:-1]))
    wrong = np.bincount(mine[1:][bad], minlength=len(start))
    count = np.bincount(mine, minlength=len(start))
    summary.add(
        Kind.PIECE,
        (rows["topic"][start], rows["partition"][start]),
        (rows["process"][start], rows["seq"][start], rows["idx"][start]),
        *(begun, told, first, last, wrong == 0, count, readers),
    )


def add_runs(
    summary: Summary,
    rows: Named,
    sort: int,
    value: str,
    sub: Ints | int = 0,
    cut: Bools | None = None,
) -> None:
    """Numbers that must not fall; rows are `in_order`, and `cut` is where a new run begins."""
    values = rows[value]
    new = firsts(rows["topic"], rows["partition"], rows["process"])
    subs = np.broadcast_to(np.asarray(sub, np.int64), len(values))
    new[1:] |= subs[1:] != subs[:-1]
    if cut is not None:
        new |= cut
    start = np.flatnonzero(new)
    if not len(start):
        return
    end = np.r_[start[1:], len(values)] - 1
    run = np.cumsum(new) - 1
    falls = ~new[1:] & (values[1:] < values[:-1])
    wrong = np.bincount(run[1:][falls], minlength=len(start))
    inv = rows.get("inv", values)
    summary.add(
        Kind.RUN,
        (rows["topic"][start], rows["partition"][start]),
        (rows["process"][start], sort, subs[start]),
        *(rows["seq"][start], rows["idx"][start], values[start], values[end]),
        *(wrong == 0, end - start + 1, inv[start], inv[end]),
    )


def add_positions(summary: Summary, rows: Named) -> None:
    """Commits against what the process itself had been told before; rows are `in_order`."""
    commit = rows["op"] == Op.COMMIT
    poll = rows["op"] == Op.POLL
    new = firsts(rows["topic"], rows["partition"], rows["process"])
    start = np.flatnonzero(new)
    if not len(start):
        return
    group = np.cumsum(new) - 1
    # A running maximum in each group: the groups are lifted above each other.
    width = int(rows["offset"].max(initial=0)) + 3
    reach = np.where(commit, NONE, rows["offset"] + poll) + 1
    best = np.maximum.accumulate(reach + group * width) - group * width - 1
    short = commit & (rows["offset"] > best)
    need = np.full(len(start), NONE)
    np.maximum.at(need, group[short], rows["offset"][short])
    end = np.r_[start[1:], len(group)] - 1
    summary.add(
        Kind.POSITION,
        (rows["topic"][start], rows["partition"][start]),
        (rows["process"][start], rows["seq"][start], rows["idx"][start]),
        *(best[end], need),
    )


def add_reads(summary: Summary, columns: Named) -> None:
    """All that members and readers did."""
    op = columns["op"]
    ok = (columns["outcome"] == Outcome.OK) & (columns["partition"] != NONE)
    record = (columns["id"] != NONE) & (columns["offset"] >= 0)
    read = np.isin(op, (Op.POLL, Op.SCAN)) & record & ok
    move = np.isin(op, (*MOVES, Op.COMMITTED)) & (columns["partition"] != NONE)
    rows = in_order(columns, np.flatnonzero(read | move), "op", "offset", "isolation", "group")
    add_pieces(summary, rows | {"who": who_of(rows)})
    known = ok & (columns["offset"] != NONE)
    told = np.isin(op, (Op.POLL, Op.COMMITTED, Op.SEEK, Op.ASSIGN)) & known
    commit = (op == Op.COMMIT) & known & (columns["group"] != NONE)
    if commit.any():
        add_positions(summary, in_order(columns, np.flatnonzero(told | commit), "op", "offset"))
        _commits(summary, columns, np.flatnonzero(commit))
    _answers(summary, columns, known)
    final = read & (op == Op.SCAN) & (columns["epoch"] != NONE)
    if final.any():
        add_runs(summary, in_order(columns, np.flatnonzero(final), "epoch"), EPOCHS, "epoch")


def _commits(summary: Summary, columns: Named, rows: Ints) -> None:
    rows = rows[columns["generation"][rows] != NONE]
    mine = in_order(columns, rows, "offset", "inv", "group", "generation")
    # Group and generation together name the run; both are small numbers or hashes of 31 bits.
    sub = (mine["group"] << 32) ^ mine["generation"]
    add_runs(summary, mine, COMMITTED, "offset", sub)


def _answers(summary: Summary, columns: Named, known: Bools) -> None:
    marks = (columns["op"] == Op.MARK) & (columns["partition"] != NONE)
    for sort, wanted in (
        (MARKED, marks),
        (EARLIEST, (columns["op"] == Op.EARLIEST) & known),
        (LATEST, (columns["op"] == Op.LATEST) & known),
    ):
        if wanted.any():
            add_runs(summary, in_order(columns, np.flatnonzero(wanted), "offset"), sort, "offset")


def add_sends(summary: Summary, columns: Named, sends: Sends) -> None:
    """The offsets that each producer's sends were given, and the sends that may have any."""
    rows, use = sends.rows, sends.acked | sends.unsure
    mine = {name: columns[name][rows[use]] for name in (*ROW, "offset")}
    mine["unsure"] = sends.unsure[use].astype(np.int64)
    mine = in_order(mine, np.arange(len(mine["seq"])), "offset", "unsure")
    unsure = mine["unsure"] == 1
    kept = ~unsure
    behind = np.r_[False, unsure[:-1]][: len(unsure)]
    # After one of which nobody knows, a new run; the first kept row behind it begins it.
    cut = np.cumsum(behind)[kept]
    runs = {name: column[kept] for name, column in mine.items()}
    add_runs(summary, runs, SENT, "offset", cut=np.r_[False, cut[1:] != cut[:-1]][: len(cut)])


def rebalanced(columns: Named) -> Bools:
    """Reads that ran while the partition changed hands."""
    return (columns["flags"] & Flag.REBALANCED) != 0
