"""Outcomes of transactions: by their own client's file, and by reads of committed records."""

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from traces.ingest.columns import narrow
from traces.model.columns import Bools, MutableColumns, calls, firsts
from traces.model.context import Ints
from traces.model.schema import NONE, Flag, Isolation, Op, Outcome, Txn

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


SENT = ("topic", "partition", "id", "process", "unit", "offset", "end_inv")
UNTOLD = -2  # the offset of a record that was acknowledged where nobody tells


def undecided(columns: Mapping[str, Ints]) -> Ints:
    """Sends whose transaction's commit nobody answered, a column for each name of `SENT`.

    The offset is the acknowledged one, or `UNTOLD`. A send that certainly failed shows nothing of
    its transaction.
    """
    mine = (columns["txn_state"] == Txn.UNKNOWN) & (columns["op"] == Op.SEND)
    mine &= (columns["id"] != NONE) & (columns["outcome"] != Outcome.FAIL)
    rows = np.flatnonzero(mine)
    if not len(rows):
        return np.empty((0, len(SENT)), np.int64)
    acked = np.where(columns["offset"] == NONE, UNTOLD, columns["offset"])
    offset = np.where(columns["outcome"] == Outcome.OK, acked, NONE)
    here = {**columns, "unit": unit_of(columns), "offset": offset}
    return np.stack([here[name][rows].astype(np.int64) for name in SENT], axis=1)


def shown(sends: Ints, columns: Mapping[str, Ints]) -> tuple[Ints, Ints]:
    """Indices of the undecided sends whose records readers of committed records were given.

    First those whose record was read at its acknowledged offset: they are committed. Then those
    that nobody acknowledged: another call may have sent the record that was read.
    """
    reads = calls(columns, Op.POLL, Op.SCAN) & (columns["outcome"] == Outcome.OK)
    reads &= columns["isolation"] == Isolation.READ_COMMITTED
    reads &= np.isin(columns["id"], sends[:, 2])
    names = ("topic", "id", "partition", "offset")
    stored = set(zip(*(columns[name][reads].tolist() for name in names), strict=True))
    seen = {(topic, id, at) for topic, id, partition, _ in stored for at in (partition, NONE)}
    sent = [tuple(one) for one in sends[:, [0, 2, 1, 5]].tolist()]
    there = [one in stored for one in sent]
    maybe = [
        one[3] == NONE and (*one[:2], partition) in seen
        for one, partition in zip(sent, sends[:, 1].tolist(), strict=True)
    ]
    return np.flatnonzero(there), np.flatnonzero(maybe)


def attempts(sends: Ints, columns: Mapping[str, Ints]) -> Ints:
    """Whatever may have stored the records of these sends: topic, id, process and unit."""
    rows = (columns["op"] == Op.SEND) & (columns["outcome"] != Outcome.FAIL)
    rows &= np.isin(columns["id"], sends[:, 2])
    here = {**columns, "unit": unit_of(columns)}
    names = ("topic", "id", "process", "unit")
    return np.stack([here[name][rows].astype(np.int64) for name in names], axis=1)


def alone(sends: Ints, others: Ints) -> Bools:
    """Mask of the sends whose record no other unit may have stored, of all `attempts`."""
    units = np.unique(others, axis=0)[:, :2].tolist()
    count = Counter((topic, id) for topic, id in units)
    return np.array([count[topic, id] == 1 for topic, id in sends[:, [0, 2]].tolist()], bool)


def prove(columns: MutableColumns, units: Iterable[int]) -> None:
    """A record seen as committed proves the whole transaction; the rows are of one process."""
    known = np.array(sorted(units), np.int64)
    if len(known):
        mine = (columns["txn_state"] == Txn.UNKNOWN) & np.isin(unit_of(columns), known)
        state = np.where(mine, int(Txn.PROVED), columns["txn_state"])
        columns["txn_state"] = narrow("txn_state", state)


def prove_transactions(columns: MutableColumns) -> MutableColumns:
    """Decide the commits of a history that nobody answered: any successful read is proof there."""
    sends = undecided(columns)
    reads = calls(columns, Op.POLL, Op.SCAN) & (columns["outcome"] == Outcome.OK)
    reads &= np.isin(columns["id"], sends[:, 2])
    seen = set(zip(*(columns[name][reads].tolist() for name in SENT[:3]), strict=True))
    hit = np.flatnonzero([tuple(record) in seen for record in sends[:, :3].tolist()])
    units = np.unique(sends[hit][:, 3:5], axis=0)
    for process, unit in units.tolist():
        mine = np.flatnonzero(columns["process"] == process)
        part = {name: columns[name][mine] for name in ("txn_state", "txn", "seq")}
        prove(part, [unit])
        columns["txn_state"][mine] = part["txn_state"]
    return columns
