"""Faults that public reports describe and the checks did not see, each with a healthy twin."""

from pathlib import Path
from typing import Any

import pytest

from tests.traces.judging import judged, judged_lines
from tests.traces.small import Call, Lines, record, scan, trace
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


# Six records with an empty key, one to each of six partitions.
def spread(partitioner: str, *, key: str = "") -> tuple[Lines, dict[str, Any]]:
    def keyed(partition: int) -> dict[str, Any]:
        one = record(partition, 0, key=key, chosen=False)
        return one | {"partition": partition}

    sends: list[dict[str, Any]] = [{"records": [keyed(n)]} for n in range(6)]
    sends[0] |= {"partition_counts": {"t": 6}}
    calls: list[Call] = [("p0#0", "send", one) for one in sends]
    for n in range(6):
        about = {"partitions": [f"t:{n}"], "offsets": {f"t:{n}": 1}}
        about |= {"isolation": "read_uncommitted", "records": [keyed(n)]}
        calls.append(("scan#0", "scan", about))
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


OWNER: dict[str, Any] = {"group": "g", "partitions": ["t:0"], "generation": 1}
NEXT: dict[str, Any] = {"group": "g", "partitions": ["t:0"], "generation": 2}
RECORDS = [record(n + 1, n) for n in range(6)]
SENT: list[Call] = [("p0#0", "send", {"records": [one]}) for one in RECORDS]
FIRST: list[Call] = [
    ("c0#0", "assigned", OWNER | {"member": "m1"}),
    ("c0#0", "poll", {"records": RECORDS[:4], "group": "g", "isolation": "read_uncommitted"}),
    ("c0#0", "process", {"records": RECORDS[:4], "group": "g"}),
    ("c0#0", "commit", {"offsets": {"t:0": 4}, "group": "g", "generation": 1}),
    ("c0#0", "revoked", OWNER),
]
ASSIGNED: Call = ("c1#0", "assigned", NEXT | {"member": "m2"})


def asked(offset: int) -> Call:
    return "c1#0", "committed", {"partitions": ["t:0"], "offsets": {"t:0": offset}, "group": "g"}


def begins(offset: int) -> list[Call]:
    given = {"records": RECORDS[offset:], "group": "g"}
    return [
        ("c1#0", "poll", given | {"isolation": "read_uncommitted"}),
        ("c1#0", "process", given),
        ("c1#0", "commit", {"offsets": {"t:0": 6}, "group": "g", "generation": 2}),
        scan(*RECORDS, end=6),
    ]


def handed_over(*between: Call, to: int = 2) -> tuple[Lines, dict[str, Any]]:
    return trace(*SENT, *FIRST, ASSIGNED, *between, *begins(to))


LATE: Call = ("c0#0", "commit", {"offsets": {"t:0": 2}, "group": "g", "generation": 1})
RESUMED: dict[str, tuple[list[Call], str]] = {
    "it was answered the commit": ([asked(4)], VIOLATED),
    "it did not tell what it was answered": ([], VIOLATED),
    "it was told to begin below (G7)": ([asked(2)], HOLDS),
    "it sought back": ([("c1#0", "seek", {"offsets": {"t:0": 2}})], NOT_CHECKED),
    "its position was reset": (
        [("c1#0", "reset", {"offsets": {"t:0": 2}, "reason": "out_of_range"})],
        NOT_CHECKED,
    ),
    "the former owner committed less in between": ([LATE], HOLDS),
    "such a commit was not answered": ([(*LATE[:2], LATE[2] | {"outcome": "info"})], HOLDS),
}


@pytest.mark.parametrize("how", RESUMED)
def test_a_new_owner_does_not_begin_below_the_commit(how: str, tmp_path: Path) -> None:
    between, verdict = RESUMED[how]
    found = reported(tmp_path, *handed_over(*between))
    assert found["G10"].verdict == verdict, found["G10"].reason
    assert found["G9"].verdict == ALLOWED


def test_what_a_crash_lets_a_group_be_given_again_lies_at_its_commit(tmp_path: Path) -> None:
    assert reported(tmp_path, *handed_over(asked(4), to=4))["G10"].verdict == HOLDS


def test_a_group_that_may_have_been_made_again_is_not_accused(tmp_path: Path) -> None:
    lines, meta = handed_over(to=0)
    reported_later = [line for line in lines["c1#0"] if line["op"] == "assigned"]
    reported_later[0]["generation"] = 0
    assert reported(tmp_path, lines, meta)["G10"].verdict == NOT_CHECKED
    meta["topics"]["t"]["min_insync_replicas"] = 1  # which permits a loss, but nothing was lost
    assert reported(tmp_path / "1", lines, meta)["G10"].verdict == NOT_CHECKED


def habit(order: str, *calls: Call) -> tuple[Lines, dict[str, Any]]:
    lines, meta = trace(*SENT, *calls, scan(*RECORDS, end=6))
    for one in meta["consumers"].values():
        one["commit_order"] = order
    return lines, meta


POLLED, PROCESSED, COMMITTED = FIRST[1], FIRST[2], FIRST[3]


@pytest.mark.parametrize(
    ("order", "calls", "verdict", "count"),
    [
        ("process_then_commit", [POLLED, COMMITTED, PROCESSED], VIOLATED, 4),
        ("process_then_commit", [POLLED, PROCESSED, COMMITTED], HOLDS, 0),
        ("process_then_commit", [POLLED, PROCESSED, COMMITTED, PROCESSED], HOLDS, 0),
        ("process_then_commit", [POLLED, COMMITTED, POLLED, PROCESSED], HOLDS, 0),
        ("commit_then_process", [POLLED, COMMITTED, PROCESSED], NOT_CHECKED, 0),
    ],
)
def test_a_commit_before_processing_is_told_before_anybody_crashes(
    order: str, calls: list[Call], verdict: str, count: int, tmp_path: Path
) -> None:
    found = reported(tmp_path, *habit(order, *calls))["G13"]
    assert (found.verdict, found.count) == (verdict, count), found.reason


BY_ANOTHER = {"other_thread": True}
PROCESSED_APART: Call = (*PROCESSED[:2], PROCESSED[2] | BY_ANOTHER)
COMMITTED_APART: Call = (*COMMITTED[:2], COMMITTED[2] | BY_ANOTHER)


@pytest.mark.parametrize(
    ("calls", "verdict"),
    [
        ([POLLED, COMMITTED, PROCESSED_APART], NOT_CHECKED),
        ([POLLED, COMMITTED_APART, PROCESSED], NOT_CHECKED),
        ([POLLED, COMMITTED_APART, COMMITTED, PROCESSED], VIOLATED),
    ],
)
def test_the_order_of_lines_of_two_threads_proves_nothing(
    calls: list[Call], verdict: str, tmp_path: Path
) -> None:
    """A worker is done, the thread that polls commits, and then the worker's line is written."""
    found = reported(tmp_path, *habit("process_then_commit", *calls))["G13"]
    assert (found.verdict, found.count) == (verdict, 4), found.reason


@pytest.mark.parametrize("late", [0, 1])
def test_a_commit_that_has_not_returned_is_not_before_the_processing(
    late: int, tmp_path: Path
) -> None:
    lines, meta = habit("process_then_commit", POLLED, COMMITTED, PROCESSED)
    commit, done = (line for line in lines["c0#0"] if line["op"] in ("commit", "process"))
    commit["returned_ns"] = done["invoked_ns"] - 1 + late
    found = reported(tmp_path, lines, meta)["G13"]
    assert (found.verdict, found.count) == ((VIOLATED, NOT_CHECKED)[late], 4), found.reason


def test_g9_leaves_exactly_once_to_t9_and_t10(tmp_path: Path) -> None:
    """Records that an aborted transaction had consumed are delivered again, by the thousand."""
    twice = [POLLED, POLLED]
    assert reported(tmp_path, *habit("none", *twice))["G9"].verdict == ALLOWED
    found = reported(tmp_path, *habit("transaction", *twice))["G9"]
    assert (found.verdict, found.count) == (NOT_CHECKED, 0)


EMPTY: Call = (
    "c0#0",
    "poll",
    {"records": [], "high_watermark": {"t:0": 6}, "isolation": "read_uncommitted", "group": "g"},
)
READ: Call = ("c0#0", "poll", EMPTY[2] | {"records": RECORDS[:4]})
REST: Call = ("c0#0", "poll", EMPTY[2] | {"records": RECORDS[4:]})
PAUSE: Call = ("c0#0", "pause", {"partitions": ["t:0"]})
STANDING: dict[str, tuple[list[Call], str]] = {
    "it is given nothing to its end": ([READ, EMPTY, EMPTY, EMPTY], ALLOWED),
    "it goes on at last": ([READ, EMPTY, EMPTY, EMPTY, REST], HOLDS),
    "it is at the end": ([READ, REST, EMPTY, EMPTY, EMPTY], HOLDS),
    "it has paused": ([READ, PAUSE, EMPTY, EMPTY, EMPTY], HOLDS),
    "a fetch may be on its way": ([READ, EMPTY, EMPTY], HOLDS),
}


@pytest.mark.parametrize("how", STANDING)
def test_a_reader_that_stands_still_below_the_end_is_told(how: str, tmp_path: Path) -> None:
    calls, verdict = STANDING[how]
    start: Call = ("c0#0", "assign", {"partitions": ["t:0"], "offsets": {"t:0": 0}})
    found = reported(tmp_path, *trace(*SENT, start, *calls, scan(*RECORDS, end=6)))["C8"]
    assert found.verdict == verdict, found.reason


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_a_reader_has_not_skipped_what_the_log_had_lost(policy: str, tmp_path: Path) -> None:
    """C1 and L3 look at two things: at what was there, and at what had to be."""
    kept = [record(n + 1, n, key=f"k{n}", tombstone=False) for n in range(3)]
    calls: list[Call] = [("p0#0", "send", {"records": [one]}) for one in kept]
    passing = {"records": [record(1, 0), record(3, 2)], "isolation": "read_uncommitted"}
    first: Call = ("scan#0", "list_offsets", {"query": "earliest", "offsets": {"t:0": 0}})
    start: Call = ("c0#0", "assign", {"partitions": ["t:0"], "offsets": {"t:0": 0}})
    last = scan(record(1, 0), record(3, 2), end=3)
    lines, meta = trace(*calls, first, start, ("c0#0", "poll", passing), last)
    meta["topics"]["t"] |= {"cleanup_policy": policy, "delete_retention_ms": 1000}
    found = reported(tmp_path, lines, meta)
    assert {id: found[id].verdict for id in ("L3", "L4", "C1")} == {
        "L3": VIOLATED,
        "L4": VIOLATED,
        "C1": HOLDS,
    }
