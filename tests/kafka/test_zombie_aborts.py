"""An instance of an application that is fenced aborts the transaction of its successor.

The finding: docs/findings/kafka-zombie-aborts.md.
"""

from pathlib import Path

import orjson
import pytest

from tests.kafka import played

NAME = "kafka-zombie-aborts"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return played.shown(NAME, NAME, tmp_path_factory)


def test_the_newest_instance_cannot_commit(run: Path) -> None:
    """It began after the first, which did not begin again, and its transaction was short."""
    first, second = (played.lines(run, f"{name}#0") for name in ("first", "second"))
    begun = [line for one in (first, second) for line in one if line["op"] == "init_producer"]
    assert [line["outcome"] for line in begun] == ["ok", "ok"]
    assert begun[0]["returned_ns"] < begun[1]["invoked_ns"]
    began, ended = (
        next(line for line in second if line["op"] == op) for op in ("txn_begin", "txn_commit")
    )
    assert (ended["outcome"], ended["error"]) == ("info", "_FENCED")
    timeout_ms = played.meta(run)["producers"]["second"]["transaction_timeout_ms"]
    assert ended["returned_ns"] - began["invoked_ns"] < timeout_ms * 1_000_000


def test_the_first_instance_only_aborted(run: Path) -> None:
    calls = [line for line in played.lines(run, "first#0") if line["op"].startswith("txn_")]
    assert [(line["op"], line.get("error")) for line in calls] == [
        ("txn_begin", None),
        ("txn_abort", "_FENCED"),
    ]


def test_the_check_names_the_instance_that_nobody_has_followed(run: Path) -> None:
    judged = run.with_suffix(".json")
    assert played.python("-m", "refimpl", "check", run, "--json", judged).returncode == 0
    (told,) = orjson.loads(judged.read_bytes())["runs"]
    assert told["checks"]["P7"]["verdict"] == "allowed"
    (witness,) = told["checks"]["P7"]["witnesses"]
    assert [event["op"] for event in witness["events"]] == ["init_producer", "txn_commit"]
    assert {event["process"] for event in witness["events"]} == {"second#0"}
