"""Every partition of a group has one owner, and changes hands without two at a time."""

import numpy as np

from traces.checks.base import Found, check, witness
from traces.checks.coordinator import MAY_FORGET, forgotten
from traces.checks.lives import Apart, in_time, life, unless_parted
from traces.checks.partition import Partition
from traces.checks.rows import Rows
from traces.model.columns import firsts, lookup, running_max
from traces.model.context import UNSET, Clause, Ints, clause
from traces.model.schema import NONE, Flag, Op
from traces.model.sorting import order_by

MS = 1_000_000
NEVER = int(np.iinfo(np.int64).max)
_OWNS = (Op.ASSIGNED, Op.REVOKED, Op.LOST)


@check(
    "G1",
    "a partition has one owner in a generation",
    found="time{s} a partition had two owners in one generation",
    formula="assigned to two members in one (group, generation) ⇒ the same member",
    needs="assigned.topic assigned.partition assigned.group assigned.generation consumers",
    closed="static.instance",
    unless="consumers.group_protocol is consumer, as a generation is then one member's epoch, or "
    f"{MAY_FORGET}; undecided where the times of members do not compare",
    kinds="dual-ownership",
    looks_at="assignments with a generation, in groups of the classic protocol",
    uses="instance",
)
def two_owners(p: Partition) -> list[Found]:
    """Two members that both think they own a partition process everything twice.

    Under KIP-848 there is no generation of the group: members tell epochs of their own, and one may
    tell the new epoch with a partition that it was given in the one before; G2 looks at them. A
    static member may come back as another process in the same generation (KIP-345). A group that
    may have been empty in between is another one: who was deleted, or has expired, begins again
    with generation 1.
    """
    rows = p.where(Op.ASSIGNED)
    rows = rows[(p.group[rows] != NONE) & (p.generation[rows] != NONE) & p.ok[rows]]
    rows = rows[p.context.classic[p.group[rows]] != 0]
    lives = life(p, rows)
    order = np.lexsort((rows, p.process[rows], p.generation[rows], lives, p.group[rows]))
    rows, lives = rows[order], lives[order]
    first = firsts(p.group[rows], lives, p.generation[rows], p.process[rows])
    rows, lives = rows[first], lives[first]
    one, two = rows[:-1], rows[1:]
    both = (p.group[one] == p.group[two]) & (p.generation[one] == p.generation[two])
    both &= lives[:-1] == lives[1:]
    both &= (p.instance[one] == NONE) | (p.instance[one] != p.instance[two])
    found = witness(one[both], two[both])
    clauses = unless_parted(p, unless_classic(p, found), *in_time(p, found), Apart.MEMBERS)
    return [Found(len(rows), found, clauses, "dual-ownership")]


def unless_classic(p: Rows, found: Ints) -> Ints:
    """The clause of findings that hold of the classic protocol.

    A coordinator that has forgotten generations gives their numbers out again. If the protocol may
    be another, nothing may have happened that anybody has to permit: that is undecided, too.
    """
    group = p.group[found[:, 0]]
    classic = p.context.classic[group] == 1
    return np.where(classic, forgotten(p, group), clause(Clause.UNKNOWN, group))


@check(
    "G2",
    "hand-over without overlap",
    found="hand-over{s} overlapped",
    formula="the old owner's revocation returned before the new owner's first poll did",
    needs="",
    closed="MOVES COMMITS MEMBERS GIVEN commit.inv read.ret assigned.group assigned.ret "
    "rebalance.ret rebalance.group one_clock",
    spec="ConsumerCommit!OneOwner",
    unless="the old owner was silent for longer than consumers.session_timeout_ms",
    looks_at="first reads of a member after another one",
    uses="outcome",
)
def overlap(p: Partition) -> list[Found]:
    """A group waits until the old owner has given a partition up before another one reads it.

    One whose session expired is not waited for: it is told that the partition is lost, and what it
    lost or never gave up (because it died) is not looked at. A client may report what it lost as
    revoked, so the overlap counts only if the old owner had committed, and so was known to its
    group, less than two thirds of a session time-out before (its last heartbeat is up to a third
    older).
    """
    if p.context.jepsen:
        return [Found(0)]
    rows = p.where(*_OWNS)
    rows = rows[p.ok[rows] & (p.group[rows] != NONE)]
    begins, ends = rows[:-1], rows[1:]
    held = (p.op[begins] == Op.ASSIGNED) & (p.process[begins] == p.process[ends])
    given_up = held & (p.op[ends] == Op.REVOKED)
    old = witness(begins[given_up], ends[given_up])
    new = _first_reads(p, rows)
    groups = np.unique(p.group[new[:, 0]])
    found = [_overlaps(p, _of(p, old, g), _of(p, new, g)) for g in groups]
    return found or [Found(0)]


def _of(p: Partition, pairs: Ints, group: int) -> Ints:
    return pairs[p.group[pairs[:, 0]] == group]


def _first_reads(p: Partition, moves: Ints) -> Ints:
    """Each assignment with the first read of its member before anything else befalls it."""
    polls = p.given[p.op[p.given] == Op.POLL]
    assigned = moves[p.op[moves] == Op.ASSIGNED]
    at = np.searchsorted(polls, assigned)
    assigned, at = assigned[at < len(polls)], at[at < len(polls)]
    first = polls[at]
    following = np.r_[moves, len(p)][np.searchsorted(moves, assigned, side="right")]
    mine = (p.process[first] == p.process[assigned]) & (first < following)
    return witness(assigned[mine], first[mine])


def _overlaps(p: Partition, old: Ints, new: Ints) -> Found:
    """For each new owner the one before it that gave the partition up last."""
    old = old[order_by(p.ret[old[:, 0]], old[:, 0])]
    latest, at = running_max(p.ret[old[:, 1]])
    before = np.searchsorted(p.ret[old[:, 0]], p.inv[new[:, 0]], side="left") - 1
    new, before = new[before >= 0], before[before >= 0]
    late = latest[before] > p.ret[new[:, 1]] if len(old) else np.zeros(len(new), bool)
    late[late] = p.process[old[at[before[late]], 0]] != p.process[new[late, 0]]
    new, old = new[late], old[at[before[late]]]
    return Found(len(late), np.hstack([old, new]), _silence(p, old[:, 0], new[:, 1]))


def _silence(p: Partition, old: Ints, first: Ints) -> Ints:
    """True if the old owner may have been given up when the new one had its first read."""
    process, group = p.process[old], p.group[old]
    commits = p.where(Op.COMMIT)
    commits = commits[p.ok[commits] & ~p.has(Flag.AUTO)[commits] & (p.inv[commits] != NONE)]
    heard = np.full(len(old), NONE)
    for i in range(len(old)):  # overlaps are few
        mine = (p.process[commits] == process[i]) & (p.group[commits] == group[i])
        mine &= p.inv[commits] <= p.ret[first[i]]
        heard[i] = p.inv[commits[mine]].max(initial=NONE)
    # Under KIP-848 the broker's time-out counts, which no client knows.
    classic = p.context.classic[group] == 1
    timeout = np.where(classic, p.context.session_timeout[process], UNSET)
    alive = (heard != NONE) & (p.ret[first] <= heard + timeout * MS * 2 // 3)
    return np.select(
        [timeout == UNSET, alive],
        [clause(Clause.UNKNOWN, process), np.zeros(len(old), np.int64)],
        clause(Clause.SILENCE, process),
    )


@check(
    "G3",
    "every partition has an owner",
    found="partition{s} had no owner in a generation that lasted",
    formula="a generation that lasts: the partitions of the subscription are those of its members",
    needs="assigned.topic assigned.group assigned.generation consumers consumers.whole",
    closed="subscribe.topic subscribe.group rebalance.topic rebalance.generation rebalance.inv "
    "rebalance.group assigned.ret topics.partitions one_clock",
    unless="the generation ends within consumers.session_timeout_ms",
    scope="group",
    looks_at="partitions subscribed to, in generations that lasted",
    uses="outcome",
)
def uncovered(p: Rows) -> list[Found]:
    """A group at rest leaves no partition of its subscription without an owner.

    A matter of progress: what is found is told and permitted, and never called violated. Narrowly:
    topics that all subscriptions of the group name, and generations that lasted for a session
    time-out after the last member was told, as only then a member that died before it could write
    anything is out.
    """
    rows = p.where(*_OWNS)
    rows = rows[p.ok[rows] & (p.generation[rows] != NONE)]
    topics = _subscribed(p)
    if p.context.jepsen or not len(rows) or not len(topics):
        return [Found(0)]
    members = np.unique(p.process[rows])
    timeout = p.context.session_timeout[members]
    unset = bool((timeout == UNSET).any()) or int(p.context.classic[p.group[0]]) != 1
    lasts = 0 if unset else int(timeout.max()) * MS
    code = clause(Clause.UNKNOWN if unset else Clause.PROGRESS, np.int64(p.group[0]))
    found, seen, lives = [np.empty((0, 3), np.int64)], 0, life(p, rows)
    for one in np.unique(lives):  # a group made again has the same numbers again
        mine = rows[lives == one]
        begins, ends = _generations(p, mine)
        lasting = begins[ends > p.ret[begins] + lasts]
        holdings = _holdings(p, mine)
        found += [_without_owner(p, holdings, lasting, int(topic)) for topic in topics]
        seen += len(lasting) * int(np.maximum(p.context.partitions[p.topic[topics]], 0).sum())
    lines = np.concatenate(found)
    return [Found(seen, lines, np.full(len(lines), code))]


def _subscribed(p: Rows) -> Ints:
    """A row for each topic that every subscription of the group names."""
    rows = p.where(Op.SUBSCRIBE)
    rows = rows[p.ok[rows] & (p.topic[rows] != NONE)]
    rows = rows[order_by(p.topic[rows], rows)]
    calls = len(np.unique(np.cumsum(firsts(p.process, p.seq))[rows]))
    starts = np.flatnonzero(firsts(p.topic[rows]))
    return rows[starts[np.diff(np.r_[starts, len(rows)]) == calls]]


def _generations(p: Rows, rows: Ints) -> tuple[Ints, Ints]:
    """The assignment of each generation that was told last, and when the generation ended.

    It ends with the first sign of a later one, the first partition given up, or a member's end.
    """
    assigned = rows[(p.op[rows] == Op.ASSIGNED) & (p.ret[rows] != NONE)]
    assigned = assigned[order_by(p.generation[assigned], p.ret[assigned], assigned)]
    last = assigned[np.r_[firsts(p.generation[assigned])[1:], True][: len(assigned)]]
    gave_up = rows[p.op[rows] != Op.ASSIGNED]
    leaving = p.context.ended[np.unique(p.process[rows])]
    leaving = np.sort(leaving[leaving != UNSET])
    seen = max(times.max(initial=NONE) for times in (p.inv, p.ret, leaving))
    left = np.r_[leaving, seen][np.searchsorted(leaving, p.ret[last], side="right")]
    later = _earliest(p, assigned, p.generation[last] + 1, seen)
    return last, np.minimum(
        np.minimum(later, _earliest(p, gave_up, p.generation[last], seen)), left
    )


def _earliest(p: Rows, rows: Ints, since: Ints, otherwise: int) -> Ints:
    """When the first of these rows of each generation, or a later one, began."""
    rows = rows[order_by(p.generation[rows])]
    from_here = np.minimum.accumulate(np.r_[otherwise, p.inv[rows][::-1]])[::-1]
    return from_here[np.searchsorted(p.generation[rows], since, side="left")]


def _holdings(p: Rows, rows: Ints) -> tuple[Ints, Ints]:
    """Assignments, and the last generation in which each still held.

    What a member never gave up it holds for ever, or until its end: in generations told later it
    is gone.
    """
    named = rows[p.topic[rows] != NONE]
    named = named[order_by(p.topic[named], p.partition[named], p.process[named], named)]
    keys = (p.topic[named], p.partition[named], p.process[named])
    following = np.r_[~firsts(*keys)[1:], False]
    closed = np.where(following, np.r_[p.generation[named[1:]], NEVER], NEVER)
    begins = p.op[named] == Op.ASSIGNED
    # The next assignment of the same member takes the place of this one.
    return named[begins], closed[begins]


def _without_owner(p: Rows, holdings: tuple[Ints, Ints], lasting: Ints, topic: int) -> Ints:
    """Witnesses: who subscribed, the last assignment of the generation, who had the partition."""
    mine = p.topic[holdings[0]] == p.topic[topic]
    rows, until = holdings[0][mine], holdings[1][mine]
    ended = p.context.ended[p.process[rows]]
    partitions = np.arange(int(p.context.partitions[p.topic[topic]]))
    out = [np.empty((0, 3), np.int64)]
    for at in lasting:
        holds = (p.generation[rows] <= p.generation[at]) & (p.generation[at] <= until)
        holds &= (ended == UNSET) | (ended > p.ret[at]) | (until != NEVER)
        free = partitions[~np.isin(partitions, p.partition[rows[holds]])]
        had = rows[order_by(p.partition[rows], p.generation[rows])]
        had = had[p.generation[had] < p.generation[at]]
        had = had[np.r_[firsts(p.partition[had])[1:], True][: len(had)]]
        known = lookup(p.partition[had], free)
        before = np.where(known >= 0, had[known] if len(had) else NONE, NONE)
        out.append(witness(np.full(len(free), topic), np.full(len(free), at), before))
    return np.concatenate(out)
