"""Kafka serves records again that it has confirmed to have deleted.

The finding: docs/findings/kafka-deleted-records.md.
"""

from pathlib import Path

import orjson
import pytest

from tests.kafka import played

NAME = "kafka-deleted-records"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return played.shown(NAME, NAME, tmp_path_factory)


def test_the_check_finds_the_record_that_was_deleted(run: Path) -> None:
    judged = run.with_suffix(".json")
    assert played.python("-m", "refimpl", "check", run, "--json", judged).returncode == 1
    (told,) = orjson.loads(judged.read_bytes())["runs"]
    violated = {id for id, one in told["checks"].items() if one["verdict"] == "violated"}
    assert violated == {"A2"}


def test_no_election_was_unclean(run: Path) -> None:
    meta = orjson.loads((run / "meta.json").read_bytes())
    assert meta["topics"]["deleted-records"]["unclean_leader_election"] is False
    assert played.sends(run)[-1]["outcome"] == "ok"


def test_the_record_stays_deleted_where_the_answer_is_in_time(tmp_path: Path) -> None:
    played.assert_that_the_control_holds(NAME, tmp_path, "--in-time")
