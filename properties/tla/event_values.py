"""TLA+ values as protocol events write them, in JSON."""

from collections.abc import Mapping
from typing import Any, cast

from properties.tla.values import ModelValue, Rec, Value, order

_NAMED_FORMS = frozenset({"set", "fun", "model"})


def to_json(value: Value) -> Any:
    """The value in the form of a protocol event (NDJSON)."""
    if isinstance(value, bool | int | str):
        return value
    if isinstance(value, ModelValue):
        return {"model": value.name}
    if isinstance(value, frozenset):
        members = cast("frozenset[Value]", value)
        return {"set": [to_json(member) for member in sorted(members, key=order)]}
    if isinstance(value, Rec):
        plain = all(isinstance(key, str) for key in value)
        if plain and not (len(value) == 1 and next(iter(value)) in _NAMED_FORMS):
            return {key: to_json(item) for key, item in value.items()}
        return {"fun": [[to_json(key), to_json(item)] for key, item in value.items()]}
    if isinstance(value, tuple):
        return [to_json(item) for item in cast("tuple[Value, ...]", value)]
    raise TypeError(f"not a canonical TLA+ value: {value!r}")


def from_json(data: Any) -> Value:
    """The value of a field of a protocol event. Raises `ValueError` for a malformed one."""
    if isinstance(data, int) and not -(2**31) <= data < 2**31:
        raise ValueError(f"{data} does not fit into the 32 bits of TLC's integers")
    if isinstance(data, bool | int | str):
        return data
    if isinstance(data, list):
        return tuple(from_json(item) for item in cast("list[Any]", data))
    if isinstance(data, Mapping):
        return _from_object(cast("Mapping[str, Any]", data))
    raise ValueError(
        f"{data!r} is no TLA+ value: expected integers, strings, booleans, lists and objects"
    )


def _from_object(data: Mapping[str, Any]) -> Value:
    form = next(iter(data)) if len(data) == 1 else ""
    inner = data[form] if form in _NAMED_FORMS else None
    if form == "model" and isinstance(inner, str):
        return ModelValue(inner)
    if form == "set" and isinstance(inner, list):
        return frozenset(from_json(item) for item in cast("list[Any]", inner))
    if form == "fun" and isinstance(inner, list):
        pairs = cast("list[tuple[Any, Any]]", inner)
        return Rec.function((from_json(key), from_json(item)) for key, item in pairs)
    if form in _NAMED_FORMS:
        raise ValueError(
            f"{form!r} marks a {form} here; a record with only that field is "
            'written {"fun": [[key, value], ...]}'
        )
    return Rec.function((key, from_json(item)) for key, item in data.items())
