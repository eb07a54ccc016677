"""Consumers that read at followers (KIP-392): who is sent where, and what is read there."""

from typing import Any

import pytest

from refimpl.broker.config import BrokerConfig
from refimpl.broker.replica_selector import RACK_AWARE
from refimpl.messages import broker as m
from refimpl.messages.cluster import BrokerUnregistered
from refimpl.storage.replica.memory_records import MemoryRecords
from tests.refimpl.broker.node_cases import CLIENT, ORDERS, Cluster, batch_of

RACKS = {1: "a", 2: "b", 3: "b"}
BY_RACK = BrokerConfig(replica_selector_class=RACK_AWARE)


def led(config: BrokerConfig = BY_RACK, **of: Any) -> Cluster:
    """A leader with one committed record, which followers in another rack have."""
    cluster = Cluster(config=config)
    cluster.decide(1, 1, racks=RACKS, **of)
    cluster.produce(batch_of(b"a"))
    cluster.catch_up()
    return cluster


def preferred(cluster: Cluster, offset: int, rack_id: str | None) -> tuple[int, int]:
    """The replica that a consumer is sent to, and the number of its records."""
    (answer,) = cluster.fetch(offset, rack_id=rack_id)
    (one,) = answer.partitions
    assert one.error is None
    return one.preferred_read_replica, len(one.records)


def test_a_consumer_is_sent_to_the_replica_of_its_rack_that_is_furthest() -> None:
    cluster = led()
    cluster.produce(batch_of(b"b"))
    cluster.follow(3, 2)
    assert preferred(cluster, 0, "b") == (3, 0)


def test_a_replica_has_what_its_log_starts_with() -> None:
    cluster = led()
    cluster.follow(2, 1, log_start_offset=0)
    cluster.follow(3, 1, log_start_offset=1)
    assert preferred(cluster, 0, "b") == (2, 0)


def test_one_that_waits_is_answered_at_once() -> None:
    (answer,) = led().fetch(1, rack_id="b", max_wait_ms=1000)
    assert answer.partitions[0].preferred_read_replica == 2


@pytest.mark.parametrize("rack_id", ["a", "nowhere", "", None])
def test_nobody_else_is_sent_away(rack_id: str | None) -> None:
    assert preferred(led(), 0, rack_id) == (-1, 1)


def test_a_leader_in_the_consumers_rack_comes_before_a_follower_in_it() -> None:
    cluster = Cluster(config=BY_RACK)
    cluster.decide(1, 1, racks={1: "a", 2: "a", 3: "b"})
    cluster.produce(batch_of(b"a"))
    cluster.catch_up()
    assert preferred(cluster, 0, "a") == (-1, 1)
    assert preferred(cluster, 0, "b") == (3, 0)


def test_who_is_not_told_of_is_in_no_rack() -> None:
    cluster = led()
    cluster.news(BrokerUnregistered(2))
    assert preferred(cluster, 0, "b") == (3, 0)


def test_without_a_selector_nobody_is() -> None:
    assert preferred(led(BrokerConfig()), 0, "b") == (-1, 1)


def test_a_leader_of_the_past_sends_nobody_away() -> None:
    cluster = led()
    cluster.decide(2, 2, racks=RACKS)
    assert preferred(cluster, 0, "b") == (-1, 1)


def test_who_knows_another_leader_epoch_is_told_so_and_not_sent_away() -> None:
    cluster = led()
    cluster.decide(1, 2, racks=RACKS)
    for epoch, error, preferred_replica in (
        (1, "FENCED_LEADER_EPOCH", -1),
        (2, None, 2),
        (9, "UNKNOWN_LEADER_EPOCH", -1),
    ):
        cluster.follow(2, 1, epoch=2)
        asked = (m.FetchPartition(ORDERS, 0, epoch),)
        (answer,) = cluster.ask(m.FetchRequest(asked, 0, rack_id="b"))
        assert [(one.error, one.preferred_read_replica) for one in answer.partitions] == [
            (error, preferred_replica)
        ]


def test_who_lacks_the_offset_is_not_preferred() -> None:
    cluster = led()
    cluster.produce(batch_of(b"b"))
    assert preferred(cluster, 2, "b") == (-1, 0)


def test_who_is_out_of_sync_or_fenced_is_not_preferred() -> None:
    cluster = led(isr=(1, 3), fenced=(3,))
    assert preferred(cluster, 0, "b") == (-1, 1)


# At a follower


def following(high_watermark: int) -> Cluster:
    """A follower of broker 2 with two records, of which so many are committed."""
    cluster = Cluster()
    cluster.decide(1, 1)
    cluster.produce(batch_of(b"a"), batch_of(b"b"))
    cluster.decide(2, 2)
    tell_high_watermark(cluster, high_watermark)
    return cluster


def tell_high_watermark(cluster: Cluster, high_watermark: int) -> list[Any]:
    """The leader answers the newest fetch: no records, but how far it has committed."""
    asked = [
        one
        for one in cluster.told
        if isinstance(one, m.Request) and isinstance(one.body, m.FetchRequest)
    ][-1]
    nothing = MemoryRecords(b"", 2)
    fetched = m.FetchedPartition(ORDERS, None, high_watermark, high_watermark, 0, (), nothing)
    answer = m.FetchResponse((fetched,), asked.body.session_id or 1)
    outputs = list(cluster.node.handle(cluster.now, m.Response(2, 1, asked.correlation_id, answer)))
    cluster.told += outputs
    return outputs


def test_a_follower_gives_what_it_knows_to_be_committed_and_no_more() -> None:
    (answer,) = following(1).fetch(0, rack_id="")
    (one,) = answer.partitions
    assert (one.error, len(one.records), one.high_watermark) == (None, 1, 1)


def test_a_follower_gives_nothing_to_who_asks_as_of_a_leader() -> None:
    (answer,) = following(1).fetch(0)
    assert answer.partitions[0].error == "NOT_LEADER_OR_FOLLOWER"


def test_what_is_not_committed_yet_is_waited_for() -> None:
    cluster = following(1)
    assert cluster.fetch(1, rack_id="", max_wait_ms=1000) == []
    answers = [
        one.body
        for one in tell_high_watermark(cluster, 2)
        if isinstance(one, m.Response) and one.target == CLIENT
    ]
    assert [len(one.partitions[0].records) for one in answers] == [1]


def test_an_offset_that_the_follower_lacks_is_out_of_range() -> None:
    (answer,) = following(2).fetch(3, rack_id="")
    assert answer.partitions[0].error == "OFFSET_OUT_OF_RANGE"


def test_a_follower_of_an_older_epoch_does_not_know_a_newer_one() -> None:
    asked = m.FetchPartition(ORDERS, 0, 3)
    (answer,) = following(2).ask(m.FetchRequest((asked,), 0, rack_id=""))
    assert answer.partitions[0].error == "UNKNOWN_LEADER_EPOCH"
