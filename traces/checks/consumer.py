"""Promises to a consumer inside one assignment: every visible record, once, in order."""

from collections.abc import Callable

import numpy as np
from attrs import evolve

from traces.checks.base import TRUNCATED, Found, check, witness
from traces.checks.partition import Partition
from traces.checks.rows import once
from traces.checks.visible import passed_over, unless_open
from traces.model.columns import Bools, last_before
from traces.model.context import Clause, Ints, clause, code
from traces.model.schema import NONE, Flag, Op

_EXACT = (Op.SEEK, Op.ASSIGN, Op.RESET)
PairTest = Callable[[Ints], Bools]
_MOVES = (Op.ASSIGNED, Op.REVOKED, Op.LOST, Op.SEEK, Op.FORGET, Op.RESET)


def _moves(p: Partition) -> Bools:
    """Rows after which a client's position is not where its last read left it.

    A manual assignment in trace format v1 is one of them: librdkafka starts again at the committed
    offset, the Java client keeps its position, and the trace does not tell which client it was.
    In a history an assignment or subscription forgets what it does not list, and a seek all.
    """
    return p.called(Op.FORGET) if p.context.jepsen else p.called(*_MOVES, Op.ASSIGN)


@once
def _last_move(p: Partition) -> Ints:
    """For each row, the last move of the same process before it, -1 where there is none."""
    last = last_before(_moves(p))
    return np.where((last >= 0) & (p.process[last] == p.process), last, -1)


def _shaken(p: Partition, rows: Ints, last_move: Ints) -> Bools:
    """True where the partition changed hands while the call ran: it may hold reads of both."""
    move = last_move[rows]
    untimed = (p.inv[move] == NONE) | (p.inv[rows] == NONE)
    inside = (move >= 0) & (untimed | (p.inv[move] >= p.inv[rows]))
    return p.has(Flag.REBALANCED)[rows] if p.context.jepsen else inside


@once
def successive(p: Partition) -> tuple[Ints, Ints]:
    """Pairs of successive reads of one client: (inside one call, across calls).

    Across calls, the position is where the last *successful* call left it: a call that failed or
    was never answered is read again. After a move, or a call in which one happened, the position
    is not known and the next read starts anew. In a history a `:rebalance-log` excuses only what
    its own operation read: across operations positions count under manual assignment alone, where
    no group can move a partition.
    """
    reads = p.given
    if not len(reads):
        return np.empty((0, 2), np.int64), np.empty((0, 2), np.int64)
    last_move = _last_move(p)
    shaken = _shaken(p, reads, last_move)
    one, two = reads[:-1], reads[1:]
    same = (p.process[one] == p.process[two]) & (p.seq[one] == p.seq[two])
    inside = witness(one[same & ~shaken[1:]], two[same & ~shaken[1:]])
    starts = np.flatnonzero(np.r_[True, ~same])
    sure = np.zeros(len(p), bool)
    sure[reads[p.ok[reads]]] = True
    previous = last_before(sure)[reads[starts]]
    first = reads[starts]
    known = (previous >= 0) & (p.process[previous] == p.process[first])
    known &= last_move[first] < previous
    if not p.context.jepsen:
        shaken_before = np.zeros(len(p), bool)
        shaken_before[reads] = shaken
        known &= ~shaken[starts] & ~shaken_before[previous]
    across = witness(previous[known], first[known])
    return inside, across if p.context.positions_known else across[:0]


def moved_by_truncation(p: Partition, found: Ints) -> Ints:
    """A step back with a change of leader epoch is a truncation, where the topic allows one."""
    by_topic = p.topic_clause(len(found))
    before, after = p.epoch[found[:, 0]], p.epoch[found[:, 1]]
    unknown = (before == NONE) | (after == NONE)
    undecided = np.where(
        code(by_topic) == Clause.NOT, by_topic, clause(Clause.UNKNOWN, p.topic[found[:, 0]])
    )
    clauses = np.where(before == after, 0, by_topic)
    return np.where(unknown, undecided, clauses)


@check(
    "C1",
    "no visible record is skipped within an assignment",
    found="time{s} a reader skipped a visible record",
    formula="successive reads at o, o′ of one client ⇒ no visible record strictly between",
    needs="proof COPIES read.inv moved.inv",
    closed="SEEN MOVES",
    spec="AbsLog!ViewsArePrefixes",
    unless=TRUNCATED,
    kinds="poll-skip int-poll-skip",
    looks_at="successive reads of one client",
    uses="epoch isolation compacted.key",
)
def skips(p: Partition) -> list[Found]:
    """The next record is the next visible one; gaps of markers and aborted records are legal.

    Visible is what the log holds: where there is a final scan, what that found. A record that it
    lacks may have been lost before the reader came by, whatever the cleanup policy is. So its loss
    is L3's and L4's matter, and no reader is accused of it.
    """
    steps = _steps(p, ("poll-skip", "int-poll-skip"), lambda pairs: _passed_over(p, pairs))
    return [evolve(found, clause=unless_known(p, found.rows, found.clause)) for found in steps]


def _passed_over(p: Partition, pairs: Ints) -> Bools:
    return passed_over(p, p.offset[pairs[:, 0]], p.offset[pairs[:, 1]], pairs[:, 1])


def unless_known(p: Partition, pairs: Ints, clauses: Ints) -> Ints:
    """These clauses of pairs of reads between which something visible lies, if that is sure."""
    one, two = pairs[:, 0], pairs[:, 1]
    return unless_open(p, clauses, p.offset[one] + 1, p.offset[two], two)


@check(
    "C2",
    "a reader does not go back within an assignment",
    found="time{s} a reader went back",
    formula="successive reads at o, o′ of one client ⇒ o < o′",
    needs="GIVEN scan read.inv moved.inv",
    closed="GIVEN MOVES",
    spec="AbsLog!AppendOnly, as one reader sees it",
    unless=TRUNCATED,
    kinds="nonmonotonic-poll int-nonmonotonic-poll",
    looks_at="successive reads of one client",
    uses="epoch",
)
def goes_back(p: Partition) -> list[Found]:
    """A client that detects a truncation moves back silently (KIP-320); nothing else may."""
    return _steps(p, ("nonmonotonic-poll", "int-nonmonotonic-poll"), lambda pairs: _back(p, pairs))


def _back(p: Partition, pairs: Ints) -> Bools:
    return p.offset[pairs[:, 1]] <= p.offset[pairs[:, 0]]


def _steps(p: Partition, kinds: tuple[str, str], wrong: PairTest) -> list[Found]:
    inside, across = successive(p)
    out: list[Found] = []
    for pairs, kind in ((across, kinds[0]), (inside, kinds[1])):
        bad = pairs[wrong(pairs)]
        out.append(Found(len(pairs), bad, moved_by_truncation(p, bad), kind))
    return out


@check(
    "C3",
    "reading starts where it was told to",
    found="time{s} reading began elsewhere than told",
    formula="first read after seek, assign or reset to o ⇒ at o or the next visible record",
    needs="assign.offset moved.inv proof COPIES read.inv",
    closed="SEEN MOVES",
    unless=TRUNCATED,
    looks_at="reads after a seek, a reset, or an assignment with an offset",
    uses="isolation compacted.key",
)
def wrong_start(p: Partition) -> list[Found]:
    """A seek is exact: the first record after it is the first visible one from there."""
    if p.context.jepsen:
        return [Found(0)]
    move, reads = _last_move(p), p.given
    first = reads[np.r_[True, move[reads[1:]] != move[reads[:-1]]][: len(reads)]]
    start = move[first]
    sought = (start >= 0) & np.isin(p.op[start], _EXACT) & (p.offset[start] != NONE)
    sought &= p.ok[start] & ~_shaken(p, first, move)
    first, start = first[sought], start[sought]
    want, got = p.offset[start], p.offset[first]
    wrong = (got < want) | passed_over(p, want - 1, got, first)
    found = witness(start[wrong], first[wrong])
    clauses = p.topic_clause(len(found))
    clauses = unless_open(p, clauses, want[wrong], got[wrong], first[wrong])
    return [Found(len(first), found, clauses)]


@check(
    "C4",
    "only what is assigned is read",
    found="record{s} {was} read of partitions that had been taken away or paused",
    formula="a partition is read ⇒ since assigned or resumed it was not revoked, lost or paused",
    needs="GIVEN scan moved.inv pause.inv",
    closed="consumers MOVES pause.topic pause.partitions",
    looks_at="reads after a rebalance, or after a pause",
    uses="outcome",
)
def read_unassigned(p: Partition) -> list[Found]:
    """After it gave a partition up, a member is given no more of it; nor while it has it paused."""
    move, stop = _last_move(p), _last_stop(p)
    reads = p.given[p.op[p.given] == Op.POLL]
    polls = reads[move[reads] >= 0]
    gone = np.isin(p.op[move[polls]], (Op.REVOKED, Op.LOST)) & ~_shaken(p, polls, move)
    halted = reads[stop[reads] >= 0]
    paused = (p.op[stop[halted]] == Op.PAUSE) & ~_shaken(p, halted, stop)
    found = np.concatenate(
        [witness(move[polls[gone]], polls[gone]), witness(stop[halted[paused]], halted[paused])]
    )
    seen = np.count_nonzero((move[reads] >= 0) | (stop[reads] >= 0))
    return [Found(int(seen), found, np.zeros(len(found), np.int64))]


def _last_stop(p: Partition) -> Ints:
    """For each row, what its process last did that pauses a partition or lets it go on."""
    stops = p.called(Op.PAUSE, Op.RESUME, Op.ASSIGNED, Op.REVOKED, Op.LOST, Op.ASSIGN) & p.ok
    last = last_before(stops)
    return np.where((last >= 0) & (p.process[last] == p.process), last, -1)
