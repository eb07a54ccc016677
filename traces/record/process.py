"""One process of a run: its program, call by call.

A call is written down twice: when it is made, and when it is answered. What was called and never
answered is thereby known, even of a process that was killed, and becomes `info`: nobody knows.
"""

import secrets
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any

import orjson

from traces.record.boots import clock_domain
from traces.record.entries import DamagedError
from traces.record.journal import SUFFIX, Journal, RecordingStoppedWarning

now = time.monotonic_ns

#: Of the 63 bits of an id, so many count the messages of one process; the others name the process.
COUNTER_BITS = 33


@dataclass(slots=True)
class Process:
    """One incarnation of one client, and its journal."""

    name: str
    journal: Journal
    first_id: int
    settle: Callable[[Path], object]
    #: The next place in the program. A message whose id we make is called after its place. Threads
    #: take the time of a call before its place, and that of an answer behind it: else one that is
    #: held up in between leaves a call behind that was made after a later one had returned.
    next_seq: Callable[[], int] = field(default_factory=lambda: count().__next__)
    #: Writes down what is not yet, before the last line.
    before_end: Callable[[], None] | None = None
    _ended: bool = False
    _lock: Lock = field(default_factory=Lock)

    def call(self, op: str, **fields: Any) -> int:
        """A call is being made; returns its place in the program."""
        invoked, seq = now(), self.next_seq()
        self.write({"seq": seq, "op": op, "invoked_ns": invoked, **fields})
        return seq

    def answer(self, seq: int, outcome: str, **fields: Any) -> None:
        """The call has returned, or its client has given it up."""
        self.write({"seq": seq, "outcome": outcome, "returned_ns": now(), **fields})

    def note(self, op: str, invoked: int | None = None, **fields: Any) -> int:
        """A call that has returned well: call and answer in one line."""
        invoked, seq = invoked or now(), self.next_seq()
        times = {"invoked_ns": invoked, "returned_ns": now()}
        self.write({"seq": seq, "op": op, "outcome": "ok", **times, **fields})
        return seq

    def write(self, line: Mapping[str, Any]) -> None:
        """One line of the journal."""
        self.journal.append(orjson.dumps(line))

    @property
    def ended(self) -> bool:
        """True if the last line is written."""
        return self._ended

    def end(self, how: str = "close", invoked: int | None = None) -> None:
        """The last line; afterwards the file is a process file of trace format v1."""
        with self._lock:
            if self._ended:
                return
            self._ended = True
        if self.before_end is not None:
            self.before_end()
        self.note(how, invoked)
        self.journal.close()
        try:
            self.settle(self.journal.path)
        except FileNotFoundError:
            pass  # the folder of the run was a temporary one
        except (DamagedError, OSError) as error:  # the application has nothing to do with it
            message = f"{self.journal.path.name} stays as it is: {error}"
            warnings.warn(message, RecordingStoppedWarning, stacklevel=3)


def open_process(
    folder: Path,
    client: str,
    head: Mapping[str, Any],
    taken: Iterable[str],
    settle: Callable[[Path], object],
    window: int | None = None,
) -> Process:
    """The next incarnation of a client: `p0#0`, after a restart `p0#1`, and so on.

    `window` is how much its journal reserves at a time, if that is not the usual.
    """
    suffixes = tuple(taken)
    for number in count():
        name = f"{client}#{number}"
        if any((folder / f"{name}{suffix}").exists() for suffix in suffixes):
            continue
        try:
            journal = Journal(folder / f"{name}{SUFFIX}", window)
        except FileExistsError:
            continue
        process = Process(
            name, journal, secrets.randbits(63 - COUNTER_BITS) << COUNTER_BITS, settle
        )
        process.write(
            {
                "journal": 2,
                "process": name,
                "clock": clock_domain(),
                "ids": process.first_id,
                **head,
            }
        )
        return process
    raise AssertionError("numbers do not end")
