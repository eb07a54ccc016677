"""The settings of a client from a mapping by Kafka's names; unknown ones are refused."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from refimpl.configs import ConfigError, Definition, Type, Value, show


def read(
    given: Mapping[str, Any], table: Mapping[str, Definition], client: str
) -> dict[str, Value]:
    """The value of each setting, given or by default. Raises ConfigError.

    Objects stand for what Kafka names by a class; everything else may be a text, as in a file.
    """
    for name in given:
        if name not in table:
            raise ConfigError(_unknown(str(name), table, client))
    return {
        name: _value(one, given[name]) if name in given else one.default
        for name, one in table.items()
    }


def _value(one: Definition, value: Any) -> Value:
    if value is None or (one.type is Type.CLASS and not isinstance(value, str)):
        return value
    if one.type is Type.LIST and not isinstance(value, str):
        return tuple(value)
    text = value if isinstance(value, str) else show(value)
    return one.value(text or "")


def _unknown(name: str, table: Iterable[str], client: str) -> str:
    near = get_close_matches(name.lower().replace("_", "."), table, n=1, cutoff=0.7)
    return f"{name}: no setting of a {client}" + (f"; did you mean {near[0]}?" if near else "")
