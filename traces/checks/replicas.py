"""The logs of several replicas are one log, as far as each knows that it is committed."""

from collections.abc import Iterator

import numpy as np
from attrs import frozen

from traces.checks.base import Found, check, witness
from traces.checks.partition import Partition
from traces.model.columns import Bools, firsts, lookup
from traces.model.context import Clause, Ints, clause
from traces.model.schema import NONE, Detail, Flag, Op

# What two replicas must have in common at an offset; what one of them does not tell is no quarrel.
MATTER = ("id", "hash", "epoch", "pid", "pepoch", "sequence", "timestamp", "key", "detail")


@frozen
class ReplicaLog:
    """The records in the dump of one replica, by offset, and the range in which it counts.

    Below `start` records may have been deleted, from `end` on they are not known to be committed.
    """

    rows: Ints
    start: int
    end: int
    last: int  # the row that tells where the log ends

    def covers(self, offsets: Ints) -> Bools:
        """Mask of the offsets that the replica answers for."""
        return (offsets >= self.start) & (offsets < self.end)


def dumped(p: Partition) -> Iterator[Ints]:
    """The rows of each replica's log, in the order of offsets; one row for each offset."""
    rows = p.where(Op.DUMP, Op.MARKER)
    rows = rows[p.offset[rows] != NONE]
    if not len(rows):
        return
    rows = rows[np.lexsort((rows, p.offset[rows], p.node[rows], p.process[rows]))]
    rows = rows[firsts(p.process[rows], p.node[rows], p.offset[rows])]
    starts = np.flatnonzero(firsts(p.process[rows], p.node[rows]))
    for start, end in zip(starts, [*starts[1:], len(rows)], strict=True):
        yield rows[start:end]


def logs(p: Partition) -> list[ReplicaLog]:
    """The dumps that tell their high watermark and where they end."""
    ends = p.where(Op.DUMP_END)
    if not len(ends):
        return []
    ends = ends[np.unique(_log(p, ends), axis=0, return_index=True)[1]]
    of = {tuple(_log(p, rows[:1])[0]): rows for rows in dumped(p)}
    found: list[ReplicaLog] = []
    for end in ends:
        me = tuple(_log(p, np.array([end]))[0])
        marks = [p.offset[rows[(_log(p, rows) == me).all(axis=1)]] for rows in _reports(p)]
        high, low = marks
        if len(high):
            start = int(low.max(initial=0))
            above = min(int(high.min()), int(p.offset[end]))
            found.append(ReplicaLog(of.get(me, np.empty(0, np.int64)), start, above, int(end)))
    return found


def _log(p: Partition, rows: Ints) -> Ints:
    return np.stack([p.process[rows], p.node[rows]], axis=1)


def _reports(p: Partition) -> tuple[Ints, Ints]:
    return p.where(Op.DUMP_MARK), p.where(Op.DUMP_START)


@check(
    "L14",
    "replicas agree",
    found="offset{s} {is} different in two replicas",
    formula="log starts ≤ o < high watermarks of r and s ⇒ log_r[o] = log_s[o]",
    needs="dump.hash dump.epoch dump.timestamp sequenced.pid sequenced.pepoch sequenced.sequence "
    "marker.pid marker.pepoch marker.detail dumps.high_watermark",
    closed="dumped.topic dump.partition dump.offset dump.node dumps.end dumps.log_start dumps "
    "compacted_dump.key compacted_dump.tombstone",
    spec="Truncation!LogMatching, Truncation!CommittedInIsr",
    unless="topics.unclean_leader_election is true or topics.min_insync_replicas is 1, and the log "
    "was truncated; or compaction removed what a later record of the key had replaced",
    kinds="replica-divergence",
    looks_at="offsets below the high watermarks in the dumps of two replicas",
    uses="node hash epoch pid pepoch sequence timestamp key detail",
)
def replicas_differ(p: Partition) -> list[Found]:
    """Records that two replicas both know to be committed are the same, byte for byte.

    Above the lower of the two high watermarks they may differ: a follower that comes back cuts
    that off. A log start is as far as deletion has come on that broker, and each is free in when.
    Each broker compacts in its own time, too: on a compacted topic a record may be gone that has
    a later one of its key in the same log, or is a tombstone or a marker itself.
    """
    mine = logs(p)
    if len(mine) < 2:
        return [Found(0)]
    rows = np.concatenate([log.rows for log in mine])
    rows = rows[np.lexsort((rows, p.offset[rows]))]
    covered = np.zeros(len(rows), np.int64)
    for log in mine:
        covered += log.covers(p.offset[rows])
    rows = rows[(covered > 1) & _own(p, mine, rows)]
    first = rows[firsts(p.offset[rows])]  # the first replica that has it speaks for all
    pairs, clauses = [np.empty((0, 2), np.int64)], [np.empty(0, np.int64)]
    for log in mine:
        there = first[log.covers(p.offset[first])]
        at = lookup(p.offset[log.rows], p.offset[there])
        other = log.rows[at[at >= 0]]
        differ = _differ(p, there[at >= 0], other)
        lacking = there[at < 0]
        lacking = lacking[~_replaced(p, log, lacking)]
        pairs += [witness(there[at >= 0][differ], other[differ]), _ended(lacking, log)]
        clauses += [p.topic_clause(int(differ.sum())), _absent(p, lacking)]
    found = np.concatenate(pairs)
    return [Found(len(first), found, np.concatenate(clauses), "replica-divergence")]


def _own(p: Partition, mine: list[ReplicaLog], rows: Ints) -> Bools:
    """Mask of the rows of a log that answers for them."""
    own = [log.rows[log.covers(p.offset[log.rows])] for log in mine]
    return np.isin(rows, np.concatenate(own))


def _ended(lacking: Ints, log: ReplicaLog) -> Ints:
    return witness(lacking, np.full(len(lacking), log.last))


def _differ(p: Partition, one: Ints, two: Ints) -> Bools:
    differ = np.zeros(len(one), bool)
    for name in MATTER:
        a, b = getattr(p, name)[one], getattr(p, name)[two]
        differ |= (a != b) & (a != NONE) & (b != NONE)
    return differ


def _replaced(p: Partition, log: ReplicaLog, lacking: Ints) -> Bools:
    """Mask of the missing records that the log's compaction may have removed."""
    if int(p.context.compacted[p.t]) != 1:
        return np.zeros(len(lacking), bool)
    every = p.where(Op.DUMP)  # a tombstone that has gone everywhere took the older ones along
    dead = every[p.has(Flag.TOMBSTONE)[every]]
    later = np.concatenate([log.rows, dead])
    later = later[p.key[later] != NONE]
    later = later[np.lexsort((p.offset[later], p.key[later]))]
    last = later[np.r_[firsts(p.key[later])[1:], True][: len(later)]]
    at = lookup(p.key[last], p.key[lacking])
    newer = (at >= 0) & (p.offset[last][at] > p.offset[lacking] if len(last) else False)
    own = p.has(Flag.TOMBSTONE)[lacking] | (p.op[lacking] == Op.MARKER)
    return newer | own | aborted(p, lacking)


def aborted(p: Partition, rows: Ints) -> Bools:
    """Mask of the dumped records whose transaction a marker behind them aborts."""
    markers = p.where(Op.MARKER)
    both = np.concatenate([rows, markers])
    order = np.lexsort((p.offset[both], p.pid[both]))
    both, rank = both[order], np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    marked = np.where(p.op[both] == Op.MARKER, np.arange(len(both)), len(both))
    following = np.minimum.accumulate(marked[::-1])[::-1][rank[: len(rows)]]
    marker = np.append(both, -1)[following]
    same = (marker >= 0) & (p.pid[marker] == p.pid[rows])
    return same & (p.detail[marker] == Detail.MARKERS["abort"])


def _absent(p: Partition, lacking: Ints) -> Ints:
    """The clause that permits each lack; if the topic may be compacted, nobody knows."""
    topic = np.int64(p.t)
    if int(p.context.compacted[p.t]) == -1:
        return np.full(len(lacking), clause(Clause.UNKNOWN, topic))
    return p.topic_clause(len(lacking))
