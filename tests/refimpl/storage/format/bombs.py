"""Decompression bombs: little to send, much to keep."""

from crc32c import crc32c

from refimpl.storage.format.batch import CRC_AT, CRC_FROM, HEADER_SIZE, Record, encode_batch
from refimpl.storage.format.compression import MOST_BYTES, Codec, compress

BOMBS = [codec for codec in Codec if codec is not Codec.NONE]
_PIECE = 1 << 20
_XERIAL_HEADER = 16


def bomb(codec: Codec, size: int = 2 * MOST_BYTES) -> bytes:
    """Zeros, compressed without having been in memory together: frames follow each other."""
    frame, times = compress(codec, bytes(_PIECE)), size // _PIECE
    if codec is Codec.SNAPPY:
        return frame[:_XERIAL_HEADER] + frame[_XERIAL_HEADER:] * times
    return frame * times


def bomb_batch(codec: Codec, at_ms: int) -> bytes:
    """A batch of one record by its header, of this time."""
    records = bomb(codec)
    batch = bytearray(encode_batch([Record(0, at_ms, b"k", b"v")], codec=codec))[:HEADER_SIZE]
    batch[8:12] = (HEADER_SIZE - 12 + len(records)).to_bytes(4)
    batch += records
    batch[CRC_AT:CRC_FROM] = crc32c(memoryview(batch)[CRC_FROM:]).to_bytes(4)
    return bytes(batch)
