"""Summaries of the pieces of a trace: small, and enough to go on without reading the rows.

Pieces are read apart. All statements about a whole run are put together from their summaries, so
everything here must add up, whichever way a file was cut.
"""

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
from attrs import define, field

from traces.ingest.clocks import Extremes
from traces.ingest.evidence import marks
from traces.ingest.lines import Piece
from traces.ingest.transactions import undecided
from traces.model.columns import IntColumns, calls
from traces.model.context import Ints
from traces.model.known_sizes import sizes
from traces.model.memberships import Moves, moves
from traces.model.schema import NONE, Isolation, Op, Outcome

Counts = dict[str, tuple[int, int]]
Absent = dict[str, list[int]]  # by need, the lines of the digest on which it is absent


# What a whole run is asked about is which combinations of these there are, how many rows each has,
# and when the last call of each was made and answered: a small table for each piece, with columns
# of the same names (and `rows`). Of each need it is told on which of its lines fields are absent.
DIGEST = (
    "process",
    "op",
    "outcome",
    "topic",
    "partition",
    "node",
    "topic_id",
    "group",
    "clock",
    "tid",
    "pid",
)
LAST = ("inv", "ret")  # of the calls of a line the latest times


def digest(columns: IntColumns) -> tuple[IntColumns, Ints]:
    """The combinations that these rows hold, and which of them each row is."""
    lines, which = distinct(*(columns[name] for name in DIGEST))
    values = {name: lines[:, n] for n, name in enumerate(DIGEST)}
    for name in LAST:
        values[name] = np.full(len(lines), NONE)
        np.maximum.at(values[name], which, columns[name])
    return values | {"rows": np.bincount(which, minlength=len(lines))}, which


@define
class Summary:
    """One piece: its place in the file, counts of its lines, and facts of its rows."""

    piece: Piece
    process: str
    lines: int = 0
    last: int = 0  # the last line that is not empty
    calls: int = 0
    first_line: int = 0
    first_seq: int = NONE  # the lowest, where lines are wrong
    last_seq: int = NONE
    gaps: int = 0
    gap_line: int = 0
    torn: str = ""
    ended: bool = False  # its last call is close or crash
    vague_end: bool = False
    problems: list[tuple[int, str, str]] = field(factory=list[tuple[int, str, str]])
    wrong: int = 0
    rows: int = 0
    txns: tuple[int, int] = (NONE, NONE)  # the lowest and the highest transaction
    open: list[int] = field(factory=list[int])  # transactions whose end is not here
    undecided: int = 0
    committed_reads: int = 0
    of_unknown_partition: int = 0
    digest: dict[str, list[int]] = field(factory=dict[str, list[int]])
    counts: Counts = field(factory=dict[str, tuple[int, int]])
    absent: Absent = field(factory=dict[str, list[int]])
    marks: list[str] = field(factory=list[str])
    moves: Moves = field(factory=dict[str, list[int]])
    sizes: Moves = field(factory=dict[str, list[int]])
    last_time: int = NONE  # of a call or its return
    clocks: Extremes = field(factory=dict[str, tuple[int, int]])
    names: dict[str, dict[str, int]] = field(factory=dict[str, dict[str, int]])

    def look_at(self, columns: IntColumns, ended: Ints) -> Ints:
        """Note what the rows say; `ended` are transactions whose end is among them.

        Answers which line of the digest each row is.
        """
        self.rows = len(columns["op"])
        txns = np.unique(columns["txn"])
        txns = txns[txns >= 0]
        if len(txns):
            self.txns = int(txns[0]), int(txns[-1])
            self.open = np.setdiff1d(txns, ended).tolist()
        self.undecided = len(undecided(columns))
        self.committed_reads = int(np.count_nonzero(committed_reads(columns)))
        self.of_unknown_partition = int(np.count_nonzero(of_unknown_partition(columns)))
        lines, which = digest(columns)
        self.digest = {name: column.tolist() for name, column in lines.items()}
        self.marks = marks(columns)
        self.moves, self.sizes = moves(columns), sizes(columns)
        self.last_time = max(int(columns[name].max(initial=NONE)) for name in ("inv", "ret"))
        return which

    def holds(self, unit: int) -> bool:
        """True if rows of this unit of the process may be here."""
        low, high = self.txns if unit < NONE else (self.first_seq, self.last_seq)
        return low <= (-2 - unit if unit < NONE else unit) <= high

    def as_json(self) -> dict[str, Any]:
        """For `from_json`."""
        return attrs.asdict(self)

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> "Summary":
        """Read a summary from the result of `as_json`."""
        problems = [(line, where, message) for line, where, message in json["problems"]]
        counts = {need: (lacking, total) for need, (lacking, total) in json["counts"].items()}
        clocks = {clock: (low, high) for clock, (low, high) in json["clocks"].items()}
        kept: dict[str, Any] = {"problems": problems, "counts": counts, "clocks": clocks}
        kept |= {"piece": Piece(**json["piece"]), "txns": tuple(json["txns"])}
        return cls(**{**json, **kept})


def committed_reads(columns: IntColumns) -> Any:
    """Rows that may show that a transaction was committed."""
    reads = calls(columns, Op.POLL, Op.SCAN) & (columns["outcome"] == Outcome.OK)
    return reads & (columns["isolation"] == Isolation.READ_COMMITTED)


def of_unknown_partition(columns: IntColumns) -> Any:
    """Sends whose partition the sender never learnt."""
    lost = (columns["op"] == Op.SEND) & (columns["topic"] >= 0)
    return lost & (columns["partition"] == NONE)


_SMALL = 1 << 22


def distinct(*columns: Ints) -> tuple[Ints, Ints]:
    """The different lines of these columns side by side, sorted, and which of them each row is."""
    values: list[Ints] = []
    key = np.zeros(len(columns[0]), np.int64)
    size = 1
    for column in columns:
        known, codes = _codes(column)
        if size * len(known) > _SMALL:
            used, key = np.unique(key, return_inverse=True)
            values, size = [of[used] for of in values], len(used)
        if len(known) == 1:
            values.append(np.repeat(known, size))
            continue
        values = [np.repeat(of, len(known)) for of in values]
        values.append(np.tile(known, size))
        size *= len(known)
        key = key * len(known) + codes
    there = np.zeros(size, bool)
    there[key] = True
    used = np.flatnonzero(there)
    ranks = np.cumsum(there) - 1
    return np.stack([of[used] for of in values], axis=1).reshape(-1, len(columns)), ranks[key]


def _codes(column: Ints) -> tuple[Ints, Ints]:
    """The values of a column, and which of them each row has."""
    if not len(column):
        return np.empty(0, np.int64), column.astype(np.int64)
    low, high = int(column.min()), int(column.max())
    if low == high:
        return np.array([low]), np.zeros(len(column), np.int64)
    if high - low >= _SMALL:
        return np.unique(column.astype(np.int64), return_inverse=True)
    above = column.astype(np.int64) - low
    there = np.zeros(high - low + 1, bool)
    there[above] = True
    return np.flatnonzero(there) + low, (np.cumsum(there) - 1)[above]
