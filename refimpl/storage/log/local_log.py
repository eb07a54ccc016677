"""The segments of one partition in a row: Kafka's LocalLog.

It rolls, reads, truncates and deletes. Its owner, `partition_log`, handles offsets, producers and
epochs.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence

from attrs import define, field

from refimpl.storage.config import LogConfig
from refimpl.storage.disk.interface import Buffer, Disk
from refimpl.storage.format.batch import BatchHeader
from refimpl.storage.log.segment import Segment

DELETED = ".deleted"


@define(eq=False)
class LocalLog:
    """At least one segment; the last one is active."""

    disk: Disk
    folder: str
    config: LogConfig
    segments: list[Segment]
    end_offset: int
    recovery_point: int
    #: Writes recovery point and log start for the next start, before data go.
    write_marks: Callable[[], None] = lambda: None
    #: Called with the new end of the log, before data go
    before_cut: Callable[[int], None] = lambda end: None
    doomed: dict[str, int] = field(factory=dict[str, int], init=False)
    #: The end of the last batch, or the start of the active segment. The log's end may be behind
    # it : after a truncation: nothing there was written, so no recovery point may claim it.
    _written_end: int = field(default=0, init=False)
    _names_changed: bool = field(default=True, init=False)

    @property
    def active(self) -> Segment:
        """The segment that grows."""
        return self.segments[-1]

    @property
    def size(self) -> int:
        """The bytes of all `.log` files."""
        return sum(segment.size for segment in self.segments)

    def configure(self, config: LogConfig) -> None:
        """Apply new settings; closed segments stay as they are."""
        self.config = config
        self.active.configure(config)

    def append(self, batches: Sequence[BatchHeader], parts: Sequence[Buffer]) -> None:
        """Write placed batches into the active segment."""
        self.active.append(batches, parts)
        self.end_offset = self._written_end = batches[-1].next_offset

    def recovered_to(self, end_offset: int) -> None:
        """Set the end offset that was found when the log was opened."""
        self.end_offset = self._written_end = end_offset

    def number_of(self, offset: int) -> int:
        """The number of the segment that an offset belongs to; the first one for offsets before the
        log.
        """
        if offset >= self.segments[-1].base_offset:
            return len(self.segments) - 1
        number = bisect_right(self.segments, offset, key=lambda segment: segment.base_offset)
        return max(number - 1, 0)

    def read(self, offset: int, max_bytes: int, up_to: int) -> bytes:
        """Batches from the one that holds this offset on, below `up_to`.

        The first one is always whole, so that a reader gets on; the last may be cut off by
        `max_bytes` (KIP-74). The batches are not checked.
        """
        if offset >= up_to:
            return b""
        for number in range(self.number_of(offset), len(self.segments)):
            segment = self.segments[number]
            found = segment.find(offset)
            if found is not None:
                position, header = found
                length = min(max(max_bytes, header.size), self._limit(number, up_to) - position)
                return self.disk.read(segment.path, position, length) if length > 0 else b""
        return b""

    def size_between(self, offset: int, up_to: int) -> int:
        """The bytes of the batches from the one that holds this offset on, below `up_to`."""
        if offset >= up_to:
            return 0
        size, first = 0, self.number_of(offset)
        for number in range(first, self.number_of(up_to - 1) + 1):
            found = self.segments[number].find(offset) if number == first else (0, None)
            size += max(self._limit(number, up_to) - found[0], 0) if found else 0
        return size

    def roll(self, base_offset: int, now_ms: int) -> None:
        """Close the active segment and begin a new one.

        The closed segment is flushed before anything follows it. Kafka leaves that to a background
        thread. A crash in between may lose the end of one segment and keep the next, and such a
        hole looks like one that compaction made.
        """
        if self.active.size == 0:
            self.remove([self.segments.pop()], now_ms)
        else:
            self.active.close()
            self.flush()
        self._begin(base_offset, now_ms)

    def flush(self) -> None:
        """Flush everything up to the log's end, so that it survives a crash."""
        for segment in self.segments[self.number_of(self.recovery_point) :]:
            segment.flush()
        if self._names_changed:
            self.disk.flush_folder(self.folder)
            self._names_changed = False
        self.recovery_point = self._written_end

    def unflushed(self) -> tuple[list[str], list[str]]:
        """Write what is held back, and answer with the files and folders to flush."""
        segments = self.segments[self.number_of(self.recovery_point) :]
        files = [path for segment in segments for path in segment.unflushed()]
        return files, [self.folder] if self._names_changed else []

    def flushed(self) -> None:
        """Note that somebody else has flushed everything up to the log's end."""
        for segment in self.segments[self.number_of(self.recovery_point) :]:
            segment.flushed()
        self._names_changed = False
        self.recovery_point = self._written_end

    def truncate(self, offset: int, now_ms: int) -> None:
        """Truncate the log to this end offset, or before it if a batch would be split.

        Whole segments go first, newest first, and for good: a crash at any point leaves the log
        truncated somewhere, never with a hole.
        """
        number = self.number_of(offset)
        self._written_end = self.segments[number].end_before(offset)
        self._lower(self._written_end)
        self.remove(self.segments[:number:-1], now_ms)
        del self.segments[number + 1 :]
        self.disk.flush_folder(self.folder)
        self.end_offset = min(self.end_offset, self.active.truncate(offset))

    def restart(self, offset: int, now_ms: int) -> None:
        """Delete everything and begin anew at this offset."""
        self._lower(offset)
        if self.segments:
            self.remove(self.segments[::-1], now_ms)
            self.disk.flush_folder(self.folder)
            self.segments.clear()
        self._begin(offset, now_ms)
        self.end_offset = offset

    def remove(self, segments: Sequence[Segment], now_ms: int) -> None:
        """Mark the files of segments for deletion; readers that have them open may go on for a
        while.
        """
        for segment in segments:
            self.doom(segment.files(), now_ms)

    def doom(self, paths: Sequence[str], now_ms: int) -> None:
        """Rename files out of the way, and delete them after `file.delete.delay.ms`."""
        for path in paths:
            self.disk.rename(path, path + DELETED)
            self.doomed[path + DELETED] = now_ms + self.config.file_delete_delay_ms
            self._names_changed = True

    def delete_due(self, now_ms: int) -> None:
        """Delete the files whose delay is over."""
        for path in [path for path, due_ms in self.doomed.items() if due_ms <= now_ms]:
            self.disk.delete(path)
            del self.doomed[path]

    def _limit(self, number: int, up_to: int) -> int:
        """The position in this segment where a reader must stop."""
        segment = self.segments[number]
        following = self.segments[number + 1 : number + 2]
        end = following[0].base_offset if following else self.end_offset
        if up_to >= end:
            return segment.size
        found = segment.find(up_to)
        return segment.size if found is None else found[0]

    def _begin(self, base_offset: int, now_ms: int) -> None:
        created = Segment.create(self.disk, self.folder, base_offset, self.config, now_ms)
        self.segments.append(created)
        self._written_end = base_offset
        self._names_changed = True

    def _lower(self, offset: int) -> None:
        self.before_cut(offset)
        if self.recovery_point > offset:
            self.recovery_point = offset
            self.write_marks()
