"""Produce, versions 3 to 13: requests without copying a record, for batches are views of the frame;
and responses.

Flexible from version 9, the leader and where it is from 10 (KIP-951), topics by id from 13
(KIP-516). A batch that is null is one of no bytes.
"""

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from refimpl.named import named
from refimpl.wire.errors import MalformedRequest
from refimpl.wire.framing import Buffer
from refimpl.wire.reader import UUID_SIZE, Reader
from refimpl.wire.writer import (
    NO_TAGS,
    Endpoint,
    count_of,
    endpoint_tags,
    leader_tag,
    string_of,
    tags_of,
)

FIRST_FLEXIBLE, FIRST_WITH_LEADERS, FIRST_WITH_IDS = 9, 10, 13
_FIRST_WITH_LOG_START, _FIRST_WITH_MESSAGES = 5, 8

_PARTITION_3, _PARTITION_5, _INT32 = Struct(">ihqq"), Struct(">ihqqq"), Struct(">i")
#: Neither errors of records nor a message, nor tagged fields
_ALL_WELL, _ALL_WELL_FLEXIBLE = b"\0\0\0\0\xff\xff", b"\x01\0" + NO_TAGS


class ProduceData(NamedTuple):
    """What is to be appended to one partition; the topic is a name, or an id of 16 bytes."""

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
    """The body of a request, from this position to the end. Raises MalformedRequest."""
    reader = Reader(data, position)
    read = _flexible if version >= FIRST_FLEXIBLE else _classic
    request = read(reader, with_ids=version >= FIRST_WITH_IDS)
    if reader.position != len(data):
        raise MalformedRequest(f"{len(data) - reader.position} bytes behind the request")
    return request


def _classic(reader: Reader, *, with_ids: bool) -> ProduceRequest:
    head = reader.nullable_string(), reader.int16(), reader.int32()
    found: list[ProduceData] = []
    for _ in range(reader.array()):
        topic = _named(reader.nullable_string())
        for _ in range(reader.array()):
            index, size = reader.int32(), reader.int32()
            found.append(ProduceData(topic, index, reader.view(max(size, 0))))
    return ProduceRequest(*head, found)


def _flexible(reader: Reader, *, with_ids: bool) -> ProduceRequest:
    head = reader.compact_nullable_string(), reader.int16(), reader.int32()
    found: list[ProduceData] = []
    for _ in range(reader.compact_array()):
        if with_ids:
            topic: str | bytes = bytes(reader.view(UUID_SIZE))
        else:
            topic = _named(reader.compact_nullable_string())
        for _ in range(reader.compact_array()):
            index, size = reader.int32(), reader.unsigned_varint() - 1
            found.append(named(ProduceData, (topic, index, reader.view(max(size, 0)))))
            reader.skip_tagged_fields()
        reader.skip_tagged_fields()
    reader.skip_tagged_fields()
    return ProduceRequest(*head, found)


def _named(topic: str | None) -> str:
    if topic is None:
        raise MalformedRequest("a topic without a name")
    return topic


class ProducedData(NamedTuple):
    """What became of one batch.

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
    endpoints: Sequence[Endpoint] = (),
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
