"""Frames: four bytes of size, then a request or a response."""

from collections.abc import Sequence
from struct import Struct

from attrs import define, field

from refimpl.wire.errors import FrameTooLarge

Buffer = bytes | bytearray | memoryview

SIZE = Struct(">i")
#: A frame above this many bytes is received into memory of its own, without a copy
LARGE = 1 << 16
#: To copy so much costs less than to hand it on in parts
SMALL = 1 << 10


@define(eq=False)
class FrameReader:
    """The bytes of one connection that are no whole frame yet.

    A size is believed only as far as bytes arrive: memory doubles as it fills, so a frame that says
    100 MB and brings 10 bytes costs 64 KiB.
    """

    #: socket.request.max.bytes
    limit: int
    _rest: bytes = field(default=b"", init=False)
    _large: bytearray | None = field(default=None, init=False)
    #: Of the large frame: its size, and how much is there
    size: int = field(default=0, init=False)
    _used: int = field(default=0, init=False)

    @property
    def held(self) -> int:
        """The memory of the frame that has begun, in bytes."""
        return len(self._rest) + (0 if self._large is None else len(self._large))

    def space(self) -> memoryview | None:
        """The buffer for the rest of a large frame; None while any buffer will do, for `feed`."""
        large = self._large
        if large is None:
            return None
        if self._used == len(large):
            grown = bytearray(min(self.size, 2 * len(large)))
            grown[: self._used] = large
            self._large = large = grown
        return memoryview(large)[self._used :]

    def filled(self, count: int) -> Sequence[Buffer]:
        """So many bytes have come into `space()`; the frame, if that was all of it."""
        assert self._large is not None
        self._used += count
        if self._used < self.size:
            return ()
        frame = memoryview(self._large)
        self._large, self.size, self._used = None, 0, 0
        return (frame,)

    def feed(self, data: Buffer) -> Sequence[Buffer]:
        """These bytes have come; the frames that are whole by that, without their sizes.

        `data` is copied and may be used again. Raises FrameTooLarge.
        """
        view = memoryview(self._rest + data if self._rest else data)
        frames: list[Buffer] = []
        position, end = 0, len(view)
        while end - position >= SIZE.size:
            (size,) = SIZE.unpack_from(view, position)
            if not 0 <= size <= self.limit:
                raise FrameTooLarge(size, self.limit)
            start = position + SIZE.size
            if end - start < size:
                if size > LARGE:
                    self._begin(size, view[start:])
                    position = end
                break
            position = start + size
            frames.append(bytes(view[start:position]))
        self._rest = bytes(view[position:])
        return frames

    def _begin(self, size: int, part: memoryview) -> None:
        self.size, self._used = size, len(part)
        self._large = bytearray(min(size, max(LARGE, 2 * len(part))))
        self._large[: len(part)] = part


def frame(head: bytes, parts: Sequence[Buffer]) -> list[Buffer]:
    """The parts of a message behind its header, with their size before it; together, where they are
    small."""
    size = len(head) + sum(map(len, parts))
    if size <= SMALL:
        return [b"".join((SIZE.pack(size), head, *parts))]
    return [SIZE.pack(size) + head, *parts]
