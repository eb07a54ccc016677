"""Usual causes of a check's findings, and next things to look at: read from advice.toml."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from attrs import frozen


@frozen
class Advice:
    """For whoever has a finding of one check."""

    causes: tuple[str, ...]
    look: tuple[str, ...]


@cache
def advice() -> Mapping[str, Advice]:
    """That of every check, by its id."""
    text = files(__package__ or "traces.checks").joinpath("advice.toml").read_text("utf-8")
    reported: dict[str, Any] = tomllib.loads(text)
    shared = reported.pop("shared")
    return {
        id: Advice(*(tuple(_spelt(one[name], shared)) for name in ("causes", "look")))
        for id, one in reported.items()
    }


def _spelt(items: Sequence[str], shared: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for item in items:
        yield from shared[item[1:]] if item.startswith("@") else (item,)
