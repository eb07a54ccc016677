"""Transactions whose rows lie in several pieces of their file.

A producer has one open transaction at a time, so there is about one for every cut. Nothing here
relies on that: whichever transactions have rows in several pieces are looked at.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from attrs import field, frozen

from traces.ingest.columns import narrow
from traces.ingest.summary import Summary
from traces.ingest.transactions import Ends, add_ends, rewrite_transactions, sends_and_reads
from traces.model.context import Ints
from traces.model.schema import NONE, Flag, Txn

Load = Callable[[Summary, Sequence[str]], dict[str, Ints]]
_COLUMNS = ("txn", "op", "outcome", "inv", "ret", "id")


@frozen
class CrossingPatch:
    """The changes to one piece's transactions that follow from other pieces."""

    ends: Ends = field(factory=dict[int, tuple[Txn, int, int]])
    mixed: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.ends or self.mixed)

    def apply(self, columns: dict[str, Ints]) -> None:
        """Write it on the rows."""
        rewrite_transactions(columns, self.ends)
        mixed = Flag.MIXED * np.isin(columns["txn"], self.mixed)
        columns["flags"] = narrow("flags", columns["flags"] | mixed)


def patches(
    pieces: Sequence[Summary], whole: bool, load: Load
) -> Iterator[tuple[Summary, CrossingPatch]]:
    """The patches for the pieces of a file whose transactions go on in other pieces.

    `whole` means that the file reports every end that was requested.
    """
    open_state = Txn.ABORTED if whole else Txn.UNKNOWN
    mine = [summary for summary in pieces if summary.txns[1] != NONE]
    shared = _shared(mine, load)
    ends, mixed = _ends(mine, shared, load)
    for summary in mine:
        low, high = summary.txns
        here = {int(txn) for txn in shared[(shared >= low) & (shared <= high)]}
        known = {txn: ends[txn] for txn in here if txn in ends}
        unended = {*here, *(summary.open if whole else ())} - set(known)
        patch = CrossingPatch(
            known | dict.fromkeys(unended, (open_state, NONE, NONE)),
            tuple(sorted(here & mixed)),
        )
        if patch:
            yield summary, patch


def _shared(pieces: Sequence[Summary], load: Load) -> Ints:
    """Transactions that have rows in more than one piece."""
    ranges = np.array([summary.txns for summary in pieces], np.int64).reshape(-1, 2)
    found: list[Ints] = []
    for n, summary in enumerate(pieces):
        others = np.delete(ranges, n, axis=0)
        low, high = summary.txns
        meets = others[(others[:, 0] <= high) & (others[:, 1] >= low)]
        if len(meets):
            txns = np.unique(load(summary, ("txn",))["txn"]).astype(np.int64)
            reach = [(txns >= low) & (txns <= high) for low, high in meets]
            found.append(txns[(txns >= 0) & np.any(reach, axis=0)])
    txns, counts = np.unique(np.concatenate(found or [np.empty(0, np.int64)]), return_counts=True)
    return txns[counts > 1]


def _ends(pieces: Sequence[Summary], shared: Ints, load: Load) -> tuple[Ends, set[int]]:
    """The outcomes of the shared transactions, and those that both send and read."""
    ends: Ends = {}
    sent, read = set[int](), set[int]()
    for summary in pieces:
        low, high = summary.txns
        if not np.any((shared >= low) & (shared <= high)):
            continue
        columns: Mapping[str, Ints] = load(summary, _COLUMNS)
        add_ends(ends, columns, shared)
        sends, reads = sends_and_reads(columns)
        sent |= set(np.intersect1d(columns["txn"][sends], shared).tolist())
        read |= set(np.intersect1d(columns["txn"][reads], shared).tolist())
    return ends, sent & read
