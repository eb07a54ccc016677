"""Kafka's producer in some kept scripts; `test_java_producers.py` plays thousands."""

import json
from pathlib import Path

import pytest

from tests.refimpl.clients.producer.scripts import difference, script_of

KEPT = Path(__file__).with_name("kafka_answers.ndjson").read_text().splitlines()


@pytest.mark.parametrize("line", KEPT, ids=lambda line: str(json.loads(line)["seed"]))
def test_each_step_is_that_of_kafkas_producer(line: str) -> None:
    kept = json.loads(line)
    assert difference(script_of(kept["seed"]), kept["answers"]) is None
