"""Real files: the only module of the log that knows an operating system.

Appends go by `write` into the page cache, reads by `pread`. Nothing is mapped, so a log of any size
costs no memory. Descriptors are kept open; the least recently used are closed first.
"""

import ctypes
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from attrs import define, field

from refimpl.storage.disk.interface import Buffer

_PARTS_AT_ONCE = 1024  # IOV_MAX on Linux
_FLUSHED_AT_ONCE = 32
#: The number of files from which on the whole file system is flushed instead of each
MANY = 64
#: Their `syncfs` returns once everything is on the disk, or with an error of any file
_FLUSHED_AS_A_WHOLE = ("ext4", "xfs")
_ERRORS_ARE_TOLD = (5, 8)  # by syncfs, from this version of Linux on


@define(eq=False)
class FileDisk:
    """A log directory on a file system."""

    root: Path
    open_files: int = 512
    _handles: dict[str, int] = field(factory=dict[str, int], init=False)
    _prefix: str = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Note the beginning of every path as text: a Path for each takes longer than a write."""
        self._prefix = f"{self.root}/"

    def append(self, path: str, *parts: Buffer) -> None:
        """Append the parts, all of them or as far as the disk goes."""
        handle = self._handle(path, create=True)
        for start in range(0, len(parts), _PARTS_AT_ONCE):
            chunk = parts[start : start + _PARTS_AT_ONCE]
            wanted = sum(map(len, chunk))
            written = os.writev(handle, chunk)
            if written < wanted:
                _write_rest(handle, chunk, written)

    def overwrite(self, path: str, content: Buffer) -> None:
        """Write a small file anew; its descriptor is not kept."""
        self._close(path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        handle = os.open(self._prefix + path, flags, 0o644)
        try:
            _write_rest(handle, (content,), 0)
        finally:
            os.close(handle)

    def read(self, path: str, position: int, length: int) -> bytes:
        """Read at most so many bytes; one `pread` returns 2 GiB at most, and may return fewer."""
        handle = self._handle(path)
        data = os.pread(handle, length, position)
        while data and len(data) < length:
            more = os.pread(handle, length - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    def size(self, path: str) -> int:
        """The size of the file in bytes."""
        return os.stat(self._prefix + path).st_size

    def flush(self, path: str) -> None:
        """Flush the file's bytes and its length."""
        os.fdatasync(self._handle(path))

    def truncate(self, path: str, size: int) -> None:
        """Truncate the file."""
        handle = self._handle(path)
        os.ftruncate(handle, min(size, os.fstat(handle).st_size))

    def rename(self, old: str, new: str) -> None:
        """Rename a file or a folder."""
        os.replace(self._prefix + old, self._prefix + new)
        self._close(old)
        self._close(new)
        if "/" not in old:  # a partition's folder, maybe
            for path in [one for one in self._handles if one.startswith(f"{old}/")]:
                self._close(path)

    def delete(self, path: str) -> None:
        """Delete a file."""
        self._close(path)
        os.unlink(self._prefix + path)

    def list_files(self, folder: str) -> dict[str, int]:
        """The files in a folder."""
        with os.scandir(self._prefix + folder) as entries:
            return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}

    def folders(self) -> list[str]:
        """The folders in the log directory."""
        with os.scandir(self.root) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())

    def make_folder(self, folder: str) -> None:
        """Make a folder."""
        os.makedirs(self._prefix + folder, exist_ok=True)

    def delete_folder(self, folder: str) -> None:
        """Remove an empty folder."""
        os.rmdir(self._prefix + folder)

    def flush_folder(self, folder: str) -> None:
        """Flush the names in a folder; without this a new file may be gone after a crash."""
        flush_file(self._prefix + folder)

    def flush_together(self, files: Sequence[str], folders: Sequence[str]) -> None:
        """Flush all of them at once: a file system's journal is written for many as for one.

        Each flush of its own has the disk empty its cache, too, which for thousands takes many
        times as long as one for all.
        """
        paths = [self._prefix + path for path in (*files, *folders)]
        if len(paths) == 1:
            flush_file(paths[0])
            return
        if len(paths) >= MANY and is_flushed_as_a_whole(self._prefix):
            flush_file_system(self._prefix)
            return
        with ThreadPoolExecutor(max(1, min(_FLUSHED_AT_ONCE, len(paths)))) as threads:
            list(threads.map(flush_file, paths))

    def close(self) -> None:
        """Close all descriptors; they open again when needed."""
        for path in list(self._handles):
            self._close(path)

    def _handle(self, path: str, *, create: bool = False) -> int:
        handle = self._handles.pop(path, None)
        if handle is None:
            flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | (os.O_CREAT if create else 0)
            handle = os.open(self._prefix + path, flags, 0o644)
            if len(self._handles) >= self.open_files:
                self._close(next(iter(self._handles)))
        self._handles[path] = handle  # moved to the end: a dict remembers the order
        return handle

    def _close(self, path: str) -> None:
        handle = self._handles.pop(path, None)
        if handle is not None:
            os.close(handle)


@cache
def is_flushed_as_a_whole(path: str) -> bool:
    """True if one call flushes the file system of this path, and its failure is told."""
    if sys.platform != "linux":
        return False
    version = tuple(int(part) for part in os.uname().release.split(".")[:2])
    return version >= _ERRORS_ARE_TOLD and kind_of_file_system(path) in _FLUSHED_AS_A_WHOLE


def kind_of_file_system(path: str) -> str:
    """The kind of the file system that a path is on, as Linux names it; nothing if not known."""
    device = os.stat(path).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open("/proc/self/mountinfo") as mounts:
            lines = [line.split() for line in mounts]
    except OSError:
        return ""
    return next((line[line.index("-") + 1] for line in lines if line[2] == number), "")


def flush_file_system(path: str) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(handle) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), path)
    finally:
        os.close(handle)


def flush_file(path: str) -> None:
    """Flush a file or a folder's names, by a descriptor of its own, because others may close theirs
    meanwhile.
    """
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_rest(handle: int, parts: tuple[Buffer, ...], written: int) -> None:
    """Write the rest after a short write; it either fits, or raises the reason why not."""
    rest = memoryview(b"".join(parts))[written:]
    while rest:
        rest = rest[os.write(handle, rest) :]
