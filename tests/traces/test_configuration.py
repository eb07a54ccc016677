"""The same events, another configuration: what was promised decides what is a violation."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.traces.fixture import fixture
from tests.traces.judging import judged_lines
from traces.generate.small import IN_CALLS, injected
from traces.verdicts.verdict import UNTOLD, Verdict

Settings = dict[str, Any]


def verdict(
    folder: Path, mutation: str, id: str, settings: Settings, strict: bool = False
) -> Verdict:
    """The verdict of check `id` on an anomaly under these settings (None removes one)."""
    lines, meta = injected(fixture(7), IN_CALLS[mutation])
    for path, value in settings.items():
        kind, name = path.split(".")
        for one in meta[kind].values():
            one.pop(name) if value is None else one.update({name: value})
    judged = judged_lines(folder, lines, deepcopy(meta), strict=strict)
    return {v.check: v for v in judged.verdicts}[id]


UNCLEAN = {"topics.unclean_leader_election": True}
FORGETS = {"topics.flush_loses": True}
NOT_IDEMPOTENT: Settings = {"producers.idempotence": False}
COMMITS_FIRST = {"consumers.commit_order": "commit_then_process"}
COMMITS_LAST = {"consumers.commit_order": "process_then_commit"}
#: By an anomaly and the check it is about: settings, the verdict, and words of its reason.
CASES: dict[tuple[str, str], list[tuple[Settings, str, str]]] = {
    ("lost", "L4"): [
        ({}, "violated", "producers.acks is not all"),
        ({"producers.acks": "1"}, "allowed", "acks = 1"),
        ({"producers.acks": "0"}, "allowed", "acks = 0"),
        ({"producers.acks": "-1"}, "violated", "acks"),
        ({"producers.acks": None}, "not checked", UNTOLD),
        (UNCLEAN, "allowed", "topics.t.unclean_leader_election = true"),
        ({"topics.min_insync_replicas": 1}, "allowed", "topics.t.min_insync_replicas = 1"),
        ({"topics.min_insync_replicas": None}, "not checked", UNTOLD),
        # A machine that dies may come back as the last in sync, without its page cache (KIP-966).
        (FORGETS, "allowed", "topics.t.flush_loses = true, without eligible_leader_replicas"),
        (FORGETS | {"topics.eligible_leader_replicas": True}, "violated", "acks"),
        # What makes the loss legal is known, whatever else is not.
        ({"producers.acks": "1", "topics.unclean_leader_election": None}, "allowed", "acks = 1"),
    ],
    ("duplicate", "L2"): [
        ({}, "violated", "idempotence"),
        (NOT_IDEMPOTENT, "allowed", "idempotence = false"),
        ({"producers.idempotence": None}, "not checked", UNTOLD),
    ],
    ("reordered", "P1"): [
        ({}, "violated", "max_in_flight"),
        (NOT_IDEMPOTENT, "allowed", "max_in_flight = 5"),
        (NOT_IDEMPOTENT | {"producers.max_in_flight": 1}, "violated", "max_in_flight"),
        (NOT_IDEMPOTENT | {"producers.retries": 0}, "violated", "max_in_flight"),
        (NOT_IDEMPOTENT | {"producers.max_in_flight": None}, "not checked", UNTOLD),
    ],
    ("committed_back", "G5"): [
        ({}, "violated", "truncated"),
        (UNCLEAN, "allowed", "unclean_leader_election = true"),
    ],
    ("unprocessed", "G8"): [
        ({}, "violated", "commit_order"),
        (COMMITS_FIRST, "allowed", "commit_order = commit_then_process"),
        ({"consumers.auto_commit": True}, "allowed", "group g"),
        ({"consumers.commit_order": None}, "not checked", "tell"),
    ],
    ("skipped", "G8"): [
        # What nobody was given cannot be excused by the order of commit and processing.
        (COMMITS_FIRST, "violated", "commit_order"),
    ],
    ("given_again", "G9"): [
        ({}, "violated", "commit_then_process"),
        (COMMITS_LAST, "allowed", "commit_order = process_then_commit"),
    ],
    ("phantom", "L5"): [(UNCLEAN, "violated", "never allowed")],
    ("denied", "L6"): [({"producers.acks": "1"}, "violated", "never allowed")],
    ("aborted_read", "T4"): [({"topics.min_insync_replicas": 1}, "violated", "never allowed")],
}
ROWS = [
    (about, settings, expected, words)
    for about, rows in CASES.items()
    for settings, expected, words in rows
]


@pytest.mark.parametrize(("about", "settings", "expected", "words"), ROWS)
def test_the_configuration_decides(
    tmp_path: Path, about: tuple[str, str], settings: Settings, expected: str, words: str
) -> None:
    found = verdict(tmp_path, *about, settings)
    assert (found.verdict, found.count > 0) == (expected, True)
    assert words in found.reason


@pytest.mark.parametrize(("about", "settings"), [row[:2] for row in ROWS])
def test_strict_asks_for_no_excuse(
    tmp_path: Path, about: tuple[str, str], settings: Settings
) -> None:
    assert verdict(tmp_path, *about, settings, strict=True).verdict == "violated"


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
