"""The checks without Spark: the same kernels over one Arrow table in this process.

For a trace of a few hundred thousand rows Spark's start alone takes longer than all the checks.
The rules are the same because the functions are the same. So is the way: rows are sorted into
buckets a million at a time and judged bucket by bucket, because sorting a whole table at once is
slower by half. Rows stay where they are: a column is read, and its rows are taken, when a check
asks for it, and for a witness only those rows that it shows.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
from attrs import define, field

from traces.engines import cutting
from traces.engines.blocks import BORDER_COLUMNS, Cuts
from traces.engines.cutting import LIMITS, Limits
from traces.engines.kernel import chosen, judge
from traces.engines.packed_batches import HELD, Packer
from traces.engines.scopes import SCOPES
from traces.model.arrow import pa
from traces.model.columns import Columns
from traces.model.context import Context, Ints
from traces.model.table import Lazy, constant, held, is_constant, part, take

ROWS_OF_A_BUCKET = 250_000  # about as many as the processor's caches hold


def find(
    ops: Any,
    contexts: Mapping[int, Context],
    checks: Iterable[str] | None = None,
    limits: Limits = LIMITS,
    foreign: bool = False,
) -> list[dict[str, Any]]:
    """All findings of all checks, or of these, in all runs of this table: of Arrow, or `Lazy`.

    A partition of more rows than the limits say is judged block by block. Raises `BadInput` where
    `foreign` rows, of files that anybody may have put together, are not of one run.
    """
    mine, names = chosen(checks), list(SCOPES)
    table = held(ops)
    cuts = cuts_of(table, contexts, limits) if "partition" in mine else Cuts()
    packer = Packer(dict.fromkeys(mine, ()), 1 + table.size // ROWS_OF_A_BUCKET, cuts)
    sorted_rows = {number: _Sorted(table) for number, name in enumerate(names) if name in mine}
    for start, piece in _pieces(table):
        for scope, several, rows in packer.sorted(piece):
            for bucket in several:
                sorted_rows[scope].add(start, bucket, rows)
    found: list[dict[str, Any]] = []
    for number, rows in sorted_rows.items():
        scope = names[number]
        for bucket, columns in rows.buckets():
            found += judge(columns, scope, mine[scope], contexts, packer.unit(bucket), foreign)
    return found


@define(slots=False)
class _Sorted:
    """The rows of a table that a scope looks at, bucket by bucket.

    A column is brought into that order as a whole, piece by piece: rows of one bucket lie all over
    the table, and taking them for each bucket anew would read it as often as there are buckets.
    """

    table: Lazy
    parts: list[tuple[int, int, Ints]] = field(factory=list[tuple[int, int, Ints]])

    def add(self, start: int, bucket: int, rows: Ints) -> None:
        """Rows of the piece that begins at `start`."""
        self.parts.append((start, bucket, rows))

    def buckets(self) -> Iterator[tuple[int, Lazy]]:
        """Each bucket, and its rows."""
        whole = Lazy(sum(self._sizes.values()), self._column, few=self._few)
        start = 0
        for bucket, size in self._sizes.items():
            yield bucket, part(whole, start, start + size)
            start += size

    @cached_property
    def _sizes(self) -> dict[int, int]:
        sizes = dict.fromkeys(sorted({bucket for _, bucket, _ in self.parts}), 0)
        for _, bucket, rows in self.parts:
            sizes[bucket] += len(rows)
        return sizes

    @cached_property
    def _slices(self) -> list[slice]:
        """The rows of the whole table that each part fills."""
        begins = dict(zip(self._sizes, accumulate(self._sizes.values(), initial=0), strict=False))
        slices: list[slice] = []
        for _, bucket, rows in self.parts:
            slices.append(slice(begins[bucket], begins[bucket] + len(rows)))
            begins[bucket] += len(rows)
        return slices

    def _column(self, name: str) -> Ints:
        values, size = self.table[name], sum(self._sizes.values())
        if is_constant(values):
            return constant(int(values[0]), size)
        out = np.empty(size, values.dtype)
        for (start, _, rows), target in zip(self.parts, self._slices, strict=True):
            np.take(values[start : start + HELD], rows, out=out[target], mode="clip")
        return out

    @cached_property
    def _numbers(self) -> Ints:
        """The row of the table that each row is."""
        out = np.empty(sum(self._sizes.values()), np.int64)
        for (start, _, rows), target in zip(self.parts, self._slices, strict=True):
            out[target] = rows + start
        return out

    def _few(self, name: str, rows: Ints) -> Ints:
        return self.table.pick(name, self._numbers[rows])


def cuts_of(ops: Any, contexts: Mapping[int, Context], limits: Limits) -> Cuts:
    """Cut the partitions that are too large."""
    table = held(ops)
    if table.size <= limits.rows:
        return Cuts()
    pieces = (piece for _, piece in _pieces(table))
    counted = pa.Table.from_batches(cutting.stretches(pieces, limits), cutting.STRETCHES)
    cuts = cutting.laid_out(counted, contexts, limits)
    if not cuts:
        return Cuts()
    borders = ({name: piece[name] for name in BORDER_COLUMNS} for _, piece in _pieces(table))
    found = cutting.statistics(borders, cuts, 1)
    rows = (row for batch in cutting.gathered(found, cuts) for row in batch.to_pylist())
    return cutting.of_boundary(rows, cuts, limits)


def _pieces(table: Lazy) -> Iterator[tuple[int, Lazy]]:
    """The table in pieces, and where each begins."""
    for start in range(0, table.size, HELD):
        yield start, part(table, start, min(start + HELD, table.size))


def rows_of(columns: Columns, scope: str) -> Columns:
    """The rows that a scope looks at."""
    rows = np.flatnonzero(SCOPES[scope].wanted(columns))
    return {name: take(column, rows) for name, column in columns.items()}
