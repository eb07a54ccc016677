"""The log of one partition grows with time: appends, watermarks and answers do not go back."""

import numpy as np
from attrs import evolve

from traces.checks.base import LOSS, TRUNCATED, Found, check, witness
from traces.checks.partition import Partition
from traces.checks.replicas import dumped
from traces.checks.starts import lower, of_one_replica, reported
from traces.model.columns import distinct, firsts, running_max
from traces.model.context import Clause, Ints, clause
from traces.model.schema import NONE, Op, Outcome, Txn
from traces.model.sorting import order_by

_SENT, _READ, _DELETED = "sent", "read", "maybe deleted"


@check(
    "L9",
    "appends follow real time",
    found="record{s} {is} stored before one that had been acknowledged earlier",
    formula="send a returned before send b began ⇒ offset(a) < offset(b)",
    needs="ACKS pending.read consumers scan send.inv acked.ret one_clock",
    spec="AbsLog!AppendOnly",
    unless=LOSS,
    kinds="append-order-realtime",
    looks_at="acknowledged sends",
    uses="",
)
def append_order(p: Partition) -> list[Found]:
    """A send that began after another had been acknowledged is stored after it.

    Kafka does not advertise this order between producers, but one leader with one log cannot
    break it; where it is broken, the tail that held the first record was cut off in between.
    """
    known = p.stored_at != NONE
    sends, offset = p.sends[known], p.stored_at[known]
    clock = p.clock[sends]
    found = [_overtaken(p, sends[clock == c], offset[clock == c]) for c in distinct(clock)]
    pairs = np.concatenate(found) if found else np.empty((0, 2), np.int64)
    clauses = p.unless_elsewhere(p.may_be_lost(pairs[:, 0]), pairs)
    return [Found(len(sends), pairs, clauses, "append-order-realtime")]


def _overtaken(p: Partition, rows: Ints, offset: Ints) -> Ints:
    """Pairs: of the sends that lie higher, the first to be acknowledged, and one begun after it."""
    order = order_by(offset)[::-1]
    rows, offset = rows[order], offset[order]
    done = (p.outcome[rows] == Outcome.OK) & (p.ret[rows] != NONE)
    answered = np.where(done, p.ret[rows], np.iinfo(np.int64).max)
    first = np.minimum.accumulate(answered)
    at = np.maximum.accumulate(np.where(answered == first, np.arange(len(rows)), 0))
    higher = np.searchsorted(-offset, -offset, side="left") - 1
    late = (higher >= 0) & (p.inv[rows] != NONE)
    late[late] = first[higher[late]] < p.inv[rows[late]]
    return witness(rows[at[higher[late]]], rows[late])


@check(
    "L10",
    "nothing is read before it is sent",
    found="record{s} {was} read before the first attempt to send it",
    formula="v read ⇒ the read did not return before the first send of v began",
    needs="READS read.ret one_clock",
    closed="SENDS send.inv producers.whole",
    kinds="G1c-realtime",
    uses="",
)
def future_reads(p: Partition) -> list[Found]:
    """A reader was given a record that its producer had not even begun to send."""
    sends = p.sends[p.inv[p.sends] != NONE]
    begun = p.first_about(sends[order_by(p.inv[sends])])[p.record[p.reads]]
    reads, begun = p.reads[begun >= 0], begun[begun >= 0]
    early = (
        (p.ret[reads] != NONE) & (p.ret[reads] < p.inv[begun]) & (p.clock[reads] == p.clock[begun])
    )
    found = witness(reads[early], begun[early])
    found = found[np.unique(p.id[found[:, 0]], return_index=True)[1]]
    return [Found(len(reads), found, p.unless_sent(found[:, 1]), "G1c-realtime")]


@check(
    "L11",
    "the high watermark does not go back",
    found="high watermark{s} went back",
    formula="high watermarks told to one client in one leader epoch do not decrease",
    needs="marks watching.high_watermark placed_mark.node mark.epoch consumers",
    closed="mark.epoch",
    spec="Truncation!AdvanceHighWatermark",
    unless="the client reads from followers (consumers.rack), and two replicas told it",
    kinds="hw-regression",
    looks_at="high watermarks that polls report, with their leader epoch",
    uses="epoch node",
)
def high_watermark_back(p: Partition) -> list[Found]:
    """Records below the high watermark are on all who may lead next, and stay.

    Only one replica in one leader epoch is held against itself: a new leader knows at first only
    what its predecessor had told it, and followers learn of the high watermark later (KIP-392).
    That an acknowledged record lies below it is asked of empty polls alone, by C7.
    """
    marks = reported(p, Op.MARK)
    if not len(marks):
        return [Found(0, kind="hw-regression")]
    back = lower(p, marks if p.context.jepsen else marks[p.epoch[marks] != NONE])
    return [Found(len(marks), back, of_one_replica(p, back), "hw-regression")]


@check(
    "L12",
    "leader epochs grow along the log",
    found="leader epoch{s} went back along the log",
    formula="o < o′ ⇒ epoch(o) ≤ epoch(o′), over the final scan and over each dumped log",
    needs="scan.epoch dump.epoch log.whole RECORDS consumers",
    closed="dumped.topic dump.node dump.partition dump.offset",
    spec="Truncation!EpochsAscend",
    looks_at="scanned or dumped records with a leader epoch",
    uses="epoch node",
)
def epochs_back(p: Partition) -> list[Found]:
    """Each leader appends after all that its predecessors left; KIP-101 and KIP-279 keep it so."""
    found = [_epochs_back(p, rows) for rows in dumped(p)]
    rows = p.final[p.epoch[p.final] != NONE]
    rows = rows[np.lexsort((rows, p.epoch[rows], p.offset[rows]))]
    # Two scans give each offset twice: the lowest epoch at it against the highest at the one below.
    first = firsts(p.offset[rows])
    lowest, highest = rows[first], rows[np.r_[first, True][1:]]
    back = p.epoch[lowest[1:]] < p.epoch[highest[:-1]]
    found.append(Found(len(rows), witness(highest[:-1][back], lowest[1:][back])))
    return [evolve(one, clause=np.zeros(len(one.rows), np.int64)) for one in found]


def _epochs_back(p: Partition, log: Ints) -> Found:
    """In one replica's log every record and every marker tells its epoch."""
    rows = log[p.epoch[log] != NONE]
    back = p.epoch[rows[1:]] < p.epoch[rows[:-1]]
    return Found(len(rows), witness(rows[:-1][back], rows[1:][back]))


@check(
    "L16",
    "a query by time finds the first record of that time",
    found="quer{y} by time {was} answered with the wrong offset",
    formula="answer(τ) = min {o ≥ log start: visible, timestamp(o) ≥ τ}, at an instant of the call",
    needs="list_offsets.topic list_offsets.offset list_offsets.inv list_offsets.ret "
    "asked.timestamp ACKS acked.ret send.inv pending.read TXNS proof consumers",
    closed="SENDS STARTS stamped.timestamp acked.offset",
    kinds="offset-for-time-wrong",
    looks_at="queries by time",
    uses="timestamp",
)
def wrong_offset_for_time(p: Partition) -> list[Found]:
    """The answer is the first record that was certainly there, or one that may have been.

    That is one that came while asking; and one of a transaction that was aborted, or its marker:
    a log is searched by time without regard to transactions.
    """
    asked = p.where(Op.LIST_OFFSETS)
    asked = asked[p.ok[asked] & (p.timestamp[asked] != NONE)]
    if not len(asked):
        return [Found(0, kind="offset-for-time-wrong")]
    known = p.timestamp[p.sends] != NONE
    rows, offset = p.sends[known], p.stored_at[known]
    wrong = {int(q): _wrong(p, int(q), rows, offset) for q in asked}
    found = np.array([q for q, what in wrong.items() if what], dtype=np.int64)
    unknown = clause(Clause.UNKNOWN, p.process[found])
    # Whoever is not told to the end may have learnt that the log begins above.
    clauses = p.unless_read(np.zeros(len(found), np.int64), found)
    kind = np.array([wrong[q] for q in found.tolist()], dtype=object)
    clauses = np.where(kind == _DELETED, unknown, clauses)
    if not p.senders_known or p.strangers:  # what is there may be of that time
        clauses = np.where(kind == _READ, unknown, clauses)
    return [Found(len(asked), witness(found), clauses, "offset-for-time-wrong")]


def _wrong(p: Partition, query: int, rows: Ints, offset: Ints) -> str:
    """The record that contradicts the answer, if any: one that was sent or read there."""
    late_enough = p.timestamp[rows] >= p.timestamp[query]
    comparable = p.clock[rows] == p.clock[query]
    sure = late_enough & comparable & p.ok[rows] & p.kept[rows] & (offset >= p.log_start)
    sure &= (p.offset[rows] != NONE) & (p.ret[rows] != NONE) & (p.ret[rows] <= p.inv[query])
    first = int(offset[sure].min(initial=np.iinfo(np.int64).max))
    answer = int(p.offset[query])
    if answer == first or (answer == NONE and not sure.any()):
        return ""
    missed = ""
    if answer == NONE or answer > first:
        missed = _DELETED if first < p.retained_from else _SENT
        if answer == NONE or missed == _SENT:
            return missed
    later = comparable & (p.ret[query] != NONE) & (p.inv[rows] > p.ret[query])
    maybe = late_enough & ~later
    there = p.log[p.offset[p.log] == answer]
    if len(there):
        return missed if p.among(there, rows[maybe]).any() else _READ
    # Nobody tells what is there: a record of a send of unknown place, or a marker.
    # One that was acknowledged may lie elsewhere than it was read.
    unknown = (offset == NONE) | (p.ok[rows] & (p.offset[rows] == NONE))
    unknown &= maybe & (p.outcome[rows] != Outcome.FAIL)
    return missed if unknown.any() or bool(np.any(p.txn_state[p.sends] != Txn.NOT)) else _READ


@check(
    "L20",
    "answers about offsets do not go back",
    found="answer{s} about the start or the end of a log went back",
    formula="one client: query 1 ≺ query 2 ⇒ answer 1 ≤ answer 2 (earliest and latest each)",
    needs="list_offsets.topic list_offsets.offset asked.timestamp consumers",
    unless=TRUNCATED,
    looks_at="queries for earliest or latest",
    uses="",
)
def answers_back(p: Partition) -> list[Found]:
    """The end of a log falls only when its tail is cut off; its start never falls."""
    rows = p.where(Op.EARLIEST, Op.LATEST)
    rows = rows[p.ok[rows] & (p.offset[rows] != NONE)]
    rows = rows[np.lexsort((rows, p.process[rows], p.op[rows]))]
    one, two = rows[:-1], rows[1:]
    same = (p.op[one] == p.op[two]) & (p.process[one] == p.process[two])
    back = same & (p.offset[two] < p.offset[one])
    found = witness(one[back], two[back])
    ends = p.op[found[:, 0]] == Op.LATEST
    clauses = np.where(ends, p.topic_clause(len(found)), 0)
    return [Found(len(rows), found, clauses)]


@check(
    "C7",
    "an empty poll is up to date",
    found="empty poll{s} {was} out of date",
    formula="send acknowledged at o before an empty poll began ⇒ its high watermark is above o",
    needs="ACKS GIVEN scan TXNS proof acked.ret poll.inv mark.inv marks watching.high_watermark "
    "one_clock",
    closed="GIVEN",
    unless="a leader answered that did not know of its successor, or a new one whose high "
    "watermark still trailed, which no client can tell",
    kinds="stale-read",
    looks_at="high watermarks that empty polls report",
    uses="",
)
def stale_reads(p: Partition) -> list[Found]:
    """A poll said that there was nothing more, although a higher record had been acknowledged.

    Told and counted: Kafka does not promise readers the newest. In a Jepsen history, where nothing
    is excused, it is a violation.
    """
    marks = reported(p, Op.MARK)
    if not len(marks):
        return [Found(0, kind="stale-read")]
    marks = marks[~np.isin(_calls(p, marks), _calls(p, p.given)) & (p.inv[marks] != NONE)]
    seen = len(marks)
    acks = p.acked[p.kept[p.acked] & (p.ret[p.acked] != NONE)]
    acks = acks[order_by(p.ret[acks])]
    best, at = running_max(p.offset[acks])
    before = np.searchsorted(p.ret[acks], p.inv[marks], side="left") - 1
    marks, before = marks[before >= 0], before[before >= 0]
    stale = best[before] >= p.offset[marks] if len(acks) else np.zeros(len(marks), bool)
    stale &= p.clock[acks[at[before]]] == p.clock[marks] if len(acks) else stale
    found = witness(marks[stale], acks[at[before[stale]]] if len(acks) else marks[stale])
    none = np.zeros(len(found), np.int64)
    clauses = none if p.context.jepsen else clause(Clause.PROGRESS, none + p.t)
    return [Found(seen, found, clauses, "stale-read")]


def _calls(p: Partition, rows: Ints) -> Ints:
    """One number per call, for rows of this partition."""
    return np.cumsum(firsts(p.process, p.seq), dtype=np.int64)[rows]
