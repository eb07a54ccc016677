"""A real client whose rack is known reads from the replica that is in it (KIP-392)."""

from collections import Counter
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from refimpl.broker.replica_selector import RACK_AWARE
from refimpl.edge import BlockingCluster
from refimpl.messages.observations import RecordsRead
from tests.refimpl.edge.patience import PATIENCE_S

RACKS = {1: "a", 2: "b", 3: "c"}
CONFIGS = {"replica.selector.class": RACK_AWARE}


def read(bootstrap: str, count: int, **settings: Any) -> list[bytes]:
    """The values from the beginning of partition 0."""
    conf: dict[str, Any] = {"bootstrap.servers": bootstrap, "group.id": "none", "log_level": 0}
    consumer: Any = Consumer(conf | {"enable.auto.commit": False} | settings)
    consumer.assign([TopicPartition("orders", 0, 0)])
    found: list[bytes] = []
    while len(found) < count:
        found += [one.value() for one in consumer.consume(count - len(found), PATIENCE_S)]
    consumer.close()
    return found


def write(bootstrap: str, *values: bytes) -> None:
    producer: Any = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
    for value in values:
        producer.produce("orders", value, partition=0)
    assert producer.flush(PATIENCE_S) == 0


def test_a_consumer_reads_in_its_own_rack_and_from_the_leader_once_that_broker_is_gone() -> None:
    reads = Counter[int]()

    def observe(who: int, seen: object) -> None:
        if isinstance(seen, RecordsRead):
            reads[who] += len(seen.records)

    values = [b"%d" % number for number in range(50)]
    with BlockingCluster(brokers=3, racks=RACKS, configs=CONFIGS, observe=observe) as cluster:
        cluster.create_topic("orders", assignments={0: [1, 2, 3]})
        write(cluster.bootstrap, *values)
        assert read(cluster.bootstrap, 50, **{"client.rack": "b"}) == values
        assert reads == {2: 50}
        reads.clear()
        assert read(cluster.bootstrap, 50, **{"client.rack": "elsewhere"}) == values
        assert reads == {1: 50}
        reads.clear()
        cluster.kill(2)
        cluster.expire_session(2)
        assert read(cluster.bootstrap, 50, **{"client.rack": "b"}) == values
        assert reads == {1: 50}
