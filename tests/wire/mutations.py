"""Requests that are wrong: each field of a right one null, empty, twice, negative, too large.

The fields and their types are those of Kafka's message definitions. A request is also sent with
fields of another version, and in versions that are not announced.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast
from uuid import UUID

from attrs import frozen
from kio import index

from refimpl.api.table import Api
from refimpl.wire.messages import is_flexible
from tests.wire.raw import NUMBERS, TEXTS, Raw, Shape, filled, length, null, shapes, write

Values = dict[str, Any]
UNKNOWN_TAG, TRAILING = 99, b"\0\0\0"
NO_SUCH_ID = UUID(int=7)
LIMITS = {
    **{"int8": 8, "int16": 16, "int32": 32, "int64": 64},
    **{"timedelta_i32": 32, "timedelta_i64": 64, "datetime_i64": 64},
}
EXTRA: Mapping[tuple[str, str], tuple[Any, ...]] = {
    ("ListOffsets", "timestamp"): (-2, -3, -4, -5, -6, -7),
    ("Fetch", "replica_id"): (-3,),
    ("ListOffsets", "replica_id"): (-3,),
    ("Produce", "acks"): (2, 0),
    ("FindCoordinator", "key_type"): (1, 2, 3),
    ("DescribeConfigs", "resource_type"): (0, 1, 3, 4, 5, 8, 16, 32),
    ("AlterConfigs", "resource_type"): (0, 1, 3, 4, 5, 8, 16, 32),
    ("IncrementalAlterConfigs", "resource_type"): (0, 1, 3, 4, 5, 8, 16, 32),
    ("IncrementalAlterConfigs", "config_operation"): (1, 2, 3, 4),
    ("ListConfigResources", "resource_types"): (1, 3, 4, 8, 16, 32),
}
"""More values of a field, which mean something or used to."""


FATAL = {("UnregisterBroker", "broker_id", "1")}
"""Requests that end the broker which is asked."""


@frozen
class Mutation:
    """One way to ask: its label, and what becomes of the bytes of a right request."""

    label: str
    body: Callable[[Values], bytes]
    version: int


def mutations(api: Api, version: int, values: Values) -> Iterator[Mutation]:
    """Every way to ask in this version, the right one first."""
    schema = index.load_request_schema(api.key, version)
    flexible = is_flexible(api.key, version)

    def one(label: str, change: Callable[[Values], Values]) -> Mutation:
        return Mutation(
            label, lambda values: write(schema, change(filled(schema, values))), version
        )

    yield one("right", lambda values: values)
    blank = " " * (api.key * 16 + version + 1)  # the same group for no two chunks
    for label, change in _of_message(api.name, schema, filled(schema, values), flexible, blank):
        yield one(label, change)
    yield Mutation(
        "more bytes", lambda values: write(schema, filled(schema, values)) + TRAILING, version
    )
    yield Mutation("cut off", lambda values: write(schema, filled(schema, values))[:-1], version)
    if flexible:
        tags = {UNKNOWN_TAG: b"tag"}
        yield Mutation("a tag", lambda values: write(schema, filled(schema, values), tags), version)
    for other in (version - 1, version + 1):
        if api.first <= other <= api.last:
            yield Mutation(f"as v{other}", _as(api.key, other), version)
    yield from _unannounced(api, version)


def _as(key: int, version: int) -> Callable[[Values], bytes]:
    schema = index.load_request_schema(key, version)
    return lambda values: write(schema, filled(schema, values))


def _unannounced(api: Api, version: int) -> Iterator[Mutation]:
    if version == api.first:
        yield Mutation(f"v{api.first - 1}", _as(api.key, version), api.first - 1)
    if version == api.last:
        yield Mutation(f"v{api.last + 1}", _as(api.key, version), api.last + 1)


Change = Callable[[Values], Values]


def _of_message(
    api: str, schema: type[Any], values: Values, flexible: bool, blank: str, path: str = ""
) -> Iterator[tuple[str, Change]]:
    for shape in shapes(schema):
        value, where = values[shape.name], f"{path}{shape.name}"
        for label, other in _of_field(api, shape, value, flexible, blank):
            if (api, where, label) not in FATAL:
                yield f"{where} {label}", _setting(shape.name, other)
        inner = _inner(shape, value)
        if inner is None:
            continue
        nested, is_array = inner
        for label, change in _of_message(
            api, cast("type[Any]", shape.schema), nested, flexible, blank, f"{where}."
        ):
            yield label, _within(shape.name, change, is_array)


def _inner(shape: Shape, value: Any) -> tuple[Values, bool] | None:
    """The structure in a field, the first one of an array."""
    if shape.schema is None or not value:
        return None
    return (value[0], True) if shape.is_array else (value, False)


def _setting(name: str, change: Callable[[Any], Any]) -> Change:
    return lambda values: {**values, name: change(values[name])}


def _within(name: str, change: Change, is_array: bool) -> Change:
    if is_array:
        return _setting(name, lambda listed: [change(listed[0]), *listed[1:]])
    return _setting(name, change)


def _of_field(
    api: str, shape: Shape, value: Any, flexible: bool, blank: str
) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """Values of one field other than its right one."""
    seen = [value]
    for label, change in _all_of_field(api, shape, value, flexible, blank):
        other = change(value)
        if other not in seen:
            seen.append(other)
            yield label, change


def _all_of_field(
    api: str, shape: Shape, value: Any, flexible: bool, blank: str
) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    if shape.is_array or shape.kind in TEXTS:
        if shape.tag is None:
            yield "null", _fixed(Raw(null(shape, flexible)))
            yield "too long", _fixed(Raw(length(shape, 30_000, flexible)))
            if not flexible:
                yield "of negative length", _fixed(Raw(length(shape, -2, False)))
        yield "empty", _fixed([] if shape.is_array else "" if shape.kind == "string" else b"")
    if shape.is_array:
        yield from _of_elements(api, shape, value, blank)
        return
    if shape.schema is not None:
        if shape.nullable and value is not None:
            yield "null", _fixed(None)
        return
    if shape.kind == "string":
        yield from _texts(blank)
    for other in (*_values(shape, value), *EXTRA.get((api, shape.name), ())):
        yield _label(other), _fixed(other)


def _of_elements(
    api: str, shape: Shape, value: Any, blank: str
) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    if not value:
        return
    yield "twice", lambda listed: [*listed, listed[0]]
    if shape.schema is None:
        element = shape.element
        for label, change in _texts(blank) if shape.kind == "string" else ():
            yield f"of {label}", lambda listed, change=change: [change(listed[0])]
            yield f"and {label}", lambda listed, change=change: [*listed, change(listed[0])]
        for other in (*_values(element, value[0]), *EXTRA.get((api, shape.name), ())):
            yield f"of {_label(other)}", _fixed([other])
            yield f"and {_label(other)}", lambda listed, other=other: [*listed, other]


def _fixed(value: Any) -> Callable[[Any], Any]:
    return lambda _: value


def _label(value: Any) -> str:
    return f"id {value.int}" if isinstance(value, UUID) else repr(value)


def _texts(blank: str) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """Other names, which begin as the right one does."""
    yield "of blanks", _fixed(blank)
    for label, end in (("other", "-other"), ("long", "x" * 300), ("strange", " /é")):
        yield label, lambda text, end=end: f"{text or ''}{end}"


def _values(shape: Shape, value: Any) -> Iterator[Any]:
    if (bits := LIMITS.get(shape.kind or "")) is not None:
        least = () if shape.name == "timeout" else (1,)  # whether a millisecond is over is chance
        yield from (-1, 0, *least, -2, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)))
        return
    match shape.kind:
        case "bool":
            yield not value
        case "float64":
            yield from (-1.0, 0.0, float("inf"), 1e308, 0.5)
        case "uuid":
            yield from (UUID(int=0), NO_SUCH_ID)
        case "string":
            yield ""
        case "bytes" | "records":
            yield from (b"\xff", b"\0" * 100)
        case "uint16" | "int16":
            yield from (0, 2 ** NUMBERS[shape.kind].size - 1)
        case _:
            return
