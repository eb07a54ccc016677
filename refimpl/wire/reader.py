"""Kafka's primitive types, read from a buffer without copying what it holds.

Every length is checked against what is there before anything is made of it. Functions, for what is
read of every request: each takes a position and answers a value and the position behind it. A
`Reader` keeps the position itself.
"""

from struct import Struct, error

from attrs import define

from refimpl.wire.errors import MalformedRequest
from refimpl.wire.framing import Buffer

_INT16, _INT32 = Struct(">h"), Struct(">i")
_MOST_SHIFTS = 28
UUID_SIZE = 16


def too_short(data: Buffer, position: int, count: int) -> MalformedRequest:
    """A buffer that ends too early."""
    left = max(len(data) - position, 0)
    return MalformedRequest(f"{count} bytes at position {position}, where {left} are left")


def unsigned_varint(data: Buffer, position: int) -> tuple[int, int]:
    """A number of up to 32 bits, seven to a byte; most are of one byte."""
    value = shift = 0
    try:
        byte = data[position]
        if byte < 0x80:
            return byte, position + 1
        while (byte := data[position]) >= 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
            position += 1
            if shift > _MOST_SHIFTS:
                raise MalformedRequest(f"a varint of more than 5 bytes before {position}")
    except IndexError:
        raise too_short(data, position, 1) from None
    return value | byte << shift, position + 1


def nullable_string(data: Buffer, position: int) -> tuple[str | None, int]:
    """A string with a length of two bytes."""
    start = position + _INT16.size
    if start > len(data):
        raise too_short(data, position, _INT16.size)
    return _string(data, start, _INT16.unpack_from(data, position)[0])


def compact_nullable_string(data: Buffer, position: int) -> tuple[str | None, int]:
    """A string with a varint one above its length."""
    count, position = unsigned_varint(data, position)
    return _string(data, position, count - 1) if count else (None, position)


def _string(data: Buffer, position: int, count: int) -> tuple[str | None, int]:
    if count < 0:
        return None, position
    end = position + count
    if end > len(data):
        raise too_short(data, position, count)
    try:
        return str(data[position:end], "utf-8"), end
    except UnicodeDecodeError:
        raise MalformedRequest(f"a string before {end} is not UTF-8") from None


def after_tagged_fields(data: Buffer, position: int) -> int:
    """The end of the tagged fields that begin here, none of which is known (KIP-482)."""
    if position < len(data) and not data[position]:
        return position + 1
    count, position = unsigned_varint(data, position)
    for _ in range(count):
        _, position = unsigned_varint(data, position)
        size, position = unsigned_varint(data, position)
        position += size
    if position > len(data):
        raise too_short(data, len(data), position - len(data))
    return position


@define(eq=False)
class Reader:
    """A position in a buffer. Raises MalformedRequest where the buffer ends too early."""

    data: Buffer
    position: int = 0

    def skip(self, count: int) -> int:
        """Step over so many bytes; answers where they begin."""
        start = self.position
        if count < 0 or count > len(self.data) - start:
            raise too_short(self.data, start, count)
        self.position = start + count
        return start

    def int16(self) -> int:
        """A signed number of two bytes."""
        return self._number(_INT16)

    def int32(self) -> int:
        """A signed number of four bytes."""
        return self._number(_INT32)

    def _number(self, kind: Struct) -> int:
        try:
            (value,) = kind.unpack_from(self.data, self.position)
        except error:
            raise too_short(self.data, self.position, kind.size) from None
        self.position += kind.size
        return value

    def unsigned_varint(self) -> int:
        """A number of up to 32 bits."""
        value, self.position = unsigned_varint(self.data, self.position)
        return value

    def view(self, count: int) -> memoryview:
        """So many bytes, not copied."""
        start = self.skip(count)
        return memoryview(self.data)[start : start + count]
