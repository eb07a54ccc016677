"""A record is stored as its producer made it, and stamped by a clock that does not go back."""

import numpy as np

from traces.checks.base import Found, check, witness
from traces.checks.partition import Partition
from traces.model.columns import differing, firsts, lookup
from traces.model.context import Clause, Ints, clause
from traces.model.schema import NONE, Op


@check(
    "L7",
    "payloads are intact",
    found="record{s} {was} read with another payload than was sent",
    formula="(v, h) sent, (v, h′) read or dumped ⇒ h = h′, h the hash of key, value and headers",
    needs="sent.hash given.hash dump.hash dump.partition copied.id dumped.topic READS",
    closed="send.topic send.id producers producers.whole",
    kinds="payload-changed",
    looks_at="records whose hash the sender and a reader told",
    uses="hash",
)
def payloads_changed(p: Partition) -> list[Found]:
    """A reader is given the bytes that were sent, or a checksum on the way has failed everybody.

    The time is left out of the hash: a broker may stamp the record anew. An application that sends
    one id with several payloads may read any of them. Where nobody knows the send, readers are
    held against each other.
    """
    if not (p.hash != NONE).any():
        return [Found(0)]
    seen = np.concatenate([p.reads, p.where(Op.DUMP)])
    seen = seen[(p.hash[seen] != NONE) & (p.id[seen] != NONE)]
    seen = seen[~p.among(seen, p.sends[p.hash[p.sends] == NONE])]
    looked_at = len(seen)
    both = np.concatenate([p.sends, seen])
    both = both[differing(p.record[both], p.hash[both])]  # most records have one hash
    sends = both[p.op[both] == Op.SEND]
    sends = sends[np.argsort(p.id[sends], kind="stable")]
    seen = both[p.op[both] != Op.SEND]
    seen = seen[np.lexsort((seen, p.hash[seen], p.id[seen]))]
    sent = sends[np.isin(p.id[sends], p.id[seen])]
    unsent = seen[~np.isin(p.id[seen], p.id[sent])]
    unsent = unsent[np.lexsort((unsent, p.id[unsent]))]
    said = np.concatenate([sent, unsent[firsts(p.id[unsent])]])
    one = seen[firsts(p.id[seen], p.hash[seen])]  # one reading of each hash
    changed = one[~_among(p, one, said)]
    said = said[np.argsort(p.id[said], kind="stable")]
    starts = said[firsts(p.id[said])]
    sender = starts[lookup(p.id[starts], p.id[changed])] if len(changed) else changed
    found = witness(sender, changed)
    # Of what several readers were given, one payload is not what anybody sent.
    clauses = np.where(p.op[sender] == Op.SEND, p.unless_sent(sender), 0)
    return [Found(looked_at, found, clauses, "payload-changed")]


def _among(p: Partition, rows: Ints, said: Ints) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """Mask of the rows that have the id and the hash of one of those others."""
    both = np.concatenate([rows, said])
    order = np.lexsort((p.hash[both], p.id[both]))
    group = np.empty(len(both), np.int64)
    group[order] = np.cumsum(firsts(p.id[both[order]], p.hash[both[order]]))
    return np.isin(group[: len(rows)], group[len(rows) :])


@check(
    "L17",
    "append times grow",
    found="append time{s} went back within a leader epoch",
    formula="the leader stamps, o < o′ of one leader epoch ⇒ timestamp(o) ≤ timestamp(o′)",
    needs="stamped_log.timestamp stamped_log.epoch dumped.topic dump.partition dump.offset READS",
    unless="the leader's clock was set back, or the topic's message.timestamp.type was changed",
    kinds="append-time-regression",
    looks_at="records of topics with message_timestamp_type = LogAppendTime",
    uses="epoch timestamp",
)
def append_times_back(p: Partition) -> list[Found]:
    """Under LogAppendTime the leader's clock stamps each batch as it is appended (KIP-32).

    Two leaders have two clocks, so only what one leader epoch appended is compared. Kafka stamps
    by the clock as it is: one that is set back while it leads is no fault of Kafka's, nor are
    records that were appended before the topic's setting was changed. So it is counted and shown,
    because readers and queries by time see it, and never called violated.
    """
    if int(p.context.append_time[p.t]) != 1:
        return [Found(0)]
    rows = np.concatenate([p.reads, p.where(Op.DUMP)])
    rows = rows[(p.offset[rows] != NONE) & (p.epoch[rows] != NONE) & (p.timestamp[rows] != NONE)]
    rows = rows[np.lexsort((rows, p.timestamp[rows], p.offset[rows], p.epoch[rows]))]
    one, two = rows[:-1], rows[1:]
    back = (p.epoch[one] == p.epoch[two]) & (p.timestamp[two] < p.timestamp[one])
    found = witness(one[back], two[back])
    clauses = clause(Clause.CLOCK, p.topic[found[:, 0]])
    return [Found(len(rows), found, clauses, "append-time-regression")]
