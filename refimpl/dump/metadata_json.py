"""The controllers' records as JSON, as DumpLogSegments prints them."""

import re

import orjson

from refimpl.dump.metadata_records import METADATA_RECORDS
from refimpl.dump.schema_json import as_json
from refimpl.errors import CorruptBatch
from refimpl.records.schema import RecordReader, read
from refimpl.storage.format.batch import Record

_FRAME_VERSION = 1


def metadata_record(record: Record) -> tuple[str | None, str | None]:
    """No key, and the value of a record of `__cluster_metadata`; what cannot be read is named."""
    try:
        return None, orjson.dumps(_content(record.value or b"")).decode()
    except CorruptBatch as broken:
        return None, f"Error at {record.offset}, skipping. {broken.why}"


def _content(value: bytes) -> dict[str, object]:
    reader = RecordReader(value)
    frame = reader.uvarint()
    if frame != _FRAME_VERSION:
        raise CorruptBatch(
            "Could not deserialize metadata record due to unknown frame version "
            f"{frame}(only frame version {_FRAME_VERSION} is supported)"
        )
    number, version = reader.uvarint(), reader.uvarint()
    if number not in METADATA_RECORDS:
        raise CorruptBatch(
            "org.apache.kafka.common.errors.UnsupportedVersionException: Unknown metadata id "
            f"{number}"
        )
    schema, newest = METADATA_RECORDS[number]
    try:
        if version > newest:
            raise CorruptBatch(f"version {version}, and {newest} is the newest that is known")
        message = read(schema, reader, version, flexible=True)
    except CorruptBatch:
        raise CorruptBatch(f"Failed to deserialize record with type {number}") from None
    if reader.remaining:
        raise CorruptBatch(f"Found {reader.remaining} byte(s) of garbage after {number}")
    name = re.sub("(?<!^)(?=[A-Z])", "_", schema.__name__).upper()
    return {"type": name, "version": version, "data": as_json(message, version)}
