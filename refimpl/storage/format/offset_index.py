"""`.index`: from offsets to positions in the segment, an entry per `index.interval.bytes`.

An entry is the offset relative to the segment's base and a position, four bytes each. As in Kafka
it means: the batch that ends with this offset begins here.
"""

from struct import Struct
from typing import NamedTuple

from attrs import define

from refimpl.storage.disk.interface import Disk
from refimpl.storage.format.index_file import IndexFile

_ENTRY = Struct(">ii")
LARGEST_RELATIVE_OFFSET = 2**31 - 1


class Interval(NamedTuple):
    """The part of a segment from one entry to the next."""

    low_offset: int
    """Of its first entry: the last offset of its first batch, or the segment's base."""
    start: int
    end: int


@define(eq=False)
class OffsetIndex:
    """The offset index of one segment."""

    base_offset: int
    file: IndexFile

    @classmethod
    def open(
        cls, disk: Disk, path: str, base_offset: int, size: int | None = None
    ) -> "OffsetIndex":
        """The index in a file of this size, or a new one; a torn entry does not count."""
        count = (size or 0) // _ENTRY.size
        return cls(base_offset, IndexFile(disk, path, _ENTRY, count, exists=size is not None))

    def append(self, offset: int, position: int) -> None:
        """Add an entry: the batch that ends with this offset begins here."""
        self.file.append(offset - self.base_offset, position)

    def lookup(self, offset: int) -> tuple[int, int]:
        """The last entry at or below this offset; the segment's beginning if there is none."""
        number = self.file.at_or_below(offset - self.base_offset)
        if number == 0:
            return self.base_offset, 0
        relative, position = self.file.get(number - 1)
        return self.base_offset + relative, position

    def intervals(self, offset: int, size: int, most: int) -> list[Interval]:
        """At most so many intervals of a segment of this size, the newest first.

        The first of them holds the batch before this offset.
        """
        number = self.file.at_or_below(offset - 1 - self.base_offset)
        entries = self.file.slice(max(number - most, 0), number + 1)
        ends = [position for _, position in entries]
        if number == self.file.count:
            ends.append(size)
        if number < most:
            entries.insert(0, (0, 0))
        else:
            del ends[0]
        pairs = zip(entries, ends, strict=False)
        found = [Interval(self.base_offset + low, start, end) for (low, start), end in pairs]
        return found[::-1]

    def truncate(self, offset: int) -> None:
        """Remove the entries of this offset and later ones."""
        self.file.keep(self.file.at_or_below(offset - 1 - self.base_offset))

    def is_full(self, max_bytes: int) -> bool:
        """True if `segment.index.bytes` leaves no room."""
        return self.file.count >= max_bytes // _ENTRY.size
