"""Kafka's member of a group in some kept scripts; `test_java_coordinators.py` plays hundreds."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.refimpl.clients.consumer.coordinator_scripts import Ours, Script

HERE = Path(__file__).parent
KEPT = (HERE / "kafka_coordinators.ndjson").read_text().splitlines()
NOTHING: dict[str, Any] = {"sent": [], "calls": [], "commits": [], "assigned": []}


@pytest.mark.parametrize("line", KEPT, ids=lambda line: str(json.loads(line)["seed"]))
def test_each_step_is_that_of_kafkas_member(line: str) -> None:
    kept = json.loads(line)
    events = iter(kept["events"])
    script = Script(kept["seed"], lambda step: {**NOTHING, **next(events)})
    assert script.play(60) is None
    assert next(events, None) is None


def test_a_member_that_has_left_does_not_go_on_with_its_join() -> None:
    ours = Ours(Script(1, lambda step: NOTHING).given)
    ours.play(["subscribe", ["t"]])
    (lookup,) = ours.play(["poll"])["sent"]
    ours.play(["answer", lookup["id"], {"error": ""}])
    (join,) = ours.play(["poll"])["sent"]
    ours.play(["unsubscribe"])
    ours.play(["subscribe", ["u"]])
    joined = {"error": "", "member": "m", "generation": 1, "leader": "x"}
    assert ours.play(["answer", join["id"], joined])["sent"] == []
    assert [one["topics"] for one in ours.play(["poll"])["sent"]] == [["u"]]
