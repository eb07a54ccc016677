"""A disk that crashes and fails on cue.

It keeps flushed bytes apart from written ones. A crash keeps any prefix of each file's unflushed
changes, the last of them torn at any byte, and any prefix of the unflushed changes of names. That
is the promise of a journalling file system, and no more.
"""

import errno
from collections.abc import Callable, Sequence
from typing import NamedTuple

from attrs import define, evolve, field

from refimpl.storage.disk.interface import Buffer, MemoryDisk


class Change(NamedTuple):
    """Bytes appended to a file, or, if they are `None`, a truncation to `size`."""

    data: bytes | None = None
    size: int = 0


@define(eq=False)
class Inode:
    """A file apart from its name: its flushed bytes, and the changes since."""

    safe: bytes = b""
    changes: list[Change] = field(factory=list[Change])

    def after(self, count: int, torn_at: int | None = None, *, zeros: bool = False) -> bytes:
        """The content after a crash that kept so many changes, and of the last only `torn_at`
        bytes.

        With `zeros` the length of the torn write was kept, but not its bytes.
        """
        content = bytearray(self.safe)
        for number, change in enumerate(self.changes[:count], start=1):
            if change.data is None:
                del content[change.size :]
            elif number == count and torn_at is not None:
                content += change.data[:torn_at]
                content += bytes(len(change.data) - torn_at) * zeros
            else:
                content += change.data
        return bytes(content)


Names = dict[str, Inode]


@define(eq=False)
class CrashDisk(MemoryDisk):
    """The disk of the simulator and of the crash tests.

    `fail` is called before every operation and may return an errno. `capacity` is the size at which
    ENOSPC begins, in the middle of a write if need be, as on a real disk.
    """

    capacity: int | None = None
    fail: Callable[[str, str], int | None] | None = None
    operations: int = 0
    inodes: Names = field(factory=dict[str, Inode], init=False)
    safe_names: Names = field(factory=dict[str, Inode], init=False)
    safe_folders: set[str] = field(factory=set[str], init=False)
    name_changes: list[tuple[str, Names, set[str]]] = field(
        factory=list[tuple[str, Names, set[str]]], init=False
    )

    def __attrs_post_init__(self) -> None:
        """Count the initial files as flushed."""
        self.inodes = {path: Inode(bytes(content)) for path, content in self.files.items()}
        self.safe_names, self.safe_folders = dict(self.inodes), set(self.directories)

    def append(self, path: str, *parts: Buffer) -> None:
        """Write as much as there is room for."""
        self._step("append", path)
        data = b"".join(parts)
        room = len(data) if self.capacity is None else self.capacity - self.used
        kept = data[: max(room, 0)]
        new = path not in self.files
        super().append(path, kept)
        if new:
            self.inodes[path] = Inode()
            self._name_changed(path)
        self.inodes[path].changes.append(Change(kept))
        if len(kept) < len(data):
            raise OSError(errno.ENOSPC, "No space left on device", path)

    def read(self, path: str, position: int, length: int) -> bytes:
        """Read at most so many bytes."""
        self._step("read", path)
        return super().read(path, position, length)

    def flush(self, path: str) -> None:
        """Flush the file: a crash keeps its bytes from here on."""
        self._step("flush", path)
        super().flush(path)
        inode = self.inodes[path]
        inode.safe, inode.changes = bytes(self.files[path]), []

    def truncate(self, path: str, size: int) -> None:
        """Truncate the file."""
        self._step("truncate", path)
        super().truncate(path, size)
        self.inodes[path].changes.append(Change(size=size))

    def rename(self, old: str, new: str) -> None:
        """Rename a file or a folder."""
        self._step("rename", old)
        is_folder = old in self.directories
        super().rename(old, new)
        inodes, inside = self.inodes, f"{old}/"
        for path in [p for p in inodes if p.startswith(inside)] if is_folder else (old,):
            inodes[new + path[len(old) :]] = inodes.pop(path)
        self._name_changed(new)

    def delete(self, path: str) -> None:
        """Delete a file."""
        self._step("delete", path)
        super().delete(path)
        del self.inodes[path]
        self._name_changed(path)

    def make_folder(self, folder: str) -> None:
        """Make a folder."""
        self._step("make_folder", folder)
        if folder not in self.directories:
            super().make_folder(folder)
            self._name_changed(folder)

    def delete_folder(self, folder: str) -> None:
        """Remove an empty folder."""
        self._step("delete_folder", folder)
        super().delete_folder(folder)
        self._name_changed(folder)

    def flush_folder(self, folder: str) -> None:
        """Flush the names in this folder: a crash keeps them from here on.

        A journal is written in order, so everything up to the last change in it is kept.
        """
        self._step("flush_folder", folder)
        super().flush_folder(folder)
        mine = [n for n, (where, _, _) in enumerate(self.name_changes) if where == folder]
        if mine:
            _, self.safe_names, self.safe_folders = self.name_changes[mine[-1]]
            del self.name_changes[: mine[-1] + 1]

    @property
    def used(self) -> int:
        """The total size of all files, in bytes."""
        return sum(map(len, self.files.values()))

    def names_after(self, count: int) -> tuple[Names, set[str]]:
        """The names after a crash that kept so many of their changes."""
        if count == 0:
            return self.safe_names, self.safe_folders
        _, names, folders = self.name_changes[count - 1]
        return names, folders

    def crashed(
        self,
        keep_names: int | None = None,
        keep: Callable[[str, Inode], bytes] | None = None,
    ) -> "CrashDisk":
        """The disk that the next start finds; without arguments nothing unflushed was kept."""
        names, folders = self.names_after(keep_names or 0)
        files = {
            path: bytearray(keep(path, inode) if keep else inode.safe)
            for path, inode in names.items()
        }
        return CrashDisk(files, set(folders))

    def copy(self) -> "CrashDisk":
        """A copy of the disk, which changes independently."""
        twin = CrashDisk(
            {path: bytearray(content) for path, content in self.files.items()},
            set(self.directories),
        )
        twins = {id(inode): evolve(inode, changes=[*inode.changes]) for inode in self._all_inodes()}

        def again(names: Names) -> Names:
            return {path: twins[id(inode)] for path, inode in names.items()}

        twin.inodes, twin.safe_names = again(self.inodes), again(self.safe_names)
        twin.safe_folders = set(self.safe_folders)
        twin.name_changes = [(w, again(n), set(f)) for w, n, f in self.name_changes]
        return twin

    def _all_inodes(self) -> Sequence[Inode]:
        known = [self.inodes, self.safe_names, *(names for _, names, _ in self.name_changes)]
        return [inode for names in known for inode in names.values()]

    def _name_changed(self, path: str) -> None:
        where = path.rpartition("/")[0]
        self.name_changes.append((where, dict(self.inodes), set(self.directories)))

    def _step(self, operation: str, path: str) -> None:
        self.operations += 1
        if self.fail is not None and (code := self.fail(operation, path)) is not None:
            raise OSError(code, errno.errorcode[code], path)
