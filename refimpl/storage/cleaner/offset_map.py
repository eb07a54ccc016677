"""The newest offset of each key in the part of a log that is to be cleaned.

Kafka's map holds a hash of each key in a buffer of fixed size (`log.cleaner.dedupe.buffer.size`).
So a log may have more keys than fit into memory: the rest waits for the next round.
"""

from collections.abc import Iterator
from hashlib import blake2b

from attrs import define, field

from refimpl.errors import CorruptFile, RefusedBatch
from refimpl.storage.cleaner.cleaned_transactions import CleanedTransactions
from refimpl.storage.format.batch import BatchHeader
from refimpl.storage.format.legacy import records_at
from refimpl.storage.log.local_log import LocalLog
from refimpl.storage.log.lookup import aborted_transactions
from refimpl.storage.log.scan import whole_batches
from refimpl.storage.log.segment import Segment

#: 128 MiB of 24 bytes each, filled to nine tenths: Kafka's defaults.
ROOM = (128 << 20) // 24 * 9 // 10
_HASH_SIZE = 16


@define
class OffsetMap:
    """A map from the hash of a key to its newest offset, up to `latest_offset`, for a limited
    number.
    """

    room: int = ROOM
    latest_offset: int = -1
    _offsets: dict[bytes, int] = field(factory=dict[bytes, int], init=False)

    def __len__(self) -> int:
        """The number of keys."""
        return len(self._offsets)

    def put(self, key: bytes, offset: int) -> bool:
        """Note the newest offset so far; False if there is no room for one more key."""
        name = _hashed(key)
        if len(self._offsets) >= self.room and name not in self._offsets:
            return False
        self._offsets[name] = offset
        return True

    def newest(self, key: bytes) -> int:
        """The newest offset of this key, or -1."""
        return self._offsets.get(_hashed(key), -1)

    def reach(self, offset: int) -> None:
        """Note that everything up to this offset is in the map."""
        self.latest_offset = max(self.latest_offset, offset)


def mapped_keys(log: LocalLog, start: int, end: int, room: int = ROOM) -> OffsetMap:
    """The keys of a log between two offsets, as far as there is room.

    Aborted records are not counted as values of their keys. If the room ends within a batch, the
    keys of its first records are in the map already: their older values go, and these records stay,
    as everything new does.
    """
    known = OffsetMap(room)
    transactions = CleanedTransactions()
    transactions.expect(aborted_transactions(log, start, end))
    segments = segments_between(log, start, end)
    ends = [*(segment.base_offset for segment in segments[1:]), end]
    for segment, segment_end in zip(segments, ends, strict=True):
        for header, data in batches_of(segment):
            if not transactions.discards(header, data) and not header.is_control:
                for record in records_at(data, 0, header):
                    fresh = record.key is not None and record.offset >= start
                    if fresh and not known.put(record.key or b"", record.offset):
                        return known
            if header.last_offset >= start:
                known.reach(header.last_offset)
        known.reach(segment_end - 1)
    return known


def segments_between(log: LocalLog, start: int, end: int) -> list[Segment]:
    """The segments that begin before `end`, from the one on that holds `start`."""
    return [one for one in log.segments[log.number_of(start) :] if one.base_offset < end]


def batches_of(segment: Segment) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Every batch of a segment, its CRC checked."""
    reached = 0
    try:
        for reached, header, data in whole_batches(segment.disk, segment.path, 0, segment.size):
            yield header, data
            reached += header.size
    except RefusedBatch as damage:
        raise CorruptFile(segment.path, reached, damage.why) from None


def _hashed(key: bytes) -> bytes:
    return blake2b(key, digest_size=_HASH_SIZE).digest()
