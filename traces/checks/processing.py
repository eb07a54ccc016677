"""Promises of a group to its application: nothing is left out, or nothing is given twice."""

import numpy as np

from traces.checks.base import Found, check, witness
from traces.checks.coordinator import MAY_FORGET, by_others, may_come_late, may_have_moved, unless
from traces.checks.lives import MADE_AGAIN, Apart, altered, in_time, parted, stays
from traces.checks.partition import Partition
from traces.checks.rows import once
from traces.checks.seeks import left_out
from traces.checks.share import share_groups
from traces.checks.visible import visible_at
from traces.model.columns import (
    Bools,
    differing,
    distinct,
    firsts,
    last_upto,
    repeated,
    running_max,
)
from traces.model.context import Clause, Ints, Order, clause
from traces.model.schema import NONE, Op, Outcome

UNKNOWN_START = int(np.iinfo(np.int64).max)


@check(
    "G8",
    "what is committed was processed",
    found="record{s} below the committed offset {was} not processed",
    formula="o below a committed offset, visible, not passed by a seek of the application ⇒ "
    "processed by a member of the group",
    needs="complete COMMITS fetched.partitions proof COPIES",
    closed="VISIBLE MEMBERS ANSWERS fetched.group PROCESSED assign.topic assign.offset assign.inv "
    "consumers.whole",
    spec="ConsumerCommit!AtLeastOnce",
    unless="consumers.commit_order is neither process_then_commit nor transaction; undecided where "
    f"the group may have begun above the record, as {MADE_AGAIN}",
    looks_at="records below a group's committed offset",
    uses="isolation compacted.key",
)
def skipped(p: Partition) -> list[Found]:
    """At least once: a commit says *done*, so a crash after it must not lose what it covers.

    A truncation may put new records where the group had read others and committed beyond them:
    they are never delivered, and that is as legal as the truncation is. What a member goes past by
    a seek ahead (a record that it cannot process) is not owed to the application.
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
    # Without a final scan only what the group itself was given is known to have been there.
    source = p.final if p.context.complete and len(p.final) else delivered[_stayed(p, delivered)]
    source = source[(p.offset[source] >= start) & (p.offset[source] < reach[-1])]
    source = source[visible_at(p, p.offset[source], commits)]
    missed = source[~p.among(source, done)]
    own = bool(p.context.processes[group])
    missed = missed[~left_out(p, group, p.offset[missed], processes=own)]
    missed = missed[np.lexsort((missed, p.id[missed], p.offset[missed]))]
    missed = missed[firsts(p.offset[missed], p.id[missed])]
    given = p.first_about(delivered)[p.record[missed]]
    was_given = given >= 0
    replaced = np.isin(p.offset[missed], p.offset[delivered]) & ~was_given
    clauses = np.where(replaced, p.topic_clause(len(missed)), _skip_clause(p, group, was_given))
    unsure = p.offset[missed] < min(first, sure)
    unsure |= ~visible_at(p, p.offset[missed], commits, surely=True)
    unknown = clause(Clause.UNKNOWN, np.full(len(missed), group))
    unsure |= ~_owed(p, group, commits, delivered, missed)
    clauses = np.where(unsure, unknown, clauses)
    clauses = unless(clauses, by_others(p, np.full(len(missed), group)))
    covering = commits[np.searchsorted(reach, p.offset[missed], side="right")]
    found = witness(np.where(was_given, given, missed), covering)
    return Found(_partitions(p, source), found, clauses)


def _owed(p: Partition, group: int, commits: Ints, delivered: Ints, missed: Ints) -> Bools:
    """Mask of the records between a group's start and its commit, in one stay.

    A group that was made again begins where its reset policy says, and one that an administrator
    has set begins there: what lies between is owed to nobody. From the start of the log on all is.
    """
    rows = np.r_[commits, delivered]
    stay = stays(p, group, rows, int(p.context.reset_latest[group]) != 0)
    if stay is None:
        return np.zeros(len(missed), bool)
    several = np.unique(stay)
    owed = np.full(len(missed), len(several) < 2)
    for one in several:
        mine = rows[stay == one]
        upto = p.offset[mine[p.op[mine] != Op.POLL]].max(initial=NONE)
        owed |= (p.offset[missed] >= p.offset[mine].min()) & (p.offset[missed] < upto)
    return owed


def _stayed(p: Partition, rows: Ints) -> Bools:
    """Mask of the reads of records that, for all that is known, no other one replaced."""
    return ~np.isin(p.offset[rows], _replaced(p)) | p.same_offset(rows, p.final)


@once
def _replaced(p: Partition) -> Ints:
    """Offsets at which more than one record was seen."""
    log = p.log[np.lexsort((p.record[p.log], p.offset[p.log]))]
    log = log[firsts(p.offset[log], p.record[log])]
    return p.offset[log[~firsts(p.offset[log])]]


def _partitions(p: Partition, rows: Ints) -> int:
    """The number of records in these rows, each counted at every offset that it has."""
    records = int(np.count_nonzero(p.about(rows)))
    rows = rows[differing(p.record[rows], p.offset[rows])]
    more = rows[np.lexsort((p.offset[rows], p.id[rows]))]
    again = firsts(p.id[more], p.offset[more])
    return records + int(np.count_nonzero(again)) - int(np.count_nonzero(p.about(rows)))


@once
def _handled(p: Partition) -> tuple[Ints, Ints]:
    """Records that groups were given, and that they processed."""
    given, done = p.where(Op.POLL), p.where(Op.PROCESS)
    ours = p.ok & (p.group != NONE) & (p.id != NONE) & (p.offset != NONE)
    return given[ours[given]], done[ours[done]]


def _began(p: Partition, group: int) -> tuple[int, int]:
    """The offset at which the group may have begun, and one by which it surely had.

    Where nothing was committed when it asked first, its reset policy says where it begins; whoever
    does not know that knows at least that what it was answered later had been committed.
    """
    asked = np.flatnonzero((p.group == group) & (p.op == Op.COMMITTED) & p.ok & (p.inv != NONE))
    if not len(asked):
        return UNKNOWN_START, UNKNOWN_START
    first = int(p.offset[asked[np.argmin(p.inv[asked])]])
    if first != NONE:
        return first, first
    from_end = int(p.context.reset_latest[group])  # nothing committed yet: the reset policy
    later = p.offset[asked[p.offset[asked] != NONE]]
    answered = int(later.min(initial=UNKNOWN_START))
    if from_end == 1:
        return answered, answered
    return p.log_start, p.log_start if from_end == 0 else answered


def _skip_clause(p: Partition, group: int, was_given: Bools) -> Ints:
    """The clause of a group by its promise to process before it commits.

    One that commits first may lose what it was given; what it was never given, only one that
    commits automatically may: its client commits what it handed out, before anybody wrote it down.
    """
    order, n = int(p.context.order[group]), np.full(len(was_given), group)
    permitted = clause(Clause.COMMIT_ORDER, n)
    if order == Order.AUTO:
        return permitted
    if order == Order.COMMIT_THEN_PROCESS:
        return np.where(was_given, permitted, 0)
    if order in (Order.PROCESS_THEN_COMMIT, Order.TRANSACTION):
        return np.zeros(len(n), np.int64)
    return clause(Clause.UNKNOWN, n)


@check(
    "G9",
    "nothing is delivered twice",
    found="record{s} {was} delivered again",
    formula="a group is given (o, v) at most once",
    needs="READS MEMBERS PROCESSED",
    closed="COMMITS OPEN_COMMITS ANSWERS commit.inv commit.ret poll.inv consumers.whole",
    spec="ConsumerCommit!AtMostOnce",
    unless="consumers.commit_order is not commit_then_process, it was processed once at most, or "
    f"{MAY_FORGET}, or {MADE_AGAIN}; undecided where a request of an older commit, come late, may "
    "have put the group back",
    looks_at="records given to a group whose offsets do not go with transactions (T9, T10)",
    extra="of them processed more than once",
    uses="",
)
def redelivered(p: Partition) -> list[Found]:
    """At most once: a commit before processing means that nobody will be given it again.

    A group that declares `commit_order: transaction` is given again what an aborted transaction had
    consumed. It is the committed ones that consume a record once, which T9 and T10 judge.
    """
    polls, _ = _handled(p)
    polls = polls[p.context.order[p.group[polls]] != Order.TRANSACTION]
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
    done = done[p.context.order[p.group[done]] != Order.TRANSACTION]
    done = done[repeated(p.group[done], p.record[done])]
    done = done[np.lexsort((p.id[done], p.offset[done], p.group[done]))]
    again = ~firsts(p.group[done], p.offset[done], p.id[done])
    return np.unique(p.id[done[again]])


def _again_clause(p: Partition, found: Ints, twice: Bools) -> Ints:
    group = p.group[found[:, 0]]
    order, recorded = p.context.order[group], p.context.processes[group] == 1
    permitted, unknown = clause(Clause.COMMIT_ORDER, group), clause(Clause.UNKNOWN, group)
    first = order == Order.COMMIT_THEN_PROCESS
    broken = np.where(_put_back(p, found[:, 1]), unknown, 0)
    broken = unless(broken, may_have_moved(p, group))
    one, two = in_time(p, found)
    anew = parted(p, one, two, Apart.BEGUN) | altered(p, one, two)
    return np.select(
        [order == Order.UNKNOWN, first & ~recorded, first & twice & anew, first & twice],
        [unknown, unknown, unknown, broken],
        permitted,
    )


def _put_back(p: Partition, polls: Ints) -> Bools:
    """True where a poll's process began at the offset of a commit that may have come late.

    That is where its group was put back, and no promise of the one who committed first is broken.
    """
    commits = p.where(Op.COMMIT)
    commits = commits[(p.outcome[commits] != Outcome.FAIL) & (p.offset[commits] != NONE)]
    commits = commits[may_come_late(p, commits)]
    answer = last_upto((p.op == Op.COMMITTED) & p.ok & (p.offset != NONE))[polls]
    own = (answer >= 0) & (p.process[answer] == p.process[polls])
    found = np.zeros(len(polls), bool)
    for i in np.flatnonzero(own) if len(commits) else ():  # what is delivered twice is little
        same = (p.group[commits] == p.group[polls[i]]) & (p.offset[commits] == p.offset[answer[i]])
        found[i] = bool((same & (p.inv[commits] < p.inv[polls[i]])).any())
    return found
