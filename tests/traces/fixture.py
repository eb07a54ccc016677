"""The small fixture that `highwater generate` ships, written down as a run."""

import gzip
from pathlib import Path
from typing import Any

import orjson

from traces.generate.small.fixture import (
    GROUP,
    PARTITIONS,
    TOPIC,
    Fixture,
    Line,
    fixture,
    meta,
    name,
    payload,
)

__all__ = [
    "GROUP",
    "PARTITIONS",
    "TOPIC",
    "Fixture",
    "Line",
    "fixture",
    "meta",
    "name",
    "payload",
    "write",
]


def write(folder: Path, lines: dict[str, list[Line]], meta: dict[str, Any]) -> Path:
    """The trace as a run folder, one file of it compressed."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "meta.json").write_bytes(orjson.dumps(meta))
    for process, mine in lines.items():
        text = b"".join([orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in mine])
        if process == "p1#0":
            (folder / f"{process}.ndjson.gz").write_bytes(gzip.compress(text, 1))
        else:
            (folder / f"{process}.ndjson").write_bytes(text)
    return folder
