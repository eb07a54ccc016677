"""A static member that missed a generation commits what another member has committed.

The finding: docs/findings/kafka-static-missed.md.
"""

from pathlib import Path

import orjson
import pytest

from tests.kafka import played

NAME = "kafka-static-missed"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return played.shown(NAME, NAME, tmp_path_factory)


def test_two_members_committed_the_same_records_in_transactions(run: Path) -> None:
    """The second commit came after the first was answered, in a later generation."""
    told = {
        name: {line["op"]: line for line in played.lines(run, f"producer-{name}#0")}
        for name in ("first", "second")
    }
    late, owner = told["first"], told["second"]
    for one in (owner, late):
        assert one["txn_offsets"]["outcome"] == one["txn_commit"]["outcome"] == "ok"
    assert owner["txn_offsets"]["offsets"] == late["txn_offsets"]["offsets"]
    assert owner["txn_offsets"]["member"] != late["txn_offsets"]["member"]
    assert owner["txn_offsets"]["generation"] < late["txn_offsets"]["generation"]
    assert owner["txn_commit"]["returned_ns"] < late["txn_offsets"]["invoked_ns"]


def test_the_first_had_not_been_told_to_give_anything_up(run: Path) -> None:
    first = played.lines(run, "consumer-first#0")
    (committed,) = [
        line["invoked_ns"]
        for line in played.lines(run, "producer-first#0")
        if line["op"] == "txn_offsets"
    ]
    taken = [line for line in first if line["op"] in ("revoked", "lost")]
    assert all(line["invoked_ns"] > committed for line in taken)


def test_the_check_names_both_owners(run: Path) -> None:
    """It allows that, as the first was silent for longer than its session."""
    judged = run.with_suffix(".json")
    assert played.python("-m", "refimpl", "check", run, "--json", judged).returncode == 0
    (told,) = orjson.loads(judged.read_bytes())["runs"]
    assert told["checks"]["G2"]["verdict"] == "allowed"
    (witness,) = told["checks"]["G2"]["witnesses"]
    assert {event["process"] for event in witness["events"]} == {
        "consumer-first#0",
        "consumer-second#0",
    }


def test_a_member_that_joins_in_time_gives_up_first(tmp_path: Path) -> None:
    played.assert_that_the_control_holds(NAME, tmp_path, "--in-time")
