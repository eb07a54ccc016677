"""Fetch responses, versions 4 to 18: the bytes of records are parts of the answer, never copied.

Session and error at the top since version 7 (KIP-227), flexible from 12, topics by id from 13
(KIP-516), the leader and where it is from 16 (KIP-951).
"""

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from refimpl.wire.framing import Buffer
from refimpl.wire.writer import (
    NO_TAGS,
    NodeEndpoint,
    count_of,
    endpoint_tags,
    leader_tag,
    string_of,
    tags_of,
)

FIRST_WITH_SESSIONS, FIRST_FLEXIBLE, FIRST_WITH_IDS, FIRST_WITH_LEADERS = 7, 12, 13, 16
_FIRST_WITH_LOG_START, _FIRST_WITH_PREFERRED = 5, 11

_TOP = Struct(">ihi")
_PARTITION_4, _PARTITION_5 = Struct(">ihqq"), Struct(">ihqqq")
_ABORTED, _INT32 = Struct(">qq"), Struct(">i")
_DIVERGING = Struct(">iqb")
_NULL = -1


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


Topics = Sequence[tuple[str | bytes, Sequence[FetchedData]]]


def write_fetch(
    version: int,
    topics: Topics,
    *,
    throttle_ms: int = 0,
    error_code: int = 0,
    session_id: int = 0,
    endpoints: Sequence[NodeEndpoint] = (),
) -> list[Buffer]:
    """The body of a response in parts; a topic is an id of 16 bytes from version 13 on."""
    flexible = version >= FIRST_FLEXIBLE
    small = bytearray()
    if version >= FIRST_WITH_SESSIONS:
        small += _TOP.pack(throttle_ms, error_code, session_id)
    else:
        small += _INT32.pack(throttle_ms)
    small += count_of(len(topics), flexible)
    parts: list[Buffer] = []
    for topic, partitions in topics:
        small += topic if isinstance(topic, bytes) else string_of(topic, flexible)
        small += count_of(len(partitions), flexible)
        for one in partitions:
            small += _head(version, one)
            records = one.records
            small += count_of(len(records), flexible)
            if records:
                parts += (small, records)
                small = bytearray()
            if flexible:
                small += _partition_tags(version, one)
        if flexible:
            small += NO_TAGS
    if flexible:
        small += endpoint_tags(endpoints) if version >= FIRST_WITH_LEADERS else NO_TAGS
    parts.append(small)
    return parts


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
        return b"\0" if flexible else _INT32.pack(_NULL)
    end = NO_TAGS if flexible else b""
    listed = b"".join(_ABORTED.pack(*transaction) + end for transaction in aborted)
    return count_of(len(aborted), flexible) + listed


def _partition_tags(version: int, one: FetchedData) -> bytes:
    tags: list[tuple[int, bytes]] = []
    if one.diverging is not None:
        tags.append((0, _DIVERGING.pack(*one.diverging, 0)))
    if one.leader is not None and version >= FIRST_WITH_LEADERS:
        tags.append((1, leader_tag(one.leader)))
    return tags_of(tags)
