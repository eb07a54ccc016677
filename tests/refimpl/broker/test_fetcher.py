"""A follower's fetchers: whom it asks, what for, and what it makes of the answers."""

from typing import Any

import pytest

from refimpl.broker import messages as m
from refimpl.broker.log_manager import CHECKPOINT
from refimpl.broker.node import FETCH
from refimpl.broker.observations import AnswerTaken, Ignored, LogRestarted, Refused
from refimpl.machines.replica_log import EpochEnd
from tests.refimpl.broker.node_cases import (
    ORDERS,
    Cluster,
    FailingDisk,
    answer,
    answer_outputs,
    batch_of,
    following,
    leading,
)

SECOND = m.TopicPartition("orders", 1)
NOTHING = m.FetchedPartition(ORDERS, None, 0, 0, 0)
REFUSED = m.FetchedPartition(ORDERS, "NOT_LEADER_OR_FOLLOWER")
OUT_OF_RANGE = m.FetchedPartition(ORDERS, "OFFSET_OUT_OF_RANGE")
ALL = 6
"""Where the log of `served` ends."""


def served(high_watermark: int = ALL) -> m.FetchedPartition:
    """What a leader answers a follower with nothing: three batches of two records."""
    cluster = leading()
    for number in range(3):
        cluster.produce(batch_of(b"%d" % number, b"x"))
    cluster.catch_up()
    (answer,) = cluster.fetch(0)
    (whole,) = answer.partitions
    return whole._replace(high_watermark=high_watermark)


def requests(outputs: Any) -> list[m.Request]:
    return [one for one in outputs if isinstance(one, m.Request)]


def tick(cluster: Cluster, ms: int = 0) -> list[m.Request]:
    """What is asked when the fetchers' timer goes off, so much later."""
    cluster.now += ms
    return requests(cluster.node.handle(cluster.now, m.Timer(cluster.now, FETCH)))


def decided(cluster: Cluster, leader: int, epoch: int) -> list[m.Request]:
    """What is asked of other brokers when this one leads."""
    cluster.told.clear()
    cluster.decide(leader, epoch)
    return requests(cluster.told)


def asked_for(request: m.Request) -> list[m.TopicPartition]:
    return [one.partition for one in request.body.partitions]


# Whom it asks


def test_partitions_of_one_leader_are_asked_for_in_one_request_at_a_time() -> None:
    cluster, asked = following(partitions=(ORDERS, SECOND))
    assert requests(cluster.told) == [asked]
    assert asked_for(asked) == [ORDERS]
    (asked,) = answer(cluster, asked, NOTHING)
    assert asked_for(asked) == [SECOND], "the other one is in the session"


def test_a_leader_of_the_past_is_asked_for_nothing_more_and_not_heard() -> None:
    cluster, old = following()
    (asked,) = decided(cluster, 3, 2)
    assert (asked.target, asked_for(asked)) == (3, [ORDERS])
    outputs = answer_outputs(cluster, old, served())
    assert list(outputs) == [Ignored("void answers")]
    assert cluster.partition.log.end == 0


def test_an_answer_of_a_broker_that_is_not_followed_means_nothing() -> None:
    cluster, asked = following()
    stranger = m.Response(9, 1, asked.correlation_id, m.FetchResponse((served(),), 1))
    assert list(cluster.node.handle(cluster.now, stranger)) == [Ignored("answers nobody waits for")]
    listed = m.ListOffsetsResponse((m.ListedOffset(ORDERS, None, 40),))
    stranger = stranger._replace(body=listed)
    assert list(cluster.node.handle(cluster.now, stranger)) == [Ignored("log starts of leaders")]
    gone = m.Response(2, 1, 1, m.ListOffsetsResponse((m.ListedOffset(SECOND, None, 40),)))
    gone = gone._replace(correlation_id=asked.correlation_id)
    assert list(cluster.node.handle(cluster.now, gone)) == [Ignored("log starts of leaders")]
    assert cluster.partition.log.end == 0


def test_who_becomes_leader_again_is_asked_at_once_though_it_has_refused_before() -> None:
    cluster, asked = following()
    assert answer(cluster, asked, REFUSED) == []
    (other,) = decided(cluster, 3, 2)
    assert other.target == 3
    (again,) = decided(cluster, 2, 3)
    assert again.target == 2


def test_a_refusal_is_told_and_only_where_the_log_does_not_reach_its_start_is_asked_for() -> None:
    cluster, asked = following()
    outputs = answer_outputs(cluster, asked, REFUSED)
    assert list(outputs) == [Refused("fetching", "NOT_LEADER_OR_FOLLOWER")]


def test_one_partition_is_left_alone_and_the_others_are_not() -> None:
    cluster, asked = following(partitions=(ORDERS, SECOND), now=0)
    assert cluster.now == 0
    (asked,) = answer(cluster, asked, REFUSED)
    assert asked_for(asked) == [SECOND]


def test_an_answer_that_never_came_is_not_waited_for_once_nothing_is_wanted() -> None:
    cluster, _ = following()
    decided(cluster, 3, 2)
    tick(cluster, cluster.config.replica_socket_timeout_ms + 1)
    (again,) = decided(cluster, 2, 3)
    assert (again.target, again.body.session_epoch) == (2, m.NEW_SESSION)


def test_an_answer_that_comes_after_its_time_is_not_taken_for_that_of_the_next_request() -> None:
    """It may say "cut" of what has been copied again since, and is committed (KIP-320)."""
    cluster, old = following()
    (asked,) = tick(cluster, cluster.config.replica_socket_timeout_ms + 1)
    assert list(answer_outputs(cluster, old, served())) == [Ignored("answers nobody waits for")]
    answer(cluster, asked, served())
    assert cluster.partition.log.end == ALL


# Sessions


def test_a_connection_that_is_lost_with_no_answer_on_it_ends_no_session() -> None:
    cluster, asked = following()
    assert answer(cluster, asked, REFUSED) == []
    cluster.node.disconnected(2)
    (asked,) = tick(cluster, cluster.config.replica_fetch_backoff_ms)
    assert asked.body.session_epoch == 1


def test_a_session_that_the_leader_has_forgotten_is_begun_anew() -> None:
    cluster, asked = following()
    (asked,) = answer(cluster, asked, NOTHING)
    body = m.FetchResponse((), 0, "FETCH_SESSION_ID_NOT_FOUND")
    outputs = cluster.node.handle(cluster.now, m.Response(2, 1, asked.correlation_id, body))
    assert Ignored("fetch sessions ended: FETCH_SESSION_ID_NOT_FOUND") in outputs
    (asked,) = requests(outputs)
    assert (asked.body.session_epoch, asked_for(asked)) == (m.NEW_SESSION, [ORDERS])
    outputs = answer_outputs(cluster, asked, NOTHING)
    assert not [one for one in outputs if isinstance(one, Ignored)]


def test_a_log_start_that_moved_is_told_the_leader() -> None:
    """Its end is the same, and so is its last epoch."""
    cluster, asked = following()
    (asked,) = answer(cluster, asked, served())
    (asked,) = answer(cluster, asked, NOTHING._replace(high_watermark=ALL, log_start_offset=4))
    assert [(one.fetch_offset, one.log_start_offset) for one in asked.body.partitions] == [(ALL, 4)]


# What it takes


def test_what_was_taken_is_told() -> None:
    cluster, asked = following()
    number = asked.body.partitions[0].number
    outputs = answer_outputs(cluster, asked, served())
    assert AnswerTaken(ORDERS, number, False, 0, 0) in outputs
    (asked,) = requests(outputs)
    cut = NOTHING._replace(diverging=EpochEnd(0, 4))
    outputs = answer_outputs(cluster, asked, cut)
    assert AnswerTaken(ORDERS, number + 1, True, ALL, ALL) in outputs
    assert cluster.partition.log.end < ALL


def test_the_log_start_follows_the_leaders_no_further_than_what_is_committed() -> None:
    cluster, asked = following()
    answer(cluster, asked, served(high_watermark=2)._replace(log_start_offset=4))
    assert (cluster.partition.log.start, cluster.partition.replica.high_watermark) == (2, 2)


@pytest.mark.parametrize(("then", "restarted"), [(2, 2), (ALL, 0)])
def test_a_high_watermark_that_went_back_is_written_down_at_once_and_no_other(
    then: int, restarted: int
) -> None:
    cluster, asked = following()
    (asked,) = answer(cluster, asked, served())
    if then < ALL:
        cluster.node.handle(cluster.now, m.Timer(cluster.now, CHECKPOINT))
    answer(cluster, asked, NOTHING._replace(high_watermark=then))
    again = Cluster(disk=cluster.disk)
    again.decide(2, 2)
    assert again.partition.replica.high_watermark == restarted


def test_a_disk_that_fails_under_a_follower_is_told() -> None:
    disk = FailingDisk()
    cluster, asked = following(disk=disk)
    disk.broken = True
    outputs = answer_outputs(cluster, asked, served())
    assert Refused("replication", "KAFKA_STORAGE_ERROR") in outputs
    assert not [one for one in outputs if isinstance(one, AnswerTaken)]


# A log that begins anew (KIP-107)


def starts_at(cluster: Cluster, asked: m.Request, offset: int) -> list[Any]:
    """The leader says that its log starts there."""
    body = m.ListOffsetsResponse((m.ListedOffset(ORDERS, None, offset),))
    return [*cluster.node.handle(cluster.now, m.Response(2, 1, asked.correlation_id, body))]


def test_a_log_that_begins_anew_is_told_and_what_was_asked_before_is_void() -> None:
    cluster, asked = following()
    (asked,) = answer(cluster, asked, served())
    (listing,) = answer(cluster, asked, OUT_OF_RANGE)
    (asked,) = tick(cluster, cluster.config.replica_fetch_backoff_ms)
    assert starts_at(cluster, listing, 40) == [LogRestarted(ORDERS, ALL)]
    outputs = answer_outputs(cluster, asked, NOTHING._replace(diverging=EpochEnd(0, 0)))
    assert Ignored("void answers") in outputs
    assert cluster.partition.log.end == 40


def test_a_log_that_reaches_the_leaders_start_does_not_begin_anew() -> None:
    cluster, asked = following()
    (asked,) = answer(cluster, asked, served())
    (listing,) = answer(cluster, asked, OUT_OF_RANGE)
    assert starts_at(cluster, listing, ALL) == [Refused("restarting a log", "OFFSET_OUT_OF_RANGE")]
    assert (cluster.partition.log.start, cluster.partition.log.end) == (0, ALL)
