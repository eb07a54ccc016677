"""Deserializers: by name, or any function that takes bytes; without one bytes stay bytes."""

import struct
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, cast
from uuid import UUID

import orjson

from refimpl.configs import ConfigError

Deserializer = Callable[[bytes], Any]


def _unpacked(form: str) -> Deserializer:
    unpack = struct.Struct(form).unpack
    return lambda data: unpack(data)[0]


_BY_NAME: Mapping[str, Deserializer | None] = {
    "bytes": None,
    "str": bytes.decode,
    "int": _unpacked(">q"),
    "int32": _unpacked(">i"),
    "float": _unpacked(">d"),
    "uuid": lambda data: UUID(data.decode()),
    "json": orjson.loads,
}


def deserializer(setting: str, given: Any) -> Deserializer | None:
    """The function for a setting's value: a name, a function, or None. Raises ConfigError."""
    if given is None or callable(given):
        return cast("Deserializer | None", given)
    if given in _BY_NAME:
        return _BY_NAME[given]
    near = get_close_matches(str(given), _BY_NAME, n=1)
    hint = f"; did you mean {near[0]}?" if near else f": expected {', '.join(_BY_NAME)}"
    raise ConfigError(f"{setting}: no deserializer is called {given!r}{hint}, or a function")
