"""The lines of a process file, or of a piece of it: NDJSON, gzipped NDJSON, or Parquet.

A line belongs to the piece with its first byte, so that pieces of any size, read apart, have every
line exactly once. The journal of a recorder is read as the lines that it would become, and is one
piece. Compressed text can only be read from its start. It has pieces too, so that no task holds a
whole file, but one reader reads them all. In Parquet a piece is row groups, and a row counts as a
line.
"""

import gzip
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
from attrs import define, evolve, field, frozen

from traces.model.arrow import UNREADABLE, pq
from traces.record.entries import DamagedError
from traces.record.journal import SUFFIX as JOURNAL
from traces.record.settling import unsettled

SUFFIXES = (".ndjson", ".ndjson.gz", ".parquet", JOURNAL)
END = 2**63 - 1
_ROWS = 10_000


@frozen
class Piece:
    """Part of a file: bytes of its (decompressed) text, or row groups."""

    file: str
    start: int = 0
    end: int = END
    final: bool = True  # nothing comes after it


@frozen
class Broken:
    """A line that is not a call, and the reason."""

    message: str


@define
class Lines:
    """The calls of one piece, each with the number of its line in the piece."""

    piece: Piece
    raw: Iterable[bytes] | None = None
    rows: Iterable[list[dict[str, Any]]] = ()
    count: int = 0
    last: int = 0  # the last line that is not empty
    torn: str = ""

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        return self._of_rows() if self.raw is None else self._of_text(self.raw)

    def _of_text(self, raw: Iterable[bytes]) -> Iterator[tuple[int, Any]]:
        loads, number = orjson.loads, 0
        try:
            for number, line in enumerate(raw, 1):
                try:
                    call = loads(line)
                except orjson.JSONDecodeError as error:
                    if not line.strip():
                        continue
                    self.last = number
                    if line.endswith(b"\n"):
                        yield number, Broken(f"expected JSON: {error.msg}")
                    else:
                        self.torn = f"the last line is incomplete ({error.msg})"
                    continue
                self.last = number
                yield number, call
        except EOFError:
            self.torn = "the compressed file ends in the middle"
        except (gzip.BadGzipFile, zlib.error) as error:
            yield number + 1, Broken(f"expected gzip: {error}")
        self.count = number

    def _of_rows(self) -> Iterator[tuple[int, Any]]:
        try:
            for rows in self.rows:
                for row in rows:
                    self.count = self.last = self.count + 1
                    yield self.count, {k: v for k, v in row.items() if v is not None}
        except UNREADABLE as error:
            yield self.count + 1, Broken(f"expected Parquet: {error}")


def process_name(path: Path) -> str:
    """The process name for a file without a single call."""
    for suffix in sorted(SUFFIXES, key=len, reverse=True):
        if path.name.endswith(suffix):
            return path.name.removesuffix(suffix)
    return path.name


def pieces_of(path: Path, size: int) -> list[Piece]:
    """The pieces of a file that can be read apart; of a compressed one there is only the whole."""
    if path.name.endswith((".gz", JOURNAL)):
        return [Piece(path.name)]
    if path.name.endswith(".parquet"):
        return _row_groups(path, size)
    total = path.stat().st_size
    starts = range(0, max(total, 1), size)
    return [
        Piece(path.name, start, min(start + size, total), start + size >= total) for start in starts
    ]


def _row_groups(path: Path, size: int) -> list[Piece]:
    try:
        metadata = pq.read_metadata(path)
    except UNREADABLE:
        return [Piece(path.name)]  # whoever reads it will say what is wrong
    pieces: list[Piece] = []
    start = held = 0
    for end in range(1, metadata.num_row_groups + 1):
        held += metadata.row_group(end - 1).total_byte_size
        final = end == metadata.num_row_groups
        if held >= size or final:
            pieces.append(Piece(path.name, start, end, final))
            start, held = end, 0
    return pieces or [Piece(path.name)]


def readers(path: Path, piece: Piece, size: int) -> Iterator[Lines]:
    """The readers of a piece; a whole compressed file comes in pieces of this size, one by one.

    Lines that a reader has left are skipped before the next piece is handed out. The final piece is
    known only once it has been read.
    """
    if path.name.endswith(".gz"):
        yield from _Compressed(path, size).pieces()
    elif path.name.endswith(".parquet"):
        yield Lines(piece, rows=_parquet(path, piece))
    elif path.name.endswith(JOURNAL):
        lines = Lines(piece)
        lines.rows = _journal(path, lines)
        yield lines
    else:
        yield Lines(piece, _text(path, piece))


def _text(path: Path, piece: Piece) -> Iterator[bytes]:
    with path.open("rb", buffering=1 << 20) as lines:
        at = piece.start
        if at:
            lines.seek(at - 1)
            at += len(lines.readline()) - 1
        for line in lines:
            if at >= piece.end:
                return
            at += len(line)
            yield line


def _parquet(path: Path, piece: Piece) -> Iterator[list[dict[str, Any]]]:
    with pq.ParquetFile(path) as file:
        groups = range(piece.start, min(piece.end, file.num_row_groups))
        for batch in file.iter_batches(_ROWS, row_groups=list(groups)):
            yield batch.to_pylist(maps_as_pydicts="strict")


def _journal(path: Path, lines: Lines) -> Iterator[list[dict[str, Any]]]:
    """The calls in a journal so far; `lines.torn` is the reason why they are not all."""
    try:
        found = unsettled(path)
    except DamagedError as damaged:
        lines.torn = str(damaged).partition(": ")[2]
        return
    if found.damage:
        lines.torn = found.damage.partition(": ")[2]
    elif found.running:
        lines.torn = "its process still runs: the recording is not over"
    else:
        lines.torn = "its process is gone: run `highwater record-scan` first"
    while several := list(islice(found.lines, _ROWS)):
        yield several


@define
class _Compressed:
    """Decompresses a file once, piece by piece."""

    path: Path
    size: int
    at: int = 0
    held: list[bytes] = field(factory=list[bytes])  # the first line of the next piece
    ended: bool = False

    def pieces(self) -> Iterator[Lines]:
        start = 0
        with gzip.open(self.path, "rb") as lines:
            while not self.ended:
                end = start + self.size
                mine = Lines(Piece(self.path.name, start, end, False))
                mine.raw = self._until(lines, end, mine)
                yield mine
                with suppress(EOFError, gzip.BadGzipFile, zlib.error):
                    for _ in mine.raw:
                        pass
                start = end

    def _until(self, lines: Iterable[bytes], end: int, mine: Lines) -> Iterator[bytes]:
        if self.held and self.at >= end:
            return
        if self.held:
            self.at += len(self.held[0])
            yield self.held.pop()
        # Whatever ends the reading from here on ends it for good, unless there is a next line.
        self.ended, mine.piece = True, evolve(mine.piece, final=True)
        for line in lines:
            if self.at >= end:
                self.held.append(line)
                self.ended, mine.piece = False, evolve(mine.piece, final=False)
                return
            self.at += len(line)
            yield line
