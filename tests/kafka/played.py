"""Examples that are played on real brokers: run one, read what it recorded, have it judged."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from chaos.real.kafka.judge import CACHE

ROOT = Path(__file__).parents[2]
ATTEMPTS, NOT_PLAYED = 3, 2


def python(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def shown(name: str, finding: str, folders: pytest.TempPathFactory, *flags: str) -> Path:
    """A recording of an example, with these flags, in which Kafka does what the finding says.

    A slow machine may miss the time in which the scenario must be played, so it has some attempts.
    """
    attempts = (folders.mktemp(name) / "run" for _ in range(ATTEMPTS))
    tries = ((folder, python(f"examples/{name}", folder, *flags)) for folder in attempts)
    found = next((one for one in tries if one[1].returncode != NOT_PLAYED), None)
    assert found is not None, f"the scenario could not be played in {ATTEMPTS} attempts"
    folder, played = found
    mended = f"this Kafka does so no more: say so in docs/findings/{finding}.md\n"
    assert played.returncode == 1, (
        (mended * (not played.returncode)) + played.stdout + played.stderr
    )
    return folder


def mended(fix: str, name: str, folder: Path | None) -> Path | None:
    """The recording in this folder of an example that is played on Kafka with a fix, and finds
    nothing; without a folder it records nothing."""
    classes = CACHE / "fixes" / fix
    made = python("examples/kafka_fixes.py", fix, classes)
    assert made.returncode == 0, made.stdout + made.stderr
    for attempt in range(ATTEMPTS):
        run = None if folder is None else folder / str(attempt)
        where = [] if run is None else [run]
        played = python(f"examples/{name}", *where, "--classes", classes)
        if played.returncode != NOT_PLAYED:
            assert played.returncode == 0, played.stdout + played.stderr
            return run
    raise AssertionError(f"the scenario could not be played in {ATTEMPTS} attempts")


def assert_that_the_control_holds(name: str, folder: Path, control: str) -> Path:
    """An example that is told not to do what it is about finds nothing; its recording."""
    for run in (folder / str(n) for n in range(ATTEMPTS)):
        found = python(f"examples/{name}", run, control)
        if found.returncode != NOT_PLAYED:
            assert found.returncode == 0, found.stdout + found.stderr
            return run
    raise AssertionError(f"the control could not be played in {ATTEMPTS} attempts")


def lines(run: Path, process: str) -> list[dict[str, Any]]:
    """The lines that a process of a recording wrote."""
    return [orjson.loads(line) for line in (run / f"{process}.ndjson").read_bytes().splitlines()]


def meta(run: Path) -> dict[str, Any]:
    """The description of its cluster and clients in a recording."""
    return orjson.loads((run / "meta.json").read_bytes())


def assert_that_no_leader_was_unclean(run: Path, topic: str, replicas: int = 3) -> None:
    """So many replicas, of which two must have a record, and a scan that came to its end."""
    told = meta(run)
    configured = told["topics"][topic]
    assert told["complete"] is True
    assert configured["replication_factor"] == replicas
    assert configured["min_insync_replicas"] == 2
    assert configured["unclean_leader_election"] is False


def sends(run: Path) -> list[dict[str, Any]]:
    """The sends, of which the last two are B and C."""
    return [line for line in lines(run, "producer#0") if line["op"] == "send"]


def assert_that_an_idempotent_producer_wrote_twice(run: Path, topic: str, once: int) -> None:
    """Each record was sent once and acknowledged; all but the first `once` are stored twice."""
    assert_that_no_leader_was_unclean(run, topic)
    assert meta(run)["producers"]["producer"]["idempotence"] is True
    sent = sends(run)
    assert {line["outcome"] for line in sent} == {"ok"}
    assert set(broken(run)) == {"L2"}
    scan = [one["id"] for line in lines(run, "scan-ru#0") for one in line.get("records", [])]
    twice = [one for one in dict.fromkeys(scan) if scan.count(one) == 2]
    assert twice == [line["records"][0]["id"] for line in sent[once:]]


def assert_that_the_check_finds_b(run: Path) -> None:
    """`highwater check` says violated, and names the record that was lost."""
    judged = run.with_suffix(".json")
    assert python("-m", "refimpl", "check", run, "--json", judged).returncode == 1
    (told,) = orjson.loads(judged.read_bytes())["runs"]
    assert {send["outcome"] for send in sends(run)} == {"ok"}
    b, after = (send["records"][0] for send in sends(run)[-2:])
    assert b["offset"] == after["offset"] > 0
    for check in ("L1", "L3", "L4"):
        verdict = told["checks"][check]
        assert verdict["verdict"] == "violated", verdict
        (witness,) = verdict["witnesses"]
        assert b["id"] in [event.get("id") for event in witness["events"]]


def assert_that_it_was_promised(run: Path, topic: str, killed: str = "SIGKILL") -> None:
    """Replication, acks and elections as they must be to lose nothing with one broker.

    One broker was killed so, after the record had been acknowledged.
    """
    meta = orjson.loads((run / "meta.json").read_bytes())
    configured = meta["topics"][topic]
    assert meta["complete"] is True
    assert configured["replication_factor"] == 3
    assert configured["min_insync_replicas"] == 2
    assert configured["unclean_leader_election"] is False
    assert meta["producers"]["producer"]["acks"] == "all"
    (at_ns,) = [fault["at_ns"] for fault in meta["faults"] if fault["what"].startswith(killed)]
    assert sends(run)[-2]["returned_ns"] < at_ns


def judged(run: Path) -> dict[str, dict[str, Any]]:
    """The verdicts of `highwater check` by their ids."""
    told = run.with_suffix(".json")
    python("-m", "refimpl", "check", run, "--json", told)
    (found,) = orjson.loads(told.read_bytes())["runs"]
    return found["checks"]


def broken(run: Path) -> dict[str, list[dict[str, Any]]]:
    """The witnesses of the promises that `highwater check` calls violated, by their ids."""
    judged = run.with_suffix(".json")
    assert python("-m", "refimpl", "check", run, "--json", judged).returncode == 1
    (told,) = orjson.loads(judged.read_bytes())["runs"]
    checks = told["checks"].items()
    return {id: one["witnesses"] for id, one in checks if one["verdict"] == "violated"}
