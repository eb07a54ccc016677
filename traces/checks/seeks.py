"""Records that an application left out by its own seek or assignment, ahead of its position.

That is how applications get past a record that they cannot process: what lies between is not owed
to them. A seek back, to try again, leaves nothing out.
"""

import numpy as np

from traces.checks.partition import Partition
from traces.model.columns import Bools
from traces.model.context import Ints
from traces.model.schema import NONE, Op, Outcome

_SOUGHT = (Op.SEEK, Op.ASSIGN)
_MOVES = (*_SOUGHT, Op.ASSIGNED, Op.REVOKED, Op.LOST, Op.RESET)


def left_out(p: Partition, group: int, offsets: Ints, *, processes: bool) -> Bools:
    """Mask of the offsets that a member of the group went past by a seek.

    `processes` says that members tell what they processed, and not only what they were given.
    """
    found = np.zeros(len(offsets), bool)
    members = np.unique(p.process[p.group == group])
    moves = np.flatnonzero(p.called(*_MOVES) & p.ok)
    sought = np.isin(p.op[moves], _SOUGHT) & (p.offset[moves] != NONE)
    sought &= np.isin(p.process[moves], members)
    done = Op.PROCESS if processes else Op.POLL
    for at in np.flatnonzero(sought) if len(offsets) else ():
        seek, last = int(moves[int(at)]), int(moves[int(at) - 1]) if at else NONE
        own = last != NONE and bool(p.process[last] == p.process[seek])
        low = _stood_at(p, group, last if own else NONE, seek, done)
        found |= (offsets >= low) & (offsets < p.offset[seek])
    return found


def _stood_at(p: Partition, group: int, last: int, seek: int, done: Op) -> int:
    """The offset after the last that a process was done with, from its last move to its seek.

    If it was done with none, that is where the move had put it, or the first that it was given
    since; and if nobody knows that, the highest that its group had committed.
    """
    start = last + 1 if last != NONE else int(np.count_nonzero(p.process < p.process[seek]))
    mine = np.arange(start, seek)
    mine = mine[p.ok[mine] & (p.offset[mine] != NONE)]
    own = p.offset[mine[p.op[mine] == done]]
    if len(own):
        return int(own.max()) + 1
    if last != NONE and p.offset[last] != NONE and p.op[last] in (*_SOUGHT, Op.RESET):
        return int(p.offset[last])
    begun = p.offset[mine[np.isin(p.op[mine], (Op.POLL, Op.COMMITTED))]]
    if len(begun):
        return int(begun.min())
    commits = p.where(Op.COMMIT)
    commits = commits[(p.group[commits] == group) & (p.outcome[commits] == Outcome.OK)]
    return int(p.offset[commits[p.inv[commits] <= p.inv[seek]]].max(initial=0))
