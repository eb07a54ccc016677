"""What a consumer group promises about its commits, and with them to its application."""

import numpy as np

from traces.checks.base import TRUNCATED, Bools, Found, check, witness
from traces.checks.partition import Partition, Rows, firsts, last_upto, lookup, running_max
from traces.context import Clause, Ints, Order, clause
from traces.schema import NONE, Flag, Op, Outcome

UNKNOWN_START = int(np.iinfo(np.int64).max)


def _commits(p: Rows) -> Ints:
    """Commits of a group that were answered with success."""
    rows = p.where(Op.COMMIT)
    return rows[
        (p.outcome[rows] == Outcome.OK) & (p.group[rows] != NONE) & (p.offset[rows] != NONE)
    ]


@check(
    "G1",
    "a partition has one owner in a generation",
    formula="assigned to two members in one (group, generation) ⇒ the same member",
    needs="assigned.topic assigned.partition assigned.group assigned.generation consumers",
    kinds="dual-ownership",
    looks_at="assignments with a generation",
)
def two_owners(p: Partition) -> list[Found]:
    """Two members that both think they own a partition process everything twice."""
    rows = p.where(Op.ASSIGNED)
    rows = rows[(p.group[rows] != NONE) & (p.generation[rows] != NONE) & p.ok[rows]]
    rows = rows[np.lexsort((rows, p.process[rows], p.generation[rows], p.group[rows]))]
    rows = rows[firsts(p.group[rows], p.generation[rows], p.process[rows])]
    one, two = rows[:-1], rows[1:]
    both = (p.group[one] == p.group[two]) & (p.generation[one] == p.generation[two])
    found = witness(one[both], two[both])
    return [Found(len(rows), found, np.zeros(len(found), np.int64), "dual-ownership")]


@check(
    "G4",
    "a commit of an old generation is refused",
    formula="a member was assigned in generation g′ ≺ commit of generation g < g′ ⇒ not ok",
    needs="COMMITS commit.generation commit.inv assigned.group assigned.generation "
    "assigned.ret one_clock",
    spec="ConsumerCommit!ReceiveCommit, with Fence",
    scope="group",
    looks_at="commits by the application, and assignments, with a generation",
)
def unfenced_commits(p: Rows) -> list[Found]:
    """A zombie's commit was taken although the group had moved on without it."""
    joined = p.where(Op.ASSIGNED)
    joined = joined[(p.generation[joined] != NONE) & (p.ret[joined] != NONE)]
    joined = joined[np.argsort(p.ret[joined], kind="stable")]
    newest, at = running_max(p.generation[joined])
    commits = _commits(p)
    commits = commits[(p.generation[commits] != NONE) & ~p.has(Flag.AUTO)[commits]]
    before = np.searchsorted(p.ret[joined], p.inv[commits], side="left") - 1
    seen = len(commits) if len(joined) else 0
    commits, before = commits[before >= 0], before[before >= 0]
    old = (newest[before] > p.generation[commits]) if seen else np.zeros(len(commits), bool)
    found = witness(joined[at[before[old]]], commits[old]) if seen else witness(commits[old])
    return [Found(seen, found, np.zeros(len(found), np.int64))]


@check(
    "G5",
    "a committed offset does not go back",
    formula="commits of one (group, generation, partition) in order ⇒ offsets do not decrease",
    needs="COMMITS commit.generation",
    closed="commit.inv assign.topic",
    spec="ConsumerCommit!CommittedMonotone",
    unless=TRUNCATED,
    kinds="offset-commit-regression",
    looks_at="commits with a generation",
)
def commit_back(p: Partition) -> list[Found]:
    """Inside a generation one member owns the partition, and its commits move forward."""
    rows = _commits(p)
    rows = rows[p.generation[rows] != NONE]
    rows = rows[np.lexsort((rows, p.inv[rows], p.generation[rows], p.group[rows]))]
    one, two = rows[:-1], rows[1:]
    same = (p.group[one] == p.group[two]) & (p.generation[one] == p.generation[two])
    back = same & (p.offset[two] < p.offset[one]) & ~_sought(p, one, two)
    found = witness(one[back], two[back])
    return [Found(len(rows), found, p.topic_clause(len(found)), "offset-commit-regression")]


def _sought(p: Partition, one: Ints, two: Ints) -> Bools:
    """Whether the application itself moved back between two commits of one process."""
    seek = last_upto(p.op == Op.SEEK)[two] if len(p) else two
    same = (p.process[seek] == p.process[two]) & (seek >= 0)
    return same & ((p.process[one] != p.process[two]) | (p.seq[seek] > p.seq[one]))


@check(
    "G6",
    "a commit is not beyond what the group was given",
    formula="committed c ⇒ no visible record at or above the group's position lies below c",
    needs="COMMITS ANSWERS",
    closed="VISIBLE MEMBERS commit.ret poll.inv one_clock",
    spec="ConsumerCommit!AtLeastOnce",
    unless="",
    kinds="commit-beyond-position",
    looks_at="commits",
)
def commit_beyond(p: Partition) -> list[Found]:
    """What is committed will not be delivered again, so it must have been delivered before."""
    out = [Found(0, kind="commit-beyond-position")]
    commits = _commits(p)
    for group in np.unique(p.group[commits]):
        mine = commits[p.group[commits] == group]
        out.append(_beyond(p, int(group), mine))
    return out


def _beyond(p: Partition, group: int, commits: Ints) -> Found:
    members = np.unique(p.process[(p.group == group) & (p.process >= 0)])
    told = np.isin(p.op, (Op.POLL, Op.COMMITTED, Op.SEEK, Op.ASSIGN)) & p.ok & (p.offset != NONE)
    steps = np.flatnonzero(told & np.isin(p.process, members))
    steps = steps[np.argsort(p.inv[steps], kind="stable")]
    reach, at = running_max(p.offset[steps] + (p.op[steps] == Op.POLL))
    before = np.searchsorted(p.inv[steps], p.ret[commits], side="right") - 1
    nothing = before < 0
    start = np.full(len(commits), p.log_start)
    position = np.where(nothing, start, reach[before] if len(steps) else start)
    beyond = (p.between(position, p.offset[commits]) > 0) & (position < p.offset[commits])
    highest = np.where(nothing, NONE, steps[at[before]] if len(steps) else NONE)
    found = witness(commits[beyond], highest[beyond])
    # Without a single read the group may have started at the end of the log.
    from_end = nothing[beyond] & (int(p.context.reset_latest[group]) != 0)
    unknown = clause(Clause.UNKNOWN, np.full(len(found), group))
    clauses = np.where(from_end & (not p.context.jepsen), unknown, 0)
    return Found(len(commits), found, clauses, "commit-beyond-position")


@check(
    "G8",
    "what is committed was processed",
    formula="o below a committed offset, visible ⇒ processed by a member of the group",
    needs="complete COMMITS ANSWERS",
    closed="VISIBLE MEMBERS PROCESSED consumers.whole",
    spec="ConsumerCommit!AtLeastOnce",
    unless="consumers.commit_order is not process_then_commit",
    looks_at="records below a group's committed offset",
)
def skipped(p: Partition) -> list[Found]:
    """At least once: a commit says *done*, so a crash after it must not lose what it covers.

    A truncation may put new records where the group had read others and committed beyond them:
    they are never delivered, and that is as legal as the truncation is.
    """
    out: list[Found] = []
    known = np.isin(p.op, (Op.COMMIT, Op.COMMITTED)) & (p.outcome == Outcome.OK)
    known &= (p.group != NONE) & (p.offset != NONE)
    for group in np.unique(p.group[known]):
        out.append(_skipped(p, int(group), np.flatnonzero(known & (p.group == group))))
    return out or [Found(0)]


def _skipped(p: Partition, group: int, commits: Ints) -> Found:
    commits = commits[np.lexsort((commits, p.inv[commits]))]
    reach, _ = running_max(p.offset[commits])
    mine = p.group == group
    delivered = np.flatnonzero(mine & (p.op == Op.POLL) & p.ok & (p.id != NONE))
    done = np.flatnonzero(mine & (p.op == Op.PROCESS) & p.ok & (p.id != NONE))
    if not int(p.context.processes[group]):
        done = delivered
    first = int(p.offset[delivered].min(initial=reach[-1]))
    began, sure = _began(p, group)
    start = min(first, began)
    # Without a final reading only what the group itself was given is known to have been there.
    source = p.final if p.context.complete and len(p.final) else delivered
    source = source[np.isin(p.offset[source], p.visible)]
    below = (p.offset[source] >= start) & (p.offset[source] < reach[-1])
    records = source[below]
    records = records[np.lexsort((records, p.id[records], p.offset[records]))]
    records = records[firsts(p.offset[records], p.id[records])]
    missed = records[~np.isin(p.id[records], p.id[done])]
    given = delivered[np.unique(p.id[delivered], return_index=True)[1]]
    at = lookup(p.id[given], p.id[missed])
    was_given = at >= 0
    replaced = np.isin(p.offset[missed], p.offset[delivered]) & ~was_given
    clauses = np.where(replaced, p.topic_clause(len(missed)), _skip_clause(p, group, was_given))
    unsure = (p.offset[missed] < first) & (not sure)
    unknown = clause(Clause.UNKNOWN, np.full(len(missed), group))
    clauses = np.where(unsure, unknown, clauses)
    covering = commits[np.searchsorted(reach, p.offset[missed], side="right")]
    shown = np.where(was_given, given[at], missed) if len(given) else missed
    return Found(len(records), witness(shown, covering), clauses)


def _began(p: Partition, group: int) -> tuple[int, bool]:
    """Where the group began, and whether that is sure: by its first question, if it asked any."""
    asked = np.flatnonzero((p.group == group) & (p.op == Op.COMMITTED) & p.ok & (p.inv != NONE))
    if not len(asked):
        return UNKNOWN_START, True
    first = int(p.offset[asked[np.argmin(p.inv[asked])]])
    if first != NONE:
        return first, True
    from_end = int(p.context.reset_latest[group])  # nothing committed yet: the reset policy
    return (UNKNOWN_START, True) if from_end == 1 else (p.log_start, from_end == 0)


def _skip_clause(p: Partition, group: int, was_given: Bools) -> Ints:
    """Whether the group had promised to process before it commits.

    One that commits first may lose what it was given; what it was never given, only one that
    commits automatically may: its client commits what it handed out, before anybody wrote it down.
    """
    order, n = int(p.context.order[group]), np.full(len(was_given), group)
    permitted = clause(Clause.COMMIT_ORDER, n)
    if order == Order.AUTO:
        return permitted
    if order == Order.COMMIT_THEN_PROCESS:
        return np.where(was_given, permitted, 0)
    if order == Order.PROCESS_THEN_COMMIT:
        return np.zeros(len(n), np.int64)
    return clause(Clause.UNKNOWN, n)


@check(
    "G9",
    "nothing is delivered twice",
    formula="a group is given (o, v) at most once",
    needs="READS MEMBERS PROCESSED",
    spec="ConsumerCommit!AtMostOnce",
    unless="consumers.commit_order is not commit_then_process, or it was processed once at most",
    looks_at="records given to a group",
    extra="of them processed more than once",
)
def redelivered(p: Partition) -> list[Found]:
    """At most once: a commit before processing means that nobody will be given it again."""
    polls = np.flatnonzero((p.op == Op.POLL) & p.ok & (p.group != NONE) & (p.id != NONE))
    polls = polls[np.lexsort((p.inv[polls], p.id[polls], p.offset[polls], p.group[polls]))]
    again = ~firsts(p.group[polls], p.offset[polls], p.id[polls])
    second = np.flatnonzero(again)
    found = witness(polls[second - 1], polls[second])
    twice = _processed_twice(p)
    clauses = _again_clause(p, found, np.isin(p.id[found[:, 0]], twice))
    return [Found(len(polls), found, clauses, extra=len(twice))]


def _processed_twice(p: Partition) -> Ints:
    done = np.flatnonzero((p.op == Op.PROCESS) & p.ok & (p.group != NONE) & (p.id != NONE))
    done = done[np.lexsort((p.id[done], p.offset[done], p.group[done]))]
    again = ~firsts(p.group[done], p.offset[done], p.id[done])
    return np.unique(p.id[done[again]])


def _again_clause(p: Partition, found: Ints, twice: Bools) -> Ints:
    group = p.group[found[:, 0]]
    order, recorded = p.context.order[group], p.context.processes[group] == 1
    permitted, unknown = clause(Clause.COMMIT_ORDER, group), clause(Clause.UNKNOWN, group)
    first = order == Order.COMMIT_THEN_PROCESS
    return np.select(
        [order == Order.UNKNOWN, first & ~recorded, first & twice],
        [unknown, unknown, np.zeros(len(group), np.int64)],
        permitted,
    )


@check(
    "G10",
    "a new owner goes on where the group had committed",
    formula="first read after assignment ⇒ no visible record from the committed offset up to it",
    needs="",
    closed="VISIBLE COMMITS MEMBERS MOVES ANSWERS commit.inv read.ret one_clock",
    unless=TRUNCATED,
    kinds="group-delivery-gap",
    looks_at="first reads of a member, with a committed offset known",
)
def handover_gap(p: Partition) -> list[Found]:
    """Between the last owner's commit and the next owner's first record nothing may be lost."""
    reads = p.reads[(p.op[p.reads] == Op.POLL) & (p.group[p.reads] != NONE)]
    starts = np.flatnonzero(firsts(*_stints(p, reads)))
    first = reads[starts]
    rows = _commits(p)
    base = np.array([_committed(p, int(r), rows) for r in first], dtype=np.int64)
    first, base = first[base >= 0], base[base >= 0]
    start = p.offset[base] if len(base) else base
    gap = (p.offset[first] > start) & (p.between(start, p.offset[first]) > 0)
    found = witness(base[gap], first[gap])
    return [Found(len(first), found, p.topic_clause(len(found)), "group-delivery-gap")]


def _stints(p: Partition, reads: Ints) -> tuple[Ints, Ints]:
    """Process and last assignment of each read: together, one member's time with the partition."""
    if p.context.jepsen or not len(p):
        return p.process[reads], np.zeros(len(reads), np.int64)
    last = last_upto(np.isin(p.op, (Op.ASSIGNED, Op.REVOKED, Op.LOST, Op.SEEK, Op.ASSIGN)))
    return p.process[reads], last[reads]


def _committed(p: Partition, read: int, commits: Ints) -> int:
    """The row that tells what was committed when this member began: its own query, or a commit."""
    own = np.flatnonzero(
        (p.process[:read] == p.process[read])
        & np.isin(p.op[:read], (Op.COMMITTED, Op.ASSIGNED, Op.SEEK, Op.ASSIGN))
    )
    if len(own) and p.op[own[-1]] in (Op.SEEK, Op.ASSIGN):
        return NONE
    mine = commits[p.group[commits] == p.group[read]]
    # A poll may have begun before the rebalance in which the last owner made its commit.
    own_call = (p.process[mine] == p.process[read]) & (p.seq[mine] >= p.seq[read])
    mine = mine[~own_call & (p.inv[mine] != NONE) & (p.inv[mine] <= p.ret[read])]
    rows = np.r_[own[-1:][p.offset[own[-1:]] != NONE], mine]
    return int(rows[np.argmax(p.offset[rows])]) if len(rows) else NONE
