"""Our consumers on real Kafka: both protocols, offsets, and transactions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos.real.kafka.judge import Judge, KafkaBroker
from highwater import Consumer, Producer
from tests.kafka.clients import Message, create_topics, send
from tests.refimpl.edge.clients.consuming import Listener, read, until

BOTH = [("orders", 0), ("orders", 1)]


@pytest.fixture(scope="module")
def broker(judge: Judge, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    folder: Path = tmp_path_factory.mktemp("broker")
    broker = KafkaBroker(folder)
    broker.format(judge)
    with broker.running():
        create_topics(broker.address, {"orders": {}, "group-orders": {}}, partitions=2)
        create_topics(broker.address, {"payments": {}})
        with Producer({"bootstrap.servers": broker.address}) as producer:
            for number in range(1000):
                producer.send("orders", b"%d" % number, partition=number % 2)
        yield broker


def settings(broker: KafkaBroker, **more: Any) -> dict[str, Any]:
    given = {name.replace("_", "."): value for name, value in more.items()}
    return {"bootstrap.servers": broker.address, "auto.offset.reset": "earliest", **given}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_goes_on_where_it_has_committed(broker: KafkaBroker, protocol: str) -> None:
    given = settings(broker, group_id=f"g-{protocol}", group_protocol=protocol)
    with Consumer(given) as consumer:
        consumer.subscribe("orders", heard := Listener())
        found = read(consumer, 1000)
        assert sorted(int(one.value) for one in found) == list(range(1000))
        for partition in (0, 1):
            offsets = [one.offset for one in found if one.partition == partition]
            assert offsets == list(range(500))
    assert heard.heard == [("assigned", [0, 1]), ("revoked", [0, 1])]
    with Consumer(given) as consumer:
        assert consumer.committed(BOTH) == dict.fromkeys(BOTH, 500)
        consumer.subscribe("orders")
        until(consumer, lambda found: len(consumer.assignment()) == 2)
        assert consumer.poll(1) == []


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky", None])
def test_two_members_share_and_one_takes_over(broker: KafkaBroker, assignor: str | None) -> None:
    group = f"shared-{assignor}"
    given = settings(broker, group_id=group, group_protocol="classic" if assignor else "consumer")
    if assignor:
        given |= {"partition.assignment.strategy": assignor, "heartbeat.interval.ms": 100}
    first, second = Consumer(given), Consumer(given)
    with first, second:
        first.subscribe("orders")
        found = read(first, 1000)
        second.subscribe("orders")
        for _ in range(400):
            found += first.poll(0.05) + second.poll(0.05)
            if len(first.assignment()) == len(second.assignment()) == 1:
                break
        assert sorted(first.assignment() + second.assignment()) == BOTH
        second.close()
        found += until(first, lambda more: len(first.assignment()) == 2)
        found += first.poll(1)
    assert len(found) == 1000  # orderly rebalances repeat nothing


def test_only_what_is_committed_is_read_with_read_committed(broker: KafkaBroker) -> None:
    for number, commit in enumerate((True, False, True)):
        messages = [Message(None, b"%d" % number), Message(None, b"%d" % number)]
        send(broker.address, "payments", messages, transaction=f"t{number}", commit=commit)
    for level, expected in (
        ("read_committed", {b"0", b"2"}),
        ("read_uncommitted", {b"0", b"1", b"2"}),
    ):
        with Consumer(settings(broker, isolation_level=level)) as consumer:
            consumer.assign([("payments", 0)])
            found = read(consumer, 2 * len(expected))
            assert {one.value for one in found} == expected
            assert consumer.poll(0.7) == []


def test_offsets_are_told(broker: KafkaBroker) -> None:
    with Consumer(settings(broker)) as consumer:
        assert consumer.end_offsets(BOTH) == dict.fromkeys(BOTH, 500)
        assert consumer.offsets_for_times(dict.fromkeys(BOTH, 0)) == dict.fromkeys(BOTH, 0)
        consumer.assign(BOTH)
        consumer.seek_to_end(BOTH)
        assert until(consumer, lambda found: consumer.position(("orders", 1)) == 500) == []
