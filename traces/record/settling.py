"""From the journal of a process to its file in trace format v1: one line per call, in order.

What was written down and never answered becomes `info`. A journal that its process closed ends
with `close`. One whose process was killed ends with `crash`: the lock on it is free, and the kernel
has kept every line that was written. Where the machine itself went down meanwhile, the disk was
full, or the journal is damaged, nobody knows what is missing, and the file ends with neither: cut
off. What lies behind the damage is never read.
"""

import fcntl
import heapq
import os
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

import orjson

from traces.record.boots import clock_domain, same_boot
from traces.record.entries import DamagedError, Entries, Line
from traces.record.journal import SUFFIX

LAST = ("close", "crash")
EXIT = "exit"  # in a journal alone: the program ended and had not closed its client
#: What is put behind the name of a journal that was damaged, when all that is sure was read.
ASIDE: Final = ".damaged"

now = time.monotonic_ns


class StillRunningError(Exception):
    """The process of this journal lives: its recording is not at its end."""


@dataclass(frozen=True, slots=True)
class Settled:
    """A process file that a journal became, and how its journal ended."""

    file: Path
    calls: int
    unanswered: int
    ended: str  # `close`, `crash`, or `cut`
    damage: str = ""


def settle(journal: Path) -> Settled:
    """Write the process file of a journal whose process is gone, and remove the journal.

    A damaged one is kept under another name. Raises `DamagedError` if not even its head is left.
    """
    with _held(journal):
        contents = _contents(journal)
        file = journal.with_name(journal.name.removesuffix(SUFFIX) + ".ndjson")
        partial = file.with_name(file.name + ".part")
        with partial.open("wb") as out:
            for line in _ordered(journal, contents):
                out.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
            out.flush()
            os.fsync(out.fileno())
        partial.replace(file)
        if contents.damage:
            journal.replace(journal.with_name(journal.name + ASIDE))
        else:
            journal.unlink(missing_ok=True)
    facts = (contents.calls, len(contents.unanswered), contents.ended, contents.damage)
    return Settled(file, *facts)


@dataclass(frozen=True, slots=True)
class Unsettled:
    """The calls that a journal holds so far; nothing of it is touched."""

    running: bool
    damage: str
    lines: Iterator[Line]


def unsettled(journal: Path) -> Unsettled:
    """The lines that a journal would become now. Raises `DamagedError` without a head."""
    try:
        with _held(journal):
            contents, running = _contents(journal), False
    except StillRunningError:
        contents, running = _contents(journal, running=True), True
    return Unsettled(running, contents.damage, _ordered(journal, contents))


@contextmanager
def _held(journal: Path) -> Generator[None]:
    with journal.open("rb") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A JVM holds a POSIX lock: the two kinds know nothing of each other.
            fcntl.lockf(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            raise StillRunningError(journal.name) from None
        yield


@dataclass(slots=True)
class _Contents:
    """The facts that only the whole journal shows."""

    head: Line
    unanswered: set[int] = field(default_factory=set[int])
    calls: int = 0
    last_seq: int = -1
    last_ns: int = 0
    ended: str = ""
    died: bool = False
    open_txn: bool = False
    damage: str = ""
    until: int = 0  # so far is it read
    due: int = 0  # all calls before this one are there
    lost_from: int | None = None  # the first call that may have been lost in the middle
    _ahead: set[int] = field(default_factory=set[int])

    def repeats(self, line: Line) -> bool:
        """True if a call or its answer was there before: something was written over the others."""
        seq = line["seq"]
        is_known = seq < self.due or seq in self._ahead
        return is_known and ("op" in line or seq not in self.unanswered)

    def look_at(self, line: Line) -> None:
        """One line of the journal."""
        seq = line["seq"]
        if "op" in line:
            self.calls += 1
            self._ahead.add(seq)
            while self.due in self._ahead:
                self._ahead.remove(self.due)
                self.due += 1
            self.last_seq = max(self.last_seq, seq)
            if line["op"] in (*LAST, EXIT):
                self.ended = line["op"]
            if line["op"] in ("txn_begin", "txn_commit", "txn_abort"):
                self.open_txn = line["op"] == "txn_begin"
        if "outcome" in line:
            self.unanswered.discard(seq)
        else:
            self.unanswered.add(seq)
        last_ns = line.get("returned_ns") or line.get("invoked_ns", 0)
        self.last_ns = max(self.last_ns, last_ns)

    def forget_from(self, seq: int) -> None:
        """Leave out the calls from this one on: others between them are missing."""
        self.calls, self.ended = seq, ""
        self.unanswered = {one for one in self.unanswered if one < seq}

    def conclude(self, *, whole: bool) -> None:
        """End the journal; a whole one lost nothing but calls that its process had not made."""
        if self.ended == EXIT:
            idle = not self.unanswered and not self.open_txn
            self.ended = (
                "close" if idle and self.head.get("role") in ("producer", "admin") else "crash"
            )
        elif not self.ended:
            # Nobody closed it, and nothing is missing: it lived as long as its process. One whom
            # a proxy recorded may live on.
            died = whole and not self.head.get("watched")
            self.died, self.ended = died, "crash" if died else "cut"


def _contents(journal: Path, *, running: bool = False) -> _Contents:
    found = Entries(journal)
    lines = found.new()
    head: Line = next(lines, dict[str, Any]())
    if not {"journal", "process", "clock"} <= head.keys():
        raise DamagedError(journal, found.at, "expected the head of a journal")
    contents = _Contents(head)
    try:
        for line in lines:
            if contents.repeats(line):
                contents.lost_from = contents.due
                raise DamagedError(journal, found.at, "an entry that was there before")
            contents.look_at(line)
        if not running:
            found.see_the_end()
    except DamagedError as damaged:
        contents.damage = str(damaged)
    contents.until = found.at
    if contents.lost_from is not None:
        contents.forget_from(contents.lost_from)
    # A clock that has gone back is not the one that was read.
    same = same_boot(head["clock"], clock_domain()) and now() >= contents.last_ns
    contents.conclude(whole=same and not (running or found.stopped or contents.damage))
    return contents


def _ordered(journal: Path, contents: _Contents) -> Iterator[Line]:
    """The calls, whole, by `seq`; in memory are only those that wait for an earlier one."""
    name = contents.head["process"]
    common = {"process": name, "clock": contents.head["clock"]}
    waiting: dict[int, Line] = {}
    ready: list[int] = []
    due = 0
    first: Line = {"recorder": {k: v for k, v in contents.head.items() if k not in _OWN}}
    polls: dict[int, Line] = {}
    for line in islice(Entries(journal, contents.until).new(), 1, None):
        seq = line["seq"]
        if contents.lost_from is not None and seq >= contents.lost_from:
            continue
        if line.get("op") == "poll":
            polls[seq] = line
            if len(polls) > RECENT_POLLS:
                del polls[next(iter(polls))]
        if "records_of" in line:
            line["records"] = polls[line.pop("records_of")]["records"]
        call = merged(waiting.get(seq), line)
        waiting[seq] = call
        if call.get("op") == EXIT:
            call["op"] = contents.ended
        if "outcome" not in call and seq in contents.unanswered:
            call["outcome"] = "info"
        if "outcome" in call:
            heapq.heappush(ready, seq)
        while ready and ready[0] == due:
            yield common | waiting.pop(heapq.heappop(ready)) | first
            first, due = {}, due + 1
    while ready:
        yield common | waiting.pop(heapq.heappop(ready)) | first
        first = {}
    if contents.died:
        at = contents.last_ns
        times = {"invoked_ns": at, "returned_ns": at}
        seq = contents.last_seq + 1
        yield common | {"seq": seq, "op": "crash", "outcome": "ok"} | times | first


#: A `process` names the last poll before it; with threads, another may have come in between.
RECENT_POLLS = 100

_OWN = ("journal", "process", "clock", "seq")


def merged(call: Line | None, line: Line) -> Line:
    """A call and its answer; an answer to a send tells where its record went, or its batch."""
    if call is None:
        return line
    stored = line.pop("at", None)
    call = call | line
    if stored:
        partition, offset, timestamp = stored
        for nth, record in enumerate(call["records"]):
            at = None if offset is None or offset < 0 else offset + nth
            for name, value in (("partition", partition), ("offset", at), ("timestamp", timestamp)):
                if value is not None and value >= 0:
                    record[name] = value
    return call
