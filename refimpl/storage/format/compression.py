"""The five codecs of a record batch, framed as Kafka's Java client frames them.

KIP-110 (zstd), KIP-57 (lz4 frames that follow the lz4 specification). Snappy comes in xerial's
framing from Java and as one raw block from others; both are read, xerial's is written. A payload
that decompresses to more than a batch may hold is refused before memory is allocated for it: a
megabyte of zstd can decompress to 30 GB.
"""

import gzip
from enum import IntEnum
from struct import Struct
from typing import Any

import cramjam

from refimpl.errors import CorruptBatch, MessageTooLarge


class Codec(IntEnum):
    """The codec in the lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_XERIAL = Struct(">8sii")
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_BLOCK = 32 * 1024
_LENGTH = Struct(">i")
_LZ4_FAST, _ZSTD_DEFAULT = 1, 3

MOST_BYTES, MOST_TIMES = 32 << 20, 16
"""The largest decompressed size of a batch's records: so many bytes, or so many times the
compressed size, whichever is more.
"""
_FIRST_ROOM = 1 << 12
_LIBRARIES: dict[Codec, Any] = {
    Codec.GZIP: cramjam.gzip,
    Codec.LZ4: cramjam.lz4,
    Codec.ZSTD: cramjam.zstd,
}
_NO_ROOM = "failed to write whole buffer"
"""cramjam's message for an output that does not fit; any other message is about damaged input."""


def compress(codec: Codec, data: bytes) -> bytes:
    """The compressed data. The same input gives the same bytes: gzip's clock is left at zero."""
    match codec:
        case Codec.NONE:
            return data
        case Codec.GZIP:
            return gzip.compress(data, 6, mtime=0)
        case Codec.SNAPPY:
            return _compress_xerial(data)
        case Codec.LZ4:
            # Kafka's reader refuses frames whose blocks refer to each other.
            frame = cramjam.lz4.Compressor(level=_LZ4_FAST, block_linked=False)
            frame.compress(data)
            return bytes(frame.finish())
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(data, _ZSTD_DEFAULT))


def decompress(codec: Codec, data: bytes | memoryview, most: int | None = None) -> bytes:
    """The decompressed data; invalid input is a corrupt batch.

    Raises MessageTooLarge above `most`, or else the limits of `MOST_BYTES` and `MOST_TIMES`. Memory
    grows step by step, so that the size that a bomb claims costs nothing. Kafka reads a stream of
    any length instead.
    """
    if codec is Codec.NONE:
        return bytes(data)
    most = max(MOST_BYTES, MOST_TIMES * len(data)) if most is None else most
    try:
        if codec is Codec.SNAPPY:
            return _decompress_snappy(bytes(data), most)
        return _decompress_frames(_LIBRARIES[codec], bytes(data), most)
    except cramjam.DecompressionError as failure:
        raise CorruptBatch(f"its {codec.name.lower()} data do not decompress: {failure}") from None


def _decompress_frames(library: Any, data: bytes, most: int) -> bytes:
    """The decompressed data, by trial, each time with four times as much room."""
    room = max(_FIRST_ROOM, 4 * len(data))
    while True:
        out = bytearray(min(room, most))
        try:
            return bytes(memoryview(out)[: library.decompress_into(data, out)])
        except cramjam.DecompressionError as failure:
            if _NO_ROOM not in str(failure):
                raise
        if room >= most:
            raise _too_large(most)
        room *= 4


def _too_large(most: int) -> MessageTooLarge:
    return MessageTooLarge(f"its records are more than {most} bytes when they are decompressed")


def _compress_xerial(data: bytes) -> bytes:
    parts = [_XERIAL.pack(_XERIAL_MAGIC, 1, 1)]
    for start in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK]))
        parts += (_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(data: bytes, most: int) -> bytes:
    if not data.startswith(_XERIAL_MAGIC):
        return _snappy_block(data, most, most)
    parts: list[bytes] = []
    position, room = _XERIAL.size, most
    while position < len(data):
        header = data[position : position + _LENGTH.size]
        length = _LENGTH.unpack(header)[0] if len(header) == _LENGTH.size else -1
        position += _LENGTH.size
        if not 0 < length <= len(data) - position:
            raise CorruptBatch(f"a snappy block of {length} bytes at byte {position}")
        parts.append(_snappy_block(data[position : position + length], room, most))
        room -= len(parts[-1])
        position += length
    return b"".join(parts)


def _snappy_block(block: bytes, room: int, most: int) -> bytes:
    """A decompressed block, whose claimed size is checked first, because it may be wrong."""
    if cramjam.snappy.decompress_raw_len(block) > room:
        raise _too_large(most)
    return bytes(cramjam.snappy.decompress_raw(block))
