"""Kafka's member of a group in some kept scripts; `test_java_coordinators.py` plays hundreds."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.refimpl.clients.consumer.coordinator_scripts import Script

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
