"""Groups for which somebody commits who was not recorded, and transactions that others end."""

from pathlib import Path
from typing import Any

import pytest

from tests.traces.judging import judged_lines, verdicts
from tests.traces.small import Lines, trace
from tests.traces.stories import story

SAFE = {"min_insync_replicas": 2, "unclean_leader_election": False}
SENDS = "p0 send 1@0; p0 send 2@1; p0 send 3@2; p0 send 4@3; p0 send 5@4; p0 send 6@5"
SCAN = "scan 1@0 2@1 3@2 4@3 5@4 6@5 end=6"
INSIDE = {"INSIDE": "TXN producer_id=1 producer_epoch=0"}


def member(process: str, generation: int, committed: int | str, *read: int) -> str:
    """A member is assigned the partition, asks, reads, processes, and commits what it has read."""
    of = f"group=g generation={generation} member={process}#0"
    records = " ".join(f"{n + 1}@{n}" for n in read) + " group=g"
    return (
        f"{process} assigned {of}; {process} committed {of} offsets={committed}; "
        f"{process} poll {records} isolation=-; {process} process {records}; "
        f"{process} commit {of} offsets={read[-1] + 1}"
    )


def said(folder: Path, made: tuple[Lines, dict[str, Any]], **more: Any) -> dict[str, str]:
    lines, meta = made
    meta["internal_topics"] = {"__consumer_offsets": SAFE}
    for consumer in meta["consumers"].values():
        consumer["commit_order"] = "process_then_commit"
    return verdicts(judged_lines(folder, lines, meta | more))


BACK = f"{SENDS}; {member('c0', 1, 0, 0, 1, 2, 3)}; {member('c1', 2, 2, 2, 3)}"
AHEAD = f"{SENDS}; {member('c0', 1, 0, 0, 1)}; {member('c1', 2, 5, 5)}"
SILENT = "; ".join(call for call in AHEAD.split("; ") if " committed " not in call)
GONE = f"{SENDS}; {member('c0', 1, 0, 0, 1, 2, 3, 4, 5)}; {member('c1', 2, '{}', 0, 1)}"


@pytest.mark.parametrize(
    ("calls", "checks"),
    [(BACK, {"G7"}), (AHEAD, {"G7", "G8"}), (SILENT, {"G8", "G10"}), (GONE, {"G7"})],
    ids=["reset back", "reset ahead", "reset ahead, not asked", "deleted"],
)
@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        ({}, "violated"),
        ({"groups": {"g": {"committers": "all"}}}, "violated"),
        ({"groups": {"other": {"committers": "some"}}}, "violated"),
        ({"groups": {"g": {"committers": "some"}}}, "not checked"),
        ({"committers": "some"}, "not checked"),
        ({"committers": "some", "groups": {"g": {"committers": "all"}}}, "violated"),
    ],
)
def test_who_else_commits_explains_where_a_group_goes_on(
    tmp_path: Path,
    calls: str,
    checks: set[str],
    reported: dict[str, Any],
    expected: str,
) -> None:
    made = trace(*story(f"{calls}; {SCAN}"))
    verdict = said(tmp_path, made, **reported)
    assert {id for id, one in verdict.items() if one == "violated"} == (
        checks if expected == "violated" else set()
    )
    assert {verdict[id] for id in checks} == {expected}


def test_the_reason_names_the_group(tmp_path: Path) -> None:
    lines, meta = trace(*story(f"{BACK}; {SCAN}"))
    meta |= {"internal_topics": {"__consumer_offsets": SAFE}, "committers": "some"}
    found = {one.check: one for one in judged_lines(tmp_path, lines, meta).verdicts}
    reason = "somebody who was not recorded commits for group g, too (groups.g.committers)"
    assert found["G7"].reason == f"1 found, and {reason}"


def aborted_by_hand() -> tuple[Lines, dict[str, Any]]:
    """The producer is told that it committed; one who reads what is committed is not given it."""
    calls = """
        p0 send 1@0; p1 txn_begin INSIDE; p1 send 2@1 INSIDE; p1 send 3@2 INSIDE
        p1 txn_commit INSIDE; p0 send 5@4; c0 assigned group=g generation=1 member=c0#0
        c0 poll 1@0 5@4 group=g; c0 process 1@0 5@4 isolation=read_committed group=g
        c0 commit offsets=5 generation=1 member=c0#0 group=g; scan 1@0 2@1 3@2 5@4 end=5
        scan#1 1@0 5@4 end=5 isolation=read_committed
    """
    return trace(*story(calls, **INSIDE))


def test_a_commit_proves_nothing_where_an_operator_aborts(tmp_path: Path) -> None:
    accused = said(tmp_path / "all", aborted_by_hand())
    assert {"T7", "C1", "G8"} <= {id for id, one in accused.items() if one == "violated"}
    verdict = said(tmp_path / "some", aborted_by_hand(), transaction_ends="some")
    assert "violated" not in verdict.values(), verdict
    assert {verdict[id] for id in ("C1", "G8", "L4")} == {"not checked"}
