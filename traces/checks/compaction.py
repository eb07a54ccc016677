"""Compaction removes what a later record of the same key has replaced, and touches nothing else."""

import numpy as np

from traces.checks.base import Found, check, witness
from traces.checks.partition import Partition
from traces.model.columns import Bools, firsts, lookup
from traces.model.context import UNSET, Clause, Ints, clause
from traces.model.schema import NONE, Flag, Op, Outcome, Txn

NS_PER_MS = 1_000_000
HIDDEN = "STARTS producers compacted.whole compacted.key compacted.tombstone"


def compacted(p: Partition) -> bool:
    """True if the topic is compacted, and somebody read the remaining records."""
    return int(p.context.compacted[p.t]) == 1 and len(p.where(Op.SCAN_END)) > 0


def stored_offsets(p: Partition, sends: Ints) -> Ints:
    """The offset of each of these sends, NONE where nobody knows it."""
    return p.stored_at[np.searchsorted(p.sends, sends)]


def superseded(p: Partition, sends: Ints) -> Bools:
    """True where compaction may have removed a sent record: a later one has the same key, or it was
    a tombstone, and old enough for the delete.retention.ms that is told."""
    if int(p.context.compacted[p.t]) != 1:
        return np.zeros(len(sends), bool)
    return _replaced(p, sends) | (expired(p, sends) & _retention_is_known(p))


def may_be_superseded(p: Partition, sends: Ints) -> Bools:
    """The same, also where nobody tells whether the topic is compacted, or which are tombstones."""
    policy = int(p.context.compacted[p.t])
    if policy == 0:
        return np.zeros(len(sends), bool)
    if p.strangers:  # a record of theirs may have had the key
        return (p.key[sends] != NONE) | (policy == 1)
    gone = _replaced(p, sends) | (~p.has(Flag.VALUED)[sends] & _old(p, sends))
    return gone if policy == 1 else gone & (p.key[sends] != NONE)


def _replaced(p: Partition, sends: Ints) -> Bools:
    if not (p.key[p.sends] != NONE).any():
        return np.ones(len(sends), bool)  # no keys: every hole is taken as compaction
    return followed(p, sends) | (p.key[sends] == NONE)


def followed(p: Partition, sends: Ints) -> Bools:
    """True where another record of the same key is known to lie above, whoever sent it.

    Where nobody tells the offset of any record of a key, one of them is taken for the highest.
    """
    highest, lowest = np.full(p.records, NONE), np.full(p.records, np.iinfo(np.int64).max)
    np.maximum.at(highest, p.record[p.log], p.offset[p.log])
    np.minimum.at(lowest, p.record[p.log], p.offset[p.log])
    keyed = p.sends[(p.key[p.sends] != NONE) & (p.outcome[p.sends] != Outcome.FAIL)]
    keyed = keyed[np.lexsort((p.record[keyed], highest[p.record[keyed]], p.key[keyed]))]
    new = firsts(p.key[keyed], p.record[keyed])
    keyed = keyed[np.r_[new[1:], True][: len(keyed)]]  # one row per key and record
    last = np.flatnonzero(np.r_[firsts(p.key[keyed])[1:], True][: len(keyed)])
    at = lookup(p.key[keyed[last]], p.key[sends])
    top = last[at] if len(last) else at
    own = (at >= 0) & (p.record[keyed[top]] == p.record[sends] if len(keyed) else False)
    second = np.maximum(top - 1, 0)  # the highest of another record, where the highest is its own
    other = np.where(own, second, top)
    there = (at >= 0) & (~own | (top > 0))
    there[there] = p.key[keyed[other[there]]] == p.key[sends[there]]
    above = np.where(there, highest[p.record[keyed[other]]] if len(keyed) else NONE, NONE)
    offset = stored_offsets(p, sends)
    low = lowest[p.record[sends]]
    known = np.where(low == np.iinfo(np.int64).max, NONE, low)
    below = np.where(offset == NONE, known, offset)
    anywhere = there & ~own & (below == NONE) & (above == NONE)
    return (below < above) | anywhere


def expired(p: Partition, sends: Ints) -> Bools:
    """Mask of the tombstones that may be gone, for all that is known of delete.retention.ms."""
    return p.has(Flag.TOMBSTONE)[sends] & _old(p, sends)


def _old(p: Partition, sends: Ints) -> Bools:
    """Mask of those that compaction may have removed if they were tombstones."""
    retention = int(p.context.delete_retention[p.t])
    return (retention == NONE) | (age_at_the_end(p, sends) >= retention)


def _retention_is_known(p: Partition) -> bool:
    return int(p.context.delete_retention[p.t]) != NONE


def age_at_the_end(p: Partition, sends: Ints) -> Ints:
    """The most ms that lie between each append and the end of the final scan."""
    ends = p.where(Op.SCAN_END)
    ends = ends[p.ok[ends]]
    returned = int(p.ret[ends].max(initial=NONE))
    known = (p.inv[sends] != NONE) & (returned != NONE) & bool((p.ret[ends] != NONE).all())
    age = (returned - p.inv[sends]) // NS_PER_MS
    return np.where(known, age, np.iinfo(np.int64).max)


def compaction_is_vague(p: Partition, sends: Ints) -> Bools:
    """Of which records nobody knows whether compaction may have removed them.

    A record may have been a tombstone if nobody says that it was not, and a tombstone may have been
    old enough to go if nobody tells delete.retention.ms. What replaced it may be a record whose key
    nobody tells, or a tombstone of unknown fate, or a copy of one. Another record of its key may
    have been read above where not all is told that was read, or lie there although it is read
    elsewhere, where it was sent more than once. And if nobody tells the cleanup
    policy, what a later record of its key has replaced may be gone.
    """
    policy = int(p.context.compacted[p.t])
    if policy == 0 or p.context.jepsen:
        return np.zeros(len(sends), bool)
    if policy == UNSET:
        vague = _vague(p, sends) & (p.key[sends] != NONE)
        return may_be_superseded(p, sends) | vague
    return _vague(p, sends)


def _vague(p: Partition, sends: Ints) -> Bools:
    """The same of a topic that is compacted."""
    others = p.sends[p.outcome[p.sends] != Outcome.FAIL]
    unsure = (stored_offsets(p, others) == NONE) | ~p.kept[others] | _may_be_copied(p, others)
    dead = others[unsure & ~p.has(Flag.VALUED)[others]]
    untold = ~(p.has(Flag.VALUED) | p.has(Flag.TOMBSTONE))[sends]
    untold |= p.has(Flag.TOMBSTONE)[sends] & (not _retention_is_known(p))
    keyless = bool((p.key[others] == NONE).any())
    above = may_be_read_above(p, sends) | _may_be_sent_above(p, sends)
    return untold | keyless | above | p.strangers | np.isin(p.key[sends], p.key[dead])


def _may_be_copied(p: Partition, sends: Ints) -> Bools:
    """Mask of the tombstones that may have lain above, too: their producer may store one twice."""
    return (p.context.idempotent[p.process[sends]] != 1) & _old(p, sends)


def may_be_read_above(p: Partition, sends: Ints) -> Bools:
    """Above which of these another record of the key may have been read that nobody tells of."""
    if p.context.readers_whole:
        return np.zeros(len(sends), bool)
    keyed = p.sends[p.key[p.sends] != NONE]
    keyed = keyed[np.lexsort((p.record[keyed], p.key[keyed]))]
    one = keyed[firsts(p.key[keyed], p.record[keyed])]
    keys, records = np.unique(p.key[one], return_counts=True)
    return np.isin(p.key[sends], keys[records > 1])


def _may_be_sent_above(p: Partition, sends: Ints) -> Bools:
    """Above which of these another record of the key may lie that is read elsewhere.

    It was sent more than once, and of one of these calls nobody knows where it put the record.
    """
    keyed = p.sends[(p.key[p.sends] != NONE) & (p.outcome[p.sends] != Outcome.FAIL)]
    unknown = (stored_offsets(p, keyed) == NONE) & p.among(keyed, p.reads)
    keyed = keyed[unknown & ~p.sole[np.searchsorted(p.sends, keyed)]]
    keyed = keyed[np.lexsort((p.record[keyed], p.key[keyed]))]
    new = firsts(p.key[keyed])
    first, last = keyed[new], keyed[np.r_[new[1:], True][: len(keyed)]]
    at = lookup(p.key[first], p.key[sends])
    if not len(first):
        return np.zeros(len(sends), bool)
    own = p.record[sends]
    return (at >= 0) & ((p.record[first[at]] != own) | (p.record[last[at]] != own))


def _may_be_deleted(p: Partition, sends: Ints) -> Bools:
    """Mask of those that may have been at the head of the log that was deleted.

    If the topic is compacted only, none, unless somebody may have learnt that its log begins above.
    """
    if int(p.context.deletes[p.t]) == 0 and p.context.consumers_whole:
        return np.zeros(len(sends), bool)
    return stored_offsets(p, sends) < p.retained_from


def stored(p: Partition) -> Ints:
    """Keyed sends that are in the log for sure, at an offset that somebody knows."""
    sends = p.sends[p.kept[p.sends] & (p.outcome[p.sends] != Outcome.FAIL)]
    elsewhere = p.has(Flag.UNKNOWN_PARTITION)[sends] & (p.outcome[sends] == Outcome.OK)
    sends = sends[(p.key[sends] != NONE) & ~elsewhere]
    offset = stored_offsets(p, sends)
    return sends[(offset != NONE) & (offset >= p.kept_from)]


def last_of_key(p: Partition, sends: Ints) -> Ints:
    """The send with the highest offset of each key."""
    sends = sends[np.lexsort((stored_offsets(p, sends), p.key[sends]))]
    return sends[np.r_[firsts(p.key[sends])[1:], True][: len(sends)]]


def scanned_until(p: Partition) -> int:
    """The end that the final scan came to."""
    ends = p.where(Op.SCAN_END)
    return int(p.offset[ends[p.ok[ends]]].max(initial=NONE))


@check(
    "L18",
    "compaction keeps the last record of a key",
    found="key{s} lost {its} last record to compaction",
    formula="o the highest offset of a key, the final scan came past o ⇒ o in the scan, or its "
    "record is a tombstone older than delete.retention.ms",
    needs="ACKS TXNS proof ENDS pending.read send.inv read.ret compacted_end.ret one_clock",
    closed=f"complete final READS ACKS TXNS {HIDDEN}",
    unless="producers.acks is not all, topics.unclean_leader_election is true, "
    "topics.min_insync_replicas is 1, or topics.delete_retention_ms has passed for a tombstone",
    kinds="compaction-lost-last",
    looks_at="keys of compacted topics and a final scan",
    uses="compacted.key",
)
def last_removed(p: Partition) -> list[Found]:
    """A reader of a compacted topic learns the last value of every key, from its start.

    A tombstone may go when delete.retention.ms have passed since the cleaner first met it, which
    is not before it was sent. A send that nobody answered and nobody read may have been a later
    record of its key: if it may have been a tombstone, it took the key along, and nothing is said.
    So may a second copy of a tombstone below, which a producer that is not idempotent has stored.
    """
    if not compacted(p):
        return [Found(0)]
    last = last_of_key(p, stored(p))
    last = last[stored_offsets(p, last) < scanned_until(p)]
    gone = last[~np.isin(p.id[last], p.id[p.final])]
    gone = gone[~_may_be_followed(p, gone) & ~followed(p, gone)]
    retention = int(p.context.delete_retention[p.t])
    gone = gone[~expired(p, gone) | (retention == NONE)]
    dead = p.has(Flag.TOMBSTONE)[gone]
    unknown = clause(Clause.UNKNOWN, np.int64(p.t))
    untold = (dead & (retention == NONE)) | _may_be_deleted(p, gone) | _copy_may_follow(p, gone)
    # Where something was read lowest is known only if all is told that was read.
    lower = (p.offset[gone] == NONE) & (not p.context.readers_whole)
    untold |= lower | p.strangers | may_be_read_above(p, gone) | _may_be_sent_above(p, gone)
    found = witness(gone)
    clauses = np.where(untold, unknown, p.may_be_lost(gone))
    return [Found(len(last), found, clauses, "compaction-lost-last")]


def _may_be_followed(p: Partition, last: Ints) -> Bools:
    """True where a send of the same key, of unknown fate, may have deleted the key."""
    others = p.sends[(p.outcome[p.sends] != Outcome.FAIL) & (p.key[p.sends] != NONE)]
    unsure = (stored_offsets(p, others) == NONE) | (p.txn_state[others] == Txn.UNKNOWN)
    others = others[unsure & p.has(Flag.TOMBSTONE)[others]]
    return np.isin(p.key[last], p.key[others])


def _copy_may_follow(p: Partition, last: Ints) -> Bools:
    """True where a copy of a tombstone of the same key may have deleted the key."""
    dead = p.sends[(p.outcome[p.sends] != Outcome.FAIL) & (p.key[p.sends] != NONE)]
    dead = dead[p.has(Flag.TOMBSTONE)[dead] & _may_be_copied(p, dead)]
    return np.isin(p.key[last], p.key[dead])


@check(
    "L19",
    "compaction moves nothing",
    found="record{s} {was} moved, or removed too early, by compaction",
    formula="(v, o) known, v in the final scan ⇒ at o; v replaced and not in the scan ⇒ the scan "
    "returned min.compaction.lag.ms after v was sent, or later",
    needs="ACKS TXNS proof ENDS pending.read send.inv read.ret compacted_end.ret one_clock",
    closed=f"complete final READS ACKS TXNS {HIDDEN}",
    unless="producers.idempotence is false or the application sent the id more than once (it was "
    "stored twice), topics.min_compaction_lag_ms is shorter, or a sender that stamps its records "
    "itself (topics.message_timestamp_type) made them old",
    kinds="compaction-moved compaction-too-early",
    looks_at="records of compacted topics and a final scan",
    uses="compacted.key",
)
def moved_or_early(p: Partition) -> list[Found]:
    """A record that survives keeps its offset, and none goes before its time.

    Only the lag of replaced records is judged here: that nothing else goes is L18 for the last
    record of a key. Kafka measures the lag by the record's timestamp, which an application may set;
    the lag is certain only where the leader stamps, and where the lag itself is told.
    """
    if not compacted(p):
        return [Found(0)]
    known = stored(p)
    moved = _moved(p, known)
    early = _too_early(p, known)
    certain = int(p.context.append_time[p.t]) == 1 and int(p.context.compaction_lag[p.t]) >= 0
    unsure = _may_be_deleted(p, early[:, 0]) | (not certain) | p.strangers
    unknown = clause(Clause.UNKNOWN, np.int64(p.t))
    clauses = np.where(unsure, unknown, 0)
    # A copy may be left of what was deleted with the head of the log.
    copied = np.where(_may_be_deleted(p, moved[:, 0]), unknown, _copied(p, moved))
    return [
        Found(len(known), moved, copied, "compaction-moved"),
        Found(0, early, clauses, "compaction-too-early"),
    ]


def _moved(p: Partition, known: Ints) -> Ints:
    """Pairs: a send, and the final scan of its record elsewhere and only there."""
    final = p.final[np.lexsort((p.offset[p.final], p.id[p.final]))]
    pairs = p.id[final], p.offset[final]
    here = np.isin(_paired(p.id[known], stored_offsets(p, known)), _paired(*pairs))
    first = final[firsts(p.id[final])]
    at = lookup(p.id[first], p.id[known])
    away = (at >= 0) & ~here
    return witness(known[away], first[at[away]]) if len(first) else np.empty((0, 2), np.int64)


def _paired(ids: Ints, offsets: Ints) -> "np.ndarray[tuple[int], np.dtype[np.void]]":
    """Two columns as one, to be looked up together."""
    both = np.ascontiguousarray(np.stack([ids, offsets], axis=1))
    return both.view([("id", np.int64), ("offset", np.int64)]).ravel()


def _copied(p: Partition, moved: Ints) -> Ints:
    """The clause that permits a second copy, which compaction then kept instead of the first."""
    sends, found = moved[:, 0], moved[:, 1]
    later = p.offset[found] > stored_offsets(p, sends) if len(moved) else np.empty(0, bool)
    ids, calls = np.unique(p.id[p.sends], return_counts=True)
    resent = calls[lookup(ids, p.id[sends])] > 1 if len(moved) else np.empty(0, bool)
    process = p.process[sends]
    idempotent = p.context.idempotent[process]
    clauses = np.select(
        [resent, idempotent == 0, (idempotent == -1) | (not p.senders_known)],
        [
            clause(Clause.RESENT, process),
            clause(Clause.IDEMPOTENCE, process),
            clause(Clause.UNKNOWN, process),
        ],
        0,
    )
    return np.where(later, clauses, p.may_be_lost(sends))


def _too_early(p: Partition, known: Ints) -> Ints:
    """Pairs: a send whose record is gone before its time, and the one that replaced it.

    Of a lag that is not told any may be before its time.
    """
    lag = int(p.context.compaction_lag[p.t])
    if lag == 0:
        return np.empty((0, 2), np.int64)
    end = scanned_until(p)
    last = last_of_key(p, known)
    by = last[lookup(p.key[last], p.key[known])] if len(known) else known
    gone = (by != known) & ~np.isin(p.id[known], p.id[p.final]) & (stored_offsets(p, known) < end)
    early = gone & ((age_at_the_end(p, known) < lag) | (lag < 0))
    return witness(known[early], by[early])
