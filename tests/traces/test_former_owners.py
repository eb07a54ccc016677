"""G12: who was given a partition later commits it later, whatever epochs the members are in."""

from pathlib import Path

import pytest

from tests.traces.fixture import Line
from tests.traces.judging import judged_lines
from tests.traces.small import record, scan, trace

Call = tuple[str, str, Line]


def given(member: str, epoch: int) -> Call:
    line = {"partitions": ["t:0"], "group": "g", "member": member, "generation": epoch}
    return f"c-{member}#0", "assigned", line


def given_up(member: str, epoch: int) -> Call:
    process, _, line = given(member, epoch)
    return process, "revoked", line


def sent(member: str, epoch: int, **more: object) -> Call:
    own = {"group": "g", "member": member, "generation": epoch, "offsets": {"t:0": 1}, "txn": 0}
    return f"p-{member}#0", "txn_offsets", {**own, "transactional_id": member, **more}


TAKEN_OVER = given("a", 2), given_up("a", 2), given("b", 4), sent("b", 4)
HISTORIES: dict[str, tuple[str, tuple[Call, ...]]] = {
    # The finding in Kafka: `a` is asked to give up one more, so its epoch stays.
    "a former owner's": ("violated", (*TAKEN_OVER, sent("a", 2))),
    "a former owner's, refused": ("not checked", (*TAKEN_OVER, sent("a", 2, outcome="fail"))),
    "nobody knows whether taken": ("not checked", (*TAKEN_OVER, sent("a", 2, outcome="info"))),
    "an owner's again": ("holds", (*TAKEN_OVER, given_up("b", 4), given("a", 5), sent("a", 5))),
    # A group that was deleted begins with the first epoch again.
    "an owner's of a new group": (
        "holds",
        (*TAKEN_OVER, given_up("b", 4), given("a", 2), sent("a", 2)),
    ),
    # KIP-1251: an older epoch will do, if the member has had the partition since then.
    "an owner's older epoch": (
        "holds",
        (given("b", 2), given_up("b", 2), sent("b", 2), given("a", 3), sent("a", 4), sent("a", 3)),
    ),
    # Not an owner at all: what it commits beside the owner says nothing of the owner.
    "an owner's, beside another's": ("holds", (given("a", 2), sent("b", 4), sent("a", 2))),
    "one member's": ("not checked", (given("a", 2), sent("a", 4), sent("a", 2))),
    "made before the other was answered": (
        "not checked",
        (*TAKEN_OVER, sent("a", 2, invoked_ns=41)),
    ),
    "one of another clock": ("not checked", (*TAKEN_OVER, sent("a", 2, clock="elsewhere"))),
}


@pytest.mark.parametrize("name", HISTORIES)
def test_offsets_of_a_former_owner_are_not_taken_after_the_new_owners(
    name: str, tmp_path: Path
) -> None:
    expected, calls = HISTORIES[name]
    lines, meta = trace(("p#0", "send", {"records": [record(1, 0)]}), *calls, scan(end=1))
    for consumer in meta["consumers"].values():
        consumer |= {"group": "g", "group_protocol": "consumer"}
    one = judged_lines(tmp_path, lines, meta)
    verdict = {v.check: v for v in one.verdicts}["G12"]
    assert verdict.verdict == expected, verdict.reason
    if expected == "violated":
        (witness,) = one.as_json()["checks"]["G12"]["witnesses"]
        events = [(e["process"], e["op"]) for e in witness["events"]]
        assert events == [
            *(("c-a#0", "assigned"), ("c-b#0", "assigned")),
            *(("p-b#0", "txn_offsets"), ("p-a#0", "txn_offsets")),
        ]
