"""A small application around each client library, recorded: what a user of the recorder writes.

`python -m tests.kafka.recorded_client LIBRARY BOOTSTRAP TOPIC RUN COUNT [die]` sends, reads,
processes and commits; with `die` it kills itself in the middle of a sending burst.
"""

import asyncio
import os
import signal
import sys
import time
from importlib import import_module
from typing import Any

from traces.record import recorded

QUIET: dict[str, Any] = {"log_level": 0}
PATIENCE_S = 60


def die() -> None:
    """As nothing can be written after this, what is not yet written never is."""
    os.kill(os.getpid(), signal.SIGKILL)


def in_time(deadline_s: float) -> bool:
    """A run that hangs is a failure, not a wait."""
    if time.monotonic() > deadline_s:
        raise TimeoutError
    return True


def confluent(bootstrap: str, topic: str, run: str, count: int, dies: bool) -> None:
    from confluent_kafka import Consumer, Producer

    where = {"bootstrap.servers": bootstrap, **QUIET}
    conf = {**where, "acks": "all", "enable.idempotence": True}
    producer = recorded(Producer(conf), run, conf)
    for number in range(count):
        producer.produce(topic, b"%d" % number, key=b"k%d" % (number % 7))
        producer.poll(0)
        if dies and number == count // 2:
            die()
    producer.flush()

    group: dict[str, Any] = {"group.id": f"{topic}-readers", "auto.offset.reset": "earliest"}
    conf = {**where, **group, "enable.auto.commit": False}
    consumer = recorded(Consumer, run, conf, commit_order="process_then_commit")
    consumer.subscribe([topic])
    seen, deadline = 0, time.monotonic() + PATIENCE_S
    while seen < count and in_time(deadline):
        messages = [m for m in consumer.consume(100, 1.0) if m.error() is None]
        if messages:
            with consumer.process(*messages):
                seen += len(messages)
            consumer.commit(asynchronous=False)
    consumer.close()
    producer.close()


def kafka_python(bootstrap: str, topic: str, run: str, count: int, dies: bool) -> None:
    kafka: Any = import_module("kafka")
    servers = bootstrap.split(",")
    producer = recorded(kafka.KafkaProducer(bootstrap_servers=servers, acks="all"), run)
    for number in range(count):
        producer.send(topic, b"%d" % number, key=b"k%d" % (number % 7))
        if dies and number == count // 2:
            die()
    producer.flush()

    settings: dict[str, Any] = {"group_id": f"{topic}-readers", "auto_offset_reset": "earliest"}
    settings |= {"bootstrap_servers": servers, "enable_auto_commit": False}
    consumer = recorded(
        kafka.KafkaConsumer(topic, **settings), run, commit_order="process_then_commit"
    )
    seen, deadline = 0, time.monotonic() + PATIENCE_S
    while seen < count and in_time(deadline):
        answer = consumer.poll(timeout_ms=1000, max_records=100)
        messages = [message for several in answer.values() for message in several]
        if messages:
            with consumer.process(*messages):
                seen += len(messages)
            consumer.commit()
    consumer.close()
    producer.close()


def aiokafka(bootstrap: str, topic: str, run: str, count: int, dies: bool) -> None:
    asyncio.run(_aiokafka(bootstrap, topic, run, count, dies))


async def _aiokafka(bootstrap: str, topic: str, run: str, count: int, dies: bool) -> None:
    aiokafka: Any = import_module("aiokafka")
    client: Any = aiokafka.AIOKafkaProducer(
        bootstrap_servers=bootstrap, acks="all", enable_idempotence=True
    )
    async with recorded(client, run) as producer:
        pending: list[Any] = []
        for number in range(count):
            key = b"k%d" % (number % 7)
            pending.append(await producer.send(topic, b"%d" % number, key=key))
            if dies and number == count // 2:
                die()
        await asyncio.gather(*pending)

    settings: dict[str, Any] = {"group_id": f"{topic}-readers", "auto_offset_reset": "earliest"}
    settings |= {"bootstrap_servers": bootstrap, "enable_auto_commit": False}
    reader: Any = aiokafka.AIOKafkaConsumer(topic, **settings)
    async with recorded(reader, run, commit_order="process_then_commit") as consumer:
        seen, deadline = 0, time.monotonic() + PATIENCE_S
        while seen < count and in_time(deadline):
            answer = await consumer.getmany(timeout_ms=1000, max_records=100)
            messages = [message for several in answer.values() for message in several]
            if messages:
                with consumer.process(*messages):
                    seen += len(messages)
                await consumer.commit()


APPLICATIONS = {"confluent": confluent, "kafka_python": kafka_python, "aiokafka": aiokafka}


if __name__ == "__main__":
    library, servers, named, folder, number, *rest = sys.argv[1:]
    APPLICATIONS[library](servers, named, folder, int(number), rest == ["die"])
