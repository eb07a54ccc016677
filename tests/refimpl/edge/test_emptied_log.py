"""A log that DeleteRecords has emptied, loaded again under a leader that was elected uncleanly."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ElectionType, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from refimpl.edge.testing.blocking import BlockingCluster
from refimpl.machines.replica import Replica
from tests.refimpl.edge.patience import PATIENCE_S

PARTITION = TopicPartition("t", 0)
BEFORE, ALONE = [b"a0", b"a1", b"a2"], [b"b0", b"b1", b"b2"]
LEADERLESS = {"min.insync.replicas": "1", "unclean.leader.election.enable": "false"}


def send(cluster: BlockingCluster, values: Sequence[bytes]) -> None:
    """Each in a batch of its own, acknowledged by all in sync."""
    producer: Any = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for value in values:
        producer.produce("t", value, partition=0)
        assert producer.flush(PATIENCE_S) == 0


def read(cluster: BlockingCluster, count: int) -> list[bytes]:
    settings = {"group.id": "g", "auto.offset.reset": "earliest", "log_level": 0}
    consumer: Any = Consumer({"bootstrap.servers": cluster.bootstrap, **settings})
    consumer.assign([TopicPartition("t", 0, 0)])
    found = [one.value() for one in consumer.consume(count, PATIENCE_S)]
    consumer.close()
    return found


def after_an_unclean_election(cluster: BlockingCluster, acknowledged: Sequence[bytes]) -> None:
    """Broker 2 lacks the last records of broker 1, which has deleted all it had, and is elected;
    what it acknowledges then is to be copied by broker 1."""
    cluster.create_topic("t", assignments={0: [1, 2]}, configs=LEADERLESS)
    send(cluster, BEFORE)
    cluster.until(lambda: cluster.log_end("t", 0, 2) == len(BEFORE))
    cluster.kill(2, expire=True)
    send(cluster, ALONE)
    admin: Any = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    everything = TopicPartition("t", 0, len(BEFORE) + len(ALONE))
    assert admin.delete_records([everything])[PARTITION].result(PATIENCE_S).low_watermark == 6
    cluster.kill(1, expire=True)
    cluster.restart(2)
    asked = admin.elect_leaders(ElectionType.UNCLEAN, [PARTITION]).result(PATIENCE_S)
    assert asked[PARTITION] is None
    cluster.until(lambda: cluster.leader("t", 0) == 2)
    send(cluster, acknowledged)
    cluster.restart(1)
    cluster.until(lambda: set(cluster.isr("t", 0)) == {1, 2})


@pytest.mark.parametrize("count", [2, 3, 6])
def test_records_acknowledged_after_an_unclean_election_survive_a_clean_one(
    tmp_path: Path, count: int
) -> None:
    """Broker 2 ends before the log of broker 1, where it begins, or behind it."""
    acknowledged = [b"c%d" % number for number in range(count)]
    with BlockingCluster(brokers=3, data=tmp_path) as cluster:
        after_an_unclean_election(cluster, acknowledged)
        cluster.kill(2, expire=True)
        cluster.until(lambda: cluster.leader("t", 0) == 1)
        cluster.restart(2)
        expected = [*BEFORE, *acknowledged]
        assert read(cluster, len(expected)) == expected


def test_without_that_rule_they_are_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule is the one that keeps them: this is Apache Kafka's loss."""

    def admitted(*_: object) -> None:
        return None

    monkeypatch.setattr(Replica, "_must_agree_unseen", admitted)
    with BlockingCluster(brokers=3, data=tmp_path) as cluster:
        after_an_unclean_election(cluster, [b"c%d" % number for number in range(6)])
        assert cluster.log_end("t", 0, 1) == 9
        assert len(cluster.log("t", 0, 1)) == 3
