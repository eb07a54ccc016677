"""Rows on their way through a shuffle: many rows of a few columns in one compact piece of bytes.

Moving a row costs the JVM about as much as judging it. So rows that go the same way travel
together, as columns, counted from their lowest value and cut into digits. They travel in order, so
that most digits are long runs of one value. General compression on top of that was measured: it
saves few bytes, and costs more time than everything else here.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from traces.engines.blocks import Cuts, JudgedUnit
from traces.engines.scopes import SCOPES
from traces.model.arrow import pa, pc
from traces.model.columns import Column, Columns
from traces.model.context import Ints
from traces.model.sorting import DIGIT, digits_of
from traces.model.table import Lazy, by_bucket, constant, is_constant, joined

PACKED_BATCHES_DDL = "bucket int, scope int, rows bigint, packed binary"
PACKED_BATCHES = pa.schema(
    [("bucket", pa.int32()), ("scope", pa.int32()), ("rows", pa.int64()), ("packed", pa.binary())]
)
HELD = 1_000_000  # rows that a task holds before it hands them on
_RUN = 4  # rows of the same value, on average, that are worth writing as a run


@frozen
class Packer:
    """Sorts rows into packed_batches: by scope, and in it by a bucket that its key falls into."""

    columns: Mapping[str, tuple[str, ...]]  # of each scope
    buckets: int
    # The units of partitions that are cut have the buckets behind these.
    cuts: Cuts = field(factory=Cuts)

    def __call__(self, pieces: Iterable[Columns]) -> Iterator[Any]:
        """The packed_batches of these pieces of a table, as record batches."""
        for columns in larger(pieces):
            yield from self._pack(columns)

    def _pack(self, columns: Columns) -> Iterator[Any]:
        narrow, names = Narrow.of(columns), list(SCOPES)
        for scope, buckets, rows in self.sorted(columns):
            packed = narrow.pack(rows, self.columns[names[scope]])
            for bucket in buckets:
                yield _packed_batch(bucket, scope, len(rows), packed)

    def sorted(self, columns: Columns) -> Iterator[tuple[int, Iterable[int], Ints]]:
        """Rows, each time with their scope by number and the buckets that they go to."""
        for number, (name, scope) in enumerate(SCOPES.items()):
            if name in self.columns:
                wanted = scope.wanted(columns)
                if name == "partition" and len(self.cuts):
                    for units, rows in self.cuts.parts(columns, wanted):
                        yield number, [self.buckets + unit for unit in units], rows
                    wanted &= ~self.cuts.cut(columns)
                for bucket, rows in by_bucket(columns, scope, self.buckets, wanted):
                    yield number, [bucket], rows

    def unit(self, bucket: int) -> JudgedUnit | None:
        """The unit of a partition that is cut in this bucket, None if it holds none."""
        return None if bucket < self.buckets else self.cuts.units[bucket - self.buckets]


def larger(pieces: Iterable[Columns]) -> Iterator[Columns]:
    """The same pieces of a table, put together until they are worth the work."""
    held: list[Columns] = []
    rows = 0
    for piece in pieces:
        held.append(piece)
        rows += len(piece["op"])
        if rows >= HELD:
            yield joined(held)
            held, rows = [], 0
    if rows:
        yield joined(held)


def _packed_batch(bucket: int, scope: int, rows: int, packed: bytes) -> Any:
    return pa.record_batch([[bucket], [scope], [rows], [packed]], PACKED_BATCHES)


@frozen
class Narrow:
    """Columns as their lowest values, and the differences from these digit by digit."""

    base: Mapping[str, int]
    digits: Mapping[str, list[Column]]  # the last digit first

    @classmethod
    def of(cls, columns: Columns) -> "Narrow":
        """Of these columns; one of a single value is nothing but its base."""
        base: dict[str, int] = {}
        digits: dict[str, list[Column]] = {}
        for name, column in columns.items():
            low = int(column[0]) if is_constant(column) else int(column.min())
            high = low if is_constant(column) else int(column.max())
            base[name], digits[name] = low, list(digits_of(column, low, high))
        return cls(base, digits)

    def pack(self, rows: Ints, names: Iterable[str]) -> bytes:
        """These rows as bytes."""
        base = {name: self.base[name] for name in names}
        arrays = [(name, _runs(digit[rows])) for name in names for digit in self.digits[name]]
        says = {"rows": str(len(rows)), "base": json.dumps(base)}
        schema = pa.schema([(name, array.type) for name, array in arrays], says)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema) as out:
            out.write_batch(pa.record_batch([array for _, array in arrays], schema=schema))
        return sink.getvalue().to_pybytes()


def _runs(column: Column) -> Any:
    """The column as runs of one value, where that is shorter."""
    array = pa.array(column)
    changes = int(np.count_nonzero(column[1:] != column[:-1]))
    return pc.run_end_encode(array) if changes * _RUN < len(column) else array


@frozen
class _PackedBatch:
    """A packed that has been opened."""

    rows: int
    base: Mapping[str, int]
    digits: Mapping[str, list[Any]]

    @classmethod
    def open(cls, packed: Any) -> "_PackedBatch":
        """Of what `Narrow.pack` has written."""
        with pa.ipc.open_stream(packed) as stream:
            says, batch = stream.schema.metadata, stream.read_next_batch()
        base = json.loads(says[b"base"])
        digits: dict[str, list[Any]] = {name: [] for name in base}
        for name, digit in zip(batch.schema.names, batch.columns, strict=True):
            digits[name].append(digit)
        return cls(int(says[b"rows"]), base, digits)

    def write(self, name: str, out: NDArray[np.uint64]) -> None:
        """Write a column to where it belongs."""
        out[:] = self.base[name] % 2**64
        for n, digit in enumerate(self.digits[name]):
            encoded = pa.types.is_run_end_encoded(digit.type)
            plain = (pc.run_end_decode(digit) if encoded else digit).to_numpy()
            out += plain.astype(np.uint64) << np.uint64(DIGIT * n) if n else plain


def unpack(packed_batches: Sequence[Any]) -> Columns:
    """The rows of several packed_batches, column by column as they are asked for."""
    opened = [_PackedBatch.open(packed) for packed in packed_batches]
    size = sum(one.rows for one in opened)
    return Lazy(size, lambda name: _column(name, opened, size), keep=False)


def _column(name: str, opened: Sequence[_PackedBatch], size: int) -> Ints:
    values = {None if one.digits[name] else one.base[name] for one in opened}
    if len(values) == 1 and (value := values.pop()) is not None:
        return constant(value, size)
    out, at = np.empty(size, np.int64), 0
    for one in opened:
        one.write(name, out.view(np.uint64)[at : at + one.rows])
        at += one.rows
    return out
