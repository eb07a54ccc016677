"""Messages by kio: one class for each API and version, found by key and made when first needed.

A handler speaks of a response as nested mappings with the fields of all versions; `Responses`
keeps those of the version that was asked for. Numbers stand for times (ms), names for errors.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin
from uuid import UUID

from kio import index
from kio.serial import entity_reader, entity_writer

from refimpl.wire.errors import MalformedRequest, error_code
from refimpl.wire.framing import Buffer
from refimpl.wire.lengths import with_checked_lengths

API_VERSIONS = 18
Values = Mapping[str, Any]

load_request_schema: Callable[[int, int], type[Any]] = cache(index.load_request_schema)
load_response_schema: Callable[[int, int], type[Any]] = cache(index.load_response_schema)


@cache
def is_flexible(api_key: int, version: int) -> bool:
    """True if requests of this version have tagged fields (KIP-482)."""
    return bool(load_request_schema(api_key, version).__flexible__)


def read_request(api_key: int, version: int, data: Buffer, position: int = 0) -> Any:
    """The body of a request that begins at this position. Raises MalformedRequest.

    Whatever follows is ignored, as in Kafka: librdkafka 2.16 sends three bytes too many.
    """
    return _read(load_request_schema(api_key, version), data, position)[0]


def read_response(api_key: int, version: int, data: Buffer, position: int = 0) -> Any:
    """The body of a response, from this position to the end. Raises MalformedRequest."""
    message, end = _read(load_response_schema(api_key, version), data, position)
    if end != len(data):
        raise MalformedRequest(f"{len(data) - end} bytes behind the message")
    return message


def write_request(api_key: int, version: int, values: Values) -> bytes:
    """The body of a request."""
    return _write(load_request_schema(api_key, version), values)


def write_response(api_key: int, version: int, values: Values) -> bytes:
    """The body of a response."""
    return _write(load_response_schema(api_key, version), values)


def encoded(message: Any) -> bytes:
    """The body of a message of kio's."""
    buffer = io.BytesIO()
    entity_writer(message.__class__)(buffer, message)
    return buffer.getvalue()


def _read(schema: type[Any], data: Buffer, position: int) -> tuple[Any, int]:
    """A message, and where it ends."""
    checked, end = with_checked_lengths(schema, data, position)
    try:
        message, _ = entity_reader(schema)(checked, position)
    except Exception as error:
        raise MalformedRequest(f"{type(error).__name__}: {error}") from None
    return message, end


def _write(schema: type[Any], values: Values) -> bytes:
    return encoded(_maker(schema)(values))


def milliseconds(value: timedelta) -> int:
    """A time-out of a request."""
    return value // timedelta(milliseconds=1)


# From mappings to messages

Convert = Callable[[Any], Any]


@cache
def _maker(schema: type[Any]) -> Callable[[Values], Any]:
    """A maker of messages from mappings: known fields converted, missing ones at defaults."""
    plan = [(one.name, *_converted(one)) for one in fields(schema)]

    def make(values: Values) -> Any:
        made: dict[str, Any] = {}
        for name, convert, default in plan:
            value = values.get(name, MISSING)
            made[name] = default if value is MISSING else convert(value)
        return schema(**made)

    return make


def _converted(one: Field[Any]) -> tuple[Convert, Any]:
    kind, nullable = _without_none(one.type)
    convert, default = _of_type(one.metadata.get("kafka_type"), kind)
    if nullable:
        default = None
    if one.default is not MISSING:
        default = one.default
    if not nullable:
        return (_moment if convert is _datetime else convert), default
    return (lambda value: None if value is None else convert(value)), default


def _without_none(kind: Any) -> tuple[Any, bool]:
    if get_origin(kind) in (Union, UnionType):
        rest = [one for one in get_args(kind) if one is not NoneType]
        return rest[0], len(rest) < len(get_args(kind))
    return kind, False


_DEFAULTS: Mapping[str | None, Any] = {
    "string": "",
    "bytes": b"",
    "records": b"",
    "bool": False,
    "uuid": None,
    "error_code": error_code(None),
    "timedelta_i32": timedelta(0),
    "timedelta_i64": timedelta(0),
    "datetime_i64": datetime.fromtimestamp(0, UTC),
}


def _of_type(name: str | None, kind: Any) -> tuple[Convert, Any]:
    if get_origin(kind) is tuple:
        convert, _ = _of_type(name, get_args(kind)[0])
        return (lambda values: tuple(map(convert, cast("Sequence[Any]", values)))), ()
    if is_dataclass(kind):
        make = _maker(cast("type[Any]", kind))
        return make, make({})
    match name:
        case "error_code":
            convert = _error
        case "uuid":
            convert = _uuid
        case "timedelta_i32" | "timedelta_i64":
            convert = _timedelta
        case "datetime_i64":
            convert = _datetime
        case _:
            convert = _same
    return convert, _DEFAULTS.get(name, 0)


def _same(value: Any) -> Any:
    return value


def _error(value: Any) -> Any:
    return error_code(value) if value is None or isinstance(value, str) else value


def _uuid(value: Any) -> Any:
    return UUID(bytes=value) if isinstance(value, bytes) else value


def _timedelta(value: int) -> timedelta:
    return timedelta(milliseconds=value)


def _datetime(value: int) -> datetime | None:
    return None if value < 0 else _moment(value)


def _moment(value: int) -> datetime:
    """A time in a field that is never null; -1 stands for none there."""
    return datetime.fromtimestamp(value / 1000, UTC)
