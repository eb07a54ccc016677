"""Parquet files of operations, cut into pieces that a worker reads by itself.

Bringing rows from the JVM to Python costs more than reading them here: Spark is told where the
rows are, and never sees them.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.fs
from attrs import evolve, frozen

from traces.model.arrow import ArrowException, pq
from traces.model.columns import Columns
from traces.model.context import Ints
from traces.model.problems import BadInput, Problem, Problems
from traces.model.schema import NONE, wrong_columns
from traces.model.table import constant, from_arrow

fs: Any = pyarrow.fs
ROWS_OF_A_TASK = 2_000_000
_ROWS_AT_ONCE = 1_000_000
_FEWEST_ROWS = 50_000  # of a piece, but for the last one


@frozen
class Split:
    """One row group of one file."""

    uri: str
    group: int
    rows: int
    run: int | None = None  # its run's number, where the file does not know it


def splits_of(paths: Iterable[str]) -> tuple[Split, ...]:
    """The row groups of these files, and of all Parquet files in these folders.

    Of several folders that `highwater ingest` made, or of files in them, each folder is a run,
    numbered as they come: in its own rows each is run 0. Raises `BadInput` where there are none, or
    a file holds something else.
    """
    ingested: dict[str, bool] = {}
    found = [one for path in paths for one in _files(_absolute(path), ingested)]
    roots = list(dict.fromkeys(root for _, root in found if root is not None))
    runs = {root: number for number, root in enumerate(roots)} if len(roots) > 1 else {}
    with ThreadPoolExecutor(16) as pool:
        several = pool.map(_row_groups, (uri for uri, _ in found))
        return tuple(
            split if root is None or not runs else evolve(split, run=runs[root])
            for (_, root), splits in zip(found, several, strict=True)
            for split in splits
        )


@frozen(eq=False)
class SplitPlan:
    """Splits side by side, in portions that are worth a task each.

    Every task is sent the whole plan, so it is columns of numbers, and each file is named once.
    """

    uris: tuple[str, ...]
    file: Ints  # of each split, by number
    group: Ints
    rows: Ints
    run: Ints  # NONE where the file knows it
    starts: Ints  # of each task, its first split; and the end

    @classmethod
    def of(cls, splits: Sequence[Split]) -> "SplitPlan":
        """The plan for these."""
        uris = {uri: number for number, uri in enumerate(dict.fromkeys(s.uri for s in splits))}
        numbers = [(uris[s.uri], s.group, s.rows, NONE if s.run is None else s.run) for s in splits]
        file, group, count, run = np.array(numbers, np.int64).reshape(-1, 4).T
        starts, held = [0], 0
        for n, rows in enumerate(count.tolist()):
            if n > starts[-1] and held + rows > ROWS_OF_A_TASK:
                starts.append(n)
                held = 0
            held += rows
        return cls(tuple(uris), file, group, count, run, np.array([*starts, len(splits)]))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, task: int) -> list[Split]:
        """The splits of one task."""
        mine = range(*self.starts[task : task + 2].tolist())
        return [
            Split(
                self.uris[int(self.file[n])],
                int(self.group[n]),
                int(self.rows[n]),
                None if self.run[n] == NONE else int(self.run[n]),
            )
            for n in mine
        ]


def read(
    splits: Iterable[Split], names: Sequence[str], ops: Collection[int] | None = None
) -> Iterator[Columns]:
    """These columns of these row groups, piece by piece; of those only that hold such calls.

    Small row groups side by side are one piece: each piece costs something, whatever its rows.
    """
    held, rows = list[Columns](), 0
    for piece in _pieces(splits, names, ops):
        held.append(piece)
        rows += len(piece[names[0]])
        if rows >= _FEWEST_ROWS:
            yield joined(held)
            held, rows = [], 0
    if held:
        yield joined(held)


def joined(pieces: Sequence[Columns]) -> Columns:
    """These pieces as one."""
    if len(pieces) == 1:
        return pieces[0]
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}


def _pieces(
    splits: Iterable[Split], names: Sequence[str], ops: Collection[int] | None
) -> Iterator[Columns]:
    for uri, several in groupby(splits, key=lambda split: split.uri):
        with pq.ParquetFile(opened(uri)) as file:
            for split in several:
                if ops is None or _holds(file, split.group, ops):
                    yield from _read(file, split, names)


def _holds(file: Any, group: int, ops: Collection[int]) -> bool:
    """True if any of these calls is in a row group; otherwise its other columns are not read."""
    called = file.read_row_group(group, columns=["op"], use_threads=False)["op"]
    return not set(called.unique().to_pylist()).isdisjoint(ops)


def _read(file: Any, split: Split, names: Sequence[str]) -> Iterator[Columns]:
    group, same = split.group, constants(file.metadata, split.group, names)
    if split.run is not None and "run" in names:
        same["run"] = split.run
    varied = [name for name in names if name not in same] or ["op"]
    for batch in file.iter_batches(
        _ROWS_AT_ONCE, row_groups=[group], columns=varied, use_threads=False
    ):
        columns = {name: constant(value, batch.num_rows) for name, value in same.items()}
        columns = from_arrow(batch, varied) | columns
        yield {name: columns[name] for name in names}


def constants(metadata: Any, group: int, names: Sequence[str]) -> dict[str, int]:
    """Columns that need not be read: the same value in every row."""
    found: dict[str, int] = {}
    for number, name in enumerate(metadata.schema.names):
        if name in names:
            value = constant_of(metadata.row_group(group).column(number).statistics)
            if value is not None:
                found[name] = value
    return found


def constant_of(says: Any) -> int | None:
    """The one value of a column of a row group, if its statistics know that there is but one."""
    if says is None or not says.has_min_max or not says.has_null_count or says.null_count:
        return None
    return int(says.min) if says.min == says.max else None


def _files(path: str, ingested: dict[str, bool]) -> list[tuple[str, str | None]]:
    """The files that a path or URI names, and of each the ingested folder that it is of, if any.

    What begins with _ or . is nobody's data. `ingested` remembers which folders were made so.
    """
    system, inside = _system(path)
    found = system.get_file_info(inside).type
    if found == fs.FileType.NotFound:
        raise BadInput([Problem(path, None, "", "there is no such file or folder")], 1)
    if found == fs.FileType.File:
        folder = path.rpartition("/")[0]
        if folder not in ingested:
            beside = system.get_file_info(inside.rpartition("/")[0] + "/run.json")
            ingested[folder] = beside.type == fs.FileType.File
        return [(path, folder if ingested[folder] else None)]
    below = system.get_file_info(fs.FileSelector(inside, recursive=True))
    prefix = path[: len(path) - len(inside)] if path.endswith(inside) else ""
    names = sorted(one.path for one in below if one.type == fs.FileType.File)
    roots = {str(Path(name).parent) for name in names if name.endswith("/run.json")}
    names = [n for n in names if n.endswith(".parquet") and _shown(n, inside)]
    if not names:
        raise BadInput([Problem(path, None, "", "expected Parquet files of operations")], 1)
    parents = [str(Path(name).parent) for name in names]
    return [
        (f"{prefix}{name}", f"{prefix}{parent}" if parent in roots else None)
        for name, parent in zip(names, parents, strict=True)
    ]


def _absolute(path: str) -> str:
    """The path from the root: a worker has another working directory."""
    return path if "://" in path or path.startswith("file:") else str(Path(path).absolute())


def _shown(name: str, folder: str) -> bool:
    return not any(part[0] in "_." for part in Path(name).relative_to(folder).parts)


def _row_groups(uri: str) -> list[Split]:
    try:
        found = pq.ParquetFile(opened(uri))
    except (ArrowException, UnicodeDecodeError) as error:
        raise BadInput([Problem(uri, None, "", f"expected Parquet: {error}")], 1) from error
    with found as file:
        problems = Problems()
        for name, message in wrong_columns(file.schema_arrow):
            problems.add(uri, None, name, message)
        problems.raise_any()
        groups = range(file.num_row_groups)
        return [Split(uri, n, file.metadata.row_group(n).num_rows) for n in groups]


def opened(uri: str) -> Any:
    """A file to read from, by path or URI."""
    system, inside = _system(uri)
    return system.open_input_file(inside)


def _system(uri: str) -> tuple[Any, str]:
    """The file system of a path or URI, and the path inside it."""
    if "://" in uri or uri.startswith("file:"):
        return fs.FileSystem.from_uri(uri)
    return fs.LocalFileSystem(), str(Path(uri).absolute())
