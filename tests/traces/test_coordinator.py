"""State that a coordinator may lose with its log, and commits of which a copy may come late."""

from pathlib import Path
from typing import Any

import pytest

from tests.traces.judging import judged_lines, verdicts
from tests.traces.small import Lines, trace
from tests.traces.stories import story

TICK = 10**7  # a call takes five of them: 50 ms, in which no client sends it again
SAFE = {"min_insync_replicas": 2, "unclean_leader_election": False}
NAMED = {
    "SENDS": "p0 send 1@0; p0 send 2@1; p0 send 3@2",
    "SCANNED": "scan 1@0 2@1 3@2 end=3",
    "FIRST": "group=g generation=1 member=c0#0",
    "SECOND": "group=g generation=2 member=c1#0",
    "READ": "poll group=g isolation=-",
}


def said(
    folder: Path, made: tuple[Lines, dict[str, Any]], topic: dict[str, Any], **settings: Any
) -> dict[str, str]:
    """The verdicts, where these are the settings of `__consumer_offsets` and of the consumers."""
    lines, meta = made
    for line in (line for mine in lines.values() for line in mine):
        line["invoked_ns"] *= TICK
        line["returned_ns"] = line["returned_ns"] * TICK + line.pop("longer", 0)
    meta["internal_topics"] = {"__consumer_offsets": topic}
    for consumer in meta["consumers"].values():
        consumer |= settings
    return verdicts(judged_lines(folder, lines, meta))


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
    calls = """
        SENDS; c0 assigned FIRST; c0 committed FIRST offsets=0; c0 READ 1@0 2@1
        c0 commit FIRST offsets=1; c1 assigned SECOND; c1 committed SECOND offsets=1
        c1 READ 2@1 3@2; c1 commit SECOND offsets=3; c0 commit FIRST offsets=2
        c0 assigned FIRST generation=2; c0 committed FIRST generation=2 offsets=1
        c0 READ 2@1 3@2; SCANNED
    """
    lost = trace(*story(calls, **NAMED))
    verdict = said(tmp_path, lost, topic)
    assert {id: verdict[id] for id in ("G1", "G4", "G7")} == dict.fromkeys(
        ("G1", "G4", "G7"), expected
    )


def put_back(first: str = "") -> tuple[Lines, dict[str, Any]]:
    """The first of two commits is what the next owner is answered: it is given a record again."""
    calls = f"""
        SENDS; c0 assigned FIRST; c0 committed FIRST offsets=0; c0 READ 1@0
        c0 commit FIRST offsets=1 {first}; c0 process 1@0 group=g; c0 READ 2@1
        c0 commit FIRST offsets=2; c0 process 2@1 group=g; c1 assigned SECOND
        c1 committed SECOND offsets=1; c1 READ 2@1; c1 process 2@1 group=g; SCANNED
    """
    return trace(*story(calls, **NAMED))


@CASES
def test_who_commits_first_is_given_again_what_a_coordinator_forgot(
    tmp_path: Path, topic: dict[str, Any], expected: str
) -> None:
    assert said(tmp_path, put_back(), topic, commit_order="commit_then_process")["G9"] == expected


@pytest.mark.parametrize(
    ("first", "late", "expected"),
    [
        ("", False, "violated"),
        ("longer=1", False, "not checked"),
        ("outcome=info", False, "not checked"),
        ("offsets=0 longer=1", False, "violated"),
        ("", True, "not checked"),
    ],
)
def test_a_commit_that_may_have_been_sent_twice_may_come_again(
    tmp_path: Path, first: str, late: bool, expected: str
) -> None:
    """A call took longer than any client waits before it sends a request again.

    Found in one of twenty runs of the simulator, whose network delivers requests even after newer
    ones.
    """
    more = {"commit_order": "commit_then_process", "late_requests": late}
    verdict = said(tmp_path, put_back(first), SAFE, **more)
    # Of a commit without an answer it was never said that it is over: its offset is no surprise.
    register = "holds" if "info" in first else expected
    assert (verdict["G7"], verdict["G9"]) == (register, expected)
