"""Kafka's primitive types and the structures that several responses share, as bytes."""

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

_INT32 = Struct(">i")
_LEADER = Struct(">iib")
NO_TAGS = b"\0"


class NodeEndpoint(NamedTuple):
    """The address of a leader that the answer names."""

    node_id: int
    host: str
    port: int
    rack: str | None


#: Most numbers are of one byte
_SHORT = [bytes((value,)) for value in range(0x80)]


def unsigned_varint(value: int) -> bytes:
    """A number of up to 32 bits, seven to a byte."""
    if value < 0x80:
        return _SHORT[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def count_of(count: int, flexible: bool) -> bytes:
    """The number of elements, or of bytes, before them."""
    return unsigned_varint(count + 1) if flexible else _INT32.pack(count)


def string_of(text: str, flexible: bool) -> bytes:
    """A string with its length."""
    raw = text.encode()
    return (unsigned_varint(len(raw) + 1) if flexible else len(raw).to_bytes(2)) + raw


def tags_of(tags: Sequence[tuple[int, bytes]]) -> bytes:
    """Tagged fields: number and bytes of each (KIP-482)."""
    if not tags:
        return NO_TAGS
    listed = (unsigned_varint(tag) + unsigned_varint(len(data)) + data for tag, data in tags)
    return unsigned_varint(len(tags)) + b"".join(listed)


def leader_tag(leader: tuple[int, int]) -> bytes:
    """Id and epoch of a current leader (KIP-951)."""
    return _LEADER.pack(*leader, 0)


def endpoint_tags(endpoints: Sequence[NodeEndpoint]) -> bytes:
    """The tagged fields of a response that says where leaders are (KIP-951)."""
    if not endpoints:
        return NO_TAGS
    listed = b"".join(
        _INT32.pack(one.node_id)
        + string_of(one.host, True)
        + _INT32.pack(one.port)
        + (b"\0" if one.rack is None else string_of(one.rack, True))
        + NO_TAGS
        for one in endpoints
    )
    return tags_of([(0, unsigned_varint(len(endpoints) + 1) + listed)])
