"""Findings that are final although the trace still grows.

A prefix of a trace is a trace with evidence missing: the lines to come. A finding is final if no
line to come can refute it and none can bring the clause that permits it. That is so if two or three
certain events contradict each other, and the proof needs nothing else. It is not so for a finding
of *never* or *by nobody* (lost, made up, failed, not processed). Nor is it for one that depends on
all records between two others. Nor is it while the application may still report that it sent an id
twice. Such a check is pending until the trace has ended; so is every check that is not in this
table.
"""

from collections.abc import Callable, Mapping

import numpy as np
from attrs import frozen

from traces.checks.base import Check
from traces.checks.partition import Partition
from traces.checks.rows import Rows
from traces.model.columns import Bools
from traces.model.context import Ints
from traces.model.schema import NONE, Op

Sure = Callable[[Rows, Ints], Bools]


def always(p: Rows, found: Ints) -> Bools:
    """The rows of the witness say it all."""
    return np.ones(len(found), bool)


def both_acknowledged(p: Rows, found: Ints) -> Bools:
    """The offsets are those acknowledged to the senders; a read's offset may still change."""
    return np.all(p.ok[found] & (p.offset[found] != NONE), axis=1)


def one_process(p: Rows, found: Ints) -> Bools:
    """Mask of the findings in one process: its file would hold a move of its own in between."""
    return p.process[found[:, 0]] == p.process[found[:, 1]]


def nobody_put_back(p: Rows, found: Ints) -> Bools:
    """The second poll's process was not answered where to begin: no commit put the group there."""
    answered = p.process[p.where(Op.COMMITTED)]
    return ~np.isin(p.process[found[:, 1]], answered)


@frozen
class Early:
    """A check whose findings may be reported while the trace grows."""

    why: str
    #: Which row of a witness, by which of its columns, tells one finding from another.
    row: int
    named_by: tuple[str, ...]
    sure: Sure = always
    #: Whether the clause depends on who sent a record, which may not be known yet.
    senders: bool = False
    #: Whether it compares with the first or the last of many in time, so that one of another clock
    #: could take its place.
    times: bool = False


_CALL = ("process", "seq", "offset")

EARLY: Mapping[str, Early] = {
    "L1": Early("two records were seen at one offset", 0, ("offset",), senders=True),
    "L9": Early("both were acknowledged", 1, ("id",), both_acknowledged, senders=True),
    "L11": Early("two lines of one process", 1, _CALL),
    "L12": Early("two records of the scan", 1, ("offset",)),
    "L15": Early(
        "both were read, one after the other", 0, ("offset", "id"), senders=True, times=True
    ),
    "L20": Early("two lines of one process", 1, _CALL),
    "P1": Early("both were acknowledged to one process", 1, _CALL, both_acknowledged),
    "P3": Early("both were answered", 1, _CALL, times=True),
    "T3": Early("the transaction has ended", 0, _CALL, times=True),
    "T8": Early("both transactions have ended", 2, ("process", "txn"), times=True),
    "T10": Early("both transactions have ended", 1, ("group", "offset")),
    "C2": Early("successive lines of one process", 1, _CALL),
    "C4": Early("successive lines of one process", 1, _CALL),
    "G1": Early("both were assigned", 1, ("group", "generation", "process")),
    "G4": Early("the commit was answered", 1, _CALL, times=True),
    "G5": Early("both commits were answered", 1, _CALL, one_process),
    "G9": Early("both deliveries happened", 1, ("group", *_CALL), nobody_put_back),
}

#: What is missing as a matter of course before the end: no early finding rests on it.
TO_COME = frozenset(
    ("producers", "consumers", "producers.whole", "consumers.whole", "scan", "complete")
)


def final(check: Check, p: Rows, found: Ints, clause: Ints, strict: bool, strong: bool) -> Bools:
    """Mask of a check's findings that are violations whatever lines follow.

    `strong` says that all producers known so far wait for all replicas. Then a record with a known
    sender cannot turn out to have had a weaker promise.
    """
    early = EARLY[check.id]
    sure = early.sure(p, found)
    if strict:
        return sure
    if early.senders:
        sure = sure & strong & _sent(p, found)
    return sure & (clause == 0)


def _sent(p: Rows, found: Ints) -> Bools:
    """Mask of the witnesses whose records all have known senders."""
    assert isinstance(p, Partition)
    return np.all(np.isin(p.id[found], p.id[p.sends]), axis=1)
