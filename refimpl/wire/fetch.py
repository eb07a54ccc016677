"""Fetch responses, versions 4 to 18: the bytes of records are parts of the answer, never copied.

Session and error at the top since version 7 (KIP-227), flexible from 12, topics by id from 13
(KIP-516), the leader and where it is from 16 (KIP-951).
"""

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from refimpl.wire.framing import Buffer

FIRST_WITH_SESSIONS, FIRST_FLEXIBLE, FIRST_WITH_IDS, FIRST_WITH_LEADERS = 7, 12, 13, 16
_FIRST_WITH_LOG_START, _FIRST_WITH_PREFERRED = 5, 11

_THROTTLE, _TOP, _COUNT = Struct(">i"), Struct(">ihi"), Struct(">i")
_PARTITION_4, _PARTITION_5 = Struct(">ihqq"), Struct(">ihqqq")
_ABORTED, _INT32 = Struct(">qq"), Struct(">i")
_DIVERGING, _LEADER = Struct(">iqb"), Struct(">iib")
_NULL, _NO_TAGS = -1, b"\0"


class FetchedData(NamedTuple):
    """One partition of an answer. `diverging` and `leader` are (epoch, end) and (id, epoch)."""

    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: Sequence[tuple[int, int]] | None
    preferred_read_replica: int
    records: Buffer
    diverging: tuple[int, int] | None = None
    leader: tuple[int, int] | None = None


class Endpoint(NamedTuple):
    """Where a leader is that the answer speaks of."""

    node_id: int
    host: str
    port: int
    rack: str | None


Topics = Sequence[tuple[str | bytes, Sequence[FetchedData]]]


def unsigned_varint(value: int) -> bytes:
    """A number of up to 32 bits, seven to a byte."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_fetch(
    version: int,
    topics: Topics,
    *,
    throttle_ms: int = 0,
    error_code: int = 0,
    session_id: int = 0,
    endpoints: Sequence[Endpoint] = (),
) -> list[Buffer]:
    """The body of a response in parts; a topic is an id of 16 bytes from version 13 on."""
    flexible = version >= FIRST_FLEXIBLE
    small = bytearray()
    if version >= FIRST_WITH_SESSIONS:
        small += _TOP.pack(throttle_ms, error_code, session_id)
    else:
        small += _THROTTLE.pack(throttle_ms)
    small += _count(len(topics), flexible)
    parts: list[Buffer] = []
    for topic, partitions in topics:
        small += topic if isinstance(topic, bytes) else _string(topic, flexible)
        small += _count(len(partitions), flexible)
        for one in partitions:
            small += _head(version, one)
            records = one.records
            small += _count(len(records), flexible)
            if records:
                parts += (small, records)
                small = bytearray()
            if flexible:
                small += _partition_tags(version, one)
        if flexible:
            small += _NO_TAGS
    if flexible:
        small += _endpoint_tags(endpoints) if version >= FIRST_WITH_LEADERS else _NO_TAGS
    parts.append(small)
    return parts


def _count(count: int, flexible: bool) -> bytes:
    return unsigned_varint(count + 1) if flexible else _COUNT.pack(count)


def _string(text: str, flexible: bool) -> bytes:
    raw = text.encode()
    return (unsigned_varint(len(raw) + 1) if flexible else len(raw).to_bytes(2)) + raw


def _head(version: int, one: FetchedData) -> bytes:
    """Everything before the records."""
    if version >= _FIRST_WITH_LOG_START:
        head = _PARTITION_5.pack(*one[:5])
    else:
        head = _PARTITION_4.pack(*one[:4])
    flexible = version >= FIRST_FLEXIBLE
    head += _aborted(one.aborted, flexible)
    if version >= _FIRST_WITH_PREFERRED:
        head += _INT32.pack(one.preferred_read_replica)
    return head


def _aborted(aborted: Sequence[tuple[int, int]] | None, flexible: bool) -> bytes:
    if aborted is None:
        return b"\0" if flexible else _COUNT.pack(_NULL)
    end = _NO_TAGS if flexible else b""
    listed = b"".join(_ABORTED.pack(*transaction) + end for transaction in aborted)
    return _count(len(aborted), flexible) + listed


def _tags(tags: Sequence[tuple[int, bytes]]) -> bytes:
    if not tags:
        return _NO_TAGS
    listed = (unsigned_varint(tag) + unsigned_varint(len(data)) + data for tag, data in tags)
    return unsigned_varint(len(tags)) + b"".join(listed)


def _partition_tags(version: int, one: FetchedData) -> bytes:
    tags: list[tuple[int, bytes]] = []
    if one.diverging is not None:
        tags.append((0, _DIVERGING.pack(*one.diverging, 0)))
    if one.leader is not None and version >= FIRST_WITH_LEADERS:
        tags.append((1, _LEADER.pack(*one.leader, 0)))
    return _tags(tags)


def _endpoint_tags(endpoints: Sequence[Endpoint]) -> bytes:
    if not endpoints:
        return _NO_TAGS
    listed = b"".join(
        _INT32.pack(one.node_id)
        + _string(one.host, True)
        + _INT32.pack(one.port)
        + (b"\0" if one.rack is None else _string(one.rack, True))
        + _NO_TAGS
        for one in endpoints
    )
    return _tags([(0, unsigned_varint(len(endpoints) + 1) + listed)])
