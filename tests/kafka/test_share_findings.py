"""Kafka gives accepted records of share groups again, and stops share groups, in five ways.

The findings: docs/findings/kafka-share-*.md. What Kafka's classes do with a fix: test_fixes.py.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.kafka import played

#: By finding, the control: what is not done, so that the group goes on.
STOPPED = {
    "kafka-share-aborted": "--few",
    "kafka-share-leader-epoch": "--stay",
    "kafka-share-hole": "--ascending",
    "kafka-share-log-start": "--keep",
}
LATE = "kafka-share-late-write"


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return played.shown(LATE, LATE, tmp_path_factory)


def calls(run: Path, op: str) -> list[dict[str, Any]]:
    """The calls of all members of this kind."""
    names = (path.stem for path in run.glob("*#0.ndjson"))
    return [line for name in names for line in played.lines(run, name) if line["op"] == op]


def offsets(lines: list[dict[str, Any]]) -> set[int]:
    return {record["offset"] for line in lines for record in line["records"]}


def test_every_member_was_told_that_its_records_are_accepted(late: Path) -> None:
    played.assert_that_no_leader_was_unclean(late, "queue")
    accepted = [one for one in calls(late, "acknowledge") if one["process"] != "D#0"]
    assert {line["outcome"] for line in accepted} == {"ok"}
    assert len(offsets(accepted)) == 30


def test_the_check_names_what_was_given_again_and_the_start_that_went_back(late: Path) -> None:
    broken = played.broken(late)
    assert set(broken) == {"S2", "S5"}
    for witness in broken["S2"]:
        accepted, given = witness["events"]
        assert (accepted["op"], given["op"]) == ("acknowledge", "acquire")
        assert given["process"] == "D#0"
    ops = [[event["op"] for event in witness["events"]] for witness in broken["S5"]]
    assert ["committed", "committed"] in ops


@pytest.mark.parametrize("name", STOPPED)
def test_a_group_stops_and_members_that_poll_on_are_given_nothing(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    run = played.shown(name, name, tmp_path_factory)
    # One finding is about a replica that is taken away.
    replicas = 2 if name == "kafka-share-leader-epoch" else 3
    played.assert_that_no_leader_was_unclean(run, "queue", replicas)
    stuck = played.broken(run)
    assert set(stuck) == {"S6"}
    for witness in stuck["S6"]:
        assert [event["op"] for event in witness["events"]] == ["waited", "committed", "scan"]
        assert witness["confirmed"]
    finished = offsets([one for one in calls(run, "acknowledge") if one["outcome"] == "ok"])
    kept = offsets([one for one in calls(run, "scan") if one.get("records")])
    assert max(kept) > max(finished), "records wait behind what is done with"


@pytest.mark.parametrize("name", STOPPED)
def test_a_group_goes_on_where_the_control_leaves_that_out(name: str, tmp_path: Path) -> None:
    run = played.assert_that_the_control_holds(name, tmp_path, STOPPED[name])
    judged = played.judged(run)
    assert judged["S6"]["verdict"] == "holds", judged["S6"]
    assert not [id for id, one in judged.items() if one["verdict"] == "violated"]
