"""Rows on their way through a shuffle: many rows of a few columns in one compact piece of bytes.

Moving a row costs the JVM about as much as judging it. So rows that go the same way travel
together, as columns, each counted from its lowest value and as narrow as it can be.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from attrs import frozen

from traces.arrow import pa
from traces.context import Ints
from traces.scopes import SCOPES, Column, Columns, Scope
from traces.sorting import order_by
from traces.table import constant, is_constant, joined, take

PARCELS_DDL = "bucket int, scope int, rows bigint, parcel binary"
PARCELS = pa.schema(
    [("bucket", pa.int32()), ("scope", pa.int32()), ("rows", pa.int64()), ("parcel", pa.binary())]
)
HELD = 1_000_000  # rows that a task holds before it hands them on
_WRITE = pa.ipc.IpcWriteOptions(compression="lz4")
_WIDTHS = ((8, np.uint8), (16, np.uint16), (32, np.uint32))


@frozen
class Packer:
    """Sorts rows into parcels: by scope, and in it by a bucket that its key falls into."""

    columns: Mapping[str, tuple[str, ...]]  # of each scope
    buckets: int

    def __call__(self, pieces: Iterable[Columns]) -> Iterator[Any]:
        """The parcels of these pieces of a table, as record batches."""
        held: list[Columns] = []
        rows = 0
        for piece in pieces:
            held.append(piece)
            rows += len(piece["op"])
            if rows >= HELD:
                yield from self._pack(joined(held))
                held, rows = [], 0
        if rows:
            yield from self._pack(joined(held))

    def _pack(self, columns: Columns) -> Iterator[Any]:
        for number, name in enumerate(SCOPES):
            if name in self.columns:
                yield from self._pack_scope(columns, number, SCOPES[name])

    def _pack_scope(self, columns: Columns, number: int, scope: Scope) -> Iterator[Any]:
        rows = np.flatnonzero(scope.wanted(columns))
        if not len(rows):
            return
        keys = [take(key, rows) for key in (columns["run"], *scope.key(columns))]
        bucket = bucket_of(keys, self.buckets)
        order = order_by(bucket, *keys, take(columns["process"], rows))
        bucket = bucket[order]
        mine = {name: take(columns[name], rows[order]) for name in self.columns[_name(number)]}
        starts = np.flatnonzero(np.r_[True, bucket[1:] != bucket[:-1]])
        for start, end in zip(starts, [*starts[1:], len(rows)], strict=True):
            parcel = pack({name: column[start:end] for name, column in mine.items()})
            yield pa.record_batch(
                [[int(bucket[start])], [number], [int(end - start)], [parcel]], schema=PARCELS
            )


def _name(number: int) -> str:
    return list(SCOPES)[number]


def bucket_of(keys: Iterable[Column], buckets: int) -> Ints:
    """Which of so many buckets the rows of a key go to; the same on every machine."""
    mixed = np.zeros(1, np.uint64)
    for key in keys:
        mixed = (mixed ^ key.astype(np.int64).view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed = mixed ^ (mixed >> np.uint64(29))
    return (mixed % np.uint64(buckets)).astype(np.int64)


def pack(columns: Columns) -> bytes:
    """A few thousand rows as bytes."""
    base: dict[str, int] = {}
    narrow: dict[str, Column] = {}
    for name, column in columns.items():
        low, high = (int(column[0]),) * 2 if is_constant(column) else _bounds(column)
        base[name] = low
        if low != high:
            narrow[name] = _above(column, low, (high - low).bit_length())
    rows = len(next(iter(columns.values())))
    schema = pa.schema(
        [(name, pa.from_numpy_dtype(column.dtype)) for name, column in narrow.items()],
        metadata={"rows": str(rows), "base": json.dumps(base)},
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=_WRITE) as out:
        if narrow:
            out.write_batch(pa.record_batch(list(narrow.values()), schema=schema))
    return sink.getvalue().to_pybytes()


def unpack(parcel: Any) -> dict[str, Column]:
    """What was packed."""
    with pa.ipc.open_stream(parcel) as stream:
        says = stream.schema.metadata
        rows, base = int(says[b"rows"]), json.loads(says[b"base"])
        held: Any = stream.read_next_batch() if len(stream.schema) else None
    out = {name: constant(low, rows) for name, low in base.items()}
    for name in stream.schema.names:
        above = held.column(name).to_numpy(zero_copy_only=False)
        out[name] = (above.astype(np.uint64) + np.uint64(base[name] % 2**64)).view(np.int64)
    return out


def _bounds(column: Column) -> tuple[int, int]:
    return int(column.min()), int(column.max())


def _above(column: Column, low: int, bits: int) -> Column:
    """How far each value lies above the lowest, as narrow as that goes."""
    unsigned = np.dtype(f"u{column.dtype.itemsize}")
    above = column.view(unsigned) - unsigned.type(low % 2 ** (8 * unsigned.itemsize))
    for width, dtype in _WIDTHS:
        if bits <= width:
            return above.astype(dtype, copy=False)
    return above
