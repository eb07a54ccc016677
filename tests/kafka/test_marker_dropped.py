"""Kafka loses a part of a committed transaction, and shows one that was aborted, when it finishes
them while partitions have no leader.

The finding: docs/findings/kafka-marker-dropped.md.
"""

from pathlib import Path

import orjson
import pytest

from tests.kafka import played

NAME = "kafka-marker-dropped"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return played.shown(NAME, NAME, tmp_path_factory)


def test_both_producers_were_answered_before_the_power_failed(run: Path) -> None:
    played.assert_that_no_leader_was_unclean(run, "marker-dropped")
    (at_ns,) = [
        fault["at_ns"]
        for fault in played.meta(run)["faults"]
        if fault["what"].startswith("SIGKILL")
    ]
    ends = [
        next(line for line in played.lines(run, f"{name}#0") if line["op"] == op)
        for name, op in (("committing", "txn_commit"), ("aborting", "txn_abort"))
    ]
    assert {line["outcome"] for line in ends} == {"ok"}
    assert all(line["returned_ns"] < at_ns for line in ends)


def test_the_check_names_aborted_records_that_are_read(run: Path) -> None:
    broken = played.broken(run)
    assert set(broken) == {"T4", "T7"}
    for witness in broken["T4"]:
        read, sent = witness["events"]
        assert (read["op"], sent["process"]) == ("scan", "aborting#0")


def test_committed_records_are_in_the_log_and_cannot_be_read(run: Path) -> None:
    """Their transaction hangs: a matter of progress, which is told and permitted."""
    judged = run.with_suffix(".json")
    played.python("-m", "refimpl", "check", run, "--json", judged)
    (told,) = orjson.loads(judged.read_bytes())["runs"]
    assert told["checks"]["T11"]["verdict"] == "allowed"
    kept, shown = (
        {record["id"] for line in played.lines(run, scan) for record in line.get("records", ())}
        for scan in ("scan-ru#0", "scan-rc#0")
    )
    sent = {
        record["id"]
        for line in played.lines(run, "committing#0")
        if line["op"] == "send"
        for record in line["records"]
    }
    assert sent <= kept
    assert sent - shown
