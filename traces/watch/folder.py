"""A run's folder while it is written: its processes, their new calls, and `meta.json`."""

from pathlib import Path
from typing import Any

import attrs
from attrs import define, field

from traces.ingest.run import process_files
from traces.model.meta import Consumer, Meta, Producer, read_meta
from traces.model.meta import stem as client_of
from traces.model.problems import BadInput, Problem
from traces.record.entries import Line
from traces.record.journal import SUFFIX
from traces.watch.following import FollowedJournal, Following, Numbered, following, stem
from traces.watch.rows import malformed

META = "meta.json"
LAST = ("close", "crash")


@define
class FollowedProcess:
    """One process of the run, as far as it was read."""

    name: str
    source: Following
    calls: int = 0
    last_seq: int = -1
    #: Lines are missing between others: what is not known of it will stay so.
    holed: bool = False
    ended: str = ""
    #: Places that were read from a journal, and those that were left for the file it becomes.
    known_to: int = -1
    #: When the last call of each clock was made; a journal tells its calls in no order.
    _made: dict[str, int] = field(factory=dict[str, int])
    left: frozenset[int] = frozenset()

    @property
    def made(self) -> dict[str, int]:
        """When the last call was made, by clock, as far as calls come in their order."""
        return {} if isinstance(self.source, FollowedJournal) else self._made

    def take(self, call: Line, line: int) -> bool:
        """Record the process's position, and return True if this call is new."""
        seq = call["seq"]
        if isinstance(self.source, FollowedJournal):
            self.last_seq = max(self.last_seq, seq)
        else:
            if seq <= self.last_seq and self.calls:
                message = f"expected more than {self.last_seq}, found {seq}"
                raise BadInput([Problem(self.source.path.name, line, "seq", message)], 1)
            self.holed |= seq != self.last_seq + 1
            self.last_seq = seq
        if seq <= self.known_to and seq not in self.left:
            return False
        self.calls += 1
        if call["op"] in LAST:
            self.ended = call["op"]
        return True

    def becomes(self, file: Path) -> None:
        """Go on with the file made of the journal: it repeats the calls, and adds the rest."""
        assert isinstance(self.source, FollowedJournal)
        self.known_to, self.left = self.source.last_seq, frozenset(self.source.waiting)
        self.source, self.last_seq = following(file), -1


@define
class Batch:
    """The calls and changes found since the last look."""

    calls: list[tuple[FollowedProcess, list[Numbered]]] = field(factory=list[Any])
    began: list[FollowedProcess] = field(factory=list[FollowedProcess])
    ended: list[FollowedProcess] = field(factory=list[FollowedProcess])
    #: There is a new `meta.json`; or something else may have changed how the run is configured.
    meta_read: bool = False
    meta_changed: bool = False
    #: Why there is a `meta.json` that cannot be used, when that is new.
    meta_problem: str = ""
    #: A file held more than is read at once.
    more: bool = False

    def __len__(self) -> int:
        return sum(len(calls) for _, calls in self.calls)

    @property
    def empty(self) -> bool:
        return not (self.calls or self.began or self.meta_changed or self.meta_problem)


@define
class Folder:
    """The folder of a run."""

    path: Path
    processes: dict[str, FollowedProcess] = field(factory=dict[str, FollowedProcess])
    meta: Meta = field(factory=Meta)
    #: Why meta.json could not be used.
    meta_problem: str = ""
    _meta_seen: tuple[int, int] = (-1, -1)
    _heads: dict[str, Any] = field(factory=dict[str, Any])
    _configured: Meta = field(factory=Meta)

    def look(self) -> Batch:
        """New processes, new calls of all of them, and `meta.json` if it is another."""
        batch = Batch()
        for path in self._files():
            self._follow(path, batch)
        problem, heads_before = self.meta_problem, len(self._heads)
        batch.meta_read = self._read_meta()
        batch.meta_problem = self.meta_problem if self.meta_problem != problem else ""
        for process in self.processes.values():
            was = process.ended
            if calls := self._new(process):
                batch.calls.append((process, calls))
            if process.ended and not was:
                batch.ended.append(process)
            batch.more |= process.source.more
        batch.meta_changed = batch.meta_read or len(self._heads) > heads_before
        return batch

    @property
    def configured(self) -> Meta:
        """The configuration in `meta.json`, and of clients that it omits, their recorder's."""
        configured: dict[str, dict[str, Any]] = {"producer": {}, "consumer": {}}
        for name, head in self._heads.items():
            kind = {"producer": Producer, "consumer": Consumer}.get(head.get("role", ""))
            if kind is not None:
                known = {k: v for k, v in head["configured"].items() if k in _names(kind)}
                configured[head["role"]][client_of(name)] = kind(**known)
        meta = self.meta
        return attrs.evolve(
            meta,
            producers={**configured["producer"], **meta.producers},
            consumers={**configured["consumer"], **meta.consumers},
        )

    @property
    def running(self) -> list[str]:
        """Processes that may still write, or of which there is no file yet."""
        named = self.meta.processes or ()
        have = {process.name for process in self.processes.values()}
        open_ones = [p.name for p in self.processes.values() if self._open(p)]
        return open_ones + [name for name in named if name not in have]

    @property
    def recording(self) -> bool:
        """True if there are journals, which nothing but the watch can read."""
        return any(isinstance(p.source, FollowedJournal) for p in self.processes.values())

    @property
    def ended(self) -> bool:
        """True if every process has ended, and the final scan was made."""
        return self.meta.complete and bool(self.processes) and not self.running

    def _open(self, process: FollowedProcess) -> bool:
        return (
            not process.ended or isinstance(process.source, FollowedJournal) or process.source.more
        )

    def _files(self) -> list[Path]:
        return process_files(self.path)  # where a journal is there as well, the file is whole

    def _follow(self, path: Path, batch: Batch) -> None:
        key = stem(path)
        process = self.processes.get(key)
        if process is None:
            process = self.processes[key] = FollowedProcess(key, following(path))
            batch.began.append(process)
        elif isinstance(process.source, FollowedJournal) and not path.name.endswith(SUFFIX):
            process.becomes(path)

    def _new(self, process: FollowedProcess) -> list[Numbered]:
        out: list[Numbered] = []
        for line, call in process.source.new():
            try:
                if not process.calls:
                    self._meet(process, call)
                new = process.take(call, line)
            except (LookupError, TypeError, AttributeError):
                raise malformed(process.source.path.name, [(line, call)]) from None
            if new:
                out.append((line, call))
        return out

    def _meet(self, process: FollowedProcess, call: Line) -> None:
        """Take the process's name and its client's configuration from its first call."""
        if type(named := call["process"]) is str:
            process.name = named
        head: Any = call.get("recorder") or {}
        if head.get("configured"):
            self._heads[process.name] = head

    def _read_meta(self) -> bool:
        """Read `meta.json`, and return True if there is a new one.

        Half a file counts as none, and is read again.
        """
        try:
            found = (self.path / META).stat()
        except FileNotFoundError:
            return False
        if (seen := (found.st_mtime_ns, found.st_size)) == self._meta_seen:
            return False
        self._meta_seen = seen
        try:
            meta = read_meta(self.path)
        except BadInput as problem:
            self.meta_problem = str(problem)
            return False
        except FileNotFoundError:
            return False
        self.meta_problem, before, self.meta = "", self.meta, meta
        return meta != before


def _names(kind: type) -> set[str]:
    return {a.name for a in attrs.fields(kind)}
