"""Our consumer at the replica of its own rack, on real Kafka (KIP-392)."""

import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from chaos.real.kafka.cluster import KafkaCluster, cluster
from chaos.real.kafka.judge import Judge
from highwater import Consumer, Producer
from tests.refimpl.edge.clients.consuming import read

SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
COUNT = 200


@pytest.fixture(scope="module")
def racks(judge: Judge, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Three brokers, each in a rack of its own."""
    folder = tmp_path_factory.mktemp("racks")
    with cluster(
        folder,
        judge,
        lambda node: (
            f"broker.rack=rack-{node.id}\nreplica.selector.class={SELECTOR}\n"
            # Whoever is frozen stays what it was, on a slow machine too.
            "broker.session.timeout.ms=30000\nreplica.lag.time.max.ms=30000\n"
            "controller.quorum.election.timeout.ms=15000\n"
            "controller.quorum.fetch.timeout.ms=30000\n"
        ),
    ) as running:
        yield running


def written(racks: KafkaCluster, topic: str) -> int:
    """A topic with records, all of them replicated; its leader."""
    racks.create(topic, 1, {})
    with Producer({"bootstrap.servers": racks.bootstrap}) as producer:
        for number in range(COUNT):
            producer.send(topic, b"%0500d" % number)
    return racks.partitions(topic)[0].leader


def reading(racks: KafkaCluster, topic: str, rack: int | None) -> Consumer:
    """A consumer that has read some records, and has to fetch for the next ones."""
    given: dict[str, Any] = {
        "bootstrap.servers": racks.bootstrap,
        "auto.offset.reset": "earliest",
        "max.partition.fetch.bytes": 1000,
        "request.timeout.ms": 20_000,
    }
    consumer = Consumer(given if rack is None else given | {"client.rack": f"rack-{rack}"})
    consumer.assign([(topic, 0)])
    found = read(consumer, 10)
    assert [int(one.value or b"") for one in found] == [*range(len(found))]
    assert len(found) < COUNT
    return consumer


def read_within(consumer: Consumer, seconds: float) -> list[int]:
    """The numbers of all records that come, until the last one or the time is over."""
    found: list[int] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until and (not found or found[-1] != COUNT - 1):
        found += [int(one.value or b"") for one in consumer.poll(0.1)]
    return found


@pytest.mark.parametrize("has_rack", [True, False])
def test_a_follower_is_read_while_the_leader_answers_nobody(
    racks: KafkaCluster, has_rack: bool
) -> None:
    topic = f"frozen-{has_rack}"
    leader = written(racks, topic)
    rack = leader % 3 + 1 if has_rack else None
    with reading(racks, topic, rack) as consumer:
        racks.nodes[leader].signal(signal.SIGSTOP)
        try:
            found = read_within(consumer, 10 if has_rack else 2)
        finally:
            racks.nodes[leader].signal(signal.SIGCONT)
        assert racks.partitions(topic)[0].leader == leader
        if has_rack:
            assert found[-1] == COUNT - 1
            assert found == [*range(found[0], COUNT)]
        else:
            assert len(found) < 50, "what was fetched before, and nothing more"
            assert read_within(consumer, 30)[-1] == COUNT - 1


def test_a_follower_that_is_gone_is_left(racks: KafkaCluster) -> None:
    """The leader names it for as long as the controller takes it for alive."""
    leader = written(racks, "gone")
    follower = leader % 3 + 1
    with reading(racks, "gone", follower) as consumer:
        racks.nodes[follower].kill()
        try:
            found = read_within(consumer, 120)
        finally:
            racks.nodes[follower].start()
        assert found[-1] == COUNT - 1
        assert found == [*range(found[0], COUNT)]
    racks.wait_until_healed("gone")
