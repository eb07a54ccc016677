"""Zigzag varints, as in protocol buffers: the numbers inside a record of format v2."""

from refimpl.errors import CorruptBatch


def encode_varint(value: int) -> bytes:
    """A signed number of up to 64 bits as a varint; small absolute values take few bytes."""
    rest = ((value << 1) ^ (value >> 63)) & 0xFFFFFFFFFFFFFFFF
    if rest < 0x80:
        return bytes((rest,))
    encoded = bytearray()
    while rest >= 0x80:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def decode_varint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """The number at this position, and the position behind it."""
    result = shift = 0
    try:
        if data[position] < 0x80:  # nearly all of them
            return (data[position] >> 1) ^ -(data[position] & 1), position + 1
        while True:
            byte = data[position]
            position += 1
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (result >> 1) ^ -(result & 1), position
            shift += 7
            if shift > 63:
                raise CorruptBatch(f"a varint of more than ten bytes ends at byte {position}")
    except IndexError:
        raise CorruptBatch(f"a varint is cut off at byte {position}") from None
