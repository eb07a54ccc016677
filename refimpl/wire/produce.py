"""Produce, versions 3 to 13: requests without copying a record, for batches are views of the frame;
and responses.

Flexible from version 9, the leader and where it is from 10 (KIP-951), topics by id from 13
(KIP-516). A batch that is null is one of no bytes.
"""

from collections.abc import Sequence
from struct import Struct, error
from typing import NamedTuple

from refimpl.named import named
from refimpl.wire.errors import MalformedRequest
from refimpl.wire.framing import Buffer
from refimpl.wire.reader import (
    UUID_SIZE,
    after_tagged_fields,
    compact_nullable_string,
    nullable_string,
    too_short,
    unsigned_varint,
)
from refimpl.wire.writer import (
    NO_TAGS,
    NodeEndpoint,
    count_of,
    endpoint_tags,
    leader_tag,
    string_of,
    tags_of,
)

FIRST_FLEXIBLE, FIRST_WITH_LEADERS, FIRST_WITH_IDS = 9, 10, 13
_FIRST_WITH_LOG_START, _FIRST_WITH_MESSAGES = 5, 8

_PARTITION_3, _PARTITION_5, _INT32 = Struct(">ihqq"), Struct(">ihqqq"), Struct(">i")
_HEAD, _HEAD_CLASSIC, _BATCH_CLASSIC = Struct(">hi"), Struct(">hii"), Struct(">ii")
#: Neither errors of records nor a message, nor tagged fields
_ALL_WELL, _ALL_WELL_FLEXIBLE = b"\0\0\0\0\xff\xff", b"\x01\0" + NO_TAGS


class ProduceData(NamedTuple):
    """The batch for one partition; the topic is a name, or an id of 16 bytes."""

    topic: str | bytes
    partition: int
    records: memoryview


class ProduceRequest(NamedTuple):
    """A request as it was sent."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    data: list[ProduceData]


def read_produce(data: Buffer, position: int, version: int) -> ProduceRequest:
    """The body of a request that begins at this position. Raises MalformedRequest, also for null
    instead of topics or partitions.
    """
    try:
        if version >= FIRST_FLEXIBLE:
            return _flexible(data, position, with_ids=version >= FIRST_WITH_IDS)
        return _classic(data, position)
    except error:
        raise MalformedRequest("the request ends within a number") from None


def _classic(data: Buffer, position: int) -> ProduceRequest:
    view = memoryview(data)
    transactional_id, position = nullable_string(data, position)
    acks, timeout_ms, topics = _HEAD_CLASSIC.unpack_from(data, position)
    position += _HEAD_CLASSIC.size
    found: list[ProduceData] = []
    for _ in _counted(topics):
        topic, position = nullable_string(data, position)
        name = _named(topic)
        (partitions,) = _INT32.unpack_from(data, position)
        position += _INT32.size
        for _ in _counted(partitions):
            index, size = _BATCH_CLASSIC.unpack_from(data, position)
            start = position + _BATCH_CLASSIC.size
            position = start + max(size, 0)
            if position > len(data):
                raise too_short(data, start, size)
            found.append(ProduceData(name, index, view[start:position]))
    return ProduceRequest(transactional_id, acks, timeout_ms, found)


def _flexible(data: Buffer, position: int, *, with_ids: bool) -> ProduceRequest:
    view = memoryview(data)
    transactional_id, position = compact_nullable_string(data, position)
    acks, timeout_ms = _HEAD.unpack_from(data, position)
    topics, position = unsigned_varint(data, position + _HEAD.size)
    found: list[ProduceData] = []
    for _ in _counted(topics - 1):
        if with_ids:
            topic: str | bytes = bytes(view[position : position + UUID_SIZE])
            position += UUID_SIZE
        else:
            name, position = compact_nullable_string(data, position)
            topic = _named(name)
        partitions, position = unsigned_varint(data, position)
        for _ in _counted(partitions - 1):
            (index,) = _INT32.unpack_from(data, position)
            size, start = unsigned_varint(data, position + _INT32.size)
            end = start + max(size - 1, 0)
            found.append(named(ProduceData, (topic, index, view[start:end])))
            position = after_tagged_fields(data, end)
        position = after_tagged_fields(data, position)
    after_tagged_fields(data, position)
    return ProduceRequest(transactional_id, acks, timeout_ms, found)


def _counted(elements: int) -> range:
    if elements < 0:
        raise MalformedRequest("null instead of an array")
    return range(elements)


def _named(topic: str | None) -> str:
    if topic is None:
        raise MalformedRequest("a topic without a name")
    return topic


class ProducedData(NamedTuple):
    """The outcome of one batch.

    `records` are those that it was refused for, (index in the batch, why) each (KIP-467); `leader`
    is (id, epoch), for who has asked somebody else.
    """

    partition: int
    error_code: int
    base_offset: int
    log_append_time_ms: int
    log_start_offset: int
    message: str | None = None
    records: Sequence[tuple[int, str]] = ()
    leader: tuple[int, int] | None = None


def write_produced(
    version: int,
    topics: Sequence[tuple[str | bytes, Sequence[ProducedData]]],
    *,
    throttle_ms: int = 0,
    endpoints: Sequence[NodeEndpoint] = (),
) -> bytes:
    """The body of a response; a topic is an id of 16 bytes from version 13 on."""
    flexible = version >= FIRST_FLEXIBLE
    out = bytearray(count_of(len(topics), flexible))
    for topic, partitions in topics:
        out += topic if isinstance(topic, bytes) else string_of(topic, flexible)
        out += count_of(len(partitions), flexible)
        for one in partitions:
            out += _produced(version, one)
        if flexible:
            out += NO_TAGS
    out += _INT32.pack(throttle_ms)
    if flexible:
        out += endpoint_tags(endpoints) if version >= FIRST_WITH_LEADERS else NO_TAGS
    return bytes(out)


def _produced(version: int, one: ProducedData) -> bytes:
    if version < _FIRST_WITH_LOG_START:
        return _PARTITION_3.pack(*one[:4])
    head = _PARTITION_5.pack(*one[:5])
    if version < _FIRST_WITH_MESSAGES:
        return head
    flexible = version >= FIRST_FLEXIBLE
    if one.message is None and one.leader is None and not one.records:
        return head + (_ALL_WELL_FLEXIBLE if flexible else _ALL_WELL)
    head += count_of(len(one.records), flexible)
    for index, why in one.records:
        head += _INT32.pack(index) + string_of(why, flexible) + (NO_TAGS if flexible else b"")
    if one.message is not None:
        head += string_of(one.message, flexible)
    else:
        head += b"\0" if flexible else b"\xff\xff"
    if not flexible:
        return head
    if one.leader is None or version < FIRST_WITH_LEADERS:
        return head + NO_TAGS
    return head + tags_of([(0, leader_tag(one.leader))])
