"""A client of real Kafka, asked in plain calls: it writes, commits, aborts and reads everything."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from attrs import frozen

from refimpl.storage.format.batch import Record

T = TypeVar("T")
CODECS = (None, "gzip", "snappy", "lz4", "zstd")
SECONDS_FOR_ALL = 60


@frozen
class Message:
    """A record to be sent."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp: int = 1_790_000_000_000


def create_topics(address: str, topics: dict[str, dict[str, str]], partitions: int = 1) -> None:
    """Create topics with these settings."""

    async def create() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=address)
        await admin.start()
        try:
            await admin.create_topics(
                [NewTopic(name, partitions, 1, topic_configs=how) for name, how in topics.items()]
            )
        finally:
            await admin.close()

    _run(create())


def send(
    address: str,
    topic: str,
    messages: Iterable[Message],
    *,
    codec: str | None = None,
    transaction: str | None = None,
    commit: bool = True,
    group: str | None = None,
) -> None:
    """Send to partition 0, in one transaction if it has a name; then commit or abort it."""

    async def produce() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=address,
            compression_type=codec,
            transactional_id=transaction,
            enable_idempotence=True,
            linger_ms=5,
        )
        await producer.start()
        try:
            if transaction is not None:
                await producer.begin_transaction()
            sent = [
                await producer.send(
                    topic,
                    one.value,
                    one.key,
                    partition=0,
                    timestamp_ms=one.timestamp,
                    headers=list(one.headers),
                )
                for one in messages
            ]
            await asyncio.gather(*sent)
            if group is not None:
                where = {TopicPartition(topic, 0): len(sent)}
                await producer.send_offsets_to_transaction(where, group)
            if transaction is not None:
                await (producer.commit_transaction if commit else producer.abort_transaction)()
        finally:
            await producer.stop()

    _run(produce())


def commit_offsets(address: str, group: str, topic: str, offset: int) -> None:
    """Join a group, own the topic, and commit."""

    async def join() -> None:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=address,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        await consumer.start()
        try:
            await consumer.getone()
            await consumer.commit({TopicPartition(topic, 0): offset})
        finally:
            await consumer.stop()

    _run(join())


def read_all(
    address: str, topic: str, *, committed: bool = False, partition: int = 0
) -> list[Record]:
    """Every record up to the end of the log, its checksum verified by the client."""

    async def consume() -> list[Record]:
        where = TopicPartition(topic, 0)
        consumer = AIOKafkaConsumer(
            bootstrap_servers=address,
            isolation_level="read_committed" if committed else "read_uncommitted",
            check_crcs=True,
            enable_auto_commit=False,
        )
        await consumer.start()
        try:
            consumer.assign([where])
            await consumer.seek_to_beginning(where)
            end = (await consumer.end_offsets([where]))[where]
            found: list[Record] = []
            while await consumer.position(where) < end:
                batch = await consumer.getmany(where, timeout_ms=500, max_records=1_000)
                found += [
                    Record(one.offset, one.timestamp, one.key, one.value, tuple(one.headers))
                    for one in batch.get(where, [])
                ]
            return found
        finally:
            await consumer.stop()

    return _run(consume())


def _run(what: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(what, SECONDS_FOR_ALL))
