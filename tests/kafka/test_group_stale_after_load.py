"""A coordinator of a real cluster answers with an older offset than the one that it acknowledged;
a Kafka that mends it is noticed.

The finding: docs/findings/kafka-group-stale-after-load.md; test_group_load.py shows it on classes.
"""

from pathlib import Path

import orjson
import pytest

from tests.kafka import played

NAME = "kafka-group-stale-after-load"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return played.shown(NAME, NAME, tmp_path_factory)


def test_an_acknowledged_offset_is_answered_as_an_older_one_until_the_next_record(
    run: Path,
) -> None:
    commits = [line for line in played.lines(run, "member#0") if line["op"] == "commit"]
    answers = [line for line in played.lines(run, "plain#0") if line["op"] == "committed"]
    (stable,) = (line for line in played.lines(run, "stable#0") if line["op"] == "committed")
    first, second = (line["offsets"] for line in commits[-2:])
    assert {line["outcome"] for line in commits} == {"ok"}
    assert [line["offsets"] for line in answers] == [first, second]
    assert commits[-1]["returned_ns"] < answers[0]["invoked_ns"]
    assert stable["outcome"] == "info"
    assert answers[0]["returned_ns"] < stable["returned_ns"] < answers[1]["invoked_ns"]


def test_the_check_names_the_commit_and_the_answer(run: Path) -> None:
    judged = run.with_suffix(".json")
    assert played.python("-m", "refimpl", "check", run, "--json", judged).returncode == 1
    (told,) = orjson.loads(judged.read_bytes())["runs"]
    violated = {id for id, one in told["checks"].items() if one["verdict"] == "violated"}
    assert violated == {"G7"}
    (witness,) = told["checks"]["G7"]["witnesses"]
    assert [event["process"] for event in witness["events"]] == ["member#0", "plain#0"]
