"""Batches and records as DumpLogSegments prints them: its words, in its order."""

from collections.abc import Callable, Iterator
from struct import Struct

import orjson

from refimpl.dump.kraft_records import CONTROL_MESSAGES
from refimpl.dump.schema_json import as_json
from refimpl.errors import CorruptBatch
from refimpl.records.java_text import decoded
from refimpl.records.schema import RecordReader, read
from refimpl.storage.disk.interface import Buffer
from refimpl.storage.format.batch import (
    MAGIC,
    BatchHeader,
    Record,
    TimestampType,
    crc_matches,
    decode_records,
)
from refimpl.storage.format.control import ControlType, control_type
from refimpl.storage.format.legacy import Message, decode_messages

INDENT = "|"
_SEQUENCES = 1 << 31
_MARKER = Struct(">hi")

#: Key and payload as text, or None for what is not shown.
Shown = tuple[str | None, str | None]
Decoder = Callable[[Record], Shown]


def as_text(record: Record) -> Shown:
    """Key and value as text."""
    key, value = record.key, record.value
    return None if key is None else decoded(key), None if value is None else decoded(value)


def batch_line(data: Buffer, position: int, header: BatchHeader) -> str:
    """The line of a batch, or of a message of an old format."""
    stamped = f"{timestamp_type(header)}: {header.max_timestamp}"
    return (
        f"{_of_batch(header) if header.magic >= MAGIC else f'offset: {header.last_offset}'}"
        f" position: {position} {stamped} size: {header.size} magic: {header.magic}"
        f" compresscodec: {header.codec.name.lower()} crc: {header.crc}"
        f" isvalid: {_bool(crc_matches(data, header, position))}"
    )


def _of_batch(header: BatchHeader) -> str:
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset}"
        f" count: {header.record_count}"
        f" baseSequence: {header.base_sequence} lastSequence: {_last_sequence(header)}"
        f" producerId: {header.producer_id} producerEpoch: {header.producer_epoch}"
        f" partitionLeaderEpoch: {header.leader_epoch}"
        f" isTransactional: {_bool(header.is_transactional)}"
        f" isControl: {_bool(header.is_control)}"
        f" deleteHorizonMs: {optional_long(header.delete_horizon_ms)}"
    )


def _last_sequence(header: BatchHeader) -> int:
    """A damaged header may hold a sequence below zero, which does not wrap around."""
    if header.base_sequence >= 0:
        return header.last_sequence
    return header.base_sequence + (header.last_offset_delta if header.base_sequence < -1 else 0)


def timestamp_type(header: BatchHeader) -> str:
    """The name of the timestamp's type; v0 has none."""
    if header.magic == 0:
        return "NoTimestampType"
    logged = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    return "LogAppendTime" if logged else "CreateTime"


def record_lines(
    data: Buffer, position: int, header: BatchHeader, decoder: Decoder | None, bare: bool
) -> Iterator[tuple[int, str]]:
    """Offset and line of each record; `bare` leaves out all but the contents."""
    for record, checked in _records(data, position, header):
        line = "" if bare else f"{INDENT} {_of_record(header, record)}{checked}"
        if header.is_control:
            line += "" if bare else _of_control(record)
        elif decoder is not None:
            key, payload = decoder(record)
            shown = "" if key is None else f" key: {key}"
            shown += "" if payload is None else f" payload: {payload}"
            line += INDENT + shown if bare and shown else shown
        yield record.offset, line


def _records(data: Buffer, position: int, header: BatchHeader) -> Iterator[tuple[Record, str]]:
    if header.magic >= MAGIC:
        return ((record, "") for record in decode_records(data, position))
    return ((one.record, _checked(one)) for one in decode_messages(data, position))


def _checked(message: Message) -> str:
    return f" isValid: {_bool(message.is_valid)} crc: {message.crc}"


def _of_record(header: BatchHeader, record: Record) -> str:
    line = (
        f"offset: {record.offset} {timestamp_type(header)}: {record.timestamp}"
        f" keySize: {_size(record.key)} valueSize: {_size(record.value)}"
    )
    if header.magic < MAGIC:
        return line
    names = ",".join(name for name, _ in record.headers)
    return f"{line} sequence: {_sequence(header, record)} headerKeys: [{names}]"


def _sequence(header: BatchHeader, record: Record) -> int:
    if header.base_sequence < 0:
        return -1
    return (header.base_sequence + record.offset - header.base_offset) % _SEQUENCES


def _of_control(record: Record) -> str:
    number = control_type(record.key)
    if number in (ControlType.ABORT, ControlType.COMMIT):
        if len(record.value or b"") < _MARKER.size:
            raise CorruptBatch("a transaction marker without version and coordinator epoch")
        epoch = _MARKER.unpack_from(record.value or b"")[1]
        return f" endTxnMarker: {ControlType(number).name} coordinatorEpoch: {epoch}"
    if number not in CONTROL_MESSAGES:
        return f" controlType: UNKNOWN({number})"
    label, schema, newest = CONTROL_MESSAGES[ControlType(number)]
    value = record.value or b""
    version = int.from_bytes(value[:2], signed=True)
    if not 0 <= version <= newest:
        raise CorruptBatch(f"version {version} of a {label} message, only 0 to {newest}")
    message = read(schema, RecordReader(value), version, flexible=True)
    return f" {label} {orjson.dumps(as_json(message, version)).decode()}"


def optional_long(value: int | None) -> str:
    """As Java prints a number that may be missing."""
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _bool(value: bool) -> str:
    return "true" if value else "false"
