"""A run as a file: configuration and fault script, to be shown again anywhere."""

from pathlib import Path
from typing import Any, cast

import orjson

from chaos.faults.script import Fault, Script
from chaos.sim.settings import Settings
from chaos.simulator import Run

FORMAT = 1


class BadScript(ValueError):
    """The file is not a script; the message says what was expected."""


def save(run: Run, path: Path) -> None:
    """Write a run's settings and script for a replay, with its violation."""
    broken = run.violation
    value = {
        "format": FORMAT,
        "breaks": {"oracle": broken.oracle, "what": broken.what} if broken else None,
        "settings": run.settings.as_json(),
        "script": [fault.as_json() for fault in run.script],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def load(path: Path) -> tuple[Settings, Script]:
    """Read what `save` wrote; raises `BadScript`."""
    try:
        value = orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as wrong:
        raise BadScript(f"{path}: not JSON: {wrong}") from None
    if not isinstance(value, dict):
        raise BadScript(f"{path}: expected an object with format, settings and script")
    fields = cast("dict[str, Any]", value)
    if fields.get("format") != FORMAT:
        raise BadScript(f"{path}: format: expected {FORMAT}, found {fields.get('format')!r}")
    try:
        settings, script = _typed(fields, "settings", dict), _typed(fields, "script", list)
        return Settings.from_json(settings), _script(script)
    except (TypeError, ValueError) as wrong:
        raise BadScript(f"{path}: {wrong}") from None


def _typed(fields: dict[str, Any], name: str, kind: type) -> Any:
    value = fields.get(name)
    if not isinstance(value, kind):
        article = "an object" if kind is dict else "a list"
        raise ValueError(f"{name}: expected {article}, found {value!r}")
    return value


def _script(values: list[dict[str, Any]]) -> Script:
    faults: list[Fault] = []
    for number, value in enumerate(values):
        try:
            faults.append(Fault.from_json({**value}))
        except (TypeError, ValueError) as wrong:
            raise ValueError(f"script[{number}]: {wrong}") from None
    return tuple(faults)
