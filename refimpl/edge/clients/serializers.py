"""Serializers: by name, by the type of the value, or any function that makes bytes."""

import struct
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, cast
from uuid import UUID

import orjson

from refimpl.configs import ConfigError

Serializer = Callable[[Any], bytes | None]


def by_type(value: Any) -> bytes | None:
    """As Kafka's serializer of that type writes it; mappings and sequences as JSON."""
    if value is None or value.__class__ is bytes:
        return value
    for kind, write in _BY_TYPE.items():
        if isinstance(value, kind):
            return write(value)
    raise TypeError(f"no serializer for a {type(value).__name__}: give one by its name or function")


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError(f"expected bytes, not a {type(value).__name__}")
    return bytes(cast("bytes", value))


def _string(value: Any) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"expected a str, not a {type(value).__name__}")
    return value.encode()


def _packed(form: str, what: str) -> Callable[[Any], bytes]:
    pack = struct.Struct(form).pack

    def write(value: Any) -> bytes:
        try:
            return pack(value)
        except struct.error:
            raise TypeError(f"{value!r} is no {what}") from None

    return write


def _uuid(value: Any) -> bytes:
    return str(value if isinstance(value, UUID) else UUID(value)).encode()


def _json(value: Any) -> bytes:
    return orjson.dumps(value)


_long, _double = _packed(">q", "integer of 64 bits"), _packed(">d", "number")
_BY_TYPE: Mapping[Any, Callable[[Any], bytes]] = {
    bytearray | memoryview: bytes,
    str: _string,
    bool: _json,
    int: _long,
    float: _double,
    UUID: _uuid,
    Mapping: _json,
    Sequence: _json,
}
_BY_NAME: Mapping[str, Callable[[Any], bytes]] = {
    "bytes": _bytes,
    "str": _string,
    "int": _long,
    "int32": _packed(">i", "integer of 32 bits"),
    "float": _double,
    "uuid": _uuid,
    "json": _json,
}


def serializer(setting: str, given: Any) -> Serializer:
    """The function for a setting's value: a name, a function, or None. Raises ConfigError."""
    if given is None:
        return by_type
    if callable(given):
        return cast("Serializer", given)
    if given in _BY_NAME:
        write = _BY_NAME[given]
        return lambda value: None if value is None else write(value)
    near = get_close_matches(str(given), _BY_NAME, n=1)
    hint = f"; did you mean {near[0]}?" if near else f": expected {', '.join(_BY_NAME)}"
    raise ConfigError(f"{setting}: no serializer is called {given!r}{hint}, or a function")
