"""Follows the files of a run: returns the calls appended since the last look.

A file of lines is read up to its last whole line. A compressed file and Parquet cannot be read
before they are closed. The journal of a recorder that still runs is read as it is; a call without
an answer is kept back until it has one, and comes later than its place in the program.
"""

import gzip
import zlib
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
from attrs import define, field

from traces.model.arrow import ArrowException, pq
from traces.model.problems import BadInput, Problem
from traces.record.entries import DamagedError, Entries, Line
from traces.record.journal import SUFFIX
from traces.record.settling import merged

Numbered = tuple[int, Any]  # a call with its line, 0 where it has none

#: So much of one file is read at a time, so that no file holds the others up.
MOST_BYTES = 2 << 20
LINES, CLOSED = (".ndjson",), (".ndjson.gz", ".parquet")


@define
class Following:
    """One file, and how far it was read."""

    path: Path

    @abstractmethod
    def new(self) -> Iterator[Numbered]:
        """The calls that came since the last time."""

    @property
    def more(self) -> bool:
        """True if more can be read at once."""
        return False


@define
class FollowedLines(Following):
    """A file of lines, which only grows."""

    line: int = 0
    _at: int = 0
    _more: bool = False

    @property
    def more(self) -> bool:
        return self._more

    def new(self) -> Iterator[Numbered]:
        size = self.path.stat().st_size
        if size < self._at:
            raise BadInput([self._problem(None, "the file has become shorter while it was read")])
        with self.path.open("rb") as file:
            file.seek(self._at)
            block = file.read(MOST_BYTES)
            if len(block) == MOST_BYTES and b"\n" not in block:
                block += file.readline()
        whole = block[: block.rfind(b"\n") + 1]
        self._at += len(whole)
        self._more = bool(whole) and self._at < size
        for text in whole.splitlines():
            self.line += 1
            if text.strip():
                yield self.line, self._parsed(text)

    def _parsed(self, text: bytes) -> Any:
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise BadInput([self._problem(self.line, f"expected JSON: {error.msg}")]) from error

    def _problem(self, line: int | None, message: str) -> Problem:
        return Problem(self.path.name, line, "", message)


@define
class Closed(Following):
    """A file that can be read only once it is whole; tried whenever its size has not changed."""

    _size: int = -1
    _read: bool = False
    _failed_at: int = -1

    def new(self) -> Iterator[Numbered]:
        size, before = self.path.stat().st_size, self._size
        self._size = size
        if self._read or size != before or size == self._failed_at:
            return
        try:
            calls = list(self._calls())
        except (EOFError, gzip.BadGzipFile, zlib.error, ArrowException, ValueError, KeyError):
            self._failed_at = size  # not whole yet; if it never is, the last judgement says so
            return
        self._read = True
        yield from enumerate(calls, 1)

    def _calls(self) -> Iterator[Any]:
        if self.path.name.endswith(".parquet"):
            for batch in pq.ParquetFile(self.path).iter_batches(10_000):
                for row in batch.to_pylist(maps_as_pydicts="strict"):
                    yield {k: v for k, v in row.items() if v is not None}
            return
        with gzip.open(self.path, "rb") as lines:
            for line in lines:
                if line.strip():
                    yield orjson.loads(line)


@define
class FollowedJournal(Following):
    """The journal of a recorder. Its calls come when they are answered, and so not in order."""

    head: Line = field(factory=dict[str, Any])
    #: Calls that were made and not answered, by their place.
    waiting: dict[int, Line] = field(factory=dict[int, Line])
    last_seq: int = -1
    _entries: Entries = field(init=False)
    _last_poll: Line = field(factory=dict[str, Any])

    def __attrs_post_init__(self) -> None:
        self._entries = Entries(self.path)

    def new(self) -> Iterator[Numbered]:
        # Half an entry, or a file that was settled and removed just now: there is nothing more.
        with suppress(DamagedError, FileNotFoundError):
            for entry in self._entries.new():
                if not self.head:
                    self.head = entry
                elif (call := self._answered(entry)) is not None:
                    yield 0, call

    def _answered(self, entry: Line) -> Line | None:
        seq = entry["seq"]
        self.last_seq = max(self.last_seq, seq)
        if entry.get("op") == "poll":
            self._last_poll = entry
        if "records_of" in entry:
            if entry["records_of"] != self._last_poll.get("seq"):
                self.waiting[seq] = entry  # of an earlier poll; the process file will tell
                return None
            del entry["records_of"]
            entry["records"] = self._last_poll["records"]
        call = merged(self.waiting.pop(seq, None), entry)
        if "outcome" not in call or "op" not in call:
            self.waiting[seq] = call
            return None
        about = {k: v for k, v in self.head.items() if k in ("role", "client", "configured")}
        about = {"process": self.head["process"], "clock": self.head["clock"], "recorder": about}
        return about | call


def following(path: Path) -> Following:
    """The reader that follows this file."""
    if path.name.endswith(SUFFIX):
        return FollowedJournal(path)
    return Closed(path) if path.name.endswith(CLOSED) else FollowedLines(path)


def stem(path: Path) -> str:
    """The file's name without its suffix: a journal becomes a file of the same name."""
    for suffix in (*CLOSED, *LINES, SUFFIX):
        if path.name.endswith(suffix):
            return path.name.removesuffix(suffix)
    return path.name
