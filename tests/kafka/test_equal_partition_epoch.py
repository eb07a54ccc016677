"""Kafka loses an acknowledged record when late metadata erase what a leader has asked since.

The finding: docs/findings/kafka-equal-partition-epoch.md.
"""

from pathlib import Path

import pytest

from tests.kafka import played

NAME = "kafka-equal-partition-epoch"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return played.shown(NAME, NAME, tmp_path_factory)


def test_the_check_finds_the_record_that_was_lost(run: Path) -> None:
    played.assert_that_the_check_finds_b(run)


def test_what_was_promised_could_have_been_kept(run: Path) -> None:
    played.assert_that_it_was_promised(run, "equal-partition-epoch")


def test_nothing_is_lost_if_the_metadata_are_in_time(tmp_path: Path) -> None:
    folders = (tmp_path / str(attempt) for attempt in range(played.ATTEMPTS))
    tries = (played.python(f"examples/{NAME}", one, "--metadata-in-time") for one in folders)
    found = next((one for one in tries if one.returncode != played.NOT_PLAYED), None)
    assert found is not None
    assert found.returncode == 0, found.stdout + found.stderr
