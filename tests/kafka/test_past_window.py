"""Kafka's producer sends more batches than a leader remembers behind one that is not answered.

The finding: docs/findings/kafka-past-window.md.
"""

from pathlib import Path

import pytest

from tests.kafka import played

NAME, TOPIC = "kafka-past-window", "past-window"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return played.shown(NAME, NAME, tmp_path_factory)


def test_the_check_names_the_records_that_are_stored_twice(run: Path) -> None:
    assert len(played.sends(run)) == 9
    played.assert_that_an_idempotent_producer_wrote_twice(run, TOPIC, once=3)


def test_one_batch_fewer_is_remembered(tmp_path: Path) -> None:
    played.assert_that_the_control_holds(NAME, tmp_path, "--few")


def test_a_record_fails_that_is_written(tmp_path: Path) -> None:
    """The next leader's answers arrive: it refuses the older batch until its time is over."""
    run = tmp_path / "run"
    done = played.python(f"examples/{NAME}", run, "--answered")
    assert done.returncode == 1, done.stdout + done.stderr
    assert [line["outcome"] for line in played.sends(run)] == [*["ok"] * 3, "info", *["ok"] * 5]
    judged = played.python("-m", "refimpl", "check", run)
    assert judged.returncode == 0, judged.stdout
