"""Kafka's primitive types, read from a buffer without copying what it holds.

Every length is checked against what is there before anything is made of it.
"""

from struct import Struct

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

    def _take(self, count: int) -> int:
        """Step over so many bytes; answers where they begin."""
        start = self.position
        if count < 0 or count > len(self.data) - start:
            raise MalformedRequest(
                f"{count} bytes at position {start}, where {len(self.data) - start} are left"
            )
        self.position = start + count
        return start

    def int16(self) -> int:
        """A signed number of two bytes."""
        return _INT16.unpack_from(self.data, self._take(2))[0]

    def int32(self) -> int:
        """A signed number of four bytes."""
        return _INT32.unpack_from(self.data, self._take(4))[0]

    def unsigned_varint(self) -> int:
        """A number of up to 32 bits, seven to a byte."""
        value = shift = 0
        while True:
            byte = self.data[self._take(1)]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > _MOST_SHIFTS:
                raise MalformedRequest(f"a varint of more than 5 bytes before {self.position}")

    def view(self, count: int) -> memoryview:
        """So many bytes, not copied."""
        start = self._take(count)
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
        if count > len(self.data) - self.position:
            raise MalformedRequest(f"an array of {count} elements at position {self.position}")
        return max(count, 0)

    def array(self) -> int:
        """How many elements follow; a null array has none."""
        return self._count(self.int32())

    def compact_array(self) -> int:
        """The same with a varint one above the number."""
        return self._count(self.unsigned_varint() - 1)

    def skip_tagged_fields(self) -> None:
        """Step over tagged fields, of which none is known here (KIP-482)."""
        for _ in range(self._count(self.unsigned_varint())):
            self.unsigned_varint()
            self._take(self.unsigned_varint())
