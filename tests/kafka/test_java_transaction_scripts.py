"""Our producer's transactions beside Kafka's own TransactionManager: scripts, step by step."""

import os
from typing import Any

import pytest

from chaos.real.kafka.judge import answering
from tests.refimpl.clients.producer.transaction_scripts import difference, transaction_script_of

SEED = int(os.environ.get("HIGHWATER_SEED", "0"))
SCRIPTS = int(os.environ.get("HIGHWATER_SCRIPTS", "500"))
PLAYER = "org.apache.kafka.clients.producer.internals.ProducerTransactions"

pytestmark = pytest.mark.kafka


BEGUN: list[list[Any]] = [["init"], ["told", {}, False], ["told", {}, False], ["begin"]]
SENT: list[list[Any]] = [["send", 0, 30, 1], ["told", {}, False]]


def played_by_kafka(steps: list[list[Any]], **settings: int) -> list[Any]:
    """The events of Kafka's producer at each step, with one partition."""
    given = transaction_script_of(0) | {"partitions": 1, "nodes": 1, "linger": 0} | settings
    with answering(PLAYER) as kafka:
        return kafka(given | {"steps": steps})


def test_kafkas_producer_writes_a_record_that_it_has_refused() -> None:
    steps: list[list[Any]] = [
        *BEGUN,
        *SENT,
        ["answer", "1", "", 0],
        ["commit"],
        ["told", {}, False],
    ]
    steps += [["send", 0, 30, 2], ["begin"], ["send", 0, 30, 3], ["told", {}, False]]
    *_, refused, _, _, last = played_by_kafka(steps, batch_size=16384)
    assert refused["calls"] == [{"call": "send", "error": "INVALID_TXN_STATE", "id": 2}]
    assert [one["records"] for sent in last["sent"] for one in sent["batches"]] == [[2, 3]]


def test_kafkas_producer_is_stuck_after_an_abort_in_which_a_batch_expires() -> None:
    steps: list[list[Any]] = [*BEGUN, *SENT]
    steps += [["answer", "1", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", 0], ["abort"]]
    steps += [["advance", 800], ["told", {}, False], ["begin"], ["abort"], ["init"]]
    *_, aborted, begin, abort, init = played_by_kafka(steps, delivery_timeout=700)
    assert (aborted["calls"], aborted["state"]) == ([{"call": "abort"}], "initializing")
    for step, kind in (begin, "begin"), (abort, "abort"), (init, "init"):
        assert step["calls"] == [{"call": kind, "error": "INVALID_TXN_STATE"}]
        assert step["sent"] == []


def test_the_same_is_asked_in_the_same_order_and_each_call_ends_with_the_same() -> None:
    compared = steps = asked = 0
    errors: set[str] = set()
    with answering(PLAYER) as kafka:
        for seed in range(SEED, SEED + SCRIPTS):
            script = transaction_script_of(seed)
            theirs = kafka(script)
            found, same = difference(script, theirs)
            assert found is None, f"seed {seed}: {found}"
            compared, steps = compared + same, steps + len(script["steps"])
            asked += sum("api" in one for step in theirs[:same] for one in step["sent"])
            errors |= {one.get("error", "") for step in theirs[:same] for one in step["calls"]}
    # Where ours differs on purpose, the rest of a script is not compared.
    assert compared > 0.6 * steps
    assert asked > 4 * SCRIPTS
    assert len(errors) > 12
