"""Promises to a producer: its order, and no writes in its name after it is fenced."""

import numpy as np

from traces.checks.base import Found, check, witness
from traces.checks.partition import Partition
from traces.checks.rows import Rows
from traces.model.columns import firsts, running_max
from traces.model.context import UNSET, Clause, Ints, clause, code
from traces.model.schema import NONE, Flag, Op, Outcome
from traces.model.sorting import order_by

MS = 1_000_000


@check(
    "P1",
    "a producer's records keep their order",
    found="record{s} {is} stored out of the producer's order",
    formula="one process: send i before send j to a partition, both stored ⇒ offset(i) < offset(j)",
    needs="ACKS pending.read consumers scan",
    unless="producers.max_in_flight > 1 without idempotence, or the earlier record may be lost",
    kinds="nonmonotonic-send int-nonmonotonic-send",
    looks_at="acknowledged sends",
    uses="",
)
def reordered(p: Partition) -> list[Found]:
    """Retries with several requests in flight may overtake each other; idempotence forbids it.

    A send that was not acknowledged lies where its record was read only if it alone can have put
    it there: an application that repeats its work sends the same record in another call. That
    holds of one that is said to have failed, too: what is read is stored, and in some order.
    """
    known = p.stored_at != NONE
    sends, offset = p.sends[known], p.stored_at[known]  # by process, in the order of the calls
    back = (p.process[sends[1:]] == p.process[sends[:-1]]) & (offset[1:] < offset[:-1])
    found = witness(sends[:-1][back], sends[1:][back])
    inside = p.unit[found[:, 0]] == p.unit[found[:, 1]]
    clauses = p.unless_elsewhere(_order_clause(p, found), found)
    return [
        Found(len(sends), found[~inside], clauses[~inside], "nonmonotonic-send"),
        Found(0, found[inside], clauses[inside], "int-nonmonotonic-send"),
    ]


def _order_clause(p: Partition, found: Ints) -> Ints:
    first = found[:, 0]
    process, c = p.process[first], p.context
    idempotent, in_flight = c.idempotent[process], c.in_flight[process]
    retries = c.retries[process]
    lost = p.may_be_lost(first)
    pipelined = (idempotent == 0) & (in_flight > 1) & (retries != 0)
    unknown = (idempotent == -1) | ((idempotent == 0) & (in_flight == -1))
    settled = np.where((code(lost) == Clause.NOT) & unknown, clause(Clause.UNKNOWN, process), lost)
    return np.where(pipelined, clause(Clause.IN_FLIGHT, process), settled)


@check(
    "P3",
    "a fenced producer writes nothing",
    found="write{s} of a fenced producer {was} acknowledged",
    formula="InitProducerId of a newer epoch ≺ send of an older one ⇒ the send is not acknowledged",
    needs="SENDS send.inv acked.ret named.tid numbered.pid numbered.pepoch init_producer.ret "
    "init_producer.tid one_clock",
    closed="init_producer.inv init_producer.tid producers",
    spec="ProducerState!EpochsAscend",
    kinds="fencing-violation",
    scope="producer",
    looks_at="sends and init_producer with a producer epoch or a transactional id",
    uses="pepoch",
)
def zombie_writes(p: Rows) -> list[Found]:
    """A producer whose successor was already initialised still got its records in."""
    began, settled = _epochs(p)
    sends = p.where(Op.SEND)
    sends = sends[~p.has(Flag.UNKNOWN_PARTITION)[sends]]  # copies of a call that counts once
    sends = sends[(p.outcome[sends] == Outcome.OK) & (settled[sends] != NONE)]
    used = np.flatnonzero((began != NONE) & (p.outcome == Outcome.OK) & (p.ret != NONE))
    used = used[np.lexsort((p.ret[used], -began[used]))]  # newest epoch first
    # For each epoch: the earliest sign of any newer one.
    low, at = running_max(-p.ret[used])
    newer = np.searchsorted(-began[used], -settled[sends], side="left") - 1
    sends, newer = sends[newer >= 0], newer[newer >= 0]
    late = (-low[newer] < p.inv[sends]) & (p.clock[used[at[newer]]] == p.clock[sends])
    found = witness(used[at[newer[late]]], sends[late])
    seen = len(p.where(Op.SEND)) if np.any(began != NONE) else 0
    return [Found(seen, found, np.zeros(len(found), np.int64), "fencing-violation")]


def _epochs(p: Rows) -> tuple[Ints, Ints]:
    """The epoch in whose name each row was written, as an interval: one above another is newer.

    With a transactional id it is when the process was last initialised: clients raise their own
    epoch silently (KIP-360), but a later initialisation fences it anyway. Of two that overlap
    nobody knows which came first.
    """
    if int(p.tid[0]) == NONE:
        return p.pepoch, p.pepoch
    inits = (p.op == Op.INIT_PRODUCER) & (p.outcome == Outcome.OK)
    last = np.maximum.accumulate(np.where(inits | firsts(p.process), np.arange(len(p)), 0))
    began, settled = (np.where(inits[last], times[last], NONE) for times in (p.inv, p.ret))
    return began, settled


@check(
    "P4",
    "producer epochs grow",
    found="initialisation{s} of a transactional id got no newer epoch",
    formula="one transactional id, one producer id: init i ≺ init j ⇒ epoch(i) < epoch(j)",
    needs="init_producer.pid init_producer.pepoch init_producer.tid init_producer.inv "
    "init_producer.ret one_clock producers",
    scope="producer",
    looks_at="init_producer with a transactional id",
    uses="pepoch",
)
def epochs_back(p: Rows) -> list[Found]:
    """Each initialisation fences the one before it, by a higher epoch."""
    inits = p.where(Op.INIT_PRODUCER)
    inits = inits[(p.outcome[inits] == Outcome.OK) & (p.tid[inits] != NONE)]
    known = inits[(p.pid[inits] != NONE) & (p.pepoch[inits] != NONE)]
    known = known[order_by(p.pid[known], p.clock[known], p.inv[known])]
    starts = np.flatnonzero(firsts(p.pid[known], p.clock[known]))
    several = [_not_newer(p, mine) for mine in np.split(known, starts[1:])]
    found = np.concatenate(several)
    return [Found(len(inits), found, np.zeros(len(found), np.int64))]


def _not_newer(p: Rows, inits: Ints) -> Ints:
    """Pairs: of all that were over before an initialisation the newest, and it got no newer."""
    over = inits[p.ret[inits] != NONE]
    over = over[order_by(p.ret[over])]
    newest, at = running_max(p.pepoch[over])
    before = np.searchsorted(p.ret[over], p.inv[inits], side="left") - 1
    later, before = inits[before >= 0], before[before >= 0]
    back = p.pepoch[later] <= newest[before]
    return witness(over[at[before[back]]], later[back])


@check(
    "P7",
    "the newest instance is not fenced",
    found="commit{s} of the newest instance of a transactional id {was} refused as fenced",
    formula="i the last of an id to begin ≺ its commit, within transaction.timeout.ms ⇒ not fenced",
    needs="begin.txn begin.inv begin.tid ending.txn ending.tid init_producer.tid init_producer.ret "
    "one_clock producers",
    closed="init_producer.inv producers.whole",
    spec="TransactionCoordinator!FencedForCause",
    unless="an administrator may have fenced it, or a request that came late",
    scope="producer",
    looks_at="commits of transactions",
    uses="clock",
)
def fenced_by_nobody(p: Rows) -> list[Found]:
    """A producer is fenced by whoever begins after it, and by nobody who began before.

    An older instance that asks for its next epoch may not end the transaction of a newer one. Each
    finding is permitted: an administrator can fence a producer, and a request of an older instance
    that names no epoch may be taken late. The coordinator fences a transaction that was open for
    longer than its time-out.
    """
    ends = p.where(Op.TXN_COMMIT)
    fenced = ends[p.has(Flag.FENCED)[ends] & (p.tid[ends] != NONE) & (p.ret[ends] != NONE)]
    lines = [(own, int(end)) for end in fenced if (own := _newest(p, int(end))) != NONE]
    found = np.array(lines, np.int64).reshape(-1, 2)
    process = p.process[found[:, 1]]
    limited = p.context.txn_timeout[process] != UNSET
    clauses = np.where(limited, clause(Clause.FENCE, process), clause(Clause.UNKNOWN, process))
    return [Found(len(ends), found, clauses)]


def _newest(p: Rows, end: int) -> int:
    """The initialisation of the process of this commit, if nobody else's explains its fence."""
    inits = p.where(Op.INIT_PRODUCER)
    mine = p.process[inits] == p.process[end]
    own = inits[mine & (inits < end) & (p.outcome[inits] == Outcome.OK)]
    begins = p.where(Op.TXN_BEGIN)
    begins = begins[(p.process[begins] == p.process[end]) & (p.txn[begins] == p.txn[end])]
    if not len(own) or not len(begins) or _is_over(p, int(begins[-1]), end):
        return NONE
    last, others = int(own[-1]), inits[~mine]
    before = (p.ret[others] != NONE) & (p.ret[others] < p.inv[last])
    after = (p.inv[others] != NONE) & (p.inv[others] > p.ret[end])
    apart = (p.clock[others] == p.clock[last]) & (p.clock[others] == p.clock[end])
    return last if bool(((before | after) & apart).all()) else NONE


def _is_over(p: Rows, begin: int, end: int) -> bool:
    """True if the transaction may have been open for longer than its time-out."""
    timeout = int(p.context.txn_timeout[p.process[end]])
    comparable = p.inv[begin] != NONE and p.clock[begin] == p.clock[end]
    return not comparable or (timeout != UNSET and p.ret[end] - p.inv[begin] >= timeout * MS)


@check(
    "T8",
    "a transactional id has one transaction at a time",
    found="transaction{s} overlapped another of the same transactional id",
    formula="committed transactions of one id: [begin, request to commit] are disjoint",
    needs="transactional.txn begin.txn ending.txn ending.inv begun.ret begin.tid ending.tid "
    "one_clock producers",
    closed="begin.inv",
    scope="producer",
    looks_at="committed transactions",
    uses="",
)
def overlapping_transactions(p: Rows) -> list[Found]:
    """Two processes of one transactional id both committed what they wrote side by side."""
    begins = p.where(Op.TXN_BEGIN)
    ends = p.where(Op.TXN_COMMIT)
    ends = ends[p.outcome[ends] == Outcome.OK]
    key = p.process * (1 << 40) + p.txn
    order = np.argsort(key[begins], kind="stable")
    begins = begins[order]
    at = np.searchsorted(key[begins], key[ends])
    whole = (at < len(begins)) & (p.txn[ends] >= 0)
    whole[whole] &= key[begins[at[whole]]] == key[ends[whole]]
    ends, begins = ends[whole], begins[at[whole]]
    known = p.ret[begins] != NONE
    ends, begins = ends[known], begins[known]
    order = np.argsort(p.ret[begins], kind="stable")
    ends, begins = ends[order], begins[order]
    last, which = running_max(p.inv[ends])
    both = p.process[begins[1:]] != p.process[ends[which[:-1]]]
    both &= p.clock[begins[1:]] == p.clock[ends[which[:-1]]]
    overlap = both & (last[:-1] > p.ret[begins[1:]])
    found = witness(ends[which[:-1]][overlap], begins[1:][overlap], ends[1:][overlap])
    return [Found(len(ends), found, np.zeros(len(found), np.int64))]
