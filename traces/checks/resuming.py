"""A new owner that begins below what its group had committed, and has no cause to."""

import numpy as np

from traces.checks.base import Found, witness
from traces.checks.coordinator import may_come_late, may_have_moved, unless
from traces.checks.lives import Apart, altered, forgot, parted
from traces.checks.partition import Partition
from traces.checks.share import share_groups
from traces.model.columns import Bools, distinct, last_before
from traces.model.context import NEVER, Clause, Ints, Order, clause
from traces.model.schema import NONE, Flag, Op, Outcome

_MOVES = (Op.ASSIGNED, Op.SEEK, Op.ASSIGN, Op.RESET)


def begun_below(p: Partition, first: Ints) -> Found:
    """First reads at an offset below every commit that may have been the last when they began.

    After a crash a group goes on where it had committed, and what was processed since is given
    again: that is at its commit, and not below. A member that was told where to begin by a seek, a
    reset or an answer of its coordinator (G7) begins where it was told.
    """
    commits = _commits(p)
    found = [witness(first[:0], first[:0])]
    for group in distinct(p.group[first]) if len(commits) else ():
        mine = commits[p.group[commits] == group]
        for read in first[p.group[first] == group].tolist():
            if (base := _passed(p, mine, read)) != NONE:
                found.append(np.array([[base, read]]))
    pairs = np.concatenate(found)
    pairs = pairs[~_forgotten(p, pairs)]
    return Found(0, pairs, _clauses(p, pairs, commits), "resumed-below-commit")


def _forgotten(p: Partition, pairs: Ints) -> Bools:
    """Mask of the pairs whose commit was deleted or has expired: the reset policy decided."""
    base, read = pairs[:, 0], pairs[:, 1]
    return forgot(p, base, read, p.group[read]) & ~_were_reported(p, read)


def _commits(p: Partition) -> Ints:
    """Commits that may have set the offset of a group, by themselves or with a transaction."""
    rows = p.where(Op.COMMIT, Op.TXN_OFFSETS)
    rows = rows[(p.outcome[rows] != Outcome.FAIL) & (p.group[rows] != NONE)]
    return rows[(p.offset[rows] != NONE) & ~np.isin(p.group[rows], share_groups(p))]


def _passed(p: Partition, commits: Ints, read: int) -> int:
    """The last commit before this first read's member was assigned, if none could be lower."""
    move, asked = _own(p, p.called(*_MOVES), read), _own(p, p.called(Op.COMMITTED) & p.ok, read)
    if move == NONE or p.op[move] != Op.ASSIGNED:
        return NONE
    answer = asked if asked > move else NONE
    if answer != NONE and p.offset[answer] <= p.offset[read]:
        return NONE  # it begins where it was told, or where nothing was committed
    since = p.inv[move] if p.inv[move] != NONE else NONE
    over = _surely(p, commits, since)
    if not len(over) or p.ret[read] == NONE:
        return NONE
    last = over[np.argmax(p.inv[over])]
    own = (p.process[commits] == p.process[read]) & (p.seq[commits] >= p.seq[read])
    later = p.called(Op.TXN_OFFSETS)[commits] | p.has(Flag.AUTO)[commits]
    later |= (p.ret[commits] == NONE) | (p.ret[commits] >= p.inv[last])
    maybe = commits[later & ~own & ((p.inv[commits] <= p.ret[read]) | p.has(Flag.AUTO)[commits])]
    lowest = int(min(p.offset[maybe].min(initial=NEVER), p.offset[last]))
    return int(last) if lowest > p.offset[read] else NONE


def _own(p: Partition, rows: Bools, read: int) -> int:
    """The last of these rows of the read's process before it."""
    at = int(last_before(rows)[read])
    return at if at >= 0 and p.process[at] == p.process[read] else NONE


def _surely(p: Partition, commits: Ints, since: int) -> Ints:
    """Commits that were answered before this time, and that the application made itself."""
    sure = p.ok[commits] & (p.op[commits] == Op.COMMIT) & ~p.has(Flag.AUTO)[commits]
    sure &= (p.inv[commits] != NONE) & (p.ret[commits] != NONE) & (p.ret[commits] < since)
    return commits[sure]


def _clauses(p: Partition, pairs: Ints, commits: Ints) -> Ints:
    """The clauses that permit it: a log that was cut, or a coordinator that forgot.

    Undecided it is where the group may have been made again or lost its offsets, where others set
    them, or where an older commit came late. Then nothing may have been cut, whatever permits it.
    """
    group = p.group[pairs[:, 1]]
    clauses = unless(p.topic_clause(len(pairs)), may_have_moved(p, group))
    unsure = np.array([_unsure(p, int(one), int(two), commits) for one, two in pairs], bool)
    base, read = pairs[:, 0], pairs[:, 1]
    anew = parted(p, base, read, Apart.BEGUN) | altered(p, base, read)
    unsure |= anew & ~_were_reported(p, read)
    unknown = clause(Clause.UNKNOWN, group)
    return np.where(unsure, unknown, clauses)


def _unsure(p: Partition, last: int, read: int, commits: Ints) -> bool:
    """True if the group may have lost its offsets, or have got others, for all that is told.

    A group that nobody is in can be deleted, or its offsets expire: its next member begins by its
    reset policy, and not every client tells a reset. Who committed and is still there kept it.
    """
    mine = commits[p.group[commits] == p.group[read]]
    if int(p.context.order[p.group[read]]) in (Order.UNKNOWN, Order.AUTO):
        return True  # not every automatic commit is recorded
    if bool((may_come_late(p, mine) & (p.offset[mine] <= p.offset[read])).any()):
        return True
    move = _own(p, p.called(Op.ASSIGNED), read)
    again = p.generation[move] != NONE and p.generation[move] < p.generation[last]
    stayed = p.process[last] == p.process[read] or _there(p, last, int(p.inv[move]))
    at_start = p.offset[read] <= p.log_start or p.offset[read] == p.offset[p.given].min()
    return bool(again) or (not _was_reported(p, read) and not stayed and bool(at_start))


def _was_reported(p: Partition, read: int) -> bool:
    """True if the coordinator told the member of the read the group's committed offset."""
    return _own(p, p.called(Op.COMMITTED) & p.ok, read) > _own(p, p.called(Op.ASSIGNED), read)


def _were_reported(p: Partition, reads: Ints) -> Bools:
    return np.array([_was_reported(p, int(one)) for one in reads], bool)


def _there(p: Partition, commit: int, when: int) -> bool:
    """True if the process of a commit made a call at this time or later."""
    rows = np.flatnonzero(p.process == p.process[commit])
    return bool((p.inv[rows] >= when).any())
