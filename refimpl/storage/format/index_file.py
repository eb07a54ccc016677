"""The file format shared by offset index and time index: entries of one size, sorted, appended.

Kafka maps these files into memory. Here a few new entries gather in memory and the rest is read
from disk. A search touches a dozen places of the page cache, and an index of any size takes the
same memory. An index has no checksum, so every entry is confirmed by the log; it can always be
rebuilt.
"""

from bisect import bisect_right
from struct import Struct

from attrs import define, field

from refimpl.storage.disk.interface import Disk

_PAGE_ENTRIES = 4096
_GATHERED_ENTRIES = 512


@define(eq=False)
class IndexFile:
    """Entries in ascending order; unwritten ones are found like all others."""

    disk: Disk
    path: str
    entry: Struct
    count: int = 0
    exists: bool = False
    _dirty: bool = field(default=False, init=False)
    _held: bool = field(default=False, init=False)
    _unwritten: bytearray = field(factory=bytearray, init=False)
    _last: tuple[int, int] | None = field(default=None, init=False)

    def append(self, first: int, second: int) -> None:
        """Append an entry."""
        self._unwritten += self.entry.pack(first, second)
        self._last = first, second
        self.count += 1
        if len(self._unwritten) >= _GATHERED_ENTRIES * self.entry.size and not self._held:
            self.write()

    def last(self) -> tuple[int, int] | None:
        """The last entry; None if there is none."""
        if self._last is None and self.count:
            self._last = self.get(self.count - 1)
        return self._last

    def at_or_below(self, value: int, column: int = 0) -> int:
        """The number of entries with at most this value in this column."""
        last = self.last()
        if last is None or last[column] <= value:
            return self.count
        pages = range(0, self.count, _PAGE_ENTRIES)
        page = bisect_right(pages, value, key=lambda start: self.get(start)[column]) - 1
        if page < 0:
            return 0
        start, unpack, size = pages[page], self.entry.unpack_from, self.entry.size
        data = self._bytes(start, _PAGE_ENTRIES)
        entries = range(0, len(data), size)
        return start + bisect_right(entries, value, key=lambda at: unpack(data, at)[column])

    def get(self, number: int) -> tuple[int, int]:
        """The entry with this number."""
        first, second = self.entry.unpack(self._bytes(number, 1))
        return first, second

    def slice(self, start: int, end: int) -> list[tuple[int, int]]:
        """The entries from one number up to another, or to the last one."""
        return [*self.entry.iter_unpack(self._bytes(start, end - start))]

    def keep(self, count: int) -> None:
        """Keep the first so many entries."""
        if count >= self.count:
            return
        written = self._written
        if count < written:
            self.disk.truncate(self.path, count * self.entry.size)
            self._unwritten.clear()
            self._dirty = True
        else:
            del self._unwritten[(count - written) * self.entry.size :]
        self.count, self._last = count, None

    def reset(self) -> None:
        """Begin anew in memory; the file is not changed until `write` replaces it."""
        self._unwritten.clear()
        self.count, self._last, self._held = 0, None, True

    def write(self) -> None:
        """Write all entries to the disk; the file exists afterwards, even if it is empty."""
        if self._held and self.exists:
            self.disk.truncate(self.path, 0)
            self._dirty = True
        self._held = False
        if self._unwritten or not self.exists:
            self.disk.append(self.path, bytes(self._unwritten))
            self._unwritten.clear()
            self._dirty = self.exists = True

    def flush(self) -> None:
        """Flush all entries, so that they survive a crash."""
        self.write()
        if self._dirty:
            self.disk.flush(self.path)
            self._dirty = False

    def unflushed(self) -> list[str]:
        """Write all entries, and answer with the file if it has to be flushed."""
        self.write()
        return [self.path] if self._dirty else []

    def flushed(self) -> None:
        """Note that somebody else has flushed the file."""
        self._dirty = False

    @property
    def _written(self) -> int:
        return self.count - len(self._unwritten) // self.entry.size

    def _bytes(self, start: int, length: int) -> bytes:
        """The bytes of so many entries, fewer at the end."""
        written, size = self._written, self.entry.size
        length = min(length, self.count - start)
        data = b""
        if start < written:
            data = self.disk.read(self.path, start * size, min(length, written - start) * size)
        if len(data) == length * size:
            return data
        begin = max(start - written, 0) * size
        return data + self._unwritten[begin : begin + length * size - len(data)]
