"""Requests of every API and version, with values that a client should not send among them."""

from collections.abc import Callable
from dataclasses import Field, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin

from hypothesis import strategies as st

from refimpl.storage.format.batch import Record, encode_batch
from refimpl.wire.messages import load_request_schema

BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63, "uint16": 16, "uint32": 32, "uint8": 8}
BATCH = bytes(encode_batch([Record(0, 0, b"key", b"value")]))
RECORDS = st.one_of(
    st.just(BATCH),
    st.just(BATCH[:-1]),
    st.just(BATCH + BATCH),
    st.just(BATCH[:20] + b"\xff" + BATCH[21:]),  # a wrong CRC
    st.binary(max_size=80),
    st.just(b""),
)
TEXTS = st.sampled_from(
    ["t", "t", "missing", "", ".", "a" * 250, "a" * 300, "é\x00", "1", "x", "retention.ms", "user"]
)


def number(bits: int) -> st.SearchStrategy[int]:
    """Small ones, and the ends of what fits."""
    least = 0 if bits in (8, 16, 32) else -(2**bits)
    return st.sampled_from([0, 0, 1, 2, 3, max(least, -1), max(least, -2), least, 2**bits - 1])


def values(schema: type[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """The fields of a message, as `write_request` takes them."""
    return st.fixed_dictionaries({one.name: value(one) for one in fields(schema)})


def value(one: Field[Any]) -> st.SearchStrategy[Any]:
    """Anything that a field can hold."""
    kind, nullable = one.type, False
    if get_origin(kind) in (Union, UnionType):
        rest = [each for each in get_args(kind) if each is not NoneType]
        kind, nullable = rest[0], len(rest) < len(get_args(kind))
    found = of_kind(one.metadata.get("kafka_type"), kind)
    return st.none() | found if nullable and "tag" not in one.metadata else found


def of_kind(name: str | None, kind: Any) -> st.SearchStrategy[Any]:
    if get_origin(kind) is tuple:
        return st.lists(of_kind(name, get_args(kind)[0]), max_size=2)
    if is_dataclass(kind):
        return values(cast("type[Any]", kind))
    known: dict[str | None, Callable[[], st.SearchStrategy[Any]]] = {
        "string": lambda: TEXTS,
        "bytes": lambda: st.binary(max_size=20),
        "records": lambda: RECORDS,
        "bool": st.booleans,
        "uuid": lambda: st.sampled_from([b"\x01" * 16, b"\xff" * 16]),
        "float64": lambda: st.sampled_from([0.0, -1.0, 1e300, float("nan")]),
        "timedelta_i32": lambda: st.sampled_from([0, 5, -1]),
        "timedelta_i64": lambda: st.sampled_from([0, 5]),
        "datetime_i64": lambda: st.sampled_from([0, 5]),
        "error_code": lambda: st.none(),
    }
    if name in known:
        return known[name]()
    assert name in BITS, name
    return number(BITS[name])


def requests(api_key: int, version: int) -> st.SearchStrategy[dict[str, Any]]:
    """The fields of a request."""
    return values(load_request_schema(api_key, version))
