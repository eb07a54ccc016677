"""Groups for which somebody commits who was not recorded, and transactions that others end."""

from pathlib import Path
from typing import Any

import pytest

from tests.traces.judging import judged_lines, verdicts
from tests.traces.small import TXN, Call, Lines, record, scan, trace

WRITTEN = [record(number + 1, offset=number) for number in range(6)]
SENDS: list[Call] = [("p0#0", "send", {"records": [one]}) for one in WRITTEN]
SAFE = {"min_insync_replicas": 2, "unclean_leader_election": False}
OWNER = {"group": "g", "partitions": ["t:0"]}


def member(process: str, generation: int, committed: int | None, *read: int) -> list[Call]:
    """A member is assigned the partition, asks, reads, processes, and commits what it has read."""
    own = {**OWNER, "generation": generation, "member": process}
    offsets = {"offsets": {} if committed is None else {"t:0": committed}}
    records = {"records": [WRITTEN[n] for n in read], "group": "g"}
    after = {"offsets": {"t:0": read[-1] + 1}, "generation": generation, "member": process}
    return [
        (process, "assigned", own),
        (process, "committed", {**own, **offsets}),
        (process, "poll", records),
        (process, "process", records),
        (process, "commit", {"group": "g", **after}),
    ]


def said(folder: Path, made: tuple[Lines, dict[str, Any]], **more: Any) -> dict[str, str]:
    lines, meta = made
    meta["internal_topics"] = {"__consumer_offsets": SAFE}
    for consumer in meta["consumers"].values():
        consumer["commit_order"] = "process_then_commit"
    return verdicts(judged_lines(folder, lines, meta | more))


BACK = (*SENDS, *member("c0#0", 1, 0, 0, 1, 2, 3), *member("c1#0", 2, 2, 2, 3))
AHEAD = (*SENDS, *member("c0#0", 1, 0, 0, 1), *member("c1#0", 2, 5, 5))
SILENT = tuple(call for call in AHEAD if call[1] != "committed")
GONE = (*SENDS, *member("c0#0", 1, 0, 0, 1, 2, 3, 4, 5), *member("c1#0", 2, None, 0, 1))


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
    calls: tuple[Call, ...],
    checks: set[str],
    reported: dict[str, Any],
    expected: str,
) -> None:
    made = trace(*calls, scan(*WRITTEN, end=6))
    verdict = said(tmp_path, made, **reported)
    assert {id for id, one in verdict.items() if one == "violated"} == (
        checks if expected == "violated" else set()
    )
    assert {verdict[id] for id in checks} == {expected}


def test_the_reason_names_the_group(tmp_path: Path) -> None:
    lines, meta = trace(*BACK, scan(*WRITTEN, end=6))
    meta |= {"internal_topics": {"__consumer_offsets": SAFE}, "committers": "some"}
    found = {one.check: one for one in judged_lines(tmp_path, lines, meta).verdicts}
    reason = "somebody who was not recorded commits for group g, too (groups.g.committers)"
    assert found["G7"].reason == f"1 found, and {reason}"


def aborted_by_hand() -> tuple[Lines, dict[str, Any]]:
    """The producer is told that it committed; one who reads what is committed is not given it."""
    inside = {**TXN, "producer_id": 1, "producer_epoch": 0}
    committed = {"isolation": "read_committed", "group": "g"}
    after = {"offsets": {"t:0": 5}, "generation": 1, "member": "c0#0", "group": "g"}
    owner = {**OWNER, "generation": 1, "member": "c0#0"}
    read = {"records": [WRITTEN[0], WRITTEN[4]], **committed}
    return trace(
        ("p0#0", "send", {"records": [WRITTEN[0]]}),
        ("p1#0", "txn_begin", inside),
        ("p1#0", "send", {"records": [WRITTEN[1]], **inside}),
        ("p1#0", "send", {"records": [WRITTEN[2]], **inside}),
        ("p1#0", "txn_commit", inside),
        ("p0#0", "send", {"records": [WRITTEN[4]]}),
        ("c0#0", "assigned", owner),
        ("c0#0", "poll", read),
        ("c0#0", "process", read),
        ("c0#0", "commit", after),
        scan(WRITTEN[0], WRITTEN[1], WRITTEN[2], WRITTEN[4], end=5),
        (
            "scan#1",
            "scan",
            {**scan(WRITTEN[0], WRITTEN[4], end=5)[2], "isolation": "read_committed"},
        ),
    )


def test_a_commit_proves_nothing_where_an_operator_aborts(tmp_path: Path) -> None:
    accused = said(tmp_path / "all", aborted_by_hand())
    assert {"T7", "C1", "G8"} <= {id for id, one in accused.items() if one == "violated"}
    verdict = said(tmp_path / "some", aborted_by_hand(), transaction_ends="some")
    assert "violated" not in verdict.values(), verdict
    assert {verdict[id] for id in ("C1", "G8", "L4")} == {"not checked"}
