"""The table of operations as numpy columns: in pieces, from Arrow or packed batches, and sorted.

Columns stay as narrow as they came until a check asks for them, and a column that says the same
in every row is one value and takes no room.
"""

import os
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from attrs import define, field

from traces.model.arrow import pa
from traces.model.columns import Bools, Column, Columns, firsts
from traces.model.context import Ints
from traces.model.problems import BadInput, Problem
from traces.model.schema import COLUMNS, NEVER_NONE, NONE
from traces.model.sorting import order_by

ORDER = ("process", "seq", "idx")  # a process's own order
LARGE = 5_000_000  # rows that are judged at once, above which their columns go to files


@define
class Lazy(Mapping[str, Ints]):
    """Columns that are brought forth when they are first asked for."""

    size: int
    load: Callable[[str], Ints]
    keep: bool = True
    known: dict[str, Ints] = field(factory=dict[str, Ints])
    few: Callable[[str, Ints], Ints] | None = None  # some rows of a column that is not there yet

    def __getitem__(self, name: str) -> Ints:
        if name not in COLUMNS:
            raise KeyError(name)
        if name in self.known:
            return self.known[name]
        column = self.load(name)
        if self.keep:
            self.known[name] = column
        return column

    def pick(self, name: str, rows: Ints) -> Ints:
        """Some rows of a column, which for their sake alone is not brought forth."""
        if name in self.known or self.few is None:
            return self[name][rows]
        return self.few(name, rows)

    def __iter__(self) -> Iterator[str]:
        return iter(COLUMNS)

    def __len__(self) -> int:
        return len(COLUMNS)


def constant(value: int, size: int) -> Ints:
    """A column of one value, in the room of one value."""
    return np.broadcast_to(np.int64(value), size)


def is_constant(column: Column) -> bool:
    """True if the column was made by `constant`."""
    return column.strides == (0,)


def take(column: Column, rows: Ints) -> Column:
    """These rows of a column."""
    return column[: len(rows)] if is_constant(column) and len(column) else column[rows]


def from_arrow(batch: Any, names: Iterable[str] = COLUMNS) -> dict[str, Column]:
    """The columns of a record batch; what it does not hold, or not in some row, is unknown."""
    held = set(batch.schema.names)
    return {
        name: _numpy(batch.column(name)) if name in held else constant(NONE, batch.num_rows)
        for name in names
    }


def _numpy(array: Any) -> Column:
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if array.null_count:
        unsigned = pa.types.is_unsigned_integer(array.type)  # NONE is below all that it holds
        array = (array.cast(pa.int64()) if unsigned else array).fill_null(NONE)
    return array.to_numpy(zero_copy_only=False)


def joined(pieces: Sequence[Columns]) -> dict[str, Column]:
    """Pieces of a table as one."""
    if len(pieces) == 1:
        return dict(pieces[0])
    return {name: _joined([piece[name] for piece in pieces]) for name in pieces[0]}


def _joined(columns: list[Column]) -> Column:
    values = {int(column[0]) if is_constant(column) else None for column in columns if len(column)}
    if len(values) == 1 and (value := values.pop()) is not None:
        return constant(value, sum(map(len, columns)))
    return np.concatenate(columns)


class Keying(Protocol):
    """The columns that group rows, such as a scope."""

    @property
    def key(self) -> Callable[[Columns], tuple[Column, Column]]:
        """Two integers of each row."""
        ...


def by_bucket(
    columns: Columns, scope: Keying, buckets: int, wanted: Bools
) -> Iterator[tuple[int, Ints]]:
    """Rows of a scope, by the bucket that their key falls into, and in it by key and process.

    All rows of a key fall into one bucket, the same one on every machine.
    """
    rows = np.flatnonzero(wanted)
    if not len(rows):
        return
    keys = [take(key, rows) for key in (columns["run"], *scope.key(columns))]
    order = order_by(*keys, take(columns["process"], rows))
    first = firsts(*(take(key, order) for key in keys))
    bucket = bucket_of([take(key, order[first]) for key in keys], buckets)
    bucket = bucket[np.cumsum(first) - 1]
    again = order_by(bucket)
    rows, bucket = rows[order[again]], bucket[again]
    for start, end in spans(bucket):
        yield int(bucket[start]), rows[start:end]


def spans(*sorted_columns: Column) -> Iterator[tuple[int, int]]:
    """The beginning and the end of each group, in rows sorted by these columns."""
    starts = np.flatnonzero(firsts(*sorted_columns)).tolist()
    return zip(starts, [*starts[1:], len(sorted_columns[0])][: len(starts)], strict=True)


def bucket_of(keys: Iterable[Column], buckets: int) -> Ints:
    """The bucket that each key falls into."""
    mixed = np.zeros(1, np.uint64)
    for key in keys:
        mixed = (mixed ^ key.astype(np.int64).view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed = mixed ^ (mixed >> np.uint64(29))
    return (mixed % np.uint64(buckets)).astype(np.int64)


def by_key(columns: Columns, scope: Keying) -> tuple[Lazy, list[tuple[int, int]]]:
    """The rows by key, in each process's own order, and where those of each key begin and end."""
    if not len(columns["op"]):
        return Lazy(0, lambda name: np.empty(0, np.int64)), []
    keys = (columns["run"], *scope.key(columns))
    order = _sorted(columns, keys)
    return _in_order(columns, order), list(spans(*(take(key, order) for key in keys)))


def refuse_merged_runs(rows: Lazy) -> None:
    """Raise `BadInput` if two calls bear one number, or one call is there twice: merged runs.

    The rows lie in the order of a key and of processes. Judged together, the records of one run
    would be lost, made up and out of order in the other.
    """
    again = ~firsts(*(rows[name] for name in ("run", "process", "seq")))
    if not again.any():
        return
    idx, inv = rows["idx"], rows["inv"]
    here = firsts(rows["topic"], rows["partition"])  # a send without partition is in each, as one
    again[1:] &= (inv[1:] != inv[:-1]) | ((idx[1:] <= idx[:-1]) & ~here[1:])
    if not again.any():
        return
    run, process, seq = (int(rows[name][again][0]) for name in ("run", "process", "seq"))
    raise BadInput(
        [
            Problem(
                "operations",
                None,
                "run",
                f"{run} has two calls with seq {seq} of process {process}, or one twice: number "
                "runs apart, as `highwater.read_ops` does, and give a mapping of these numbers to "
                "the runs",
            )
        ],
        1,
    )


def refuse_unknown(columns: Columns) -> Columns:
    """The same; raises `BadInput` if some row does not tell what every row of operations tells.

    Of flags that are not known each would be taken for set, and the row for one of another topic.
    """
    for name in NEVER_NONE:
        if name in columns and bool((columns[name] < 0).any()):
            problem = Problem("operations", None, name, "is null, or below 0, in some row")
            raise BadInput([problem], 1)
    return columns


def refuse_other_runs(runs: Ints, known: Collection[int]) -> None:
    """Raise `BadInput` if rows are of a run that nobody told how it was configured."""
    other = set(np.unique(runs).tolist()) - set(known)
    if other:
        numbers = ", ".join(map(str, sorted(known)))
        message = f"expected the number of a run that was given ({numbers}), found {min(other)}"
        raise BadInput([Problem("operations", None, "run", message)], 1)


def part(whole: Lazy, start: int, end: int) -> Lazy:
    """The rows of one key."""
    return Lazy(
        end - start,
        lambda name: whole[name][start:end],
        few=lambda name, rows: whole.pick(name, rows + start),
    )


def held(ops: Any) -> Lazy:
    """The columns of an Arrow table, each brought together when it is first asked for.

    What is lazy already stays as it is.
    """
    if isinstance(ops, Lazy):
        return ops
    names = set(ops.schema.names)

    def load(name: str) -> Ints:
        if name not in names:
            return constant(NONE, ops.num_rows)
        column: Any = _numpy(ops.column(name))
        return constant(int(column[0]), len(column)) if _is_one_value(column) else column

    return Lazy(ops.num_rows, load)


def _is_one_value(column: Column) -> bool:
    return len(column) > 0 and column[0] == column[-1] and bool((column == column[0]).all())


def _in_order(columns: Columns, order: Ints) -> Lazy:
    there = bool(np.all(order[1:] > order[:-1]))
    table = columns if isinstance(columns, Lazy) and columns.few is not None else None

    def load(name: str) -> Ints:
        column = columns[name]
        column = (column if there else take(column, order)).astype(np.int64, copy=False)
        return _in_file(column) if len(order) > LARGE and not is_constant(column) else column

    def few(name: str, rows: Ints) -> Ints:
        return table.pick(name, order[rows]) if table else load(name)[rows]

    return Lazy(len(order), load, few=few if table else None)


def _in_file(column: Ints) -> Ints:
    """The column in a file that has no name: what is not looked at need not be in memory."""
    cache = os.environ.get("HIGHWATER_CACHE") or None
    if cache is not None:
        os.makedirs(cache, exist_ok=True)
    with tempfile.TemporaryFile(prefix="highwater-", dir=cache) as file:
        try:
            file.write(np.ascontiguousarray(column).data.cast("B"))
            file.flush()
        except OSError as full:  # the system names no file of a full disk
            where = cache or tempfile.gettempdir()
            raise OSError(full.errno, full.strerror, where) from full
        return np.asarray(np.memmap(file, np.int64, "r+", shape=column.shape))


def _sorted(columns: Columns, keys: Sequence[Column]) -> Ints:
    """By key and process, and only if a process's own rows are not in order yet, by that too."""
    process, seq, idx = (columns[name] for name in ORDER)
    order = order_by(*keys, process)
    one = firsts(*(take(key, order) for key in (*keys, process)))
    seq, idx = take(seq, order), take(idx, order)
    forth = (seq[1:] > seq[:-1]) | ((seq[1:] == seq[:-1]) & (idx[1:] >= idx[:-1]))
    if bool(np.all(forth | one[1:])):
        return order
    return order_by(*keys, *(columns[name] for name in ORDER))
