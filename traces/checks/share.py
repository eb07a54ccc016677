"""Share groups (KIP-932): each record is lent to one member, and its deliveries are counted.

The broker that leads a partition keeps who has acquired what in memory only. What was accepted,
rejected or released is stored before it is answered; what was not acknowledged may be given out
again at once when its holder's session ends or its leader moves, and then with the same count
(KAFKA-17541, KAFKA-19972). So only an acknowledgement that was answered proves anything.
"""

import numpy as np
from attrs import frozen

from traces.checks.base import Found, check, witness
from traces.checks.partition import Partition
from traces.checks.rows import Rows, once
from traces.model.columns import Bools, firsts, last_upto
from traces.model.context import UNSET, Clause, Ints, clause
from traces.model.schema import NONE, Detail, Flag, Op, Outcome
from traces.model.sorting import order_by

MS = 1_000_000
_ACCEPT, _RELEASE, _REJECT, RENEW = (
    Detail.ACKS[ack] for ack in ("accept", "release", "reject", "renew")
)
_FIELDS = " ".join(
    f"shared.{name}" for name in ("topic", "partition", "offset", "group", "detail", "inv", "ret")
)
_COMMITS = "commit.topic commit.group commit.inv commit.ret OPEN_COMMITS"
WHOLE = f"{_FIELDS} consumers consumers.whole one_clock {_COMMITS}"
_COLUMNS = "outcome detail"


@once
def share_groups(p: Rows) -> Ints:
    """Groups that are known to share: by their settings, or by what their members did."""
    acting = p.group[p.where(Op.ACQUIRE, Op.ACKNOWLEDGE, Op.WAITED)]
    settings = (p.context.lock, p.context.delivery_limit, p.context.share_committed_only)
    named = [one.numbers[one.values[:-1] != UNSET] for one in settings]
    return np.unique(np.concatenate([acting[acting != NONE], *named]))


@frozen
class Deliveries:
    """Every delivery of a partition's records, by group, offset and time, and what came of it."""

    rows: Ints
    ack: Ints  # the row of the acknowledgement that ended it, NONE where there is none
    lock_from: Ints  # when it was acquired or last renewed, at the earliest


@once
def deliveries(p: Partition) -> Deliveries:
    """Each delivery with the next that its process did with the record."""
    rows = p.where(Op.ACQUIRE, Op.ACKNOWLEDGE)
    acquired = p.op[rows] == Op.ACQUIRE
    rows = rows[(p.group[rows] != NONE) & (p.offset[rows] != NONE) & (~acquired | p.ok[rows])]
    rows = rows[order_by(p.group[rows], p.offset[rows], p.process[rows], rows)]
    acquired = p.op[rows] == Op.ACQUIRE
    own = firsts(p.group[rows], p.offset[rows], p.process[rows])
    renewed = ~acquired & (p.detail[rows] == RENEW)
    # One run per delivery: it begins with the acquisition and ends before the next.
    run = np.cumsum(acquired | own) - 1
    begins = np.flatnonzero(acquired | own)
    end = np.where(acquired | renewed, len(rows), np.arange(len(rows)))
    ends = np.minimum.reduceat(end, begins) if len(rows) else end
    held = acquired | (
        renewed & (p.outcome[rows] == Outcome.OK) & (np.arange(len(rows)) < ends[run])
    )
    since = np.where(held, p.inv[rows], NONE)
    lock_from = np.maximum.reduceat(since, begins) if len(rows) else since
    ack = np.where(ends < len(rows), rows[np.minimum(ends, len(rows) - 1)], NONE)
    real = acquired[begins]
    rows, ack, lock_from = rows[begins[real]], ack[real], lock_from[real]
    order = order_by(p.group[rows], p.offset[rows], p.ret[rows], rows)
    return Deliveries(rows[order], ack[order], lock_from[order])


def moved_back(p: Partition, rows: Ints, since: Ints, until: Ints) -> Bools:
    """True where an administrator may have set a group's start offset to a record, or below it.

    A commit that nobody answered may have been done at any time after its call.
    """
    moved = np.zeros(len(rows), bool)
    commits = p.where(Op.COMMIT)
    for commit in commits[np.isin(p.group[commits], p.group[rows])]:
        if p.outcome[commit] == Outcome.FAIL:
            continue
        open_ended = not p.ok[commit] or p.ret[commit] == NONE
        late = (p.ret[commit] >= since) | open_ended
        reached = (p.group[rows] == p.group[commit]) & (p.offset[commit] <= p.offset[rows])
        moved |= reached & late & (p.inv[commit] <= until)
    return moved


@check(
    "S1",
    "acquisition is exclusive",
    found="record{s} {was} held by two members at a time",
    formula="[acquired, acknowledged or lock expired] of one (group, o) are disjoint",
    needs="",
    closed=WHOLE,
    unless="an acknowledgement was not taken, or somebody else may have ended the record before",
    looks_at="records that a share group was given",
    uses=_COLUMNS,
)
def held_by_two(p: Partition) -> list[Found]:
    """While a member holds a record, nobody else of its group is given it.

    It surely holds it from its acquisition until it acknowledges, if that was taken within the lock
    time. One that was refused or never made is no proof: the record may have been released early,
    and then a second holder is counted and permitted. Nor is one below the share group's start,
    which is answered with success and means nothing. The start may be above the record if another
    member may have ended it, or an administrator has moved the start: both are permitted. If the
    final scan does not have the record, it may have been deleted, and nobody can say.
    """
    d = deliveries(p)
    one, two = _successive(p, d.rows)
    lock = p.context.lock[p.group[d.rows]]
    expires = np.where(lock == UNSET, np.iinfo(np.int64).max, d.lock_from + lock * MS)
    ack = d.ack[one]
    taken = (ack != NONE) & (p.outcome[ack] == Outcome.OK)
    given_back = np.where(ack != NONE, p.inv[ack], np.iinfo(np.int64).max)
    both = p.ret[d.rows[two]] < np.minimum(expires[one], given_back)
    one, two, ack, taken = one[both], two[both], ack[both], taken[both]
    held, group = d.rows[one], p.group[d.rows[one]]
    in_time = taken & (p.ret[ack] <= expires[one])
    in_time[in_time] = ~_passed(p, d, held[in_time], ack[in_time])
    there = np.isin(p.offset[held], p.offset[p.given[p.has(Flag.FINAL)[p.given]]])
    unsure = (lock[one] == UNSET) | (p.context.delivery_limit[group] == UNSET) | ~there
    clauses = np.select(
        [(lock[one] == UNSET) | (in_time & unsure), ~in_time],
        [clause(Clause.UNKNOWN, group), clause(Clause.UNACKNOWLEDGED, group)],
        unless_replaced(p, d, two),
    )
    return [Found(len(d.rows), witness(held, d.rows[two], ack), clauses)]


def _passed(p: Partition, d: Deliveries, held: Ints, acks: Ints) -> Bools:
    """True where the share group's start may have been above a record when its holder was answered.

    Another member may have ended the record, or been the last to be given it: a delivery of which
    no member tells counts, too.
    """
    limit = p.context.delivery_limit[p.group[d.rows]]
    last = d.rows[(limit != UNSET) & (p.detail[d.rows] + 1 >= limit)]
    ends = np.r_[final_acks(p, Outcome.OK, Outcome.INFO), last]
    ends = ends[order_by(p.offset[ends], ends)]
    begin = np.searchsorted(p.offset[ends], p.offset[held], side="left")
    end = np.searchsorted(p.offset[ends], p.offset[held], side="right")
    commits = p.where(Op.COMMIT)
    commits = commits[p.outcome[commits] != Outcome.FAIL]
    passed = np.zeros(len(held), bool)
    for i, (row, ack) in enumerate(zip(held.tolist(), acks.tolist(), strict=True)):
        others = ends[begin[i] : end[i]]
        others = others[p.process[others] != p.process[row]]
        calls = np.r_[others, commits[p.offset[commits] > p.offset[row]]]
        late = (p.outcome[calls] == Outcome.INFO) | (p.ret[calls] >= p.inv[row])
        mine = (p.group[calls] == p.group[row]) & (p.inv[calls] <= p.ret[ack])
        passed[i] = (mine & late).any()
    return passed


def unless_replaced(p: Partition, d: Deliveries, which: Ints) -> Ints:
    """The clause of deliveries: permitted if a leader that was replaced may have made them.

    It gives records from its memory, and what their holders acknowledge is refused.
    """
    ack = d.ack[which]
    refused = (ack != NONE) & (p.outcome[ack] != Outcome.OK)
    return np.where(refused, clause(Clause.REPLACED, p.group[d.rows[which]]), 0)


def _successive(p: Partition, rows: Ints) -> tuple[Ints, Ints]:
    """Places of successive deliveries of one record to one group."""
    again = np.flatnonzero(~firsts(p.group[rows], p.offset[rows]))
    return again - 1, again


@check(
    "S2",
    "acknowledgement is final",
    found="record{s} {was} given out again after a final acknowledgement",
    formula="accepted or rejected ≺ acquired: not the same (group, o)",
    needs="",
    closed=WHOLE,
    unless="the later delivery's acknowledgement was not taken",
    looks_at="records that a share group accepted or rejected",
    uses=_COLUMNS,
)
def given_after_final(p: Partition) -> list[Found]:
    """A record that was accepted or rejected, and answered so, is given to no member again.

    Only a leader that was replaced and does not know it may do so. That cannot be seen but by the
    acknowledgement of what it gave, which is refused: then the delivery is permitted.
    """
    d = deliveries(p)
    final = final_acks(p, Outcome.OK)
    rows, which = np.r_[final, d.rows], np.r_[np.full(len(final), NONE), np.arange(len(d.rows))]
    is_final = (which == NONE).astype(np.int64)
    when = np.where(is_final == 1, p.ret[rows], p.inv[rows])
    order = order_by(p.group[rows], p.offset[rows], when, is_final, rows)
    rows, which, is_final = rows[order], which[order], is_final[order] == 1
    last = last_upto(is_final)
    again = np.flatnonzero(~is_final & (last >= 0))
    before = last[again]
    same = p.group[rows[again]] == p.group[rows[before]]
    same &= p.offset[rows[again]] == p.offset[rows[before]]
    again, before = again[same], before[same]
    moved = moved_back(p, rows[again], p.inv[rows[before]], p.ret[rows[again]])
    again, before = again[~moved], before[~moved]
    clauses = unless_replaced(p, d, which[again])
    return [Found(len(final), witness(rows[before], rows[again]), clauses)]


def final_acks(p: Partition, *outcomes: Outcome) -> Ints:
    """Acknowledgements with these outcomes that end a record's life in its group."""
    rows = p.where(Op.ACKNOWLEDGE)
    final = (p.detail[rows] == _ACCEPT) | (p.detail[rows] == _REJECT)
    final &= np.isin(p.outcome[rows], outcomes)
    return rows[final & (p.group[rows] != NONE) & (p.offset[rows] != NONE)]


@check(
    "S3",
    "deliveries are counted",
    found="deliver{y} of a share group {was} miscounted",
    formula="counts of one (group, o) grow from 1, and none is above the limit",
    needs="",
    closed=f"{WHOLE} share_groups.delivery_limit",
    unless="an acknowledgement was not taken: of the delivery before it, or its own",
    looks_at="deliveries of a share group",
    uses=_COLUMNS,
)
def miscounted(p: Partition) -> list[Found]:
    """A record that nobody can process is delivered so many times and no more.

    A count may skip, as an acquisition that its member never told of counts, too. It may repeat
    where the delivery before was not acknowledged, but not after a release that was answered.
    There it is permitted if its own acknowledgement was refused: by a leader that was replaced.
    """
    d = deliveries(p)
    limit, count = p.context.delivery_limit[p.group[d.rows]], p.detail[d.rows]
    wrong = d.rows[(count < 1) | ((limit != UNSET) & (count > limit))]
    one, two = _successive(p, d.rows)
    later = (p.ret[d.rows[one]] < p.inv[d.rows[two]]) & (count[two] <= count[one])
    one, two = one[later], two[later]
    ack = d.ack[one]
    answered = (ack != NONE) & (p.outcome[ack] == Outcome.OK) & (p.ret[ack] < p.inv[d.rows[two]])
    final = answered & np.isin(p.detail[ack], (_ACCEPT, _REJECT))  # S2 looks at those
    moved = moved_back(p, d.rows[two], p.inv[d.rows[one]], p.ret[d.rows[two]])
    one, two, ack, answered = (x[~final & ~moved] for x in (one, two, ack, answered))
    again = witness(d.rows[one], ack, d.rows[two])
    forgotten = clause(Clause.UNACKNOWLEDGED, p.group[d.rows[one]])
    clauses = np.where(answered, unless_replaced(p, d, two), forgotten)
    return [
        Found(len(d.rows), witness(wrong), np.zeros(len(wrong), np.int64)),
        Found(0, again, clauses),
    ]
