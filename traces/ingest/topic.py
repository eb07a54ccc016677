"""Make a run of a Kafka topic: each message is one line of trace format v1, its key the process.

The folder that is written can be judged, ingested or watched like any other. Its progress is kept
in `topic.json` (the next offset of every partition, and the length of every file), which is written
after the files. Anything beyond it that a crash left is cut off again, so no line is lost and none
is there twice. A line waits for the lines before it, and a duplicate is dropped and counted. A
message that is no line goes to `rejected.jsonl`, with its place and the reason.
"""

import base64
import fcntl
import os
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import attrs
import orjson
from attrs import define, field, frozen

from traces.ingest.validate import findings
from traces.model.output import write_whole
from traces.model.problems import BadInput, Problem

STATE, REJECTED, META = "topic.json", "rejected.jsonl", "meta.json"
PATIENCE = 10_000  # lines of a process that wait for one before them, until it is given up


@frozen
class Message:
    """A message, or with neither key nor value the end of its partition for now."""

    partition: int
    offset: int
    key: bytes | None = None
    value: bytes | None = None
    end: bool = False


class TopicConsumer(Protocol):
    """The methods of a consumer that are needed here."""

    name: str

    def start(self, offsets: Mapping[int, int]) -> Iterable[int]:
        """Read on from these offsets, other partitions from their start; answers with all."""
        ...

    def read(self) -> list[Message]:
        """The next messages, in the order of each partition; none if nothing came for a while."""
        ...


@define
class FileProgress:
    """The progress of one process's file."""

    file: str
    size: int = 0
    last: int = -1
    #: Lines that wait for the ones before them, by their places.
    waiting: dict[int, str] = field(factory=dict[int, str])


@define
class State:
    """The progress of the intake."""

    topic: str
    offsets: dict[int, int] = field(factory=dict[int, int])
    processes: dict[str, FileProgress] = field(factory=dict[str, FileProgress])
    lines: int = 0
    duplicates: int = 0
    given_up: int = 0
    rejected: int = 0
    rejected_size: int = 0


@define
class Intake:
    """Writes messages into the folder of a run."""

    run: Path
    topic: str
    state: State = field(init=False)
    _lines: dict[str, list[bytes]] = field(factory=dict[str, list[bytes]])
    _rejected: list[bytes] = field(factory=list[bytes])
    _meta: bytes | None = None

    def __attrs_post_init__(self) -> None:
        self.run.mkdir(parents=True, exist_ok=True)
        self.state = self._known()
        sizes = {process.file: process.size for process in self.state.processes.values()}
        for file, size in {**sizes, REJECTED: self.state.rejected_size}.items():
            if (path := self.run / file).exists() or size:
                if not path.exists() or path.stat().st_size < size:
                    raise _bad(path, f"is shorter than {STATE} says: {size} bytes were written")
                os.truncate(path, size)
        for path in self.run.glob("*.ndjson"):
            if path.name not in sizes:  # of a process that was new when the crash came
                path.unlink()

    def _known(self) -> State:
        path = self.run / STATE
        if not path.exists():
            if strange := next(self.run.glob("*.ndjson"), None):
                raise _bad(strange, f"was not written from a topic: there is no {STATE} beside it")
            fresh = State(self.topic)
            self._keep(fresh)  # before any line: what stands here from now on is ours
            return fresh
        try:
            found: dict[str, Any] = orjson.loads(path.read_bytes())
            state = State(**found)
            state.offsets = {int(partition): at for partition, at in found["offsets"].items()}
            state.processes = {name: _process(of) for name, of in found["processes"].items()}
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            raise _bad(path, f"was not written by `highwater ingest --topic` ({error})") from error
        if state.topic != self.topic:
            raise _bad(path, f"is of the topic {state.topic}, not of {self.topic}")
        return state

    def _keep(self, state: State) -> None:
        said = orjson.dumps(attrs.asdict(state), option=orjson.OPT_NON_STR_KEYS)
        write_whole(self.run / STATE, said)

    def take(self, messages: Iterable[Message]) -> None:
        """Put these messages into their files, and note that they are there."""
        for message in messages:
            if not message.end:
                self._take(message)
                self.state.offsets[message.partition] = message.offset + 1
        self._write()

    def give_up(self) -> None:
        """No line will come any more: write those that wait, in their order."""
        for process in self.state.processes.values():
            while process.waiting:
                self._next(process)
        self._write()

    def _take(self, message: Message) -> None:
        if message.key == META.encode():
            self._meta = message.value
            return
        try:
            call = orjson.loads(message.value or b"")
        except orjson.JSONDecodeError as error:
            self._reject(message, "", f"expected JSON: {error.msg}")
            return
        wrong = next(findings(call), None)
        if wrong is not None:
            self._reject(message, *wrong)
            return
        name, seq = call["process"], call["seq"]
        process = self.state.processes.get(name)
        if process is None:
            process = self.state.processes[name] = FileProgress(
                f"{quote(name, safe=' #@+=,')}.ndjson"
            )
        if seq <= process.last or seq in process.waiting:
            self.state.duplicates += 1
            return
        line = message.value or b""
        # One message is one line: what stands on several is written anew.
        process.waiting[seq] = (orjson.dumps(call) if b"\n" in line else line).decode()
        while process.last + 1 in process.waiting or len(process.waiting) > PATIENCE:
            self._next(process)

    def _next(self, process: FileProgress) -> None:
        """Write down the next line of a process that is there."""
        seq = process.last + 1
        seq = seq if seq in process.waiting else min(process.waiting)
        self.state.given_up += seq - process.last - 1
        process.last = seq
        line = process.waiting.pop(seq).encode() + b"\n"
        process.size += len(line)
        self.state.lines += 1
        self._lines.setdefault(process.file, []).append(line)

    def _reject(self, message: Message, where: str, why: str) -> None:
        value = message.value
        about = {"partition": message.partition, "offset": message.offset, "field": where}
        text = None if value is None else base64.b64encode(value).decode()
        line = orjson.dumps(about | {"message": why, "base64": text}) + b"\n"
        self.state.rejected += 1
        self.state.rejected_size += len(line)
        self._rejected.append(line)

    def _write(self) -> None:
        """Write the files first, then the progress: bytes beyond it are cut off again."""
        for file, lines in self._lines.items():
            _append(self.run / file, lines)
        if self._rejected:
            _append(self.run / REJECTED, self._rejected)
        if self._meta is not None:
            write_whole(self.run / META, self._meta)
        elif not (self.run / META).exists():
            meta = {"format": 1, "run": self.topic, "source": f"Kafka topic {self.topic}"}
            write_whole(self.run / META, orjson.dumps(meta, option=orjson.OPT_INDENT_2))
        self._keep(self.state)
        self._lines, self._rejected, self._meta = {}, [], None


def follow(
    topic: TopicConsumer,
    run: Path,
    until_end: bool,
    stop: Callable[[], bool] = lambda: False,
    tick: Callable[[State], None] = lambda state: None,
) -> State:
    """Write a topic into a run's folder, until stopped or to the topic's end."""
    run.mkdir(parents=True, exist_ok=True)
    with alone(run):
        intake = Intake(run, topic.name)
        waiting = set(topic.start(intake.state.offsets))
        while not stop() and not (until_end and not waiting):
            messages = topic.read()
            intake.take(messages)
            waiting -= {message.partition for message in messages if message.end}
            tick(intake.state)
        if until_end and not waiting:
            intake.give_up()
        return intake.state


@contextmanager
def alone(run: Path) -> Generator[None]:
    """Two that write into one folder would write everything twice."""
    with (run / ".topic.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise _bad(run, "another `highwater ingest --topic` writes into this folder") from error
        yield


def _process(json: Mapping[str, Any]) -> FileProgress:
    process = FileProgress(**json)
    process.waiting = {int(seq): line for seq, line in json["waiting"].items()}
    return process


def _append(path: Path, lines: list[bytes]) -> None:
    with path.open("ab") as file:
        file.write(b"".join(lines))
        file.flush()
        os.fsync(file.fileno())


def _bad(path: Path, message: str) -> BadInput:
    return BadInput([Problem(str(path), None, "", message)], 1)
