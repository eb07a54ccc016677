"""Kafka loses an acknowledged record when a leader misses an epoch; one that mends it is noticed.

The finding: docs/findings/kafka-missed-leader-epoch.md.
"""

from pathlib import Path

import pytest

from tests.kafka import played


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return played.shown("kafka-missed-epoch", "kafka-missed-leader-epoch", tmp_path_factory)


def test_the_check_finds_the_record_that_was_lost(run: Path) -> None:
    played.assert_that_the_check_finds_b(run)


def test_what_was_promised_could_have_been_kept(run: Path) -> None:
    played.assert_that_it_was_promised(run, "missed-epoch")
