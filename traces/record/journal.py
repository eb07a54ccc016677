"""The journal of one process: what it did, in memory that outlives it.

A line is copied into a file that is mapped into memory, so it costs no system call and no thread,
and it is safe from the moment that the copy is made: killing the process loses nothing. Batches
written with a delay would lose the last calls of a killed process, and a record that was sent and
not written down is one that a reader must call made up.

The file is locked as long as its process lives. The kernel lets go of the lock whatever happens,
so that `settle` knows, without being told, who is still running and who has died.
"""

import fcntl
import mmap
import os
import warnings
from pathlib import Path
from threading import Lock

from attrs import define, field

SUFFIX = ".journal"
STOPPED = b'\n{"stopped":true}\n'
#: How much is mapped at a time; the space is reserved before it is written, so that a full disk
#: is an error that we can handle and not a signal that ends the application.
WINDOW = 4 << 20


class RecordingStoppedWarning(UserWarning):
    """The disk is full, or the file is gone: the application goes on, its recording does not."""


@define
class Journal:
    """Lines appended to a mapped file, by any thread."""

    path: Path
    _descriptor: int = -1
    _map: mmap.mmap | None = None
    _start: int = 0
    _at: int = WINDOW
    _lock: Lock = field(factory=Lock)

    def __attrs_post_init__(self) -> None:
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._start = -WINDOW

    def append(self, line: bytes) -> None:
        """Add one line, its end included."""
        with self._lock:
            at = self._at
            end = at + len(line)
            if end <= WINDOW and self._map is not None:
                self._map[at:end] = line
                self._at = end
            else:
                self._append_slowly(line)

    def close(self) -> None:
        """Cut the file to what was written and let go of it."""
        with self._lock:
            if self._descriptor < 0:
                return
            if self._map is not None:
                self._map.close()
                self._map = None
            os.ftruncate(
                self._descriptor, max(self._start, 0) + self._at if self._start >= 0 else 0
            )
            os.close(self._descriptor)
            self._descriptor = -1

    def _append_slowly(self, line: bytes) -> None:
        """Across the end of a window, or at the very start."""
        while line and self._descriptor >= 0:
            if self._at == WINDOW:
                self._next_window()
                continue
            assert self._map is not None
            part = line[: WINDOW - self._at]
            self._map[self._at : self._at + len(part)] = part
            self._at += len(part)
            line = line[len(part) :]

    def _next_window(self) -> None:
        start = self._start + WINDOW
        try:
            _reserve(self._descriptor, start)
            following = mmap.mmap(self._descriptor, WINDOW, offset=start)
        except OSError as error:
            self._stop()
            message = f"{self.path.name}: recording has stopped: {error.strerror}"
            warnings.warn(message, RecordingStoppedWarning, stacklevel=5)
            return
        if self._map is not None:
            self._map.close()
        self._map, self._start, self._at = following, start, 0

    def _stop(self) -> None:
        """Say so at the end of the file, over the last line: what follows is not written down."""
        if self._map is not None:
            self._map[-len(STOPPED) :] = STOPPED
            self._map.close()
            self._map = None
        os.close(self._descriptor)
        self._descriptor = -1


def _reserve(descriptor: int, start: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, start, WINDOW)
    else:
        os.pwrite(descriptor, bytes(WINDOW), start)
