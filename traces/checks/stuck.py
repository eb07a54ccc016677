"""A share group that is stuck: its members poll on, records wait, and nobody holds any."""

import numpy as np
from attrs import frozen

from traces.checks.base import Found, check
from traces.checks.partition import Partition
from traces.checks.share import MS, RENEW, WHOLE, deliveries, final_acks, share_groups
from traces.checks.visible import surely_visible_before
from traces.model.columns import distinct
from traces.model.context import NEVER, UNSET, Clause, Ints, clause
from traces.model.schema import NONE, Isolation, Op, Outcome

#: In each such part of the longest wait members polled, and brokers answered.
PARTS = 4
_ALWAYS = -NEVER


@check(
    "S6",
    "a share group is not stuck",
    found="partition{s} of a share group {was} stuck: members that polled were given none of the "
    "records that waited there",
    formula="members poll from a to b, o waits, nobody holds any ⇒ b − a ≤ lock_ms + stuck_ms",
    needs="proof policy copies producers.whole share_groups.polls share_groups.stuck_ms "
    "share_groups.lock_ms waited.group waited.inv waited.ret joined.group joined.inv joined.ret "
    "list_offsets.topic list_offsets.offset list_offsets.ret asked.timestamp fetched.topic "
    "fetched.group fetched.ret",
    closed=f"{WHOLE} complete SEEN share_groups.delivery_limit share_groups.members",
    unless="",
    kinds="stuck",
    looks_at="partitions of share groups whose members tell polls that gave nothing, and of which "
    "ends and starts were asked",
    uses="outcome detail txn_state isolation key",
)
def stuck(p: Partition) -> list[Found]:
    """Records that wait are given to members that poll, within the time that meta.json states.

    Records wait from the group's start up to the committed end of the partition (the high
    watermark, or the last stable offset), unless they are accepted, rejected or given up. A lock of
    which nobody tells may hold them for the lock time; `share_groups.stuck_ms` is the time beyond
    it. All that while the same members are there and nobody holds a record of the partition. No
    quarter of `stuck_ms` passes without a poll of each, without an answer of the leader about the
    end, or without one of the group's coordinators about its start.
    """
    return [Found(0), *(_of_group(p, int(group)) for group in share_groups(p))]


@frozen
class TimeSpans:
    """Stretches of time, in order, that do not touch."""

    begin: Ints
    end: Ints

    def within(self, other: "TimeSpans") -> "TimeSpans":
        """The parts of these that lie in the others, too."""
        begin = np.maximum(self.begin[:, None], other.begin[None, :])
        end = np.minimum(self.end[:, None], other.end[None, :])
        both = begin < end
        order = np.argsort(begin[both], kind="stable")
        return TimeSpans(begin[both][order], end[both][order])

    def between(self) -> "TimeSpans":
        """The stretches that none of these covers."""
        return TimeSpans(np.r_[_ALWAYS, self.end], np.r_[self.begin, NEVER])


def spans(begin: Ints, end: Ints, apart: int = 0) -> TimeSpans:
    """Stretches, those together that are no further apart than this."""
    if not len(begin):
        return TimeSpans(begin, end)
    order = np.argsort(begin, kind="stable")
    begin, reach = begin[order], np.maximum.accumulate(end[order])
    new = np.r_[True, begin[1:] > np.minimum(reach[:-1], NEVER - apart) + apart]
    last = np.r_[np.flatnonzero(new)[1:] - 1, len(begin) - 1]
    return TimeSpans(begin[new], reach[last])


def _of_group(p: Partition, group: int) -> Found:
    """It is undecided where only ends count of which nobody tells the isolation."""
    mine = {op: _rows(p, group, op) for op in (Op.WAITED, Op.COMMITTED, Op.SUBSCRIBE)}
    starts = mine[Op.COMMITTED][p.offset[mine[Op.COMMITTED]] != NONE]
    ends = _ends(p)
    if UNSET in (int(p.context.stuck[group]), int(p.context.lock[group])):
        return Found(0)
    if not all(map(len, (*mine.values(), starts, ends))):
        return Found(0)
    committed = p.isolation[ends] == Isolation.READ_COMMITTED
    if int(p.context.share_committed_only[group]) == 0:
        committed[:] = True
    reported = committed | (p.isolation[ends] == NONE)
    for which, code in ((committed, 0), (reported, clause(Clause.UNKNOWN, np.int64(group)))):
        line = _stuck(p, group, mine, starts, ends[which])
        if len(line):
            return Found(1, line, np.full(1, code), "stuck")
    return Found(1)


def _stuck(p: Partition, group: int, mine: dict[Op, Ints], starts: Ints, ends: Ints) -> Ints:
    """The last poll of a wait that is too long, the start, and a record that waits; or none."""
    stated, lock = int(p.context.stuck[group]), int(p.context.lock[group])
    longest, apart = (lock + stated) * MS, stated * MS // PARTS
    calm = _taken(p, group, lock * MS).between()
    for process in distinct(p.process[mine[Op.SUBSCRIBE]]).tolist():
        calm = calm.within(_polled(p, mine, process, apart))
    for reported in (starts, ends):
        calm = calm.within(spans(p.ret[reported], p.ret[reported], apart))
    for begin, end in zip(calm.begin.tolist(), calm.end.tolist(), strict=True):
        polls = mine[Op.WAITED][p.ret[mine[Op.WAITED]] <= end]
        last = int(polls[np.argmax(p.ret[polls])]) if len(polls) else NONE
        if last == NONE or int(p.ret[last]) - begin <= longest:
            continue
        since, until = int(p.ret[last]) - longest, int(p.ret[last])
        reported = starts[(p.ret[starts] >= since) & (p.ret[starts] <= until)]
        waiting = _waiting(p, group, ends[p.ret[ends] <= since], reported, until)
        if len(waiting):
            start = int(reported[np.argmax(p.offset[reported])])
            row = int(p.final[np.argmax(p.offset[p.final] == waiting[0])])
            return np.array([[last, start, row]])
    return np.empty((0, 3), np.int64)


def _rows(p: Partition, group: int, op: Op) -> Ints:
    rows = p.where(op)
    return rows[p.ok[rows] & (p.group[rows] == group) & (p.ret[rows] != NONE)]


def _ends(p: Partition) -> Ints:
    """Answers that tell up to where a group's members may be given records."""
    rows = p.where(Op.LATEST)
    return rows[p.ok[rows] & (p.ret[rows] != NONE) & (p.offset[rows] != NONE)]


def _taken(p: Partition, group: int, lock: int) -> TimeSpans:
    """The stretches in which a member held a record, for all that is known."""
    d = deliveries(p)
    mine = p.group[d.rows] == group
    rows, ack = d.rows[mine], d.ack[mine]
    answered = (ack != NONE) & p.ok[ack] & (p.ret[ack] != NONE)
    until = np.where(answered, p.ret[ack], _over(p, rows, lock))
    acks = p.where(Op.ACKNOWLEDGE)
    acks = acks[(p.group[acks] == group) & (p.outcome[acks] != Outcome.FAIL)]
    renewed = acks[p.detail[acks] == RENEW]
    begin, end = np.r_[p.inv[rows], p.inv[renewed]], np.r_[until, _over(p, renewed, lock)]
    return spans(begin, np.maximum(begin, end))


def _over(p: Partition, rows: Ints, lock: int) -> Ints:
    """Times at which the locks of these calls are over; without an answer, it may be any."""
    return np.where(p.ret[rows] != NONE, p.ret[rows] + lock, NEVER)


def _polled(p: Partition, mine: dict[Op, Ints], process: int, apart: int) -> TimeSpans:
    """The stretches in which a member polled in vain, or was not there; not across its coming."""
    joins, polls = (
        rows[p.process[rows] == process] for rows in (mine[Op.SUBSCRIBE], mine[Op.WAITED])
    )
    left = int(p.context.ended[process])
    left = NEVER if left == UNSET else left
    joined = int(p.inv[joins].min())
    busy = spans(np.r_[joined, p.inv[polls]], np.r_[joined, p.ret[polls]], apart)
    if left != NEVER:
        busy = spans(np.r_[busy.begin, left], np.r_[busy.end, left], apart)
    moves = spans(np.r_[p.inv[joins], left], np.r_[p.ret[joins], left])
    away = TimeSpans(np.array([_ALWAYS, left]), np.array([joined, NEVER]))
    there = moves.between().within(busy)
    begin, end = np.r_[away.begin, there.begin], np.r_[away.end, there.end]
    order = np.argsort(begin, kind="stable")
    keep = begin[order] < end[order]
    return TimeSpans(begin[order][keep], end[order][keep])


def _waiting(p: Partition, group: int, ends: Ints, starts: Ints, until: int) -> Ints:
    """Offsets of records from the group's start to the end, with which nobody is done by then."""
    if not (len(ends) and len(starts)):
        return starts[:0]
    there = surely_visible_before(p)
    there = there[(there >= p.offset[starts].max()) & (there < p.offset[ends].max())]
    there = there[np.isin(there, p.offset[p.final])]
    acks = final_acks(p, Outcome.OK, Outcome.INFO)
    d, most = deliveries(p), int(p.context.delivery_limit[group])
    given_up = d.rows[(most != UNSET) & (p.detail[d.rows] >= most)]
    done = np.r_[acks, given_up]
    done = done[(p.group[done] == group) & (p.inv[done] <= until)]
    return there[~np.isin(there, p.offset[done])]
