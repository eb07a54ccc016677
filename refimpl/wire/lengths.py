"""A check of the lengths in a message, made before the message is parsed.

kio's reader, which is native, reserves memory for as many elements as an array says it has; one
request of 30 bytes ends the whole process by that. So each message is walked over first: no array
may have more elements than the bytes that are left could hold. Two things that kio refuses and
Kafka reads are put right on the way: tagged fields that nobody knows, and null as -2.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeAlias, Union, get_args, get_origin

from attrs import define, field, frozen

from refimpl.wire.errors import MalformedRequest
from refimpl.wire.framing import Buffer
from refimpl.wire.reader import Reader
from refimpl.wire.writer import tags_of


@define(eq=False)
class Walk(Reader):
    """A walk over a message; `edits` say what is written otherwise: from where, to where, how."""

    edits: list[tuple[int, int, bytes]] = field(factory=list[tuple[int, int, bytes]])

    def edited(self) -> bytes:
        """The message as kio reads it."""
        data, position = bytearray(), 0
        for start, end, other in self.edits:
            data += self.data[position:start]
            data += other
            position = end
        return bytes(data + self.data[position:])


Skip: TypeAlias = Callable[[Walk], object]

_SIZES: Mapping[str | None, int] = {
    **{"bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "error_code": 2},
    **{"int32": 4, "uint32": 4, "timedelta_i32": 4, "int64": 8, "uint64": 8, "float64": 8},
    **{"timedelta_i64": 8, "datetime_i64": 8, "uuid": 16},
}


@frozen
class Shape:
    """A step over a value: a number of bytes if its size is fixed, a call of `skip` otherwise.

    `least` is how many bytes it has at least.
    """

    least: int
    fixed: bool
    skip: Skip


def with_checked_lengths(schema: type[Any], data: Buffer, position: int) -> tuple[Buffer, int]:
    """The data of a message of this class as kio reads it, and its end. Raises MalformedRequest."""
    walk = Walk(data, position)
    shape_of(schema).skip(walk)
    return (walk.edited() if walk.edits else data), walk.position


@cache
def shape_of(schema: type[Any]) -> Shape:
    """The step over a message of this class."""
    flexible: bool = schema.__flexible__
    plain = _plain(schema)
    tagged = {
        one.metadata["tag"]: _of_field(one, flexible)
        for one in fields(schema)
        if "tag" in one.metadata
    }
    steps, least = _merged(plain), sum(one.least for one in plain)

    def skip(reader: Walk) -> None:
        for step in steps:
            step(reader)
        if flexible:
            _skip_tags(reader, tagged)

    return Shape(least + flexible, not flexible and all(one.fixed for one in plain), skip)


def tags_at(schema: type[Any], data: Buffer, position: int) -> int:
    """The place of the tagged fields of a flexible message, behind all others.

    Raises MalformedRequest.
    """
    reader = Walk(data, position)
    for step in _steps(schema):
        step(reader)
    return reader.position


@cache
def _steps(schema: type[Any]) -> Sequence[Skip]:
    return _merged(_plain(schema))


def _plain(schema: type[Any]) -> list[Shape]:
    """The steps over the fields that are not tagged."""
    flexible: bool = schema.__flexible__
    return [_of_field(one, flexible) for one in fields(schema) if "tag" not in one.metadata]


def _merged(shapes: Sequence[Shape]) -> Sequence[Skip]:
    """One step for neighbours of fixed size."""
    steps: list[Skip] = []
    size = 0
    for shape in shapes:
        if shape.fixed:
            size += shape.least
            continue
        if size:
            steps.append(_skipping(size))
            size = 0
        steps.append(shape.skip)
    return (*steps, _skipping(size)) if size else steps


def _skipping(size: int) -> Skip:
    return lambda reader: reader.skip(size)


def _skip_tags(reader: Walk, known: Mapping[int, Shape]) -> None:
    start = reader.position
    count, kept = reader.unsigned_varint(), list[tuple[int, bytes]]()
    edited = False
    for _ in range(count):
        tag, size = reader.unsigned_varint(), reader.unsigned_varint()
        content = Walk(reader.view(size))
        if tag in known:
            known[tag].skip(content)
            kept.append((tag, content.edited()))
            edited = edited or bool(content.edits)
    if edited or len(kept) < count:
        reader.edits.append((start, reader.position, tags_of(kept)))


def _of_field(one: Field[Any], flexible: bool) -> Shape:
    kind, nullable = one.type, False
    if get_origin(kind) in (Union, UnionType):
        rest = [each for each in get_args(kind) if each is not NoneType]
        kind, nullable = rest[0], len(rest) < len(get_args(kind))
    name = one.metadata.get("kafka_type")
    if get_origin(kind) is tuple:
        return _array(
            _of_kind(name, get_args(kind)[0], flexible), flexible, None if nullable else one.name
        )
    shape = _of_kind(name, kind, flexible)
    if nullable and is_dataclass(kind) and "tag" not in one.metadata:
        return _nullable(shape)
    return shape


def _of_kind(name: str | None, kind: Any, flexible: bool) -> Shape:
    if is_dataclass(kind):
        return shape_of(kind)  # type: ignore[arg-type]
    if name == "string":
        return Shape(1, False, _skip_compact) if flexible else Shape(2, False, _skip_string)
    if name in ("bytes", "records"):
        return Shape(1, False, _skip_compact) if flexible else Shape(4, False, _skip_bytes)
    size = _SIZES[name]
    return Shape(size, True, _skipping(size))


def _array(element: Shape, flexible: bool, required: str | None) -> Shape:
    """`required` is the name of a field that may not be null: kio takes null for any array."""

    def skip(reader: Walk) -> None:
        count = reader.unsigned_varint() - 1 if flexible else reader.int32()
        if count < 0 and required:
            raise MalformedRequest(f"null at position {reader.position}, for the array {required}")
        if count < -1:
            reader.edits.append((reader.position - 4, reader.position, b"\xff" * 4))
        if count <= 0:
            return
        left = len(reader.data) - reader.position
        if count * element.least > left:
            raise MalformedRequest(
                f"an array of {count} elements at position {reader.position}, "
                f"where {left} bytes are left"
            )
        if element.fixed:
            reader.skip(count * element.least)
        else:
            for _ in range(count):
                element.skip(reader)

    return Shape(1 if flexible else 4, False, skip)


def _nullable(shape: Shape) -> Shape:
    """A byte says whether there is one (KIP-893)."""

    def skip(reader: Walk) -> None:
        if reader.view(1)[0] < 0x80:
            shape.skip(reader)

    return Shape(1, False, skip)


def _skip_compact(reader: Walk) -> None:
    size = reader.unsigned_varint()
    if size:
        reader.skip(size - 1)


def _skip_string(reader: Walk) -> None:
    size = reader.int16()
    if size < -1:
        reader.edits.append((reader.position - 2, reader.position, b"\xff" * 2))
    reader.skip(max(size, 0))


def _skip_bytes(reader: Walk) -> None:
    size = reader.int32()
    if size < -1:
        reader.edits.append((reader.position - 4, reader.position, b"\xff" * 4))
    reader.skip(max(size, 0))
