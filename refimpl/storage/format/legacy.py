"""Message formats v0 and v1, read only: the files of brokers before 0.11.

A message is single, or its value is a compressed run of messages. In v0 those keep their own
offsets. In v1 (KIP-31, KIP-32) they are numbered from the run's beginning. The wrapper carries the
offset of the last, so that a broker need not open it. A wrapper stamped with LogAppendTime stamps
all messages inside.
"""

from collections.abc import Iterator
from struct import Struct

from attrs import evolve, frozen

from refimpl.errors import CorruptBatch
from refimpl.storage.disk.interface import Buffer
from refimpl.storage.format.batch import (
    MAGIC,
    BatchHeader,
    Record,
    TimestampType,
    crc_matches,
    decode_records,
    read_header,
)
from refimpl.storage.format.compression import Codec, decompress

_LENGTH = Struct(">i")
_KEY_AT = (18, 26)  # behind offset, length, CRC, magic and attributes; v1 has a timestamp too
_LZ4_FLAGS_AT, _LZ4_CONTENT_SIZE = 4, 0x08
_PRIME_1, _PRIME_2, _PRIME_3, _PRIME_5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x165667B1
_WORD = 0xFFFFFFFF


@frozen
class Message:
    """One record of an old format, which has a checksum of its own."""

    record: Record
    crc: int
    is_valid: bool


def decode_messages(data: Buffer, position: int = 0) -> tuple[Message, ...]:
    """The message at this position, or those that it wraps, oldest first."""
    wrapper = read_header(data, position)
    if wrapper.codec is Codec.NONE:
        return (_decode_message(data, position, wrapper),)
    packed = _fields(data, position, wrapper)[1]
    if packed is None or wrapper.codec is Codec.ZSTD:
        raise CorruptBatch(f"a wrapper of format {wrapper.magic} without anything to unwrap")
    if wrapper.codec is Codec.LZ4 and wrapper.magic == 0:
        packed = _right_lz4_header(packed)
    inner = tuple(_unwrapped(decompress(wrapper.codec, packed)))
    if not inner:
        raise CorruptBatch("a wrapper around no message")
    return inner if wrapper.magic == 0 else _numbered(inner, wrapper)


def records_at(data: Buffer, position: int, header: BatchHeader) -> Iterator[Record]:
    """The records of a batch of any format."""
    if header.magic >= MAGIC:
        return decode_records(data, position)
    return (message.record for message in decode_messages(data, position))


def _unwrapped(data: bytes) -> Iterator[Message]:
    """The messages inside; a last one that a broker cut off is no damage."""
    position = 0
    while len(data) - position >= _KEY_AT[0]:
        header = read_header(data, position)
        if position + header.size > len(data):
            return
        if header.codec is not Codec.NONE:
            raise CorruptBatch(f"a compressed message inside another, at byte {position} of it")
        yield _decode_message(data, position, header)
        position += header.size


def _numbered(inner: tuple[Message, ...], wrapper: BatchHeader) -> tuple[Message, ...]:
    """The messages with absolute offsets and timestamps; some clients left the wrapper's offset at
    zero.
    """
    last = inner[-1].record.offset
    if 0 < wrapper.base_offset < last:
        raise CorruptBatch(f"offset {last} inside a wrapper of offset {wrapper.base_offset}")
    base = wrapper.base_offset - last if wrapper.base_offset else 0
    stamped = wrapper.timestamp_type is TimestampType.LOG_APPEND_TIME
    return tuple(
        evolve(
            message,
            record=evolve(
                message.record,
                offset=base + message.record.offset,
                timestamp=wrapper.max_timestamp if stamped else message.record.timestamp,
            ),
        )
        for message in inner
    )


def _decode_message(data: Buffer, position: int, header: BatchHeader) -> Message:
    key, value = _fields(data, position, header)
    record = Record(header.base_offset, header.max_timestamp, key, value)
    return Message(record, header.crc, crc_matches(data, header, position))


def _fields(data: Buffer, position: int, header: BatchHeader) -> tuple[bytes | None, bytes | None]:
    end = position + header.size
    key, place = _sized(data, position + _KEY_AT[header.magic], end)
    value, place = _sized(data, place, end)
    if place != end:
        raise CorruptBatch(f"{end - place} bytes behind the value of a message")
    return key, value


def _sized(data: Buffer, position: int, end: int) -> tuple[bytes | None, int]:
    start = position + _LENGTH.size
    length = _LENGTH.unpack_from(data, position)[0] if start <= end else end
    if length < 0:
        return None, start
    if start + length > end:
        raise CorruptBatch(f"a field of {length} bytes, {end - position} bytes before the end")
    return bytes(data[start : start + length]), start + length


def _right_lz4_header(frame: bytes) -> bytes:
    """The frame with a right header checksum: with v0, clients included the magic number
    (KAFKA-3160).
    """
    if len(frame) <= _LZ4_FLAGS_AT:
        raise CorruptBatch(f"an lz4 frame of {len(frame)} bytes")
    end = _LZ4_FLAGS_AT + (10 if frame[_LZ4_FLAGS_AT] & _LZ4_CONTENT_SIZE else 2)
    checksum = _xxh32(frame[_LZ4_FLAGS_AT:end]) >> 8 & 0xFF
    return frame[:end] + bytes((checksum,)) + frame[end + 1 :]


def _xxh32(data: bytes) -> int:
    """xxHash of fewer than 16 bytes, as the lz4 frame format needs it for its header."""
    result = _PRIME_5 + len(data)
    whole = len(data) - len(data) % 4
    for (word,) in Struct("<I").iter_unpack(data[:whole]):
        result = _rotated(result + word * _PRIME_3, 17) * 0x27D4EB2F
    for byte in data[whole:]:
        result = _rotated(result + byte * _PRIME_5, 11) * _PRIME_1
    result &= _WORD
    result = (result ^ result >> 15) * _PRIME_2 & _WORD
    result = (result ^ result >> 13) * _PRIME_3 & _WORD
    return result ^ result >> 16


def _rotated(value: int, bits: int) -> int:
    value &= _WORD
    return value << bits | value >> 32 - bits
