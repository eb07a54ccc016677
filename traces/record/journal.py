"""The journal of one process: what it did, in memory that outlives it.

An entry is copied into a file that is mapped into memory, so it costs no system call and no thread,
and it is safe from the moment that the copy is made: killing the process loses nothing. Batches
written with a delay would lose the last calls of a killed process, and a record that was sent and
not written down is one that a reader must call made up. A machine that goes down keeps some blocks
of the file and loses others; each entry has a checksum, so that none is read of which anything was
lost.

The file is locked as long as its process lives. The kernel lets go of the lock whatever happens,
so that `settle` knows, without being told, who is still running and who has died.
"""

import fcntl
import mmap
import os
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Final
from zlib import crc32

from traces.record.entries import (
    FILL,
    FILLED,
    KEYED,
    LINE,
    MARK,
    REPORT,
    REPORTED,
    REPORTS,
    SEND,
    SEND_KEYED,
    SENT,
    SIZE,
    STOPPED,
    SUM,
    checksum,
    trailers,
)

SUFFIX = ".journal"
#: How much is mapped at a time; the space is reserved before it is written, so that a full disk
#: is an error that we can handle and not a signal that ends the application.
WINDOW = 4 << 20
#: What every window keeps free, to tell where the next one begins.
_ROOM: Final = FILL.size + 8

now = time.monotonic_ns

# Looked up once: what is done for every message is most of what recording costs.
_pack_send, _pack_keyed, _pack_sum = SEND.pack, SEND_KEYED.pack, SUM.pack_into
_SENT_SIZE = SEND_KEYED.size - SIZE.size
_SENT_LENGTH = SUM.size + SEND.size
_REPORT_SIZE = REPORTS.size + 32
_TRAILERS = {tag: trailers(tag) for tag in (LINE, REPORTED)}
_OF_KEYS = trailers(KEYED)


class RecordingStoppedWarning(UserWarning):
    """The disk is full, or the file is gone: the application goes on, its recording does not."""


@dataclass(slots=True)
class Journal:
    """Entries appended to a mapped file, by any thread."""

    path: Path
    window: int | None = None
    _descriptor: int = -1
    _map: mmap.mmap | None = None
    _start: int = 0
    _size: int = 0
    _limit: int = 0  # how far entries of this window may go
    _at: int = 0
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def append(self, body: bytes, tag: bytes = LINE) -> None:
        """Add one entry: a line of JSON, or what its tag says."""
        size = len(body)
        self.put(SIZE.pack(size) + body + _TRAILERS[tag][size & 7])

    def append_send(self, context: int, seq: int, id: int, key: bytes | None, invoked: int) -> None:
        """Add the entry of a send. It is paid for with every message: `put` is spelt out here."""
        if key is None:
            entry = _pack_send(_SENT_SIZE, context, seq, invoked, id, SENT)
            end = _SENT_LENGTH
        else:
            size = _SENT_SIZE + len(key)
            entry = _pack_keyed(size, context, seq, invoked, id) + key + _OF_KEYS[size & 7]
            end = len(entry) + 4
        found = crc32(entry) or 1
        lock = self._lock
        lock.acquire()
        try:
            at = self._at
            end += at
            if end <= self._limit:
                window: Any = self._map
                window[at + 4 : end] = entry
                _pack_sum(window, at, found)
                self._at = end
            elif self._descriptor >= 0:
                self._put_in_next_window(entry)
        finally:
            lock.release()

    def append_report(self, seq: int, partition: int, offset: int, timestamp: int) -> None:
        """Add the entry of one acknowledgement."""
        numbers = (seq, partition, offset, timestamp)
        self.put(REPORT.pack(_REPORT_SIZE, now(), *numbers, REPORTED))

    def close(self) -> None:
        """Let go of the file, without the space that was reserved behind its last entry.

        Whoever settles the journal would read that, as long as it is a few MB of zeros.
        """
        with self._lock:
            if self._descriptor >= 0:
                if self._map is not None:
                    os.ftruncate(self._descriptor, self._start + self._at + SUM.size)
                self._let_go()

    def put(self, entry: bytes) -> None:
        """Add an entry from its size to its tag; its checksum comes when all else is there.

        So an entry in the middle of which the process was killed begins with nothing, and is none.
        """
        end, found = len(entry) + 4, crc32(entry) or 1
        lock = self._lock
        lock.acquire()
        try:  # costs nothing; and the application may be interrupted in here
            at = self._at
            end += at
            if end <= self._limit:
                window: Any = self._map  # there is one, if there is room
                window[at + 4 : end] = entry
                _pack_sum(window, at, found)
                self._at = end
            elif self._descriptor >= 0:
                self._put_in_next_window(entry)
        finally:
            lock.release()

    def _put_in_next_window(self, entry: bytes) -> None:
        before, at, left = self._map, self._at, self._size - self._at
        if not self._next_window(SUM.size + len(entry)):
            return
        self._at = _write(self._map, self._at, entry)
        if before is not None:
            left -= SUM.size + FILL.size
            _write(before, at, FILL.pack(SIZE.size, left, FILLED))

    def _next_window(self, least: int) -> bool:
        start, window = self._start + self._size, self.window or WINDOW
        size = -(-(len(MARK) + least + _ROOM) // window) * window
        try:
            _reserve(self._descriptor, start, size)
            following = mmap.mmap(self._descriptor, size, offset=start)
        except OSError as error:
            # The first page is there: that it stops can still be told in it.
            os.pwrite(self._descriptor, STOPPED, 0)
            self._let_go()
            message = f"{self.path.name}: recording has stopped: {error.strerror}"
            warnings.warn(message, RecordingStoppedWarning, stacklevel=6)
            return False
        following[: len(MARK)] = MARK
        self._map, self._start, self._size = following, start, size
        self._at, self._limit = len(MARK), size - _ROOM
        return True

    def _let_go(self) -> None:
        os.close(self._descriptor)
        self._descriptor, self._map, self._limit = -1, None, 0


def _write(window: Any, at: int, entry: bytes) -> int:
    end = at + SUM.size + len(entry)
    window[at + SUM.size : end] = entry
    _pack_sum(window, at, checksum(entry))
    return end


def _reserve(descriptor: int, start: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, start, size)
    else:
        os.pwrite(descriptor, bytes(size), start)
