"""Offsets of records: by time, at the ends of a log, and at the ends of leader epochs."""

from typing import Any

import pytest

from refimpl.messages import broker as m
from refimpl.messages.observations import Refused
from tests.refimpl.broker.node_cases import ORDERS, Cluster, batch_of, leading


def filled() -> Cluster:
    """Two committed records of epoch 1 at times 10 and 20, one at 30 that is not."""
    cluster = leading()
    for at_ms in (10, 20):
        cluster.produce(batch_of(b"a", at_ms=at_ms))
    cluster.catch_up()
    cluster.produce(batch_of(b"a", at_ms=30))
    return cluster


def listed(
    cluster: Cluster, timestamp: int, epoch: int = -1, **of: int
) -> tuple[str | None, int, int, int]:
    one = m.ListOffsetsPartition(ORDERS, timestamp, epoch)
    (answer,) = cluster.ask(m.ListOffsetsRequest((one,), **of))
    (found,) = answer.partitions
    return found[1:]


NOTHING = (None, -1, -1, -1)


def test_the_ends_are_told_with_their_leader_epoch_and_no_time() -> None:
    cluster = filled()
    assert listed(cluster, m.EARLIEST) == listed(cluster, m.EARLIEST_LOCAL) == (None, 0, -1, 1)
    assert listed(cluster, m.LATEST) == (None, 2, -1, 1)
    assert listed(cluster, m.LATEST, replica_id=2) == (None, 3, -1, 1)
    assert listed(leading(), m.EARLIEST) == (None, 0, -1, 1), "that of the next record"
    for tiered in (m.LATEST_TIERED, m.EARLIEST_PENDING_UPLOAD):
        assert listed(cluster, tiered) == NOTHING


def test_a_consumer_finds_by_time_what_it_may_read_and_a_replica_all() -> None:
    cluster = filled()
    assert [listed(cluster, at) for at in (0, 10, 11, 20, 21)] == [
        *((None, 0, 10, 1), (None, 0, 10, 1), (None, 1, 20, 1), (None, 1, 20, 1)),
        NOTHING,
    ]
    assert listed(cluster, 21, replica_id=2) == (None, 2, 30, 1)
    assert listed(cluster, m.MAX_TIMESTAMP) == NOTHING, "the newest is not committed"
    assert listed(cluster, m.MAX_TIMESTAMP, replica_id=2) == (None, 2, 30, 1)
    cluster.catch_up()
    assert listed(cluster, m.MAX_TIMESTAMP) == (None, 2, 30, 1)
    assert listed(leading(), m.MAX_TIMESTAMP) == NOTHING


def test_who_reads_committed_records_finds_what_is_decided() -> None:
    cluster = leading()
    cluster.produce(batch_of(b"a", at_ms=10))
    open_txn = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    cluster.begin(batch_of(b"b", at_ms=20, **open_txn))
    cluster.catch_up()
    cluster.catch_up()
    committed = {"isolation_level": m.READ_COMMITTED}
    assert (listed(cluster, m.LATEST)[1], listed(cluster, m.LATEST, **committed)[1]) == (2, 1)
    assert listed(cluster, 11) == (None, 1, 20, 1)
    assert listed(cluster, 11, **committed) == NOTHING


def test_a_new_leader_says_what_is_certainly_committed_and_no_more() -> None:
    """KIP-207."""
    cluster = filled()
    cluster.decide(2, 2)
    cluster.decide(1, 3)
    refused = ("OFFSET_NOT_AVAILABLE", -1, -1, -1)
    assert listed(cluster, m.LATEST) == listed(cluster, 30) == listed(cluster, 99) == refused
    assert Refused("ListOffsets", "OFFSET_NOT_AVAILABLE") in cluster.told
    assert listed(cluster, 20) == (None, 1, 20, 1)
    assert listed(cluster, m.LATEST, replica_id=2) == (None, 3, -1, 3)
    assert listed(cluster, 99, replica_id=2) == NOTHING
    for follower in (2, 3):
        cluster.follow(follower, 3, epoch=3)
    assert listed(cluster, m.LATEST) == (None, 3, -1, 3)
    assert listed(cluster, 99) == NOTHING


@pytest.mark.parametrize(
    ("epoch", "error"), [(0, "FENCED_LEADER_EPOCH"), (1, None), (2, "UNKNOWN_LEADER_EPOCH")]
)
def test_who_knows_another_leader_epoch_is_told_so(epoch: int, error: str | None) -> None:
    cluster = filled()
    assert listed(cluster, m.LATEST, epoch)[0] == error
    assert ends(cluster, 1, epoch)[0] == error


def test_a_follower_tells_no_offsets() -> None:
    cluster = Cluster()
    cluster.decide(2, 1)
    assert listed(cluster, m.LATEST) == ("NOT_LEADER_OR_FOLLOWER", -1, -1, -1)
    assert ends(cluster, 1) == ("NOT_LEADER_OR_FOLLOWER", -1, -1)


# OffsetForLeaderEpoch (KIP-101)


def ends(cluster: Cluster, epoch: int, current: int = -1) -> Any:
    (answer,) = cluster.ask(m.OffsetForLeaderEpochRequest(((ORDERS, current, epoch),)))
    (found,) = answer.partitions
    assert found[0] == ORDERS
    return found[1:]


def test_where_an_epoch_ends_is_told_and_of_one_that_is_not_there_the_one_below() -> None:
    cluster = filled()
    cluster.decide(1, 4)
    cluster.produce(batch_of(b"b"))
    assert [ends(cluster, epoch) for epoch in (0, 1, 2, 4, 5)] == [
        *((None, 0, 0), (None, 1, 3), (None, 1, 3), (None, 4, 4), (None, -1, -1))
    ]


def test_one_partition_that_is_not_here_hides_no_other() -> None:
    cluster = filled()
    elsewhere = m.TopicPartition("elsewhere", 0)
    asked = m.OffsetForLeaderEpochRequest(((elsewhere, -1, 1), (ORDERS, -1, 1)))
    (answer,) = cluster.ask(asked)
    assert list(answer.partitions) == [
        (elsewhere, "UNKNOWN_TOPIC_OR_PARTITION", -1, -1),
        (ORDERS, None, 1, 3),
    ]
