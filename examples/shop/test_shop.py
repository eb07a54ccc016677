"""The shop under faults. Each test has a cluster of its own."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import KafkaException
from kafka import KafkaConsumer
from shop import NotTakenError

ORDERS = tuple(f"order {number}" for number in range(1, 7))
ONE_PARTITION = pytest.mark.kafka(topics={"orders": 1})
#: Members may be missed after less than a second
MISSED_SOON = {"group.min.session.timeout.ms": "100"}


PATIENCE_S = 15


def soon(met: Callable[[], bool]) -> Callable[[], bool]:
    """A condition, and a failure of the test when it is not met in time."""
    end = time.monotonic() + PATIENCE_S

    def is_met() -> bool:
        assert met() or time.monotonic() < end, "too late"
        return met()

    return is_met


def stored(kafka: Any) -> list[str]:
    return [value.decode() for value in kafka.values("orders")]


# Orders are stored


@ONE_PARTITION
def test_orders_are_stored(kafka: Any, shop: Any) -> None:
    shop().take(*ORDERS)
    assert stored(kafka) == list(ORDERS)


@pytest.mark.kafka(brokers=3, topics={"orders": 1})
def test_a_leader_that_dies_loses_and_repeats_nothing(kafka: Any, shop: Any) -> None:
    kafka.when(
        "written", topic="orders", count=3, do=lambda event: kafka.kill(event.broker, expire=True)
    )
    shop(**{"linger.ms": 0}).take(*ORDERS)
    assert stored(kafka) == list(ORDERS)


@pytest.mark.kafka(brokers=2)
def test_orders_are_not_taken_with_too_few_in_sync(kafka: Any, shop: Any) -> None:
    kafka.create_topic("orders", replicas=2, min_insync_replicas=2)
    kafka.kill(2, expire=True)
    with pytest.raises(NotTakenError, match="order 1: "):
        shop(**{"delivery.timeout.ms": 500}).take("order 1")


@ONE_PARTITION
def test_an_order_whose_acknowledgement_is_lost_is_stored_once(kafka: Any, shop: Any) -> None:
    kafka.disconnect("Produce", count=1)
    shop().take("order 1")
    assert stored(kafka) == ["order 1"]


@ONE_PARTITION
def test_the_program_takes_orders(kafka: Any) -> None:
    program = Path(__file__).with_name("shop.py")
    subprocess.run([sys.executable, str(program), "take", *ORDERS], check=True, timeout=60)
    assert stored(kafka) == list(ORDERS)


# Others read them


@ONE_PARTITION
def test_kafka_python_reads_orders(kafka: Any, shop: Any) -> None:
    shop().take("order 1")
    consumer = KafkaConsumer(
        "orders", bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest"
    )
    assert next(consumer).value == b"order 1"
    consumer.close()


@ONE_PARTITION
def test_aiokafka_reads_orders(kafka: Any, shop: Any) -> None:
    async def read() -> Any:
        servers = kafka.bootstrap_servers
        reset = {"bootstrap_servers": servers, "auto_offset_reset": "earliest"}
        async with AIOKafkaConsumer("orders", **reset) as consumer:
            return (await consumer.getone()).value

    shop().take("order 1")
    assert asyncio.run(read()) == b"order 1"


# Orders are charged


@ONE_PARTITION
def test_every_order_is_charged(shop: Any, billing: Any, bank: Any, kafka_trace: Any) -> None:
    kafka_trace.patch(commit_order="process_then_commit")
    shop().take(*ORDERS)
    billing().work(until=soon(lambda: len(bank.charged) == 6))
    assert bank.charged == dict.fromkeys(ORDERS, 1)


@ONE_PARTITION
def test_a_worker_that_dies_leaves_its_order_to_the_next_one(
    shop: Any, billing: Any, bank: Any, kafka_trace: Any
) -> None:
    """Nothing is asserted of the orders: the trace tells which are lost."""

    def die(order: str) -> None:
        if order == "order 3":
            raise ConnectionError("the bank does not answer")

    kafka_trace.patch(commit_order="process_then_commit")
    shop().take(*ORDERS)
    bank.before = die
    worker = billing()
    with pytest.raises(ConnectionError):
        worker.work()
    worker.close()
    bank.before = lambda order: None
    billing().work(until=soon(lambda: "order 6" in bank.charged))


@ONE_PARTITION
def test_a_refused_commit_stops_the_worker(kafka: Any, shop: Any, billing: Any, bank: Any) -> None:
    shop().take("order 1")
    kafka.fail("OffsetCommit", "GROUP_AUTHORIZATION_FAILED", count=1)
    with pytest.raises(KafkaException, match="GROUP_AUTHORIZATION_FAILED"):
        billing().work(until=soon(lambda: len(bank.charged) == 2))


@ONE_PARTITION
def test_a_rebalance_repeats_nothing(kafka: Any, shop: Any, billing: Any, bank: Any) -> None:
    shop().take(*ORDERS[:4])
    worker = billing()
    worker.work(until=soon(lambda: len(bank.charged) == 4))
    kafka.rebalance("billing")
    shop().take(*ORDERS[4:])
    worker.work(until=soon(lambda: len(bank.charged) == 6))
    assert bank.charged == dict.fromkeys(ORDERS, 1)


@pytest.mark.kafka(topics={"orders": 1}, configs=MISSED_SOON)
def test_a_worker_that_hangs_repeats_no_more_than_the_order_in_hand(
    shop: Any, billing: Any, bank: Any
) -> None:
    """It hangs for more than max.poll.interval.ms, and another one charges all orders."""
    hung: list[str] = []

    def hang(order: str) -> None:
        if not hung:
            hung.append(order)
            billing().work(until=soon(lambda: len(bank.charged) == 6))

    shop().take(*ORDERS)
    bank.before = hang
    worker = billing(**{"session.timeout.ms": 400, "max.poll.interval.ms": 400})
    worker.work(until=soon(lambda: bool(bank.charged)))
    assert bank.charged == dict.fromkeys(ORDERS, 1) | {"order 1": 2}


@pytest.mark.kafka(topics={"orders": 2})
def test_a_worker_that_is_silent_is_replaced(
    kafka: Any, shop: Any, billing: Any, bank: Any
) -> None:
    """Its session time-out of 45 s passes in no time."""
    silent = billing(**{"client.id": "silent"})
    while len(silent.consumer.assignment()) < 2:
        silent.consumer.poll(0.1)
    kafka.met(kafka.drop("Heartbeat", client_id="silent"))
    joined = kafka.when("joined", group="billing", client_id="second")
    second = billing(**{"client.id": "second"})
    second.work(until=soon(lambda: joined.met))
    kafka.advance(46_000)
    shop().take(*ORDERS)
    second.work(until=soon(lambda: len(bank.charged) == 6))
    assert bank.charged == dict.fromkeys(ORDERS, 1)
    kafka.heal()
