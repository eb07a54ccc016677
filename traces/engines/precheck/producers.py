"""Summaries of producers and of groups, whose promises reach over all partitions."""

import numpy as np

from traces.engines.precheck.piece import PieceRows
from traces.engines.precheck.sides import numbered
from traces.engines.precheck.summary import GROUPS, NOWHERE, PRODUCERS, SummaryBuilder, SummaryKind
from traces.model.columns import Bools, firsts
from traces.model.context import Ints
from traces.model.schema import NONE, Flag, Op

_NEVER = np.iinfo(np.int64).max


def add_producers(summary: SummaryBuilder, piece: PieceRows) -> None:
    """Initialisations, sends and transactions by who makes them."""
    wanted = piece.called(Op.SEND, Op.INIT_PRODUCER, Op.TXN_BEGIN, Op.TXN_COMMIT)
    wanted &= (piece["tid"] != NONE) | (piece["pid"] != NONE)
    rows = np.flatnonzero(wanted)
    if not len(rows):
        return
    process, seq = piece["process"][rows], piece["seq"][rows]
    same = process[1:] == process[:-1]
    if bool(np.any((process[1:] < process[:-1]) | (same & (seq[1:] < seq[:-1])))):
        rows = rows[np.lexsort((seq, process))]
    names = ("process", "seq", "op", "inv", "ret", "tid", "pid", "pepoch")
    mine = {name: piece[name][rows].astype(np.int64, copy=False) for name in names}
    ok = piece.ok[rows]
    _epochs(summary, mine, ok)
    calls = np.flatnonzero(mine["op"] != Op.SEND)
    few, ok = {name: column[calls] for name, column in mine.items()}, ok[calls]
    _sessions(summary, few, ok)
    at = np.flatnonzero((few["op"] == Op.INIT_PRODUCER) & ok & (few["tid"] != NONE))
    summary.add(
        *(SummaryKind.INIT, (PRODUCERS, NOWHERE), (few["tid"][at], few["pid"][at])),
        *(few["inv"][at], few["pepoch"][at]),
    )


def _epochs(summary: SummaryBuilder, mine: dict[str, Ints], ok: Bools) -> None:
    """For each epoch of a producer: its earliest sign, and the last send in its name.

    With a transactional id an epoch lasts from one initialisation of the process to its next;
    without one it is the number that the producer gives itself.
    """
    named = mine["tid"] != NONE
    epoch = np.where(named, NONE, mine["pepoch"])
    pid = np.where(named, NONE, mine["pid"])
    send = mine["op"] == Op.SEND
    inits = (mine["op"] == Op.INIT_PRODUCER) & ok & named
    start = np.flatnonzero(firsts(mine["process"], mine["tid"], pid, epoch) | inits)
    sign = np.where(ok & (mine["ret"] != NONE), mine["ret"], _NEVER)
    began, settled = (np.where(inits[start], mine[t][start], epoch[start]) for t in ("inv", "ret"))
    summary.add(
        SummaryKind.EPOCH,
        (PRODUCERS, NOWHERE),
        (mine["tid"][start], pid[start], mine["process"][start]),
        *(mine["seq"][start], began, settled),
        np.minimum.reduceat(sign, start),
        np.maximum.reduceat(np.where(send & ok, mine["inv"], NONE), start),
        np.add.reduceat(send.astype(np.int64), start),
        inits[start],
    )


def _sessions(summary: SummaryBuilder, mine: dict[str, Ints], ok: Bools) -> None:
    begin = mine["op"] == Op.TXN_BEGIN
    end = (mine["op"] == Op.TXN_COMMIT) & ok
    rows = np.flatnonzero(begin | end)
    if not len(rows):
        return
    tid, process = mine["tid"][rows], mine["process"][rows]
    number, first = numbered(tid, process)
    spans = _spans(number, begin[rows], mine["inv"][rows], end[rows], mine["inv"][rows])
    keys = (tid[first], process[first])
    summary.add(SummaryKind.SESSION, (PRODUCERS, NOWHERE), keys, *spans)


def _spans(
    number: Ints, begin: Bools, began: Ints, end: Bools, ended: Ints
) -> tuple[Ints, Ints, Ints]:
    """Of each number: its earliest beginning, its latest end, and how many ends it has."""
    size = int(number.max()) + 1
    earliest, latest = np.full(size, _NEVER), np.full(size, NONE)
    np.minimum.at(earliest, number, np.where(begin, began, _NEVER))
    np.maximum.at(latest, number, np.where(end, ended, NONE))
    return earliest, latest, np.bincount(number, end, size).astype(np.int64)


def add_groups(summary: SummaryBuilder, piece: PieceRows) -> None:
    """Owners of partitions, generations of groups, and how far each group has committed."""
    calls = piece.called(Op.ASSIGNED, Op.COMMIT, Op.COMMITTED) & (piece["group"] != NONE)
    rows = np.flatnonzero(calls)
    names = ("op", "process", "group", "generation", "offset", "inv", "ret", "flags")
    mine = {name: piece[name][rows].astype(np.int64) for name in names}
    mine["topic_partition"], ok, in_partition = (
        piece.topic_partition[rows],
        piece.ok[rows],
        piece.in_partition[rows],
    )
    assigned, known = mine["op"] == Op.ASSIGNED, mine["generation"] != NONE
    owns = np.flatnonzero(assigned & known & ok & in_partition)
    keys = tuple(mine[name][owns] for name in ("group", "generation", "process"))
    summary.add(SummaryKind.OWNER, piece.where(mine["topic_partition"][owns]), keys)
    commits = (mine["op"] == Op.COMMIT) & ok & (mine["offset"] != NONE)
    own = commits & known & ((mine["flags"] & Flag.AUTO) == 0)
    joined = assigned & known & ok & (mine["ret"] != NONE)
    _generations(summary, mine, joined, own)
    covers = (commits | (mine["op"] == Op.COMMITTED)) & ok & in_partition & (mine["offset"] != NONE)
    _reaches(summary, piece, mine, np.flatnonzero(covers), commits)


def _reaches(
    summary: SummaryBuilder, piece: PieceRows, mine: dict[str, Ints], rows: Ints, commits: Bools
) -> None:
    if not len(rows):
        return
    topic_partition, group = mine["topic_partition"][rows], mine["group"][rows]
    number, first = numbered(topic_partition, group)
    reach = np.full(len(first), NONE)
    np.maximum.at(reach, number, mine["offset"][rows])
    count = np.bincount(number, commits[rows], len(first)).astype(np.int64)
    summary.add(
        SummaryKind.REACH, piece.where(topic_partition[first]), (group[first],), reach, count
    )


def _generations(
    summary: SummaryBuilder, mine: dict[str, Ints], joined: Bools, commits: Bools
) -> None:
    rows = np.flatnonzero(joined | commits)
    if not len(rows):
        return
    group, generation = mine["group"][rows], mine["generation"][rows]
    number, first = numbered(group, generation)
    spans = _spans(number, joined[rows], mine["ret"][rows], commits[rows], mine["inv"][rows])
    keys = (group[first], generation[first])
    summary.add(SummaryKind.GENERATION, (GROUPS, NOWHERE), keys, *spans)
