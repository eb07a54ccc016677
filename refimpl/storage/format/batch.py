"""Record batches, format v2: the header that the broker reads and the records that it does not.

KIP-98 (the format), KIP-101 (the leader epoch, outside the CRC), KIP-534 (delete horizon). A broker
reads 61 bytes of a batch and checks a CRC. Before writing it to disk the broker sets two fields,
base offset and leader epoch, which the CRC does not cover. Only tools and compaction open records.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from operator import attrgetter
from struct import Struct
from typing import Any, NamedTuple, TypeVar, cast

from crc32c import crc32c

from refimpl.errors import CorruptBatch, UnsupportedForMessageFormat
from refimpl.storage.disk.interface import Buffer
from refimpl.storage.format.compression import Codec, compress, decompress
from refimpl.storage.format.record import Header, Record
from refimpl.storage.format.record_library import WORTH_IT, Unread, decoded, record_of
from refimpl.storage.format.varint import decode_varint, encode_varint

#: base offset, batch length, leader epoch, magic, CRC, attributes, last offset delta, base
#: timestamp, max timestamp, producer id, producer epoch, base sequence, record count
_HEADER = Struct(">qiibIhiqqqhii")
_PLACED, _CRC = Struct(">qii"), Struct(">I")
#: offset, size, CRC, magic, attributes, timestamp: messages of format v0 and v1
_MESSAGE = Struct(">qiIbbq")

HEADER_SIZE, PLACED_SIZE = _HEADER.size, _PLACED.size
LOG_OVERHEAD = 12  # the base offset and the length, which the length does not count
LENGTH_AT, MAGIC_AT, CRC_AT, CRC_FROM = 8, 16, 17, 21
FLAGS_AT = 22  # the low byte of the attributes
NO_TIMESTAMP = NO_PRODUCER = NO_EPOCH = NO_SEQUENCE = -1
MAGIC = 2

T = TypeVar("T")
_key: Callable[[Any], bytes | None] = attrgetter("key")

CODEC = 0x07
_LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, _DELETE_HORIZON = 0x08, 0x10, 0x20, 0x40
_SEQUENCES = 1 << 31
_CODECS: dict[int, Codec] = {codec.value: codec for codec in Codec}


class TimestampType(IntEnum):
    """The source of the records' timestamps: message.timestamp.type (KIP-32)."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


def last_sequence(first: int, count: int) -> int:
    """The last sequence of a batch with so many records, -1 for a batch without sequences."""
    return NO_SEQUENCE if first == NO_SEQUENCE else (first + count - 1) % _SEQUENCES


class BatchHeader(NamedTuple):
    """The header of a batch of any format; fields that v0 and v1 lack are -1.

    It is a tuple in the order of the bytes, because one is made for every batch.
    """

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int = NO_PRODUCER
    producer_epoch: int = NO_EPOCH
    base_sequence: int = NO_SEQUENCE
    record_count: int = 1

    @property
    def size(self) -> int:
        """The size of the whole batch in bytes."""
        return LOG_OVERHEAD + self.length

    @property
    def last_offset(self) -> int:
        """The offset of the last record, which may have been compacted away."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset at which the next batch may begin."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The last record's sequence, which wraps around at 2^31 (KIP-98)."""
        return last_sequence(self.base_sequence, self.last_offset_delta + 1)

    @property
    def codec(self) -> Codec:
        """The codec of the records."""
        return codec_of(self.attributes)

    @property
    def timestamp_type(self) -> TimestampType:
        """The source of the records' timestamps."""
        return TimestampType(bool(self.attributes & _LOG_APPEND_TIME))

    @property
    def is_transactional(self) -> bool:
        """True if a later marker commits or aborts these records."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """True if the only record is for brokers, not for consumers."""
        return bool(self.attributes & CONTROL)

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time from which tombstones and markers may go; it replaces the base timestamp
        (KIP-534).
        """
        return self.base_timestamp if self.attributes & _DELETE_HORIZON else None


#: `BatchHeader._make` without its check of the length, which the struct has made.
_new = cast(
    "Callable[[type[BatchHeader], tuple[int, ...]], BatchHeader]",
    tuple.__new__,  # pyright: ignore[reportUnknownMemberType]
)


def codec_of(attributes: int) -> Codec:
    """The codec that attributes name."""
    codec = _CODECS.get(attributes & CODEC)
    if codec is None:
        raise CorruptBatch(f"codec {attributes & CODEC} is not known")
    return codec


def read_header(data: Buffer, position: int = 0) -> BatchHeader:
    """The header at this position, of v2 or of an old message; the records are not checked.

    Only impossible sizes are refused, because later steps depend on them.
    """
    if len(data) - position < MAGIC_AT + 1:
        raise CorruptBatch(f"only {len(data) - position} bytes, less than any batch has")
    magic = data[position + MAGIC_AT]
    if magic == MAGIC:
        if len(data) - position < HEADER_SIZE:
            raise CorruptBatch(f"only {len(data) - position} bytes of a header of {HEADER_SIZE}")
        header = _new(BatchHeader, _HEADER.unpack_from(data, position))
        if header[1] < HEADER_SIZE - LOG_OVERHEAD:
            raise CorruptBatch(f"a length of {header.length}, less than the header")
        return header
    if magic in (0, 1):
        return _read_message(data, position)
    raise UnsupportedForMessageFormat(f"message format {magic} is not known, only 0 to {MAGIC}")


def crc_matches(data: Buffer, header: BatchHeader, position: int = 0) -> bool:
    """True if the bytes match the producer's checksum: CRC32C, or CRC32 before v2."""
    view = memoryview(data)
    if header.magic == MAGIC:
        return crc32c(view[position + CRC_FROM : position + header.size]) == header.crc
    return zlib.crc32(view[position + MAGIC_AT : position + header.size]) == header.crc


def placed(header: BatchHeader, base_offset: int, leader_epoch: int) -> bytes:
    """The first bytes of the batch with the fields that the leader sets; the CRC does not cover
    them.

    The rest of the batch, from `PLACED_SIZE` on, goes to disk as it came (KIP-101).
    """
    return _PLACED.pack(base_offset, header.length, leader_epoch)


def header_placed(header: BatchHeader, base_offset: int, leader_epoch: int) -> BatchHeader:
    """The header with the fields that the leader sets."""
    return _new(BatchHeader, (base_offset, header.length, leader_epoch, *header[3:]))


def stamped(
    data: Buffer, position: int, header: BatchHeader, base_offset: int, epoch: int, now_ms: int
) -> bytes:
    """The whole header under LogAppendTime: type and max timestamp change, and so the CRC (KIP-32).

    The records from `HEADER_SIZE` on stay as they came.
    """
    attributes = header.attributes | _LOG_APPEND_TIME
    fields = header._replace(
        base_offset=base_offset,
        leader_epoch=epoch,
        attributes=attributes,
        max_timestamp=now_ms,
    )
    packed = bytearray(_HEADER.pack(*fields))
    records = memoryview(data)[position + HEADER_SIZE : position + header.size]
    _CRC.pack_into(packed, CRC_AT, crc32c(records, crc32c(memoryview(packed)[CRC_FROM:])))
    return bytes(packed)


def converted(data: Buffer, position: int, header: BatchHeader, codec: Codec) -> bytes:
    """The batch with its records in another codec; they are not opened one by one."""
    payload = memoryview(data)[position + HEADER_SIZE : position + header.size]
    records = compress(codec, decompress(header.codec, payload))
    fields = header._replace(
        length=HEADER_SIZE - LOG_OVERHEAD + len(records),
        attributes=header.attributes & ~CODEC | codec,
    )
    packed = bytearray(_HEADER.pack(*fields)) + records
    _CRC.pack_into(packed, CRC_AT, crc32c(memoryview(packed)[CRC_FROM:]))
    return bytes(packed)


def emptied(header: BatchHeader) -> bytes:
    """The batch without its records, for the offsets and sequences in its header."""
    flags = header.attributes & (_LOG_APPEND_TIME | TRANSACTIONAL | CONTROL)
    fields = header._replace(
        length=HEADER_SIZE - LOG_OVERHEAD,
        magic=MAGIC,
        attributes=flags,
        base_timestamp=NO_TIMESTAMP,
        record_count=0,
    )
    packed = bytearray(_HEADER.pack(*fields))
    _CRC.pack_into(packed, CRC_AT, crc32c(memoryview(packed)[CRC_FROM:]))
    return bytes(packed)


def encode_batch(
    records: Iterable[Record],
    *,
    codec: Codec = Codec.NONE,
    base_offset: int | None = None,
    last_offset: int | None = None,
    leader_epoch: int = NO_EPOCH,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = NO_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    delete_horizon_ms: int | None = None,
    append_time_ms: int | None = None,
) -> bytes:
    """One batch of format v2.

    Compaction keeps `base_offset` and `last_offset` of a batch from which it removes records,
    because sequence numbers are counted from them. A batch without records consists of these alone.
    """
    kept = list(records)
    base = base_offset if base_offset is not None else kept[0].offset
    last = last_offset if last_offset is not None else kept[-1].offset
    timestamps = [record.timestamp for record in kept] or [NO_TIMESTAMP]
    base_timestamp = timestamps[0] if delete_horizon_ms is None else delete_horizon_ms
    body = b"".join(_encode_record(record, base, base_timestamp) for record in kept)
    attributes = (
        codec
        | (append_time_ms is not None) * _LOG_APPEND_TIME
        | transactional * TRANSACTIONAL
        | control * CONTROL
        | (delete_horizon_ms is not None) * _DELETE_HORIZON
    )
    payload = compress(codec, body)
    batch = bytearray(HEADER_SIZE + len(payload))
    _HEADER.pack_into(
        *(batch, 0, base, len(batch) - LOG_OVERHEAD, leader_epoch, MAGIC, 0, attributes),
        *(last - base, base_timestamp),
        max(timestamps) if append_time_ms is None else append_time_ms,
        *(producer_id, producer_epoch, base_sequence, len(kept)),
    )
    batch[HEADER_SIZE:] = payload
    _CRC.pack_into(batch, CRC_AT, crc32c(memoryview(batch)[CRC_FROM:]))
    return bytes(batch)


def decode_records(data: Buffer, position: int = 0) -> Iterator[Record]:
    """The records of the v2 batch at this position, with absolute offsets and timestamps.

    The caller checks the CRC; a count that differs from the header is a corrupt batch.
    """
    return _decoded(data, position, record_of, _itself)


def decode_keys(data: Buffer, position: int = 0) -> Iterator[bytes | None]:
    """The keys alone, at a quarter of the cost: a client may send millions of records."""
    return _decoded(data, position, _key, _key)


def _decoded(
    data: Buffer, position: int, theirs: Callable[[Any], T], ours: Callable[[Record], T]
) -> Iterator[T]:
    """A value of each record, by a function for the library's records or for ours."""
    header = read_header(data, position)
    payload = memoryview(data)[position + HEADER_SIZE : position + header.size]
    body = decompress(header.codec, payload)
    read = 0
    if header.record_count >= WORTH_IT:
        try:
            for one in decoded(_uncompressed(header, body), theirs):
                read += 1
                yield one
        except Unread:
            pass
        else:
            return
    place = 0
    for number in range(header.record_count):
        record, place = _decode_record(body, place, header)
        if number >= read:
            yield ours(record)
    if place != len(body):
        raise CorruptBatch(f"{len(body) - place} bytes behind {header.record_count} records")


def _itself(record: Record) -> Record:
    return record


def _uncompressed(header: BatchHeader, body: bytes) -> bytes:
    """The same batch with uncompressed records; the CRC stays that of the original."""
    length = HEADER_SIZE - LOG_OVERHEAD + len(body)
    fields = header._replace(length=length, attributes=header.attributes & ~CODEC)
    return _HEADER.pack(*fields) + body


def batches(data: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch in a run of whole batches."""
    position, end = 0, len(data)
    while position < end:
        header = read_header(data, position)
        following = position + LOG_OVERHEAD + header[1]
        if following > end:
            raise CorruptBatch(
                f"a batch of {header.size} bytes at byte {position}, where {end} bytes end"
            )
        yield position, header
        position = following


def _encode_record(record: Record, base_offset: int, base_timestamp: int) -> bytes:
    parts = [
        b"\x00",
        encode_varint(record.timestamp - base_timestamp),
        encode_varint(record.offset - base_offset),
        *_encode_bytes(record.key),
        *_encode_bytes(record.value),
        encode_varint(len(record.headers)),
    ]
    for name, value in record.headers:
        parts += (*_encode_bytes(name.encode()), *_encode_bytes(value))
    body = b"".join(parts)
    return encode_varint(len(body)) + body


def _encode_bytes(data: bytes | None) -> tuple[bytes, bytes]:
    return (encode_varint(-1), b"") if data is None else (encode_varint(len(data)), data)


def _decode_record(body: bytes, position: int, header: BatchHeader) -> tuple[Record, int]:
    length, position = decode_varint(body, position)
    end = position + length
    if not position < end <= len(body):
        raise CorruptBatch(f"a record of {length} bytes at byte {position} of {len(body)}")
    timestamp_delta, position = decode_varint(body, position + 1)
    offset_delta, position = decode_varint(body, position)
    key, position = _decode_bytes(body, position)
    value, position = _decode_bytes(body, position)
    count, position = decode_varint(body, position)
    headers: list[Header] = []
    for _ in range(count):
        name, position = _decode_bytes(body, position)
        content, position = _decode_bytes(body, position)
        headers.append(((name or b"").decode(errors="replace"), content))
    if position != end:
        raise CorruptBatch(f"a record that should end at byte {end} ends at {position}")
    timestamp = (
        header.max_timestamp
        if header.attributes & _LOG_APPEND_TIME
        else header.base_timestamp + timestamp_delta
    )
    offset = header.base_offset + offset_delta
    return Record(offset, timestamp, key, value, tuple(headers)), end


def _decode_bytes(body: bytes, position: int) -> tuple[bytes | None, int]:
    length, position = decode_varint(body, position)
    if length < 0:
        return None, position
    if length > len(body) - position:
        raise CorruptBatch(f"a field of {length} bytes at byte {position} of {len(body)}")
    return body[position : position + length], position + length


def _read_message(data: Buffer, position: int) -> BatchHeader:
    """A message of v0 or v1, or the wrapper of compressed ones, whose offset is the last inside."""
    if len(data) - position < _MESSAGE.size:
        raise CorruptBatch(f"only {len(data) - position} bytes, less than any message has")
    offset, length, crc, magic, attributes, timestamp = _MESSAGE.unpack_from(data, position)
    smallest = 14 if magic == 0 else 22
    if length < smallest:
        raise CorruptBatch(f"a length of {length}, less than a message of format {magic} has")
    stamped = timestamp if magic else NO_TIMESTAMP
    return BatchHeader(offset, length, NO_EPOCH, magic, crc, attributes & 0x0F, 0, stamped, stamped)
