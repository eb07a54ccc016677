"""The five codecs of a record batch, framed as Kafka's Java client frames them.

KIP-110 (zstd), KIP-57 (lz4 frames that follow the lz4 specification). Snappy comes in xerial's
framing from Java and as one raw block from others; both are read, xerial's is written.
"""

import gzip
import zlib
from enum import IntEnum
from struct import Struct

import cramjam

from refimpl.storage.errors import CorruptBatch


class Codec(IntEnum):
    """What the lowest three bits of a batch's attributes say."""

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


def compress(codec: Codec, data: bytes) -> bytes:
    """The same input gives the same bytes: gzip's clock is left at zero."""
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


def decompress(codec: Codec, data: bytes | memoryview) -> bytes:
    """What was compressed; anything else is a corrupt batch."""
    try:
        match codec:
            case Codec.NONE:
                return bytes(data)
            case Codec.GZIP:
                return gzip.decompress(data)
            case Codec.SNAPPY:
                return _decompress_snappy(bytes(data))
            case Codec.LZ4:
                return bytes(cramjam.lz4.decompress(bytes(data)))
            case Codec.ZSTD:
                return bytes(cramjam.zstd.decompress(bytes(data)))
    except (cramjam.DecompressionError, EOFError, OSError, zlib.error) as failure:
        raise CorruptBatch(f"its {codec.name.lower()} data do not decompress: {failure}") from None


def _compress_xerial(data: bytes) -> bytes:
    parts = [_XERIAL.pack(_XERIAL_MAGIC, 1, 1)]
    for start in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK]))
        parts += (_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(data: bytes) -> bytes:
    if not data.startswith(_XERIAL_MAGIC):
        return bytes(cramjam.snappy.decompress_raw(data))
    parts: list[bytes] = []
    position = _XERIAL.size
    while position < len(data):
        header = data[position : position + _LENGTH.size]
        length = _LENGTH.unpack(header)[0] if len(header) == _LENGTH.size else -1
        position += _LENGTH.size
        if not 0 < length <= len(data) - position:
            raise CorruptBatch(f"a snappy block of {length} bytes at byte {position}")
        block = data[position : position + length]
        parts.append(bytes(cramjam.snappy.decompress_raw(block)))
        position += length
    return b"".join(parts)
