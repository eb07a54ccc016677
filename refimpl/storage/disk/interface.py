"""The interface of a disk as the log uses it, and a disk in memory.

A path is relative to one log directory and uses `/`. Every failure is an `OSError`. As on POSIX, a
file's bytes survive a crash after `flush`, and its name, or its deletion, after `flush_folder`.
"""

import errno
from collections.abc import Mapping, Sequence
from typing import Protocol

from attrs import define, field

Buffer = bytes | bytearray | memoryview


class Disk(Protocol):
    """A log directory: files that are appended to, truncated, renamed and deleted."""

    def append(self, path: str, *parts: Buffer) -> None:
        """Append the parts one after the other; the file is created if it does not exist."""
        ...

    def overwrite(self, path: str, content: Buffer) -> None:
        """Write a small file anew; the old content goes, if there is one."""
        ...

    def read(self, path: str, position: int, length: int) -> bytes:
        """Read at most so many bytes, fewer only at the end of the file."""
        ...

    def size(self, path: str) -> int:
        """The size of the file in bytes."""
        ...

    def flush(self, path: str) -> None:
        """Return once the file's bytes, and its length, will survive a crash."""
        ...

    def truncate(self, path: str, size: int) -> None:
        """Truncate the file to this size; a file that is not longer stays as it is."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Rename a file or a folder, replacing a file of the new name."""
        ...

    def delete(self, path: str) -> None:
        """Delete a file."""
        ...

    def list_files(self, folder: str) -> dict[str, int]:
        """The files in a folder, by name, with their sizes."""
        ...

    def folders(self) -> list[str]:
        """The folders in the log directory."""
        ...

    def make_folder(self, folder: str) -> None:
        """Make a folder, unless it exists."""
        ...

    def delete_folder(self, folder: str) -> None:
        """Remove an empty folder."""
        ...

    def flush_folder(self, folder: str) -> None:
        """Return once the names in this folder will survive a crash; `""` is the directory."""
        ...

    def flush_together(self, files: Sequence[str], folders: Sequence[str]) -> None:
        """Flush each of these files and folders; the order is the disk's."""
        ...


def replace_file(disk: Disk, path: str, content: bytes) -> None:
    """Write a small file so that a crash leaves either the old content or the new."""
    folder, _, _ = path.rpartition("/")
    temporary = _write_beside(disk, path, content)
    disk.flush(temporary)
    disk.rename(temporary, path)
    disk.flush_folder(folder)


def replace_files(disk: Disk, files: Mapping[str, bytes], folders: Sequence[str] = ()) -> None:
    """Write many small files, each as `replace_file` does; the names in these folders survive a
    crash, too.
    """
    temporary = {path: _write_beside(disk, path, content) for path, content in files.items()}
    disk.flush_together(tuple(temporary.values()), ())
    for path, written in temporary.items():
        disk.rename(written, path)
    own = dict.fromkeys(path.rpartition("/")[0] for path in files)
    disk.flush_together((), (*own, *folders))


def _write_beside(disk: Disk, path: str, content: bytes) -> str:
    """Write a temporary file, in place of a leftover of a crash; return its path."""
    temporary = f"{path}.tmp"
    disk.overwrite(temporary, content)
    return temporary


def read_file(disk: Disk, path: str) -> bytes:
    """The whole content of a small file."""
    return disk.read(path, 0, disk.size(path))


@define(eq=False)
class MemoryDisk:
    """A disk in memory: nothing is lost, because nothing crashes."""

    files: dict[str, bytearray] = field(factory=dict[str, bytearray])
    directories: set[str] = field(factory=set[str])

    def append(self, path: str, *parts: Buffer) -> None:
        """Append the parts."""
        content = self.files.get(path)
        if content is None:
            self._must_have_folder(path)
            content = self.files[path] = bytearray()
        for part in parts:
            content += part

    def overwrite(self, path: str, content: Buffer) -> None:
        """Write a small file anew."""
        if path in self.files:
            self.truncate(path, 0)
        self.append(path, content)

    def read(self, path: str, position: int, length: int) -> bytes:
        """Read at most so many bytes."""
        if position < 0 or length < 0:
            raise OSError(errno.EINVAL, "Invalid argument", path)
        return bytes(memoryview(self._content(path))[position : position + length])

    def size(self, path: str) -> int:
        """The size of the file in bytes."""
        return len(self._content(path))

    def flush(self, path: str) -> None:
        """Do nothing, if the file exists."""
        self._content(path)

    def truncate(self, path: str, size: int) -> None:
        """Truncate the file."""
        del self._content(path)[size:]

    def rename(self, old: str, new: str) -> None:
        """Rename a file, or a folder with all its files."""
        if old in self.directories:
            self.directories.remove(old)
            self.directories.add(new)
            for path in [path for path in self.files if path.startswith(f"{old}/")]:
                self.files[new + path[len(old) :]] = self.files.pop(path)
        else:
            self._content(old)
            self._must_have_folder(new)
            self.files[new] = self.files.pop(old)

    def delete(self, path: str) -> None:
        """Delete a file."""
        self._content(path)
        del self.files[path]

    def list_files(self, folder: str) -> dict[str, int]:
        """The files in a folder."""
        prefix = f"{folder}/" if folder else ""
        self._must_have_folder(prefix)
        start = len(prefix)
        return {
            path[start:]: len(content)
            for path, content in self.files.items()
            if path.startswith(prefix) and "/" not in path[start:]
        }

    def folders(self) -> list[str]:
        """The folders in the log directory."""
        return sorted(self.directories)

    def make_folder(self, folder: str) -> None:
        """Make a folder."""
        self.directories.add(folder)

    def delete_folder(self, folder: str) -> None:
        """Remove an empty folder."""
        if self.list_files(folder):
            raise OSError(f"{folder} is not empty")
        self.directories.remove(folder)

    def flush_folder(self, folder: str) -> None:
        """Do nothing, if the folder exists."""
        self._must_have_folder(f"{folder}/" if folder else "")

    def flush_together(self, files: Sequence[str], folders: Sequence[str]) -> None:
        """Flush one after the other."""
        for path in files:
            self.flush(path)
        for folder in folders:
            self.flush_folder(folder)

    def _must_have_folder(self, path: str) -> None:
        folder = path.rpartition("/")[0]
        if folder and folder not in self.directories:
            raise FileNotFoundError(f"{path}: there is no such folder")

    def _content(self, path: str) -> bytearray:
        try:
            return self.files[path]
        except KeyError:
            raise FileNotFoundError(f"{path}: there is no such file") from None
