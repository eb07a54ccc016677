"""Our transactional producers on our brokers: all or nothing, fenced, and offsets with records."""

import asyncio
from collections.abc import Generator
from typing import Any

import pytest
from attrs import frozen

from highwater import (
    AsyncConsumer,
    AsyncProducer,
    BlockingCluster,
    Consumer,
    Producer,
    SendError,
    TransactionError,
)
from tests.refimpl.edge.clients.consuming import read


@frozen
class Where:
    """A cluster, and topics of one test: one to read with two partitions, one to write with three.

    The name is also that of a group and of a transactional id.
    """

    bootstrap: str
    name: str = "t"
    cluster: BlockingCluster | None = None

    @property
    def source(self) -> str:
        return f"{self.name}-in"

    @property
    def out(self) -> str:
        return f"{self.name}-out"


@pytest.fixture
def where() -> Generator[Where]:
    with BlockingCluster(brokers=3) as cluster:
        where = Where(cluster.bootstrap, cluster=cluster)
        cluster.create_topic(where.source, partitions=2, replicas=3)
        cluster.create_topic(where.out, partitions=3, replicas=3)
        yield where


def transactional(where: Where, **more: Any) -> dict[str, Any]:
    given = {key.replace("_", "."): value for key, value in more.items()}
    return {"bootstrap.servers": where.bootstrap, "transactional.id": where.name, **given}


def committed(where: Where, count: int) -> list[bytes]:
    """The values that a reader of committed records sees, up to the ends of all partitions."""
    settings = {"bootstrap.servers": where.bootstrap, "isolation.level": "read_committed"}
    with Consumer(settings) as consumer:
        partitions = [(where.out, number) for number in range(3)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(partitions)
        found = read(consumer, count) if count else []
        ends = consumer.end_offsets(partitions)
        while any((consumer.position(one) or 0) < end for one, end in ends.items()):
            found += consumer.poll(0.1)
        return sorted(one.value for one in found)


def test_committed_records_are_seen_and_aborted_ones_are_not(where: Where) -> None:
    with Producer(transactional(where)) as producer:
        producer.init_transactions()
        for round, end in enumerate((True, False, True)):
            producer.begin_transaction()
            sent = [producer.send(where.out, f"{round}-{n}", partition=n % 3) for n in range(9)]
            if end:
                producer.commit_transaction()
                assert all(one.result(0) for one in sent)
            else:
                producer.flush()
                producer.abort_transaction()
    wanted = sorted(f"{round}-{n}".encode() for round in (0, 2) for n in range(9))
    assert committed(where, 18) == wanted


def test_what_was_not_sent_is_dropped_by_an_abort(where: Where) -> None:
    with Producer(transactional(where, linger_ms=60_000)) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        sent = producer.send(where.out, "never", partition=0)
        producer.abort_transaction()
        with pytest.raises(SendError, match="aborted") as failed:
            sent.result(0)
        assert failed.value.certain
        producer.begin_transaction()
        producer.send(where.out, "kept", partition=0)
        producer.commit_transaction()
    assert committed(where, 1) == [b"kept"]


def test_a_newer_producer_fences_the_older_one(where: Where) -> None:
    with Producer(transactional(where)) as older, Producer(transactional(where)) as newer:
        older.init_transactions()
        older.begin_transaction()
        older.send(where.out, "zombie", partition=0).result(30)
        newer.init_transactions()
        newer.begin_transaction()
        newer.send(where.out, "kept", partition=0)
        newer.commit_transaction()
        with pytest.raises(TransactionError) as fenced:
            older.commit_transaction()
        assert fenced.value.error == "PRODUCER_FENCED"
        assert not fenced.value.abortable
        for call in (older.abort_transaction, older.init_transactions):
            with pytest.raises(TransactionError, match="PRODUCER_FENCED"):
                call()
        with pytest.raises(SendError, match="PRODUCER_FENCED"):
            older.send(where.out, "later").result(10)
    assert committed(where, 1) == [b"kept"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_read_process_write_counts_each_record_once(where: Where, protocol: str) -> None:
    """Each second transaction is aborted, and its input is read again."""
    with Producer({"bootstrap.servers": where.bootstrap}) as producer:
        for number in range(20):
            producer.send(where.source, f"{number}", partition=number % 2)
    settings = {
        "bootstrap.servers": where.bootstrap,
        "group.id": where.name,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "max.poll.records": 4,
    }
    with Producer(transactional(where)) as producer, Consumer(settings) as consumer:
        producer.init_transactions()
        consumer.subscribe(where.source)
        done, aborts = 0, True
        while done < 20:
            records = consumer.poll(1)
            if not records:
                continue
            producer.begin_transaction()
            for one in records:
                producer.send(where.out, one.value)
            offsets = {(one.topic, one.partition): one.offset + 1 for one in records}
            producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
            aborts = not aborts
            if aborts:
                producer.abort_transaction()
                for one, offset in consumer.committed(offsets).items():
                    if offset is None:
                        consumer.seek_to_beginning([one])
                    else:
                        consumer.seek(one, offset)
            else:
                producer.commit_transaction()
                done += len(records)
        ends = consumer.committed([(where.source, 0), (where.source, 1)])
        assert [*ends.values()] == [10, 10]
    assert committed(where, 20) == sorted(f"{n}".encode() for n in range(20))


def test_offsets_of_an_older_generation_can_only_be_aborted(where: Where) -> None:
    settings = {"bootstrap.servers": where.bootstrap, "group.id": where.name}
    with Producer(transactional(where)) as producer, Consumer(settings) as consumer:
        producer.init_transactions()
        consumer.subscribe(where.source)
        while not consumer.assignment():
            consumer.poll(0.1)
        old = consumer.group_metadata()._replace(generation_id=17)
        producer.begin_transaction()
        with pytest.raises(TransactionError) as refused:
            producer.send_offsets_to_transaction({(where.source, 0): 5}, old)
        assert refused.value.error == "ILLEGAL_GENERATION"
        assert refused.value.abortable
        with pytest.raises(TransactionError, match="ILLEGAL_GENERATION"):
            producer.commit_transaction()
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send_offsets_to_transaction(
            {(where.source, 0): (5, "why")}, consumer.group_metadata()
        )
        producer.commit_transaction()
        assert consumer.committed([(where.source, 0)]) == {(where.source, 0): 5}


def test_a_transaction_goes_on_while_its_coordinator_and_a_leader_fail(
    where: Where,
) -> None:
    cluster = where.cluster
    assert cluster is not None
    with Producer(transactional(where)) as producer:
        producer.init_transactions()
        for dead in (1, 2, 3):
            producer.begin_transaction()
            for number in range(6):
                producer.send(where.out, f"{dead}-{number}", partition=number % 3)
            cluster.kill(dead, expire=True)
            producer.commit_transaction()
            cluster.restart(dead)
    wanted = sorted(f"{dead}-{n}".encode() for dead in (1, 2, 3) for n in range(6))
    assert committed(where, 18) == wanted


def test_an_open_transaction_is_aborted_by_close(where: Where) -> None:
    with Producer(transactional(where)) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(where.out, "x", partition=0).result(30)
    assert committed(where, 0) == []


def test_calls_out_of_their_order_are_refused(where: Where) -> None:
    with Producer({"bootstrap.servers": where.bootstrap}) as plain:
        with pytest.raises(TransactionError, match=r"transactional.id is not set"):
            plain.init_transactions()
        with pytest.raises(TransactionError, match=r"transactional.id is not set"):
            plain.begin_transaction()
    with Producer(transactional(where)) as producer:
        for call in (
            producer.begin_transaction,
            producer.commit_transaction,
            producer.abort_transaction,
        ):
            with pytest.raises(TransactionError, match="INVALID_TXN_STATE"):
                call()
        with pytest.raises(SendError, match="a record needs a transaction"):
            producer.send(where.out, "x").result(10)
        producer.init_transactions()
        with pytest.raises(TransactionError, match="INVALID_TXN_STATE"):
            producer.init_transactions()
        producer.begin_transaction()
        with pytest.raises(TransactionError, match="while the transaction is open"):
            producer.begin_transaction()
        producer.commit_transaction()


def test_a_loop_has_the_same_calls(where: Where) -> None:
    async def run() -> None:
        settings = {"bootstrap.servers": where.bootstrap, "group.id": where.name}
        async with AsyncProducer(transactional(where)) as producer:
            await producer.init_transactions()
            producer.begin_transaction()
            await producer.send(where.out, "a", partition=0)
            async with AsyncConsumer(settings) as consumer:
                await producer.send_offsets_to_transaction(
                    {(where.source, 0): 3}, consumer.group_metadata()
                )
                await producer.commit_transaction()
                assert await consumer.committed([(where.source, 0)]) == {(where.source, 0): 3}
            with pytest.raises(TransactionError, match="INVALID_TXN_STATE"):
                await producer.commit_transaction()

    asyncio.run(run())
    assert committed(where, 1) == [b"a"]
