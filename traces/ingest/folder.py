"""A folder with the table of operations of one run, and how far it has come.

    part-*.parquet     the rows; each is one piece of one process file, in program order
    run.json           what the checks need beside them; there when everything is there
    _pieces/*.json     for each piece that was read: of which file, and what it says of itself
    _raw/*.parquet     the rows as they were read, of pieces to which the whole run had more to say
    _ids/, _extra/     texts of ids that are no numbers; fields that the format does not know
    _run/meta.json     as it was read
    _names.json        the numbers that names had before anything was read

Every file is written beside its place and then moved there, and the account of a piece comes last.
So whatever is there is whole, and what is missing is made again, the same to the byte.
"""

import os
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from pathlib import Path
from typing import Any
from uuid import uuid4

import attrs
import numpy as np
import orjson
from attrs import frozen

from traces.ingest.columns import table
from traces.ingest.files import Read
from traces.ingest.lines import JOURNAL, Piece
from traces.ingest.summary import Summary
from traces.model.arrow import pa, pq
from traces.model.columns import MutableColumns
from traces.model.meta import Meta
from traces.model.output import write_whole
from traces.model.schema import OPS

ROW_GROUP = 500_000
_BELOW = ("_pieces", "_raw", "_ids", "_extra")
RUN = "run.json"
_HALF = ".[pr_][aun]*.*"  # of part-*, run.json and _names.json
# Nearly all values are different: a dictionary of them would be built and thrown away.
_MANY = ("seq", "offset", "id", "inv", "ret", "timestamp", "sequence", "key", "hash", "end_inv")
_WRITING: Mapping[str, Any] = {
    "compression": "zstd",
    "row_group_size": ROW_GROUP,
    "use_dictionary": [name for name in OPS.names if name not in _MANY],
}
_IDS = pa.schema([("number", pa.int64()), ("id", pa.string())])
# Says of a part that its rows are no longer those that were read; their length may be the same.
_CHANGED = {"rows": "changed by what the whole run says"}
_EXTRA = pa.schema([("process", pa.string()), ("seq", pa.int64()), ("fields", pa.string())])


@frozen
class Ops:
    """The folder. Several tasks write into it at a time, each the files of its own pieces."""

    path: Path

    def prepare(self) -> None:
        """Make it, if it is not there, and remove files that a killed process left half written."""
        for below in (*_BELOW, "_run"):
            (self.path / below).mkdir(parents=True, exist_ok=True)
        for below in (*_BELOW, "_run", ""):
            for half in (self.path / below).glob(".*" if below else _HALF):
                half.unlink(missing_ok=True)

    def part(self, piece: Piece, kind: str = "") -> Path:
        """The path of a piece's rows."""
        return self.path / f"part-{stem(piece)}{'-' if kind else ''}{kind}.parquet"

    def _raw(self, piece: Piece) -> Path:
        """The path of a piece's rows as they were read."""
        aside = self._aside(piece)
        return aside if aside.exists() else self.part(piece)

    def _aside(self, piece: Piece) -> Path:
        return self.path / "_raw" / f"{stem(piece)}.parquet"

    def _ids(self, piece: Piece) -> Path:
        return self.path / "_ids" / f"{stem(piece)}.parquet"

    def _extra(self, piece: Piece) -> Path:
        return self.path / "_extra" / f"{stem(piece)}.parquet"

    def _sizes(self, piece: Piece) -> list[int | None]:
        """Of the files that a piece was read into, those that are there."""
        files = (self._raw(piece), self._ids(piece), self._extra(piece))
        return [file.stat().st_size if _as_read(file) else None for file in files]

    def _account(self, piece: Piece) -> Path:
        return self.path / "_pieces" / f"{stem(piece)}.json"

    def write(self, one: Read, state: Mapping[str, Any]) -> None:
        """Keep a piece that was read from a file in this state."""
        piece = one.summary.piece
        self._account(piece).unlink(missing_ok=True)
        self._aside(piece).unlink(missing_ok=True)
        if one.columns is not None:
            write_parquet(self.part(piece), _numbered(one.columns))
        if one.ids:
            texts = [orjson.dumps(id).decode() for id in one.ids.values()]
            ids = pa.table([pa.array(one.ids), pa.array(texts)], schema=_IDS)
            write_parquet(self._ids(piece), ids)
        if one.extra:
            process = [one.summary.process] * len(one.extra)
            extra = pa.table([process, *zip(*one.extra, strict=True)], schema=_EXTRA)
            write_parquet(self._extra(piece), extra)
        account = {"state": state, "sizes": self._sizes(piece), "summary": one.summary.as_json()}
        write_whole(self._account(piece), orjson.dumps(account))

    def summary(self, piece: Piece, state: Mapping[str, Any]) -> Summary | None:
        """The summary of a piece; None unless its file was in this state and its rows are there."""
        try:
            found = orjson.loads(self._account(piece).read_bytes())
            summary = Summary.from_json(found["summary"])
            there = self._sizes(piece) == found["sizes"]
            if found["state"] == state and there and summary.piece.end == piece.end:
                return summary
        except (OSError, orjson.JSONDecodeError, KeyError, TypeError):
            pass
        return None

    def load(self, summary: Summary, names: Sequence[str] | None = None) -> MutableColumns:
        """The rows of a piece as they were read."""
        wanted = None if names is None else list(names)
        with pq.ParquetFile(self._raw(summary.piece)) as file:
            rows = file.read(columns=wanted, use_threads=False)
        return {name: rows[name].to_numpy() for name in rows.column_names if name != "run"}

    def save(self, summary: Summary, columns: MutableColumns | None, kind: str = "") -> None:
        """Put rows in place of those that were read, if any; with a kind, beside them."""
        part, aside = self.part(summary.piece, kind), self._aside(summary.piece)
        if not kind and columns is None:
            if aside.exists():
                aside.replace(part)
            return
        if not kind and not aside.exists():
            part.replace(aside)
        if columns is not None:
            write_parquet(part, _numbered(columns).replace_schema_metadata(_CHANGED))

    def sweep(self, pieces: Iterable[Piece], kinds: Iterable[tuple[Piece, str]]) -> None:
        """Remove what belongs to none of these pieces."""
        mine = [*pieces]
        stems = {stem(piece) for piece in mine}
        parts = {self.part(piece).name for piece in mine}
        parts |= {self.part(piece, kind).name for piece, kind in kinds}
        for below in _BELOW:
            for path in (self.path / below).iterdir():
                if path.stem not in stems:
                    path.unlink()
        for path in self.path.glob("part-*.parquet"):
            if path.name not in parts:
                path.unlink()

    def parts(self) -> list[str]:
        """The files of the table."""
        return sorted(str(path) for path in self.path.glob("part-*.parquet"))

    def listing(self) -> str:
        """A hash of all files but the account of the run: if it is the same, so is the table."""
        found = [
            (str(path.relative_to(self.path)), path.stat().st_size)
            for folder in (self.path, *(self.path / below for below in _BELOW))
            for path in folder.iterdir()
            if path.is_file() and path.name != RUN
        ]
        return blake2b(orjson.dumps(sorted(found)), digest_size=12).hexdigest()

    def seeds(self, new: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
        """The names that were known before anything was read: those of the first time, if any."""
        path = self.path / "_names.json"
        if not path.exists():
            write_whole(path, orjson.dumps(new))
        return orjson.loads(path.read_bytes())

    def ids(self, numbers: set[int]) -> Iterator[tuple[int, str | int]]:
        """The ids of these numbers; one that is found twice is returned twice."""
        wanted = [("number", "in", sorted(numbers))]
        for path in sorted((self.path / "_ids").glob("*.parquet")):
            found = pq.read_table(path, filters=wanted, partitioning=None)
            for row in found.to_pylist():
                yield row["number"], orjson.loads(row["id"])


def _numbered(columns: MutableColumns) -> Any:
    return table({**columns, "run": np.zeros(len(columns["op"]), np.int64)})


def _as_read(file: Path) -> bool:
    """True if the file is there, and holds the rows as they were read."""
    if not file.exists():
        return False
    metadata = pq.read_schema(file).metadata
    return metadata is None or b"rows" not in metadata


def stem(piece: Piece) -> str:
    """A name for the files of a piece."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in piece.file)
    unlike = blake2b(piece.file.encode(), digest_size=4).hexdigest()
    return f"{plain[:80]}-{unlike}-{piece.start:015}"


def write_parquet(path: Path, rows: Any) -> None:
    """Write a Parquet file beside its place and move it there."""
    with _written_beside(path) as there:
        writing = _WRITING if rows.schema == OPS else {"compression": "zstd"}
        pq.write_table(rows, there, **writing)


@contextmanager
def _written_beside(path: Path) -> Generator[Path]:
    there = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        yield there
        with there.open("rb") as written:
            os.fsync(written.fileno())
        there.replace(path)
    finally:
        there.unlink(missing_ok=True)


def state_of(path: Path, beside: str) -> dict[str, Any]:
    """The state of a file: as long as it is the same, so are the rows of a piece of it."""
    found = path.stat()
    if path.name.endswith(JOURNAL):  # what is written into it changes neither size nor time
        return {"size": found.st_size, "read": time.time_ns(), "beside": beside}
    return {"size": found.st_size, "modified": found.st_mtime_ns, "beside": beside}


def beside(meta: Meta, seeds: Mapping[str, Any], size: int) -> str:
    """A hash of everything else that the rows of all pieces depend on."""
    free = ("run", "source", "complete", "faults", "processes")
    settings = attrs.asdict(meta, filter=lambda of, _: of.name not in free)
    said = orjson.dumps([settings, seeds, size, reader()], option=orjson.OPT_SORT_KEYS)
    return blake2b(said, digest_size=12).hexdigest()


_MODEL = ("names.py", "schema.py", "context.py", "meta.py", "lives.py", "sizes.py", "lacking.py")


@cache
def reader() -> str:
    """A hash of the reader's sources: another reader may make other rows of the same lines."""
    ours = files("traces")  # which may lie in a zip file, as Spark sends packages
    mine = [one for one in (ours / "ingest").iterdir() if one.name.endswith(".py")]
    sources = [*sorted(mine, key=lambda one: one.name), *(ours / "model" / name for name in _MODEL)]
    said = b"".join(source.read_bytes() for source in sources)
    return blake2b(said, digest_size=12).hexdigest()
