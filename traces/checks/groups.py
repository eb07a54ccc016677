"""What a consumer group promises about its commits, and with them to its application."""

import numpy as np

from traces.checks.base import TRUNCATED, Bools, Found, check, witness
from traces.checks.columns import (
    differing,
    distinct,
    firsts,
    last_before,
    last_upto,
    repeated,
    running_max,
)
from traces.checks.partition import Partition
from traces.checks.rows import Rows, once
from traces.checks.share import share_groups
from traces.checks.visible import passed_over, visible_at, visible_between
from traces.context import Clause, Ints, Order, clause
from traces.schema import NONE, Flag, Op, Outcome
from traces.sorting import order_by

UNKNOWN_START = int(np.iinfo(np.int64).max)


def _commits(p: Rows) -> Ints:
    """Commits of a group that were answered with success; share groups do not commit."""
    rows = p.where(Op.COMMIT)
    rows = rows[(p.outcome[rows] == Outcome.OK) & (p.group[rows] != NONE)]
    return rows[(p.offset[rows] != NONE) & ~np.isin(p.group[rows], share_groups(p))]


@check(
    "G1",
    "a partition has one owner in a generation",
    formula="assigned to two members in one (group, generation) ⇒ the same member",
    needs="assigned.topic assigned.partition assigned.group assigned.generation consumers",
    kinds="dual-ownership",
    looks_at="assignments with a generation",
    uses="instance",
)
def two_owners(p: Partition) -> list[Found]:
    """Two members that both think they own a partition process everything twice.

    A static member may come back as another process in the same generation (KIP-345).
    """
    rows = p.where(Op.ASSIGNED)
    rows = rows[(p.group[rows] != NONE) & (p.generation[rows] != NONE) & p.ok[rows]]
    rows = rows[np.lexsort((rows, p.process[rows], p.generation[rows], p.group[rows]))]
    rows = rows[firsts(p.group[rows], p.generation[rows], p.process[rows])]
    one, two = rows[:-1], rows[1:]
    both = (p.group[one] == p.group[two]) & (p.generation[one] == p.generation[two])
    both &= (p.instance[one] == NONE) | (p.instance[one] != p.instance[two])
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
    uses="",
)
def unfenced_commits(p: Rows) -> list[Found]:
    """A zombie's commit was taken although the group had moved on without it."""
    joined = p.where(Op.ASSIGNED)
    joined = joined[p.ok[joined] & (p.generation[joined] != NONE) & (p.ret[joined] != NONE)]
    joined = joined[np.argsort(p.ret[joined], kind="stable")]
    newest, at = running_max(p.generation[joined])
    commits = _commits(p)
    commits = commits[(p.generation[commits] != NONE) & ~p.has(Flag.AUTO)[commits]]
    before = np.searchsorted(p.ret[joined], p.inv[commits], side="left") - 1
    seen = len(commits) if len(joined) else 0
    commits, before = commits[before >= 0], before[before >= 0]
    old = (newest[before] > p.generation[commits]) if seen else np.zeros(len(commits), bool)
    old &= p.clock[joined[at[before]]] == p.clock[commits] if seen else old
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
    uses="",
)
def commit_back(p: Partition) -> list[Found]:
    """Inside a generation one member owns the partition, and its commits move forward."""
    rows = _commits(p)
    rows = rows[p.generation[rows] != NONE]
    rows = rows[np.lexsort((rows, p.inv[rows], p.generation[rows], p.group[rows]))]
    one, two = rows[:-1], rows[1:]
    same = (p.group[one] == p.group[two]) & (p.generation[one] == p.generation[two])
    # Of two processes' commits that overlap nobody knows which came first.
    after = (p.ret[one] != NONE) & (p.ret[one] < p.inv[two]) & (p.clock[one] == p.clock[two])
    same &= after | (p.process[one] == p.process[two])
    back = same & (p.offset[two] < p.offset[one])
    one, two = one[back], two[back]
    back = ~_sought(p, one, two)
    found = witness(one[back], two[back])
    return [Found(len(rows), found, p.topic_clause(len(found)), "offset-commit-regression")]


def _sought(p: Partition, one: Ints, two: Ints) -> Bools:
    """Whether the application itself moved back between two commits of one process."""
    seek = last_upto(p.called(Op.SEEK, Op.RESET))[two] if len(two) else two
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
    uses="isolation compacted.key",
)
def commit_beyond(p: Partition) -> list[Found]:
    """What is committed will not be delivered again, so it must have been delivered before."""
    out = [Found(0, kind="commit-beyond-position")]
    commits = _commits(p)
    for group in distinct(p.group[commits]):
        mine = commits[p.group[commits] == group]
        out.append(_beyond(p, int(group), mine))
    return out


@once
def _steps(p: Partition) -> Ints:
    """Rows that tell where a consumer's position is."""
    told = p.called(Op.POLL, Op.COMMITTED, Op.SEEK, Op.ASSIGN, Op.RESET)
    told &= p.ok & (p.offset != NONE)
    return np.flatnonzero(told)


def _members(p: Partition, group: int) -> Bools:
    """For each process, whether it is known as a member of the group; the last stands for none."""
    members = np.zeros(int(p.process.max(initial=NONE)) + 2, bool)
    members[p.process[p.group == group]] = True
    members[NONE] = False
    return members


def _beyond(p: Partition, group: int, commits: Ints) -> Found:
    steps = _steps(p)
    steps = steps[_members(p, group)[p.process[steps]]]
    steps = steps[order_by(p.inv[steps])]
    reach, at = running_max(p.offset[steps] + (p.op[steps] == Op.POLL))
    before = np.searchsorted(p.inv[steps], p.ret[commits], side="right") - 1
    nothing = before < 0
    start = np.full(len(commits), p.log_start)
    position = np.where(nothing, start, reach[before] if len(steps) else start)
    beyond = (visible_between(p, position, p.offset[commits]) > 0) & (position < p.offset[commits])
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
    uses="isolation compacted.key",
)
def skipped(p: Partition) -> list[Found]:
    """At least once: a commit says *done*, so a crash after it must not lose what it covers.

    A truncation may put new records where the group had read others and committed beyond them:
    they are never delivered, and that is as legal as the truncation is.
    """
    out: list[Found] = []
    known = p.where(Op.COMMIT, Op.COMMITTED)
    known = known[p.ok[known] & (p.group[known] != NONE) & (p.offset[known] != NONE)]
    known = known[~np.isin(p.group[known], share_groups(p))]
    for group in distinct(p.group[known]):
        out.append(_skipped(p, int(group), known[p.group[known] == group]))
    return out or [Found(0)]


def _skipped(p: Partition, group: int, commits: Ints) -> Found:
    commits = commits[np.lexsort((commits, p.inv[commits]))]
    reach, _ = running_max(p.offset[commits])
    given, processed = _handled(p)
    delivered = given[p.group[given] == group]
    done = processed[p.group[processed] == group]
    if not int(p.context.processes[group]):
        done = delivered
    first = int(p.offset[delivered].min(initial=reach[-1]))
    began, sure = _began(p, group)
    start = min(first, began)
    # Without a final reading only what the group itself was given is known to have been there.
    source = p.final if p.context.complete and len(p.final) else delivered
    source = source[(p.offset[source] >= start) & (p.offset[source] < reach[-1])]
    source = source[visible_at(p, p.offset[source])]
    missed = source[~p.among(source, done)]
    missed = missed[np.lexsort((missed, p.id[missed], p.offset[missed]))]
    missed = missed[firsts(p.offset[missed], p.id[missed])]
    given = p.first_about(delivered)[p.record[missed]]
    was_given = given >= 0
    replaced = np.isin(p.offset[missed], p.offset[delivered]) & ~was_given
    clauses = np.where(replaced, p.topic_clause(len(missed)), _skip_clause(p, group, was_given))
    unsure = (p.offset[missed] < first) & (not sure)
    unknown = clause(Clause.UNKNOWN, np.full(len(missed), group))
    clauses = np.where(unsure, unknown, clauses)
    covering = commits[np.searchsorted(reach, p.offset[missed], side="right")]
    found = witness(np.where(was_given, given, missed), covering)
    return Found(_places(p, source), found, clauses)


def _places(p: Partition, rows: Ints) -> int:
    """How many records these rows are about, each counted at every offset that it has."""
    records = int(np.count_nonzero(p.about(rows)))
    rows = rows[differing(p.record[rows], p.offset[rows])]
    more = rows[np.lexsort((p.offset[rows], p.id[rows]))]
    again = firsts(p.id[more], p.offset[more])
    return records + int(np.count_nonzero(again)) - int(np.count_nonzero(p.about(rows)))


@once
def _handled(p: Partition) -> tuple[Ints, Ints]:
    """Records that groups were given, and that they processed."""
    given, done = p.where(Op.POLL), p.where(Op.PROCESS)
    ours = p.ok & (p.group != NONE) & (p.id != NONE)
    return given[ours[given]], done[ours[done]]


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
    uses="",
)
def redelivered(p: Partition) -> list[Found]:
    """At most once: a commit before processing means that nobody will be given it again."""
    polls, _ = _handled(p)
    seen = len(polls)
    polls = polls[repeated(p.group[polls], p.record[polls])]
    polls = polls[np.lexsort((p.inv[polls], p.id[polls], p.offset[polls], p.group[polls]))]
    again = ~firsts(p.group[polls], p.offset[polls], p.id[polls])
    second = np.flatnonzero(again)
    found = witness(polls[second - 1], polls[second])
    twice = _processed_twice(p)
    clauses = _again_clause(p, found, np.isin(p.id[found[:, 0]], twice))
    return [Found(seen, found, clauses, extra=len(twice))]


def _processed_twice(p: Partition) -> Ints:
    _, done = _handled(p)
    done = done[repeated(p.group[done], p.record[done])]
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
    uses="isolation compacted.key",
)
def handover_gap(p: Partition) -> list[Found]:
    """Between the last owner's commit and the next owner's first record nothing may be lost."""
    reads = p.reads[(p.op[p.reads] == Op.POLL) & (p.group[p.reads] != NONE)]
    starts = np.flatnonzero(firsts(*_stints(p, reads)))
    first, own = _asked(p, reads[starts])
    base = _higher(p, own, _commits_before(p, first))
    first, base = first[base >= 0], base[base >= 0]
    gap = passed_over(p, p.offset[base] - 1, p.offset[first])
    found = witness(base[gap], first[gap])
    return [Found(len(first), found, p.topic_clause(len(found)), "group-delivery-gap")]


def _stints(p: Partition, reads: Ints) -> tuple[Ints, Ints]:
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
    own = last_before(p.called(Op.COMMITTED, Op.ASSIGNED, Op.SEEK, Op.ASSIGN, Op.RESET))[first]
    own = np.where((own >= 0) & (p.process[own] == p.process[first]), own, NONE)
    told = (own >= 0) & np.isin(p.op[own], (Op.SEEK, Op.ASSIGN, Op.RESET))
    first, own = first[~told], own[~told]
    return first, np.where(p.offset[own] == NONE, NONE, own)


def _commits_before(p: Partition, first: Ints) -> Ints:
    """For each of these reads, the highest commit of the group that began before it returned.

    A poll may have begun before the rebalance in which the last owner made its commit.
    """
    out = np.full(len(first), NONE)
    commits = _commits(p)
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
    """Which commits the process of the read made in the same call or after it."""
    return (p.process[commits] == p.process[reads]) & (p.seq[commits] >= p.seq[reads])


def _higher(p: Partition, one: Ints, two: Ints) -> Ints:
    """Of two rows the one with the higher offset, where there are both."""
    first = (one >= 0) & ((two < 0) | (p.offset[one] >= p.offset[two]))
    return np.where(first, one, two)
