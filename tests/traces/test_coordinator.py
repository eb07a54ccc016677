"""State that a coordinator may lose with its log, and commits of which a copy may come late."""

from pathlib import Path
from typing import Any

import pytest

from tests.traces.fixture import Line
from tests.traces.judging import judged_lines, verdicts
from tests.traces.small import Lines, record, scan, trace

TICK = 10**7  # a call takes five of them: 50 ms, in which no client sends it again
SAFE = {"min_insync_replicas": 2, "unclean_leader_election": False}
WRITTEN = [record(number + 1, offset=number) for number in range(3)]
SENDS = [("p0#0", "send", {"records": [one]}) for one in WRITTEN]


def said(
    folder: Path, made: tuple[Lines, dict[str, Any]], topic: dict[str, Any], **settings: Any
) -> dict[str, str]:
    """The verdicts, where these are the settings of `__consumer_offsets` and of the consumers."""
    lines, meta = made
    for line in (line for mine in lines.values() for line in mine):
        for name in ("invoked_ns", "returned_ns"):
            line[name] = line[name] * TICK + line.pop(f"{name} more", 0)
    meta["internal_topics"] = {"__consumer_offsets": topic}
    for consumer in meta["consumers"].values():
        consumer |= settings
    return verdicts(judged_lines(folder, lines, meta))


def read(process: str, *offsets: int) -> tuple[str, str, Line]:
    return process, "poll", {"records": [WRITTEN[n] for n in offsets], "group": "g"}


def processed(process: str, *offsets: int) -> tuple[str, str, Line]:
    return process, "process", {"records": [WRITTEN[n] for n in offsets], "group": "g"}


def commit(process: str, offset: int, generation: int, **more: Any) -> tuple[str, str, Line]:
    owner = {"group": "g", "generation": generation, "member": process}
    return process, "commit", {**owner, "offsets": {"t:0": offset}, **more}


def given(process: str, generation: int, committed: int) -> list[tuple[str, str, Line]]:
    """A member is given the partition, and asks where to begin."""
    owner = {"group": "g", "generation": generation, "partitions": ["t:0"], "member": process}
    answer = {**owner, "offsets": {"t:0": committed}}
    return [(process, "assigned", owner), (process, "committed", answer)]


CASES = pytest.mark.parametrize(
    ("topic", "expected"),
    [
        (SAFE, "violated"),
        (SAFE | {"min_insync_replicas": 1}, "violated"),
        (SAFE | {"flush_loses": True, "eligible_leader_replicas": True}, "violated"),
        (
            {"flush_loses": True, "eligible_leader_replicas": True, "min_insync_replicas": 1}
            | {"unclean_leader_election": False},
            "allowed",
        ),
        (SAFE | {"unclean_leader_election": True}, "allowed"),
        (SAFE | {"flush_loses": True}, "allowed"),
        ({"min_insync_replicas": 2}, "not checked"),
    ],
)


@CASES
def test_a_coordinator_is_as_safe_as_its_log(
    tmp_path: Path, topic: dict[str, Any], expected: str
) -> None:
    """The last generation and its commit are lost: offsets go back, and its number comes again."""
    lost = trace(
        *SENDS,
        *given("c0#0", 1, 0),
        read("c0#0", 0, 1),
        commit("c0#0", 1, 1),
        *given("c1#0", 2, 1),
        read("c1#0", 1, 2),
        commit("c1#0", 3, 2),
        commit("c0#0", 2, 1),
        *given("c0#0", 2, 1),
        read("c0#0", 1, 2),
        scan(*WRITTEN, end=3),
    )
    verdict = said(tmp_path, lost, topic)
    assert {id: verdict[id] for id in ("G1", "G4", "G7")} == dict.fromkeys(
        ("G1", "G4", "G7"), expected
    )


def put_back(**first: Any) -> tuple[Lines, dict[str, Any]]:
    """The first of two commits is what the next owner is answered: it is given a record again."""
    return trace(
        *SENDS,
        *given("c0#0", 1, 0),
        read("c0#0", 0),
        commit("c0#0", 1, 1, **first),
        processed("c0#0", 0),
        read("c0#0", 1),
        commit("c0#0", 2, 1),
        processed("c0#0", 1),
        *given("c1#0", 2, 1),
        read("c1#0", 1),
        processed("c1#0", 1),
        scan(*WRITTEN, end=3),
    )


@CASES
def test_who_commits_first_is_given_again_what_a_coordinator_forgot(
    tmp_path: Path, topic: dict[str, Any], expected: str
) -> None:
    assert said(tmp_path, put_back(), topic, commit_order="commit_then_process")["G9"] == expected


@pytest.mark.parametrize(
    ("first", "late", "expected"),
    [
        ({}, False, "violated"),
        ({"returned_ns more": 1}, False, "not checked"),
        ({"outcome": "info"}, False, "not checked"),
        ({"offsets": {"t:0": 0}, "returned_ns more": 1}, False, "violated"),
        ({}, True, "not checked"),
    ],
)
def test_a_commit_that_may_have_been_sent_twice_may_come_again(
    tmp_path: Path, first: dict[str, Any], late: bool, expected: str
) -> None:
    """A call took longer than any client waits before it sends a request again.

    Found in one of twenty runs of the simulator, whose network delivers requests even after newer
    ones.
    """
    more = {"commit_order": "commit_then_process", "late_requests": late}
    verdict = said(tmp_path, put_back(**first), SAFE, **more)
    # Of a commit without an answer it was never said that it is over: its offset is no surprise.
    register = "holds" if first.get("outcome") == "info" else expected
    assert (verdict["G7"], verdict["G9"]) == (register, expected)
