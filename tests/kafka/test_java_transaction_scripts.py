"""Our producer's transactions beside Kafka's own TransactionManager: scripts, step by step."""

import json
import os
import subprocess
from typing import Any

import pytest

from chaos.real.kafka.judge import java
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
    line = json.dumps(given | {"steps": steps}) + "\n"
    done = subprocess.run(java(PLAYER), input=line, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


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
    with subprocess.Popen(
        java(PLAYER),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as jvm:
        assert jvm.stdin is not None
        assert jvm.stdout is not None
        for seed in range(SEED, SEED + SCRIPTS):
            script = transaction_script_of(seed)
            jvm.stdin.write(json.dumps(script) + "\n")
            jvm.stdin.flush()
            theirs = json.loads(jvm.stdout.readline())
            found, same = difference(script, theirs)
            assert found is None, f"seed {seed}: {found}"
            compared, steps = compared + same, steps + len(script["steps"])
            asked += sum("api" in one for step in theirs[:same] for one in step["sent"])
            errors |= {one.get("error", "") for step in theirs[:same] for one in step["calls"]}
        jvm.stdin.close()
    # Where ours differs on purpose, the rest of a script is not compared.
    assert compared > 0.6 * steps
    assert asked > 4 * SCRIPTS
    assert len(errors) > 12
