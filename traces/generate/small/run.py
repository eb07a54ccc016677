"""A small run of a seed: a fixture, with an anomaly in it or none."""

from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import orjson

from traces.generate.small.fixture import fixture
from traces.generate.small.registry import InCalls, Lines, NotHere, injected


def small_run(seed: int, anomaly: InCalls | None) -> tuple[Lines, dict[str, Any]]:
    """Lines and configuration; where a seed has no room for the anomaly, those of the next one."""
    if anomaly is None:
        w = fixture(seed)
        return w.lines, w.meta
    for tried in count(seed):
        try:
            return injected(fixture(tried), anomaly)
        except NotHere:
            continue
    raise AssertionError("seeds do not end")


def write_small(folder: Path, lines: Lines, meta: Any, truth: Mapping[str, Any]) -> None:
    """Write a file for each process, the configuration, and what is wrong."""
    folder.mkdir()
    for process, mine in lines.items():
        (folder / f"{process}.ndjson").write_bytes(b"".join(orjson.dumps(x) + b"\n" for x in mine))
    for name, value in (("meta", meta), ("truth", truth)):
        (folder / f"{name}.json").write_bytes(orjson.dumps(value, option=orjson.OPT_INDENT_2))
