"""The outcome of a transaction in the log, against the answer that its producer got."""

import numpy as np

from traces.checks.base import Found, check, witness
from traces.checks.compaction import compaction_is_vague, superseded
from traces.checks.partition import Partition
from traces.model.columns import Bools, distinct, firsts, last_upto, lookup
from traces.model.context import UNSET, Clause, Ints, clause
from traces.model.schema import NONE, Detail, Flag, Op, Outcome, Txn
from traces.model.sorting import order_by

MS = 1_000_000
NEVER = int(np.iinfo(np.int64).max)
# A coordinator looks for transactions that are open too long every ten seconds
# (transaction.abort.timed.out.transaction.cleanup.interval.ms); twice that is too late.
GRACE = 20_000 * MS
_COMMIT, _ABORT = Detail.MARKERS["commit"], Detail.MARKERS["abort"]


@check(
    "T7",
    "a request to end hits its own transaction",
    found="record{s} met another end than the producer was answered",
    formula="the outcome of T in the log is the outcome that T's producer was answered",
    needs="SENDS TXNS proof ENDS scan_end.isolation COMPACTED sequenced.pid ended.offset",
    closed="RECORDS consumers SENDS TXNS transactional.txn ending.txn producers.whole "
    "marker.pid marker.detail dumped.topic dump.partition dump.offset dump.node dumps STARTS",
    spec="TransactionCoordinator!ToldTruly",
    looks_at="records of ended transactions, with markers in dumps or scans of both isolations",
    uses="outcome txn_state isolation node pid detail key",
)
def other_outcome(p: Partition) -> list[Found]:
    """A delayed EndTxn hit a later transaction of the same producer (KIP-890, KAFKA-17754).

    Markers tell it exactly. Readers tell it, too: a record that one who reads everything was given
    and one who reads what is committed passed over was aborted, whatever its producer was told;
    one of an aborted transaction that is read as committed was committed. A commit that nobody
    answered has no outcome to compare with.
    """
    if p.context.jepsen or not (p.txn_state != Txn.NOT).any():
        return [Found(0)]
    return [_by_markers(p), _by_readers(p)]


def _by_markers(p: Partition) -> Found:
    dumped, markers = p.where(Op.DUMP), p.where(Op.MARKER)
    dumped = dumped[(p.pid[dumped] != NONE) & (p.offset[dumped] != NONE)]
    # Each dumped record with the next marker of its producer in the same log. In a log that holds
    # both at one offset the marker is not behind the record.
    rows = np.concatenate([markers, dumped])
    record = p.op[rows] == Op.DUMP
    rows = rows[order_by(p.node[rows], p.pid[rows], p.offset[rows], record.astype(np.int64))]
    last = len(rows) - 1
    marked = last - last_upto((p.op[rows] == Op.MARKER)[::-1])[::-1]
    ends = (p.op[rows] == Op.DUMP) & (marked <= last)
    rows, after = rows[ends], rows[marked[ends]]
    one = (p.pid[rows] == p.pid[after]) & (p.node[rows] == p.node[after])
    rows, after = rows[one], after[one]
    state = p.txn_state[p.acked]
    sends = p.acked[np.isin(state, (Txn.COMMITTED, Txn.PROVED, Txn.ABORTED))]
    sends = sends[order_by(p.offset[sends])]
    sends = sends[firsts(p.offset[sends])]
    at = lookup(p.offset[sends], p.offset[rows])
    rows, after, sends = rows[at >= 0], after[at >= 0], sends[at[at >= 0]]
    same = (p.id[rows] == NONE) | (p.id[rows] == p.id[sends])
    rows, after, sends = rows[same], after[same], sends[same]
    expected = np.where(p.txn_state[sends] == Txn.ABORTED, _ABORT, _COMMIT)
    wrong = p.detail[after] != expected
    found = witness(sends[wrong], after[wrong])
    # Without its id nobody knows whether the replica holds what was acknowledged there.
    unknown = clause(Clause.UNKNOWN, p.process[found[:, 0]])
    return Found(len(sends), found, np.where(p.id[rows[wrong]] == NONE, unknown, 0))


def _by_readers(p: Partition) -> Found:
    committed = p.committed_only(p.final)
    everything, chosen = p.final[~committed], p.final[committed]
    ends = p.where(Op.SCAN_END)
    ends = ends[p.committed_only(ends) & p.ok[ends]]
    passed = everything[p.offset[everything] < p.offset[ends].max(initial=NONE)]
    hidden = passed[~p.among(passed, chosen)]
    state = p.txn_state[p.sends]
    whole = p.sends[(state == Txn.COMMITTED) | (state == Txn.PROVED)]
    whole = whole[p.among(whole, passed) & ~superseded(p, whole)]
    # What is hidden may be another attempt's copy, if that one did not commit.
    others = p.sends[((state == Txn.ABORTED) | (state == Txn.UNKNOWN)) & _possible(p)]
    whole = whole[~p.among(whole, others)]
    torn = _pairs(p, whole, hidden)
    aborted = p.sends[state == Txn.ABORTED]
    aborted = aborted[~p.among(aborted, p.sends[state != Txn.ABORTED])]
    reads = p.reads[p.committed_only(p.reads)]
    undone = _pairs(p, aborted, reads)
    found = np.concatenate([torn, undone])
    seen = len(whole) + (len(aborted) if len(reads) else 0)
    # What lies below all that the second scan found may have been deleted since the first; or
    # compaction has removed it.
    lowest = p.deleted_below(chosen, np.r_[chosen, ends])
    gone = (p.offset[torn[:, 1]] < lowest) | compaction_is_vague(p, torn[:, 0])
    # What is hidden, or read as committed, may be a copy that somebody else sent.
    removed = np.r_[gone, np.zeros(len(undone), bool)] | (p.unless_sent(found[:, 0]) != 0)
    unknown = clause(Clause.UNKNOWN, p.process[found[:, 0]])
    return Found(seen, found, np.where(removed, unknown, 0))


def _possible(p: Partition) -> Bools:
    """Mask of the sends that may have stored their record."""
    return p.outcome[p.sends] != Outcome.FAIL


def _pairs(p: Partition, sends: Ints, reads: Ints) -> Ints:
    """The sends whose record is among these reads, each with the first of them."""
    first = p.first_about(reads)[p.record[sends]]
    return witness(sends[first >= 0], first[first >= 0])


@check(
    "T11",
    "no transaction hangs",
    found="transaction{s} hung longer than {its} time-out",
    formula="transaction.timeout.ms and 20 s after a record of T: the last stable offset is above",
    needs="SENDS acked.offset acked.ret transactional.txn settling.last_stable stable.inv "
    "scan_end.offset scan_end.isolation scan_end.inv consumers",
    closed="one_clock",
    unless="producers.transaction_timeout_ms is longer",
    looks_at="records of transactions, with last stable offsets that polls and scans reported",
    uses="outcome txn_state clock isolation",
)
def hanging(p: Partition) -> list[Found]:
    """A coordinator aborts what is open too long; until it does, readers of committed ones wait.

    A transaction that was committed hangs as well where its marker is not written. A matter of
    progress: what is found is told and permitted, and never called violated. Only the first record
    that holds the last stable offset back is looked at, from its acknowledgement on, and a poll
    counts from its call: it may report what its client had fetched a little before. A scan that
    reads what is committed ends at the last stable offset.
    """
    marks = p.where(Op.LAST_STABLE, Op.SCAN_END)
    scanned = p.op[marks] == Op.SCAN_END
    marks = marks[~scanned | (p.ok[marks] & p.committed_only(marks))]
    marks = marks[(p.inv[marks] != NONE) & (p.offset[marks] != NONE)]
    if p.context.jepsen or not len(marks):
        return [Found(0)]
    sends = p.acked[(p.txn_state[p.acked] != Txn.NOT) & (p.ret[p.acked] != NONE)]
    sends = sends[~p.has(Flag.UNKNOWN_PARTITION)[sends]]
    found = [_held(p, sends, marks[p.clock[marks] == c]) for c in distinct(p.clock[marks])]
    pairs = np.concatenate([witness(marks[:0], marks[:0]), *found])
    unit = (p.process[pairs[:, 0]], p.unit[pairs[:, 0]])
    order = order_by(*unit, p.inv[pairs[:, 1]])
    pairs = pairs[order[firsts(*(column[order] for column in unit))]]
    process = p.process[pairs[:, 0]]
    known = p.context.txn_timeout[process] != UNSET
    clauses = np.where(known, clause(Clause.PROGRESS, process), clause(Clause.UNKNOWN, process))
    return [Found(len(sends), pairs, clauses)]


def _held(p: Partition, sends: Ints, marks: Ints) -> Ints:
    """Each report of a last stable offset, with the send that held it back too long, if one did."""
    sends = sends[p.clock[sends] == p.clock[marks[0]]]
    sends = sends[order_by(p.offset[sends])]
    at = np.searchsorted(p.offset[sends], p.offset[marks], side="left")
    marks, at = marks[at < len(sends)], at[at < len(sends)]
    first = sends[at]
    timeout = p.context.txn_timeout[p.process[first]]
    deadline = p.ret[first] + np.where(timeout == UNSET, 0, timeout * MS + GRACE)
    late = p.inv[marks] > deadline
    return witness(first[late], marks[late])
