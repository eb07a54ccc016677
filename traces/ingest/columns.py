"""Collects calls and their records, and makes columns of them.

A file is read call by call, because that is what it holds; but the columns are made in one go,
by Arrow and numpy. Call fields are kept once per call and repeated at the end.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import NoneType
from typing import Any

import numpy as np
from attrs import define, field
from numpy.typing import NDArray

from traces.arrow import ArrowException, pa
from traces.names import Names, key_number
from traces.schema import COLUMNS, NONE, OPS, Detail, Flag, Op, Txn

Ints = NDArray[np.int64]

CALL_FIELDS = (
    "process",
    "seq",
    "op",
    "outcome",
    "inv",
    "ret",
    "clock",
    "group",
    "member",
    "generation",
    "txn",
    "isolation",
    "tid",
    "pid",
    "pepoch",
    "flags",
    "node",
    "instance",
    "detail",
)
NATURAL = frozenset(("seq", "inv", "ret", "txn", "partition", "offset"))
RECORD_FIELDS = ("partition", "offset", "id", "key", "timestamp", "epoch", "sequence", "hash")
# Fields of a record that few records have: kept apart, by the number of the row.
RARE_FIELDS = frozenset(("tombstone", "delivery_count", "ack", "topic_id"))


@define
class Malformed(Exception):
    """A column holds something that is not what the format says; the line is not known here."""

    field: str


def _lists(names: Iterable[str]) -> dict[str, list[Any]]:
    return {name: [] for name in names}


@define
class Rows:
    """Rows in the order of the calls; the rows of one call stand together."""

    names: Names
    calls: dict[str, list[Any]] = field(factory=lambda: _lists((*CALL_FIELDS, "rows")))
    records: dict[str, list[Any]] = field(factory=lambda: _lists(("topic", *RECORD_FIELDS)))
    rare: list[tuple[int, Mapping[str, Any]]] = field(factory=list[tuple[int, Mapping[str, Any]]])

    def call(self, rows: int, fields: Mapping[str, int | None]) -> None:
        """A call, or the part of it that shares one `op`, whose `rows` records follow."""
        calls = self.calls
        for name in CALL_FIELDS:
            calls[name].append(fields.get(name))
        calls["rows"].append(rows)

    def sent(self, record: Mapping[str, Any]) -> None:
        """One record, or one partition with what is known about it there."""
        records, get = self.records, record.get
        if not RARE_FIELDS.isdisjoint(record):
            self.rare.append((len(records["topic"]), record))
        records["topic"].append(record["topic"])
        for name in RECORD_FIELDS:
            records[name].append(get(name))

    def record_list(self, several: list[Any]) -> None:
        """The records of one call, in their order."""
        if len(several) == 1:
            return self.sent(several[0])
        records, first = self.records, len(self.records["topic"])
        self.rare += [
            (row, record)
            for row, record in enumerate(several, first)
            if not RARE_FIELDS.isdisjoint(record)
        ]
        records["topic"] += [record["topic"] for record in several]
        for name in RECORD_FIELDS:
            records[name] += [record.get(name) for record in several]
        return None

    def columns(self) -> dict[str, Ints]:
        """The rows as columns, all but what only the whole file can tell."""
        calls = {name: _ints(name, self.calls[name]) for name in CALL_FIELDS}
        counts = _ints("rows", self.calls["rows"])
        columns = {name: np.repeat(calls[name], counts) for name in CALL_FIELDS}
        for name in ("partition", "offset", "timestamp", "epoch", "sequence", "hash"):
            columns[name] = _ints(name, self.records[name])
        columns["id"] = _ids(self.names, self.records["id"])
        columns["topic"] = _numbered("topic", self.records["topic"], self.names.topics.number)
        columns["key"] = _numbered("key", self.records["key"], key_number)
        columns["idx"] = _positions(columns["seq"])
        columns["topic_id"] = np.full(len(columns["seq"]), NONE)
        self._rare_columns(columns)
        return columns

    def _rare_columns(self, columns: dict[str, Ints]) -> None:
        for row, record in self.rare:
            if record.get("tombstone") is True:
                columns["flags"][row] |= Flag.TOMBSTONE
            if (count := record.get("delivery_count")) is not None:
                columns["detail"][row] = count
            if (ack := record.get("ack")) is not None:
                columns["detail"][row] = Detail.ACKS[ack]
            if (topic_id := record.get("topic_id")) is not None:
                columns["topic_id"][row] = self.names.topic_ids.number(topic_id)


def joined(chunks: Sequence[Mapping[str, Ints]]) -> dict[str, Ints]:
    """Chunks of one file as one."""
    return {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}


def table(columns: Mapping[str, Ints]) -> Any:
    """An `ops` table of numpy columns."""
    arrays = [pa.array(columns[n].astype(t.to_pandas_dtype())) for n, t in COLUMNS.items()]
    return pa.Table.from_arrays(arrays, schema=OPS)


def _ints(name: str, values: list[Any]) -> Ints:
    if not {type(value) for value in values} <= {int, NoneType}:
        raise Malformed(name)
    try:
        filled = pa.array(values, pa.int64()).fill_null(NONE)
    except (OverflowError, ArrowException) as error:
        raise Malformed(name) from error
    numbers = filled.to_numpy()
    if name in NATURAL and np.count_nonzero(numbers < 0) != values.count(None):
        raise Malformed(name)
    return numbers


def _ids(names: Names, values: list[Any]) -> Ints:
    kinds: set[Any] = {type(value) for value in values}
    if not kinds <= {int, str, NoneType}:
        raise Malformed("id")
    if kinds <= {int, NoneType}:
        plain = _ints("id", values)
        negative = plain < 0
        if not negative.any() or all(values[i] is None for i in np.flatnonzero(negative)):
            return plain
    return np.fromiter((names.id(value) for value in values), np.int64, len(values))


def _numbered(name: str, values: list[Any], number: Callable[[str], int]) -> Ints:
    if not {type(value) for value in values} <= {str, NoneType}:
        raise Malformed(name)
    encoded = pa.array(values, pa.string()).dictionary_encode()
    numbers = [number(text) for text in encoded.dictionary.to_pylist()]
    codes: Ints = encoded.indices.fill_null(len(numbers)).to_numpy().astype(np.int64)
    return np.array([*numbers, NONE], dtype=np.int64)[codes]


def _positions(seq: Ints) -> Ints:
    """0, 1, 2, … inside each call; the rows of a call stand together."""
    if not len(seq):
        return seq
    first = np.r_[True, seq[1:] != seq[:-1]]
    starts = np.flatnonzero(first)
    return np.arange(len(seq)) - starts[np.cumsum(first) - 1]


def write_transactions(
    columns: dict[str, Ints], ends: Mapping[int, tuple[Txn, int, int]], open_state: Txn
) -> None:
    """Write on each row what became of its transaction: the file that began it also ended it."""
    txn = columns["txn"]
    inside = txn >= 0
    # A client that has a transactional id and does not say which transaction: nobody knows.
    vague = ~inside & (columns["tid"] >= 0)
    columns["txn_state"] = np.where(inside, int(open_state), np.where(vague, int(Txn.UNKNOWN), 0))
    columns["end_inv"] = np.full(len(txn), NONE)
    if ends:
        known = np.array(sorted(ends), dtype=np.int64)
        states = np.array([int(ends[n][0]) for n in known], dtype=np.int64)
        times = np.array([ends[n][1] for n in known], dtype=np.int64)
        at = np.minimum(np.searchsorted(known, txn), len(known) - 1)
        hit = inside & (known[at] == txn)
        columns["txn_state"][hit] = states[at[hit]]
        columns["end_inv"][hit] = times[at[hit]]
        answers = np.array([ends[n][2] for n in known], dtype=np.int64)
        sent = hit & (columns["op"] == Op.TXN_OFFSETS)
        columns["timestamp"][sent] = answers[at[sent]]
