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


def test_the_check_names_the_records_that_are_stored_twice(run: Path) -> None:
    assert len(played.sends(run)) == 5
    played.assert_that_an_idempotent_producer_wrote_twice(run, TOPIC, once=3)


def test_one_batch_is_remembered(tmp_path: Path) -> None:
    played.assert_that_the_control_holds(NAME, tmp_path, "--one")
