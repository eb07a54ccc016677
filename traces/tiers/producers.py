"""Summaries of producers and of groups, whose promises reach over all partitions."""

import numpy as np

from traces.checks.partition import firsts
from traces.context import Ints
from traces.schema import NONE, Flag, Op, Outcome
from traces.scopes import Columns, calls
from traces.sorting import order_by
from traces.tiers.sides import numbered
from traces.tiers.summary import NOWHERE, Kind, Summary

PRODUCERS, GROUPS = 0, 1  # in the place of a topic, where the partition is NOWHERE
_NEVER = np.iinfo(np.int64).max


def add_producers(summary: Summary, columns: Columns) -> None:
    """Initialisations, sends and transactions by who makes them."""
    wanted = calls(columns, Op.SEND, Op.INIT_PRODUCER, Op.TXN_BEGIN, Op.TXN_COMMIT)
    wanted &= (columns["tid"] != NONE) | (columns["pid"] != NONE)
    rows = np.flatnonzero(wanted)
    if not len(rows):
        return
    names = ("process", "seq", "op", "outcome", "inv", "ret", "tid", "pid", "pepoch")
    mine = {name: columns[name][rows].astype(np.int64) for name in names}
    _epochs(summary, mine)
    _sessions(summary, mine)
    inits = mine["op"] == Op.INIT_PRODUCER
    inits &= (mine["outcome"] == Outcome.OK) & (mine["tid"] != NONE)
    at = np.flatnonzero(inits)
    summary.add(
        *(Kind.INIT, (PRODUCERS, NOWHERE), (mine["tid"][at], mine["pid"][at])),
        *(mine["inv"][at], mine["pepoch"][at]),
    )


def _epochs(summary: Summary, mine: dict[str, Ints]) -> None:
    """For each epoch of a producer: its earliest sign, and the last send in its name.

    With a transactional id an epoch lasts from one initialisation of the process to its next;
    without one it is the number that the producer gives itself.
    """
    named = mine["tid"] != NONE
    epoch = np.where(named, NONE, mine["pepoch"])
    pid = np.where(named, NONE, mine["pid"])
    order = order_by(mine["tid"], pid, mine["process"], mine["seq"])
    mine = {n: c[order] for n, c in (mine | {"epoch": epoch, "producer": pid}).items()}
    ok = mine["outcome"] == Outcome.OK
    begins = firsts(mine["tid"], mine["producer"], mine["process"], mine["epoch"])
    inits = (mine["op"] == Op.INIT_PRODUCER) & ok & (mine["tid"] != NONE)
    start = np.flatnonzero(begins | inits)
    sign = np.where(ok & (mine["ret"] != NONE), mine["ret"], _NEVER)
    send = (mine["op"] == Op.SEND) & ok
    summary.add(
        Kind.EPOCH,
        (PRODUCERS, NOWHERE),
        (mine["tid"][start], mine["producer"][start], mine["process"][start]),
        mine["seq"][start],
        np.where(inits, mine["inv"], np.where(mine["tid"] == NONE, mine["epoch"], NONE))[start],
        np.minimum.reduceat(sign, start),
        np.maximum.reduceat(np.where(send, mine["inv"], NONE), start),
        np.add.reduceat((mine["op"] == Op.SEND).astype(np.int64), start),
        inits[start],
    )


def _sessions(summary: Summary, mine: dict[str, Ints]) -> None:
    begin = mine["op"] == Op.TXN_BEGIN
    end = (mine["op"] == Op.TXN_COMMIT) & (mine["outcome"] == Outcome.OK)
    rows = np.flatnonzero(begin | end)
    if not len(rows):
        return
    tid, process = mine["tid"][rows], mine["process"][rows]
    number, first = numbered(tid, process)
    earliest, latest = np.full(len(first), _NEVER), np.full(len(first), NONE)
    np.minimum.at(earliest, number, np.where(begin[rows], mine["inv"][rows], _NEVER))
    np.maximum.at(latest, number, np.where(end[rows], mine["inv"][rows], NONE))
    ends = np.bincount(number, end[rows], len(first)).astype(np.int64)
    keys = (tid[first], process[first])
    summary.add(Kind.SESSION, (PRODUCERS, NOWHERE), keys, earliest, latest, ends)


def add_groups(summary: Summary, columns: Columns) -> None:
    """Owners of partitions, generations of groups, and how far each group has committed."""
    ok = columns["outcome"] == Outcome.OK
    assigned = calls(columns, Op.ASSIGNED) & (columns["group"] != NONE)
    numbered_ = columns["generation"] != NONE
    owns = np.flatnonzero(assigned & numbered_ & ok & (columns["partition"] != NONE))
    summary.add(
        Kind.OWNER,
        (columns["topic"][owns], columns["partition"][owns]),
        (columns["group"][owns], columns["generation"][owns], columns["process"][owns]),
    )
    commits = calls(columns, Op.COMMIT) & ok & (columns["group"] != NONE)
    commits &= columns["offset"] != NONE
    own = commits & numbered_ & ((columns["flags"] & Flag.AUTO) == 0)
    joined = assigned & numbered_ & (columns["ret"] != NONE)
    _generations(summary, columns, joined, own)
    covers = commits | (calls(columns, Op.COMMITTED) & ok & (columns["group"] != NONE))
    rows = np.flatnonzero(covers & (columns["partition"] != NONE) & (columns["offset"] != NONE))
    if len(rows):
        topic, partition = columns["topic"][rows], columns["partition"][rows]
        group = columns["group"][rows].astype(np.int64)
        number, first = numbered(topic, partition, group)
        reach = np.full(len(first), NONE)
        np.maximum.at(reach, number, columns["offset"][rows])
        count = np.bincount(number, commits[rows], len(first)).astype(np.int64)
        place = (topic[first], partition[first])
        summary.add(Kind.REACH, place, (group[first],), reach, count)


def _generations(summary: Summary, columns: Columns, joined: Ints, commits: Ints) -> None:
    rows = np.flatnonzero(joined | commits)
    if not len(rows):
        return
    group = columns["group"][rows].astype(np.int64)
    generation = columns["generation"][rows].astype(np.int64)
    number, first = numbered(group, generation)
    earliest, latest = np.full(len(first), _NEVER), np.full(len(first), NONE)
    np.minimum.at(earliest, number, np.where(joined[rows], columns["ret"][rows], _NEVER))
    np.maximum.at(latest, number, np.where(commits[rows], columns["inv"][rows], NONE))
    count = np.bincount(number, commits[rows], len(first)).astype(np.int64)
    keys = (group[first], generation[first])
    summary.add(Kind.GENERATION, (GROUPS, NOWHERE), keys, earliest, latest, count)
