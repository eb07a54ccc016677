"""Columns of a DataFrame on their way to Python: narrow ones together, in 64-bit integers.

What a DataFrame costs is the way of its values out of the JVM, one by one and whatever their width.
So several columns of few bits travel as one.
"""

from collections.abc import Iterable
from functools import reduce
from typing import Any

import numpy as np
from attrs import frozen
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from traces.model.columns import Column
from traces.model.schema import NONE
from traces.model.table import constant, from_arrow

_BITS = {"tinyint": 8, "smallint": 16, "int": 32}
Field = tuple[str, int]  # a column, and its bits


@frozen
class Layout:
    """Columns that travel together, the lowest bits first, and those that travel alone."""

    alone: tuple[str, ...]
    together: tuple[tuple[Field, ...], ...]

    @classmethod
    def of(cls, ops: DataFrame, names: Iterable[str]) -> "Layout":
        """The layout for those of these columns that the table holds."""
        kinds = dict(ops.dtypes)
        held = [name for name in names if name in kinds]
        narrow = [(name, _BITS[kinds[name]]) for name in held if kinds[name] in _BITS]
        longs: list[list[Field]] = []
        # The widest first, so that each lies at a multiple of its own width.
        for field in sorted(narrow, key=lambda field: -field[1]):
            room = (some for some in longs if sum(bits for _, bits in some) + field[1] <= 64)
            if (mine := next(room, None)) is None:
                longs.append(mine := [])
            mine.append(field)
        wide = tuple(name for name in held if kinds[name] not in _BITS)
        return cls(wide, tuple(map(tuple, longs)))

    def packed(self, ops: DataFrame) -> DataFrame:
        """The table as it travels; what is null is `NONE`."""
        longs = [_long(fields).alias(_name(n)) for n, fields in enumerate(self.together)]
        return ops.select(*self.alone, *longs)

    def unpacked(self, batch: Any, names: Iterable[str]) -> dict[str, Column]:
        """The columns of a record batch that came so; what it does not hold is unknown."""
        here: dict[str, Column] = dict(from_arrow(batch, self.alone))
        for n, fields in enumerate(self.together):
            longs = batch.column(_name(n)).to_numpy(zero_copy_only=False)
            parts = np.ascontiguousarray(longs, "<i8").view(_dtype(fields))
            here |= {name: np.ascontiguousarray(parts[name]) for name, _ in fields}
        return {
            name: here[name] if name in here else constant(NONE, batch.num_rows) for name in names
        }


def _name(number: int) -> str:
    return f"long_{number}"


def _long(fields: Iterable[Field]) -> SparkColumn:
    at, parts = 0, list[SparkColumn]()
    for name, bits in fields:
        value = F.coalesce(F.col(name).cast("bigint"), F.lit(NONE).cast("bigint"))
        parts.append(F.shiftleft(value.bitwiseAND((1 << bits) - 1), at))
        at += bits
    return reduce(lambda one, other: one.bitwiseOR(other), parts)


def _dtype(fields: Iterable[Field]) -> Any:
    """The layout of columns in a long."""
    names, bits = zip(*fields, strict=True)
    offsets = [sum(bits[:n]) // 8 for n in range(len(bits))]
    formats = [f"<i{width // 8}" for width in bits]
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": 8})
