"""Summarise a piece of the table: each row is read once, in place."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from attrs import frozen

from traces.engines.precheck import order, sides
from traces.engines.precheck.piece import PieceRows, pieces_of
from traces.engines.precheck.producers import add_groups, add_producers
from traces.engines.precheck.sides import Sends, Unsure
from traces.engines.precheck.summary import NOWHERE, ORDER, SummaryBuilder, SummaryKind
from traces.model.columns import Bools, Column, Columns
from traces.model.context import Ints
from traces.model.schema import NONE, Flag, Isolation, Op, Outcome, Txn
from traces.model.table import constant

# What is counted, to say how much was looked at.
SENDS, SURE, ANSWERED, ACKED, WHOLE, ABORTED, MIXED = range(7)
READS, COMMITTED_READS, POLLS, IN_TXN, MIXED_POLLS = range(7, 12)
KINDS_OF_COUNTS = 12
# Why a partition is to be judged exactly, whatever the sums say.
READ_FAILED, NO_OFFSET, MIXES, PAUSED, DUMPED = range(5)
SHARED = 5  # only if somebody commits there as well

SEND_COLUMNS = (
    *("run", "topic", "partition", "process", "seq", "idx", "op", "outcome", "offset", "id"),
    *("inv", "ret", "txn_state", "tid", "pid", "pepoch", "flags"),
)
READ_COLUMNS = (
    *("run", "topic", "partition", "process", "seq", "idx", "op", "outcome", "offset", "id"),
    *("inv", "ret", "group", "generation", "isolation", "epoch", "txn_state", "flags"),
)


@frozen
class Summariser:
    """Folds pieces of a table; `unsure` is not known yet while sends are looked at."""

    seed: int
    unsure: Unsure | None = None

    def __call__(self, columns: Iterable[Columns]) -> Iterator[Any]:
        """One record batch of summaries for each piece."""
        for some in columns:
            for piece in pieces_of(some) if len(some["op"]) else ():
                summary = SummaryBuilder(piece.run)
                process, *ends = piece.spans()
                keys = (process, int(self.unsure is not None))
                summary.add(SummaryKind.SPAN, (ORDER, NOWHERE), keys, *ends)
                if self.unsure is None:
                    self._sends(summary, piece)
                else:
                    self._reads(summary, piece, self.unsure)
                if summary.parts:
                    yield summary.batch()

    def _sends(self, summary: SummaryBuilder, piece: PieceRows) -> None:
        add_producers(summary, piece)
        sends = sides.sends_of(piece)
        if not len(sends.rows):
            return
        for side, kept in ((sides.KEPT, sends.kept), (sides.UNDONE, ~sends.kept)):
            self._side(summary, piece, sends.rows[sends.acked & kept], side)
        order.add_sends(summary, piece, sends)
        _unsure(summary, piece, sends)
        _count_sends(summary, piece, sends)

    def _side(
        self,
        summary: SummaryBuilder,
        piece: PieceRows,
        rows: Ints,
        side: int,
        who: Column | None = None,
    ) -> None:
        if not len(rows):
            return
        groups = (piece.topic_partition[rows], constant(NONE, len(rows)) if who is None else who)
        offsets, ids = piece.take("offset", rows), piece.take("id", rows)
        (topic_partition, who), window, *values = sides.sums(groups, offsets, ids, self.seed)
        summary.add(SummaryKind.WINDOW, piece.where(topic_partition), (window, side, who), *values)

    def _reads(self, summary: SummaryBuilder, piece: PieceRows, unsure: Unsure) -> None:
        add_groups(summary, piece)
        order.add_reads(summary, piece)
        polls, scans = piece.called(Op.POLL), piece.called(Op.SCAN)
        reads = (polls | scans) & piece.record & (piece["offset"] >= 0)
        done = piece.called(Op.PROCESS) & piece.record & (piece["group"] != NONE)
        for side, rows in (
            (sides.FINAL, reads & scans),
            (sides.GIVEN, reads & polls),
            (sides.DONE, done),
        ):
            mine = np.flatnonzero(rows & piece.ok)
            if len(mine):
                self._read_side(summary, piece, mine, side, unsure)
        _doubts(summary, piece, polls, reads)
        _count_reads(summary, piece, polls, reads)

    def _read_side(
        self, summary: SummaryBuilder, piece: PieceRows, rows: Ints, side: int, unsure: Unsure
    ) -> None:
        if side == sides.DONE:
            who = 2 * piece.take("group", rows).astype(np.int64)
        else:
            who = sides.who_of(piece, rows, side == sides.FINAL)
        open_ = unsure.among(summary.run, piece.take("id", rows))
        some = rows[open_]
        summary.add(
            SummaryKind.SEEN,
            piece.where(piece.topic_partition[some]),
            (piece["id"][some], who[open_], side),
            piece["offset"][some],
        )
        if len(some):
            rows, who = rows[~open_], who[~open_]
        self._side(summary, piece, rows, side, who)


def _unsure(summary: SummaryBuilder, piece: PieceRows, sends: Sends) -> None:
    rows = sends.rows[sends.unsure]
    must = sides.must_be_there(piece.columns, rows)
    undone = ~sends.kept[sends.unsure]
    summary.add(
        SummaryKind.UNSURE,
        piece.where(piece.topic_partition[rows]),
        (piece["id"][rows], piece["process"][rows], piece["seq"][rows]),
        *(piece["idx"][rows], must, undone),
    )


def _doubts(summary: SummaryBuilder, piece: PieceRows, polls: Bools, reads: Bools) -> None:
    for reason, rows in (
        (READ_FAILED, reads & ~piece.ok),
        (NO_OFFSET, piece.called(Op.PROCESS) & (piece["offset"] < 0)),
        (MIXES, polls & ((piece["flags"] & Flag.MIXED) != 0)),
        (PAUSED, piece.called(Op.PAUSE)),
        (DUMPED, piece.called(Op.DUMP, Op.MARKER)),
        (SHARED, piece.called(Op.ACQUIRE, Op.ACKNOWLEDGE)),
    ):
        _per_partition(
            summary, SummaryKind.DOUBT, piece, np.flatnonzero(rows & piece.in_partition), reason
        )


def _per_partition(
    summary: SummaryBuilder, kind: SummaryKind, piece: PieceRows, rows: Ints, what: int
) -> None:
    """Count the rows in each partition."""
    count = np.bincount(piece.topic_partition[rows], minlength=len(piece.topic))
    there = np.flatnonzero(count)
    summary.add(kind, piece.where(there), (what,), count[there])


def _count_sends(summary: SummaryBuilder, piece: PieceRows, sends: Sends) -> None:
    rows = sends.rows
    state, outcome, flags = (piece.take(name, rows) for name in ("txn_state", "outcome", "flags"))
    whole = ((state == Txn.COMMITTED) | (state == Txn.PROVED)) & (outcome != Outcome.FAIL)
    in_partition, ok = (flags & Flag.UNKNOWN_PARTITION) == 0, outcome == Outcome.OK
    aborted = state == Txn.ABORTED
    if aborted.any():  # of a record that was sent again, and kept, nobody knows which send is read
        ids = piece.take("id", rows)
        aborted[aborted] = ~np.isin(ids[aborted], ids[~aborted])
    for what, mine in (
        (SURE, (ok | (state == Txn.PROVED)) & sends.kept),
        (ANSWERED, ok & sends.kept & in_partition),
        (ACKED, sends.acked),
        (WHOLE, whole & in_partition),
        (ABORTED, aborted),
        (MIXED, (flags & Flag.MIXED) != 0),
    ):
        _per_partition(summary, SummaryKind.COUNT, piece, rows[mine], what)
    _per_partition(summary, SummaryKind.COUNT, piece, rows, SENDS)


def _count_reads(summary: SummaryBuilder, piece: PieceRows, polls: Bools, reads: Bools) -> None:
    polls = polls & reads
    grouped = polls & (piece["group"] != NONE)
    in_txn = grouped & np.isin(piece["txn_state"], (Txn.COMMITTED, Txn.PROVED))
    for what, mine in (
        (READS, reads),
        (COMMITTED_READS, reads & (piece["isolation"] == Isolation.READ_COMMITTED)),
        (POLLS, grouped),
        (IN_TXN, in_txn),
        (MIXED_POLLS, polls & ((piece["flags"] & Flag.MIXED) != 0)),
    ):
        _per_partition(summary, SummaryKind.COUNT, piece, np.flatnonzero(mine), what)
