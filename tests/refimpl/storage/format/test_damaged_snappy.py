"""Blocks of snappy whose length is wrong are named, and not handed to the library."""

import pytest

from refimpl.errors import CorruptBatch
from refimpl.storage.format.compression import Codec, compress, decompress

WHOLE = compress(Codec.SNAPPY, b"x" * 100)
HEADER = 16


def with_length(length: int) -> bytes:
    return WHOLE[:HEADER] + length.to_bytes(4, "big", signed=True) + WHOLE[HEADER + 4 :]


@pytest.mark.parametrize("length", [0, -1, len(WHOLE) - HEADER - 3])
def test_a_block_has_a_length_that_is_there(length: int) -> None:
    with pytest.raises(CorruptBatch, match=f"a snappy block of {length} bytes at byte 20"):
        decompress(Codec.SNAPPY, with_length(length), 1000)


def test_a_length_that_is_cut_off_is_none() -> None:
    with pytest.raises(CorruptBatch, match="a snappy block of -1 bytes"):
        decompress(Codec.SNAPPY, WHOLE + b"\0\0", 1000)


def test_a_block_of_all_that_is_left_is_right() -> None:
    assert decompress(Codec.SNAPPY, with_length(len(WHOLE) - HEADER - 4), 1000) == b"x" * 100
