"""A disk that is given up after its first failure (KIP-112).

After a failed fsync the kernel may have dropped the pages, and the next fsync may succeed. So
trying again could report lost data as flushed.
"""

from collections.abc import Callable, Sequence
from typing import NoReturn, ParamSpec, TypeVar

from attrs import define

from refimpl.errors import StorageOffline
from refimpl.storage.disk.interface import Buffer, Disk

P = ParamSpec("P")
T = TypeVar("T")


@define(eq=False)
class GuardedDisk:
    """A disk that passes every operation on, until one fails; from then on it refuses."""

    disk: Disk
    failure: str | None = None

    def append(self, path: str, *parts: Buffer) -> None:
        """See `Disk`."""
        if self.failure is not None:
            raise StorageOffline(self.failure)
        try:
            self.disk.append(path, *parts)
        except OSError as failure:
            self._fail(f"append {path}", failure)

    def overwrite(self, path: str, content: Buffer) -> None:
        """See `Disk`."""
        self._run(self.disk.overwrite, path, content)

    def read(self, path: str, position: int, length: int) -> bytes:
        """See `Disk`."""
        if self.failure is not None:
            raise StorageOffline(self.failure)
        try:
            return self.disk.read(path, position, length)
        except OSError as failure:
            self._fail(f"read {path}", failure)

    def size(self, path: str) -> int:
        """See `Disk`."""
        return self._run(self.disk.size, path)

    def flush(self, path: str) -> None:
        """See `Disk`."""
        self._run(self.disk.flush, path)

    def truncate(self, path: str, size: int) -> None:
        """See `Disk`."""
        self._run(self.disk.truncate, path, size)

    def rename(self, old: str, new: str) -> None:
        """See `Disk`."""
        self._run(self.disk.rename, old, new)

    def delete(self, path: str) -> None:
        """See `Disk`."""
        self._run(self.disk.delete, path)

    def list_files(self, folder: str) -> dict[str, int]:
        """See `Disk`."""
        return self._run(self.disk.list_files, folder)

    def folders(self) -> list[str]:
        """See `Disk`."""
        return self._run(self.disk.folders)

    def make_folder(self, folder: str) -> None:
        """See `Disk`."""
        self._run(self.disk.make_folder, folder)

    def delete_folder(self, folder: str) -> None:
        """See `Disk`."""
        self._run(self.disk.delete_folder, folder)

    def flush_folder(self, folder: str) -> None:
        """See `Disk`."""
        self._run(self.disk.flush_folder, folder)

    def flush_together(self, files: Sequence[str], folders: Sequence[str]) -> None:
        """See `Disk`."""
        self._run(self.disk.flush_together, files, folders)

    def _run(self, operation: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        if self.failure is not None:
            raise StorageOffline(self.failure)
        try:
            return operation(*args, **kwargs)
        except OSError as failure:
            self._fail(f"{operation.__name__} {args[0]}" if args else operation.__name__, failure)

    def _fail(self, what: str, failure: OSError) -> NoReturn:
        self.failure = f"the log directory is offline since `{what}` failed: {failure}"
        raise StorageOffline(self.failure) from failure
