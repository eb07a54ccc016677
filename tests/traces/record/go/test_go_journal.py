"""The journal of the recorder for Go is that of the Python recorder, byte for byte."""

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

from tests.traces.record.go.building import writer
from traces.record import StillRunningError, settle
from traces.record.entries import NO_ID, POLL, POLLED, SIZE, entries, trailers
from traces.record.journal import Journal
from traces.record.process import clock_domain, now

pytestmark = [
    pytest.mark.kafka,  # it needs Go, and modules through its proxy
    pytest.mark.xdist_group("go-recorder"),
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
    """A process of Go that writes a journal as it is asked to."""

    process: "subprocess.Popen[str]"

    @classmethod
    @contextmanager
    def of(cls, journal: Path, **more: Any) -> Generator[Self]:
        about = {"HIGHWATER_JOURNAL": str(journal), "HIGHWATER_WINDOW": str(PAGE)}
        pipe = subprocess.PIPE
        streams = {"stdin": pipe, "stdout": pipe, "text": True, "env": {**os.environ, **about}}
        with subprocess.Popen([writer()], **streams, **more) as process:
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


@pytest.fixture(scope="module")
def one_process(tmp_path_factory: pytest.TempPathFactory) -> Generator[Writer]:
    with Writer.of(tmp_path_factory.mktemp("first") / "x.journal") as go:
        yield go


@given(st.lists(WRITTEN, max_size=40))
def test_go_writes_what_python_writes(
    tmp_path_factory: pytest.TempPathFactory,
    one_process: Writer,
    written: list[tuple[str, Any]],
) -> None:
    """Entries of all kinds, across windows of one page, and the space behind the last one."""
    folder = tmp_path_factory.mktemp("j")
    ours = Journal(folder / "python.journal", PAGE)
    go = one_process
    go.ask("open", folder / "go.journal")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("traces.record.journal.now", lambda: NOW)
        for line in CONTEXTS:
            _line(ours, go, line)
        for seq, (kind, what) in enumerate(written):
            if kind == "line":
                _line(ours, go, orjson.dumps({"seq": seq, "note": what}))
            elif kind == "send":
                id, key = what
                ours.append_send(0, seq, id, key, NOW)
                go.ask("send", 0, seq, id, text(key), NOW)
            elif kind == "report":
                ours.append_report(seq, *what)
                go.ask("report", seq, *what, NOW)
            else:
                _poll(ours, go, seq, what)
        go.answer("sync")
        files = [folder / f"{name}.journal" for name in ("go", "python")]
        assert files[0].read_bytes() == files[1].read_bytes()
        assert [*entries(files[0])] == [*entries(files[1])]
        ours.close()
        go.ask("close")
        go.answer("sync")
    assert files[0].read_bytes() == files[1].read_bytes()


def _line(ours: Journal, go: Writer, line: bytes) -> None:
    ours.append(line)
    go.ask("line", text(line))


def _poll(ours: Journal, go: Writer, seq: int, keys: list[bytes | None]) -> None:
    """A poll as `traces.record.polls` packs it; its numbers and its keys go to Go apart."""
    numbers = array("q")
    for key in keys:
        numbers.extend((1, seq, NO_ID, -1, 5, -1 if key is None else len(key)))
    raw = b"".join(key for key in keys if key is not None)
    size = POLL.size - SIZE.size + len(numbers) * 8 + len(raw)
    packed = POLL.pack(size, 2, len(keys), seq, NOW, NOW) + numbers.tobytes()
    ours.put(packed + raw + trailers(POLLED)[size & 7])
    go.ask("poll", text(packed[SIZE.size :]), text(raw))


def begin(go: Writer, sends: int) -> str:
    """A head, and sends of which all but the last are acknowledged; returns what is said then."""
    head = {"journal": 2, "process": "p#0", "clock": clock_domain(), "role": "producer"}
    go.ask("line", text(orjson.dumps(head)))
    go.ask("line", text(b'{"context":1,"topic":"t","inside":{}}'))
    for seq in range(sends):
        go.ask("send", 1, seq, 1000 + seq, "-", now())
        if seq < sends - 1:
            go.ask("report", seq, 0, seq, -1, now())
    return go.answer("sync")


def test_killing_the_process_loses_nothing(tmp_path: Path) -> None:
    journal = tmp_path / "p#0.journal"
    with Writer.of(journal) as go:
        begin(go, 3000)
        os.kill(go.process.pid, signal.SIGKILL)
        go.process.wait()
        done = settle(journal)
    found = [orjson.loads(line) for line in done.file.read_bytes().splitlines()]
    assert (done.ended, done.calls, done.unanswered) == ("crash", 3000, 1)
    assert [line["outcome"] for line in found] == [*["ok"] * 2999, "info", "ok"]


def test_a_process_that_is_killed_while_it_writes_leaves_a_whole_beginning(tmp_path: Path) -> None:
    journal = tmp_path / "p#0.journal"
    with Writer.of(journal) as go:
        begin(go, 1)
        with suppress(BrokenPipeError):
            for seq in range(1, 40_000):
                go.ask("send", 1, seq, 1000 + seq, "-", now())
                if seq == 20_000:
                    os.kill(go.process.pid, signal.SIGKILL)
        go.process.wait()
        with suppress(BrokenPipeError):
            go.process.stdin.close()  # pyright: ignore[reportOptionalMemberAccess]
    done = settle(journal)
    assert (done.ended, done.damage) == ("crash", "")
    assert done.calls == done.unanswered > 1


def test_a_journal_whose_process_lives_is_left_alone(tmp_path: Path) -> None:
    journal = tmp_path / "p#0.journal"
    with Writer.of(journal) as go:
        begin(go, 5)
        with pytest.raises(StillRunningError):
            settle(journal)
        go.ask("close")
        go.answer("sync")
        assert settle(journal).calls == 5


def test_a_disk_that_is_full_stops_the_recording_and_not_the_process(tmp_path: Path) -> None:
    """The limit on a file's size refuses a write as a full disk does, where nobody is root."""
    journal = tmp_path / "p#0.journal"
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (3 * PAGE, 3 * PAGE))
    with Writer.of(journal, preexec_fn=limit, stderr=subprocess.STDOUT) as go:
        said = begin(go, 500)
        assert go.answer("sync") == "done"  # it goes on
    assert said.endswith("WARN p#0.journal: recording has stopped: file too large")
    done = settle(journal)
    assert done.ended == "cut"  # neither close nor crash: something is missing
    assert 0 < done.calls < 500


def test_both_recorders_read_one_clock(tmp_path: Path) -> None:
    with Writer.of(tmp_path / "x.journal") as go:
        before = now()
        time, domain = go.answer("clock").split()
        assert before <= int(time) <= now()
        assert domain == clock_domain()
