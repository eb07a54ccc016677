"""The journal of one process: what it did, in memory that outlives it.

An entry is copied into a file that is mapped into memory, so it costs no system call and no thread,
and it is safe from the moment that the copy is made: killing the process loses nothing. Batches
written with a delay would lose the last calls of a killed process, and a record that was sent and
not written down is one that a reader must call made up.

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
from typing import Any

from traces.record.entries import REPORT, REPORTED, SEND, SENT

SUFFIX = ".journal"
#: How every journal begins, and how one begins that could not be continued.
BEGINS = b'{"journal":1,'
STOPPED = b'{"journal":0,'
#: How much is mapped at a time; the space is reserved before it is written, so that a full disk
#: is an error that we can handle and not a signal that ends the application.
WINDOW = 4 << 20

now = time.monotonic_ns


class RecordingStoppedWarning(UserWarning):
    """The disk is full, or the file is gone: the application goes on, its recording does not."""


@dataclass(slots=True)
class Journal:
    """Entries appended to a mapped file, by any thread."""

    path: Path
    _descriptor: int = -1
    _map: mmap.mmap | None = None
    _start: int = 0
    _size: int = 0
    _at: int = 0
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def append(self, entry: bytes, kind: int = 0) -> None:
        """Add one entry. Its kind takes the place of its first byte, when all else is there.

        So an entry in the middle of which the process was killed begins with nothing, and is none.
        """
        lock = self._lock
        lock.acquire()
        try:  # costs nothing; and the application may be interrupted in here
            at = self._at
            end = at + len(entry)
            if end <= self._size:
                window = self._map
                window[at:end] = entry  # type: ignore[index]  # there is one, if there is room
                if kind:
                    window[at] = kind  # type: ignore[index]
                self._at = end
            else:
                self._append_slowly(entry, kind)
        finally:
            lock.release()

    def append_send(self, context: int, seq: int, id: int, key: bytes | None) -> None:
        """Add the entry of a send, made where it stays: it is paid for with every message."""
        length = -1 if key is None else len(key)
        lock = self._lock
        lock.acquire()
        try:
            at = self._at
            start = at + SEND.size
            end = start if key is None else start + length
            if end <= self._size:
                window: Any = self._map
                SEND.pack_into(window, at, 0, length, context, seq, now(), id)
                if key is not None:
                    window[start:end] = key
                window[at] = SENT
                self._at = end
            else:
                packed = SEND.pack(0, length, context, seq, now(), id)
                self._append_slowly(packed + (key or b""), SENT)
        finally:
            lock.release()

    def append_report(self, seq: int, partition: int, offset: int, timestamp: int) -> None:
        """Add the entry of one acknowledgement, made where it stays."""
        lock = self._lock
        lock.acquire()
        try:
            at = self._at
            end = at + REPORT.size
            if end <= self._size:
                window: Any = self._map
                REPORT.pack_into(window, at, 0, 1, now(), seq, partition, offset, timestamp)
                window[at] = REPORTED
                self._at = end
            else:
                packed = REPORT.pack(0, 1, now(), seq, partition, offset, timestamp)
                self._append_slowly(packed, REPORTED)
        finally:
            lock.release()

    def close(self) -> None:
        """Cut the file to what was written and let go of it."""
        with self._lock:
            if self._descriptor < 0:
                return
            os.ftruncate(self._descriptor, self._start + self._at)
            self._let_go()

    def _append_slowly(self, entry: bytes, kind: int) -> None:
        """At the start of a new window; what is left of the old one is filled with empty lines."""
        if self._descriptor < 0 or not self._next_window(len(entry)):
            return
        assert self._map is not None
        self._map[: len(entry)] = entry
        if kind:
            self._map[0] = kind
        self._at = len(entry)

    def _next_window(self, least: int) -> bool:
        start, size = self._start + self._size, -(-least // WINDOW) * WINDOW
        try:
            _reserve(self._descriptor, start, size)
            following = mmap.mmap(self._descriptor, size, offset=start)
        except OSError as error:
            # The first page is there: that it stops can still be told in it.
            os.pwrite(self._descriptor, STOPPED, 0)
            self._let_go()
            message = f"{self.path.name}: recording has stopped: {error.strerror}"
            warnings.warn(message, RecordingStoppedWarning, stacklevel=5)
            return False
        if self._map is not None:
            self._map[self._at :] = b"\n" * (self._size - self._at)
        self._map, self._start, self._size, self._at = following, start, size, 0
        return True

    def _let_go(self) -> None:
        os.close(self._descriptor)
        self._descriptor, self._map, self._at = -1, None, self._size


def _reserve(descriptor: int, start: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, start, size)
    else:
        os.pwrite(descriptor, bytes(size), start)
