"""Kafka loses an acknowledged record when a follower fetches before it registers, and loses power.

The finding: docs/findings/kafka-unregistered-follower.md.
"""

from pathlib import Path

import orjson
import pytest

from tests.kafka import played

NAME = "kafka-unregistered-follower"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return played.shown(NAME, NAME, tmp_path_factory)


def test_the_check_finds_the_record_that_was_lost(run: Path) -> None:
    played.assert_that_the_check_finds_b(run)


def test_the_broker_whose_fetch_counted_had_not_registered(run: Path) -> None:
    faults = orjson.loads((run / "meta.json").read_bytes())["faults"]
    asked = "broker 1 asks for ISR {1, 2, 3}: held up; broker 3 has not registered yet"
    assert asked in [fault["what"] for fault in faults]


def test_what_was_promised_could_have_been_kept(run: Path) -> None:
    played.assert_that_it_was_promised(run, "unregistered-follower", killed="SIGKILL broker 1")


def test_with_the_second_fix_it_has_registered_when_it_is_asked_in(tmp_path: Path) -> None:
    run = played.mended("unregistered-follower-waits", NAME, tmp_path)
    assert run is not None
    faults = orjson.loads((run / "meta.json").read_bytes())["faults"]
    asked = "broker 1 asks for ISR {1, 2, 3}: held up; broker 3 has registered"
    assert asked in [fault["what"] for fault in faults]
    judged = run.with_suffix(".json")
    assert played.python("-m", "refimpl", "check", run, "--json", judged).returncode == 0
    (told,) = orjson.loads(judged.read_bytes())["runs"]
    assert all(told["checks"][check]["verdict"] == "holds" for check in ("L1", "L3", "L4"))
