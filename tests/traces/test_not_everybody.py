"""Recordings in which not everybody was recorded, and records that are left out on purpose."""

from pathlib import Path
from typing import Any

import pytest

from tests.traces.judging import judged, judged_lines, verdicts
from tests.traces.search import broken_somewhere
from tests.traces.small import Call, Lines, trace
from tests.traces.stories import stories, story
from traces.second_checker.opinion import opinion_on
from traces.second_checker.read import from_lines

Settings = dict[str, Any]
SOME: Settings = {"senders": "some"}
RUNNING: Settings = {"complete": False}


PHANTOM = story("p0 send 1@0; STARTS; scan 1@0 9@1 end=2")
ALONE = story("STARTS; scan 9@0 end=1")


@pytest.mark.parametrize(
    ("calls", "settings", "topic", "verdict"),
    [
        (PHANTOM, {}, {}, "violated"),
        (PHANTOM, {"senders": "all"}, {}, "violated"),
        (PHANTOM, SOME, {"senders": "all"}, "violated"),
        (PHANTOM, SOME, {}, "not checked"),
        (PHANTOM, {"senders": "all"}, SOME, "not checked"),
        (PHANTOM, RUNNING, {}, "not checked"),
        (ALONE, {}, {}, "not checked"),
        (ALONE, {"senders": "all"}, {}, "violated"),
        (ALONE, RUNNING, {}, "not checked"),
    ],
)
def test_a_record_that_nobody_sent_may_be_one_of_somebody_who_was_not_recorded(
    tmp_path: Path, calls: list[Call], settings: Settings, topic: Settings, verdict: str
) -> None:
    lines, meta = trace(*calls)
    meta |= settings
    meta["topics"]["t"] |= topic
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


COPIED = {
    "L2": "p0 send 1@0; STARTS; scan 1@0 1@1 end=2",
    "L6": "p0 send 1 outcome=fail; STARTS; scan 1@0 end=1",
    "L7": "p0 send 1@0(hash=5); STARTS; scan 1@0(hash=6) end=1",
    "L10": "STARTS; scan 1@0 end=1; p0 send 1@0",
    "T4": """
        p0 txn_begin TXN; p0 send 1@0 TXN; p0 txn_abort TXN; p0 send 2@2; c0 poll 1@0 group=g
        STARTS; scan 1@0 2@2 end=3
    """,
}


@pytest.mark.parametrize("check", COPIED)
def test_a_record_may_have_been_sent_by_somebody_else_as_well(tmp_path: Path, check: str) -> None:
    lines, meta = trace(*story(COPIED[check]))
    assert verdicts(judged_lines(tmp_path / "all", lines, meta))[check] == "violated"
    assert broken_somewhere(from_lines(lines, meta), check)
    meta |= SOME
    assert verdicts(judged_lines(tmp_path / "some", lines, meta))[check] == "not checked"


def test_what_a_recorded_sender_was_promised_is_owed_whoever_else_sends(tmp_path: Path) -> None:
    lines, meta = trace(*story("p0 send 1@0; p0 send 2@1; STARTS; scan 1@0 end=2"))
    assert verdicts(judged_lines(tmp_path, lines, meta | SOME))["L4"] == "violated"


def test_a_key_may_have_been_replaced_by_somebody_else(tmp_path: Path) -> None:
    """The record of another sender stood above it when the log was compacted."""
    lines, meta = trace(*story("p0 send 1@0:a; p0 send 2@1:b; STARTS; scan 2@1 9@2 end=3"))
    meta["topics"]["t"] |= {"cleanup_policy": "compact", "delete_retention_ms": 86_400_000}
    one = verdicts(judged_lines(tmp_path / "all", lines, meta))
    assert one["L4"] == one["L18"] == "violated"
    meta |= SOME
    one = verdicts(judged_lines(tmp_path / "some", lines, meta))
    assert one["L4"] == one["L3"] == one["L18"] == "not checked"


def test_readers_of_a_topic_whose_senders_nobody_recorded_are_held_against_each_other(
    tmp_path: Path,
) -> None:
    for isolation, skipped in (("read_committed", "violated"), ("read_uncommitted", "holds")):
        calls = f"""
            c0 assign offsets=0; c0 poll 0@0 2@2; c1 assign offsets=0
            c1 poll 0@0 1@1 2@2 isolation={isolation}; STARTS; scan 0@0 1@1 2@2 end=3
        """
        lines, meta = trace(*story(calls))
        one = judged_lines(tmp_path / isolation, lines, meta)
        assert verdicts(one)["C1"] == skipped


PAST = stories("seeks")


@pytest.mark.parametrize("name", PAST)
def test_what_is_passed_by_a_seek_is_not_owed(tmp_path: Path, name: str) -> None:
    missed = int(PAST[name].words[0])
    lines, meta = trace(*PAST[name].calls)
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
    sends = "p0 send 0@0; p0 send 1@1; p0 send 2@2; p0 send 3@3"
    lines, meta = trace(*story(f"{sends}; STARTS; scan 0@0 1@1 2@2 3@3 end=4"))
    lines["p0#0"] = lines["p0#0"][:kept]  # it ends with neither close nor crash
    meta["complete"] = False
    one = verdicts(judged_lines(tmp_path, lines, meta))
    assert "violated" not in one.values()
