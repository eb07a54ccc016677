"""The Java recorder's journal is that of the Python recorder, byte for byte."""

import os
import resource
import signal
import subprocess
from array import array
from base64 import b64encode
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Self

import orjson
import pytest
from attrs import define
from hypothesis import given
from hypothesis import strategies as st

from tests.traces.record.java.building import COMPILED, FORMER, java
from traces.record import StillRunningError, settle
from traces.record.entries import NO_ID, POLL, POLLED, SIZE, entries, trailers
from traces.record.journal import Journal
from traces.record.process import clock_domain, now

pytestmark = [
    pytest.mark.kafka,  # its clients come through Maven
    pytest.mark.xdist_group("java-recorder"),
]
PAGE = 4096
NOW = 7
CONTEXTS = (
    b'{"context":0,"topic":"t","inside":{}}',
    b'{"context":1,"topic":"t","partition":3}',
    b'{"context":2,"inside":{}}',
)


@define
class Writer:
    """A JVM that writes a journal as it is asked to."""

    process: "subprocess.Popen[str]"

    @classmethod
    @contextmanager
    def of(cls, journal: Path, version: str = COMPILED, **more: Any) -> Generator[Self]:
        command = java("highwater.recorder.Journals", journal, str(PAGE), version=version)
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


def text(raw: bytes) -> str:
    return b64encode(raw).decode()


NUMBERS = st.integers(0, 2**62)
WRITTEN: st.SearchStrategy[tuple[str, Any]] = st.one_of(
    st.tuples(st.just("line"), st.text(max_size=3000)),
    st.tuples(st.just("send"), st.tuples(NUMBERS, st.none() | st.binary(max_size=60))),
    st.tuples(st.just("report"), st.tuples(NUMBERS, NUMBERS, NUMBERS)),
    st.tuples(st.just("poll"), st.lists(st.none() | st.binary(max_size=30), max_size=90)),
)


@pytest.fixture(scope="module")
def one_jvm(tmp_path_factory: pytest.TempPathFactory) -> Generator[Writer]:
    with Writer.of(tmp_path_factory.mktemp("first") / "x.journal") as java:
        yield java


@given(st.lists(WRITTEN, max_size=40))
def test_java_writes_what_python_writes(
    tmp_path_factory: pytest.TempPathFactory, one_jvm: Writer, written: list[tuple[str, Any]]
) -> None:
    """Entries of all kinds, across windows of one page, and the space behind the last one."""
    folder = tmp_path_factory.mktemp("j")
    ours = Journal(folder / "python.journal", PAGE)
    java = one_jvm
    java.ask("open", folder / "java.journal")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("traces.record.journal.now", lambda: NOW)
        for line in CONTEXTS:
            _line(ours, java, line)
        for seq, (kind, what) in enumerate(written):
            if kind == "line":
                _line(ours, java, orjson.dumps({"seq": seq, "note": what}))
            elif kind == "send":
                id, key = what
                ours.append_send(0, seq, id, key, NOW)
                java.ask("send", 0, seq, id, "-" if key is None else text(key), NOW)
            elif kind == "report":
                ours.append_report(seq, *what)
                java.ask("report", seq, *what, NOW)
            else:
                _poll(ours, java, seq, what)
        java.answer("sync")
        assert _held(folder / "java.journal") == _held(folder / "python.journal")
        assert [*entries(folder / "java.journal")] == [*entries(folder / "python.journal")]
        ours.close()
        java.ask("close")
        java.answer("sync")
        files = [(folder / f"{name}.journal").read_bytes() for name in ("java", "python")]
    assert files[0] == files[1]


def _held(journal: Path) -> bytes:
    return journal.read_bytes()


def _line(ours: Journal, java: Writer, line: bytes) -> None:
    ours.append(line)
    java.ask("line", text(line))


def _poll(ours: Journal, java: Writer, seq: int, keys: list[bytes | None]) -> None:
    """A poll as `traces.record.polls` packs it; its numbers and its keys go to Java apart."""
    numbers = array("q")
    for key in keys:
        numbers.extend((1, seq, NO_ID, -1, 5, -1 if key is None else len(key)))
    raw = b"".join(key for key in keys if key is not None)
    size = POLL.size - SIZE.size + len(numbers) * 8 + len(raw)
    packed = POLL.pack(size, 2, len(keys), seq, NOW, NOW) + numbers.tobytes()
    ours.put(packed + raw + trailers(POLLED)[size & 7])
    java.ask("poll", text(packed[SIZE.size :]), text(raw))


def begin(java: Writer, sends: int) -> None:
    """A head, and sends of which all but the last are acknowledged."""
    head = {"journal": 2, "process": "p#0", "clock": clock_domain(), "role": "producer"}
    java.ask("line", text(orjson.dumps(head)))
    java.ask("line", text(b'{"context":1,"topic":"t","inside":{}}'))
    for seq in range(sends):
        java.ask("send", 1, seq, 1000 + seq, "-", now())
        if seq < sends - 1:
            java.ask("report", seq, 0, seq, -1, now())
    java.answer("sync")


def test_killing_the_jvm_loses_nothing(tmp_path: Path) -> None:
    journal = tmp_path / "p#0.journal"
    with Writer.of(journal) as java:
        begin(java, 3000)
        os.kill(java.process.pid, signal.SIGKILL)
        java.process.wait()
        done = settle(journal)
    found = [orjson.loads(line) for line in done.file.read_bytes().splitlines()]
    assert (done.ended, done.calls, done.unanswered) == ("crash", 3000, 1)
    assert [line["outcome"] for line in found] == [*["ok"] * 2999, "info", "ok"]


def test_a_jvm_that_is_killed_while_it_writes_leaves_a_whole_beginning(tmp_path: Path) -> None:
    journal = tmp_path / "p#0.journal"
    with Writer.of(journal) as java:
        begin(java, 1)
        for seq in range(1, 40_000):
            java.ask("send", 1, seq, 1000 + seq, "-", now())
            if seq == 20_000:
                os.kill(java.process.pid, signal.SIGKILL)
                break
        java.process.wait()
        with suppress(BrokenPipeError):
            java.process.stdin.close()  # pyright: ignore[reportOptionalMemberAccess]
    done = settle(journal)
    assert (done.ended, done.damage) == ("crash", "")
    assert done.calls == done.unanswered > 1


def test_a_journal_whose_jvm_lives_is_left_alone(tmp_path: Path) -> None:
    journal = tmp_path / "p#0.journal"
    with Writer.of(journal) as java:
        begin(java, 5)
        with pytest.raises(StillRunningError):
            settle(journal)
        java.ask("interrupt")  # which would close a channel, and let the lock go
        for seq in range(5, 500):
            java.ask("send", 1, seq, seq, "-", now())
        java.answer("sync")
        with pytest.raises(StillRunningError):
            settle(journal)
        java.ask("close")
        java.answer("sync")
        assert settle(journal).calls == 500


def test_a_disk_that_is_full_stops_the_recording_and_not_the_jvm(tmp_path: Path) -> None:
    """The limit on a file's size refuses a write as a full disk does, where nobody is root."""
    journal = tmp_path / "p#0.journal"
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (3 * PAGE, 3 * PAGE))
    with Writer.of(journal, preexec_fn=limit, stderr=subprocess.STDOUT) as java:
        begin(java, 500)
        said = java.answer("sync")
        while said == "done" or not said.startswith("WARNING"):
            said = java.answer("sync")
    assert said == "WARNING: p#0.journal: recording has stopped: File too large"
    done = settle(journal)
    assert done.ended == "cut"  # neither close nor crash: something is missing
    assert 0 < done.calls < 500


@pytest.mark.parametrize("version", [COMPILED, FORMER])
def test_both_recorders_read_one_clock(tmp_path: Path, version: str) -> None:
    with Writer.of(tmp_path / "x.journal", version=version) as java:
        before = now()
        time, domain = java.answer("clock").split()
        assert before <= int(time) <= now()
        assert domain == clock_domain()
