"""Kafka appends a batch of an idempotent producer twice if its records are old.

The finding: docs/findings/kafka-old-timestamps.md.
"""

from pathlib import Path

import pytest

from tests.kafka import played

NAME = "kafka-old-timestamps"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return played.shown(NAME, NAME, tmp_path_factory)


def test_an_idempotent_producer_sent_the_record_once(run: Path) -> None:
    played.assert_that_no_leader_was_unclean(run, "old-timestamps")
    assert played.meta(run)["producers"]["producer"]["idempotence"] is True
    assert [line["outcome"] for line in played.sends(run)] == ["ok", "ok"]


def test_the_check_names_the_record_that_is_stored_twice(run: Path) -> None:
    broken = played.broken(run)
    assert set(broken) == {"L2"}
    (witness,) = broken["L2"]
    (sent,) = played.sends(run)[-1]["records"]
    assert [event["id"] for event in witness["events"]] == [sent["id"]] * 2
    assert [event["offset"] for event in witness["events"]] == [1, 2]


def test_a_record_of_now_is_stored_once(tmp_path: Path) -> None:
    played.assert_that_the_control_holds(NAME, tmp_path, "--new")
