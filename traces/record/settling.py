"""From the journal of a process to its file in trace format v1: one line per call, in order.

What was written down and never answered becomes `info`. A journal that its process closed ends
with `close`. One whose process was killed ends with `crash`: the lock on it is free, and the kernel
has kept every line that was written. Where the machine itself went down meanwhile, or the disk was
full, nobody knows what is missing, and the file ends with neither: cut off.
"""

import fcntl
import heapq
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import orjson

from traces.record.entries import DamagedError, Line, entries
from traces.record.journal import SUFFIX
from traces.record.process import clock_domain

LAST = ("close", "crash")
EXIT = "exit"  # in a journal alone: the program ended and had not closed its client


class StillRunningError(Exception):
    """The process of this journal lives: its recording is not at its end."""


class NotAJournalError(Exception):
    """A file with the suffix of a journal, and something else inside."""


@dataclass(frozen=True, slots=True)
class Settled:
    """A process file that a journal became, and how its journal ended."""

    file: Path
    calls: int
    unanswered: int
    ended: str  # `close`, `crash`, or `cut`


def settle(journal: Path) -> Settled:
    """Write the process file of a journal whose process is gone, and remove the journal."""
    with journal.open("rb") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StillRunningError(journal.name) from None
        contents = _contents(journal)
        file = journal.with_name(journal.name.removesuffix(SUFFIX) + ".ndjson")
        partial = file.with_name(file.name + ".part")
        with partial.open("wb") as out:
            for line in _ordered(journal, contents):
                out.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
            out.flush()
            os.fsync(out.fileno())
        partial.replace(file)
        journal.unlink(missing_ok=True)
    return Settled(file, contents.calls, len(contents.unanswered), contents.ended)


@dataclass(slots=True)
class _Contents:
    """What only the whole journal tells."""

    head: Line
    unanswered: set[int] = field(default_factory=set[int])
    calls: int = 0
    last_seq: int = -1
    last_ns: int = 0
    ended: str = ""
    died: bool = False
    open_txn: bool = False


def _contents(journal: Path) -> _Contents:
    lines = entries(journal)
    head: Line = {}
    with suppress(DamagedError):
        head |= next(lines, head)
    if not {"journal", "process", "clock"} <= head.keys():
        raise NotAJournalError(f"{journal.name}:1: expected the head of a journal")
    rebooted = head["clock"] != clock_domain()
    contents = _Contents(head, ended="cut" if rebooted or not head["journal"] else "")
    unanswered = contents.unanswered
    try:
        for line in lines:
            seq = line["seq"]
            if "op" in line:
                contents.calls += 1
                contents.last_seq = max(contents.last_seq, seq)
                if line["op"] in (*LAST, EXIT):
                    contents.ended = line["op"]
                if line["op"] in ("txn_begin", "txn_commit", "txn_abort"):
                    contents.open_txn = line["op"] == "txn_begin"
            if "outcome" in line:
                unanswered.discard(seq)
            else:
                unanswered.add(seq)
            last_ns = line.get("returned_ns") or line.get("invoked_ns", 0)
            contents.last_ns = max(contents.last_ns, last_ns)
    except DamagedError:
        contents.ended = "cut"
    # Nobody closed it, and nothing is damaged: it lived as long as its process.
    contents.died = not contents.ended
    contents.ended = contents.ended or "crash"
    if contents.ended == EXIT:
        idle = not unanswered and not contents.open_txn
        contents.ended = "close" if idle and head.get("role") == "producer" else "crash"
    return contents


def _up_to_damage(journal: Path) -> Iterator[Line]:
    with suppress(DamagedError):
        yield from islice(entries(journal), 1, None)


def _ordered(journal: Path, contents: _Contents) -> Iterator[Line]:
    """The calls, whole, by `seq`; in memory are only those that wait for an earlier one."""
    name = contents.head["process"]
    common = {"process": name, "clock": contents.head["clock"]}
    waiting: dict[int, Line] = {}
    ready: list[int] = []
    due = 0
    first: Line = {"recorder": {k: v for k, v in contents.head.items() if k not in _OWN}}
    polls: dict[int, Line] = {}
    for line in _up_to_damage(journal):
        seq = line["seq"]
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
    """A call and its answer; an answer to a send tells where its record went."""
    if call is None:
        return line
    stored = line.pop("at", None)
    if stored:
        record = call["records"][0]
        for name, value in zip(("partition", "offset", "timestamp"), stored, strict=True):
            if value is not None and value >= 0:
                record[name] = value
    return call | line
