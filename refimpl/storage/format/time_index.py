"""`.timeindex`: from timestamps to offsets (KIP-33).

An entry is a timestamp and a relative offset. It means: up to this offset nothing in the segment is
newer. A closed segment's last entry is its largest timestamp, which retention uses.
"""

from struct import Struct

from attrs import define

from refimpl.storage.disk.interface import Disk
from refimpl.storage.format.batch import NO_TIMESTAMP
from refimpl.storage.format.index_file import IndexFile

_ENTRY = Struct(">qi")


@define(eq=False)
class TimeIndex:
    """The time index of one segment."""

    base_offset: int
    file: IndexFile

    @classmethod
    def open(cls, disk: Disk, path: str, base_offset: int, size: int | None = None) -> "TimeIndex":
        """The index in a file of this size, or a new one; a torn entry does not count."""
        count = (size or 0) // _ENTRY.size
        return cls(base_offset, IndexFile(disk, path, _ENTRY, count, exists=size is not None))

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry if the timestamp is larger than the last: up to this offset nothing is
        newer.
        """
        last, _ = self.last()
        if timestamp > last:
            self.file.append(timestamp, offset - self.base_offset)

    def last(self) -> tuple[int, int]:
        """The largest timestamp in the index, and its offset."""
        entry = self.file.last()
        if entry is None:
            return NO_TIMESTAMP, self.base_offset
        return entry[0], self.base_offset + entry[1]

    def lookup(self, timestamp: int) -> tuple[int, int] | None:
        """The last entry before this timestamp: up to its offset nothing is as new."""
        number = self.file.at_or_below(timestamp - 1)
        if number == 0:
            return None
        before, relative = self.file.get(number - 1)
        return before, self.base_offset + relative

    def truncate(self, offset: int) -> None:
        """Remove the entries of this offset and later ones."""
        self.file.keep(self.file.at_or_below(offset - 1 - self.base_offset, column=1))

    def is_full(self, max_bytes: int) -> bool:
        """True if `segment.index.bytes` leaves no room; one entry is kept for closing."""
        return self.file.count >= max_bytes // _ENTRY.size - 1
