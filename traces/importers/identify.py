"""Read message ids from where an application keeps them.

One of `key`, `value`, `header:NAME` or `json:FIELD`.
"""

from collections.abc import Callable, Iterable
from typing import Any, cast

import orjson

from traces.record.ids import HEADER, Id, id_in, text

Headers = Iterable[tuple[str, bytes | None]]
Identify = Callable[[bytes | None, bytes | None, Headers], Id | None]


class UnknownIdSource(ValueError):
    """A place that is none of those that an id may have."""


def identify(id_source: str | None) -> Identify:
    """The function that reads a message's id; by default from the header that the recorder adds."""
    kind, _, name = (id_source or f"header:{HEADER}").partition(":")
    if kind == "key" and not name:
        return lambda key, value, headers: text(key)
    if kind == "value" and not name:
        return lambda key, value, headers: text(value)
    if kind == "header" and name == HEADER:
        return lambda key, value, headers: id_in(headers)
    if kind == "header" and name:
        return lambda key, value, headers: text(dict(headers).get(name))
    if kind == "json" and name:
        return lambda key, value, headers: _field(value, name.split("."))
    raise UnknownIdSource(f"expected key, value, header:NAME or json:FIELD, found {id_source!r}")


def _field(value: bytes | None, path: Iterable[str]) -> Id | None:
    """A field of a value that is JSON; dots lead into objects."""
    try:
        found: Any = None if value is None else orjson.loads(value)
    except orjson.JSONDecodeError:
        return None
    for name in path:
        found = cast("dict[str, Any]", found).get(name) if type(found) is dict else None
    return found if type(found) in (int, str) else None
