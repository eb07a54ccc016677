"""Kafka counts the age of an empty group's offsets from when it became empty, whenever they were
committed (`GroupOffsets/bug_expires_early`): what an operator sets is gone early."""

import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from chaos.real.kafka.judge import Judge, KafkaBroker
from tests.kafka.clients import Message, create_topics, send

confluent: Any = import_module("confluent_kafka")
admin_clients: Any = import_module("confluent_kafka.admin")
GROUP, TOPIC = "stopped", "orders"
#: The least that offsets.retention.minutes allows.
RETENTION_S = 60
SETTINGS = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "1000"}
#: When the operator sets an offset, after the group has become empty.
SET_AFTER_S = 40
NOTHING = -1001


def until(what: str, seconds: float, condition: Callable[[], bool]) -> None:
    """Wait for a condition; polled, for brokers tell nobody."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.2)


def test_an_offset_that_an_operator_sets_expires_with_the_older_ones(
    judge: Judge, tmp_path: Path
) -> None:
    broker = KafkaBroker(tmp_path, SETTINGS)
    broker.format(judge)
    with broker.running():
        create_topics(broker.address, {TOPIC: {}})
        send(broker.address, TOPIC, [Message(None, b"%d" % n) for n in range(5)])
        where: dict[str, Any] = {"bootstrap.servers": broker.address, "log_level": 0}
        admin = admin_clients.AdminClient(where)
        read_one(where)
        emptied = time.monotonic()
        until("the operator's hour", 90, lambda: time.monotonic() > emptied + SET_AFTER_S)
        change(admin, 3)
        changed = time.monotonic()
        assert committed(admin) == 3
        until("the offset to be gone", 2 * RETENTION_S, lambda: committed(admin) == NOTHING)
        lived, idle = time.monotonic() - changed, time.monotonic() - emptied
    mended = f"this Kafka does so no more: it lived {lived:.0f} s; say so in docs/kafka-diff.md"
    assert lived < RETENTION_S <= idle, mended


def read_one(where: dict[str, Any]) -> None:
    """A member joins, reads, commits and leaves: the group is empty."""
    conf = {"group.id": GROUP, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = confluent.Consumer({**where, **conf})
    consumer.subscribe([TOPIC])
    read: list[Any] = []
    until("a record", 60, lambda: (read.append(consumer.poll(1)), read[-1] is not None)[1])
    consumer.commit(message=read[-1], asynchronous=False)
    consumer.close()


def change(admin: Any, offset: int) -> None:
    to = confluent.ConsumerGroupTopicPartitions(GROUP, [confluent.TopicPartition(TOPIC, 0, offset)])
    admin.alter_consumer_group_offsets([to])[GROUP].result(30)


def committed(admin: Any) -> int:
    asked = confluent.ConsumerGroupTopicPartitions(GROUP, [confluent.TopicPartition(TOPIC, 0)])
    (one,) = admin.list_consumer_group_offsets([asked])[GROUP].result(30).topic_partitions
    return one.offset
