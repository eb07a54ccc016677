"""DeleteRecords (KIP-107): what may go, and when the answer comes."""

from typing import Any

import pytest

from refimpl.broker.node import EXPIRE
from refimpl.messages import broker as m
from refimpl.messages.cluster import BrokerRegistration, TopicDeleted
from refimpl.messages.observations import Refused
from tests.refimpl.broker.node_cases import EPOCH, ORDERS, TOPIC_ID, Cluster, batch_of, leading

DELETED = m.DeletedPartition


def committed(count: int = 3) -> Cluster:
    cluster = leading()
    cluster.produce(*(batch_of(b"%d" % number) for number in range(count)))
    for _ in range(2):
        cluster.catch_up()
    return cluster


def delete(cluster: Cluster, *offsets: int, timeout_ms: int = 100) -> list[Any]:
    wanted = tuple((ORDERS, offset) for offset in offsets)
    answers = cluster.ask(m.DeleteRecordsRequest(wanted, timeout_ms))
    return [one for answer in answers for one in answer.partitions]


def deleted(found: list[Any]) -> list[m.DeletedPartition]:
    of = [one for one in found if isinstance(one, m.DeleteRecordsResponse)]
    return [one for answer in of for one in answer.partitions]


def test_nothing_to_delete_is_answered_at_once() -> None:
    cluster = committed()
    assert cluster.ask(m.DeleteRecordsRequest((), 100)) == [m.DeleteRecordsResponse(())]
    assert not [one for one in cluster.told if isinstance(one, m.Timer) and one.name == "expire"]


@pytest.mark.parametrize(
    ("offset", "start", "error"),
    [
        (0, 0, None),
        (3, 3, None),
        (m.HIGH_WATERMARK, 3, None),
        (4, 0, "OFFSET_OUT_OF_RANGE"),
        (-2, 0, "OFFSET_OUT_OF_RANGE"),
    ],
)
def test_up_to_the_high_watermark_records_can_be_deleted(
    offset: int, start: int, error: str | None
) -> None:
    cluster = committed()
    told = delete(cluster, offset)
    assert cluster.partition.log.start == start
    assert told == ([] if error is None else [DELETED(ORDERS, error)])
    assert (Refused("DeleteRecords", "OFFSET_OUT_OF_RANGE") in cluster.told) is bool(error)


def test_a_deletion_is_told_with_the_log_start_of_who_has_deleted_least() -> None:
    cluster = committed()
    assert delete(cluster, 1) == delete(cluster, 2) == []
    assert deleted(cluster.follow(2, 3, log_start_offset=3)) == []
    assert deleted(cluster.follow(3, 3, log_start_offset=0)) == []
    assert deleted(cluster.follow(3, 3, log_start_offset=1)) == [DELETED(ORDERS, None, 1)]
    assert deleted(cluster.follow(3, 3, log_start_offset=3)) == [DELETED(ORDERS, None, 2)]
    assert cluster.later(100) == [], "both are answered"


def test_a_deletion_ends_at_its_time() -> None:
    cluster = committed()
    delete(cluster, 1, timeout_ms=70)
    ends = [one.at_ms for one in cluster.told if isinstance(one, m.Timer) and one.name == EXPIRE]
    assert ends == [cluster.now + 70]


def test_where_the_topic_goes_meanwhile_a_deletion_is_answered_once() -> None:
    """Of brokers that changed, who waits hears first; then of the topic."""
    cluster = committed()
    delete(cluster, 1)
    told = cluster.news(
        BrokerRegistration(2, EPOCH, 1, fenced=True), TopicDeleted(ORDERS.topic, TOPIC_ID)
    )
    assert len(deleted(told)) == 1


def test_who_has_the_only_replica_answers_at_once() -> None:
    cluster = Cluster()
    cluster.decide(1, 1, (1,), replicas=(1,))
    cluster.produce(batch_of(b"a"), batch_of(b"b"))
    assert deleted(cluster.ask(m.DeleteRecordsRequest(((ORDERS, 1),), 100))) == [
        DELETED(ORDERS, None, 1)
    ]
    twice = cluster.ask(m.DeleteRecordsRequest(((ORDERS, 0), (ORDERS, 2)), 100))
    assert deleted(twice) == [DELETED(ORDERS, None, 2)], "the last one counts"


def test_a_deletion_is_told_once() -> None:
    cluster = committed()
    delete(cluster, 1)
    (told,) = cluster.later(100)
    assert deleted([told]) == [DELETED(ORDERS, "REQUEST_TIMED_OUT")]
    assert Refused("DeleteRecords", "REQUEST_TIMED_OUT") in cluster.told
    for follower in (2, 3):
        assert deleted(cluster.follow(follower, 3, log_start_offset=1)) == []
    delete(cluster, 2)
    cluster.later(100)
    assert deleted(cluster.decide(2, 2)) == []


def test_an_answer_waits_for_all_partitions_and_the_time_is_over_for_those_alone() -> None:
    cluster = committed()
    elsewhere = m.TopicPartition("elsewhere", 0)
    assert cluster.ask(m.DeleteRecordsRequest(((elsewhere, 1), (ORDERS, 1)), 100)) == []
    (told,) = cluster.later(100)
    assert {one.partition: one.error for one in told.partitions} == {
        elsewhere: "UNKNOWN_TOPIC_OR_PARTITION",
        ORDERS: "REQUEST_TIMED_OUT",
    }


def test_who_waits_is_told_once_that_the_leader_has_gone() -> None:
    cluster = committed()
    delete(cluster, 1)
    assert deleted(cluster.decide(2, 2)) == [DELETED(ORDERS, "NOT_LEADER_OR_FOLLOWER")]
    assert Refused("DeleteRecords", "NOT_LEADER_OR_FOLLOWER") in cluster.told
    assert delete(cluster, 1) == [DELETED(ORDERS, "NOT_LEADER_OR_FOLLOWER")]
    assert cluster.later(100) == []
