"""Frames come whole out of any pieces, and a size costs what has arrived."""

from struct import pack

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from refimpl.wire.errors import FrameTooLarge
from refimpl.wire.framing import LARGE, FrameReader, frame

LIMIT = 3 * LARGE
SIZES = st.one_of(st.integers(0, 300), st.integers(LARGE - 2, 2 * LARGE))


def stream(sizes: list[int]) -> tuple[list[bytes], bytes]:
    frames = [bytes([number % 256]) * size for number, size in enumerate(sizes, 1)]
    return frames, b"".join(b"".join(frame(b"", [one])) for one in frames)


def received(reader: FrameReader, data: bytes, pieces: list[int]) -> list[bytes]:
    """The frames read if a socket returns the data in pieces of such sizes."""
    found: list[bytes] = []
    position, turn = 0, 0
    while position < len(data):
        piece = pieces[turn % len(pieces)]
        turn += 1
        space = reader.space()
        if space is None:
            chunk = data[position : position + piece]
            found += map(bytes, reader.feed(chunk))
        else:
            chunk = data[position : position + min(piece, len(space))]
            space[: len(chunk)] = chunk
            found += map(bytes, reader.filled(len(chunk)))
        position += len(chunk)
        assert reader.held <= max(LARGE, 2 * position) + piece
    return found


@given(st.lists(SIZES, max_size=6), st.lists(st.integers(1, 2 * LARGE), min_size=1, max_size=5))
@example([LARGE + 1, 0, 5], [1])
@example([2 * LARGE], [LARGE, 3])
def test_frames_come_whole_out_of_any_pieces(sizes: list[int], pieces: list[int]) -> None:
    if sum(sizes) / min(pieces) > 100_000:
        pieces = [*pieces, 1000]
    frames, data = stream(sizes)
    reader = FrameReader(LIMIT)
    assert received(reader, data, pieces) == frames
    assert reader.held == 0


@pytest.mark.parametrize("size", [-1, -(2**31), LIMIT + 1, 2**31 - 1])
def test_a_size_that_is_not_allowed_is_refused_before_the_frame_comes(size: int) -> None:
    with pytest.raises(FrameTooLarge, match=str(size)):
        FrameReader(LIMIT).feed(pack(">i", size))


def test_a_size_is_believed_as_far_as_bytes_arrive() -> None:
    reader = FrameReader(100 << 20)
    assert not reader.feed(pack(">i", 100 << 20) + b"ten bytes.")
    assert reader.held <= LARGE
