"""Recordings of a real Kafka cluster, broken on purpose: what is in them is what is found."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.traces.judging import counts, judged, said, verdicts
from traces.verdicts.judged import Judged

ROOT = Path(__file__).parents[2]
KEPT = Path(__file__).parent / "data" / "recordings"
SHARED = Path(os.environ.get("HIGHWATER_SHARED", ROOT.parent / "shared")) / "recordings"

# What was done to the cluster, and so what must have been broken: as the configuration of the
# clients and topics permits (their meta.json says how), or not at all.
ALLOWED: dict[str, set[str]] = {
    "healthy-acks-all": set(),
    "leader-kill-acks1": {"L1", "L3", "L4", "L9", "P1"},
    "zombie-leader-mixed-acks": {"L1", "L2", "L3", "L4", "L9", "P1", "G9"},
    "unclean-election": {"L1", "L2", "L3", "L4", "L9", "L15", "P1", "C2", "G5", "G9"},
    "retry-duplicates": {"L2"},
    "at-most-once": {"G8"},
    "at-least-once": {"G9"},
    "auto-commit": {"G8", "G9"},
    "rebalance-storm-range": {"G9"},
    "transactions": set(),
}
CHECKED_EVERYWHERE = {
    *("L1", "L2", "L3", "L4", "L5", "L6", "L8", "L9", "L10", "L12", "L15", "L20", "P1"),
    *("C1", "C2", "C3", "C4", "G1", "G5", "G6", "G8", "G9", "G10"),
}


def expected_counts(truth: dict[str, Any]) -> dict[str, int]:
    """The truth's counts, under the ids of the checks that must come to them."""
    log, groups = truth["counts"], truth.get("groups", {}).values()
    delivered_then_lost = log["polled_but_not_there_in_scan"]
    return {
        "L1": log["offsets_with_two_ids"],
        "L2": log["duplicate_ids_in_scan"],
        "L3": log["acked_not_in_scan_lost"] - delivered_then_lost,
        "L4": log["acked_not_in_scan_lost"],
        "L5": log["scan_ids_never_sent"],
        "L6": log["fail_in_scan"],
        "L8": log["acked_but_at_another_offset"],
        "L15": delivered_then_lost,
        "P1": log["ack_order_inversions"],
        "G5": sum(group["commits_going_back"] for group in groups),
        "G8": sum(group["committed_but_never_processed"] for group in groups),
        "G9": sum(group["redelivered_records"] for group in groups),
    }


def assert_is_its_truth(one: Judged, truth: dict[str, Any]) -> None:
    found, run = counts(one), truth["run"]
    expected = expected_counts(truth)
    assert {id: found.get(id, 0) for id in expected} == expected
    assert said(one, "allowed") == ALLOWED[run]
    assert said(one, "violated") == set()
    assert said(one, "holds") >= CHECKED_EVERYWHERE - ALLOWED[run]
    assert one.run is not None
    assert one.run.calls == truth["lines"]
    assert one.run.warnings == []


@pytest.mark.parametrize("name", ["auto-commit", "healthy-acks-all"])
def test_a_recording_that_we_keep_gets_its_truth(name: str) -> None:
    truth = json.loads((KEPT / f"{name}.truth.json").read_text())
    assert_is_its_truth(judged(KEPT / name), truth)


@pytest.mark.parametrize("name", sorted(set(ALLOWED) - {"auto-commit", "healthy-acks-all"}))
def test_a_recording_of_the_full_set_gets_its_truth(name: str) -> None:
    if not (SHARED / name).is_dir():
        pytest.skip(
            f"there are no recordings in {SHARED}; set HIGHWATER_SHARED to have them checked"
        )
    truth = json.loads((SHARED / f"{name}.truth.json").read_text())
    one = judged(SHARED / name)
    assert_is_its_truth(one, truth)
    if name == "transactions":
        transactions = {"P3", "P4", "T1", "T2", "T3", "T4", "T8"}
        assert transactions <= said(one, "holds")


def test_strict_calls_what_the_configuration_permits_a_violation() -> None:
    lenient, strict = judged(KEPT / "auto-commit"), judged(KEPT / "auto-commit", strict=True)
    assert lenient.verdict == "allowed"
    assert strict.verdict == "violated"
    assert said(strict, "violated") == said(lenient, "allowed")
    assert counts(strict) == counts(lenient)


def test_the_reason_names_the_line_of_the_configuration() -> None:
    one = judged(KEPT / "auto-commit")
    reasons = {v.check: v.reason for v in one.verdicts}
    assert reasons["G8"] == "allowed because consumers of group g: commit_order = auto"
    assert verdicts(one)["L4"] == "holds"


def test_witnesses_are_few_and_counts_are_exact() -> None:
    one = judged(KEPT / "auto-commit").as_json()["checks"]["G9"]
    assert one["count"] == 400
    assert len(one["witnesses"]) == 10
    for witness in one["witnesses"]:
        first, second = witness["events"]
        assert (first["op"], second["op"]) == ("poll", "poll")
        assert (first["offset"], first["id"]) == (second["offset"], second["id"])
        assert first["process"] != second["process"]
        assert witness["allowed_by"] == "consumers of group g: commit_order = auto"
