"""The coordinators' records as JSON, as DumpLogSegments prints them."""

import base64
from collections.abc import Mapping
from typing import Any

import orjson

from refimpl.dump.schema_json import as_json
from refimpl.errors import CorruptBatch
from refimpl.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    Subscription,
    read_versioned,
)
from refimpl.records.coordinators import (
    GROUP_RECORDS,
    SHARE_RECORDS,
    TRANSACTION_RECORDS,
    CoordinatorRecord,
    GroupMetadataValue,
    RecordType,
    UnknownRecordType,
    read_record,
)
from refimpl.storage.format.batch import Record

CONSUMER_PROTOCOL = "consumer"
DELETED = "<DELETE>"


def group_record(record: Record) -> tuple[str | None, str | None]:
    """Key and value of a record of `__consumer_offsets`."""
    return _shown(GROUP_RECORDS, record)


def transaction_record(record: Record) -> tuple[str | None, str | None]:
    """Key and value of a record of `__transaction_state`."""
    return _shown(TRANSACTION_RECORDS, record)


def share_record(record: Record) -> tuple[str | None, str | None]:
    """Key and value of a record of `__share_group_state`."""
    return _shown(SHARE_RECORDS, record)


def _shown(kinds: Mapping[int, RecordType], record: Record) -> tuple[str | None, str | None]:
    """The JSON of a record. An unreadable one is named in place of its key, and reading goes on."""
    if record.key is None:
        raise CorruptBatch(
            f"Failed to decode message at offset {record.offset} using the specified decoder "
            "(message had a missing key)"
        )
    try:
        read = read_record(kinds, record.key, record.value)
        key = {"type": str(read.kind.number), "data": as_json(read.key, 0)}
        return _text(key), DELETED if read.value is None else _text(_value(read))
    except UnknownRecordType as unknown:
        return f"Unknown record type {unknown.why} at offset {record.offset}, skipping.", None
    except CorruptBatch as broken:
        return f"Error at offset {record.offset}, skipping. {broken.why}", None


def _value(record: CoordinatorRecord) -> dict[str, Any]:
    data = as_json(record.value, record.version)
    if isinstance(record.value, GroupMetadataValue) and data["protocolType"] == CONSUMER_PROTOCOL:
        for member in data["members"]:
            _open(member, "subscription", Subscription)
            _open(member, "assignment", ConsumerProtocolAssignment)
    return {"version": str(record.version), "data": data}


def _open(member: dict[str, Any], name: str, schema: type[Any]) -> None:
    """Show what the bytes say, where they say something."""
    try:
        message, version = read_versioned(schema, base64.b64decode(member[name]))
    except CorruptBatch:
        return
    member[name] = as_json(message, version)


def _text(value: Any) -> str:
    return orjson.dumps(value).decode()
