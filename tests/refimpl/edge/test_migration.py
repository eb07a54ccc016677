"""Groups of real clients that are restarted one by one with the other group protocol (KIP-848).

Each consumer is polled in turn, until what is asked of all of them together holds.
"""

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

import pytest

from refimpl.edge import BlockingCluster
from tests.refimpl.edge.members import Member, until
from tests.refimpl.edge.test_classic_groups import KafkaPython, fill, shared
from tests.refimpl.edge.test_consumer_groups import QUICK

admin: Any = import_module("confluent_kafka.admin")

NewMember = Callable[[Any, str], Any]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Three brokers for all tests here; each test has a topic and a group of its own."""
    with BlockingCluster(brokers=3, seed=1, configs=QUICK) as cluster:
        yield cluster


def eager(cluster: Any, topic: str) -> Any:
    return Member(cluster, topic, topic, session_timeout_ms=6000, heartbeat_interval_ms=300)


def consumer(cluster: Any, topic: str) -> Any:
    return Member(cluster, topic, topic, group_protocol="consumer")


def type_of(cluster: Any, group: str) -> str:
    """The type of a group by ListGroups."""
    client = admin.AdminClient({"bootstrap.servers": cluster.bootstrap})
    groups = client.list_consumer_groups().result(30).valid
    return next(str(one.type).rpartition(".")[2] for one in groups if one.group_id == group)


def read_by(members: Sequence[Any]) -> set[bytes]:
    return {value for one in members for value in one.seen}


def everything_read(cluster: Any, topic: str, members: Sequence[Any], kind: str) -> None:
    """Records are written, read and committed."""
    sent = {b"%s %d" % (kind.encode(), number) for number in range(20)}
    fill(cluster, topic, sorted(sent))
    until(members, lambda: sent <= read_by(members))
    for one in members:
        if one.seen:
            one.commit()


@pytest.mark.parametrize("classic", [eager, KafkaPython])
def test_a_group_moves_to_the_consumer_protocol_and_back_member_by_member(
    cluster: Any, classic: NewMember
) -> None:
    topic = f"moves-{classic.__name__}"
    cluster.create_topic(topic, partitions=4, replicas=3)
    members: list[Any] = [classic(cluster, topic) for _ in range(2)]
    until(members, lambda: shared(members))
    for start, types in ((consumer, ["CONSUMER"] * 2), (classic, ["CONSUMER", "CLASSIC"])):
        everything_read(cluster, topic, members, type_of(cluster, topic))
        for at, kind in enumerate(types):
            members[at].close()
            members[at] = start(cluster, topic)
            until(members, lambda: shared(members))
            assert type_of(cluster, topic) == kind
        assert not read_by(members), "what was committed came again"
    for one in members:
        one.close()
