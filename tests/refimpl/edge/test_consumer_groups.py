"""Groups of the consumer protocol (KIP-848), whose members are clients of librdkafka.

Each consumer is polled in turn, until what is asked of all of them together holds.
"""

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

import pytest

from refimpl.edge import BlockingCluster
from tests.refimpl.edge.members import Member, until
from tests.refimpl.edge.patience import PATIENCE_S

confluent: Any = import_module("confluent_kafka")
admin: Any = import_module("confluent_kafka.admin")

PARTITIONS = 4
EVERYTHING = set(range(PARTITIONS))
QUICK = {
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.assignment.interval.ms": "0",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Three brokers for all tests here; each test has a topic and a group of its own."""
    with BlockingCluster(brokers=3, seed=1, configs=QUICK) as cluster:
        yield cluster


class Subscriber(Member):
    """A consumer of the consumer protocol."""

    def __init__(self, cluster: Any, group: str, topic: str, **configs: Any) -> None:
        super().__init__(cluster, group, topic, group_protocol="consumer", **configs)


def shared(members: Sequence[Member]) -> bool:
    """True if each partition has one owner, and no member more than its share."""
    owned = [one.owned() for one in members]
    fair = all(len(one) <= -(-PARTITIONS // len(members)) for one in owned)
    return fair and sorted(p for one in owned for p in one) == sorted(EVERYTHING)


def produce(cluster: Any, topic: str, numbers: range) -> set[bytes]:
    producer = confluent.Producer({"bootstrap.servers": cluster.bootstrap})
    values = {b"%d" % number for number in numbers}
    for number in numbers:
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0
    return values


def test_members_share_the_work_and_go_on_where_others_were(cluster: Any) -> None:
    cluster.create_topic("work", partitions=PARTITIONS, replicas=3)
    sent = produce(cluster, "work", range(40))
    first = Subscriber(cluster, "work", "work")
    until([first], lambda: set(first.seen) == sent)
    first.client.commit(asynchronous=False)
    others = [Subscriber(cluster, "work", "work") for _ in range(2)]
    members = [first, *others]
    until(members, lambda: shared(members))
    sent |= produce(cluster, "work", range(40, 80))
    until(members, lambda: {v for one in members for v in one.seen} == sent)
    assert sum(len(one.seen) for one in members) == len(sent)
    for one in members:
        if one.owned():
            one.client.commit(asynchronous=False)
    for one in members[:2]:
        one.client.close()
    until(members[2:], lambda: members[2].owned() == EVERYTHING)
    members[2].client.close()
    again = Subscriber(cluster, "work", "work")
    last = produce(cluster, "work", range(80, 84))
    until([again], lambda: set(again.seen) == last)
    again.client.close()


def test_a_regular_expression_finds_topics_that_are_made_later(cluster: Any) -> None:
    cluster.create_topic("logs-a", partitions=PARTITIONS, replicas=3)
    member = Subscriber(cluster, "by-name", "^logs-.*", topic_metadata_refresh_interval_ms=1000)
    until([member], lambda: member.owned() == EVERYTHING)
    member.client.close()


def test_a_static_member_comes_back_to_what_it_had(cluster: Any) -> None:
    cluster.create_topic("fixed", partitions=PARTITIONS, replicas=3)
    members = [Subscriber(cluster, "fixed", "fixed", group_instance_id=f"i{n}") for n in range(2)]
    until(members, lambda: shared(members))
    had = members[0].owned()
    members[0].client.close()
    back = Subscriber(cluster, "fixed", "fixed", group_instance_id="i0")
    until([back, members[1]], lambda: shared([back, members[1]]))
    assert back.owned() == had
    for one in (back, members[1]):
        one.client.close()


def test_the_coordinator_fails_over_and_members_keep_their_partitions(cluster: Any) -> None:
    cluster.create_topic("moved", partitions=PARTITIONS, replicas=3)
    members = [Subscriber(cluster, "moved", "moved") for _ in range(2)]
    until(members, lambda: shared(members))
    clients = admin.AdminClient({"bootstrap.servers": cluster.bootstrap})
    described = clients.describe_consumer_groups(["moved"])["moved"].result(30)
    assert str(described.state).endswith("STABLE")
    assert {one.client_id for one in described.members} == {"rdkafka"}
    had = [one.owned() for one in members]
    coordinator = described.coordinator.id
    cluster.kill(coordinator)
    sent = produce(cluster, "moved", range(8))
    until(members, lambda: {v for one in members for v in one.seen} == sent)
    members[0].client.commit(asynchronous=False)
    assert [one.owned() for one in members] == had
    cluster.restart(coordinator)
    for one in members:
        one.client.close()
