"""Answers about a group's committed offsets, against its commits."""

import numpy as np
from attrs import frozen

from traces.checks.base import Found, check, witness
from traces.checks.coordinator import MAY_FORGET, by_others, may_come_late, may_have_moved, unless
from traces.checks.lives import MADE_AGAIN, Apart, forgot, unless_parted
from traces.checks.partition import Partition
from traces.checks.share import share_groups
from traces.model.columns import Bools, firsts, running_max
from traces.model.context import UNSET, Clause, Ints, Order, clause
from traces.model.schema import NONE, Flag, Op, Outcome, Txn
from traces.model.sorting import order_by

BEFORE, AFTER = -1, np.iinfo(np.int64).max  # all times
_COLUMNS = "outcome txn_state end_inv timestamp"
_ASKED = "COMMITS OPEN_COMMITS ANSWERS fetched.ret fetched.group commit.inv commit.ret"
_TXN_SENT = " ".join(
    f"{kind}.{name}"
    for kind in ("sent_offsets", "open_offsets")
    for name in ("topic", "partition", "offset", "group", "txn")
)
_ALL = f"{_ASKED} {_TXN_SENT} ending.txn ending.inv one_clock producers"


@frozen
class Writes:
    """Commits of one group: when each took effect, at the earliest and at the latest."""

    rows: Ints
    value: Ints
    start: Ints
    end: Ints

    def explain(self, value: Ints, until: Ints, since: Ints) -> Bools:
        """True where some write of a value began by `until`, and was not over before `since`."""
        if not len(self.rows):
            return np.zeros(len(value), bool)
        order = order_by(self.value, self.start)
        by_end = order_by(self.end)
        rank = np.empty(len(order), np.int64)
        rank[by_end] = np.arange(len(order))
        values = self.value[order]
        # The latest end among the writes of one value that had started by then.
        best = np.maximum.accumulate(np.cumsum(firsts(values)) * len(order) + rank[order])
        at = _last(values, self.start[order], value, until)
        one = (at >= 0) & (np.take(values, at, mode="clip") == value)
        latest = self.end[by_end][np.take(best, at, mode="clip") % len(order)]
        return one & (latest >= since)

    def reopened(self, these: Bools) -> "Writes":
        """These alone, as if they might take effect at any time after they began."""
        rows, value, start = (column[these] for column in (self.rows, self.value, self.start))
        return Writes(rows, value, start, np.full(len(rows), AFTER))

    def overwritten(self, until: Ints, these: Bools | bool = True) -> tuple[Ints, Ints]:
        """The latest start of one of these writes that was surely over by then, and its row.

        Whatever was over before that start was overwritten.
        """
        rows = np.flatnonzero((self.end != AFTER) & these)
        rows = rows[order_by(self.end[rows])]
        best, at = running_max(self.start[rows])
        done = np.searchsorted(self.end[rows], until, side="left") - 1
        there = done >= 0
        since, which = np.full(len(until), AFTER), np.full(len(until), NONE)
        since[there] = best[done[there]]
        which[there] = self.rows[rows[at[done[there]]]]
        return since, which


def _last(values: Ints, starts: Ints, value: Ints, until: Ints) -> Ints:
    """In rows by value and start: the last with this value, or a lower one, started by then."""
    merged_value, merged_time = np.r_[values, value], np.r_[starts, until]
    asking = np.r_[np.zeros(len(values), np.int64), np.ones(len(value), np.int64)]
    order = order_by(merged_value, merged_time, asking)
    before = np.cumsum(asking[order] == 0) - 1
    at = np.empty(len(order), np.int64)
    at[order] = before
    return at[len(values) :]


def _groups(p: Partition) -> list[int]:
    """Groups that asked, and tell all that they commit: not every automatic commit is recorded.

    A share group's start offset is no committed offset.
    """
    asked = np.unique(p.group[_answers(p)])
    configured = (asked != NONE) & (p.context.order[asked] != Order.AUTO)
    return asked[configured & ~np.isin(asked, share_groups(p))].tolist()


def _answers(p: Partition) -> Ints:
    rows = p.where(Op.COMMITTED)
    return rows[p.ok[rows] & (p.inv[rows] != NONE) & (p.ret[rows] != NONE)]


def _register(p: Partition, group: int) -> tuple[Ints, Writes]:
    """The answers that a group was given about its offset, and what may have set it."""
    asked = _answers(p)
    return asked[p.group[asked] == group], _writes(p, group)


def _writes(p: Partition, group: int) -> Writes:
    """Commits that may have set the group's offset, also with a transaction; none that failed.

    Administrators set offsets as well, and delete them, after which there is none.

    What a client commits by itself it reports later, so nobody knows when that began.
    """
    plain = p.where(Op.COMMIT, Op.ALTER_OFFSETS, Op.DELETE_OFFSETS)
    plain = plain[(p.group[plain] == group) & (p.outcome[plain] != Outcome.FAIL)]
    plain = plain[(p.offset[plain] != NONE) | (p.op[plain] == Op.DELETE_OFFSETS)]
    sent = _sent(p, group)
    sent = sent[p.txn_state[sent] != Txn.ABORTED]
    answered = (p.outcome[plain] == Outcome.OK) & (p.ret[plain] != NONE)
    timed = (p.txn_state[sent] == Txn.COMMITTED) & (p.timestamp[sent] != NONE)
    rows = np.r_[plain, sent]
    return Writes(
        rows,
        p.offset[rows],
        np.r_[np.where(p.has(Flag.AUTO)[plain], BEFORE, p.inv[plain]), p.end_inv[sent]],
        np.r_[np.where(answered, p.ret[plain], AFTER), np.where(timed, p.timestamp[sent], AFTER)],
    )


def _sent(p: Partition, group: int) -> Ints:
    rows = p.where(Op.TXN_OFFSETS)
    return rows[(p.group[rows] == group) & (p.outcome[rows] != Outcome.FAIL)]


@check(
    "G7",
    "fetched offsets were committed",
    found="answer{s} about committed offsets {was} never committed, or had been overwritten",
    formula="an answer is a commit concurrent with the question, or the last one before it",
    needs="fetched.partitions",
    closed=f"{_ALL} consumers.whole producers.whole",
    spec="ConsumerCommit!CommittedMonotone",
    unless="consumers.auto_commit is true, as not every automatic commit is recorded, or "
    f"{MAY_FORGET}, or {MADE_AGAIN}; undecided is an answer that a request of an older commit may "
    "explain, which came late",
    looks_at="answers about committed offsets, after a commit that was recorded",
    uses=_COLUMNS,
)
def not_a_register(p: Partition) -> list[Found]:
    """A group's offset is a register: the answer is the last that was written before the question.

    A commit that took so long that its client may have sent it twice may be taken again after its
    answer, and put the group back.

    Until the first commit that was answered nobody knows what was committed before the trace. What
    a transaction committed may show later than its commit is answered, unless the reader asks for
    stable offsets (KIP-447): T9 looks at that.
    """
    return [_stale(p, group) for group in _groups(p)] or [Found(0)]


def _stale(p: Partition, group: int) -> Found:
    asked, writes = _register(p, group)
    plain = p.op[writes.rows] != Op.TXN_OFFSETS
    since, last = writes.overwritten(p.inv[asked], plain)
    judged = last != NONE
    asked, last = asked[judged], last[judged]
    since = np.maximum(since[judged], _deleted(p, group, asked))
    open_end = Writes(writes.rows, writes.value, writes.start, np.where(plain, writes.end, AFTER))
    wrong = ~open_end.explain(p.offset[asked], p.ret[asked], since)
    wrong[wrong] = ~_gone(p, last[wrong], asked[wrong])
    found, of_group = witness(last[wrong], asked[wrong]), np.full(np.count_nonzero(wrong), group)
    late = plain & may_come_late(p, writes.rows)
    again = writes.reopened(late).explain(
        p.offset[found[:, 1]], p.ret[found[:, 1]], np.full(len(found), BEFORE)
    )
    undecided = np.where(again, clause(Clause.UNKNOWN, of_group), _recorded(p, group, len(found)))
    clauses = unless(undecided, may_have_moved(p, of_group))
    return Found(len(asked), found, _unless_gone(p, clauses, found))


def _deleted(p: Partition, group: int, asked: Ints) -> Ints:
    """For each answer, when the last deletion of the group began that was over before it."""
    if p.context.lives is None:
        return np.full(len(asked), BEFORE)
    begin, end = p.context.lives.deletions(group)
    over = end[None, :] < p.inv[asked][:, None]
    return np.where(over, begin[None, :], BEFORE).max(axis=1, initial=BEFORE)


def _gone(p: Partition, last: Ints, asked: Ints) -> Bools:
    """Mask of the answers that nothing is committed any more, which is true."""
    nothing = p.offset[asked] == NONE
    nothing[nothing] = forgot(p, last[nothing], asked[nothing], p.group[asked[nothing]])
    return nothing


def _unless_gone(p: Partition, clauses: Ints, found: Ints) -> Ints:
    """These clauses, undecided where an answer says *nothing*, and somebody may have deleted it."""
    last, asked = found[:, 0], found[:, 1]
    maybe = unless_parted(p, clauses, last, asked, Apart.OFFSETS)
    return np.where(p.offset[asked] == NONE, maybe, clauses)


def _recorded(p: Partition, group: int, n: int) -> Ints:
    """Nothing permits a wrong answer, if it is known that the group commits nothing unrecorded."""
    known = int(p.context.order[group]) != Order.UNKNOWN
    return np.full(n, 0 if known else int(clause(Clause.UNKNOWN, np.int64(group))))


@check(
    "T9",
    "offsets commit with the outputs",
    found="answer{s} about committed offsets contradict{es} the transaction that wrote them",
    formula="the offsets that T sent for a group are what it is answered ⇔ T committed",
    needs="committing.ret fetched.partitions",
    closed=f"{_ALL} sent_offsets.inv open_offsets.inv transactional.txn consumers.whole "
    "producers.whole",
    spec="TransactionalOffsets!NoneSkipped",
    unless="consumers.isolation = read_uncommitted of who asked, which does not wait for the "
    f"transaction, or {MAY_FORGET}, or {MADE_AGAIN}",
    looks_at="answers about committed offsets of groups whose offsets went with transactions",
    uses=_COLUMNS,
)
def torn_offsets(p: Partition) -> list[Found]:
    """A committed transaction moves the group as well; an aborted one leaves it where it was.

    Who reads what is committed asks for stable offsets, and is answered when the transaction is
    decided (KIP-447); anybody else may be answered what was there before it.
    """
    sending = p.group[p.where(Op.TXN_OFFSETS)]
    groups = [group for group in _groups(p) if group in sending]
    return [found for group in groups for found in _torn(p, group)] or [Found(0)]


def _torn(p: Partition, group: int) -> list[Found]:
    (asked, writes), sent = _register(p, group), _sent(p, group)
    asked = asked[p.ret[asked] >= p.inv[sent].min(initial=AFTER)]
    wrong, shown = _undone(p, asked, sent, writes)
    undone = witness(shown, asked[wrong])
    in_txn = p.op[writes.rows] == Op.TXN_OFFSETS
    since, last = writes.overwritten(p.inv[asked], in_txn)
    late = (last != NONE) & ~writes.explain(p.offset[asked], p.ret[asked], since) & ~wrong
    late[late] = ~_gone(p, last[late], asked[late])
    missing = witness(last[late], asked[late])
    others = unless(_recorded(p, group, len(undone)), by_others(p, np.full(len(undone), group)))
    moved = may_have_moved(p, np.full(len(missing), group))
    unstable = unless(_unstable(p, missing[:, 1]), moved)
    return [
        Found(len(asked), undone, others),
        Found(0, missing, _unless_gone(p, unstable, missing)),
    ]


def _undone(p: Partition, asked: Ints, sent: Ints, writes: Writes) -> tuple[Bools, Ints]:
    """Mask of the answers that only an aborted transaction wrote; and its row.

    What was committed before the trace may be the same offset, unless another answer was given
    or another commit made before.
    """
    aborted = sent[p.txn_state[sent] == Txn.ABORTED]
    aborted = aborted[order_by(p.offset[aborted], p.inv[aborted])]
    at = _last(p.offset[aborted], p.inv[aborted], p.offset[asked], p.ret[asked])
    wrong = at >= 0
    wrong[wrong] = p.offset[aborted[at[wrong]]] == p.offset[asked[wrong]]
    wrong &= ~writes.explain(p.offset[asked], p.ret[asked], np.full(len(asked), BEFORE))
    _, last = writes.overwritten(p.inv[asked])
    wrong &= (last != NONE) | _answered_otherwise(p, asked)
    return wrong, aborted[at[wrong]]


def _answered_otherwise(p: Partition, asked: Ints) -> Bools:
    """Mask of the answers that came after another one that said something else."""
    order = asked[order_by(p.ret[asked])]
    low = np.minimum.accumulate(p.offset[order]) if len(order) else order
    high = np.maximum.accumulate(p.offset[order]) if len(order) else order
    before = np.searchsorted(p.ret[order], p.inv[asked], side="left") - 1
    known = before >= 0
    other = np.zeros(len(asked), bool)
    offset = p.offset[asked[known]]
    other[known] = (low[before[known]] != offset) | (high[before[known]] != offset)
    return other


def _unstable(p: Partition, asked: Ints) -> Ints:
    """The clause that permits an answer without a transaction: a setting of the client."""
    process = p.process[asked]
    how = p.context.committed_only[process]
    unsure = np.where(how == UNSET, Clause.UNKNOWN, Clause.ISOLATION)
    return np.where(how == 1, 0, (unsure.astype(np.int64) << 32) | np.maximum(process, 0))
