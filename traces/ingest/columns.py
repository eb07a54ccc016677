"""Collect calls and their records, and make columns of them.

A file is read call by call, but its columns are made in one go, by Arrow and numpy. The fields that
many calls share (process, operation, group) are kept once. The integers of a call are in one list
with those of other calls that have the same fields. Records are kept as they came.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from types import NoneType
from typing import Any

import numpy as np
from attrs import define, field, frozen
from numpy.typing import NDArray

from traces.model.arrow import ArrowException, pa
from traces.model.context import Ints
from traces.model.meta import MOST_PARTITIONS
from traces.model.names import Names, key_number
from traces.model.partitioners import key_hash
from traces.model.schema import COLUMNS, NONE, OPS, Detail, Flag, Op

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
# What a record says by yes or no, and the flags for it.
_FLAGS: Mapping[str, Mapping[bool | None, int]] = {
    "tombstone": {None: 0, True: Flag.TOMBSTONE, False: Flag.VALUED},
    "chosen": {None: 0, True: Flag.CHOSEN, False: Flag.LEFT},
}
_TYPES: Mapping[str, Any] = {name: type.to_pandas_dtype() for name, type in COLUMNS.items()}


@define
class Malformed(Exception):
    """A column holds something that is not what the format says; the line is not known here."""

    field: str


@define
class RowBuilder:
    """Rows in the order of the calls; the rows of one call are adjacent."""

    names: Names
    partitioner: str | None = None  # what chose the partitions of sends
    words: list[tuple[int, ...]] = field(factory=list[tuple[int, ...]])
    records: list[Any] = field(factory=list[Any])
    _numbers: dict[tuple[int, ...], int] = field(factory=dict[tuple[int, ...], int])
    _ints: dict[tuple[str, ...], list[Any]] = field(factory=dict[tuple[str, ...], list[Any]])
    # Of each call: which of `_ints` it is in, which of `words` are its own, how many rows it has.
    _shapes: list[tuple[str, ...]] = field(factory=list[tuple[str, ...]])
    _shared: list[int] = field(factory=list[int])
    _counts: list[int] = field(factory=list[int])
    _odd: list[tuple[int, int]] = field(factory=list[tuple[int, int]])  # rows of `call`

    def call(self, rows: int, fields: Mapping[str, int | None], odd: bool = True) -> None:
        """A call, or the part of it that shares one `op`, whose `rows` records follow.

        They are `odd` if they are no records of the trace.
        """
        get = fields.get
        word = self.word({name: value for name in WORDS if (value := get(name)) is not None})
        self.ints(INTS).extend(map(get, INTS))
        self.plain(INTS, word, rows)
        if odd:
            self._odd.append((len(self.records), len(self.records) + rows))

    def plain(self, fields: tuple[str, ...], word: int, rows: int) -> None:
        """A call whose integers and records the caller has added by itself."""
        self._shapes.append(fields)
        self._shared.append(word)
        self._counts.append(rows)

    def ints(self, fields: tuple[str, ...]) -> list[Any]:
        """The list for the integers of calls that have these fields, one call after the other."""
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
        """The rows as columns, except those that need the whole file; then start anew."""
        calls, counts = self._call_columns()
        columns = {name: np.repeat(column, counts) for name, column in calls.items()}
        kinds = _kinds(self.records, self._odd)

        def column(name: str, convert: Callable[[Sequence[Any]], Ints], other: int = NONE) -> Ints:
            if len(kinds) == 1 and name in kinds[0].fields:
                return convert(kinds[0].values(name))
            whole = np.full(len(self.records), other)
            for kind in kinds:
                if name in kind.fields:
                    whole[kind.rows] = convert(kind.values(name))
            return whole

        if any("topic" not in kind.fields for kind in kinds):
            raise Malformed("topic")

        for name in RECORD_INTS:
            columns[name] = column(name, partial(_ints, name))
        columns["id"] = column("id", partial(_ids, self.names))
        columns["topic"] = column("topic", partial(_numbered, self.names.topics.number))
        columns["key"] = column("key", partial(_numbered, key_number))
        columns["idx"] = _positions(columns["seq"])
        columns["topic_id"] = column("topic_id", partial(_numbered, self.names.topic_ids.number))
        counts = column("delivery_count", partial(_ints, "delivery_count"))
        acks = column("ack", partial(_numbered, Detail.ACKS.__getitem__))
        columns["detail"] = np.maximum(np.maximum(columns["detail"], counts), acks)
        if self.partitioner is not None:
            hashes = column("key", partial(_numbered, partial(key_hash, self.partitioner)))
            columns["detail"] = np.where(columns["op"] == Op.SEND, hashes, columns["detail"])
        for name, words in _FLAGS.items():
            columns["flags"] = columns["flags"] | column(name, partial(_flagged, name, words), 0)
        self.records, self._ints, self._odd = [], {}, []
        self._shapes, self._shared, self._counts = [], [], []
        return {name: narrow(name, column) for name, column in columns.items()}

    def _call_columns(self) -> tuple[dict[str, Ints], Ints]:
        """One value per call, and how many rows it has."""
        shapes = {fields: number for number, fields in enumerate(self._ints)}
        of = np.fromiter(map(shapes.__getitem__, self._shapes), np.int64, len(self._shapes))
        words = np.array(self.words, np.int64).reshape(-1, len(WORDS))[self._shared]
        columns = {name: words[:, n] for n, name in enumerate(WORDS)}
        columns |= {name: np.full(len(of), NONE) for name in INTS}
        for fields, number in shapes.items():
            mine = np.flatnonzero(of == number)
            for name, values in zip(fields, _side_by_side(fields, self._ints[fields]), strict=True):
                columns[name][mine] = values
        return columns, np.array(self._counts, np.int64)


@frozen
class _Kind:
    """Records that have the same fields in the same order: taken apart in one go."""

    rows: Any
    fields: Mapping[str, int]
    flat: list[Any]

    def values(self, name: str) -> Sequence[Any]:
        """The values of a field that they have."""
        return self.flat[self.fields[name] :: len(self.fields)]


def _kinds(records: list[Any], odd: list[tuple[int, int]]) -> list[_Kind]:
    """Records by their fields. `odd` ones are few, and all others mostly have the same."""
    apart = np.zeros(len(records), bool)
    for start, end in odd:
        apart[start:end] = True
    if not odd:
        return list(_apart(records, np.arange(len(records))))
    both = (np.flatnonzero(~apart), np.flatnonzero(apart))
    several = [(rows, [records[row] for row in rows.tolist()]) for rows in both if len(rows)]
    return [kind for rows, mine in several for kind in _apart(mine, rows)]


def _apart(records: list[Any], rows: Ints) -> Iterator[_Kind]:
    if not records:
        return
    shape: tuple[str, ...] = tuple(records[0])
    if list(chain.from_iterable(records)) == list(shape) * len(records):
        yield _kind(rows, shape, records)
        return
    shapes: list[tuple[str, ...]] = list(map(tuple, records))
    number = {shape: n for n, shape in enumerate(dict.fromkeys(shapes))}
    which = np.fromiter(map(number.__getitem__, shapes), np.int64, len(shapes))
    for shape, n in number.items():
        mine = np.flatnonzero(which == n)
        yield _kind(rows[mine], shape, [records[row] for row in mine.tolist()])


def _kind(rows: Any, shape: tuple[str, ...], records: list[Any]) -> _Kind:
    flat = list(chain.from_iterable(map(dict[str, Any].values, records)))
    return _Kind(rows, {name: n for n, name in enumerate(shape)}, flat)


def _flagged(name: str, words: Mapping[bool | None, int], values: Sequence[Any]) -> Ints:
    if not {type(value) for value in values} <= {bool, NoneType}:
        raise Malformed(name)
    return np.array([words[value] for value in values], np.int64)


def joined(chunks: Sequence[dict[str, Ints]]) -> dict[str, Ints]:
    """Chunks of one file as one. They are emptied on the way, for both would be too much."""
    if len(chunks) == 1:
        return dict(chunks[0])
    return {
        name: np.concatenate([chunk.pop(name) for chunk in chunks]) for name in tuple(chunks[0])
    }


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


def _ints(name: str, values: Sequence[Any]) -> Ints:
    (filled,) = _side_by_side((name,), values)
    if name == "partition" and len(filled) and filled.max() >= MOST_PARTITIONS:
        raise Malformed(name)
    return filled


def _side_by_side(names: Sequence[str], values: Sequence[Any]) -> Ints:
    """The values of several fields, given call by call: a line for each field."""
    numbers = _as_numbers(values)
    if numbers is None:
        fields = {name: values[n :: len(names)] for n, name in enumerate(names)}
        raise Malformed(next(name for name, mine in fields.items() if _as_numbers(mine) is None))
    filled: Ints = (numbers.fill_null(NONE) if numbers.null_count else numbers).to_numpy()
    table = filled.reshape(-1, len(names)).T
    wrong = table < np.array([[lowest(name)] for name in names])
    if wrong.any() and numbers.null_count:
        wrong &= numbers.is_valid().to_numpy(False).reshape(-1, len(names)).T
    if wrong.any():
        raise Malformed(names[int(wrong.any(axis=1).argmax())])
    return table


def _as_numbers(values: Sequence[Any]) -> Any:
    """The values as Arrow has them; None if some cannot be a number of 64 bits."""
    if not set(map(type, values)) <= {int, NoneType}:
        return None
    try:
        return pa.array(values, pa.int64())
    except (OverflowError, ArrowException):
        return None


def lowest(name: str) -> int:
    """The lowest number that a field may hold: Kafka says -1 where there is none."""
    return 0 if name in NATURAL else -(2**63) if name == "hash" else -1


def _ids(names: Names, values: Sequence[Any]) -> Ints:
    kinds: set[Any] = set(map(type, values))
    if not kinds <= {int, str, NoneType}:
        raise Malformed("id")
    if kinds <= {int, NoneType} and all(id is None or 0 <= id < 2**63 for id in values):
        return _ints("id", values)
    return np.fromiter((names.id(value) for value in values), np.int64, len(values))


def _numbered(number: Callable[[str], int], values: Sequence[Any]) -> Ints:
    if not set(map(type, values)) <= {str, NoneType}:
        raise Malformed("records")
    encoded = pa.array(values, pa.string()).dictionary_encode()
    numbers = [number(text) for text in encoded.dictionary.to_pylist()]
    codes: Ints = encoded.indices.fill_null(len(numbers)).to_numpy().astype(np.int64)
    return np.array([*numbers, NONE], dtype=np.int64)[codes]


def _positions(seq: Ints) -> Ints:
    """0, 1, 2, … inside each call; the rows of a call are adjacent."""
    if not len(seq):
        return seq
    first = np.r_[True, seq[1:] != seq[:-1]]
    starts = np.flatnonzero(first)
    return np.arange(len(seq)) - starts[np.cumsum(first) - 1]
