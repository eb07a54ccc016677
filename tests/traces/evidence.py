"""Taking evidence away from a trace: a field of one line or of many, a setting, lines, a file."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import orjson
from attrs import frozen

from tests.traces.fixture import Line
from traces.ingest.vocabulary import FIELDS, RECORD_FIELDS

Lines = dict[str, list[Line]]
Trace = tuple[Lines, dict[str, Any]]

# Without these a line is none, and bad input; `error` is not read; and where the others are absent,
# that is an answer: the clock is the host's, a batch holds records.
KEPT = {
    *("process", "seq", "op", "outcome", "reason", "error"),
    *("clock", "control", "transactional"),
}
# Who never tells this has none: a member is not static.
WHOLLY_ABSENT = {"instance"}
CALL_FIELDS = tuple(sorted(FIELDS - KEPT))
RECORD_PARTS = tuple(sorted(RECORD_FIELDS - {"topic"}))
SETTINGS = ("complete", "topics", "internal_topics", "producers", "consumers", "share_groups")
RECORDS = "records."


@frozen
class Removal:
    """The evidence to remove, in words: `offset of commit`, `records.id of c0#0`, `file of p1#0`.

    `what` is a field of lines (or of their records, behind `records.`), or several with `+` between
    them, or `meta`, `line`, `end` (the last line), `tail` (a line and all behind it) or `file`.
    `where` is a call, a process, a line as `PROCESS SEQ`, a path in meta.json with slashes, `all`,
    or `half SEED`: of a random half of the lines.
    """

    what: str
    where: str

    def __str__(self) -> str:
        return f"{self.what} of {self.where}"

    @classmethod
    def parse(cls, words: str) -> "Removal":
        """Of what `str` gave."""
        what, _, where = words.partition(" of ")
        return cls(what, where)

    def __call__(self, trace: Trace) -> Trace:
        """A copy of the trace with that taken away."""
        lines, meta = orjson.loads(orjson.dumps(trace))
        process, _, seq = self.where.rpartition(" ")
        match self.what:
            case "meta":
                *path, last = self.where.split("/")
                within = meta
                for name in path:
                    within = within[name]
                del within[last]
            case "file":
                del lines[self.where]
            case "end":
                lines[self.where].pop()
            case "tail":
                lines[process] = [x for x in lines[process] if x["seq"] < int(seq)]
            case "line":
                lines[process] = [x for x in lines[process] if x["seq"] != int(seq)]
            case fields:
                concerned = _where(self.where)
                for line in (x for mine in lines.values() for x in mine if concerned(x)):
                    for field in fields.split("+"):
                        for one in _bearers(line, field):
                            one.pop(field.removeprefix(RECORDS), None)
        return lines, meta


def at(line: Line) -> str:
    """The line, as `where` of a removal has it."""
    return f"{line['process']} {line['seq']}"


def _where(words: str) -> Callable[[Line], bool]:
    """The condition for a line to be meant."""
    kind, _, number = words.rpartition(" ")
    if kind == "half":
        random = Random(int(number))
        return lambda line: random.random() < 0.5
    return lambda line: words in ("all", line["op"], line["process"], at(line))


def _bearers(line: Line, field: str) -> list[Line]:
    """The objects that have a field: the line, or its records."""
    return line.get("records", []) if field.startswith(RECORDS) else [line]


def removals(trace: Trace, random: Random) -> Iterator[Removal]:
    """Of every field, setting and file something: some of the choices are random."""
    lines, meta = trace
    for field, having in bearing(lines).items():
        line = random.choice(having)
        yield Removal(field, at(line))
        if field not in WHOLLY_ABSENT:
            yield Removal(field, line["op"])
            yield Removal(field, "all")
            yield Removal(field, f"half {random.randrange(1000)}")
            yield Removal(field, line["process"])
    yield from of_files(lines, meta, random)


def every(trace: Trace, random: Random) -> Iterator[Removal]:
    """As `removals`, of every kind of call, and of each a line."""
    lines, meta = trace
    for field, having in bearing(lines).items():
        if field not in WHOLLY_ABSENT:
            yield Removal(field, "all")
        for op in dict.fromkeys(line["op"] for line in having):
            line = random.choice([line for line in having if line["op"] == op])
            yield Removal(field, at(line))
            if field not in WHOLLY_ABSENT:
                yield Removal(field, op)
                yield Removal(field, line["process"])
    yield from of_files(lines, meta, random)


def of_files(lines: Lines, meta: Any, random: Random) -> Iterator[Removal]:
    """Settings, whole files, their ends, and a line of each."""
    for path in settings_in(meta):
        yield Removal("meta", "/".join(path))
    for process, mine in lines.items():
        yield Removal("file", process)
        yield Removal("end", process)
        yield Removal("line", at(random.choice(mine)))


def bearing(lines: Lines) -> dict[str, list[Line]]:
    """The lines that have each field, of their own or of a record's."""
    fields = *CALL_FIELDS, *(f"{RECORDS}{part}" for part in RECORD_PARTS)
    found: dict[str, list[Line]] = {field: [] for field in fields}
    for line in (line for mine in lines.values() for line in mine):
        parts = {f"{RECORDS}{part}" for record in line.get("records", ()) for part in record}
        for name in (line.keys() | parts) & found.keys():
            found[name].append(line)
    return {field: having for field, having in found.items() if having}


def settings_in(meta: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of each setting in meta.json."""
    for name, value in meta.items():
        if path or name in SETTINGS:
            yield (*path, name)
            if isinstance(value, dict):
                yield from settings_in(value, (*path, name))
