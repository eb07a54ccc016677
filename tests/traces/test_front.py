"""The exit codes of `highwater check`: bad input, full disks and closed pipes are no verdicts."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from refimpl.__main__ import highwater
from tests.traces.fixture import fixture, meta, write
from traces.checks.catalogue import CHECKS
from traces.commands.check import check
from traces.commands.ingest import ingest_
from traces.generate.small import IN_CALLS, injected
from traces.importers.cli import import_
from traces.ingest.run import read_trace
from traces.model.output import write_whole
from traces.model.problems import BadInput

DATA = Path(__file__).parent / "data"


def checked(*arguments: Any) -> Result:
    return CliRunner().invoke(check, [str(argument) for argument in arguments])


def lines_of(folder: Path, *lines: Any) -> Path:
    folder.mkdir()
    (folder / "meta.json").write_text(json.dumps(meta()))
    texts = [json.dumps(line) for line in lines]
    (folder / "p0#0.ndjson").write_text("\n".join(texts) + "\n")
    return folder


def test_a_run_in_which_nothing_was_judged_does_not_pass(tmp_path: Path) -> None:
    close = {"process": "p0#0", "seq": 0, "op": "close", "outcome": "ok"}
    result = checked(lines_of(tmp_path / "run", close))
    assert result.exit_code == 2
    assert "run: nothing was judged" in result.output
    assert "end with a `scan` of every partition" in result.output


def test_a_closed_pipe_does_not_change_the_verdict() -> None:
    """Rich ends with 1 when nobody reads any more, and 1 means violated."""
    command = [sys.executable, "-m", "refimpl", "check", str(DATA / "histories" / "basic.edn")]
    for arguments, code in (
        (command, 0),
        ([*command[:-1], str(DATA / "histories/phantom-value.edn")], 1),
    ):
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run(arguments, stdout=writing, stderr=subprocess.PIPE, check=False)
        os.close(writing)
        assert (done.returncode, done.stderr) == (code, b"")


@pytest.mark.parametrize("option", ["--json", "--html", "--junit"])
def test_a_full_disk_is_no_bug_of_ours(option: str) -> None:
    path = str(DATA / "histories" / "basic.edn")
    result = CliRunner().invoke(highwater, ["check", path, option, "/dev/full"])
    assert (result.exit_code, result.exception) == (2, result.exception)
    assert os.strerror(errno.ENOSPC) in result.stderr


def test_a_disk_that_fills_up_is_told_by_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, mode: str) -> Any:
        os.close(descriptor)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fdopen", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*/out.json'"):
        write_whole(tmp_path / "out.json", b"{}")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_may_not_be_written_to_is_told_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may write anywhere, so nobody is asked but the system's answer."""

    def may(path: str | Path, mode: int) -> bool:
        return Path(path) != tmp_path

    monkeypatch.setattr(os, "access", may)
    result = checked(DATA / "histories" / "basic.edn", "--json", tmp_path / "out.json")
    assert (result.exit_code, "may not be written to" in result.output) == (2, True)
    assert "basic.edn" not in result.output


@pytest.mark.parametrize(
    "verb",
    [
        ["check", "RUN"],
        ["ingest", "RUN", "--out", "OUT"],
        ["generate", "OUT"],
        ["import", "kafka-verifiable", "RUN"],
        ["record-scan", "RUN", "--bootstrap", "127.0.0.1:1"],
    ],
    ids=lambda verb: verb[0],
)
def test_results_that_cannot_be_written_are_refused_by_every_verb(
    verb: list[str], tmp_path: Path
) -> None:
    """Before the work, whatever is wrong with the run."""
    missing = tmp_path / "missing"
    made = [str(tmp_path / word) if word.isupper() else word for word in verb]
    result = CliRunner().invoke(highwater, [*made, "--json", str(missing / "out.json")])
    assert (result.exit_code, f"there is no folder {missing}" in result.output) == (2, True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_bears_the_name_of_a_process_file_and_is_none_is_refused(
    kind: str, tmp_path: Path
) -> None:
    run = write(tmp_path / "run", *_reported_loss())
    odd = run / "c9#0.ndjson"
    {"link": lambda: odd.symlink_to("nowhere"), "pipe": lambda: os.mkfifo(odd)}.get(
        kind, odd.mkdir
    )()
    result = checked(run)
    assert result.exit_code == 2
    found = {"link": "a link to nothing", "pipe": "a pipe, a socket or a device"}.get(
        kind, "a folder"
    )
    assert f"c9#0.ndjson: expected a regular file, found {found}" in result.output


def test_rows_of_partitions_that_meta_denies_are_refused(tmp_path: Path) -> None:
    lines, said = _reported_loss()
    said["topics"]["t"]["partitions"] = 1
    with pytest.raises(BadInput, match=r"partition: meta.json says 1 partition of t, found t:1"):
        read_trace(write(tmp_path / "run", lines, said))


@pytest.mark.parametrize(
    ("where", "name", "value", "message"),
    [
        ("topics.t", "cleanup_policy", "delte", "expected one or more of delete, compact"),
        ("topics.t", "min_insync_replicas", -1, "expected at least 1"),
        ("topics.t", "partitions", 0, "expected at least 1"),
        ("topics.t", "partitions", 10**12, "expected at most 1000000"),
        ("producers.p0", "acks", "al", "expected one of 0, 1, all, -1"),
        ("producers.p0", "retries", -1, "expected at least 0"),
        ("consumers.c0", "isolation", "read_comitted", "expected one of read_committed, read_unc"),
        ("consumers.c0", "commit_order", "proces", "expected one of process_then_commit"),
        ("consumers.c0", "group_protocol", "clasic", "expected one of classic, consumer, streams"),
        ("consumers.c0", "auto_offset_reset", "lates", "expected one of earliest, latest, none"),
    ],
)
def test_a_misspelt_setting_is_refused(
    where: str, name: str, value: Any, message: str, tmp_path: Path
) -> None:
    """A violated loss became not checked because of a policy called delte."""
    lines, said = _reported_loss()
    kind, _, of = where.partition(".")
    said[kind].setdefault(of, {})[name] = value
    with pytest.raises(BadInput, match=rf"^meta.json: {where}.{name}: {message}"):
        read_trace(write(tmp_path / "run", lines, said))


def test_a_topic_may_have_no_cleanup_policy(tmp_path: Path) -> None:
    """Then nothing is deleted; the recorder writes what the cluster tells."""
    lines, said = _reported_loss()
    said["topics"]["t"]["cleanup_policy"] = ""
    assert read_trace(write(tmp_path / "run", lines, said)).calls


def test_workers_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    script = tmp_path / "start.py"
    script.write_text(
        "import os, sys\n"
        "from traces.ingest.maps import processes\n"
        "if __name__ == '__main__':\n"
        "    with processes(2) as over:\n"
        "        print(*list(over(abs, [1, 2])), flush=True)\n"
        "        sys.stdin.read()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"1 2\n"
    workers = children_of(parent.pid)
    assert workers
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    deadline = time.monotonic() + 60
    while any(alive(pid) for pid in workers):
        assert time.monotonic() < deadline
        os.sched_yield()
    parent.stdout.close()
    assert parent.stdin is not None
    parent.stdin.close()


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _reported_loss() -> tuple[dict[str, list[dict[str, Any]]], dict[str, Any]]:
    return injected(fixture(3), IN_CALLS["lost"])


def test_every_verb_tells_programs_what_it_did(tmp_path: Path) -> None:
    """And a table is asked for with the same words as what it was made of."""
    runner, report = CliRunner(), tmp_path / "report.json"
    assert runner.invoke(check, ["--list", "--json", str(report)]).exit_code == 0
    listed = json.loads(report.read_bytes())["checks"]
    assert [one["id"] for one in listed] == list(CHECKS)
    assert all(one["formula"] for one in listed)
    w = fixture(1, steps=8)
    made = ["--out", str(tmp_path / "ops"), "--json", str(report)]
    assert (
        runner.invoke(ingest_, [str(write(tmp_path / "w", w.lines, w.meta)), *made]).exit_code == 0
    )
    (said,) = json.loads(report.read_bytes())["runs"]
    assert said["calls"] > 0 < said["rows"]
    send: dict[str, Any] = {"name": "producer_send_success", "timestamp": 1, "value": "0"}
    send |= {"topic": "t", "partition": 0, "offset": 0, "key": None}
    log = tmp_path / "p.log"
    log.write_text(json.dumps(send) + "\n")
    made = ["kafka-verifiable", str(log), "--out", str(tmp_path / "run"), "--json", str(report)]
    assert runner.invoke(import_, made).exit_code == 0
    assert json.loads(report.read_bytes())["calls"]


def test_a_verb_without_its_path_says_so() -> None:
    ran = CliRunner().invoke(check, [])
    assert (ran.exit_code, "PATH" in ran.output) == (2, True)
