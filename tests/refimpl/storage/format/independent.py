"""Somebody else's codec of the record formats: aiokafka's, in words of ours.

It was written from Kafka's sources by other people and runs in production; what both read in the
same bytes is most likely there.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false

from collections.abc import Sequence
from typing import Any, Literal

from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatch, LegacyRecordBatchBuilder
from attrs import frozen

from refimpl.storage.format.batch import Record
from refimpl.storage.format.compression import Codec

ROOM = 1 << 30


@frozen
class Producer:
    """The producer of a batch; `transactional` if a marker decides about it."""

    id: int = -1
    epoch: int = -1
    base_sequence: int = -1
    transactional: bool = False


def written_by_others(records: Sequence[Record], codec: Codec, producer: Producer) -> bytes:
    """The records as a batch of format v2, whose base offset is zero as a producer sends it."""
    builder: Any = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=int(producer.transactional),
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        base_sequence=producer.base_sequence,
        batch_size=ROOM,
    )
    for number, record in enumerate(records):
        added = builder.append(
            number, record.timestamp, record.key, record.value, list(record.headers)
        )
        assert added is not None
    return bytes(builder.build())


def read_by_others(batch: bytes) -> tuple[list[Record], Producer]:
    """Read a batch of format v2 with another library, which checks its checksum."""
    reader: Any = DefaultRecordBatch(bytearray(batch))
    assert reader.validate_crc()
    producer = Producer(
        reader.producer_id, reader.producer_epoch, reader.base_sequence, reader.is_transactional
    )
    return [_record(one) for one in reader], producer


def legacy_written_by_others(
    records: Sequence[Record], magic: Literal[0, 1], codec: Codec
) -> bytes:
    """The records as messages of format v0 or v1, wrapped where they are compressed."""
    builder: Any = LegacyRecordBatchBuilder(magic, codec, ROOM)
    for number, record in enumerate(records):
        assert builder.append(number, record.timestamp, record.key, record.value) is not None
    return bytes(builder.build())


def legacy_read_by_others(message: bytes, magic: Literal[0, 1]) -> list[Record]:
    """Read a message of format v0 or v1 with another library, which checks its checksum."""
    reader: Any = LegacyRecordBatch(bytearray(message), magic)
    assert reader.validate_crc()
    return [_record(one) for one in reader]


def _record(one: Any) -> Record:
    headers = tuple((name, value) for name, value in one.headers)
    timestamp = -1 if one.timestamp is None else one.timestamp
    return Record(one.offset, timestamp, one.key, one.value, headers)
