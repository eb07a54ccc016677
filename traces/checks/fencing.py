"""Whoever is no longer a member of its group cannot commit for it."""

import numpy as np

from traces.checks.base import Found, check, witness
from traces.checks.commits import answered
from traces.checks.handover import unless_classic
from traces.checks.rows import Rows
from traces.columns import Bools, last_upto, running_max
from traces.context import Ints
from traces.schema import NONE, Flag, Op
from traces.sorting import order_by


@check(
    "G4",
    "a commit of an old generation is refused",
    formula="a member was assigned in generation g′ ≺ commit of generation g < g′ ⇒ not ok",
    needs="COMMITS commit.generation commit.inv assigned.group assigned.generation "
    "assigned.ret one_clock",
    spec="ConsumerCommit!ReceiveCommit, with Fence",
    unless="consumers.group_protocol is consumer, as the broker then compares a member's own epoch",
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
    another member was told says nothing there.
    """
    if int(p.context.classic[p.group[0]]) == 0:
        return [Found(0)]
    joined = p.where(Op.ASSIGNED)
    joined = joined[p.ok[joined] & (p.generation[joined] != NONE) & (p.ret[joined] != NONE)]
    joined = joined[np.argsort(p.ret[joined], kind="stable")]
    newest, at = running_max(p.generation[joined])
    commits = answered(p)
    commits = commits[(p.generation[commits] != NONE) & ~p.has(Flag.AUTO)[commits]]
    before = np.searchsorted(p.ret[joined], p.inv[commits], side="left") - 1
    seen = len(commits) if len(joined) else 0
    commits, before = commits[before >= 0], before[before >= 0]
    old = (newest[before] > p.generation[commits]) if seen else np.zeros(len(commits), bool)
    old &= p.clock[joined[at[before]]] == p.clock[commits] if seen else old
    found = witness(joined[at[before[old]]], commits[old]) if seen else witness(commits[old])
    return [Found(seen, found, unless_classic(p, found))]


@check(
    "G11",
    "static members are fenced",
    formula="a member of instance i assigned ≺ commit of another of i, assigned before ⇒ not ok",
    needs="COMMITS static.instance static.group",
    closed="static.inv static.ret one_clock consumers",
    spec="ConsumerCommit!ReceiveCommit, with Fence",
    scope="group",
    looks_at="commits of members whose instance another process had, too",
    uses="outcome instance",
)
def two_of_one_instance(p: Rows) -> list[Found]:
    """Whoever joins under the name of a member takes its place, and the other one is fenced."""
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
    return [Found(len(commits), lines, np.zeros(len(lines), np.int64))]


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
