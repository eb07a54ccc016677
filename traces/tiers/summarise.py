"""A piece of the table in, its summaries out: each row is looked at once, where it lies."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from attrs import frozen

from traces.checks.base import Bools
from traces.context import Context, Ints
from traces.schema import NONE, Flag, Op, Outcome, Txn
from traces.scopes import Columns, calls
from traces.table import is_constant
from traces.tiers import order, sides
from traces.tiers.producers import add_groups, add_producers
from traces.tiers.sides import Sends, Unsure
from traces.tiers.summary import Kind, Summary

# What is counted, to say how much was looked at.
SENDS, SURE, TOLD, ACKED, WHOLE, ABORTED, MIXED = range(7)
READS, COMMITTED_READS, POLLS, IN_TXN, MIXED_POLLS = range(7, 12)
KINDS_OF_COUNTS = 12
# Why a partition is to be judged exactly, whatever the sums say.
READ_FAILED, NO_PLACE, MIXES, BOTH_WAYS = range(4)

SEND_COLUMNS = (
    *("run", "topic", "partition", "process", "seq", "idx", "op", "outcome", "offset", "id"),
    *("inv", "ret", "txn_state", "tid", "pid", "pepoch", "flags"),
)
READ_COLUMNS = (
    *("run", "topic", "partition", "process", "seq", "idx", "op", "outcome", "offset", "id"),
    *("inv", "ret", "group", "generation", "isolation", "epoch", "txn", "txn_state", "flags"),
)


@frozen
class Summariser:
    """Folds pieces of a table; `unsure` is not known yet while sends are looked at."""

    contexts: Mapping[int, Context]
    seed: int
    unsure: Unsure | None = None

    def __call__(self, pieces: Iterable[Columns]) -> Iterator[Any]:
        """One record batch of summaries for each piece."""
        for piece in pieces:
            if not len(piece["op"]):
                continue
            for run, columns in _runs(piece):
                summary = Summary(run)
                if self.unsure is None:
                    self._sends(summary, columns)
                else:
                    self._reads(summary, columns, self.unsure)
                if summary.parts:
                    yield summary.batch()

    def _sends(self, summary: Summary, columns: Columns) -> None:
        add_producers(summary, columns)
        sends = sides.sends_of(columns)
        if not len(sends.rows):
            return
        self._acked(summary, columns, sends)
        order.add_sends(summary, columns, sends)
        _unsure(summary, columns, sends)
        _count_sends(summary, columns, sends)

    def _acked(self, summary: Summary, columns: Columns, sends: Sends) -> None:
        for side, kept in ((sides.KEPT, sends.kept), (sides.UNDONE, ~sends.kept)):
            self._side(summary, columns, sends.rows[sends.acked & kept], side, NONE)

    def _side(self, summary: Summary, columns: Columns, rows: Ints, side: int, who: Any) -> None:
        if not len(rows):
            return
        whose = np.broadcast_to(np.asarray(who, np.int64), len(rows))
        groups = (columns["topic"][rows], columns["partition"][rows], whose)
        found = sides.sums(groups, columns["offset"][rows], columns["id"][rows], self.seed)
        (topic, partition, who), block, *values = found
        summary.add(Kind.BLOCK, (topic, partition), (block, side, who), *values)

    def _reads(self, summary: Summary, columns: Columns, unsure: Unsure) -> None:
        columns = _without_sends(columns)
        if not len(columns["op"]):
            return
        add_groups(summary, columns)
        order.add_reads(summary, columns)
        placed = columns["partition"] != NONE
        record = placed & (columns["id"] != NONE)
        reads = calls(columns, Op.POLL, Op.SCAN) & record & (columns["offset"] >= 0)
        ok = columns["outcome"] == Outcome.OK
        for side, rows in (
            (sides.FINAL, reads & ok & calls(columns, Op.SCAN)),
            (sides.GIVEN, reads & ok & calls(columns, Op.POLL)),
            (sides.DONE, calls(columns, Op.PROCESS) & record & ok & (columns["group"] != NONE)),
        ):
            self._read_side(summary, columns, np.flatnonzero(rows), side, unsure)
        _doubts(summary, columns, reads, ok)
        _count_reads(summary, columns, reads)

    def _read_side(
        self, summary: Summary, columns: Columns, rows: Ints, side: int, unsure: Unsure
    ) -> None:
        if not len(rows):
            return
        mine = {n: columns[n][rows] for n in ("isolation", "group", "process", "op")}
        who = 2 * mine["group"] if side == sides.DONE else sides.who_of(mine)
        open_ = unsure.among(summary.run, columns["id"][rows])
        some = rows[open_]
        summary.add(
            Kind.SEEN,
            (columns["topic"][some], columns["partition"][some]),
            (columns["id"][some], who[open_], side),
            columns["offset"][some],
        )
        self._side(summary, columns, rows[~open_], side, who[~open_])


def _runs(piece: Columns) -> Iterator[tuple[int, Columns]]:
    run = piece["run"]
    if is_constant(run) or bool(np.all(run == run[0])):
        yield int(run[0]), piece
        return
    for one in np.unique(run).tolist():
        rows = np.flatnonzero(run == one)
        yield one, {name: column[rows] for name, column in piece.items()}


def _without_sends(columns: Columns) -> Columns:
    sends = calls(columns, Op.SEND)
    if not sends.any():
        return columns
    rows = np.flatnonzero(~sends)
    return {name: column[rows] for name, column in columns.items()}


def _unsure(summary: Summary, columns: Columns, sends: Sends) -> None:
    rows = sends.rows[sends.unsure]
    must = sides.must_be_there(columns, rows)
    aborted = columns["txn_state"][rows] == Txn.ABORTED
    summary.add(
        Kind.UNSURE,
        (columns["topic"][rows], columns["partition"][rows]),
        (columns["id"][rows], columns["process"][rows], columns["seq"][rows]),
        *(columns["idx"][rows], must, aborted),
    )


def _doubts(summary: Summary, columns: Columns, reads: Bools, ok: Bools) -> None:
    for reason, rows in (
        (READ_FAILED, reads & ~ok),
        (NO_PLACE, calls(columns, Op.PROCESS) & (columns["offset"] < 0)),
        (MIXES, calls(columns, Op.POLL) & ((columns["flags"] & Flag.MIXED) != 0)),
    ):
        places = np.flatnonzero(rows & (columns["partition"] != NONE))
        _per_place(summary, Kind.DOUBT, columns, places, reason)


def _per_place(summary: Summary, kind: Kind, columns: Columns, rows: Ints, what: int) -> None:
    """How many rows there are in each partition."""
    if not len(rows):
        return
    topic, partition = columns["topic"][rows], columns["partition"][rows]
    number, first = sides.numbered(topic, partition)
    count = np.bincount(number, minlength=len(first))
    summary.add(kind, (topic[first], partition[first]), (what,), count)


def _count_sends(summary: Summary, columns: Columns, sends: Sends) -> None:
    rows = sends.rows
    state, outcome = columns["txn_state"][rows], columns["outcome"][rows]
    flags = columns["flags"][rows]
    whole = ((state == Txn.COMMITTED) | (state == Txn.PROVED)) & (outcome != Outcome.FAIL)
    placed = (flags & Flag.UNPLACED) == 0
    done = (outcome == Outcome.OK) | (state == Txn.PROVED)
    for what, mine in (
        (SENDS, np.ones(len(rows), bool)),
        (SURE, done & sends.kept),
        (TOLD, (outcome == Outcome.OK) & sends.kept & placed),
        (ACKED, sends.acked),
        (WHOLE, whole & placed),
        (ABORTED, state == Txn.ABORTED),
        (MIXED, (flags & Flag.MIXED) != 0),
    ):
        _per_place(summary, Kind.COUNT, columns, rows[mine], what)


def _count_reads(summary: Summary, columns: Columns, reads: Bools) -> None:
    polls = reads & calls(columns, Op.POLL)
    committed = reads & (columns["isolation"] == 1)
    in_txn = polls & (columns["txn"] >= 0) & (columns["group"] != NONE)
    for what, mine in (
        (READS, reads),
        (COMMITTED_READS, committed),
        (POLLS, polls & (columns["group"] != NONE)),
        (IN_TXN, in_txn),
        (MIXED_POLLS, polls & ((columns["flags"] & Flag.MIXED) != 0)),
    ):
        _per_place(summary, Kind.COUNT, columns, np.flatnonzero(mine), what)
