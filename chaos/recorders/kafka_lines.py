"""Reads what the agents of a Kafka cluster wrote (`chaos/real/agent`), and puts it in order.

Every line bears the monotonic clock of the host, so the order of time is an order of causes.
"""

import gzip
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias, cast

import orjson
from attrs import define, field

PATTERNS = ("**/*.steps.ndjson", "**/*.steps.ndjson.gz")
FORMAT = 1
_ALWAYS = {"t", "n", "node", "ev"}
Line: TypeAlias = Mapping[str, Any]


class AgentLinesError(ValueError):
    """The lines cannot be judged: one sentence says why."""


@define
class Recorded:
    """The lines of all nodes, in the order of time."""

    lines: list[dict[str, Any]]
    #: The versions of Kafka that were watched
    versions: set[str] = field(factory=set[str])
    #: Processes that were killed in the middle of a line
    torn: int = 0
    #: Kinds of subjects that cannot be judged, as a version has not all methods that tell of them
    without: dict[str, str] = field(factory=dict[str, str])

    @property
    def name(self) -> str:
        """The name of the run."""
        return f"kafka-{'+'.join(sorted(self.versions))}"


def read_lines(folder: Path) -> Recorded:
    """Read a folder of agents' files; AgentLinesError if a step may be missing in them."""
    files = sorted(file for pattern in PATTERNS for file in folder.glob(pattern))
    if not files:
        raise AgentLinesError(f"{folder} has no *.steps.ndjson: no agent wrote here")
    recorded = Recorded([])
    boots: set[str] = set()
    for file in files:
        _read(file, recorded, boots)
    if len(boots) > 1:
        raise AgentLinesError(f"{folder}: the files are of several hosts, whose clocks differ")
    recorded.lines.sort(key=lambda line: line["t"])
    _mark_processes(recorded.lines)
    return recorded


def _read(file: Path, into: Recorded, boots: set[str]) -> None:
    content = file.read_bytes()
    texts = (gzip.decompress(content) if file.suffix == ".gz" else content).splitlines()
    expected = -1
    for number, text in enumerate(texts, start=1):
        try:
            read: Any = orjson.loads(text)
        except orjson.JSONDecodeError:
            if not _ends_a_process(texts, number):
                raise AgentLinesError(f"{file}, line {number}: not JSON") from None
            into.torn += 1
            continue
        if not isinstance(read, dict) or not read.keys() >= _ALWAYS:  # pyright: ignore[reportUnknownMemberType]
            raise AgentLinesError(f"{file}, line {number}: not a line of the agent")
        line = cast("dict[str, Any]", read)
        _check(line, f"{file}, line {number}", expected)
        expected = line["n"] + 1
        if line["ev"] == "start":
            into.versions.add(line["kafka"])
            boots.add(line["boot"])
        elif line["ev"] == "hook" and not line["found"]:
            missing = f"this Kafka has no {line['of']}.{line['method']}"
            into.without.setdefault(line["without"], missing)
        line["at"] = f"{file}:{number}"
        into.lines.append(line)


def _ends_a_process(texts: list[bytes], number: int) -> bool:
    """True for the last line of a file, and for the one before the next process's first."""
    return number == len(texts) or b'"ev":"start"' in texts[number]


def _check(line: Line, place: str, expected: int) -> None:
    match line["ev"]:
        case "start" if line["format"] != FORMAT:
            raise AgentLinesError(f"{place}: format {line['format']}, and {FORMAT} is known here")
        case "start":
            return
        case "hook" if not line["found"] and not line.get("without"):
            of = f"{line['of']}.{line['method']}"
            raise AgentLinesError(f"{place}: this Kafka has no {of}, so its steps are missing")
        case "problem":
            raise AgentLinesError(f"{place}: the agent failed at {line['where']}: {line['what']}")
        case _:
            pass
    if line["n"] != expected:
        raise AgentLinesError(f"{place}: {line['n'] - expected} lines before it are missing")


def _mark_processes(lines: Iterable[dict[str, Any]]) -> None:
    """Mark the processes that came as far as to register or to load a log.

    A process that was killed before has done nothing, and is none for the spec.
    """
    newest: dict[int, dict[str, Any]] = {}
    for line in _once(lines):
        if line["ev"] == "start":
            line["counts"] = line["node"] not in newest
            newest[line["node"]] = line
        elif (start := newest.get(line.get("b", line["node"]))) is not None:
            start["counts"] = True


def _once(lines: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Starts, loads, and the first news of each registration: a controller reads them again."""
    known = set[tuple[int, int]]()
    for line in lines:
        if line["ev"] in ("start", "loaded"):
            yield line
        elif line["ev"] == "registered" and (line["b"], line["be"]) not in known:
            known.add((line["b"], line["be"]))
            yield line
