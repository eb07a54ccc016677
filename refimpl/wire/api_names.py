"""Kafka's names of its APIs by key, also of those that are not served here."""

from collections.abc import Mapping
from functools import cache

from kio.schema.index import api_key_map


@cache
def api_names() -> Mapping[int, str]:
    """Every API that Kafka defines, such as 26: "EndTxn"."""
    return {key: _kafkas(name) for key, name in api_key_map.items()}


def _kafkas(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def api_name(key: int) -> str:
    """One of them, or its key where Kafka defines none."""
    name = api_names().get(key)
    return f"API key {key}" if name is None else f"{name} (API key {key})"
