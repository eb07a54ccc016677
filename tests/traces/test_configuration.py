"""The same events, another configuration: what was promised decides what is a violation."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.traces.fixture import fixture
from tests.traces.judging import judged_lines
from traces.generate.small import IN_CALLS, injected
from traces.verdicts.verdict import UNTOLD, Verdict

Setting = tuple[str, Any]


def verdict(
    folder: Path, mutation: str, id: str, *settings: Setting, strict: bool = False
) -> Verdict:
    """The verdict of check `id` on an anomaly under these settings (None removes one)."""
    lines, meta = injected(fixture(7), IN_CALLS[mutation])
    for path, value in settings:
        kind, name = path.split(".")
        for one in meta[kind].values():
            one.pop(name) if value is None else one.update({name: value})
    judged = judged_lines(folder, lines, deepcopy(meta), strict=strict)
    return {v.check: v for v in judged.verdicts}[id]


CASES: list[tuple[str, str, tuple[Setting, ...], str, str]] = [
    ("lost", "L4", (), "violated", "producers.acks is not all"),
    ("lost", "L4", (("producers.acks", "1"),), "allowed", "acks = 1"),
    ("lost", "L4", (("producers.acks", "0"),), "allowed", "acks = 0"),
    ("lost", "L4", (("producers.acks", "-1"),), "violated", "acks"),
    ("lost", "L4", (("producers.acks", None),), "not checked", UNTOLD),
    (
        "lost",
        "L4",
        (("topics.unclean_leader_election", True),),
        "allowed",
        "topics.t.unclean_leader_election = true",
    ),
    (
        "lost",
        "L4",
        (("topics.min_insync_replicas", 1),),
        "allowed",
        "topics.t.min_insync_replicas = 1",
    ),
    ("lost", "L4", (("topics.min_insync_replicas", None),), "not checked", UNTOLD),
    # A machine that dies may come back as the last in sync, without its page cache (KIP-966).
    (
        "lost",
        "L4",
        (("topics.flush_loses", True),),
        "allowed",
        "topics.t.flush_loses = true, without eligible_leader_replicas",
    ),
    (
        "lost",
        "L4",
        (("topics.flush_loses", True), ("topics.eligible_leader_replicas", True)),
        "violated",
        "acks",
    ),
    # What makes the loss legal is known, whatever else is not.
    (
        "lost",
        "L4",
        (("producers.acks", "1"), ("topics.unclean_leader_election", None)),
        "allowed",
        "acks = 1",
    ),
    ("duplicate", "L2", (), "violated", "idempotence"),
    ("duplicate", "L2", (("producers.idempotence", False),), "allowed", "idempotence = false"),
    ("duplicate", "L2", (("producers.idempotence", None),), "not checked", UNTOLD),
    ("reordered", "P1", (), "violated", "max_in_flight"),
    ("reordered", "P1", (("producers.idempotence", False),), "allowed", "max_in_flight = 5"),
    (
        "reordered",
        "P1",
        (("producers.idempotence", False), ("producers.max_in_flight", 1)),
        "violated",
        "max_in_flight",
    ),
    (
        "reordered",
        "P1",
        (("producers.idempotence", False), ("producers.retries", 0)),
        "violated",
        "max_in_flight",
    ),
    (
        "reordered",
        "P1",
        (("producers.idempotence", False), ("producers.max_in_flight", None)),
        "not checked",
        UNTOLD,
    ),
    ("committed_back", "G5", (), "violated", "truncated"),
    (
        "committed_back",
        "G5",
        (("topics.unclean_leader_election", True),),
        "allowed",
        "unclean_leader_election = true",
    ),
    ("unprocessed", "G8", (), "violated", "commit_order"),
    (
        "unprocessed",
        "G8",
        (("consumers.commit_order", "commit_then_process"),),
        "allowed",
        "commit_order = commit_then_process",
    ),
    ("unprocessed", "G8", (("consumers.auto_commit", True),), "allowed", "group g"),
    ("unprocessed", "G8", (("consumers.commit_order", None),), "not checked", "tell"),
    # What nobody was given cannot be excused by the order of commit and processing.
    (
        "skipped",
        "G8",
        (("consumers.commit_order", "commit_then_process"),),
        "violated",
        "commit_order",
    ),
    ("given_again", "G9", (), "violated", "commit_then_process"),
    (
        "given_again",
        "G9",
        (("consumers.commit_order", "process_then_commit"),),
        "allowed",
        "commit_order = process_then_commit",
    ),
    ("phantom", "L5", (("topics.unclean_leader_election", True),), "violated", "never allowed"),
    ("denied", "L6", (("producers.acks", "1"),), "violated", "never allowed"),
    ("aborted_read", "T4", (("topics.min_insync_replicas", 1),), "violated", "never allowed"),
]


@pytest.mark.parametrize(("mutation", "id", "settings", "expected", "words"), CASES)
def test_the_configuration_decides(
    tmp_path: Path,
    mutation: str,
    id: str,
    settings: tuple[Setting, ...],
    expected: str,
    words: str,
) -> None:
    found = verdict(tmp_path, mutation, id, *settings)
    assert (found.verdict, found.count > 0) == (expected, True)
    assert words in found.reason


@pytest.mark.parametrize(("mutation", "id", "settings", "expected", "words"), CASES)
def test_strict_asks_for_no_excuse(
    tmp_path: Path,
    mutation: str,
    id: str,
    settings: tuple[Setting, ...],
    expected: str,
    words: str,
) -> None:
    assert verdict(tmp_path, mutation, id, *settings, strict=True).verdict == "violated"


def test_a_loss_that_nothing_permits_is_not_hidden_by_one_that_acks_permit(tmp_path: Path) -> None:
    """Two producers, two promises: each loss is weighed by its own."""
    w = fixture(7)
    lines, meta = injected(w, IN_CALLS["lost"])
    sent = [x for p in ("p0#0", "p1#0") for x in lines[p] if x["op"] == "send"]
    kept = {r["id"] for x in lines["scan-read_committed#0"] for r in x.get("records", ())}
    first = next(x["process"] for x in sent if x["records"][0]["id"] not in kept)
    other = "p1#0" if first == "p0#0" else "p0#0"
    victim = next(x["records"][0]["id"] for x in sent if x["process"] == other)
    for line in (
        x for mine in lines.values() for x in mine if x["op"] in ("scan", "poll", "process")
    ):
        line["records"] = [r for r in line["records"] if r["id"] != victim]
    meta["producers"][other.partition("#")[0]]["acks"] = "1"
    found = {v.check: v for v in judged_lines(tmp_path, lines, meta).verdicts}["L4"]
    assert (found.verdict, found.count) == ("violated", 2)
    assert found.reason.startswith("1 found; would be allowed only if producers.acks is not all")
    assert found.reason.endswith(f"(1 allowed because producers.{other[:2]}.acks = 1)")
