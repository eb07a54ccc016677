"""Kafka's idempotent producer can write its first batches twice, and in another order: both halves.

The client sends them together, and a leader that refuses the first one for now takes the second: it
takes any sequence of a producer that it does not know. Then the connection breaks. The log has the
batches 2, 1, 2, all of which are acknowledged. Spec: Producer/bug_together, bug_together_twice.
"""

import json
import subprocess
import time
from pathlib import Path
from typing import Any

from chaos.real.kafka.asking import ask
from chaos.real.kafka.cluster import cluster
from chaos.real.kafka.judge import Judge, java
from refimpl.edge.clients.batches import BytesBatch
from refimpl.storage.format.compression import Codec
from tests.kafka.test_java_producers import PLAYER

PRODUCE, INIT, ALTER = 0, 22, 44
STEPS = [
    *(["send", 0, 8, 1], ["send", 0, 8, 2]),
    *(["answer", "1", "NOT_ENOUGH_REPLICAS", 0], ["disconnect", "1"], ["advance", 120]),
    *(["answer", "1", "OUT_OF_ORDER_SEQUENCE_NUMBER", 0], ["advance", 120]),
    *(["answer", "1", "", 1], ["answer", "1", "", 2]),
]
SCRIPT = {
    **{"idempotent": True, "in_flight": 5, "partitions": 1, "nodes": 1, "acks": -1, "seed": 1},
    **{"batch_size": 100, "linger": 0, "delivery_timeout": 3000, "steps": STEPS},
}


def test_kafkas_client_sends_its_first_batches_together_and_the_first_again_in_a_new_epoch() -> (
    None
):
    played = subprocess.run(
        java(PLAYER), input=json.dumps(SCRIPT), capture_output=True, text=True, check=True
    )
    sent = [
        (batch["records"], batch["epoch"], batch["sequence"])
        for step in json.loads(played.stdout)
        for request in step["sent"]
        for batch in request["batches"]
    ]
    assert sent == [([1], 0, 0), ([2], 0, 1), ([1], 0, 0), ([1], 1, 0), ([2], 1, 1)]


def test_kafkas_leader_takes_the_second_one_first_and_again(judge: Judge, tmp_path: Path) -> None:
    with cluster(tmp_path, judge) as kafka:
        kafka.create("t", 1, {"min.insync.replicas": "3"})
        leader = kafka.partitions("t")[0].leader
        next(node for id, node in kafka.nodes.items() if id != leader).stop()
        until = time.monotonic() + 60
        while len(kafka.partitions("t")[0].isrs) > 2:
            assert time.monotonic() < until, "the follower that has stopped is in the ISR"
            time.sleep(0.1)
        port = kafka.nodes[leader].port
        while (identity := ask(port, INIT, 4, INITIAL, 30).producer_id) < 0:
            assert time.monotonic() < until, "no broker gives a producer id"
            time.sleep(0.1)
        assert produce(port, identity, 1, 0, 0) == ("not_enough_replicas", -1)
        lower_min_isr(port)
        second = produce(port, identity, 2, 0, 1)
        while second[0] == "not_enough_replicas" and time.monotonic() < until:
            time.sleep(0.1)  # the leader has not heard of the change yet
            second = produce(port, identity, 2, 0, 1)
        assert second == ("none", 0)
        assert produce(port, identity, 1, 0, 0) == ("out_of_order_sequence_number", -1)
        assert produce(port, identity, 1, 1, 0) == ("none", 1)
        assert produce(port, identity, 2, 1, 1) == ("none", 2)


INITIAL: dict[str, Any] = {
    **{"transactional_id": None, "transaction_timeout": 60_000},
    **{"producer_id": -1, "producer_epoch": -1},
}


def lower_min_isr(port: int) -> None:
    """Two replicas are enough from now on."""
    change = {"name": "min.insync.replicas", "config_operation": 0, "value": "2"}
    resource = {"resource_type": 2, "resource_name": "t", "configs": [change]}
    (done,) = ask(port, ALTER, 1, {"resources": [resource], "validate_only": False}, 30).responses
    assert done.error_code.name == "none"


def produce(port: int, identity: int, value: int, epoch: int, sequence: int) -> tuple[str, int]:
    """The answer to one batch of one record: the error, and the offset."""
    batch = BytesBatch(100, Codec.NONE)
    batch.append(0, None, bytes((value,)), ())
    data = batch.build(identity, epoch, sequence)
    partition = {"index": 0, "records": data}
    topic = {"name": "t", "partition_data": [partition]}
    head = {"transactional_id": None, "acks": -1, "timeout": 30_000}
    (answer,) = ask(port, PRODUCE, 9, {**head, "topic_data": [topic]}, 30).responses
    (one,) = answer.partition_responses
    return one.error_code.name, one.base_offset
