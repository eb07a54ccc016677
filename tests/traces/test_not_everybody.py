"""Recordings in which not everybody was recorded, and records that are left out on purpose."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.traces.judging import judged, judged_lines, verdicts
from tests.traces.search import broken_somewhere
from tests.traces.small import STARTS, TXN, Call, Lines, polled, record, scan, sent, trace
from traces.second_checker.opinion import opinion_on
from traces.second_checker.read import from_lines

GROUP = {"group": "g"}
Change = Callable[[dict[str, Any]], None]


def some(meta: dict[str, Any]) -> None:
    meta["senders"] = "some"


def some_to_the_topic(meta: dict[str, Any]) -> None:
    meta["senders"], meta["topics"]["t"]["senders"] = "all", "some"


def every(meta: dict[str, Any]) -> None:
    meta["senders"] = "all"


def all_to_the_topic(meta: dict[str, Any]) -> None:
    meta["senders"], meta["topics"]["t"]["senders"] = "some", "all"


def as_it_is(_meta: dict[str, Any]) -> None:
    """Nothing is said of senders."""


def running(meta: dict[str, Any]) -> None:
    meta["complete"] = False


PHANTOM = [sent("p0#0", 1, 0), STARTS, scan(record(1, 0), record(9, 1), end=2)]
ALONE = [STARTS, scan(record(9, 0), end=1)]


@pytest.mark.parametrize(
    ("calls", "change", "verdict"),
    [
        (PHANTOM, as_it_is, "violated"),
        (PHANTOM, every, "violated"),
        (PHANTOM, all_to_the_topic, "violated"),
        (PHANTOM, some, "not checked"),
        (PHANTOM, some_to_the_topic, "not checked"),
        (PHANTOM, running, "not checked"),
        (ALONE, as_it_is, "not checked"),
        (ALONE, every, "violated"),
        (ALONE, running, "not checked"),
    ],
)
def test_a_record_that_nobody_sent_may_be_one_of_somebody_who_was_not_recorded(
    tmp_path: Path, calls: list[Call], change: Change, verdict: str
) -> None:
    lines, meta = trace(*calls)
    change(meta)
    one = judged_lines(tmp_path, lines, meta)
    assert verdicts(one)["L5"] == verdict
    witness = {"events": [_event(lines["scan#0"][-2], lines["scan#0"][-2]["records"][-1])]}
    confirmed = opinion_on(from_lines(lines, meta), "L5", witness)
    assert (type(confirmed).__name__ == "Confirmed") == (verdict == "violated")


def _event(line: dict[str, Any], of: dict[str, Any]) -> dict[str, Any]:
    names = ("process", "seq", "op", "outcome", "group", "invoked_ns", "returned_ns")
    about = {name: line.get(name) for name in names}
    return about | {"partition": f"{of['topic']}:{of['partition']}", **_location(of)}


def _location(of: dict[str, Any]) -> dict[str, Any]:
    return {"offset": of.get("offset"), "id": of.get("id")}


COPIED: dict[str, list[Call]] = {
    "L2": [sent("p0#0", 1, 0), STARTS, scan(record(1, 0), record(1, 1), end=2)],
    "L6": [sent("p0#0", 1, outcome="fail"), STARTS, scan(record(1, 0), end=1)],
    "L7": [
        ("p0#0", "send", {"records": [record(1, 0, hash=5)]}),
        STARTS,
        scan(record(1, 0, hash=6), end=1),
    ],
    "L10": [STARTS, scan(record(1, 0), end=1), sent("p0#0", 1, 0)],
    "T4": [
        ("p0#0", "txn_begin", TXN),
        ("p0#0", "send", {"records": [record(1, 0)], **TXN}),
        ("p0#0", "txn_abort", TXN),
        sent("p0#0", 2, 2),
        polled("c0#0", record(1, 0), **GROUP),
        STARTS,
        scan(record(1, 0), record(2, 2), end=3),
    ],
}


@pytest.mark.parametrize("check", COPIED)
def test_a_record_may_have_been_sent_by_somebody_else_as_well(tmp_path: Path, check: str) -> None:
    lines, meta = trace(*COPIED[check])
    assert verdicts(judged_lines(tmp_path / "all", lines, meta))[check] == "violated"
    assert broken_somewhere(from_lines(lines, meta), check)
    some(meta)
    assert verdicts(judged_lines(tmp_path / "some", lines, meta))[check] == "not checked"


def test_what_a_recorded_sender_was_promised_is_owed_whoever_else_sends(tmp_path: Path) -> None:
    calls = [sent("p0#0", 1, 0), sent("p0#0", 2, 1), STARTS, scan(record(1, 0), end=2)]
    lines, meta = trace(*calls)
    some(meta)
    one = verdicts(judged_lines(tmp_path, lines, meta))
    assert one["L4"] == "violated"


def keyed(id: int, offset: int, key: str) -> Call:
    return sent_with(record(id, offset, key=key, tombstone=False))


def sent_with(of: dict[str, Any]) -> Call:
    return "p0#0", "send", {"records": [of]}


def test_a_key_may_have_been_replaced_by_somebody_else(tmp_path: Path) -> None:
    """The record of another sender stood above it when the log was compacted."""
    lines, meta = trace(
        keyed(1, 0, "a"), keyed(2, 1, "b"), STARTS, scan(record(2, 1), record(9, 2), end=3)
    )
    meta["topics"]["t"] |= {"cleanup_policy": "compact", "delete_retention_ms": 86_400_000}
    one = verdicts(judged_lines(tmp_path / "all", lines, meta))
    assert one["L4"] == one["L18"] == "violated"
    some(meta)
    one = verdicts(judged_lines(tmp_path / "some", lines, meta))
    assert one["L4"] == one["L3"] == one["L18"] == "not checked"


def test_readers_of_a_topic_whose_senders_nobody_recorded_are_held_against_each_other(
    tmp_path: Path,
) -> None:
    given = [record(n, n) for n in range(3)]
    for isolation, skipped in (("read_committed", "violated"), ("read_uncommitted", "holds")):
        lines, meta = trace(
            ("c0#0", "assign", {"partitions": ["t:0"], "offsets": {"t:0": 0}}),
            polled("c0#0", given[0], given[2]),
            ("c1#0", "assign", {"partitions": ["t:0"], "offsets": {"t:0": 0}}),
            ("c1#0", "poll", {"records": given, "isolation": isolation}),
            STARTS,
            scan(*given, end=3),
        )
        one = judged_lines(tmp_path / isolation, lines, meta)
        assert verdicts(one)["C1"] == skipped


def handled(*ids: int, also: list[Call]) -> list[Call]:
    """A group is given five records, and processes these of them before it does anything else."""
    given = [record(n, n) for n in range(5)]
    return [
        *(sent("p0#0", n, n) for n in range(5)),
        ("c0#0", "assigned", {"partitions": ["t:0"], "generation": 1, **GROUP}),
        ("c0#0", "committed", {"partitions": ["t:0"], "offsets": {}, "generation": 1, **GROUP}),
        polled("c0#0", *given, **GROUP),
        ("c0#0", "process", {"records": [given[n] for n in ids], **GROUP}),
        *also,
        ("c0#0", "commit", {"offsets": {"t:0": 5}, "generation": 1, **GROUP}),
        STARTS,
        scan(*given, end=5),
    ]


def sought(offset: int) -> Call:
    return "c0#0", "seek", {"partitions": ["t:0"], "offsets": {"t:0": offset}}


def again(*ids: int) -> list[Call]:
    given = [record(n, n) for n in ids]
    return [polled("c0#0", *given, **GROUP), ("c0#0", "process", {"records": given, **GROUP})]


PAST = {
    "a seek past what could not be processed": (handled(0, 1, also=[sought(3), *again(3, 4)]), 0),
    "a commit of what was not processed": (handled(0, 1, also=again(3, 4)), 1),
    "a seek back to what was not processed": (handled(0, 1, also=[sought(2), *again(2, 3, 4)]), 0),
    "a seek back that leaves nothing out": (handled(0, 2, also=[sought(3), *again(3, 4)]), 1),
    "a seek past what was tried twice": (
        handled(0, 1, also=[sought(2), sought(3), *again(3, 4)]),
        0,
    ),
    "a seek past all": (handled(0, also=[sought(5)]), 0),
    "a seek back to the beginning": (handled(0, 3, also=[sought(0), *again(0, 1)]), 2),
}


@pytest.mark.parametrize("name", PAST)
def test_what_is_passed_by_a_seek_is_not_owed(tmp_path: Path, name: str) -> None:
    calls, missed = PAST[name]
    lines, meta = trace(*calls)
    one = judged_lines(tmp_path, lines, meta)
    found = next(v for v in one.verdicts if v.check == "G8")
    assert (found.verdict, found.count) == (("violated", missed) if missed else ("holds", 0))
    assert (broken_somewhere(from_lines(lines, meta), "G8") is not None) == bool(missed)
    _confirmed(lines, meta, one, "G8", bool(missed))


def _confirmed(lines: Lines, meta: dict[str, Any], one: Any, check: str, expected: bool) -> None:
    found = next(v for v in one.verdicts if v.check == check)
    history = from_lines(lines, meta)
    opinions = [opinion_on(history, check, one.witness(w)) for w in found.witnesses]
    assert all(type(o).__name__ == "Confirmed" for o in opinions)
    assert bool(opinions) == expected
    if check == "G8" and not expected:  # nor does the second checker find any
        commit = next(x for x in lines["c0#0"] if x["op"] == "commit")
        at = _event(commit, {"topic": "t", "partition": 0, "offset": 5})
        for of in lines["scan#0"][-2]["records"]:
            events = [_event(lines["scan#0"][-2], of), at]
            assert type(opinion_on(history, check, {"events": events})).__name__ == "Refuted"


DATA = Path(__file__).parent / "data"


def test_consumers_that_were_recorded_alone_are_not_told_what_nobody_sent() -> None:
    """Real Kafka: `record-scan` while the producer still ran; its journal is not here."""
    one = judged(DATA / "producer-still-running")
    assert "violated" not in verdicts(one).values()
    (why,) = (v.reason for v in one.verdicts if v.check == "L5")
    assert why == "10 found, and nobody who sends to al1795848088 was recorded"


@pytest.mark.parametrize("kept", range(1, 5))
def test_a_sender_that_still_runs_may_have_sent_what_its_file_lacks(
    tmp_path: Path, kept: int
) -> None:
    given = [record(n, n) for n in range(4)]
    lines, meta = trace(*(sent("p0#0", n, n) for n in range(4)), STARTS, scan(*given, end=4))
    lines["p0#0"] = lines["p0#0"][:kept]  # it ends with neither close nor crash
    meta["complete"] = False
    one = verdicts(judged_lines(tmp_path, lines, meta))
    assert "violated" not in one.values()
