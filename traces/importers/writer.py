"""The run folder that an importer writes: process files in trace format v1 and `meta.json`."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson
from attrs import define, field

from traces.model.meta import read_meta
from traces.model.problems import Problem, Problems
from traces.record.entries import Line

SourceFields = Mapping[str, Any]


@define
class Imported:
    """The result of an import: calls written, calls skipped, and gaps of the source."""

    calls: dict[str, int] = field(factory=dict[str, int])
    warnings: list[Problem] = field(factory=list[Problem])
    lost: tuple[str, ...] = ()
    skipped: dict[str, int] = field(factory=dict[str, int])

    def skip(self, what: str, count: int = 1) -> None:
        """Something of the source that has no place in a trace; counted, never just dropped."""
        self.skipped[what] = self.skipped.get(what, 0) + count


@define
class SourceFile:
    """One file of the source, read line by line."""

    path: Path
    problems: Problems
    imported: Imported
    line: int = 0

    def problem(self, where: str, message: str) -> None:
        """Something on this line is not what it should be."""
        self.problems.add(self.path.name, self.line, where, message)

    def warn(self, message: str) -> None:
        """Something about the whole file that its reader should know."""
        self.imported.warnings.append(Problem(self.path.name, None, "", message))

    def take(self, fields: SourceFields, name: str, kind: type, where: str = "") -> Any:
        """A required field of the right type, or a problem and None."""
        value: Any = fields.get(name)
        if type(value) is not kind:
            found = "is missing" if value is None else f"expected {_WORDS[kind]}, found {value!r}"
            self.problem(where + name, found)
            return None
        if kind is int and value < 0:  # pyright: ignore[reportOptionalOperand]
            self.problem(where + name, f"expected a whole number of at least 0, found {value!r}")
            return None
        return value

    def take_text(self, fields: SourceFields, name: str) -> str | None:
        """An optional string."""
        value = fields.get(name)
        return None if value is None else self.take(fields, name, str)


_WORDS = {int: "a whole number", str: "a string", dict: "an object", list: "a list", bool: "a bool"}


def file_name(process: str) -> str:
    """A process as the name of a file; what a file system minds is replaced."""
    return re.sub(r"[^\w.#@+=-]", "_", process)


def write_run(
    out: Path, processes: Mapping[str, Iterable[Line]], meta: SourceFields, imported: Imported
) -> None:
    """Write a run folder: each line gets its process and its place in the program."""
    out.mkdir(parents=True, exist_ok=True)
    write_processes(out, processes, imported)
    whole = {"format": 1, "run": out.name, "complete": False, **meta, "lost": list(imported.lost)}
    _write_meta(out, whole)


def write_processes(out: Path, processes: Mapping[str, Iterable[Line]], imported: Imported) -> None:
    """Write one file for each process; all of them, or none if one cannot be made."""
    files = {out / f"{file_name(process)}.ndjson": process for process in processes}
    try:
        for file, process in files.items():
            imported.calls[process] = _write(_unfinished(file), process, processes[process])
    except BaseException:
        for file in files:
            _unfinished(file).unlink(missing_ok=True)
        raise
    for file in files:
        _unfinished(file).replace(file)


def _write(file: Path, process: str, lines: Iterable[Line]) -> int:
    number = 0
    with file.open("wb") as out:
        for number, line in enumerate(lines, 1):
            numbered = {"process": process, "seq": number - 1, **line}
            out.write(orjson.dumps(numbered, option=orjson.OPT_APPEND_NEWLINE))
    return number


def _unfinished(file: Path) -> Path:
    return file.with_name(f"{file.name}.part")


def add_to_run(
    run: Path, processes: Mapping[str, Iterable[Line]], topics: SourceFields, imported: Imported
) -> None:
    """Add processes to a run that is there; what it says of topics already is kept."""
    read_meta(run)  # says what is wrong with it, by field
    problems = Problems()
    for process in processes:
        file = run / f"{file_name(process)}.ndjson"
        if file.exists():
            problems.add(str(file), None, "", "is there already; an import does not replace it")
    problems.raise_any()
    write_processes(run, processes, imported)
    meta: dict[str, Any] = orjson.loads((run / "meta.json").read_bytes())
    known: dict[str, Any] = meta.get("topics") or {}
    meta["topics"] = known | {name: {**topics[name], **known.get(name, {})} for name in topics}
    if meta.get("processes") is not None:
        meta["processes"] += [name for name in processes if name not in meta["processes"]]
    _write_meta(run, meta)


def _write_meta(run: Path, meta: SourceFields) -> None:
    """Replace `meta.json` as a whole, so that a crash leaves the old one or the new one."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    new = _unfinished(run / "meta.json")
    new.write_bytes(orjson.dumps(meta, option=options))
    new.replace(run / "meta.json")
