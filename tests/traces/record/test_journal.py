"""The journal keeps what was written down, through a kill, a full disk and a machine that fails."""

import errno
import os
import re
import signal
import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traces.record import StillRunningError, settle
from traces.record.entries import (
    MARK,
    REPORTED,
    REPORTS,
    SEND,
    SENT,
    SIZE,
    DamagedError,
    entries,
)
from traces.record.journal import Journal, RecordingStoppedWarning
from traces.record.process import Process, open_process
from traces.record.run import TAKEN
from traces.record.settling import Settled

PAGE = 4096
NOW = 7
Line = dict[str, Any]


@pytest.fixture(autouse=True)
def _small_windows(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    """Windows of one page: every test crosses from one into the next."""
    monkeypatch.setattr("traces.record.journal.now", lambda: NOW)
    monkeypatch.setattr("traces.record.journal.WINDOW", PAGE)


def begin(folder: Path) -> Process:
    return open_process(folder, "p", {"role": "producer", "configured": {}}, TAKEN, settle)


def lines(file: Path) -> list[Line]:
    return [orjson.loads(line) for line in file.read_bytes().splitlines()]


def poll(process: Process, times: int) -> None:
    for number in range(times):
        process.note("poll", records=[{"topic": "t", "partition": 0, "offset": number}])


def let_go(process: Process) -> Path:
    """As the kernel does for a process that dies: the lock is free, and nothing was tidied up."""
    process.journal._let_go()  # pyright: ignore[reportPrivateUsage]
    return process.journal.path


def half_written(process: Process, entry: bytes) -> None:
    """As an entry stands there whose process was killed before it put the checksum before it."""
    journal: Any = process.journal
    journal._map[journal._at + 4 : journal._at + 4 + len(entry)] = entry


NUMBERS = st.integers(0, 2**62)
SENDS = st.tuples(st.none() | st.text(max_size=50), NUMBERS)
WRITTEN: st.SearchStrategy[tuple[str, Any]] = st.one_of(
    st.tuples(st.just("line"), st.text(max_size=3000)),
    st.tuples(st.just("send"), SENDS),
    st.tuples(st.just("report"), st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS)),
    st.tuples(st.just("reports"), st.lists(NUMBERS, min_size=4, max_size=600)),
)


@given(st.lists(WRITTEN, max_size=30))
def test_what_is_appended_is_read_back_across_windows(
    tmp_path_factory: pytest.TempPathFactory, written: list[tuple[str, Any]]
) -> None:
    journal = Journal(tmp_path_factory.mktemp("j") / "x.journal")
    journal.append(orjson.dumps({"context": 0, "topic": "t", "inside": {}}))
    expected: list[Line] = []
    for seq, (kind, what) in enumerate(written):
        if kind == "line":
            expected.append({"seq": seq, "note": what})
            journal.append(orjson.dumps(expected[-1]))
        elif kind == "send":
            key, id = what
            raw = None if key is None else key.encode()
            journal.append_send(0, seq, id, raw, NOW)
            record = {"topic": "t", "id": id} | (
                {} if key is None else {"key": key, "chosen": False}
            )
            call = {"seq": seq, "op": "send", "invoked_ns": NOW, "records": [record]}
            expected.append(call)
        elif kind == "report":
            journal.append_report(*what)
            sent, *at = what
            expected.append({"seq": sent, "outcome": "ok", "returned_ns": NOW, "at": at})
        else:
            numbers = what[: len(what) // 4 * 4]
            packed = b"".join(n.to_bytes(8, "little") for n in numbers)
            journal.append(REPORTS.pack(8) + packed, REPORTED)
            for i in range(0, len(numbers), 4):
                sent, *at = numbers[i : i + 4]
                expected.append({"seq": sent, "outcome": "ok", "returned_ns": 8, "at": at})
    assert list(entries(journal.path)) == expected  # as it stands, with zeros behind the end
    reserved = journal.path.stat().st_size
    journal.close()
    assert list(entries(journal.path)) == expected
    assert journal.path.stat().st_size < reserved  # settling does not read what was not written


def test_an_entry_in_the_middle_of_which_the_process_died_is_none(tmp_path: Path) -> None:
    process = begin(tmp_path)
    process.call("commit", offsets={"t:0": 1})
    half_written(process, SEND.pack(28, 0, 1, 7, 8, SENT))
    done = settle(let_go(process))
    assert (done.ended, done.calls, done.unanswered) == ("crash", 1, 1)
    assert [line["op"] for line in lines(done.file)] == ["commit", "crash"]


def test_a_line_that_was_cut_off_by_the_kill_is_none(tmp_path: Path) -> None:
    process = begin(tmp_path)
    process.note("subscribe", topics=["t"])
    half_written(process, SIZE.pack(500) + b'{"seq":1,"op":"po')
    assert settle(let_go(process)).ended == "crash"


@pytest.mark.parametrize("uptime_s", [1, 50, 150, 999, 5_000, 2_592_000, 94_608_000])
@pytest.mark.parametrize("died", [True, False])
def test_what_a_machine_that_went_down_has_kept_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, died: bool, uptime_s: int
) -> None:
    """Lines are longer on a machine that has been up for longer."""
    ticks = count(uptime_s * 1_000_000_000, 1_000)
    for module in ("journal", "process", "settling"):
        monkeypatch.setattr(f"traces.record.{module}.now", lambda: next(ticks))
    process = begin(tmp_path)
    poll(process, 100)
    journal = let_go(process)
    if died:
        monkeypatch.setattr("traces.record.settling.clock_domain", lambda: "boot-another")
    else:
        raw = bytearray(journal.read_bytes())
        raw[2000:2100] = b"x" * 100
        journal.write_bytes(raw)
    done = settle(journal)
    assert done.ended == "cut"
    kept = lines(done.file)
    assert len(kept) == 100 if died else 0 < len(kept) < 100
    assert [line["seq"] for line in kept] == list(range(len(kept)))
    assert kept[-1]["op"] == "poll"
    assert journal.with_name("p#0.journal.damaged").exists() != died
    assert bool(re.fullmatch(r"p#0.journal: byte \d+: damaged: .*", done.damage)) != died


def test_a_full_disk_stops_the_recording_and_not_the_application(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = begin(tmp_path)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.warns(RecordingStoppedWarning, match="No space left on device"):
        poll(process, 200)
    process.end()
    kept = lines(tmp_path / "p#0.ndjson")
    assert 0 < len(kept) < 200
    # Neither close nor crash: whoever reads it knows that something is missing.
    assert kept[-1]["op"] == "poll"


def test_a_journal_whose_process_lives_is_left_alone(tmp_path: Path) -> None:
    process = begin(tmp_path)
    with pytest.raises(StillRunningError):
        settle(process.journal.path)
    process.end()
    assert [file.name for file in tmp_path.iterdir()] == ["p#0.ndjson"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "expected the beginning of a journal"),
        (b"hello\n", "expected the beginning of a journal"),
        (bytes(8192), "expected the beginning of a journal"),
        (MARK, "expected the head of a journal"),
        (b'{"journal":1,"process":"p#0"}\n', "written by an earlier version, without checksums"),
    ],
)
def test_something_else_with_the_suffix_of_a_journal_is_refused(
    tmp_path: Path, content: bytes, expected: str
) -> None:
    journal = tmp_path / "p.journal"
    journal.write_bytes(content)
    with pytest.raises(DamagedError, match=f"^p.journal: byte [04]: damaged: {expected}"):
        settle(journal)
    assert journal.read_bytes() == content


def test_a_recording_that_cannot_end_leaves_the_application_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    process = begin(tmp_path)
    poll(process, 3)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.warns(RecordingStoppedWarning, match="p#0.journal stays as it is: .*No space left"):
        process.end()
    monkeypatch.undo()
    assert settle(process.journal.path).ended == "close"


def test_each_incarnation_has_a_name_and_ids_of_its_own(tmp_path: Path) -> None:
    first = begin(tmp_path)
    second = begin(tmp_path)
    first.end()
    third = begin(tmp_path)
    assert [p.name for p in (first, second, third)] == ["p#0", "p#1", "p#2"]
    assert len({p.first_id for p in (first, second, third)}) == 3
    second.end()
    third.end()


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=60), st.booleans())
def test_calls_stand_in_the_order_of_the_program_whenever_they_were_answered(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, bool]], closes: bool
) -> None:
    process = begin(tmp_path_factory.mktemp("r"))
    pending: list[int] = []
    answered: dict[int, str] = {}
    made = 0
    for which, ok in steps:
        if which < 5 or not pending:
            pending.append(process.call("send", records=[{"topic": "t", "id": made}]))
            made += 1
        else:
            seq = pending.pop(which % len(pending))
            answered[seq] = "ok" if ok else "fail"
            process.answer(seq, answered[seq], at=(0, seq, -1) if ok else (0, None, None))
    if closes:
        process.end()
        done = Settled(process.journal.path.with_name("p#0.ndjson"), made, len(pending), "close")
    else:
        done = settle(let_go(process))
    found = lines(done.file)
    assert [line["seq"] for line in found] == list(range(made + 1))
    assert [line["outcome"] for line in found[:-1]] == [
        answered.get(seq, "info") for seq in range(made)
    ]
    for line in found[:-1]:
        assert line["records"][0].get("offset") == (
            line["seq"] if line["outcome"] == "ok" else None
        )
        assert ("returned_ns" in line) == (line["seq"] in answered)
    assert found[-1]["op"] == ("close" if closes else "crash")


KILLED = """
import os, sys
from traces.record.process import open_process
from traces.record.run import TAKEN
from traces.record.settling import settle
from pathlib import Path
process = open_process(Path(sys.argv[1]), "p", {"role": "producer"}, TAKEN, settle)
for number in range(int(sys.argv[2])):
    seq = process.call("send", records=[{"topic": "t", "id": number}])
    process.answer(seq, "ok", at=(0, number, 1))
process.call("send", records=[{"topic": "t", "id": "last"}])
os.kill(os.getpid(), 9)
"""


def test_killing_the_process_loses_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path), "5000"]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    done = settle(tmp_path / "p#0.journal")
    found = lines(done.file)
    assert (done.ended, done.calls, done.unanswered) == ("crash", 5001, 1)
    assert [line["outcome"] for line in found] == [*["ok"] * 5000, "info", "ok"]
    assert found[-2]["records"] == [{"topic": "t", "id": "last"}]
    assert found[-1]["op"] == "crash"


LEFT = """
import sys
from pathlib import Path
from traces.record import run
from traces.record.process import open_process
from traces.record.settling import settle
role, what = sys.argv[2:]
process = open_process(Path(sys.argv[1]), "p", {"role": role}, run.TAKEN, settle)
run._open.append(process)
if what == "inside":
    process.answer(process.call("txn_begin", txn=0), "ok")
seq = process.call("send", records=[{"topic": "t", "id": 1}])
if what != "unanswered":
    process.answer(seq, "ok", at=(0, 0, 1))
if what == "raised":
    raise SystemError
"""


@pytest.mark.parametrize(
    ("role", "what", "ended"),
    [
        ("producer", "flushed", "close"),
        ("producer", "unanswered", "crash"),
        ("producer", "inside", "crash"),
        ("producer", "raised", "crash"),
        ("consumer", "flushed", "crash"),
    ],
)
def test_a_producer_that_flushed_before_its_program_ended_did_not_crash(
    tmp_path: Path, role: str, what: str, ended: str
) -> None:
    """A client such as confluent-kafka's producer has no `close`."""
    subprocess.run([sys.executable, "-c", LEFT, str(tmp_path), role, what], capture_output=True)
    assert lines(tmp_path / "p#0.ndjson")[-1]["op"] == ended
