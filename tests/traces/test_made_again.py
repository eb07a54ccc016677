"""Topics that were deleted and made again, and topics whose settings changed on the way."""

from pathlib import Path
from typing import Any

import pytest

from tests.traces.fixture import write
from tests.traces.judging import judged_lines, verdicts
from tests.traces.small import STARTS, Call, Lines, polled, record, scan, sent, trace
from traces.ingest.run import read_trace
from traces.second_checker.read import from_lines

GROUP = {"group": "g", "generation": 1}
OLD, NEW = {"topic_ids": {"t": "old"}}, {"topic_ids": {"t": "new"}}


def reported(life: dict[str, Any], process: str = "admin#0") -> Call:
    """Somebody asks for the id of the topic."""
    return process, "describe_topics", {"topics": ["t"], **life}


_ABOUT: dict[str, Any] = {"topics": ["t"]}
DELETED: Call = ("admin#0", "delete_topics", _ABOUT)
PERHAPS: Call = ("admin#0", "delete_topics", _ABOUT | {"outcome": "info"})
REFUSED: Call = ("admin#0", "delete_topics", _ABOUT | {"outcome": "fail"})
MADE: Call = ("admin#0", "create_topics", _ABOUT)
BEFORE = [
    ("c0#0", "subscribe", {"topics": ["t"], "group": "g"}),
    *(sent("p0#0", n, n) for n in range(3)),
    ("c0#0", "assigned", {"partitions": ["t:0"], **GROUP}),
    polled("c0#0", *(record(n, n) for n in range(3)), group="g"),
]
AFTER = [
    *(sent("p0#0", 10 + n, n) for n in range(2)),
    STARTS,
    scan(*(record(10 + n, n) for n in range(2)), end=2),
]
WHOLE = {
    "ids that are told before and after": [
        reported(OLD),
        *BEFORE,
        reported(OLD),
        reported(NEW),
        *AFTER,
    ],
    "a deletion that was recorded": [*BEFORE, DELETED, MADE, *AFTER],
    "two deletions": [DELETED, MADE, *BEFORE, DELETED, MADE, *AFTER],
    "a creation, after it was used": [*BEFORE, MADE, *AFTER],
    "a creation, after it was created and used": [MADE, *BEFORE, MADE, *AFTER],
    "a deletion that was not answered, and a creation": [*BEFORE, PERHAPS, MADE, *AFTER],
    "a deletion that was refused, and one that was not": [*BEFORE, REFUSED, DELETED, MADE, *AFTER],
    "a deletion, and the id of the last life": [*BEFORE, DELETED, MADE, reported(NEW), *AFTER],
    "a deletion, and the id of the first life": [reported(OLD), *BEFORE, DELETED, MADE, *AFTER],
    "a deletion and a creation with ids": [
        *BEFORE,
        ("admin#0", "delete_topics", _ABOUT | OLD),
        ("admin#0", "create_topics", _ABOUT | NEW),
        *AFTER,
    ],
}
LOST = scan(record(10, 0), end=2)
ACCUSED = ("L1", "L4", "L9", "L15", "P1", "C2")


@pytest.mark.parametrize("name", WHOLE)
def test_what_was_deleted_with_its_topic_is_not_lost(tmp_path: Path, name: str) -> None:
    lines, meta = _of(WHOLE[name])
    one = verdicts(judged_lines(tmp_path / "well", lines, meta))
    assert not [check for check, verdict in one.items() if verdict == "violated"]
    assert one["L1"] == one["L4"] == one["P1"] == "holds"
    lines, meta = _of([*WHOLE[name][:-1], LOST])
    assert verdicts(judged_lines(tmp_path / "lost", lines, meta))["L4"] == "violated"


def _of(calls: list[Call]) -> tuple[Lines, dict[str, Any]]:
    lines, meta = trace(*calls)
    return lines, meta


UNKNOWN = {
    "nobody asked for the id again before it was deleted": [
        reported(OLD),
        *BEFORE,
        reported(NEW),
        *AFTER,
    ],
    "a deletion that was not answered": [*BEFORE, PERHAPS, *AFTER],
    "administrators with different clocks": [
        *BEFORE,
        DELETED,
        ("other#0", "create_topics", _ABOUT | {"clock": "other"}),
        *AFTER,
    ],
}


def test_a_creation_before_everything_and_a_refused_deletion_part_nothing(tmp_path: Path) -> None:
    healthy = [MADE, *BEFORE, REFUSED, STARTS, scan(*(record(n, n) for n in range(3)), end=3)]
    one = verdicts(judged_lines(tmp_path / "well", *_of(healthy)))
    assert one["L4"] == one["L1"] == "holds"
    assert one["A1"] == "not checked"  # nothing was made again
    lost = [*healthy[:-1], scan(record(0, 0), record(2, 2), end=3)]
    assert verdicts(judged_lines(tmp_path / "lost", *_of(lost)))["L4"] == "violated"


@pytest.mark.parametrize("name", UNKNOWN)
def test_where_nobody_tells_which_topic_a_call_was_about_nothing_is_said(
    tmp_path: Path, name: str
) -> None:
    lines, meta = _of(UNKNOWN[name])
    one = judged_lines(tmp_path, lines, meta)
    assert {verdicts(one)[check] for check in ACCUSED} == {"not checked"}
    (reason,) = {v.reason for v in one.verdicts if v.check in ACCUSED}
    assert reason.startswith("topic t was deleted and made again, and ")


@pytest.mark.parametrize("name", [*WHOLE, *UNKNOWN])
def test_both_checkers_see_the_same_life_of_each_call(tmp_path: Path, name: str) -> None:
    lines, meta = _of((WHOLE | UNKNOWN)[name])
    run = read_trace(write(tmp_path, lines, meta))
    columns, names = run.columns, run.names
    ours = {
        (names.processes.name(int(p)), int(s), int(o))
        for p, s, o, t, f in zip(
            *(columns[c] for c in ("process", "seq", "offset", "topic", "flags")), strict=True
        )
        if t >= 0 and not f & 512 and o >= 0
    }
    theirs = {
        (row.process, row.line["seq"], row.offset)
        for row in from_lines(lines, meta).by_partition["t:0"]
        if row.offset is not None
    }
    assert theirs == ours


CHANGES: dict[str, tuple[list[dict[str, Any]], str]] = {
    "nothing changed": ([], "violated"),
    "an unclean election was possible, nobody knows until when": (
        [{"unclean_leader_election": True}],
        "not checked",
    ),
    "until the record was there": (
        [{"unclean_leader_election": True, "until_ns": 45}],
        "not checked",
    ),
    "until before it was sent": ([{"min_insync_replicas": 1, "until_ns": 9}], "violated"),
    "by another clock": (
        [{"min_insync_replicas": 1, "until_ns": 9, "clock": "other"}],
        "not checked",
    ),
    "a setting that permits no more": ([{"min_insync_replicas": 3}], "violated"),
    "twice, the last time before it was sent": (
        [
            {"min_insync_replicas": 1, "until_ns": 3},
            {"unclean_leader_election": True, "until_ns": 8},
        ],
        "violated",
    ),
    "a policy that may remove more": ([{"cleanup_policy": "compact"}], "not checked"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_loss_is_judged_by_the_settings_of_its_time(tmp_path: Path, name: str) -> None:
    earlier, verdict = CHANGES[name]
    of = record(1, 0, key="k", tombstone=False)
    lines, meta = trace(
        ("p0#0", "send", {"records": [of]}),
        ("p0#0", "send", {"records": [record(2, 1, key="k", tombstone=False)]}),
        STARTS,
        scan(record(2, 1), end=2),
    )
    lines["scan#0"][0]["offsets"]["t:0"] = 0
    meta["topics"]["t"]["earlier"] = earlier
    assert verdicts(judged_lines(tmp_path, lines, meta))["L4"] == verdict


def test_what_was_permitted_all_the_time_is_allowed(tmp_path: Path) -> None:
    lines, meta = trace(sent("p0#0", 1, 0), sent("p0#0", 2, 1), STARTS, scan(record(1, 0), end=2))
    meta["topics"]["t"] |= {"min_insync_replicas": 1, "earlier": [{"replication_factor": 3}]}
    assert verdicts(judged_lines(tmp_path / "same", lines, meta))["L4"] == "allowed"
    meta["topics"]["t"]["earlier"] = [{"min_insync_replicas": 2}]
    assert verdicts(judged_lines(tmp_path / "other", lines, meta))["L4"] == "not checked"
