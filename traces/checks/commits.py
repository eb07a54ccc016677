"""Commits of a group grow, cover the records it was given, and tell the next owner its start."""

import numpy as np

from traces.checks.base import TRUNCATED, Found, check, witness
from traces.checks.coordinator import MAY_FORGET, by_others, unless
from traces.checks.lives import MADE_AGAIN, Apart, life, parted
from traces.checks.partition import Partition
from traces.checks.resuming import begun_below
from traces.checks.rows import Rows, once
from traces.checks.share import share_groups
from traces.checks.visible import passed_over, unless_open, visible_between
from traces.model.columns import Bools, distinct, firsts, last_before, last_upto, running_max
from traces.model.context import Clause, Ints, clause
from traces.model.schema import NONE, Op, Outcome
from traces.model.sorting import order_by


def answered(p: Rows) -> Ints:
    """Commits of a group that were answered with success; share groups do not commit."""
    rows = _perhaps_taken(p)
    return rows[p.outcome[rows] == Outcome.OK]


def _perhaps_taken(p: Rows) -> Ints:
    """Commits of a group that count, or may: of one without an answer nobody knows."""
    rows = p.where(Op.COMMIT)
    rows = rows[(p.outcome[rows] != Outcome.FAIL) & (p.group[rows] != NONE)]
    return rows[(p.offset[rows] != NONE) & ~np.isin(p.group[rows], share_groups(p))]


def _set_by_others(p: Rows) -> Ints:
    """Calls in which administrators set a group's offsets, or may have."""
    rows = p.where(Op.ALTER_OFFSETS)
    rows = rows[(p.outcome[rows] != Outcome.FAIL) & (p.group[rows] != NONE)]
    return rows[p.offset[rows] != NONE]


@check(
    "G5",
    "a committed offset does not go back",
    found="committed offset{s} went back",
    formula="commits of one (group, generation, partition) in order ⇒ offsets do not decrease",
    needs="",
    closed="COMMITS commit.generation commit.inv commit.ret assign.topic reset.topic",
    spec="ConsumerCommit!CommittedMonotone",
    unless=TRUNCATED,
    kinds="offset-commit-regression",
    looks_at="commits with a generation",
    uses="",
)
def commit_back(p: Partition) -> list[Found]:
    """Inside a generation one member owns the partition, and its commits move forward.

    A group that was deleted, or has expired, begins with the same generations again.
    """
    rows = answered(p)
    rows = rows[p.generation[rows] != NONE]
    lives = life(p, rows)
    order = order_by(p.group[rows], lives, p.generation[rows], p.clock[rows], rows)
    rows, lives = rows[order], lives[order]
    starts = np.flatnonzero(firsts(p.group[rows], lives, p.generation[rows], p.clock[rows]))
    found = [np.empty((0, 2), np.int64)]
    for start, end in zip(starts, np.r_[starts[1:], len(rows)][: len(starts)], strict=True):
        found.append(_lower(p, rows[start:end]))
    pairs = np.concatenate(found)
    pairs = pairs[~_sought(p, pairs[:, 0], pairs[:, 1])]
    one, two = pairs[:, 0], pairs[:, 1]
    apart = parted(p, one, two, Apart.MEMBERS) & (p.process[one] != p.process[two])
    unknown = clause(Clause.UNKNOWN, p.group[two])
    clauses = np.where(apart, unknown, p.topic_clause(len(pairs)))
    return [Found(len(rows), pairs, clauses, "offset-commit-regression")]


def _lower(p: Partition, rows: Ints) -> Ints:
    """Pairs: a commit, and one made after it that is lower, with none that is between the two.

    Of two processes' commits that overlap nobody knows which came first, so several may be the last
    before another one; a process's own commits are in its order.
    """
    alone = bool(p.process[rows[0]] == p.process[rows[-1]])
    if alone and not bool((p.offset[rows[1:]] < p.offset[rows[:-1]]).any()):
        return np.empty((0, 2), np.int64)  # the common case: one member, and always forward
    ended = rows[p.ret[rows] != NONE]
    ended = ended[order_by(p.ret[ended], ended)]
    upto = np.searchsorted(p.ret[ended], p.inv[rows], side="left")
    # What was over before the last of those that were over had begun is not the last before it.
    latest: Ints = np.r_[NONE, np.maximum.accumulate(p.inv[ended])][upto]
    since: Ints = np.searchsorted(p.ret[ended], latest, side="left")
    pairs: list[tuple[int, int]] = []
    for at in range(len(rows)):
        last = ended[since[at] : upto[at]].tolist()
        own = at > 0 and p.process[rows[at - 1]] == p.process[rows[at]]
        if own and (p.ret[rows[at - 1]] == NONE or p.ret[rows[at - 1]] >= latest[at]):
            last.append(int(rows[at - 1]))
        higher = max(last, key=lambda row: int(p.offset[row]), default=NONE)
        if higher != NONE and p.offset[higher] > p.offset[rows[at]]:
            pairs.append((higher, int(rows[at])))
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _sought(p: Partition, one: Ints, two: Ints) -> Bools:
    """True where the application itself moved back between two commits of one process."""
    seek = last_upto(p.called(Op.SEEK, Op.RESET))[two] if len(two) else two
    same = (p.process[seek] == p.process[two]) & (seek >= 0)
    return same & ((p.process[one] != p.process[two]) | (p.seq[seek] > p.seq[one]))


@check(
    "G6",
    "a commit is not beyond what the group was given",
    found="commit{s} {is} beyond what the group was given",
    formula="committed c ⇒ no visible record at or above the group's position lies below c",
    needs="COMMITS proof COPIES",
    closed="SEEN MEMBERS ANSWERS fetched.group commit.ret poll.inv moved.inv assign.topic "
    "reset.topic consumers.whole one_clock",
    spec="ConsumerCommit!AtLeastOnce",
    unless="",
    kinds="commit-beyond-position",
    looks_at="commits",
    uses="isolation compacted.key",
)
def commit_beyond(p: Partition) -> list[Found]:
    """Records below a commit are not delivered again, so they must have been delivered before."""
    out = [Found(0, kind="commit-beyond-position")]
    commits = answered(p)
    for group in distinct(p.group[commits]):
        mine = commits[p.group[commits] == group]
        out.append(_beyond(p, int(group), mine))
    return out


@once
def _steps(p: Partition) -> Ints:
    """Rows that tell where a consumer's position is."""
    positioned = p.called(Op.POLL, Op.COMMITTED, Op.SEEK, Op.ASSIGN, Op.RESET)
    positioned &= p.ok & (p.offset != NONE)
    return np.flatnonzero(positioned)


def _members(p: Partition, group: int) -> Bools:
    """For each process, whether it is known as a member of the group; the last stands for none."""
    members = np.zeros(int(p.process.max(initial=NONE)) + 2, bool)
    members[p.process[p.group == group]] = True
    members[NONE] = False
    return members


def _outsiders(p: Partition) -> Bools:
    """The same of processes that are not known as members of any group."""
    outside = np.ones(int(p.process.max(initial=NONE)) + 2, bool)
    outside[p.process[p.group != NONE]] = False
    outside[NONE] = False
    return outside


def _beyond(p: Partition, group: int, commits: Ints) -> Found:
    members = _members(p, group)
    beyond, highest = _ahead(p, members, commits)
    found = witness(commits[beyond], highest[beyond])
    # Without a single read the group may have started at the end of the log.
    from_end = (found[:, 1] == NONE) & (int(p.context.reset_latest[group]) != 0)
    assigned = np.flatnonzero(p.called(Op.ASSIGN) & p.ok & (p.offset == NONE))
    assigned = assigned[members[p.process[assigned]]]
    anywhere = p.ret[found[:, 0]] >= p.inv[assigned].min(initial=np.iinfo(np.int64).max)
    # Who does not tell its group may have been of this one.
    still, _ = _ahead(p, members | _outsiders(p), found[:, 0])
    sure, _ = _ahead(p, members, found[:, 0], surely=True)
    unknown = clause(Clause.UNKNOWN, np.full(len(found), group))
    open_ = from_end | anywhere | ~still | ~sure
    clauses = np.where(open_ & (not p.context.jepsen), unknown, 0)
    clauses = unless(clauses, by_others(p, p.group[found[:, 0]]))
    return Found(len(commits), found, clauses, "commit-beyond-position")


def _ahead(
    p: Partition, members: Bools, commits: Ints, *, surely: bool = False
) -> tuple[Bools, Ints]:
    """Mask of the commits beyond the records these members were given, and their highest step."""
    steps = _steps(p)
    steps = steps[members[p.process[steps]]]
    steps = steps[order_by(p.inv[steps])]
    reach, at = running_max(p.offset[steps] + (p.op[steps] == Op.POLL))
    before = np.searchsorted(p.inv[steps], p.ret[commits], side="right") - 1
    nothing = before < 0
    start = np.full(len(commits), p.log_start)
    position = np.where(nothing, start, reach[before] if len(steps) else start)
    missed = visible_between(p, position, p.offset[commits], commits, surely=surely)
    beyond = (missed > 0) & (position < p.offset[commits])
    return beyond, np.where(nothing, NONE, steps[at[before]] if len(steps) else NONE)


@check(
    "G10",
    "a new owner goes on where the group had committed",
    found="new owner{s} began above or below the committed offset",
    formula="first read after assignment ⇒ no visible record from the committed offset up to it, "
    "and not below that offset unless the member was told so",
    needs="fetched.partitions proof COPIES",
    closed="SEEN COMMITS OPEN_COMMITS MEMBERS MOVES ANSWERS commit.inv commit.ret read.ret "
    "consumers.whole one_clock",
    unless=f"{TRUNCATED}, or, of one that began below, {MAY_FORGET}; undecided where {MADE_AGAIN}, "
    "if consumers.auto_offset_reset is not earliest or it began below",
    kinds="group-delivery-gap resumed-below-commit",
    looks_at="first reads of a member, with a committed offset known",
    uses="isolation compacted.key",
)
def handover_gap(p: Partition) -> list[Found]:
    """Between the last owner's commit and the next owner's first record nothing may be lost.

    Nor does it begin below that commit, but by a seek or a reset. What a crash lets the group be
    given again lies at its last commit or above.
    """
    reads = p.given[(p.op[p.given] == Op.POLL) & (p.group[p.given] != NONE)]
    starts = np.flatnonzero(firsts(*_ranges(p, reads)))
    first, own = _asked(p, reads[starts])
    below = Found(0) if p.context.jepsen else begun_below(p, first)
    base = _higher(p, own, _commits_before(p, first))
    first, base = first[base >= 0], base[base >= 0]
    gap = passed_over(p, p.offset[base] - 1, p.offset[first], first)
    base, first, seen = base[gap], first[gap], len(first)
    clauses = p.topic_clause(len(first))
    clauses = unless_open(p, clauses, p.offset[base], p.offset[first], first)
    clauses = unless(clauses, by_others(p, p.group[first]))
    # Where nothing is committed any more its reset policy says where a group begins.
    anew = parted(p, base, first, Apart.BEGUN) & (p.context.reset_latest[p.group[first]] != 0)
    clauses = np.where(anew, clause(Clause.UNKNOWN, p.group[first]), clauses)
    return [Found(seen, witness(base, first), clauses, "group-delivery-gap"), below]


def _ranges(p: Partition, reads: Ints) -> tuple[Ints, Ints]:
    """Process and last assignment of each read: together, one member's time with the partition."""
    if p.context.jepsen or not len(p):
        return p.process[reads], np.zeros(len(reads), np.int64)
    moves = p.called(Op.ASSIGNED, Op.REVOKED, Op.LOST, Op.SEEK, Op.ASSIGN)
    return p.process[reads], last_upto(moves)[reads]


def _asked(p: Partition, first: Ints) -> tuple[Ints, Ints]:
    """The first reads that begin where the group had committed, and the member's own query.

    Who was told where to start, by a seek or a manual assignment, does not begin there.
    """
    if not len(first):
        return first, first
    moves = p.called(Op.ASSIGNED, Op.SEEK, Op.ASSIGN, Op.RESET)
    own = last_before(moves | (p.called(Op.COMMITTED) & p.ok))[first]
    own = np.where((own >= 0) & (p.process[own] == p.process[first]), own, NONE)
    sought = (own >= 0) & np.isin(p.op[own], (Op.SEEK, Op.ASSIGN, Op.RESET))
    first, own = first[~sought], own[~sought]
    return first, np.where(p.offset[own] == NONE, NONE, own)


def _commits_before(p: Partition, first: Ints) -> Ints:
    """For each of these reads, the highest commit of the group that began before it returned; one
    that nobody answered may have counted, as that of a member that was killed.

    A poll may have begun before the rebalance in which the last owner made its commit.
    """
    out = np.full(len(first), NONE)
    commits = np.r_[_perhaps_taken(p), _set_by_others(p)]
    commits = commits[p.inv[commits] != NONE]
    commits = commits[order_by(p.inv[commits])]
    for group in distinct(p.group[first]):
        mine, ours = commits[p.group[commits] == group], np.flatnonzero(p.group[first] == group)
        _, highest = running_max(p.offset[mine])
        upto = np.searchsorted(p.inv[mine], p.ret[first[ours]], side="right")
        ours, upto = ours[upto > 0], upto[upto > 0]
        out[ours] = mine[highest[upto - 1]]
        # A commit in the same call as the read, or after it, says nothing about where it began.
        for at in np.flatnonzero(_not_before(p, out[ours], first[ours])):
            before = mine[: upto[at]]
            before = before[~_not_before(p, before, first[ours[at]])]
            out[ours[at]] = before[np.argmax(p.offset[before])] if len(before) else NONE
    return out


def _not_before(p: Partition, commits: Ints, reads: Ints | np.int64) -> Bools:
    """Mask of the commits that the process of the read made in the same call or after it."""
    return (p.process[commits] == p.process[reads]) & (p.seq[commits] >= p.seq[reads])


def _higher(p: Partition, one: Ints, two: Ints) -> Ints:
    """Of two rows the one with the higher offset, where there are both."""
    first = (one >= 0) & ((two < 0) | (p.offset[one] >= p.offset[two]))
    return np.where(first, one, two)
