"""A process that is no longer a member of its group, or an owner in it, cannot commit for it."""

import numpy as np

from traces.checks.base import Found, check, witness
from traces.checks.commits import answered
from traces.checks.coordinator import MAY_FORGET, forgotten
from traces.checks.handover import unless_classic
from traces.checks.lives import Apart, life, unless_parted
from traces.checks.partition import Partition
from traces.checks.rows import Rows
from traces.model.columns import Bools, last_upto, running_max
from traces.model.context import Ints
from traces.model.schema import NONE, Flag, Op
from traces.model.sorting import order_by


@check(
    "G4",
    "a commit of an old generation is refused",
    found="commit{s} of an old generation {was} accepted",
    formula="a member was assigned in generation g′ ≺ commit of generation g < g′ ⇒ not ok",
    needs="COMMITS commit.generation commit.inv assigned.group assigned.generation "
    "assigned.ret one_clock",
    spec="ConsumerCommit!ReceiveCommit, with Fence",
    unless="consumers.group_protocol is consumer, as the broker then compares a member's own "
    f"epoch, or {MAY_FORGET}",
    scope="group",
    looks_at="commits by the application, and assignments, with a generation, in groups of the "
    "classic protocol",
    uses="",
)
def unfenced_commits(p: Rows) -> list[Found]:
    """A zombie's commit was taken although the group had moved on without it.

    In the classic protocol a group has one generation at a time, and the broker compares it. Under
    KIP-848 it compares the member's own epoch, since KIP-1251 it takes older ones for partitions
    that the member still has, and a client that is refused tries again with its newer epoch: what
    another member was told says nothing there. Nor does what a group was told that may have been
    deleted since, or have expired.
    """
    if int(p.context.classic[p.group[0]]) == 0:
        return [Found(0)]
    joined = p.where(Op.ASSIGNED)
    joined = joined[p.ok[joined] & (p.generation[joined] != NONE)]
    commits = answered(p)
    commits = commits[(p.generation[commits] != NONE) & ~p.has(Flag.AUTO)[commits]]
    if not len(joined):
        return [Found(0)]
    own = _own(p, joined, commits)
    since = life(p, np.where(own >= 0, own, commits))
    joined = joined[p.ret[joined] != NONE]
    joined = joined[np.argsort(p.ret[joined], kind="stable")]
    lives, seen = life(p, joined), len(commits)
    found = [witness(own[:0], own[:0], own[:0])]
    for one in np.unique(since):
        mine = since == one
        found.append(_superseded(p, joined[lives >= one], commits[mine], own[mine]))
    lines = np.concatenate(found)
    lines = lines[np.argsort(lines[:, 1], kind="stable")]
    pairs, own = lines[:, :2], lines[:, 2]
    sure = (own >= 0) & (p.clock[own] == p.clock[pairs[:, 0]]) & (p.inv[own] != NONE)
    sure &= p.inv[own] <= p.ret[pairs[:, 0]]
    clauses = unless_classic(p, pairs)
    maybe = unless_parted(p, clauses, pairs[:, 0], pairs[:, 1], Apart.MEMBERS)
    return [Found(seen, pairs, np.where(sure, clauses, maybe))]


def _own(p: Rows, joined: Ints, commits: Ints) -> Ints:
    """For each commit, the last assignment of its process in its generation, -1 without one."""
    both = np.r_[joined, commits]
    both = both[order_by(p.process[both], p.generation[both], both)]
    given = p.op[both] == Op.ASSIGNED
    at = last_upto(given)
    known = at >= 0
    known[known] = p.process[both[at[known]]] == p.process[both[known]]
    known[known] &= p.generation[both[at[known]]] == p.generation[both[known]]
    found = np.full(len(p), NONE)
    found[both] = np.where(known, both[at], NONE)
    return found[commits]


def _superseded(p: Rows, joined: Ints, commits: Ints, own: Ints) -> Ints:
    """Commits after an assignment of a newer generation, with it, and the committer's own."""
    if not len(joined):
        return witness(own[:0], own[:0], own[:0])
    newest, at = running_max(p.generation[joined])
    before = np.searchsorted(p.ret[joined], p.inv[commits], side="left") - 1
    commits, own, before = (x[before >= 0] for x in (commits, own, before))
    old = newest[before] > p.generation[commits]
    old &= p.clock[joined[at[before]]] == p.clock[commits]
    return witness(joined[at[before[old]]], commits[old], own[old])


@check(
    "G11",
    "static members are fenced",
    found="commit{s} of a replaced static member {was} accepted",
    formula="a member of instance i assigned ≺ commit of another of i, assigned before ⇒ not ok",
    needs="COMMITS static.group",
    closed="static.instance static.inv static.ret one_clock consumers",
    spec="ConsumerCommit!ReceiveCommit, with Fence",
    unless=MAY_FORGET,
    scope="group",
    looks_at="commits of members whose instance another process had, too",
    uses="outcome instance",
)
def two_of_one_instance(p: Rows) -> list[Found]:
    """A process that joins under the name of a member takes its place, and fences the other one."""
    rows = p.where(Op.ASSIGNED, Op.COMMIT)
    rows = rows[p.ok[rows] & (p.instance[rows] != NONE) & ~p.has(Flag.AUTO)[rows]]
    rows = rows[_shared(p, rows)]
    joined = p.op[rows] == Op.ASSIGNED
    own = last_upto(joined)
    commit = np.flatnonzero(~joined & (own >= 0))
    same = p.process[rows[own[commit]]] == p.process[rows[commit]]
    same &= p.instance[rows[own[commit]]] == p.instance[rows[commit]]
    commits, own = rows[commit[same]], rows[own[commit[same]]]
    found = [
        _taken_over(p, rows[joined & (p.instance[rows] == i)], commits[mine], own[mine])
        for i in np.unique(p.instance[commits])
        for mine in (p.instance[commits] == i,)
    ]
    lines = np.concatenate([witness(commits[:0], own[:0], own[:0]), *found])
    return [Found(len(commits), lines, forgotten(p, p.group[lines[:, 0]]))]


@check(
    "G12",
    "a partition's owners commit in turn",
    found="transaction{s} of a partition's former owner {was} accepted after the new owner's",
    formula="m, then m′ given p; m′ sent its offsets in epoch e′ ≺ m did in epoch e < e′ ⇒ not ok",
    needs="sent_offsets.topic sent_offsets.partition sent_offsets.group sent_offsets.generation "
    "sent_offsets.member producers producers.whole",
    closed="sent_offsets.inv sent_offsets.ret assigned.topic assigned.partition assigned.group "
    "assigned.member assigned.inv assigned.ret consumers consumers.whole one_clock",
    spec="ConsumerGroup!OnlyHoldersCommit",
    unless=MAY_FORGET,
    looks_at="offsets that a member sent in a transaction after another member had",
    uses="outcome member",
)
def former_owner(p: Partition) -> list[Found]:
    """The offsets of a member were taken although its partition had been another one's since.

    A partition goes from one member to another with a newer target, so its owner's epoch is newer
    than any in which the other one had it; under KIP-848 a member's epoch alone does not tell (it
    may stay while a partition is given up). Only offsets of transactions are judged: there the
    application itself says in which epoch, and no client tries again with a newer one (KIP-447).
    """
    sent = p.where(Op.TXN_OFFSETS)
    sent = sent[p.ok[sent] & (p.group[sent] != NONE) & (p.inv[sent] != NONE)]
    sent = sent[(p.member[sent] != NONE) & (p.generation[sent] != NONE) & (p.ret[sent] != NONE)]
    return [_late(p, sent[p.group[sent] == g]) for g in np.unique(p.group[sent])] or [Found(0)]


def _late(p: Partition, sent: Ints) -> Found:
    """Of one group: what a member sent after another had, in a newer epoch, as the new owner."""
    members, whose = np.unique(p.member[sent], return_inverse=True)
    if len(members) < 2:
        return Found(0)
    first = np.full(len(members), np.iinfo(np.int64).max)
    np.minimum.at(first, whose, p.ret[sent])
    soonest, next_one = np.argsort(first, kind="stable")[:2]
    by_others = np.where(whose == soonest, first[next_one], first[soonest])
    answered_in = sent[np.argsort(p.ret[sent], kind="stable")]
    newest, _ = running_max(p.generation[answered_in])
    upto = np.searchsorted(p.ret[answered_in], p.inv[sent], side="left") - 1
    late = sent[(upto >= 0) & (newest[upto] > p.generation[sent])]
    found = [row for row in (_overtaken(p, sent, int(one)) for one in late) if row is not None]
    seen = int(np.count_nonzero(by_others < p.inv[sent]))
    lines = np.array(found, np.int64).reshape(-1, 4)
    return Found(seen, lines, forgotten(p, p.group[lines[:, 0]]))


def _overtaken(p: Partition, sent: Ints, late: int) -> tuple[int, ...] | None:
    """Owners of the partition, one after the other, and their sends in the opposite order.

    Where times of several clocks do not compare, the need `one_clock` leaves this undecided.
    """
    before = (p.ret[sent] < p.inv[late]) & (p.generation[sent] > p.generation[late])
    others = sent[before & (p.member[sent] != p.member[late])]
    given = p.where(Op.ASSIGNED)
    given = given[p.ok[given] & (p.group[given] == p.group[late])]
    given = given[p.inv[given] <= p.ret[late]]
    own = given[p.member[given] == p.member[late]]
    if not len(own):
        return None
    last = own[np.argmax(p.ret[own])]
    since = given[p.inv[given] > p.ret[last]]
    for other in others:
        its = since[(p.member[since] == p.member[other]) & (p.ret[since] < p.inv[other])]
        if len(its):
            return int(last), int(its[0]), int(other), late
    return None


def _shared(p: Rows, rows: Ints) -> Bools:
    """Rows whose instance more than one process had."""
    order = order_by(p.instance[rows], p.process[rows])
    instance, process = p.instance[rows[order]], p.process[rows[order]]
    two = (instance[1:] == instance[:-1]) & (process[1:] != process[:-1])
    return np.isin(p.instance[rows], instance[1:][two])


def _taken_over(p: Rows, joined: Ints, commits: Ints, own: Ints) -> Ints:
    """Commits after another process had joined, which was after their own process had."""
    joined = joined[order_by(p.ret[joined], joined)]
    latest, at = running_max(p.inv[joined])
    before = np.searchsorted(p.ret[joined], p.inv[commits], side="left") - 1
    commits, own, before = (x[before >= 0] for x in (commits, own, before))
    taken = latest[before] > p.ret[own]
    return witness(own[taken], joined[at[before[taken]]], commits[taken])
