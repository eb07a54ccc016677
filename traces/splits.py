"""Parquet files of operations, cut into pieces that a worker reads by itself.

Bringing rows from the JVM to Python costs more than reading them here: Spark is told where the
rows are, and never sees them.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow.fs
from attrs import frozen

from traces.arrow import pq
from traces.schema import NONE
from traces.scopes import Columns
from traces.table import constant, from_arrow

fs: Any = pyarrow.fs
ROWS_OF_A_TASK = 2_000_000
_ROWS_AT_ONCE = 1_000_000


@frozen
class Split:
    """One row group of one file."""

    uri: str
    group: int
    rows: int


def splits_of(paths: Iterable[str]) -> tuple[Split, ...]:
    """The row groups of these files, and of all Parquet files in these folders."""
    uris = [uri for path in paths for uri in _files(path)]
    with ThreadPoolExecutor(16) as pool:
        return tuple(split for splits in pool.map(_row_groups, uris) for split in splits)


def tasks(splits: Sequence[Split]) -> Iterator[list[Split]]:
    """Splits side by side, in portions that are worth a task each."""
    held: list[Split] = []
    for split in splits:
        if held and sum(s.rows for s in held) + split.rows > ROWS_OF_A_TASK:
            yield held
            held = []
        held.append(split)
    yield held


def read(
    splits: Iterable[Split], names: Sequence[str], ops: Collection[int] | None = None
) -> Iterator[Columns]:
    """These columns of these row groups, piece by piece; of those only that hold such calls."""
    for uri, several in groupby(splits, key=lambda split: split.uri):
        with pq.ParquetFile(_open(uri)) as file:
            for split in several:
                if ops is None or _holds(file, split.group, ops):
                    yield from _read(file, split.group, names)


def _holds(file: Any, group: int, ops: Collection[int]) -> bool:
    """Whether any of these calls is in a row group; its other columns need not be read if not."""
    called = file.read_row_group(group, columns=["op"], use_threads=False)["op"]
    return not set(called.unique().to_pylist()).isdisjoint(ops)


def _read(file: Any, group: int, names: Sequence[str]) -> Iterator[Columns]:
    same = _constants(file.metadata, group, names)
    varied = [name for name in names if name not in same] or ["op"]
    for batch in file.iter_batches(
        _ROWS_AT_ONCE, row_groups=[group], columns=varied, use_threads=False
    ):
        columns = {name: constant(value, batch.num_rows) for name, value in same.items()}
        yield from_arrow(batch, varied) | columns


def _constants(metadata: Any, group: int, names: Sequence[str]) -> dict[str, int]:
    """Columns that need not be read: not in the file, or the same value in every row."""
    found: dict[str, int] = dict.fromkeys(names, NONE)
    for number, name in enumerate(metadata.schema.names):
        if name in found:
            value = _constant(metadata.row_group(group).column(number).statistics)
            if value is None:
                del found[name]
            else:
                found[name] = value
    return found


def _constant(says: Any) -> int | None:
    """The one value of a column of a row group, if its statistics know that there is but one."""
    if says is None or not says.has_min_max or not says.has_null_count or says.null_count:
        return None
    return int(says.min) if says.min == says.max else None


def _files(path: str) -> list[str]:
    """The files that a path or URI names; what begins with _ or . is nobody's data."""
    system, inside = _system(path)
    if system.get_file_info(inside).type == fs.FileType.File:
        return [path]
    below = system.get_file_info(fs.FileSelector(inside, recursive=True))
    prefix = path[: len(path) - len(inside)] if path.endswith(inside) else ""
    names = sorted(one.path for one in below if one.type == fs.FileType.File)
    return [f"{prefix}{n}" for n in names if n.endswith(".parquet") and _shown(n, inside)]


def _shown(name: str, folder: str) -> bool:
    return not any(part[0] in "_." for part in Path(name).relative_to(folder).parts)


def _row_groups(uri: str) -> list[Split]:
    with pq.ParquetFile(_open(uri)) as file:
        groups = range(file.num_row_groups)
        return [Split(uri, n, file.metadata.row_group(n).num_rows) for n in groups]


def _open(uri: str) -> Any:
    system, inside = _system(uri)
    return system.open_input_file(inside)


def _system(uri: str) -> tuple[Any, str]:
    """The file system of a path or URI, and the path inside it."""
    if "://" in uri or uri.startswith("file:"):
        return fs.FileSystem.from_uri(uri)
    return fs.LocalFileSystem(), str(Path(uri).absolute())
