"""Produce requests, versions 3 to 13, without copying a record: batches are views of the frame.

Flexible from version 9; topics by id from version 13 (KIP-516). A batch that is null is one of no
bytes.
"""

from typing import NamedTuple

from refimpl.wire.errors import MalformedRequest
from refimpl.wire.framing import Buffer
from refimpl.wire.reader import UUID_SIZE, Reader

FIRST_FLEXIBLE, FIRST_WITH_IDS = 9, 13


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
            found.append(ProduceData(topic, index, reader.view(max(size, 0))))
            reader.skip_tagged_fields()
        reader.skip_tagged_fields()
    reader.skip_tagged_fields()
    return ProduceRequest(*head, found)


def _named(topic: str | None) -> str:
    if topic is None:
        raise MalformedRequest("a topic without a name")
    return topic
