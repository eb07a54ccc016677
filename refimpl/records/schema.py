"""Kafka's message schemas as classes: the annotation of a field gives its encoding.

    partition: Annotated[int, INT32]
    leader_epoch: Annotated[int, INT32, since(3)] = -1
    topic_id: Annotated[Uuid, ID, tagged(0, 4)] = NO_ID

Fields are in the order in which they are written. A flexible version (KIP-482) writes lengths as
unsigned varints and ends each structure with its tagged fields. Unknown ones are skipped, and those
at their default are left out. A structure that may be null begins with a byte that is set if it is
there; where it is tagged, with a varint.
"""

import types
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from itertools import groupby
from struct import Struct
from typing import (
    Annotated,
    Any,
    NewType,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import attrs
from attrs import define, frozen

from refimpl.errors import CorruptBatch
from refimpl.records.java_text import decoded

Uuid = NewType("Uuid", bytes)
NO_ID = Uuid(bytes(16))
LATEST = 0x7FFF
T = TypeVar("T")


@frozen
class Number:
    """A fixed number of bytes, big-endian."""

    packing: Struct


@frozen
class Sized:
    """A length, then that many bytes; a length below zero, or the varint zero, stands for null."""

    length: Number
    decode: Callable[[bytes], Any]
    encode: Callable[[Any], bytes]


_UINT8 = Number(Struct(">B"))
INT8, INT16 = Number(Struct(">b")), Number(Struct(">h"))
INT32, INT64 = Number(Struct(">i")), Number(Struct(">q"))
STRING = Sized(INT16, decoded, str.encode)
BYTES = Sized(INT32, bytes, bytes)
UINT16 = Number(Struct(">H"))
BOOL, FLOAT64 = Number(Struct(">?")), Number(Struct(">d"))
ID = Number(Struct(">16s"))

Int8 = Annotated[int, INT8]
Int16 = Annotated[int, INT16]
Int32 = Annotated[int, INT32]
Int64 = Annotated[int, INT64]
Text = Annotated[str, STRING]
MaybeText = Annotated[str | None, STRING]
Data = Annotated[bytes, BYTES]
Id = Annotated[Uuid, ID]
Bool = Annotated[bool, BOOL]
Float64 = Annotated[float, FLOAT64]
UInt16 = Annotated[int, UINT16]
Ids = Annotated[tuple[Uuid, ...], ID]
Numbers = Annotated[tuple[int, ...], INT32]
Texts = Annotated[tuple[str, ...], STRING]


@frozen
class Versions:
    """The versions that have a field, and its tag where it is an optional one.

    Kafka does not know a field that is our own, and skips it.
    """

    first: int = 0
    last: int = LATEST
    tag: int | None = None
    is_own: bool = False


def since(first: int, last: int = LATEST) -> Versions:
    """A field that older versions lack, and perhaps newer ones as well."""
    return Versions(first, last)


def tagged(tag: int, first: int = 0) -> Versions:
    """A field that is written only if it differs from its default, after all others."""
    return Versions(first, tag=tag)


def own(tag: int, first: int = 0) -> Versions:
    """A tagged field that Kafka does not have; tools print what Kafka's print."""
    return Versions(first, tag=tag, is_own=True)


@frozen
class Field:
    """One field of a schema: its attribute, its name in JSON, its type and its versions."""

    name: str
    json_name: str
    kind: Any
    versions: Versions
    is_array: bool
    nullable: bool
    default: Any


@cache
def fields_of(schema: type[Any]) -> tuple[Field, ...]:
    """The fields of a schema class, read once from its annotations."""
    hints = get_type_hints(schema, include_extras=True)
    return tuple(_field(a.name, hints[a.name], a.default) for a in attrs.fields(schema))


def _field(name: str, hint: Any, default: Any) -> Field:
    plain, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    versions = next((mark for mark in marks if isinstance(mark, Versions)), Versions())
    kinds = [mark for mark in marks if isinstance(mark, Number | Sized)]
    options = get_args(plain) if isinstance(plain, types.UnionType) else (plain,)
    is_array = any(get_origin(option) is tuple for option in options)
    inner = next(get_args(o)[0] if is_array else o for o in options if o is not type(None))
    first, *rest = name.split("_")
    json_name = first + "".join(map(str.capitalize, rest))
    nullable = type(None) in options
    return Field(
        name, json_name, kinds[0] if kinds else inner, versions, is_array, nullable, default
    )


class BufferUnderflow(CorruptBatch):
    """The message ends within a number."""


@define
class RecordReader:
    """The bytes of a message, and the position of the next one to read."""

    data: bytes
    position: int = 0

    @property
    def remaining(self) -> int:
        return len(self.data) - self.position

    def take(self, size: int) -> bytes:
        if not 0 <= size <= self.remaining:
            raise CorruptBatch(
                f"Error reading byte array of {size} byte(s): only {self.remaining} byte(s) "
                "available"
            )
        self.position += size
        return self.data[self.position - size : self.position]

    def number(self, kind: Number) -> Any:
        return self.numbers(kind.packing)[0]

    def numbers(self, packing: Struct) -> tuple[Any, ...]:
        start = self.position
        end = start + packing.size
        if end > len(self.data):
            raise BufferUnderflow(f"{packing.size} bytes wanted at byte {start}")
        self.position = end
        return packing.unpack_from(self.data, start)

    def uvarint(self) -> int:
        if self.position < len(self.data) and self.data[self.position] < 0x80:
            self.position += 1  # nearly all of them
            return self.data[self.position - 1]
        result = 0
        for shift in range(0, 35, 7):
            byte = self.number(_UINT8)
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return result
        raise CorruptBatch(f"a varint of more than five bytes ends at byte {self.position}")

    def length(self, kind: Number, flexible: bool) -> int:
        return self.uvarint() - 1 if flexible else self.number(kind)


def uvarint(value: int) -> bytes:
    """An unsigned varint."""
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


Reading: TypeAlias = Callable[[RecordReader], Any]
"""Reads a value at the position of a message's reader, which it leaves behind the value."""


def read(schema: type[T], reader: RecordReader, version: int, flexible: bool = False) -> T:
    """A message of this version; fields that the version lacks keep their defaults."""
    return _message(schema, version, flexible)(reader)


@cache
def _message(schema: type[T], version: int, flexible: bool) -> Callable[[RecordReader], T]:
    """The function that reads this version of a schema.

    The annotations are read once, not for each message: a coordinator that loads its log reads one
    of a million records after the other.
    """
    there = [f for f in fields_of(schema) if f.versions.first <= version <= f.versions.last]
    required = [field for field in there if field.versions.tag is None]
    names = [field.name for field in required]
    parts = _parts(required, version, flexible)
    optional = {
        field.versions.tag: (field.name, _field_reading(field, version, flexible))
        for field in there
        if field.versions.tag is not None
    }

    owned = {field.versions.tag for field in there if field.versions.is_own}  # Kafka skips them

    def message(reader: RecordReader) -> T:
        found: list[Any] = []
        for part in parts:
            found += part(reader)
        values = dict(zip(names, found, strict=True))
        for _ in range(reader.uvarint() if flexible else 0):
            tag, size = reader.uvarint(), reader.uvarint()
            if tag in optional:
                name, reading = optional[tag]
                values[name] = reading(RecordReader(reader.take(size)) if tag in owned else reader)
            else:
                reader.take(size)
        return schema(**values)

    return message


def _parts(
    fields: Iterable[Field], version: int, flexible: bool
) -> list[Callable[[RecordReader], Sequence[Any]]]:
    """The functions that read these fields: one for all numbers that stand side by side."""
    parts: list[Callable[[RecordReader], Sequence[Any]]] = []
    for are_numbers, row in groupby(fields, key=_is_number):
        if are_numbers:
            parts.append(_numbers([field.kind for field in row]))
        else:
            parts += [_alone(_field_reading(field, version, flexible)) for field in row]
    return parts


def _is_number(field: Field) -> bool:
    return isinstance(field.kind, Number) and not field.is_array


def _numbers(kinds: Sequence[Number]) -> Callable[[RecordReader], Sequence[Any]]:
    packing = Struct(">" + "".join(kind.packing.format.lstrip(">") for kind in kinds))
    return lambda reader: reader.numbers(packing)


def _alone(reading: Reading) -> Callable[[RecordReader], Sequence[Any]]:
    return lambda reader: (reading(reader),)


def _field_reading(field: Field, version: int, flexible: bool) -> Reading:
    if not field.is_array:
        return _value_reading(field, version, flexible)
    items = _items_reading(field, version, flexible)

    def array(reader: RecordReader) -> Any:
        count = reader.length(INT32, flexible)
        if count < 0:
            return _null(field)
        if count > reader.remaining:
            raise CorruptBatch(
                f"Tried to allocate a collection of size {count}, but there are only "
                f"{reader.remaining} bytes remaining."
            )
        return items(reader, count)

    return array


def _items_reading(
    field: Field, version: int, flexible: bool
) -> Callable[[RecordReader, int], tuple[Any, ...]]:
    if isinstance(field.kind, Number):
        one = field.kind.packing.format.lstrip(">")
        return lambda reader, count: reader.numbers(_row_of(one, count))
    item = _value_reading(field, version, flexible)
    return lambda reader, count: tuple([item(reader) for _ in range(count)])


@lru_cache
def _row_of(one: str, count: int) -> Struct:
    """So many numbers of one format: repeated, because a count before `s` is a length."""
    return Struct(">" + one * count)


def _value_reading(field: Field, version: int, flexible: bool) -> Reading:
    match field.kind:
        case Number() as number:
            return lambda reader: reader.number(number)
        case Sized() as sized:
            return _sized_reading(field, sized, flexible)
        case schema:
            message = _message(schema, version, flexible)
            if not field.nullable or field.is_array:
                return message
            return lambda reader: message(reader) if _is_there(field, reader) else None


def _sized_reading(field: Field, kind: Sized, flexible: bool) -> Reading:
    length, decode = kind.length, kind.decode

    def sized(reader: RecordReader) -> Any:
        size = reader.length(length, flexible)
        return _null(field) if size < 0 else decode(reader.take(size))

    return sized


def _is_there(field: Field, reader: RecordReader) -> bool:
    if field.versions.tag is None:
        return reader.number(INT8) >= 0
    return reader.uvarint() > 0


def _null(field: Field) -> None:
    if not field.nullable:
        raise CorruptBatch(f"non-nullable field {field.json_name} was serialized as null")


def write(message: Any, version: int, flexible: bool = False) -> bytes:
    """The message in this version; fields that the version lacks are left out."""
    parts: list[bytes] = []
    optional: list[bytes] = []
    for field in fields_of(message.__class__):
        value = getattr(message, field.name)
        if not field.versions.first <= version <= field.versions.last:
            continue
        if field.versions.tag is None:
            parts.append(_write_field(field, value, version, flexible))
        elif value != field.default:
            content = _write_field(field, value, version, flexible)
            optional.append(uvarint(field.versions.tag) + uvarint(len(content)) + content)
    if flexible:
        parts += (uvarint(len(optional)), *optional)
    return b"".join(parts)


def _write_field(field: Field, value: Any, version: int, flexible: bool) -> bytes:
    if not field.is_array:
        return _write_value(field, value, version, flexible)
    head = _length(INT32, -1 if value is None else len(value), flexible)
    return head + b"".join(_write_value(field, item, version, flexible) for item in value or ())


def _write_value(field: Field, value: Any, version: int, flexible: bool) -> bytes:
    match field.kind:
        case Number(packing):
            return packing.pack(value)
        case Sized(length, _, encode):
            content = b"" if value is None else encode(value)
            return _length(length, -1 if value is None else len(content), flexible) + content
        case _:
            absent, there = (b"\xff", b"\x01") if field.versions.tag is None else (b"\0", b"\x01")
            if value is None:
                return absent
            there = there if field.nullable and not field.is_array else b""
            return there + write(value, version, flexible)


def _length(kind: Number, length: int, flexible: bool) -> bytes:
    return uvarint(length + 1) if flexible else kind.packing.pack(length)
