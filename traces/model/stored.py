"""Columns of Parquet files that are read when they are first asked for.

Who asks for a few rows of a column is given them without the rest: only their row groups are read.
What the statistics of a file say to be one value is not read at all.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import define, field, frozen

from traces.model.arrow import pq
from traces.model.columns import Column
from traces.model.context import Ints
from traces.model.schema import COLUMNS
from traces.model.splits import Split, constant_of, opened, splits_of
from traces.model.table import Lazy, constant, from_arrow


def stored(paths: Iterable[str]) -> Lazy:
    """The operations in these files, and in all Parquet files of these folders.

    Raises `BadInput` where there are none, or a file holds something else.
    """
    groups = _Groups(splits_of(paths))
    return Lazy(groups.rows, groups.column, few=groups.few)


@frozen
class _File:
    """The row groups of a file, by its end; the file itself is not kept open."""

    uri: str
    metadata: Any
    kinds: Mapping[str, Any]  # as what numpy holds each of its columns
    number_of: Mapping[str, int]

    @classmethod
    def of(cls, uri: str) -> "_File":
        """The file of this path or URI."""
        with pq.ParquetFile(opened(uri)) as file:
            schema, metadata = file.schema_arrow, file.metadata
        kinds = {name: schema.field(name).type.to_pandas_dtype() for name in schema.names}
        number_of = {name: number for number, name in enumerate(metadata.schema.names)}
        return cls(uri, metadata, kinds, number_of)

    def constant(self, group: int, name: str) -> int | None:
        """The one value of a column that need not be read."""
        return constant_of(self.metadata.row_group(group).column(self.number_of[name]).statistics)

    def decoded(self, group: int, name: str) -> Column:
        """A column of a row group."""
        with pq.ParquetFile(opened(self.uri), metadata=self.metadata) as file:
            held = file.read_row_group(group, columns=[name], use_threads=False)
        return from_arrow(held, [name])[name]


@define
class _Groups:
    """Row groups one behind the other."""

    splits: Sequence[Split]
    starts: Ints = field(init=False)  # the first row of each, and how many rows there are
    _files: dict[str, _File] = field(factory=dict[str, _File])
    _read: dict[tuple[int, str], Column] = field(factory=dict[tuple[int, str], Column])

    def __attrs_post_init__(self) -> None:
        self.starts = np.cumsum([0, *(split.rows for split in self.splits)])

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.starts[-1])

    def column(self, name: str) -> Ints:
        """All rows of a column, as wide as the files hold them."""
        numbers = [number for number, split in enumerate(self.splits) if split.rows]
        same = {number: self._constant(number, name) for number in numbers}
        values = set(same.values())
        if len(values) == 1 and (value := values.pop()) is not None:
            return constant(value, self.rows)
        kinds = {self._kind(number, name) for number in numbers}
        out = np.empty(self.rows, np.result_type(np.int8, *kinds))
        for number, value in same.items():
            here = slice(self.starts[number], self.starts[number + 1])
            out[here] = self._decoded(number, name) if value is None else value
        return out

    def few(self, name: str, rows: Ints) -> Ints:
        """Some rows of a column."""
        group = np.searchsorted(self.starts, rows, side="right") - 1
        out = np.empty(len(rows), np.int64)
        for number in np.unique(group).tolist():
            mine = group == number
            value = self._constant(number, name)
            if value is None:
                column = self._read.get((number, name))
                if column is None:
                    column = self._read[number, name] = self._decoded(number, name)
                out[mine] = column[rows[mine] - self.starts[number]]
            else:
                out[mine] = value
        return out

    def _constant(self, number: int, name: str) -> int | None:
        split = self.splits[number]
        if name == "run" and split.run is not None:
            return split.run
        return self._file(split).constant(split.group, name)

    def _kind(self, number: int, name: str) -> Any:
        split = self.splits[number]
        if name == "run" and split.run is not None:
            return COLUMNS[name].to_pandas_dtype()
        return self._file(split).kinds[name]

    def _decoded(self, number: int, name: str) -> Column:
        split = self.splits[number]
        return self._file(split).decoded(split.group, name)

    def _file(self, split: Split) -> _File:
        if split.uri not in self._files:
            self._files[split.uri] = _File.of(split.uri)
        return self._files[split.uri]
