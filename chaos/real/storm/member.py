"""One member of a group, a process of its own: `python -m chaos.real.storm.member`.

It reads, processes and commits in the order that it is told to, until it is sent SIGTERM, and its
calls are recorded as they happen.
"""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from attrs import frozen

from chaos.real.transacting.client import StopSignal
from traces.record import recorded

SESSION_MS, HEARTBEAT_MS = 6000, 1000
LIBRARIES = ("confluent", "kafka-python", "aiokafka")
ORDERS = {"after": "process_then_commit", "before": "commit_then_process"}
AT_ONCE = 20


@frozen
class MemberTask:
    """The task of a member: `when` it commits is after or before it processes."""

    name: str
    library: str
    protocol: str
    when: str
    bootstrap: str
    group: str
    topic: str
    folder: str

    def wrap(self, client: Any, conf: Any = None) -> Any:
        order = ORDERS[self.when]
        return recorded(client, Path(self.folder), conf, name=self.name, commit_order=order)


def next_offsets(records: Sequence[tuple[str, int, int]]) -> dict[tuple[str, int], int]:
    """Behind the last record of each partition."""
    return {(topic, partition): offset + 1 for topic, partition, offset in records}


def settings(task: MemberTask, assignor: Any) -> dict[str, Any]:
    """The settings of both clients that are written in Python."""
    return {
        "bootstrap_servers": task.bootstrap,
        "group_id": task.group,
        "client_id": task.name,
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
        "session_timeout_ms": SESSION_MS,
        "heartbeat_interval_ms": HEARTBEAT_MS,
        "partition_assignment_strategy": [assignor],
        "metadata_max_age_ms": 2000,
    }


def polled_by(found: Mapping[Any, Sequence[Any]]) -> tuple[list[Any], dict[tuple[str, int], int]]:
    """The records that such a client was given, and the offsets behind them."""
    polled = [one for those in found.values() for one in those]
    return polled, next_offsets([(one.topic, one.partition, one.offset) for one in polled])


def confluent(task: MemberTask, stopped: StopSignal) -> None:
    library: Any = import_module("confluent_kafka")
    conf: dict[str, Any] = {
        "bootstrap.servers": task.bootstrap,
        "group.id": task.group,
        "client.id": task.name,
        "group.protocol": task.protocol,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "log_level": 0,
        "reconnect.backoff.max.ms": 500,
        "topic.metadata.refresh.interval.ms": 2000,
    }
    if task.protocol == "classic":
        conf |= {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS}
        conf |= {"partition.assignment.strategy": "range"}
    consumer: Any = task.wrap(library.Consumer, conf)
    consumer.subscribe([task.topic])
    while not stopped.now:
        polled = [one for one in consumer.consume(AT_ONCE, 0.2) if one.error() is None]
        if not polled:
            continue
        ends = next_offsets([(one.topic(), one.partition(), one.offset()) for one in polled])
        offsets = [library.TopicPartition(*where, offset) for where, offset in ends.items()]
        if task.when == "after":
            consumer.processed(*polled)
        try:
            done = consumer.commit(offsets=offsets, asynchronous=False)
            taken = all(one.error is None for one in done)
        except library.KafkaException:
            taken = False
        if task.when == "before" and taken:
            consumer.processed(*polled)
    consumer.close()


def begin_where_committed(consumer: Any, fresh: set[Any]) -> None:
    """Read partitions that have just been assigned from where the group has committed.

    kafka-python 3.0.12 forgets no position before it hears of its next assignment. Who has missed
    one, in which another member had its partition, and is given that again, goes on where it was.
    """
    for one in tuple(fresh):
        if one in consumer.assignment():
            consumer.seek(one, consumer.committed(one) or 0)
        fresh.discard(one)


def kafka_python(task: MemberTask, stopped: StopSignal) -> None:
    library: Any = import_module("kafka")
    assignor = import_module("kafka.coordinator.assignors.range").RangePartitionAssignor
    error: Any = import_module("kafka.errors").KafkaError
    consumer = task.wrap(
        library.KafkaConsumer(**settings(task, assignor), request_timeout_ms=20_000)
    )
    fresh = set[Any]()

    class Listener(library.ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked: Any) -> None:
            """Nothing is to be done."""

        def on_partitions_assigned(self, assigned: Any) -> None:
            fresh.update(assigned)

    consumer.subscribe([task.topic], listener=Listener())
    while not stopped.now:
        try:
            found = consumer.poll(timeout_ms=200, max_records=AT_ONCE)
        except error:
            continue
        known = {one: records for one, records in found.items() if one not in fresh}
        with suppress(error):
            begin_where_committed(consumer, fresh)
        polled, ends = polled_by(known)
        if not polled:
            continue
        offsets = {
            library.TopicPartition(*where): library.OffsetAndMetadata(at, "", -1)
            for where, at in ends.items()
        }
        if task.when == "after":
            consumer.processed(*polled)
        try:
            consumer.commit(offsets)
        except error:
            continue
        if task.when == "before":
            consumer.processed(*polled)
    consumer.close()


async def aiokafka(task: MemberTask, stopped: StopSignal) -> None:
    library: Any = import_module("aiokafka")
    assignor = import_module("aiokafka.coordinator.assignors.range").RangePartitionAssignor
    error: Any = import_module("aiokafka.errors").KafkaError
    consumer = task.wrap(library.AIOKafkaConsumer(**settings(task, assignor)))
    consumer.subscribe([task.topic])
    await consumer.start()
    while not stopped.now:
        try:
            found = await consumer.getmany(timeout_ms=200, max_records=AT_ONCE)
        except error:
            continue
        polled, ends = polled_by(found)
        if not polled:
            continue
        offsets = {library.TopicPartition(*where): at for where, at in ends.items()}
        if task.when == "after":
            consumer.processed(*polled)
        try:
            await consumer.commit(offsets)
        except error:
            continue
        if task.when == "before":
            consumer.processed(*polled)
    with suppress(error):
        await consumer.stop()


def main() -> None:
    """Do what the argument, a task in JSON, says."""
    task, stopped = MemberTask(**json.loads(sys.argv[1])), StopSignal()
    match task.library:
        case "confluent":
            confluent(task, stopped)
        case "kafka-python":
            kafka_python(task, stopped)
        case _:
            asyncio.run(aiokafka(task, stopped))


if __name__ == "__main__":
    main()
