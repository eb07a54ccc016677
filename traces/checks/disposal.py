"""The start of a share group (KIP-932): records below it are done with."""

import numpy as np

from traces.checks.base import Found, check, witness
from traces.checks.partition import Partition
from traces.checks.share import (
    WHOLE,
    deliveries,
    final_acks,
    moved_back,
    share_groups,
    unless_replaced,
)
from traces.checks.visible import surely_visible_before, visible_before
from traces.model.columns import firsts, lookup, running_max
from traces.model.context import UNSET, Clause, Ints, clause
from traces.model.schema import NONE, Op, Outcome, Txn
from traces.model.sorting import order_by


@check(
    "S4",
    "everything is disposed of",
    found="record{s} of a share group {was} left over",
    formula="o between the first and the last delivered: accepted, rejected or given up at the end",
    needs="proof COPIES",
    closed=f"{WHOLE} complete SEEN",
    unless="",
    looks_at="records that a share group had reached at the end",
    uses="outcome detail txn_state isolation key",
)
def left_over(p: Partition) -> list[Found]:
    """When all is over, no record waits that a share group had reached.

    A matter of progress: what is found is told and permitted, and never called violated. What was
    delivered as often as the limit says is given up, acknowledged or not.
    """
    d, limit = deliveries(p), p.context.delivery_limit
    if not (p.context.complete and len(d.rows)):
        return [Found(0)]
    seen, sure, out = visible_before(p), surely_visible_before(p), [Found(0)]
    for group in np.unique(p.group[d.rows]):
        mine = d.rows[p.group[d.rows] == group]
        reach = p.offset[mine]
        reached = seen[(seen >= reach.min()) & (seen <= reach.max())]
        final, maybe = (
            p.offset[rows[p.group[rows] == group]]
            for rows in (final_acks(p, Outcome.OK), final_acks(p, Outcome.INFO))
        )
        most = int(limit[group])
        given_up = reach[(most != UNSET) & (p.detail[mine] >= most)]
        left = reached[~np.isin(reached, np.r_[final, given_up])]
        last = mine[np.r_[p.offset[mine[1:]] != p.offset[mine[:-1]], True]]
        at = lookup(p.offset[last], left)
        shown = np.where(at >= 0, last[at], NONE)
        unsure = np.isin(left, maybe) | (most == UNSET) | ~np.isin(left, sure)
        code = np.where(unsure, clause(Clause.UNKNOWN, group), clause(Clause.PROGRESS, group))
        out.append(Found(len(reached), witness(shown, _where(p, left)), code))
    return out


def _where(p: Partition, offsets: Ints) -> Ints:
    """The row of the final scan, or any reading, that shows each of these offsets."""
    rows = np.concatenate([p.final, p.log])
    rows = rows[np.unique(p.offset[rows], return_index=True)[1]]
    return rows[lookup(p.offset[rows], offsets)]


@check(
    "S5",
    "the start offset does not go back",
    found="time{s} a share group's start went back, or it was given what was not committed",
    formula="start offsets do not decrease, nothing below is given; committed ones only, if so set",
    needs="acquired.id",
    closed=f"{WHOLE} SENDS TXNS ending.inv producers.whole fetched.topic fetched.group "
    "fetched.inv fetched.ret",
    unless="a delivery's acknowledgement was not taken, or share_groups.isolation is "
    "read_uncommitted, where a record was not committed",
    looks_at="answers about a share group's start offset, and records of transactions it was given",
    uses="outcome detail txn_state end_inv clock",
)
def start_back(p: Partition) -> list[Found]:
    """Records below a share group's start are done with; only an administrator moves it back.

    An answer to `committed` is where a share group starts. A share group that reads what is
    committed is given no record of a transaction that was aborted, or that nobody had asked to
    commit. A leader that was replaced may give records below the start, and refuses their
    acknowledgement.
    """
    groups = share_groups(p)
    asked = p.where(Op.COMMITTED)
    asked = asked[p.ok[asked] & (p.offset[asked] != NONE) & np.isin(p.group[asked], groups)]
    below = [_below(p, asked[p.group[asked] == g]) for g in groups]
    return [*below, _undecided(p) if len(deliveries(p).rows) else Found(0)]


def _below(p: Partition, asked: Ints) -> Found:
    """Answers and deliveries below what had been answered before."""
    if not len(asked):
        return Found(0)
    d = deliveries(p)
    answers = asked[order_by(p.ret[asked], asked)]
    best, at = running_max(p.offset[answers])
    mine = np.flatnonzero(p.group[d.rows] == p.group[asked[0]])
    later = np.r_[asked, d.rows[mine]]
    clauses = np.r_[np.zeros(len(asked), np.int64), unless_replaced(p, d, mine)]
    before = np.searchsorted(p.ret[answers], p.inv[later], side="left") - 1
    below = (before >= 0) & (p.offset[later] < best[before])
    later, clauses, first = later[below], clauses[below], answers[at[before[below]]]
    moved = moved_back(p, later, p.inv[first], p.ret[later])
    return Found(len(asked), witness(first[~moved], later[~moved]), clauses[~moved])


def _undecided(p: Partition) -> Found:
    """Deliveries of records whose transaction was aborted or still open, to who wants neither."""
    d = deliveries(p)
    only = p.context.share_committed_only[p.group[d.rows]]
    rows = d.rows[only != 0]
    sends = p.sends
    when = np.where(p.txn_state[sends] == Txn.ABORTED, np.iinfo(np.int64).max, p.end_inv[sends])
    when[p.txn_state[sends] == Txn.NOT] = NONE
    # Of a record that was sent more than once, any attempt may be the one that was given: first
    # those that nobody had to commit, or of which nobody knows when, and aborted ones last.
    sends = sends[order_by(p.id[sends], when, sends)]
    sends = sends[firsts(p.id[sends])]
    sends = sends[p.txn_state[sends] != Txn.NOT]
    at = lookup(p.id[sends], p.id[rows])
    rows, sends = rows[at >= 0], sends[at[at >= 0]]
    state, end = p.txn_state[sends], p.end_inv[sends]
    early = (state != Txn.ABORTED) & (end != NONE) & (p.ret[rows] < end)
    wrong = (state == Txn.ABORTED) | (early & (p.clock[rows] == p.clock[sends]))
    found = witness(rows[wrong], sends[wrong])
    group = p.group[found[:, 0]]
    unset = p.context.share_committed_only[group] == UNSET
    clauses = np.where(unset, clause(Clause.UNKNOWN, group), p.unless_sent(found[:, 1]))
    return Found(len(rows), found, clauses)
