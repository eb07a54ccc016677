"""What became of transactions: by their own client's file, and by what readers saw of them."""

from collections.abc import Iterable, Mapping

import numpy as np

from traces.columns import MutableColumns, calls, firsts
from traces.context import Ints
from traces.ingest.columns import narrow
from traces.schema import NONE, Flag, Isolation, Op, Outcome, Txn

Ends = dict[int, tuple[Txn, int, int]]  # state, when its end was asked for, when answered
ENDS = (Op.TXN_COMMIT, Op.TXN_ABORT)


def end(ends: Ends, txn: int, op: Op, outcome: Outcome, asked: int, answered: int) -> None:
    """Take a call that ends a transaction to heart, in program order.

    A commit may be asked for again. One that nobody answered may have been carried out, whatever
    fails after it; and its records may be read as soon as it was asked for the first time.
    """
    known, first, _ = ends.get(txn, (Txn.ABORTED, asked, NONE))
    if outcome is Outcome.OK and known is not Txn.COMMITTED:
        known = Txn.COMMITTED if op is Op.TXN_COMMIT else Txn.ABORTED
    elif op is Op.TXN_COMMIT and outcome is Outcome.INFO and known is not Txn.COMMITTED:
        known = Txn.UNKNOWN
    ends[txn] = known, first, answered


def add_ends(ends: Ends, columns: Mapping[str, Ints], only: Ints) -> None:
    """As `end`, for the calls among these rows that end one of `only` these transactions."""
    rows = np.flatnonzero(calls(columns, *ENDS) & np.isin(columns["txn"], only))
    values = (columns[name][rows].tolist() for name in ("txn", "op", "outcome", "inv", "ret"))
    for txn, op, outcome, asked, answered in zip(*values, strict=True):
        end(ends, txn, Op(op), Outcome(outcome), asked, answered)


def write_transactions(columns: MutableColumns, ends: Ends, open_state: Txn) -> None:
    """Write on each row what became of its transaction: the file that began it also ended it."""
    txn = columns["txn"]
    inside = txn >= 0
    # A client that has a transactional id and does not say which transaction: nobody knows.
    vague = ~inside & (columns["tid"] >= 0)
    state = np.where(inside, int(open_state), np.where(vague, int(Txn.UNKNOWN), 0))
    columns["txn_state"] = narrow("txn_state", state)
    columns["end_inv"] = np.full(len(txn), NONE)
    rewrite_transactions(columns, ends)


def rewrite_transactions(columns: MutableColumns, ends: Ends) -> None:
    """Write on the rows of these transactions what became of them."""
    if not ends:
        return
    txn = columns["txn"]
    known = np.array(sorted(ends), dtype=np.int64)
    states = np.array([int(ends[n][0]) for n in known], dtype=np.int8)
    times = np.array([ends[n][1] for n in known], dtype=np.int64)
    at = np.minimum(np.searchsorted(known, txn), len(known) - 1)
    hit = (txn >= 0) & (known[at] == txn)
    columns["txn_state"] = np.where(hit, states[at], columns["txn_state"])
    columns["end_inv"] = np.where(hit, times[at], columns["end_inv"])
    answers = np.array([ends[n][2] for n in known], dtype=np.int64)
    sent = hit & (columns["op"] == Op.TXN_OFFSETS)
    columns["timestamp"] = np.where(sent, answers[at], columns["timestamp"])


def unit_of(columns: Mapping[str, Ints]) -> Ints:
    """The transaction that a row belongs to, or its call where there is none; per process."""
    return np.where(columns["txn"] >= 0, -2 - columns["txn"], columns["seq"])


def sends_and_reads(columns: Mapping[str, Ints]) -> tuple[Ints, Ints]:
    """The rows that make a unit mixed, if it has both."""
    reads = (columns["op"] == Op.POLL) & (columns["id"] != NONE)
    return np.flatnonzero(columns["op"] == Op.SEND), np.flatnonzero(reads)


def mark_mixed(columns: MutableColumns) -> MutableColumns:
    """Flag the units (transactions) that both send and read: only they can be in a cycle."""
    sends, reads = sends_and_reads(columns)
    mixed = np.zeros(len(columns["op"]), bool)
    if len(sends) and len(reads):
        unit = unit_of(columns)
        order = np.lexsort((unit, columns["process"]))
        groups = np.empty(len(unit), np.int64)
        groups[order] = np.cumsum(firsts(columns["process"][order], unit[order]))
        mixed = np.isin(groups, np.intersect1d(groups[sends], groups[reads]))
    flags = np.maximum(columns["flags"], 0)
    columns["flags"] = narrow("flags", np.where(mixed, flags | Flag.MIXED, flags))
    return columns


def undecided(columns: Mapping[str, Ints]) -> Ints:
    """Records whose transaction's commit nobody answered: topic, partition, id, process, unit."""
    mine = (columns["txn_state"] == Txn.UNKNOWN) & (columns["op"] == Op.SEND)
    rows = np.flatnonzero(mine & (columns["id"] != NONE))
    names = ("topic", "partition", "id", "process", "unit")
    if not len(rows):
        return np.empty((0, len(names)), np.int64)
    here = {**columns, "unit": unit_of(columns)}
    return np.stack([here[name][rows].astype(np.int64) for name in names], axis=1)


def proved(sends: Ints, columns: Mapping[str, Ints], delivered: bool = False) -> Ints:
    """Which of these undecided records these rows show as committed.

    With `delivered` any successful read is proof, as in histories that do not tell isolation.
    """
    reads = calls(columns, Op.POLL, Op.SCAN) & (columns["outcome"] == Outcome.OK)
    if not delivered:
        reads &= columns["isolation"] == Isolation.READ_COMMITTED
    reads &= np.isin(columns["id"], sends[:, 2])
    keys = ("topic", "partition", "id") if delivered else ("topic", "id")
    seen = set(zip(*(columns[k][reads].tolist() for k in keys), strict=True))
    owners = sends[:, [0, 1, 2] if delivered else [0, 2]].tolist()
    return np.flatnonzero([tuple(owner) in seen for owner in owners])


def prove(columns: MutableColumns, units: Iterable[int]) -> None:
    """A record seen as committed proves the whole transaction; the rows are of one process."""
    known = np.array(sorted(units), np.int64)
    if len(known):
        mine = (columns["txn_state"] == Txn.UNKNOWN) & np.isin(unit_of(columns), known)
        state = np.where(mine, int(Txn.PROVED), columns["txn_state"])
        columns["txn_state"] = narrow("txn_state", state)


def prove_transactions(columns: MutableColumns, delivered: bool = False) -> MutableColumns:
    """Decide commits that nobody answered, with all rows of all processes at hand."""
    sends = undecided(columns)
    units = np.unique(sends[proved(sends, columns, delivered)][:, 3:], axis=0)
    for process, unit in units.tolist():
        mine = np.flatnonzero(columns["process"] == process)
        part = {name: columns[name][mine] for name in ("txn_state", "txn", "seq")}
        prove(part, [unit])
        columns["txn_state"][mine] = part["txn_state"]
    return columns
