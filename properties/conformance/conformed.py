"""Remembers the scopes in which unchanged machines conformed, so that they are not checked again.

A result of `highwater conform` is kept for exactly the files on which it depends.
"""

from collections.abc import Iterable
from pathlib import Path

import orjson

from properties.conformance.report import ScopeReport
from properties.tla import tools
from properties.tla.specs import cache_folder

ROOMS = "refimpl", "properties", "spec"


def conformed() -> set[tuple[str, str]]:
    """Scopes by name, each with a method that found no difference, nor a refusal for another
    reason than the spec's."""
    file = _file()
    rows = file.read_bytes().splitlines() if file.is_file() else ()
    return {(row["scope"], row["method"]) for row in map(orjson.loads, rows)}


def keep(reports: Iterable[ScopeReport]) -> None:
    """Keep which methods found nothing in which scopes."""
    rows = [
        {"scope": report.scope, "method": found.method}
        for report in reports
        for found in report.found
        if found.discrepancy is None and (found.named or found.method != "exhaustive")
    ]
    file = _file()
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as kept:
        for row in rows:
            kept.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))


def _file() -> Path:
    files = tools.sources(ROOMS, ".toml")
    return cache_folder() / "conformed" / f"{tools.digest(files, tools.find().key())}.jsonl"
