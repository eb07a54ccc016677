"""Taking evidence away from a trace: a field, from one line or many, a setting, or a file."""

import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from tests.traces.world import Line
from traces.ingest.vocabulary import FIELDS, RECORD_FIELDS

Lines = dict[str, list[Line]]
Trace = tuple[Lines, dict[str, Any]]

# Without these a line is none, and bad input; `error` is not read; and where the others are absent,
# that is an answer: the clock is the host's, a member is not static, a batch holds records.
KEPT = {
    *("process", "seq", "op", "outcome", "reason", "error"),
    *("clock", "instance", "control", "transactional"),
}
CALL_FIELDS = tuple(sorted(FIELDS - KEPT))
RECORD_PARTS = tuple(sorted(RECORD_FIELDS - {"topic"}))


def removals(trace: Trace, random: Random) -> Iterator[tuple[str, Callable[[Lines, Any], None]]]:
    """Ways to take something away, each with a name for the report."""
    lines, meta = trace
    everywhere = [line for mine in lines.values() for line in mine]
    for name in CALL_FIELDS:
        having = [line for line in everywhere if name in line]
        if having:
            yield f"{name} everywhere", _everywhere(name)
            yield f"{name} here and there", _here_and_there(name, random.random())
            line = random.choice(having)
            yield f"{name} of {line['process']}", _of_process(name, line["process"])
            yield f"{name} of one {line['op']}", _of_line(name, line["process"], line["seq"])
            yield f"{name} of every {line['op']}", _of_op(name, line["op"])
    for name in RECORD_PARTS:
        having = [x for x in everywhere if any(name in r for r in x.get("records", ()))]
        if having:
            line = random.choice(having)
            yield f"records.{name} everywhere", _records(name, lambda line: True)
            yield f"records.{name} of every {line['op']}", _records(name, _is_op(line["op"]))
            yield f"records.{name} of one {line['op']}", _records(name, _is_line(line))
    for path in _settings(meta, ()):
        yield f"meta {'.'.join(path)}", _setting(path)
    for process in lines:
        yield f"the file of {process}", _file(process)


def without(trace: Trace, remove: Callable[[Lines, Any], None]) -> Trace:
    """A copy of the trace with that taken away."""
    lines, meta = json.loads(json.dumps(trace))
    remove(lines, meta)
    return lines, meta


def _everywhere(name: str) -> Callable[[Lines, Any], None]:
    return _drop(name, lambda line: True)


def _here_and_there(name: str, seed: float) -> Callable[[Lines, Any], None]:
    """From half of the lines."""
    random = Random(seed)
    return _drop(name, lambda line: random.random() < 0.5)


def _of_process(name: str, process: str) -> Callable[[Lines, Any], None]:
    return _drop(name, lambda line: line["process"] == process)


def _of_op(name: str, op: str) -> Callable[[Lines, Any], None]:
    return _drop(name, _is_op(op))


def _of_line(name: str, process: str, seq: int) -> Callable[[Lines, Any], None]:
    return _drop(name, lambda line: (line["process"], line["seq"]) == (process, seq))


def _is_op(op: str) -> Callable[[Line], bool]:
    return lambda line: line["op"] == op


def _is_line(one: Line) -> Callable[[Line], bool]:
    return lambda line: (line["process"], line["seq"]) == (one["process"], one["seq"])


def _drop(name: str, which: Callable[[Line], bool]) -> Callable[[Lines, Any], None]:
    def remove(lines: Lines, meta: Any) -> None:
        for mine in lines.values():
            for line in mine:
                if which(line):
                    line.pop(name, None)

    return remove


def _records(name: str, which: Callable[[Line], bool]) -> Callable[[Lines, Any], None]:
    def remove(lines: Lines, meta: Any) -> None:
        for mine in lines.values():
            for line in mine:
                if which(line):
                    for record in line.get("records", ()):
                        record.pop(name, None)

    return remove


def _settings(meta: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for name, value in meta.items():
        if path or name in ("complete", "topics", "producers", "consumers", "share_groups"):
            yield (*path, name)
            if isinstance(value, dict):
                yield from _settings(value, (*path, name))


def _setting(path: tuple[str, ...]) -> Callable[[Lines, Any], None]:
    def remove(lines: Lines, meta: Any) -> None:
        for name in path[:-1]:
            meta = meta[name]
        del meta[path[-1]]

    return remove


def _file(process: str) -> Callable[[Lines, Any], None]:
    def remove(lines: Lines, meta: Any) -> None:
        del lines[process]

    return remove
