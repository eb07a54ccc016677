"""Apalache's counterexamples: the Informal Trace Format, JSON with `#` marks (its ADR-015).

It holds states and no actions: which action led from one to the next, `replay` finds out.
"""

from collections.abc import Mapping
from typing import Any, cast

import orjson

from properties.tla.checker import CounterexampleStep
from properties.tla.values import Rec, Value

UNKNOWN_ACTION = "Next"


def steps(text: bytes) -> tuple[CounterexampleStep, ...]:
    """The states of a counterexample. Raises `ValueError` for a file of another form."""
    data: Mapping[str, Any] = orjson.loads(text)
    if "states" not in data:
        raise ValueError("no counterexample in the Informal Trace Format: it has no states")
    states = [_state(state) for state in data["states"]]
    return tuple(
        CounterexampleStep(UNKNOWN_ACTION if number else None, state)
        for number, state in enumerate(states)
    )


def _state(state: Mapping[str, Any]) -> Mapping[str, Value]:
    return {name: _value(value) for name, value in state.items() if name[0] != "#"}


def _value(data: Any) -> Value:
    if isinstance(data, list):
        return tuple(_value(item) for item in cast("list[Any]", data))
    if not isinstance(data, dict):
        return data
    fields = cast("dict[str, Any]", data)
    mark = next((name for name in fields if name[0] == "#"), None)
    match mark:
        case None:
            return Rec.of(**{name: _value(value) for name, value in fields.items()})
        case "#bigint":
            return int(fields[mark])
        case "#set":
            return frozenset(_value(item) for item in fields[mark])
        case "#tup":
            return tuple(_value(item) for item in fields[mark])
        case "#map":
            return Rec.function((_value(key), _value(item)) for key, item in fields[mark])
        case _:
            raise ValueError(f"{mark} marks no value of the Informal Trace Format")
