"""Messages as mappings, by kio's descriptions of them, with whatever Kafka's own writer refuses.

A field that may not be null is written as null where its value is None, and any value may be
`Raw` bytes. Numbers stand for times, as on the wire.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from struct import Struct
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin
from uuid import UUID

from attrs import evolve, frozen
from kio.schema.errors import ErrorCode

from refimpl.wire.reader import Reader
from refimpl.wire.writer import unsigned_varint

NUMBERS: Mapping[str | None, Struct] = {
    **{"int8": Struct(">b"), "int16": Struct(">h"), "int32": Struct(">i"), "int64": Struct(">q")},
    **{"uint8": Struct(">B"), "uint16": Struct(">H"), "uint32": Struct(">I")},
    **{"uint64": Struct(">Q"), "float64": Struct(">d"), "bool": Struct(">?")},
    **{"timedelta_i32": Struct(">i"), "timedelta_i64": Struct(">q"), "datetime_i64": Struct(">q")},
    "error_code": Struct(">h"),
}
_ERRORS = {one.value: one.name.upper() for one in ErrorCode}
_SHORT, _LONG = NUMBERS["int16"], NUMBERS["int32"]
TEXTS = ("string", "bytes", "records")


@frozen
class Raw:
    """Bytes that stand for a value as they are."""

    data: bytes


@frozen
class Shape:
    """A field: its type by kio's name, or the schema of its structure; its tag if it has one."""

    name: str
    kind: str | None
    schema: type[Any] | None
    is_array: bool
    nullable: bool
    tag: int | None
    default: Any

    @property
    def element(self) -> "Shape":
        """One element of an array."""
        return Shape(self.name, self.kind, self.schema, False, False, None, None)


@cache
def shapes(schema: type[Any]) -> tuple[Shape, ...]:
    """The fields of a message, as they are written."""
    return tuple(_shape(one) for one in fields(schema))


def _shape(one: Field[Any]) -> Shape:
    kind, nullable = cast("Any", one.type), False
    if get_origin(kind) in (Union, UnionType):
        rest = [each for each in get_args(kind) if each is not NoneType]
        kind, nullable = rest[0], len(rest) < len(get_args(kind))
    is_array = get_origin(kind) is tuple
    if is_array:
        kind = get_args(kind)[0]
    default = None if one.default is MISSING else one.default
    structure = kind if is_dataclass(kind) else None
    known = one.metadata.get("kafka_type")
    tag = one.metadata.get("tag")
    return Shape(one.name, known, cast("Any", structure), is_array, nullable, tag, default)


def default_of(shape: Shape) -> Any:
    """The value of a field that nobody has given one."""
    if shape.is_array:
        return None if shape.nullable else []
    if shape.schema is not None:
        return None if shape.nullable else filled(shape.schema, {})
    if shape.kind == "uuid":
        return UUID(int=0)
    if shape.kind in TEXTS:
        if shape.nullable:
            return None
        return "" if shape.kind == "string" else b""
    return int(shape.default) if isinstance(shape.default, int) else 0


def filled(schema: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """All fields of a message of this version, and no other."""
    return {one.name: _filled(one, values.get(one.name, MISSING)) for one in shapes(schema)}


def _filled(shape: Shape, value: Any) -> Any:
    if value is MISSING:
        return default_of(shape)
    if shape.schema is None or value is None:
        return list(value) if shape.is_array and value is not None else value
    if shape.is_array:
        return [filled(shape.schema, one) for one in value]
    return filled(shape.schema, value)


def write(schema: type[Any], values: Mapping[str, Any], tags: Mapping[int, bytes] = {}) -> bytes:
    """The bytes of a message; `tags` are more tagged fields than it has."""
    flexible: bool = cast("Any", schema).__flexible__
    plain = [one for one in shapes(schema) if one.tag is None]
    body = b"".join(_value(one, values[one.name], flexible) for one in plain)
    if not flexible:
        return body
    tagged = {
        one.tag: _value(evolve(one, nullable=False), values[one.name], flexible)
        for one in shapes(schema)
        if one.tag is not None and values[one.name] != default_of(one)
    }
    listed = sorted({**tagged, **tags}.items())
    parts = (unsigned_varint(tag) + unsigned_varint(len(data)) + data for tag, data in listed)
    return body + unsigned_varint(len(listed)) + b"".join(parts)


def _value(shape: Shape, value: Any, flexible: bool) -> bytes:
    if isinstance(value, Raw):
        return value.data
    if shape.is_array:
        if value is None:
            return null(shape, flexible)
        element = shape.element
        parts = [_value(element, one, flexible) for one in value]
        return length(shape, len(parts), flexible) + b"".join(parts)
    if shape.schema is not None:
        if shape.nullable:
            return b"\xff" if value is None else b"\1" + write(shape.schema, value)
        return write(shape.schema, value)
    if shape.kind in TEXTS:
        if value is None:
            return null(shape, flexible)
        data = value.encode() if isinstance(value, str) else bytes(value)
        return length(shape, len(data), flexible) + data
    if shape.kind == "uuid":
        return bytes(16) if value is None else UUID(str(value)).bytes
    return NUMBERS[shape.kind].pack(value)


def null(shape: Shape, flexible: bool) -> bytes:
    """Null, also in place of what may not be null."""
    return b"\0" if flexible else length(shape, -1, flexible)


def length(shape: Shape, count: int, flexible: bool) -> bytes:
    """The number of elements or bytes before them."""
    if flexible:
        return unsigned_varint(count + 1)
    short = shape.kind == "string" and not shape.is_array
    return (_SHORT if short else _LONG).pack(count)


def read(schema: type[Any], data: bytes, position: int) -> dict[str, Any]:
    """The fields of a message that ends with the data; errors by their names."""
    reader = Reader(data, position)
    values = _read(schema, reader)
    if reader.position != len(data):
        raise AssertionError(f"{len(data) - reader.position} bytes behind {schema}")
    return values


def _read(schema: type[Any], reader: Reader) -> dict[str, Any]:
    return _plan(schema)(reader)


@cache
def _plan(schema: type[Any]) -> Callable[[Reader], dict[str, Any]]:
    flexible: bool = cast("Any", schema).__flexible__
    plain = [one for one in shapes(schema) if one.tag is None]
    tagged = {one.tag: one for one in shapes(schema) if one.tag is not None}

    def read_all(reader: Reader) -> dict[str, Any]:
        values = {one.name: _read_value(one, reader, flexible) for one in plain}
        values |= {one.name: default_of(one) for one in tagged.values()}
        for _ in range(reader.unsigned_varint() if flexible else 0):
            tag, size = reader.unsigned_varint(), reader.unsigned_varint()
            content = Reader(reader.view(size))
            if one := tagged.get(tag):
                shape = evolve(one, nullable=False)
                values[one.name] = _read_value(shape, content, flexible)
        return values

    return read_all


def _read_value(shape: Shape, reader: Reader, flexible: bool) -> Any:
    if shape.is_array:
        count = _count(shape, reader, flexible)
        element = shape.element
        return None if count < 0 else [_read_value(element, reader, flexible) for _ in range(count)]
    if shape.schema is not None:
        if shape.nullable and bytes(reader.view(1)) == b"\xff":
            return None
        return _read(shape.schema, reader)
    if shape.kind in TEXTS:
        count = _count(shape, reader, flexible)
        data = None if count < 0 else bytes(reader.view(count))
        if data is None:
            return None
        return data.decode() if shape.kind == "string" else data.hex()
    if shape.kind == "uuid":
        return str(UUID(bytes=bytes(reader.view(16))))
    packing = NUMBERS[shape.kind]
    (value,) = packing.unpack(reader.view(packing.size))
    return _ERRORS.get(value, value) if shape.kind == "error_code" else value


def _count(shape: Shape, reader: Reader, flexible: bool) -> int:
    if flexible:
        return reader.unsigned_varint() - 1
    return reader.int16() if shape.kind == "string" and not shape.is_array else reader.int32()
