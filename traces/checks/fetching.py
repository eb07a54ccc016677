"""Fetches from replicas (KIP-392), and positions that a consumer moves by itself (KIP-320)."""

import numpy as np

from traces.checks.base import TRUNCATED, Found, check, witness
from traces.checks.consumer import moved_by_truncation, successive, unless_known
from traces.checks.coordinator import MAY_FORGET, may_have_moved
from traces.checks.lives import MADE_AGAIN, Apart, forgot, unless_parted
from traces.checks.partition import Partition
from traces.checks.starts import reported
from traces.checks.visible import passed_over
from traces.model.columns import last_before, running_max
from traces.model.context import Clause, Ints, clause
from traces.model.schema import NONE, Detail, Op, Outcome
from traces.model.sorting import order_by

_NO_OFFSET, _OUT_OF_RANGE, _TRUNCATION = (
    Detail.RESETS[reason] for reason in ("no_offset", "out_of_range", "truncation")
)
_MOVED_TO = (Op.SEEK, Op.ASSIGN, Op.RESET)
_POSITION_LOST = (Op.ASSIGNED, Op.REVOKED, Op.LOST, Op.FORGET)
_LOG_STARTS = (Op.EARLIEST, Op.LOG_START, Op.DELETE_RECORDS, Op.DUMP_START)


@check(
    "C5",
    "reading from a follower",
    found="record{s} {was} skipped or read again where the replica changed",
    formula="no step back and no skip where the replica changes",
    needs="proof COPIES replicas placed_poll.node read.inv moved.inv",
    closed="SEEN MOVES",
    spec="AbsLog!ViewsArePrefixes",
    unless=TRUNCATED,
    looks_at="polls that tell another replica than the one before",
    uses="outcome txn_state isolation epoch node compacted.key",
)
def beyond_replica(p: Partition) -> list[Found]:
    """A reader who changes to another replica goes on where it was.

    That a record lies at or above the high watermark of the same answer says nothing: a broker
    takes that number before it reads, as Kafka's `Partition.readRecords` does. That replicas hold
    the same records is L1's and L14's matter.
    """
    if not (p.node != NONE).any():
        return [Found(0)]
    pairs = np.concatenate(successive(p))
    one, two = p.node[pairs[:, 0]], p.node[pairs[:, 1]]
    pairs = pairs[(one != two) & (one != NONE) & (two != NONE)]
    before, after = p.offset[pairs[:, 0]], p.offset[pairs[:, 1]]
    found = pairs[(after <= before) | passed_over(p, before, after, pairs[:, 1])]
    return [Found(len(pairs), found, unless_known(p, found, moved_by_truncation(p, found)))]


@check(
    "C6",
    "resets and truncations have a cause",
    found="reset{s} of a position had no cause",
    formula="no_offset ⇒ nothing committed; out_of_range ⇒ position not in [log start, end]; "
    "truncation ⇒ the log was cut",
    needs="ACKS READS acked.ret read.ret member.group rebalance.group assign.offset",
    closed="GIVEN MOVES COMMITS commit.ret reset.topic reset.inv reset.ret one_clock",
    spec="Truncation!Truncate",
    unless=f"{TRUNCATED}, or {MAY_FORGET}, or {MADE_AGAIN}",
    looks_at="positions that clients moved by themselves",
    uses="outcome txn_state detail isolation",
)
def baseless_resets(p: Partition) -> list[Found]:
    """A client asks its reset policy only when it has no position, or none that the log has.

    That a position lay inside the log is sure if a record just below it, or higher, was known by
    then, and the client was sent to no higher offset: the broker that answered begins its log there
    or below. What others reported later proves nothing: a leader may have deleted more, and crashed
    before anybody learnt of it. That the position lay outside is sure if no such record was known,
    or a higher log start was reported before, be it that of one replica, which may have led. In
    between nothing is decided, nor where a log start may have been reported that nobody tells.
    """
    resets = p.where(Op.RESET)
    resets = resets[p.ok[resets] & (p.offset[resets] != NONE)]
    if not len(resets):
        return [Found(0)]
    reason = p.detail[resets]
    cut = witness(resets[reason == _TRUNCATION])
    return [
        Found(len(resets), cut, p.topic_clause(len(cut))),
        _committed(p, resets[reason == _NO_OFFSET]),
        _in_range(p, resets[reason == _OUT_OF_RANGE]),
    ]


def _committed(p: Partition, resets: Ints) -> Found:
    """Resets for want of a committed offset, although there was one."""
    commits = p.where(Op.COMMIT)
    commits = commits[(p.outcome[commits] == Outcome.OK) & (p.ret[commits] != NONE)]
    group = _group(p)[resets]
    lines: list[Ints] = []
    for g in np.unique(group[group != NONE]):
        mine, asked = commits[p.group[commits] == g], resets[group == g]
        mine = mine[order_by(p.ret[mine])]
        before = np.searchsorted(p.ret[mine], p.inv[asked], side="left") - 1
        lines.append(witness(mine[before[before >= 0]], asked[before >= 0]))
    found = np.concatenate([witness(resets[:0], resets[:0]), *lines])
    found = found[~forgot(p, found[:, 0], found[:, 1], p.group[found[:, 0]])]
    group = p.group[found[:, 0]]
    moved = may_have_moved(p, group)
    clauses = unless_parted(p, moved, found[:, 0], found[:, 1], Apart.OFFSETS, group)
    return Found(0, found, clauses)


def _group(p: Partition) -> Ints:
    """The group of each row's process, as the process told it last."""
    last = last_before(p.group != NONE)
    own = (last >= 0) & (p.process[last] == p.process)
    return np.where(p.group != NONE, p.group, np.where(own, p.group[last], NONE))


def _in_range(p: Partition, resets: Ints) -> Found:
    """Resets out of range, of a position that was in range or nobody knows."""
    source = position(p)[resets]
    stood = np.where(source >= 0, p.offset[source] + (p.op[source] == Op.POLL), NONE)
    end, last = _known_end(p, resets)
    starts = reported(p, *_LOG_STARTS)
    timed = p.ret[starts] != NONE
    deleted, maybe = np.zeros(len(resets), bool), np.zeros(len(resets), bool)
    for i, reset in enumerate(resets):  # resets are few
        above = p.offset[starts] > stood[i]
        deleted[i] = bool((above & timed & (p.ret[starts] < p.inv[reset])).any())
        maybe[i] = bool((above & ~timed).any())
    known = stood != NONE
    legal = known & (deleted | (stood > end))
    inside = known & ~legal & ~maybe & (p.offset[resets] <= stood) & p.context.starts_known
    found = witness(source[~legal], last[~legal], resets[~legal])
    unknown = clause(Clause.UNKNOWN, p.process[resets])
    clauses = np.where(inside, p.topic_clause(len(resets)), unknown)
    return Found(0, found, clauses[~legal])


def position(p: Partition) -> Ints:
    """For each row, the row before it that tells where its client was, NONE where none does."""
    reads = np.zeros(len(p), bool)
    reads[p.given[p.op[p.given] == Op.POLL]] = True
    positions = (reads | p.called(*_MOVED_TO)) & p.ok & (p.offset != NONE)
    lost = p.called(*_POSITION_LOST) | (p.called(*_MOVED_TO) & ~positions)
    base = _own(p, last_before(positions | lost))
    answer = _own(p, last_before(p.called(Op.COMMITTED) & p.ok & (p.offset != NONE)))
    # After an assignment the client goes to what it is answered to be committed.
    given = (base >= 0) & lost[base]
    sought = np.where(answer > base, answer, NONE)
    return np.where(given, sought, base)


def _own(p: Partition, rows: Ints) -> Ints:
    return np.where((rows >= 0) & (p.process[rows] == p.process), rows, NONE)


def _known_end(p: Partition, resets: Ints) -> tuple[Ints, Ints]:
    """The end of the log as far as records told by then, and the row that tells."""
    rows = p.log[p.ret[p.log] != NONE]
    rows = rows[order_by(p.ret[rows], rows)]
    best, at = running_max(p.offset[rows])
    before = np.searchsorted(p.ret[rows], p.inv[resets], side="left") - 1
    there = before >= 0
    end, last = np.zeros(len(resets), np.int64), np.full(len(resets), NONE)
    end[there] = best[before[there]] + 1
    last[there] = rows[at[before[there]]]
    return end, last
