"""Clients of kafka-python, aiokafka and ourselves, each in a process, as applications are.

python -m tests.chaos.real.proxied_client LIBRARY BOOTSTRAP COUNT
"""

import asyncio
import sys
from importlib import import_module
from typing import Any

TOPIC, GROUP, PARTITIONS = "orders", "readers", 3


def kafka_python(bootstrap: str, count: int) -> None:
    """An idempotent producer with compression, and a member that comes back."""
    library: Any = import_module("kafka")
    producer = library.KafkaProducer(
        bootstrap_servers=bootstrap, client_id="writer", compression_type="gzip"
    )
    for number in range(count):
        producer.send(TOPIC, b"%d" % number, b"k", [("h", b"x")], number % PARTITIONS)
    producer.close()
    for left in (count, 0):
        consumer = library.KafkaConsumer(
            TOPIC,
            bootstrap_servers=bootstrap,
            client_id="reader",
            group_id=GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        while left > 0:
            left -= sum(map(len, consumer.poll(1000).values()))
            consumer.commit()
        while not consumer.assignment():
            consumer.poll(100)
        consumer.position(library.TopicPartition(TOPIC, 0))
        consumer.close()


async def aio(bootstrap: str, count: int) -> None:
    """A producer without idempotence, whose payloads are the same again and again."""
    library: Any = import_module("aiokafka")
    producer = library.AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all")
    await producer.start()
    for number in range(count):
        await producer.send(TOPIC, b"same", partition=number % PARTITIONS)
    await producer.stop()
    consumer = library.AIOKafkaConsumer(
        TOPIC,
        bootstrap_servers=bootstrap,
        group_id=GROUP,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    await consumer.start()
    while count > 0:
        got = await consumer.getmany(timeout_ms=1000)
        count -= sum(map(len, got.values()))
        await consumer.commit()
    await consumer.stop()


def highwater(bootstrap: str, count: int) -> None:
    """An idempotent producer, and a group of KIP-848 and one of the classic protocol."""
    library: Any = import_module("highwater")
    where = {"bootstrap.servers": bootstrap}
    with library.Producer(where | {"compression.type": "lz4"}) as producer:
        for number in range(count):
            producer.send(TOPIC, b"%d" % number, key=b"k", partition=number % PARTITIONS)
    for protocol in ("consumer", "classic"):
        settings = {"group.id": protocol, "group.protocol": protocol, "enable.auto.commit": False}
        with library.Consumer(where | settings | {"auto.offset.reset": "earliest"}) as consumer:
            consumer.subscribe([TOPIC])
            left = count
            while left > 0:
                left -= len(consumer.poll(1))
                consumer.commit()


def main(library: str, bootstrap: str, count: str) -> None:
    """Send so many records, and read them."""
    if library == "aiokafka":
        asyncio.run(aio(bootstrap, int(count)))
    else:
        {"kafka-python": kafka_python, "highwater": highwater}[library](bootstrap, int(count))


if __name__ == "__main__":
    main(*sys.argv[1:])
