"""Groups of the classic protocol, whose members are real clients of three kinds.

Each consumer is polled in turn, until what is asked of all of them together holds.
"""

import asyncio
import time
import warnings
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

import pytest

from refimpl.edge import BlockingCluster
from refimpl.records.coordinators import partition_for
from tests.refimpl.edge.members import Member, until
from tests.refimpl.edge.patience import PATIENCE_S

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # how kafka-python reads its own files
    kafka: Any = import_module("kafka")
confluent: Any = import_module("confluent_kafka")
aiokafka: Any = import_module("aiokafka")

PARTITIONS = 4


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Three brokers for all tests here; each test has a topic and a group of its own."""
    with BlockingCluster(brokers=3, seed=1) as cluster:
        yield cluster


class Librdkafka(Member):
    """A consumer of librdkafka, in the group of its topic's name."""

    def __init__(self, cluster: Any, topic: str, **configs: Any) -> None:
        quick = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 300}
        super().__init__(cluster, topic, topic, **(quick | configs))


class KafkaPython:
    """A consumer of kafka-python, which knows the topic before it joins.

    One that leads a group assigns nothing of a topic whose metadata it waits for, and where they
    come in the middle of that it takes what it has assigned for up to date, for good.
    """

    def __init__(self, cluster: Any, topic: str) -> None:
        self.client = kafka.KafkaConsumer(
            topic,
            bootstrap_servers=cluster.bootstrap,
            group_id=topic,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=6000,
            heartbeat_interval_ms=300,
            metadata_max_age_ms=500,
        )
        end = time.monotonic() + PATIENCE_S
        while not self.client.partitions_for_topic(topic):
            assert time.monotonic() < end
        self.seen: list[bytes] = []

    def poll(self) -> None:
        for records in self.client.poll(timeout_ms=50).values():
            self.seen += [record.value for record in records]

    def owned(self) -> set[int]:
        return {one.partition for one in self.client.assignment()}

    def commit(self) -> None:
        self.client.commit()

    def close(self) -> None:
        self.client.close()


def shared(members: Sequence[Any]) -> bool:
    """True if every partition has one owner, and every member has some."""
    owned = [member.owned() for member in members]
    return all(owned) and sorted(p for some in owned for p in some) == list(range(PARTITIONS))


def fill(cluster: Any, topic: str, values: Sequence[bytes]) -> None:
    """Write values to the partitions in turn."""
    producer = confluent.Producer({"bootstrap.servers": cluster.bootstrap})
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0


VALUES = [str(number).encode() for number in range(40)]


@pytest.mark.parametrize("kind", [Librdkafka, KafkaPython])
def test_members_share_the_partitions_and_go_on_where_the_group_stood(
    cluster: Any, kind: Any
) -> None:
    topic = f"share-{kind.__name__}"
    cluster.create_topic(topic, partitions=PARTITIONS, replicas=3)
    fill(cluster, topic, VALUES)
    first = kind(cluster, topic)
    until([first], lambda: len(first.seen) == len(VALUES))
    first.commit()
    second = kind(cluster, topic)
    until([first, second], lambda: shared([first, second]))
    first.close()
    until([second], lambda: len(second.owned()) == PARTITIONS)
    fill(cluster, topic, [b"new"])
    until([second], lambda: b"new" in second.seen)
    assert second.seen == [b"new"], "what was committed came again"
    second.close()


def test_two_libraries_are_members_of_one_group(cluster: Any) -> None:
    topic = "two-libraries"
    cluster.create_topic(topic, partitions=PARTITIONS, replicas=3)
    fill(cluster, topic, VALUES)
    members = [Librdkafka(cluster, topic), KafkaPython(cluster, topic)]
    until(members, lambda: shared(members))
    until(members, lambda: {*members[0].seen, *members[1].seen} == {*VALUES})
    for member in members:
        member.close()


def test_cooperative_members_hand_over_in_two_rounds(cluster: Any) -> None:
    topic = "cooperative"
    cluster.create_topic(topic, partitions=PARTITIONS, replicas=3)
    how = {"partition_assignment_strategy": "cooperative-sticky"}
    first = Librdkafka(cluster, topic, **how)
    until([first], lambda: len(first.owned()) == PARTITIONS)
    second = Librdkafka(cluster, topic, **how)
    kept = set(range(PARTITIONS))

    def handed_over() -> bool:
        kept.intersection_update(first.owned())
        return shared([first, second])

    until([first, second], handed_over)
    assert kept == first.owned(), "what it keeps it was never without"
    first.close()
    second.close()


def test_a_static_member_comes_back_without_a_rebalance(cluster: Any) -> None:
    topic = "static"
    cluster.create_topic(topic, partitions=PARTITIONS, replicas=3)
    stays = Librdkafka(cluster, topic, group_instance_id="a")
    goes = Librdkafka(cluster, topic, group_instance_id="b")
    until([stays, goes], lambda: shared([stays, goes]))
    had = goes.owned()
    goes.close()  # a static member says nothing
    comes = Librdkafka(cluster, topic, group_instance_id="b")
    until([comes], lambda: bool(comes.owned()))
    assert comes.owned() == had
    stays.close()
    comes.close()


def test_the_old_process_of_a_static_member_is_fenced(cluster: Any) -> None:
    topic = "fenced"
    cluster.create_topic(topic, partitions=PARTITIONS, replicas=3)
    fill(cluster, topic, VALUES)
    old = Librdkafka(cluster, topic, group_instance_id="a")
    until([old], lambda: len(old.seen) > 0)
    new = Librdkafka(cluster, topic, group_instance_id="a")
    until([new], lambda: bool(new.owned()))
    with pytest.raises(confluent.KafkaException) as refused:
        old.commit()
    assert refused.value.args[0].name() in ("FENCED_INSTANCE_ID", "_FATAL", "_FENCED")
    new.close()
    old.close()


def test_a_group_outlives_its_coordinator(cluster: Any) -> None:
    topic = "failover"
    cluster.create_topic(topic, partitions=PARTITIONS, replicas=3)
    fill(cluster, topic, VALUES)
    member = Librdkafka(cluster, topic)
    until([member], lambda: len(member.seen) == len(VALUES))
    member.commit()
    number = partition_for(topic, 50)
    leader = cluster.leader("__consumer_offsets", number)
    cluster.stop(leader)
    try:
        cluster.settled()
        fill(cluster, topic, [b"new"])
        until([member], lambda: b"new" in member.seen)
        assert len(member.seen) == len(VALUES) + 1, "what was committed came again"
        member.commit()
    finally:
        cluster.restart(leader)
        member.close()


def test_aiokafka_shares_a_topic(cluster: Any) -> None:
    topic = "aio"
    cluster.create_topic(topic, partitions=PARTITIONS, replicas=3)
    fill(cluster, topic, VALUES)

    async def run() -> list[bytes]:
        def new() -> Any:
            return aiokafka.AIOKafkaConsumer(
                topic,
                bootstrap_servers=cluster.bootstrap,
                group_id=topic,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                metadata_max_age_ms=500,
            )

        members = [new(), new()]
        for member in members:
            await member.start()
        seen: set[bytes] = set()
        while len(seen) < len(VALUES):
            for member in members:
                for records in (await member.getmany(timeout_ms=50)).values():
                    seen |= {record.value for record in records}
        for member in members:
            await member.stop()
        return sorted(seen)

    assert asyncio.run(asyncio.wait_for(run(), PATIENCE_S)) == sorted(VALUES)
