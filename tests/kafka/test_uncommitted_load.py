"""A coordinator of transactions acts on a decision that is not committed, and the next one decides
otherwise.

The finding: docs/findings/kafka-uncommitted-load.md.
"""

from pathlib import Path

import pytest

from tests.kafka import played

NAME = "kafka-uncommitted-load"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return played.shown(NAME, NAME, tmp_path_factory)


def test_one_half_of_the_transaction_is_committed(run: Path) -> None:
    played.assert_that_no_leader_was_unclean(run, "uncommitted-load")
    sends = [line for line in played.lines(run, "first#0") if line["op"] == "send"]
    assert {(line["outcome"], line["txn"]) for line in sends} == {("ok", 0)}
    shown = [
        record["id"]
        for line in played.lines(run, "scan-rc#0")
        for record in line.get("records", ())
    ]
    assert [record["id"] for line in sends for record in line["records"]][:1] == shown


def test_the_check_names_the_half_that_was_aborted(run: Path) -> None:
    broken = played.broken(run)
    assert set(broken) == {"T7"}
    (witness,) = broken["T7"]
    assert [event["partition"] for event in witness["events"]] == ["uncommitted-load:1"] * 2
