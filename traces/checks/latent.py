"""A commit before its records are processed: nothing is lost until somebody crashes in between."""

import numpy as np

from traces.checks.base import Found, check, witness
from traces.checks.commits import answered
from traces.checks.partition import Partition
from traces.model.columns import Bools, firsts
from traces.model.context import Clause, Ints, Order, clause
from traces.model.schema import NONE, Flag, Op
from traces.model.sorting import order_by


@check(
    "G13",
    "a commit waits for processing",
    found="record{s} {was} committed before {its} application was done with it, which a crash in "
    "between would have lost",
    formula="process_then_commit: given o, then committed c > o ⇒ o was processed before",
    needs="READS MEMBERS",
    closed="COMMITS RECORDS MEMBERS PROCESSED",
    spec="ConsumerCommit!AtLeastOnce",
    unless="undecided where its processing began before the commit returned, or another thread or "
    "task than the one that polls made one of the two calls (other_thread)",
    kinds="latent-loss",
    looks_at="records processed by groups that declare commit_order = process_then_commit",
    uses="",
)
def committed_early(p: Partition) -> list[Found]:
    """Latent: the breach of at-least-once (G8) waits for a crash between a commit and its work.

    One process was given a record, committed beyond it, and said only then that it is done with it:
    the order of its own calls, which needs no clock. A record that anybody else of the group had
    processed as well, or the same process before, counts for nothing. Calls of one thread are in
    the order of the program; of several, or of calls that overlap, the order of lines proves none.
    """
    done = _first_done(p)
    given = _given_before(p, done)
    done, given = done[given != NONE], given[given != NONE]
    commits = answered(p)
    commits = commits[~p.has(Flag.AUTO)[commits]]
    found = [witness(done[:0], done[:0], done[:0])]
    proved = [np.zeros(0, bool)]
    for process in np.unique(p.process[done]).tolist():
        mine = p.process[done] == process
        own = commits[p.process[commits] == process]
        lines, sure = _covered(p, given[mine], own, done[mine])
        found.append(lines)
        proved.append(sure)
    lines = np.concatenate(found)
    unknown = clause(Clause.UNKNOWN, p.group[lines[:, 0]])
    return [Found(len(done), lines, np.where(np.concatenate(proved), 0, unknown), "latent-loss")]


def _first_done(p: Partition) -> Ints:
    """The first time that each record was processed, of those that one process alone processed."""
    rows = p.where(Op.PROCESS)
    rows = rows[(p.id[rows] != NONE) & (p.offset[rows] != NONE) & (p.group[rows] != NONE)]
    rows = rows[order_by(p.group[rows], p.record[rows], p.offset[rows], rows)]
    new = firsts(p.group[rows], p.record[rows], p.offset[rows])
    number = np.cumsum(new) - 1
    first = rows[new]
    shared = np.zeros(len(first), bool)
    shared[number[p.process[rows] != p.process[first[number]]]] = True
    declared = p.context.order[p.group[first]] == Order.PROCESS_THEN_COMMIT
    return np.sort(first[~shared & declared & p.ok[first]])


def _given_before(p: Partition, done: Ints) -> Ints:
    """For each of these rows, the last poll of its process before it that returned the record."""
    polls = p.where(Op.POLL)
    polls = polls[p.ok[polls] & (p.id[polls] != NONE) & (p.offset[polls] != NONE)]
    rows = np.r_[polls, done]
    rows = rows[order_by(p.process[rows], p.record[rows], p.offset[rows], rows)]
    before = np.r_[NONE, rows[:-1]]
    same = ~firsts(p.process[rows], p.record[rows], p.offset[rows])
    same &= p.op[before] == Op.POLL
    out = np.full(len(p), NONE)
    out[rows] = np.where(same & (p.group[before] == p.group[rows]), before, NONE)
    return out[done]


def _covered(p: Partition, given: Ints, commits: Ints, done: Ints) -> tuple[Ints, Bools]:
    """Witnesses: a record was given, a commit covered it, and then it was processed. With each,
    whether that is the order in which the application made the two calls."""
    start, end = np.searchsorted(commits, given), np.searchsorted(commits, done)
    there = start < end
    given, done, start, end = given[there], done[there], start[there], end[there]
    if not len(done):
        return witness(done, done, done), np.zeros(0, bool)
    offsets = np.r_[p.offset[commits], NONE]
    highest = np.maximum.reduceat(offsets, np.stack([start, end], 1).ravel())[::2]
    early = highest > p.offset[done]
    given, done = given[early], done[early]
    between = zip(start[early].tolist(), end[early].tolist(), done.tolist(), strict=True)
    covering = [_covering(p, commits[one:two], row) for one, two, row in between]
    lines = witness(given, np.array([row for row, _ in covering], np.int64), done)
    return lines, np.array([sure for _, sure in covering], bool)


def _covering(p: Partition, commits: Ints, done: int) -> tuple[int, bool]:
    """The first commit that covers a record and proves the order, or covers it at least."""
    above = commits[p.offset[commits] > p.offset[done]]
    sure = ~p.has(Flag.OTHER_THREAD)[above] & ~_overlap(p, above, done)
    if p.has(Flag.OTHER_THREAD)[done] or not sure.any():
        return int(above[0]), False
    return int(above[np.argmax(sure)]), True


def _overlap(p: Partition, commits: Ints, done: int) -> Bools:
    """Mask of the commits that had not returned when this call was made, by one clock."""
    timed = (p.ret[commits] != NONE) & (p.inv[done] != NONE) & (p.clock[commits] == p.clock[done])
    return timed & (p.ret[commits] >= p.inv[done])
