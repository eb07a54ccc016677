"""Kafka's primitive types, read from a buffer without copying what it holds.

Every length is checked against what is there before anything is made of it.
"""

from struct import Struct, error

from attrs import define

from refimpl.wire.errors import MalformedRequest
from refimpl.wire.framing import Buffer

_INT16, _INT32 = Struct(">h"), Struct(">i")
_MOST_SHIFTS = 28
UUID_SIZE = 16


@define(eq=False)
class Reader:
    """A position in a buffer. Raises MalformedRequest where the buffer ends too early."""

    data: Buffer
    position: int = 0

    def skip(self, count: int) -> int:
        """Step over so many bytes; answers where they begin."""
        start = self.position
        if count < 0 or count > len(self.data) - start:
            raise self._too_short(count)
        self.position = start + count
        return start

    def _too_short(self, count: int) -> MalformedRequest:
        left = len(self.data) - self.position
        return MalformedRequest(f"{count} bytes at position {self.position}, where {left} are left")

    def int16(self) -> int:
        """A signed number of two bytes."""
        position = self.position
        try:
            (value,) = _INT16.unpack_from(self.data, position)
        except error:
            raise self._too_short(2) from None
        self.position = position + 2
        return value

    def int32(self) -> int:
        """A signed number of four bytes."""
        position = self.position
        try:
            (value,) = _INT32.unpack_from(self.data, position)
        except error:
            raise self._too_short(4) from None
        self.position = position + 4
        return value

    def unsigned_varint(self) -> int:
        """A number of up to 32 bits, seven to a byte; most are of one byte."""
        position = self.position
        data, value, shift = self.data, 0, 0
        try:
            while (byte := data[position]) >= 0x80:
                value |= (byte & 0x7F) << shift
                shift += 7
                position += 1
                if shift > _MOST_SHIFTS:
                    raise MalformedRequest(f"a varint of more than 5 bytes before {position}")
        except IndexError:
            raise self._too_short(1) from None
        self.position = position + 1
        return value | byte << shift

    def view(self, count: int) -> memoryview:
        """So many bytes, not copied."""
        start = self.position
        if count < 0 or count > len(self.data) - start:
            raise self._too_short(count)
        self.position = start + count
        return memoryview(self.data)[start : start + count]

    def _string(self, count: int) -> str | None:
        if count < 0:
            return None
        try:
            return str(self.view(count), "utf-8")
        except UnicodeDecodeError:
            raise MalformedRequest(f"a string before {self.position} is not UTF-8") from None

    def nullable_string(self) -> str | None:
        """A string with a length of two bytes."""
        return self._string(self.int16())

    def compact_nullable_string(self) -> str | None:
        """A string with a varint one above its length."""
        return self._string(self.unsigned_varint() - 1)

    def _count(self, count: int) -> int:
        """The elements of an array, each of which takes a byte at least."""
        if count <= 0:
            return 0
        if count > len(self.data) - self.position:
            raise MalformedRequest(f"an array of {count} elements at position {self.position}")
        return count

    def array(self) -> int:
        """How many elements follow; a null array has none."""
        return self._count(self.int32())

    def compact_array(self) -> int:
        """The same with a varint one above the number."""
        return self._count(self.unsigned_varint() - 1)

    def skip_tagged_fields(self) -> None:
        """Step over tagged fields, of which none is known here (KIP-482)."""
        tags = self.unsigned_varint()
        if tags:
            for _ in range(self._count(tags)):
                self.unsigned_varint()
                self.skip(self.unsigned_varint())
