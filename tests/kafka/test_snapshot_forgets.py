"""Kafka's snapshot of producers has the last batch of each, and a retry of an earlier one is new.

The finding: docs/findings/kafka-snapshot-forgets.md.
"""

from pathlib import Path

import pytest

from tests.kafka import played

NAME, TOPIC = "kafka-snapshot-forgets", "snapshot-forgets"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return played.shown(NAME, NAME, tmp_path_factory)


def test_an_idempotent_producer_sent_each_record_once(run: Path) -> None:
    played.assert_that_no_leader_was_unclean(run, TOPIC)
    assert played.meta(run)["producers"]["producer"]["idempotence"] is True
    assert [line["outcome"] for line in played.sends(run)] == ["ok"] * 5


def test_the_check_names_the_records_that_are_stored_twice(run: Path) -> None:
    assert set(played.broken(run)) == {"L2"}
    assert played.stored_twice(run) == [line["records"][0]["id"] for line in played.sends(run)[3:]]


def test_one_batch_is_remembered(tmp_path: Path) -> None:
    played.assert_that_the_control_holds(NAME, tmp_path, "--one")
