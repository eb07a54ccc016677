"""Read protocol events: NDJSON files, one line per step, grouped into traces.

A trace is one run's events about one subject (a partition, a group) in the words of one spec.
"""

import gzip
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import orjson
from attrs import define, field, frozen

from properties.tla.errors import InputError
from properties.tla.memory import uncollected

#: What a folder is searched for. A file that is named outright may be called anything.
PATTERNS = ("**/*events*.ndjson", "**/*events*.ndjson.gz")
INIT = "Init"
_MOST_PROBLEMS = 20
_EVENT_FIELDS = {"run": str, "spec": str, "subject": str, "seq": int, "action": str, "params": dict}
_HEADER_FIELDS = {"run": str, "spec": str, "subject": str, "constants": dict}


@frozen
class TraceEvent:
    """One step of a trace. Values are as in the file: not yet TLA+."""

    line: int
    action: str
    params: Mapping[str, Any]
    after: Mapping[str, Any]


@define
class Trace:
    """The steps of one run, about one subject, in the words of one spec."""

    file: Path
    run: str
    spec: str
    subject: str
    constants: Mapping[str, Any] | None = None
    events: list[TraceEvent] = field(factory=list[TraceEvent])
    last_seq: int | None = None

    @property
    def name(self) -> str:
        return f"run {self.run}, {self.spec} of {self.subject}"

    def place(self, event: int) -> str:
        """The location of the event with this number, from 1."""
        return f"{self.file}:{self.events[event - 1].line}"


class _Problems(list[str]):
    def add(self, file: Path, line: int, what: str) -> None:
        self.append(f"{file}:{line}: {what}")
        if len(self) >= _MOST_PROBLEMS:
            self.append("(further problems are not listed)")
            raise InputError("\n".join(self))


def read_traces(paths: Iterable[Path]) -> list[Trace]:
    """All traces in these files and folders; raises one `InputError` that lists every bad line."""
    problems = _Problems()
    traces: list[Trace] = []
    with uncollected():
        for file in _files(paths):
            traces += _read_file(file, problems)
    for trace in traces:
        if trace.constants is None:
            problems.add(
                trace.file,
                trace.events[0].line,
                f"no header for {trace.name}: expected "
                'a line {"run", "spec", "subject", "constants"}',
            )
    if problems:
        raise InputError("\n".join(problems))
    if not any(trace.events for trace in traces):
        raise InputError(f"no protocol events in {', '.join(map(str, paths))}")
    return traces


def _files(paths: Iterable[Path]) -> list[Path]:
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            found = sorted({file for pattern in PATTERNS for file in path.glob(pattern)})
            if not found:
                raise InputError(f"{path}: no files *events*.ndjson or *events*.ndjson.gz in it")
            files += found
        elif path.is_file():
            files.append(path)
        else:
            raise InputError(f"{path}: no such file or folder")
    return files


def _read_file(file: Path, problems: _Problems) -> list[Trace]:
    traces: dict[tuple[str, str, str], Trace] = {}
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    _take(file, traces, number, line)
                except ValueError as wrong:
                    problems.add(file, number, str(wrong))
    except (OSError, EOFError) as unreadable:
        raise InputError(f"{file}: cannot be read: {unreadable}") from None
    return list(traces.values())


def _take(file: Path, traces: dict[tuple[str, str, str], Trace], number: int, line: bytes) -> None:
    if not line.strip():
        return
    data = _object(line)
    is_header = "constants" in data
    _check(data, _HEADER_FIELDS if is_header else _EVENT_FIELDS)
    key = (data["run"], data["spec"], data["subject"])
    trace = traces.setdefault(key, Trace(file, *key))
    if is_header:
        if trace.constants not in (None, data["constants"]):
            raise ValueError(f"a second header, with other constants, for {trace.name}")
        trace.constants = data["constants"]
        return
    if trace.last_seq is not None and data["seq"] <= trace.last_seq:
        raise ValueError(f'"seq" is {data["seq"]} after {trace.last_seq}, expected a larger one')
    trace.last_seq = data["seq"]
    trace.events.append(TraceEvent(number, data["action"], data["params"], data["after"]))


def _object(line: bytes) -> dict[str, Any]:
    try:
        data: object = orjson.loads(line)
    except orjson.JSONDecodeError as wrong:
        raise ValueError(f"not JSON: {wrong}") from None
    if not isinstance(data, dict):
        raise ValueError("expected a JSON object")
    return cast("dict[str, Any]", data)


def _check(data: dict[str, Any], fields: Mapping[str, type]) -> None:
    data.setdefault("after", {})
    for name, kind in {**fields, "after": dict}.items():
        if name not in data:
            raise ValueError(f'"{name}" is missing')
        value = data[name]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ValueError(f'"{name}" is {value!r}, expected {_SAID[kind]}')


_SAID = {str: "a string", int: "an integer", dict: "an object"}
