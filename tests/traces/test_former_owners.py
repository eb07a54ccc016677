"""G12: who was given a partition later commits it later, whatever epochs the members are in."""

from pathlib import Path

import pytest

from tests.traces.judging import judged_lines
from tests.traces.small import trace
from tests.traces.stories import stories, story

HISTORIES = stories("former_owners")


@pytest.mark.parametrize("name", HISTORIES)
def test_offsets_of_a_former_owner_are_not_taken_after_the_new_owners(
    name: str, tmp_path: Path
) -> None:
    (expected,) = HISTORIES[name].words
    lines, meta = trace(*story("p send 1@0"), *HISTORIES[name].calls, *story("scan end=1"))
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
