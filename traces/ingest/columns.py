"""Collects calls and their records, and makes columns of them.

A file is read call by call, because that is what it holds; but the columns are made in one go, by
Arrow and numpy. What many calls share (who, what, in which group) is noted once; the integers of a
call lie in a row with those of other calls that have the same fields; records wait as they came.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from types import NoneType
from typing import Any

import numpy as np
from attrs import define, field
from numpy.typing import NDArray

from traces.arrow import ArrowException, pa
from traces.names import Names, key_number
from traces.partitioners import key_hash
from traces.schema import COLUMNS, NONE, OPS, Detail, Flag, Op

Ints = NDArray[np.int64]

# What is different in nearly every call, and what is one of a few in all of them.
INTS = ("seq", "inv", "ret", "txn", "generation", "pid", "pepoch", "node")
WORDS = (
    "process",
    "op",
    "outcome",
    "clock",
    "group",
    "member",
    "isolation",
    "tid",
    "flags",
    "instance",
    "detail",
)
NATURAL = frozenset(("seq", "inv", "ret", "txn", "partition", "offset"))
RECORD_INTS = ("partition", "offset", "timestamp", "epoch", "sequence", "hash")
# Fields of a record that few records have.
RARE_FIELDS = ("tombstone", "chosen", "delivery_count", "ack", "topic_id")
_TYPES: Mapping[str, Any] = {name: type.to_pandas_dtype() for name, type in COLUMNS.items()}


@define
class Malformed(Exception):
    """A column holds something that is not what the format says; the line is not known here."""

    field: str


@define
class Rows:
    """Rows in the order of the calls; the rows of one call stand together."""

    names: Names
    partitioner: str | None = None  # what chose the partitions of sends
    words: list[tuple[int, ...]] = field(factory=list[tuple[int, ...]])
    records: list[Any] = field(factory=list[Any])
    _numbers: dict[tuple[int, ...], int] = field(factory=dict[tuple[int, ...], int])
    _ints: dict[tuple[str, ...], list[Any]] = field(factory=dict[tuple[str, ...], list[Any]])
    _calls: list[tuple[tuple[str, ...], int, int]] = field(
        factory=list[tuple[tuple[str, ...], int, int]]
    )

    def call(self, rows: int, fields: Mapping[str, int | None]) -> None:
        """A call, or the part of it that shares one `op`, whose `rows` records follow."""
        get = fields.get
        word = self.word({name: value for name in WORDS if (value := get(name)) is not None})
        self.ints(INTS).extend(map(get, INTS))
        self._calls.append((INTS, word, rows))

    def plain(self, fields: tuple[str, ...], word: int, rows: int) -> None:
        """A call whose integers and records the caller has added by itself."""
        self._calls.append((fields, word, rows))

    def ints(self, fields: tuple[str, ...]) -> list[Any]:
        """Where the integers of calls that have these fields go, one call after the other."""
        return self._ints.setdefault(fields, [])

    def word(self, fields: Mapping[str, int]) -> int:
        """The number of what many calls share."""
        values = tuple(fields.get(name, NONE) for name in WORDS)
        known = self._numbers.get(values)
        if known is None:
            known = self._numbers[values] = len(self.words)
            self.words.append(values)
        return known

    def sent(self, record: Mapping[str, Any]) -> None:
        """One record, or one partition with what is known about it there."""
        self.records.append(record)

    def __len__(self) -> int:
        return len(self.records)

    def columns(self) -> dict[str, Ints]:
        """The rows as columns, all but what only the whole file can tell; and starts anew."""
        calls, counts = self._call_columns()
        columns = {name: np.repeat(column, counts) for name, column in calls.items()}
        get = _fields(self.records)
        for name in RECORD_INTS:
            columns[name] = _ints(name, get(name))
        columns["id"] = _ids(self.names, get("id"))
        columns["topic"] = _numbered("topic", get("topic"), self.names.topics.number)
        columns["key"] = _numbered("key", get("key"), key_number)
        if self.partitioner is not None:
            hashes = _numbered("key", get("key"), partial(key_hash, self.partitioner))
            columns["detail"] = np.where(columns["op"] == Op.SEND, hashes, columns["detail"])
        columns["idx"] = _positions(columns["seq"])
        columns["topic_id"] = np.full(len(self.records), NONE)
        self._rare_columns(columns, get)
        self.records, self._calls, self._ints = [], [], {}
        return {name: narrow(name, column) for name, column in columns.items()}

    def _call_columns(self) -> tuple[dict[str, Ints], Ints]:
        """One value per call, and how many rows it has."""
        shapes = {fields: number for number, fields in enumerate(self._ints)}
        known = [(shapes[fields], word, rows) for fields, word, rows in self._calls]
        told = np.array(known, np.int64).reshape(-1, 3)
        words = np.array(self.words, np.int64).reshape(-1, len(WORDS))[told[:, 1]]
        columns = {name: words[:, n] for n, name in enumerate(WORDS)}
        columns |= {name: np.full(len(told), NONE) for name in INTS}
        for fields, number in shapes.items():
            mine = np.flatnonzero(told[:, 0] == number)
            flat = self._ints[fields]
            for n, name in enumerate(fields):
                columns[name][mine] = _ints(name, flat[n :: len(fields)])
        return columns, told[:, 2]

    def _rare_columns(self, columns: dict[str, Ints], get: "_Get") -> None:
        rare = {name: get(name) for name in RARE_FIELDS}
        counts = _ints("delivery_count", rare["delivery_count"])
        columns["detail"] = np.where(counts == NONE, columns["detail"], counts)
        for row, value in _given(rare["tombstone"]):
            columns["flags"][row] |= Flag.TOMBSTONE if _bool("tombstone", value) else Flag.VALUED
        for row, value in _given(rare["chosen"]):
            columns["flags"][row] |= Flag.CHOSEN * _bool("chosen", value)
        for row, value in _given(rare["ack"]):
            columns["detail"][row] = Detail.ACKS[value]
        for row, value in _given(rare["topic_id"]):
            columns["topic_id"][row] = self.names.topic_ids.number(value)


def _bool(name: str, value: Any) -> bool:
    if type(value) is not bool:
        raise Malformed(name)
    return value


_Get = Callable[[str], "Sequence[Any] | int"]


def _given(values: Sequence[Any] | int) -> Iterable[tuple[int, Any]]:
    if isinstance(values, int):
        return ()
    return ((row, value) for row, value in enumerate(values) if value is not None)


def _fields(records: list[Any]) -> _Get:
    """The values of a field in all records; if no record has it, only how many records there are.

    Records of one kind have the same fields in the same order, and are taken apart in one go.
    """
    shapes: set[tuple[str, ...]] = set(map(tuple, records))
    count = len(records)
    if len(shapes) == 1:
        (shape,) = shapes
        flat = list(chain.from_iterable(map(dict[str, Any].values, records)))
        places = {name: n for n, name in enumerate(shape)}
        size = len(shape)
        return lambda name: flat[places[name] :: size] if name in places else _none(name, count)
    present = set(chain.from_iterable(shapes))

    def get(name: str) -> Sequence[Any] | int:
        if name == "topic":
            return [record["topic"] for record in records]
        return [record.get(name) for record in records] if name in present else count

    return get


def _none(name: str, count: int) -> int:
    if name == "topic" and count:
        raise Malformed(name)
    return count


def joined(chunks: Sequence[Mapping[str, Ints]]) -> dict[str, Ints]:
    """Chunks of one file as one."""
    if len(chunks) == 1:
        return dict(chunks[0])
    return {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}


def table(columns: Mapping[str, Ints]) -> Any:
    """An `ops` table of numpy columns."""
    arrays = [pa.array(columns[n].astype(t, copy=False)) for n, t in _TYPES.items()]
    return pa.Table.from_arrays(arrays, schema=OPS)


def narrow(name: str, column: NDArray[np.integer[Any]]) -> Ints:
    """As few bytes as the column of the table has: a whole piece is held in memory."""
    narrowed: Ints = column.astype(_TYPES[name], copy=False)
    if narrowed is not column and np.any(narrowed != column):
        raise Malformed(name)
    return narrowed


def _ints(name: str, values: Sequence[Any] | int) -> Ints:
    if isinstance(values, int):
        return np.full(values, NONE)
    if not set(map(type, values)) <= {int, NoneType}:
        raise Malformed(name)
    try:
        numbers = pa.array(values, pa.int64())
    except (OverflowError, ArrowException) as error:
        raise Malformed(name) from error
    nulls = numbers.null_count
    filled: Ints = (numbers.fill_null(NONE) if nulls else numbers).to_numpy()
    if name in NATURAL and np.count_nonzero(filled < 0) != nulls:
        raise Malformed(name)
    return filled


def _ids(names: Names, values: Sequence[Any] | int) -> Ints:
    if isinstance(values, int):
        return np.full(values, NONE)
    kinds: set[Any] = set(map(type, values))
    if not kinds <= {int, str, NoneType}:
        raise Malformed("id")
    if kinds <= {int, NoneType} and all(id is None or 0 <= id < 2**63 for id in values):
        return _ints("id", values)
    return np.fromiter((names.id(value) for value in values), np.int64, len(values))


def _numbered(name: str, values: Sequence[Any] | int, number: Callable[[str], int]) -> Ints:
    if isinstance(values, int):
        return np.full(values, NONE)
    if not set(map(type, values)) <= {str, NoneType}:
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
