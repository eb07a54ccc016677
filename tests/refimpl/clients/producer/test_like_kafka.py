"""Kafka's producer in some kept scripts; `test_java_producers.py` and
`test_java_transaction_scripts.py` play thousands."""

import json
from pathlib import Path

import pytest

from tests.refimpl.clients.producer import transaction_scripts
from tests.refimpl.clients.producer.scripts import difference, script_of

HERE = Path(__file__).parent
KEPT = (HERE / "kafka_answers.ndjson").read_text().splitlines()
TRANSACTIONS = (HERE / "kafka_transactions.ndjson").read_text().splitlines()


@pytest.mark.parametrize("line", KEPT, ids=lambda line: str(json.loads(line)["seed"]))
def test_each_step_is_that_of_kafkas_producer(line: str) -> None:
    kept = json.loads(line)
    assert difference(script_of(kept["seed"]), kept["answers"]) is None


@pytest.mark.parametrize("line", TRANSACTIONS, ids=lambda line: str(json.loads(line)["seed"]))
def test_each_step_of_a_transaction_is_that_of_kafkas_producer(line: str) -> None:
    kept = json.loads(line)
    script = transaction_scripts.transaction_script_of(kept["seed"])
    found, compared = transaction_scripts.difference(script, kept["answers"])
    assert (found, compared) == (None, len(kept["answers"]))
