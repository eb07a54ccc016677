"""A group that was deleted, or has expired, and is made again: another one under the same name."""

import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.traces.fixture import Line
from tests.traces.judging import judged, judged_lines
from tests.traces.search import broken_somewhere
from tests.traces.small import Call, trace
from tests.traces.stories import story
from traces.second_checker.read import from_lines
from traces.verdicts.verdict import HOLDS, NOT_CHECKED, VIOLATED

ROOT = Path(__file__).parents[2]
CASES = Path(os.environ.get("HIGHWATER_SHARED", ROOT.parent / "shared")) / "cases"
GROUPED = ("G1", "G4", "G5", "G6", "G7", "G8", "G9", "G10", "G11", "G12", "C6", "T9", "T10")
MINUTE = 60_000_000_000
NAMED = {"FIRST": "group=g generation=1", "ALL": "1@0 2@1 3@2"}
calls = partial(story, **NAMED)


def member(process: str, generation: int, offset: int) -> list[Call]:
    """A member's whole life: it reads all, commits, and leaves."""
    of = f"group=g member={process}#0 generation={generation}"
    given = " ".join(f"{n + 1}@{n}" for n in range(offset)) + " group=g"
    return story(
        f'{process} subscribe topics=["t"] group=g; {process} assigned {of}; '
        f"{process} poll {given}; {process} process {given}; "
        f"{process} commit {of} offsets={offset}; {process} revoked {of}; {process} close"
    )


SENT = story("p send 1@0; p send 2@1; p send 3@2")
DELETED = story("a delete_groups group=g")
DELETED_OFFSETS = story('a delete_offsets group=g partitions=["t:0"]')


def run(*calls: Call, **settings: Any) -> tuple[dict[str, list[Line]], dict[str, Any]]:
    """These calls, one after the other, and the final scan; files that close stay closed."""
    closing = [process for process, op, _ in calls if op == "close"]
    lines, meta = trace(*SENT, *calls, *story("scan 1@0 2@1 3@2 end=3"))
    for process in closing:
        lines[process].pop()  # `trace` closes everybody at the end
    for name in list(meta["consumers"]):
        meta["consumers"][name] = meta["consumers"][name] | {"group": "g"} | settings
    return lines, meta


def accused(tmp_path: Path, lines: dict[str, list[Line]], meta: dict[str, Any]) -> set[str]:
    """The checks that are violated; the second checker must find a breach of the same ones."""
    one = judged_lines(tmp_path, lines, meta)
    found = {v.check for v in one.verdicts if v.verdict == VIOLATED}
    history = from_lines(lines, meta)
    assert {id for id in ("G1", "G4", "G5", "G7", "C6") if broken_somewhere(history, id)} == {
        id for id in found if id in ("G1", "G4", "G5", "G7", "C6")
    }
    return found & set(GROUPED)


AGAIN = {
    "nobody tells": [*member("c0", 1, 3), *member("c1", 1, 2)],
    "an administrator tells": [*member("c0", 1, 3), *DELETED, *member("c1", 1, 2)],
    "twice": [*member("c0", 1, 3), *member("c1", 1, 2), *member("c2", 1, 1)],
    "after some rebalances": [
        *member("c0", 1, 3)[:2],
        *story("c0 assigned group=g generation=4; c0 close"),
        *member("c1", 1, 3),
        *member("c2", 2, 3),
    ],
    "and nothing is committed": [
        *member("c0", 1, 3),
        *calls("""
            c1 subscribe topics=["t"] group=g; c1 assigned FIRST; c1 committed group=g offsets={}
            c1 reset partitions=["t:0"] offsets=0 reason=no_offset group=g; c1 close
        """),
    ],
    "a member of the other topic stays": [
        *calls('c3 subscribe topics=["u"] group=g; c3 assigned FIRST partitions=["u:0"]'),
        *member("c0", 2, 3),
        *calls("c3 committed group=g offsets={}; c3 close"),
    ],
}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("case", AGAIN)
def test_a_group_that_is_made_again_is_accused_of_nothing(
    case: str, protocol: str, tmp_path: Path
) -> None:
    lines, meta = run(*AGAIN[case], group_protocol=protocol)
    meta["topics"]["u"] = meta["topics"]["t"]
    assert accused(tmp_path, lines, meta) == set()


FIRST_LIFE, SECOND_LIFE = member("c0", 1, 3), member("c1", 1, 2)
IN_SECOND, COMMITS = [*FIRST_LIFE, *SECOND_LIFE[:4]], calls("c1 commit FIRST offsets=2")
BREACHES = {
    "two owners in the second life": ([*IN_SECOND, *member("c2", 1, 2)[:4], *COMMITS], "G1"),
    "an old generation in the second life": ([*IN_SECOND, *member("c2", 2, 2)[:4], *COMMITS], "G4"),
    "back in the second life": (
        [*FIRST_LIFE, *SECOND_LIFE[:5], *calls("c1 commit FIRST offsets=1")],
        "G5",
    ),
    "gone while a member is there": (
        [*FIRST_LIFE, *SECOND_LIFE[:5], *story("c1 committed group=g offsets={}")],
        "G7",
    ),
    "what was deleted comes back": (
        [*FIRST_LIFE, *DELETED, *SECOND_LIFE[:2], *story("c1 committed group=g offsets=3")],
        "G7",
    ),
    "deleted offsets come back": (
        [
            *(*FIRST_LIFE, *DELETED_OFFSETS, *member("c1", 2, 2)[:2]),
            *story("c1 committed group=g offsets=3"),
        ],
        "G7",
    ),
}


@pytest.mark.parametrize("case", BREACHES)
def test_a_breach_inside_one_life_is_found(case: str, tmp_path: Path) -> None:
    made, id = BREACHES[case]
    assert id in accused(tmp_path, *run(*made))


GONE = [*FIRST_LIFE, *member("c1", 2, 2)[:2], *story("c1 committed group=g offsets={}")]


@pytest.mark.parametrize(
    ("reported", "minutes", "expected"),
    [
        ([], None, NOT_CHECKED),  # an operator may have deleted it
        (DELETED, None, HOLDS),
        (DELETED_OFFSETS, None, HOLDS),
        ([], 1, HOLDS),  # it has expired
        ([], 100, NOT_CHECKED),
    ],
)
def test_what_is_gone_was_deleted_or_has_expired(
    reported: list[Call], minutes: int | None, expected: str, tmp_path: Path
) -> None:
    first, rest = GONE[:7], GONE[7:]
    lines, meta = run(*first, *reported, *rest)
    for line in lines["c1#0"]:  # two minutes later
        line["invoked_ns"] += 2 * MINUTE
        line["returned_ns"] += 2 * MINUTE
    if minutes is not None:
        meta["group_retention"] = minutes
    one = judged_lines(tmp_path, lines, meta)
    assert {v.check: v.verdict for v in one.verdicts}["G7"] == expected


@pytest.mark.parametrize("policy", ["latest", "earliest"])
def test_offsets_that_an_operator_sets_are_where_the_group_goes_on(
    policy: str, tmp_path: Path
) -> None:
    later = member("c1", 2, 3)
    asked = "c1 committed group=g offsets=2"
    later[2:4] = story(f"{asked}; c1 poll 3@2 group=g; c1 process 3@2 group=g")
    made = *member("c0", 1, 1), *story("a alter_offsets group=g offsets=2"), *later
    lines, meta = run(*made, auto_offset_reset=policy)
    assert accused(tmp_path / "1", lines, meta) == set()
    del lines["a#0"], meta["processes"]
    assert "G7" in accused(tmp_path / "2", lines, meta)  # nobody set it


def test_an_expired_group_that_begins_at_the_end_owes_nothing_below(tmp_path: Path) -> None:
    later = member("c1", 1, 3)
    later[2:4] = story("c1 poll 3@2 group=g; c1 process 3@2 group=g")
    healthy = [*member("c0", 1, 1), *later]
    assert accused(tmp_path / "1", *run(*healthy, auto_offset_reset="latest")) == set()
    assert {"G8", "G10"} <= accused(tmp_path / "2", *run(*healthy, auto_offset_reset="earliest"))


@pytest.mark.skipif(not CASES.exists(), reason="needs the shared cases")
@pytest.mark.parametrize(
    "name",
    [
        "01-group-made-again/40-group-made-again-ok",
        "01-group-made-again/run-highwater-expired",
        "01-group-made-again/run-kafka-deleted-group",
        "01-group-made-again/run-kafka-expired",
        "06-partitions-added/42-partitions-added-ok",
        "06-partitions-added/o-partitions",
    ],
)
def test_nothing_is_violated_in_a_case_from_real_life(name: str) -> None:
    assert [v for v in judged(CASES / name).verdicts if v.verdict == VIOLATED] == []
