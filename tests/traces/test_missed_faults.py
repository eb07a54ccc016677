"""Faults that public reports describe and the checks did not see, each with a healthy twin."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.traces.judging import judged, judged_lines
from tests.traces.small import Lines, trace
from tests.traces.stories import stories, story
from tests.traces.test_second_checker import disagreements, witnesses
from traces.second_checker import from_lines, read
from traces.verdicts.judged import Judged
from traces.verdicts.verdict import ALLOWED, HOLDS, NOT_CHECKED, VIOLATED, Verdict

RANDOM = sorted((Path(__file__).parent / "data" / "random").glob("*.edn"))


def reported(folder: Path, lines: Lines, meta: dict[str, Any]) -> dict[str, Verdict]:
    """The verdicts on a trace, whose witnesses the second checker confirms."""
    one = judged_lines(folder, lines, meta)
    assert disagreements(one, from_lines(lines, meta)) == []
    return {verdict.check: verdict for verdict in one.verdicts}


@pytest.mark.parametrize("path", RANDOM, ids=lambda path: path.stem)
def test_a_witness_proves_its_finding_by_itself(path: Path) -> None:
    one: Judged = judged(path)
    assert [found for found in witnesses(one) if found[0] == "L2"]
    assert disagreements(one, read(path)) == []


def spread(partitioner: str) -> tuple[Lines, dict[str, Any]]:
    """Six records with an empty key, one to each of six partitions."""
    keyed = [f'{n}@0(key="",chosen=false,partition={n})' for n in range(6)]
    sends = [f"p0 send {one}" for one in keyed]
    scans = [
        f'scan {one} partitions=["t:{n}"] offsets={{"t:{n}":1}} isolation=read_uncommitted'
        for n, one in enumerate(keyed)
    ]
    calls = story("; ".join([f'{sends[0]} partition_counts={{"t":6}}', *sends[1:], *scans]))
    lines, meta = trace(*calls, partitioner=partitioner)
    meta["topics"]["t"]["partitions"] = 6
    return lines, meta


@pytest.mark.parametrize(
    ("partitioner", "verdict"),
    [
        ("murmur2", VIOLATED),
        ("murmur2_random", VIOLATED),
        ("fnv1a", VIOLATED),
        ("fnv1a_random", VIOLATED),
        ("consistent", VIOLATED),
        ("consistent_random", NOT_CHECKED),
        ("default", VIOLATED),
    ],
)
def test_only_consistent_random_takes_an_empty_key_for_none(
    partitioner: str, verdict: str, tmp_path: Path
) -> None:
    """As 30 records of each showed that librdkafka 2.16 sent to six partitions."""
    found = reported(tmp_path, *spread(partitioner))["P6"]
    assert (found.verdict, found.count) == (verdict, 5 if verdict == VIOLATED else 0)


EVERYTHING = "isolation=read_uncommitted"
NAMED = {
    "SENT": "p0 send 1@0; p0 send 2@1; p0 send 3@2; p0 send 4@3; p0 send 5@4; p0 send 6@5",
    "SCANNED": "scan 1@0 2@1 3@2 4@3 5@4 6@5 end=6",
    "POLLED": f"c0 poll 1@0 2@1 3@2 4@3 group=g {EVERYTHING}",
    "PROCESSED": "c0 process 1@0 2@1 3@2 4@3 group=g",
    "COMMITTED": "c0 commit offsets=4 group=g generation=1",
    "LATE": "c0 commit offsets=2 group=g generation=1",
    "FIRST": "c0 assigned group=g generation=1 member=m1; POLLED; PROCESSED; COMMITTED; GIVEN_UP",
    "GIVEN_UP": "c0 revoked group=g generation=1",
    "NEXT": "c1 assigned group=g generation=2 member=m2",
    "LAST": "c1 commit offsets=6 group=g generation=2",
}
calls = partial(story, **NAMED)


def handed_over(between: str = "", to: int = 2) -> tuple[Lines, dict[str, Any]]:
    rest = " ".join(f"{n + 1}@{n}" for n in range(to, 6)) + " group=g"
    read = f"c1 poll {rest} {EVERYTHING}; c1 process {rest}; LAST"
    return trace(*calls(f"SENT; FIRST; NEXT; {between}; {read}; SCANNED"))


RESUMED = {
    "it was answered the commit": ("c1 committed offsets=4 group=g", VIOLATED),
    "it did not tell what it was answered": ("", VIOLATED),
    "it was told to begin below (G7)": ("c1 committed offsets=2 group=g", HOLDS),
    "it sought back": ("c1 seek offsets=2", NOT_CHECKED),
    "its position was reset": ("c1 reset offsets=2 reason=out_of_range", NOT_CHECKED),
    "the former owner committed less in between": ("LATE", HOLDS),
    "such a commit was not answered": ("LATE outcome=info", HOLDS),
}


@pytest.mark.parametrize("how", RESUMED)
def test_a_new_owner_does_not_begin_below_the_commit(how: str, tmp_path: Path) -> None:
    between, verdict = RESUMED[how]
    found = reported(tmp_path, *handed_over(between))
    assert found["G10"].verdict == verdict, found["G10"].reason
    assert found["G9"].verdict == ALLOWED


def test_what_a_crash_lets_a_group_be_given_again_lies_at_its_commit(tmp_path: Path) -> None:
    made = handed_over("c1 committed offsets=4 group=g", to=4)
    assert reported(tmp_path, *made)["G10"].verdict == HOLDS


def test_a_group_that_may_have_been_made_again_is_not_accused(tmp_path: Path) -> None:
    lines, meta = handed_over(to=0)
    reported_later = [line for line in lines["c1#0"] if line["op"] == "assigned"]
    reported_later[0]["generation"] = 0
    assert reported(tmp_path, lines, meta)["G10"].verdict == NOT_CHECKED
    meta["topics"]["t"]["min_insync_replicas"] = 1  # which permits a loss, but nothing was lost
    assert reported(tmp_path / "1", lines, meta)["G10"].verdict == NOT_CHECKED


def habit(order: str, text: str) -> tuple[Lines, dict[str, Any]]:
    lines, meta = trace(*calls(f"SENT; {text}; SCANNED"))
    for one in meta["consumers"].values():
        one["commit_order"] = order
    return lines, meta


@pytest.mark.parametrize(
    ("order", "text", "verdict", "count"),
    [
        ("process_then_commit", "POLLED; COMMITTED; PROCESSED", VIOLATED, 4),
        ("process_then_commit", "POLLED; PROCESSED; COMMITTED", HOLDS, 0),
        ("process_then_commit", "POLLED; PROCESSED; COMMITTED; PROCESSED", HOLDS, 0),
        ("process_then_commit", "POLLED; COMMITTED; POLLED; PROCESSED", HOLDS, 0),
        ("commit_then_process", "POLLED; COMMITTED; PROCESSED", NOT_CHECKED, 0),
    ],
)
def test_a_commit_before_processing_is_told_before_anybody_crashes(
    order: str, text: str, verdict: str, count: int, tmp_path: Path
) -> None:
    found = reported(tmp_path, *habit(order, text))["G13"]
    assert (found.verdict, found.count) == (verdict, count), found.reason


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("POLLED; COMMITTED; PROCESSED other_thread=true", NOT_CHECKED),
        ("POLLED; COMMITTED other_thread=true; PROCESSED", NOT_CHECKED),
        ("POLLED; COMMITTED other_thread=true; COMMITTED; PROCESSED", VIOLATED),
    ],
)
def test_the_order_of_lines_of_two_threads_proves_nothing(
    text: str, verdict: str, tmp_path: Path
) -> None:
    """A worker is done, the thread that polls commits, and then the worker's line is written."""
    found = reported(tmp_path, *habit("process_then_commit", text))["G13"]
    assert (found.verdict, found.count) == (verdict, 4), found.reason


@pytest.mark.parametrize("late", [0, 1])
def test_a_commit_that_has_not_returned_is_not_before_the_processing(
    late: int, tmp_path: Path
) -> None:
    lines, meta = habit("process_then_commit", "POLLED; COMMITTED; PROCESSED")
    commit, done = (line for line in lines["c0#0"] if line["op"] in ("commit", "process"))
    commit["returned_ns"] = done["invoked_ns"] - 1 + late
    found = reported(tmp_path, lines, meta)["G13"]
    assert (found.verdict, found.count) == ((VIOLATED, NOT_CHECKED)[late], 4), found.reason


def test_g9_leaves_exactly_once_to_t9_and_t10(tmp_path: Path) -> None:
    """Records that an aborted transaction had consumed are delivered again, by the thousand."""
    assert reported(tmp_path, *habit("none", "POLLED; POLLED"))["G9"].verdict == ALLOWED
    found = reported(tmp_path, *habit("transaction", "POLLED; POLLED"))["G9"]
    assert (found.verdict, found.count) == (NOT_CHECKED, 0)


EMPTY = f"c0 poll high_watermark=6 group=g {EVERYTHING}"
FOLLOWING = {
    "READ": f"{EMPTY} 1@0 2@1 3@2 4@3",
    "REST": f"{EMPTY} 5@4 6@5",
    "EMPTY": EMPTY,
    "THRICE": "EMPTY; EMPTY; EMPTY",
}
STANDING = {
    "it is given nothing to its end": ("READ; THRICE", ALLOWED),
    "it goes on at last": ("READ; THRICE; REST", HOLDS),
    "it is at the end": ("READ; REST; THRICE", HOLDS),
    "it has paused": ("READ; c0 pause; THRICE", HOLDS),
    "a fetch may be on its way": ("READ; EMPTY; EMPTY", HOLDS),
}


@pytest.mark.parametrize("how", STANDING)
def test_a_reader_that_stands_still_below_the_end_is_told(how: str, tmp_path: Path) -> None:
    text, verdict = STANDING[how]
    made = trace(*calls(f"SENT; c0 assign offsets=0; {text}; SCANNED", **FOLLOWING))
    found = reported(tmp_path, *made)["C8"]
    assert found.verdict == verdict, found.reason


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_a_reader_has_not_skipped_what_the_log_had_lost(policy: str, tmp_path: Path) -> None:
    """C1 and L3 look at two things: at what was there, and at what had to be."""
    made = story(f"""
        p0 send 1@0:k0; p0 send 2@1:k1; p0 send 3@2:k2; STARTS; c0 assign offsets=0
        c0 poll 1@0 3@2 {EVERYTHING}; scan 1@0 3@2 end=3
    """)
    lines, meta = trace(*made)
    meta["topics"]["t"] |= {"cleanup_policy": policy, "delete_retention_ms": 1000}
    found = reported(tmp_path, lines, meta)
    assert {id: found[id].verdict for id in ("L3", "L4", "C1")} == {
        "L3": VIOLATED,
        "L4": VIOLATED,
        "C1": HOLDS,
    }


POSITIONS = stories("positions")


@pytest.mark.parametrize("title", POSITIONS)
def test_a_position_goes_back_for_a_cause(title: str, tmp_path: Path) -> None:
    id, verdict = POSITIONS[title].words
    found = reported(tmp_path, *trace(*POSITIONS[title].calls))[id]
    assert found.verdict == verdict, found.reason
