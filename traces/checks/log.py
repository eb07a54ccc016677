"""The log of one partition holds one record at each offset, each record once, where it said."""

import numpy as np

from traces.checks.base import LOSS, NO_CLAUSE, Found, check, witness
from traces.checks.partition import Partition
from traces.model.columns import Bools, firsts, lookup
from traces.model.context import Clause, Ints, clause, code
from traces.model.schema import NONE, Op


@check(
    "L1",
    "one offset holds one record",
    found="offset{s} {was} given to more than one record",
    formula="(o, x), (o, y) ∈ acknowledged ∪ read ⇒ x = y",
    needs="ACKS READS",
    closed="STARTS",
    spec="AbsLog!AppendOnly",
    unless=LOSS,
    kinds="inconsistent-offsets",
    uses="",
)
def inconsistent_offsets(p: Partition) -> list[Found]:
    """An offset that is given to two records was truncated after somebody had seen the first."""
    rows = p.contested
    rows = rows[np.lexsort((rows, p.id[rows], p.offset[rows]))]
    rows = rows[firsts(p.offset[rows], p.id[rows])]  # one row per offset and record
    found = _with_another(p, rows)
    clauses = _displaced(p, found)
    worst = np.lexsort((code(clauses), p.offset[found[:, 0]]))  # of each offset the first breach
    worst = worst[firsts(p.offset[found[worst, 0]])]
    return [Found(len(p.log), found[worst], clauses[worst], "inconsistent-offsets")]


def _with_another(p: Partition, rows: Ints) -> Ints:
    """Pairs of records at one offset: each with what is there at the end, or else with the first.

    `rows` are one for each offset and record, in that order.
    """
    stays = np.isin(p.id[rows], p.id[p.final])
    order = np.lexsort((~stays, p.offset[rows]))
    first = order[np.maximum.accumulate(np.where(firsts(p.offset[rows]), np.arange(len(rows)), 0))]
    other = np.arange(len(rows))
    one, two = np.minimum(first, other), np.maximum(first, other)
    return witness(rows[one[one < two]], rows[two[one < two]])


def _displaced(p: Partition, pairs: Ints) -> Ints:
    """True if the record that had to give way, the one the final scan lacks, could be lost.

    Below where the final scan begins, and in a compacted topic, either may have been removed.
    """
    if not len(pairs):
        return np.empty(0, np.int64)
    may = _loss_by_id(p, pairs)
    gone = ~np.isin(p.id[pairs], p.id[p.final])
    if not (p.context.complete and p.context.readers_known and len(p.final)):
        gone[:] = False  # nobody told the end, so nobody knows which of them gave way
    gone[p.offset[pairs[:, 0]] < p.retained_from] = False
    if int(p.context.compacted[p.t]) != 0:
        gone[gone.all(axis=1)] = False
    one, two = may[:, 0], may[:, 1]
    unknown = clause(Clause.UNKNOWN, p.process[pairs[:, 0]])
    same = (code(one) == code(two)) | (_permits(one) & _permits(two))
    undecided = np.where(same, one, unknown)
    only_two = gone[:, 1] & ~gone[:, 0]
    only_one = gone[:, 0] & ~gone[:, 1]
    either = np.where((code(two) == Clause.NOT) | _permits(one), two, one)
    both = gone[:, 0] & gone[:, 1]
    return np.select([only_one, only_two, both], [one, two, either], undecided)


def _permits(clauses: Ints) -> Bools:
    return (code(clauses) != Clause.NOT) & (code(clauses) != Clause.UNKNOWN)


def _loss_by_id(p: Partition, rows: Ints) -> Ints:
    """The clause that permits the loss of the record in each row, by the promise to its sender.

    Who was promised nothing may yet have read it; unless there may be another sender.
    """
    acks = p.sends[p.done[p.sends]]
    acks = acks[np.lexsort((acks, p.context.weak_acks[p.process[acks]] != 0, p.id[acks]))]
    acks = acks[firsts(p.id[acks])]  # the strongest promise
    at = lookup(p.id[acks], p.id[rows].ravel())
    may = p.may_be_lost(acks)
    unknown = clause(Clause.UNKNOWN, np.full(len(at), p.t))
    known = p.senders_known and not p.strangers
    other = p.topic_clause(len(at)) if known else unknown
    return np.where(at >= 0, may[at] if len(may) else other, other).reshape(rows.shape)


@check(
    "L2",
    "a record is stored once",
    found="record{s} {is} stored more than once",
    formula="(o, v), (o′, v) ∈ acknowledged ∪ read, no acknowledgement contradicted (L8) ⇒ o = o′",
    needs="ACKS READS",
    unless="producers.idempotence is false, or the application sent the id more than once",
    kinds="duplicate",
    uses="",
)
def duplicates(p: Partition) -> list[Found]:
    """A retry whose first attempt had been stored after all is stored again, unless idempotent.

    What contradicts an acknowledgement may be told by nobody where a reader's file is cut off: then
    only an offset at which the record was read is sure.
    """
    log = np.setdiff1d(p.scattered, _contradicted(p))
    acked = p.op[log] == Op.SEND
    acks, reads = log[acked], log[~acked]
    shown = np.r_[reads, acks[p.same_offset(acks, reads)]]
    sure = _twice(p, log if p.context.readers_whole else shown)
    unsure = _twice(p, log)
    unsure = unsure[~np.isin(p.id[unsure[:, 0]], p.id[sure[:, 0]])]
    unknown = clause(Clause.UNKNOWN, p.process[unsure[:, 0]])
    clauses = np.r_[_stored_twice(p, p.id[sure[:, 0]]), unknown]
    return [Found(len(p.log), np.r_[sure, unsure], clauses, "duplicate")]


def _twice(p: Partition, log: Ints) -> Ints:
    """Pairs: of each record that these rows show at more than one offset, the two lowest.

    At each offset a read stands for the record before an acknowledgement does: a read proves where
    the record is by itself, and an acknowledgement may be contradicted (L8) by other reads there.
    """
    rows = log[np.lexsort((log, p.op[log] == Op.SEND, p.offset[log], p.id[log]))]
    rows = rows[firsts(p.id[rows], p.offset[rows])]  # one row per record and offset
    again = ~firsts(p.id[rows])
    second = np.flatnonzero(again & ~np.r_[False, again[:-1]])
    return witness(rows[second - 1], rows[second])


def _stored_twice(p: Partition, ids: Ints) -> Ints:
    if not len(ids):
        return NO_CLAUSE
    sends = p.sends[np.argsort(p.id[p.sends], kind="stable")]
    first = firsts(p.id[sends])
    starts = np.flatnonzero(first)
    calls = np.diff(np.r_[starts, len(sends)])
    at = lookup(p.id[sends[starts]], ids)
    if not len(starts):
        return np.full(len(ids), clause(Clause.UNKNOWN, np.int64(NONE)))
    process = p.process[sends[starts[at]]]
    idempotent = p.context.idempotent[process]
    clauses = np.select(
        [at < 0, idempotent == 0, calls[at] > 1, (idempotent == 1) & p.senders_known],
        [
            clause(Clause.UNKNOWN, process),
            clause(Clause.IDEMPOTENCE, process),
            clause(Clause.RESENT, process),
            np.zeros(len(ids), np.int64),
        ],
        clause(Clause.UNKNOWN, process),
    )
    return np.zeros(len(ids), np.int64) if p.context.jepsen else clauses


def _contradicted(p: Partition) -> Ints:
    """Acknowledgements of an offset where others are read and this record is not."""
    acked = p.op[p.contested] == Op.SEND
    acks, reads = p.contested[acked], p.contested[~acked]
    at_offset = np.isin(p.offset[acks], p.offset[reads])
    return acks[at_offset & ~p.same_offset(acks, reads)]


@check(
    "L8",
    "an acknowledged offset is the offset",
    found="record{s} {is} stored at another offset than was acknowledged",
    formula="(v, o) acknowledged, (v, o′) read, o read as another record ⇒ o = o′",
    needs="ACKS READS any_read",
    unless=LOSS,
    kinds="ack-read-mismatch",
    uses="",
)
def moved(p: Partition) -> list[Found]:
    """The sender was told one offset; others are read there, and its record somewhere else."""
    acks = _contradicted(p)
    acks = acks[p.among(acks, p.reads)]
    own = p.first_about(p.reads)[p.record[acks]]
    reads = p.contested[p.op[p.contested] != Op.SEND]
    by_offset = reads[np.unique(p.offset[reads], return_index=True)[1]]
    other = by_offset[lookup(p.offset[by_offset], p.offset[acks])] if len(acks) else acks
    found = witness(acks, own, other)
    clauses = p.unless_read(p.may_be_lost(acks), acks)  # that it is read nowhere there
    return [Found(len(p.acked), found, clauses, "ack-read-mismatch")]


@check(
    "L15",
    "what was acknowledged and read is not replaced",
    found="acknowledged record{s} {was} read and later replaced by another",
    formula="(v, o) acknowledged and read, a later read of o ⇒ again v",
    needs="ACKS READS any_read read.inv read.ret one_clock",
    spec="Truncation!CommittedInIsr, DurableIsr!AckedSurvives",
    unless=LOSS,
    kinds="truncated-after-ack",
    uses="",
)
def truncated(p: Partition) -> list[Found]:
    """A reader saw the acknowledged record; a read that began later saw another in its place."""
    acked = p.op[p.contested] == Op.SEND
    acks, reads = p.contested[acked], p.contested[~acked]
    ends = np.where(p.ret[reads] == NONE, np.iinfo(np.int64).max, p.ret[reads])
    reads = reads[np.lexsort((ends, p.id[reads], p.offset[reads]))]
    early = reads[
        firsts(p.offset[reads], p.id[reads])
    ]  # the first to return, per record and offset
    early = early[p.same_offset(early, acks) & (p.ret[early] != NONE)]
    late = reads[np.lexsort((-p.inv[reads], p.id[reads], p.offset[reads]))]
    late = late[firsts(p.offset[late], p.id[late])]  # the last to begin, per record and offset
    late = late[np.lexsort((-p.inv[late], p.offset[late]))]
    start = np.searchsorted(p.offset[late], p.offset[early])
    own = p.id[late[start]] == p.id[early] if len(early) else np.empty(0, bool)
    other = np.minimum(start + own, len(late) - 1)
    after = late[other] if len(early) else early
    early, after = (x[p.offset[after] == p.offset[early]] for x in (early, after))
    gone = (p.id[after] != p.id[early]) & (p.inv[after] > p.ret[early])
    gone &= p.clock[after] == p.clock[early]
    early, after = early[gone], after[gone]
    ack = _acknowledged_there(p, early, acks)
    return [
        Found(len(p.acked), witness(ack, early, after), p.may_be_lost(ack), "truncated-after-ack")
    ]


def _acknowledged_there(p: Partition, rows: Ints, acks: Ints) -> Ints:
    """For each of these rows the first acknowledgement of its record at its offset."""
    acks = acks[np.lexsort((acks, p.record[acks], p.offset[acks]))]
    acks = acks[firsts(p.offset[acks], p.record[acks])]
    return acks[np.searchsorted(_pair(p, acks), _pair(p, rows))]


def _pair(p: Partition, rows: Ints) -> Ints:
    """Offset and record in one number that keeps their order."""
    offsets = np.unique(p.offset[p.contested])
    return np.searchsorted(offsets, p.offset[rows]) * p.records + p.record[rows]
