"""Facts that the process files of a run tell before they are read in full."""

import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import orjson
from attrs import define, field

from traces.record.boots import clock_domain
from traces.record.process import now

PROCESS_FILES = (".ndjson", ".ndjson.gz")
SCANNER = "highwater record-scan"
PROXY = "highwater proxy"

_TOPIC = re.compile(rb'"topic":("(?:[^"\\]|\\.)*")')
_TRANSACTION = re.compile(rb'"transactional_id":"')
_GROUP_CALL = re.compile(
    rb'"op": ?"(commit|txn_offsets|subscribe|assigned|alter_offsets|delete_offsets|delete_groups)"'
)
_BLOCK = 1 << 22


@define
class FileHeader:
    """The first line of a file that the recorder wrote."""

    file: Path
    name: str
    role: str
    client: str
    ids: int | None
    configured: dict[str, Any]
    hashes: bool = False


@define
class Contents:
    """The contents of a run."""

    processes: list[FileHeader] = field(factory=list[FileHeader])
    names: list[str] = field(factory=list[str])
    topics: set[str] = field(factory=set[str])
    transactional: bool = False
    own_ids: bool = False
    hashes: bool = False
    #: A proxy recorded it, of which no client can tell the ids
    proxied: bool = False
    #: The first call of each process, by the clock of this machine; None for another clock
    began: list[int | None] = field(factory=list[int | None])

    @property
    def lasted_ns(self) -> int | None:
        """The time since the first call of all, if it is known."""
        known = [one for one in self.began if one is not None]
        return now() - min(known) if known and len(known) == len(self.began) else None


def contents(run: Path) -> Contents:
    """Look through all process files but those of earlier scans."""
    found = Contents()
    for file in process_files(run):
        head = first_line(file)
        recorder = _recorder(file, head)
        if recorder is not None and recorder.client.startswith(SCANNER):
            continue
        found.names.append(str(head.get("process", file.name)))
        found.began.append(head.get("invoked_ns") if head.get("clock") == clock_domain() else None)
        if recorder is not None:
            found.processes.append(recorder)
            found.own_ids |= recorder.ids is None
            found.hashes |= recorder.hashes
            found.proxied |= recorder.client.startswith(PROXY)
            found.transactional |= "transactional_id" in recorder.configured
        for block in _blocks(file):
            found.topics |= {orjson.loads(topic) for topic in _TOPIC.findall(block)}
            found.transactional |= _TRANSACTION.search(block) is not None
    return found


def process_files(run: Path) -> list[Path]:
    """The process files of a run that are lines of JSON."""
    return sorted(file for file in run.iterdir() if file.name.endswith(PROCESS_FILES))


def scan_files(run: Path) -> list[Path]:
    """The files of earlier scans; a new one takes their place."""
    heads = ((file, _recorder(file, first_line(file))) for file in process_files(run))
    return [file for file, head in heads if head and head.client.startswith(SCANNER)]


def group_calls(run: Path) -> Iterator[dict[str, Any]]:
    """The calls of recorded processes that join a group, commit for one, or administer it."""
    for file in process_files(run):
        for block in _blocks(file):
            for line in block.splitlines():
                if _GROUP_CALL.search(line):
                    yield orjson.loads(line)


def lines_of(file: Path, *parts: bytes) -> Iterator[dict[str, Any]]:
    """The calls of a file in whose lines one of these parts stands."""
    for block in _blocks(file):
        for line in block.splitlines():
            if any(part in line for part in parts):
                yield orjson.loads(line)


def opened(file: Path) -> "BinaryIO | gzip.GzipFile":
    """A process file, opened to be read."""
    return gzip.open(file, "rb") if file.name.endswith(".gz") else file.open("rb")


def first_line(file: Path) -> dict[str, Any]:
    """The first call of a file, or nothing where there is none."""
    with opened(file) as lines:
        try:
            found: Any = orjson.loads(lines.readline())
        except (orjson.JSONDecodeError, EOFError, gzip.BadGzipFile):
            return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _recorder(file: Path, head: dict[str, Any]) -> FileHeader | None:
    about = head.get("recorder")
    if not isinstance(about, dict):
        return None
    get = cast("dict[str, Any]", about).get
    named = str(head.get("process"))
    return FileHeader(
        file,
        named,
        get("role", ""),
        get("client", ""),
        get("ids"),
        get("configured") or {},
        get("hashes") is True,
    )


def _blocks(file: Path) -> Iterator[bytes]:
    """Blocks of whole lines, so that no name is cut in two."""
    with opened(file) as lines:
        while block := lines.read(_BLOCK):
            yield block + lines.readline()
