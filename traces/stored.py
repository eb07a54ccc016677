"""Columns of Parquet files that are read when they are first asked for.

Who asks for a few rows of a column is given them without the rest: only their row groups are read.
What the statistics of a file say to be one value is not read at all.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from attrs import define, field

from traces.arrow import pq
from traces.columns import Column
from traces.context import Ints
from traces.schema import COLUMNS
from traces.splits import Split, constants, opened, splits_of
from traces.table import Lazy, constant, from_arrow


def stored(paths: Iterable[str]) -> Lazy:
    """The operations in these files, and in all Parquet files of these folders.

    Raises `BadInput` where there are none, or a file holds something else.
    """
    groups = _Groups(splits_of(paths))
    return Lazy(groups.rows, groups.column, few=groups.few)


@define
class _Groups:
    """Row groups one behind the other."""

    splits: Sequence[Split]
    starts: Ints = field(init=False)  # the first row of each, and how many rows there are
    _files: dict[str, Any] = field(factory=dict[str, Any])
    _read: dict[tuple[int, str], Column] = field(factory=dict[tuple[int, str], Column])

    def __attrs_post_init__(self) -> None:
        self.starts = np.cumsum([0, *(split.rows for split in self.splits)])

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.starts[-1])

    def column(self, name: str) -> Ints:
        """All rows of a column, as wide as the files hold them."""
        same = [self._constant(number, name) for number in range(len(self.splits))]
        if len(set(same)) == 1 and same[0] is not None:
            return constant(same[0], self.rows)
        kinds = [self._kind(number, name) for number in range(len(self.splits))]
        out = np.empty(self.rows, np.result_type(np.int8, *kinds))
        for number, value in enumerate(same):
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
        return constants(self._file(number).metadata, split.group, [name]).get(name)

    def _kind(self, number: int, name: str) -> Any:
        """As what numpy holds the column of a row group."""
        schema = self._file(number).schema_arrow
        if name in schema.names and not (name == "run" and self.splits[number].run is not None):
            return schema.field(name).type.to_pandas_dtype()
        return COLUMNS[name].to_pandas_dtype()

    def _decoded(self, number: int, name: str) -> Column:
        group = self.splits[number].group
        held = self._file(number).read_row_group(group, columns=[name], use_threads=False)
        return from_arrow(held, [name])[name]

    def _file(self, number: int) -> Any:
        uri = self.splits[number].uri
        if uri not in self._files:
            self._files[uri] = pq.ParquetFile(opened(uri))
        return self._files[uri]
