"""Anomalies about owners and commits of a group."""

import numpy as np

from traces.generate.anomalies.registry import in_rows
from traces.generate.anomalies.slot import Slot
from traces.generate.plan import MEMBERS, PRODUCERS, owners
from traces.model.schema import NONE, Op


@in_rows("G1")
def two_owners(s: Slot) -> bool:
    """Another member of the group is assigned the partition in the same generation."""
    owner = int(s.chunk.owner[s.tp]) - PRODUCERS
    other = owner // MEMBERS * MEMBERS + (owner + 2) % MEMBERS
    inv = int(s.chunk.at(0, 1))
    s.member_row(Op.ASSIGNED, inv, process=PRODUCERS + other, member=other)
    return True


@in_rows("G4", first=1)
def unfenced(s: Slot) -> bool:
    """A former owner's commit is taken although the group has moved on."""
    if s.chunk.carried.committed[s.tp] == NONE:
        return False
    owner = int(owners(s.chunk.number - 1)[s.tp])
    s.member_row(
        Op.COMMIT,
        int(s.chunk.at(s.chunk.plan.windows // 2, 13)),
        process=owner,
        member=owner - PRODUCERS,
        generation=s.chunk.number - 1,
        offset=int(s.chunk.carried.committed[s.tp]),
    )
    return True


@in_rows("G5", stage="ready")
def committed_back(s: Slot) -> bool:
    """A commit is below the one before."""
    offset = s.chunk.commits["offset"]
    mine = np.flatnonzero(s.chunk.commits["tp"] == s.tp)
    if len(mine) < 3 or offset[mine[0]] < 2:
        return False
    offset[mine[1]] = offset[mine[0]] - 1
    s.witness["offset"] = int(offset[mine[1]])
    return True


@in_rows("G6", stage="ready")
def committed_beyond(s: Slot) -> bool:
    """A commit covers records that are delivered only later."""
    offset = s.chunk.commits["offset"]
    mine = np.flatnonzero(s.chunk.commits["tp"] == s.tp)
    far = np.flatnonzero(offset[mine[1:]] > offset[mine[:-1]] + 1)
    if not len(far):
        return False
    at = int(s.chunk.random.choice(far))
    offset[mine[at]] = offset[mine[at + 1]]
    s.witness["offset"] = int(offset[mine[at]])
    return True
