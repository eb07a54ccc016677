"""Programs in another language that write journals, held to the journal of the Python recorder."""

import os
import resource
import signal
import subprocess
from array import array
from base64 import b64encode
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Self

import orjson
import pytest
from attrs import define
from hypothesis import strategies as st

from traces.record import StillRunningError, settle
from traces.record.entries import NO_ID, POLL, POLLED, SIZE, entries, trailers
from traces.record.journal import Journal
from traces.record.process import clock_domain, now

PAGE = 4096
NOW = 7
CONTEXTS = (
    b'{"context":0,"topic":"t","inside":{}}',
    b'{"context":1,"topic":"t","partition":3}',
    b'{"context":2,"inside":{}}',
)
LIMITED: dict[str, Any] = {
    "preexec_fn": partial(resource.setrlimit, resource.RLIMIT_FSIZE, (3 * PAGE, 3 * PAGE)),
    "stderr": subprocess.STDOUT,
}
"""The limit on a file's size refuses a write as a full disk does, where nobody is root."""


@define
class Writer:
    """A process that writes a journal as it is asked to."""

    process: "subprocess.Popen[str]"

    @classmethod
    @contextmanager
    def of(cls, command: Sequence[str | Path], **more: Any) -> Generator[Self]:
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, **more) as process:
            try:
                yield cls(process)
            finally:
                process.kill()

    def ask(self, *words: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(map(str, words)) + "\n")

    def answer(self, *words: Any) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.ask(*words)
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()


def text(raw: bytes | None) -> str:
    """Bytes as one word, also where there are none."""
    return "-" if raw is None else b64encode(raw).decode() or "."


NUMBERS = st.integers(0, 2**62)
WRITTEN: st.SearchStrategy[tuple[str, Any]] = st.one_of(
    st.tuples(st.just("line"), st.text(max_size=3000)),
    st.tuples(st.just("send"), st.tuples(NUMBERS, st.none() | st.binary(max_size=60))),
    st.tuples(st.just("report"), st.tuples(NUMBERS, NUMBERS, NUMBERS)),
    st.tuples(st.just("poll"), st.lists(st.none() | st.binary(max_size=30), max_size=90)),
)


def assert_that_both_write_the_same(
    theirs: Writer, folder: Path, written: list[tuple[str, Any]]
) -> None:
    """Entries of all kinds, across windows of one page, and the space behind the last one."""
    files = [folder / f"{name}.journal" for name in ("theirs", "python")]
    ours = Journal(files[1], PAGE)
    theirs.ask("open", files[0])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("traces.record.journal.now", lambda: NOW)
        for line in CONTEXTS:
            _line(ours, theirs, line)
        for seq, (kind, what) in enumerate(written):
            if kind == "line":
                _line(ours, theirs, orjson.dumps({"seq": seq, "note": what}))
            elif kind == "send":
                id, key = what
                ours.append_send(0, seq, id, key, NOW)
                theirs.ask("send", 0, seq, id, text(key), NOW)
            elif kind == "report":
                ours.append_report(seq, *what)
                theirs.ask("report", seq, *what, NOW)
            else:
                _poll(ours, theirs, seq, what)
        theirs.answer("sync")
        assert files[0].read_bytes() == files[1].read_bytes()
        assert [*entries(files[0])] == [*entries(files[1])]
        ours.close()
        theirs.ask("close")
        theirs.answer("sync")
    assert files[0].read_bytes() == files[1].read_bytes()


def _line(ours: Journal, theirs: Writer, line: bytes) -> None:
    ours.append(line)
    theirs.ask("line", text(line))


def _poll(ours: Journal, theirs: Writer, seq: int, keys: list[bytes | None]) -> None:
    """A poll as `traces.record.polls` packs it; its numbers and its keys are asked for apart."""
    numbers = array("q")
    for key in keys:
        numbers.extend((1, seq, NO_ID, -1, 5, -1 if key is None else len(key)))
    raw = b"".join(key for key in keys if key is not None)
    size = POLL.size - SIZE.size + len(numbers) * 8 + len(raw)
    packed = POLL.pack(size, 2, len(keys), seq, NOW, NOW) + numbers.tobytes()
    ours.put(packed + raw + trailers(POLLED)[size & 7])
    theirs.ask("poll", text(packed[SIZE.size :]), text(raw))


def begin(theirs: Writer, sends: int) -> str:
    """A head, and sends of which all but the last are acknowledged; returns what is said then."""
    head = {"journal": 2, "process": "p#0", "clock": clock_domain(), "role": "producer"}
    theirs.ask("line", text(orjson.dumps(head)))
    theirs.ask("line", text(b'{"context":1,"topic":"t","inside":{}}'))
    for seq in range(sends):
        theirs.ask("send", 1, seq, 1000 + seq, "-", now())
        if seq < sends - 1:
            theirs.ask("report", seq, 0, seq, -1, now())
    return theirs.answer("sync")


def assert_that_killing_loses_nothing(theirs: Writer, journal: Path) -> None:
    begin(theirs, 3000)
    os.kill(theirs.process.pid, signal.SIGKILL)
    theirs.process.wait()
    done = settle(journal)
    found = [orjson.loads(line) for line in done.file.read_bytes().splitlines()]
    assert (done.ended, done.calls, done.unanswered) == ("crash", 3000, 1)
    assert [line["outcome"] for line in found] == [*["ok"] * 2999, "info", "ok"]


def assert_that_killing_amid_writes_leaves_a_whole_beginning(theirs: Writer, journal: Path) -> None:
    begin(theirs, 1)
    with suppress(BrokenPipeError):
        for seq in range(1, 40_000):
            theirs.ask("send", 1, seq, 1000 + seq, "-", now())
            if seq == 20_000:
                os.kill(theirs.process.pid, signal.SIGKILL)
    theirs.process.wait()
    with suppress(BrokenPipeError):
        theirs.process.stdin.close()  # pyright: ignore[reportOptionalMemberAccess]
    done = settle(journal)
    assert (done.ended, done.damage) == ("crash", "")
    assert done.calls == done.unanswered > 1


def assert_that_its_journal_is_left_alone(theirs: Writer, journal: Path, calls: int) -> None:
    """While its process lives, and until it is closed."""
    with pytest.raises(StillRunningError):
        settle(journal)
    theirs.ask("close")
    theirs.answer("sync")
    assert settle(journal).calls == calls


def assert_that_it_was_cut_off(journal: Path) -> None:
    """With the first of 500 calls, by a disk that was full."""
    done = settle(journal)
    assert done.ended == "cut"  # neither close nor crash: something is missing
    assert 0 < done.calls < 500


def assert_that_both_read_one_clock(theirs: Writer) -> None:
    before = now()
    time, domain = theirs.answer("clock").split()
    assert before <= int(time) <= now()
    assert domain == clock_domain()
