"""Topics that were deleted and made again, and topics whose settings changed on the way."""

from pathlib import Path
from typing import Any

import pytest

from tests.traces.fixture import write
from tests.traces.judging import judged_lines, verdicts
from tests.traces.small import trace
from tests.traces.stories import stories, story
from traces.ingest.run import read_trace
from traces.second_checker.read import from_lines

CASES = stories("made_again")
WHOLE, UNKNOWN, APART = (
    [name for name, case in CASES.items() if case.words == [kind]]
    for kind in ("whole", "unknown", "apart")
)
LOST = story("scan 10@0 end=2")
ACCUSED = ("L1", "L4", "L9", "L15", "P1", "C2")


@pytest.mark.parametrize("name", WHOLE)
def test_what_was_deleted_with_its_topic_is_not_lost(tmp_path: Path, name: str) -> None:
    lines, meta = trace(*CASES[name].calls)
    one = verdicts(judged_lines(tmp_path / "well", lines, meta))
    assert not [check for check, verdict in one.items() if verdict == "violated"]
    assert one["L1"] == one["L4"] == one["P1"] == "holds"
    lines, meta = trace(*CASES[name].calls[:-1], *LOST)
    assert verdicts(judged_lines(tmp_path / "lost", lines, meta))["L4"] == "violated"


def test_a_creation_before_everything_and_a_refused_deletion_part_nothing(tmp_path: Path) -> None:
    healthy = CASES[APART[0]].calls
    one = verdicts(judged_lines(tmp_path / "well", *trace(*healthy)))
    assert one["L4"] == one["L1"] == "holds"
    assert one["A1"] == "not checked"  # nothing was made again
    lost = [*healthy[:-1], *story("scan 0@0 2@2 end=3")]
    assert verdicts(judged_lines(tmp_path / "lost", *trace(*lost)))["L4"] == "violated"


@pytest.mark.parametrize("name", UNKNOWN)
def test_where_nobody_tells_which_topic_a_call_was_about_nothing_is_said(
    tmp_path: Path, name: str
) -> None:
    lines, meta = trace(*CASES[name].calls)
    one = judged_lines(tmp_path, lines, meta)
    assert {verdicts(one)[check] for check in ACCUSED} == {"not checked"}
    (reason,) = {v.reason for v in one.verdicts if v.check in ACCUSED}
    assert reason.startswith("topic t was deleted and made again, and ")


@pytest.mark.parametrize("name", [*WHOLE, *UNKNOWN])
def test_both_checkers_see_the_same_life_of_each_call(tmp_path: Path, name: str) -> None:
    lines, meta = trace(*CASES[name].calls)
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
    lines, meta = trace(*story("p0 send 1@0:k; p0 send 2@1:k; STARTS; scan 2@1 end=2"))
    lines["scan#0"][0]["offsets"]["t:0"] = 0
    meta["topics"]["t"]["earlier"] = earlier
    assert verdicts(judged_lines(tmp_path, lines, meta))["L4"] == verdict


def test_what_was_permitted_all_the_time_is_allowed(tmp_path: Path) -> None:
    lines, meta = trace(*story("p0 send 1@0; p0 send 2@1; STARTS; scan 1@0 end=2"))
    meta["topics"]["t"] |= {"min_insync_replicas": 1, "earlier": [{"replication_factor": 3}]}
    assert verdicts(judged_lines(tmp_path / "same", lines, meta))["L4"] == "allowed"
    meta["topics"]["t"]["earlier"] = [{"min_insync_replicas": 2}]
    assert verdicts(judged_lines(tmp_path / "other", lines, meta))["L4"] == "not checked"
