"""One segment: a `.log` file and its three indexes, named by the first offset it may hold.

KIP-33 (time index), KIP-98 (transaction index). Only the log counts; an index that contradicts it
is made anew.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from zlib import crc32

from attrs import define, field

from refimpl.errors import CorruptBatch, CorruptFile, RefusedBatch
from refimpl.storage.config import LogConfig
from refimpl.storage.disk.interface import Buffer, Disk
from refimpl.storage.format.batch import HEADER_SIZE, MAGIC, NO_TIMESTAMP, BatchHeader, read_header
from refimpl.storage.format.offset_index import (
    LARGEST_RELATIVE_OFFSET,
    Interval,
    OffsetIndex,
)
from refimpl.storage.format.time_index import TimeIndex
from refimpl.storage.format.txn_index import TxnIndex
from refimpl.storage.log.scan import BLOCK, headers, whole_batches

#: The number of the newest batches kept in memory; at most twice as many are
RECENT = 256
#: An interval up to this size is read at once; the batches of a larger one are skipped
_AT_ONCE = 4 * BLOCK
LOG, INDEX, TIME_INDEX, TXN_INDEX = ".log", ".index", ".timeindex", ".txnindex"
SNAPSHOT = ".snapshot"


def file_name(base_offset: int, suffix: str) -> str:
    """The name of a segment's file: twenty digits, so that names sort as offsets do."""
    return f"{base_offset:020d}{suffix}"


@define(eq=False)
class Segment:
    """A part of a log; only the last one grows."""

    disk: Disk
    folder: str
    base_offset: int
    config: LogConfig
    created_ms: int
    size: int
    offset_index: OffsetIndex
    time_index: TimeIndex
    txn_index: TxnIndex
    _largest: tuple[int, int] | None = field(default=None, init=False)
    _first_timestamp: int | None = field(default=None, init=False)
    _since_index: int = field(default=0, init=False)
    _dirty: bool = field(default=False, init=False)
    _path: str = field(default="", init=False)
    #: The newest batches, without a gap: their last offsets, and their positions
    _ends: list[int] = field(factory=list[int], init=False)
    _places: list[tuple[int, BatchHeader]] = field(
        factory=list[tuple[int, BatchHeader]], init=False
    )
    #: The time for which it may grow; its name decides the jitter, which Kafka draws.
    _most_ms: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        """Set the file's path and apply the settings."""
        self._path = f"{self.folder}/{file_name(self.base_offset, LOG)}"
        self.configure(self.config)

    def configure(self, config: LogConfig) -> None:
        """Apply new settings; `segment.jitter.ms` is subtracted from `segment.ms`."""
        self.config = config
        self._most_ms = most = self.config.max_segment_ms
        jitter = min(self.config.segment_jitter_ms, most)
        if jitter > 0:
            self._most_ms = most - crc32(self._path.encode()) % jitter

    @classmethod
    def open(
        cls,
        disk: Disk,
        folder: str,
        base_offset: int,
        config: LogConfig,
        now_ms: int,
        sizes: Mapping[str, int],
    ) -> "Segment":
        """The segment in files of these sizes; a missing index is made when needed."""

        def named(suffix: str) -> tuple[str, int | None]:
            name = file_name(base_offset, suffix)
            return f"{folder}/{name}", sizes.get(name)

        txn_index, txn_index_size = named(TXN_INDEX)
        offset_index, time_index = named(INDEX), named(TIME_INDEX)
        return cls(
            *(disk, folder, base_offset, config, now_ms, named(LOG)[1] or 0),
            OffsetIndex.open(disk, offset_index[0], base_offset, offset_index[1]),
            TimeIndex.open(disk, time_index[0], base_offset, time_index[1]),
            TxnIndex(disk, txn_index, txn_index_size or 0),
        )

    @classmethod
    def create(
        cls, disk: Disk, folder: str, base_offset: int, config: LogConfig, now_ms: int
    ) -> "Segment":
        """A new segment, whose `.log` exists from now on."""
        segment = cls.open(disk, folder, base_offset, config, now_ms, {})
        disk.append(segment.path)
        segment._dirty, segment._largest = True, (NO_TIMESTAMP, base_offset)
        return segment

    @property
    def path(self) -> str:
        """The `.log` file."""
        return self._path

    def append(self, batches: Sequence[BatchHeader], parts: Sequence[Buffer]) -> None:
        """Write batches that have their offsets already, then index them."""
        self.disk.append(self._path, *parts)
        self._dirty = True
        for header in batches:
            self.index(self.size, header)
            self.size += header.size

    def index(self, position: int, header: BatchHeader) -> None:
        """Note a batch, and its position once per `index.interval.bytes`."""
        last_offset = header.last_offset
        self._ends.append(last_offset)
        self._places.append((position, header))
        if len(self._ends) > 2 * RECENT:
            del self._ends[:RECENT], self._places[:RECENT]
        largest = self._largest or self.largest_timestamp()
        if header.max_timestamp > largest[0]:
            self._largest = header.max_timestamp, last_offset
        if position == 0:
            self._first_timestamp = header.max_timestamp
        if self._since_index > self.config.index_interval_bytes:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(*self.largest_timestamp())
            self._since_index = 0
        self._since_index += header.size

    def reset_indexes(self) -> None:
        """Begin all indexes anew, in memory, before the log is read from its beginning.

        Their files stay as they are until the next flush: if the log turns out to be damaged,
        nothing has been touched.
        """
        self.offset_index.file.reset()
        self.time_index.file.reset()
        self._ends.clear()
        self._places.clear()
        self._largest, self._since_index, self._dirty = (NO_TIMESTAMP, self.base_offset), 0, True

    def largest_timestamp(self) -> tuple[int, int]:
        """The newest timestamp and the offset of its batch's last record; -1 without any.

        Retention deletes by it, so the batch itself must confirm the index.
        """
        if self._largest is None:
            newest = self.time_index.last()
            if self._confirms(newest) and not self._is_newer_behind(newest):
                self._largest = newest
            else:
                self.rebuild_index()
        return self._largest or (NO_TIMESTAMP, self.base_offset)

    def offset_before(self, timestamp: int) -> int:
        """An offset of this segment up to which all timestamps are smaller than this one."""
        entry = self.time_index.lookup(timestamp)
        if entry is not None and not self._confirms(entry):
            self.rebuild_index()
            entry = self.time_index.lookup(timestamp)
        return self.base_offset if entry is None else entry[1]

    def must_roll(self, size: int, timestamp: int, last_offset: int, now_ms: int) -> bool:
        """True if an append of this size, timestamp and last offset belongs into a new segment.

        `segment.ms` is counted by the records' own timestamps where there are any, so that old data
        copied into a new log keep their segments apart (KIP-33).
        """
        full = self.config.segment_index_bytes
        return (
            self.size > self.config.segment_bytes - size
            or (self.size > 0 and self._waited_ms(timestamp, now_ms) > self._most_ms)
            or self.offset_index.is_full(full)
            or self.time_index.is_full(full)
            or last_offset - self.base_offset > LARGEST_RELATIVE_OFFSET
        )

    def find(self, offset: int) -> tuple[int, BatchHeader] | None:
        """The first batch that ends at this offset or later; None if this segment has none."""
        if self._is_recent(offset):
            number = bisect_left(self._ends, offset)
            return self._places[number] if number < len(self._places) else None
        for position, header in self.headers(self._start(offset)):
            if header.last_offset >= offset:
                return position, header
        return None

    def end_before(self, offset: int) -> int:
        """The end of the last batch without records of this offset or later ones."""
        end = self.base_offset
        if self._is_recent(offset - 1):
            number = bisect_left(self._ends, offset)
            return self._places[number - 1][1].next_offset if number else end
        for _, header in self.headers(self._start(offset - 1)):
            if header.last_offset >= offset:
                break
            end = header.next_offset
        return end

    def rebuild_index(self) -> None:
        """Rebuild offset and time index from the log's headers."""
        self.reset_indexes()
        for position, header in self.headers():
            self.index(position, header)
        self.time_index.maybe_append(*self.largest_timestamp())
        self.offset_index.file.write()
        self.time_index.file.write()

    def headers(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of each batch from this position on; offsets only grow."""
        if self._places and self._places[0][0] <= position:
            number = bisect_left(self._places, position, key=_position)
            yield from self._places[number:]
            return
        reached, expected = position, self.base_offset
        try:
            for reached, header in headers(self.disk, self.path, position, self.size):
                if header.base_offset < expected:
                    raise CorruptBatch(f"offset {header.base_offset}, where {expected} may follow")
                yield reached, header
                reached, expected = reached + header.size, header.next_offset
        except RefusedBatch as damage:
            raise CorruptFile(self.path, reached, damage.why) from None

    def intervals(self, offset: int, most: int) -> list[Interval]:
        """At most so many intervals of the offset index, back from the batch before this offset."""
        return self.offset_index.intervals(offset, self.size, most)

    def batches_of(self, interval: Interval) -> Iterator[BatchHeader]:
        """The headers of an interval's batches; CorruptFile where index and log contradict."""
        _, start, end = interval
        if not 0 <= start <= end <= self.size:
            found = f"an index entry for {start} to {end} of {self.size} bytes"
            raise CorruptFile(self.path, start, found)
        block = max(min(end - start, _AT_ONCE), BLOCK)
        try:
            for _, header in headers(self.disk, self.path, start, end, block):
                yield header
        except RefusedBatch as damage:
            raise CorruptFile(self.path, start, damage.why) from None

    def verify(self) -> None:
        """Read every batch; raise CorruptFile at the first whose CRC does not match its bytes."""
        reached = 0
        try:
            for reached, header, _ in whole_batches(self.disk, self.path, 0, self.size):
                reached += header.size
        except RefusedBatch as damage:
            raise CorruptFile(self.path, reached, damage.why) from None

    def next_offset(self) -> int:
        """The offset behind the last record; batches behind the last index entry are read."""
        end = self.base_offset
        for _, header in self.headers(self._start(self.base_offset + LARGEST_RELATIVE_OFFSET)):
            end = header.next_offset
        return end

    def truncate(self, offset: int) -> int:
        """Truncate from the batch that holds this offset on, for good; return the segment's end
        offset.

        The truncation is flushed. Otherwise a crash could leave old bytes behind newly written
        ones, and where their sizes agree nothing would tell them apart.
        """
        found = self.find(offset)
        self.offset_index.truncate(offset)
        self.time_index.truncate(offset)
        self.txn_index.truncate(offset)
        self.cut(self.size if found is None else found[0])
        self._restore_largest()
        return offset if found is None else min(offset, found[1].base_offset)

    def cut(self, size: int) -> None:
        """Truncate the `.log` to this size, for good."""
        self.disk.truncate(self.path, size)
        keep = bisect_left(self._places, size, key=_position)
        del self._ends[keep:], self._places[keep:]
        self.size, self._dirty = size, True
        self.flush()

    def flush(self) -> None:
        """Flush log and indexes, so that they survive a crash."""
        if self._dirty:
            self.disk.flush(self.path)
            self.offset_index.file.flush()
            self.time_index.file.flush()
            self.txn_index.flush()
            self._dirty = False

    def unflushed(self) -> list[str]:
        """Write what is held back, and answer with the files that have to be flushed."""
        if not self._dirty:
            return []
        self.txn_index.flush()
        indexes = self.offset_index.file, self.time_index.file
        return [self.path, *(path for index in indexes for path in index.unflushed())]

    def flushed(self) -> None:
        """Note that somebody else has flushed the files."""
        if self._dirty:
            self.offset_index.file.flushed()
            self.time_index.file.flushed()
            self._dirty = False

    def end(self) -> None:
        """Note the largest timestamp in the index, for retention: nothing is appended any more."""
        before = self.time_index.file.count
        self.time_index.maybe_append(*self.largest_timestamp())
        indexes = self.offset_index.file, self.time_index.file
        changed = self.time_index.file.count > before or not all(one.exists for one in indexes)
        self._dirty = self._dirty or changed

    def close(self) -> None:
        """Close the segment for appends; the largest timestamp goes into the index, for
        retention.
        """
        self.time_index.maybe_append(*self.largest_timestamp())
        self._dirty = True
        self.flush()

    def files(self) -> list[str]:
        """The segment's existing files, the log first: without it the rest is an orphan."""
        indexes = (self.offset_index.file, self.time_index.file)
        there = [index.path for index in indexes if index.exists]
        return [self.path, *there, *([self.txn_index.path] if self.txn_index.size else [])]

    def _is_recent(self, offset: int) -> bool:
        """True if the batch that holds this offset, or follows it, is in memory."""
        if not self._places:
            return False
        position, header = self._places[0]
        return position == 0 or offset >= header.base_offset

    def _start(self, offset: int) -> int:
        """The position to begin a search for an offset at: a batch on which index and log agree.

        Kafka before 4.0 notes one entry for several batches that came together: their last offset,
        and the position of the first of them.
        """
        entry_offset, position = self.offset_index.lookup(offset)
        if position == 0:
            return 0
        if 0 < position < self.size:
            try:
                header = read_header(self.disk.read(self.path, position, HEADER_SIZE))
                if self.base_offset <= header.last_offset <= entry_offset:
                    return position
            except RefusedBatch:
                pass
        self.rebuild_index()
        return self.offset_index.lookup(offset)[1]

    def _confirms(self, entry: tuple[int, int]) -> bool:
        """True if the batch that an entry of the time index names has its timestamp."""
        timestamp, offset = entry
        found = self.find(offset)
        if found is None or found[1].max_timestamp != timestamp:
            return False
        return found[1].magic != MAGIC or found[1].base_offset <= offset

    def _is_newer_behind(self, entry: tuple[int, int]) -> bool:
        """True if the time index ends too early; a crash or a copy may have truncated it."""
        timestamp, offset = entry
        behind = self.headers(self._start(offset))
        return any(header.max_timestamp > timestamp for _, header in behind)

    def _restore_largest(self) -> None:
        timestamp, offset = self._largest = self.time_index.last()
        self._since_index = 0
        for _, header in self.headers(self._start(offset)):
            if header.max_timestamp > timestamp:
                timestamp, offset = self._largest = header.max_timestamp, header.last_offset

    def _waited_ms(self, timestamp: int, now_ms: int) -> int:
        if self._first_timestamp is None:
            first = next(self.headers(), None)
            self._first_timestamp = first[1].max_timestamp if first else NO_TIMESTAMP
        if self._first_timestamp == NO_TIMESTAMP:
            return now_ms - self.created_ms
        return timestamp - self._first_timestamp


def _position(place: tuple[int, BatchHeader]) -> int:
    return place[0]
