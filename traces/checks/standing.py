"""A reader that stands still below the end of the log until its recording ends."""

import numpy as np

from traces.checks.base import Found, check, witness
from traces.checks.fetching import position
from traces.checks.partition import Partition
from traces.checks.starts import reported
from traces.checks.visible import visible_between
from traces.model.columns import distinct, firsts
from traces.model.context import Clause, Ints, clause
from traces.model.schema import NONE, Isolation, Op, Txn

FEWEST = 3  # empty polls; a fetch may be on its way
_MOVES = (Op.ASSIGN, Op.SEEK, Op.RESET, Op.ASSIGNED, Op.REVOKED, Op.LOST, Op.PAUSE, Op.RESUME)


@check(
    "C8",
    "a reader goes on below the high watermark",
    found="reader{s} stood still below the high watermark to the end",
    formula="position ≤ o < high watermark, o visible, empty polls from then on ⇒ not the last "
    "three polls of the reader",
    needs="marks watching.high_watermark",
    closed="SEEN MOVES ANSWERS MEMBERS consumers.whole pause.topic pause.partitions",
    unless="",
    looks_at="readers whose polls report high watermarks",
    uses="isolation compacted.key",
)
def standing(p: Partition) -> list[Found]:
    """A consumer polls in vain although its broker tells it that there is more.

    A matter of progress: what is found is told and permitted, and never called violated. Only the
    last polls of a process are looked at, three at least; who paused, gave the partition up, or is
    followed by another reader of its group does not stand still. One that reads what is committed
    waits for the last stable offset, and is looked at where its polls report that, too.
    """
    marks = reported(p, Op.MARK)
    if p.context.jepsen or not len(marks):
        return [Found(0)]
    at, found = position(p), [witness(marks[:0], marks[:0])]
    readers = distinct(p.process[marks]).tolist()
    for process in readers:
        last = _last_polls(p, marks[p.process[marks] == process], process)
        base = int(at[last[0]]) if len(last) else NONE
        if base != NONE and _is_below(p, last, base):
            found.append(np.array([[base, int(last[-1])]]))
    lines = np.concatenate(found)
    clauses = clause(Clause.PROGRESS, p.process[lines[:, 0]])
    return [Found(len(readers), lines, clauses)]


def _last_polls(p: Partition, marks: Ints, process: int) -> Ints:
    """The high watermarks that a process was told after all that moved it, if they are several."""
    reads = p.given[(p.op[p.given] == Op.POLL) & (p.process[p.given] == process)]
    moves = p.where(*_MOVES)
    moves = moves[(p.process[moves] == process) & (moves < marks[-1])]
    since = max(int(reads.max(initial=NONE)), int(moves.max(initial=NONE)))
    if len(moves) and moves[-1] == since and p.op[since] in (Op.REVOKED, Op.LOST, Op.PAUSE):
        return marks[:0]
    call = np.cumsum(firsts(p.process, p.seq))
    last = marks[(marks > since) & ~np.isin(call[marks], call[reads])]
    return last if len(last) >= FEWEST else last[:0]


def _is_below(p: Partition, last: Ints, base: int) -> bool:
    """True if each of the last three polls was told of more than the position, and it is there."""
    start = int(p.offset[base]) + int(p.op[base] == Op.POLL)
    last = last[-FEWEST:]
    end = min(int(p.offset[last].min()), _stable(p, last))
    if end <= start or _followed(p, last, start):
        return False
    low, high = np.array([start]), np.array([end])
    return bool((visible_between(p, low, high, last[-1:], surely=True) > 0).all())


def _stable(p: Partition, last: Ints) -> int:
    """The lowest last stable offset that these polls report; who reads all does not wait for it."""
    everything = (p.isolation[last] == Isolation.READ_UNCOMMITTED).all()
    if everything or not (p.txn_state[p.sends] != Txn.NOT).any():
        return int(np.iinfo(np.int64).max)
    call = np.cumsum(firsts(p.process, p.seq))
    stable = p.where(Op.LAST_STABLE)
    stable = stable[np.isin(call[stable], call[last])]
    return int(p.offset[stable].min()) if len(stable) == len(last) else NONE


def _followed(p: Partition, last: Ints, start: int) -> bool:
    """True if another member of the group has read on."""
    mine = p.process == p.process[last[0]]
    groups = np.unique(p.group[mine & (p.group != NONE)])
    others = p.given[(p.offset[p.given] >= start) & ~mine[p.given]]
    return bool(np.isin(p.group[others], groups).any())
