"""A leader's changes to its ISR: it asks to remove lagging replicas, and to add caught-up ones."""

from typing import Any

import pytest

from refimpl.broker.node import ISR
from refimpl.broker.partition import Partition
from refimpl.machines.messages import AlterPartitionResponse as Outcome
from refimpl.messages import broker as m
from refimpl.messages.controller import CONTROLLER, AlterPartitionRequest, AlterPartitionResponse
from refimpl.messages.observations import (
    HighWatermarkAdvanced,
    IsrAdopted,
    IsrAltered,
    IsrAnswerTaken,
    IsrAsked,
    Refused,
)
from tests.refimpl.broker.node_cases import EPOCH, ORDERS, Cluster, batch_of, leading


def isrs(outputs: list[Any]) -> list[set[int]]:
    """The ISRs that the controller is asked for."""
    asked = [one.body for one in outputs if isinstance(one, m.Request)]
    return [set(one.change.isr) for one in asked if isinstance(one, AlterPartitionRequest)]


def tick(cluster: Cluster, ms: int) -> list[set[int]]:
    """The leader looks, so much later, who lags; what it asks for."""
    cluster.now += ms
    outputs = [*cluster.node.handle(cluster.now, m.Timer(cluster.now, ISR))]
    cluster.told += outputs
    return isrs(outputs)


def answered(cluster: Cluster, error: str | None, *isr: int) -> list[Any]:
    """The controller answers what was asked last."""
    (*_, asked) = [
        one
        for one in cluster.told
        if isinstance(one, m.Request) and isinstance(one.body, AlterPartitionRequest)
    ]
    here = cluster.partition.replica
    outcome = Outcome(error, 1, here.epoch, frozenset(isr), here.partition_epoch + 1)
    body = AlterPartitionResponse(ORDERS, outcome)
    return [
        *cluster.node.handle(cluster.now, m.Response(CONTROLLER, 1, asked.correlation_id, body))
    ]


def lag(cluster: Cluster) -> int:
    return cluster.config.replica_lag_time_max_ms


def test_who_is_not_heard_of_for_the_lag_time_is_asked_out_one_at_a_time() -> None:
    cluster = leading()
    assert tick(cluster, lag(cluster)) == []
    assert tick(cluster, 1) == [{1, 3}]
    assert tick(cluster, 1) == [], "there is no answer yet"
    answered(cluster, None, 1, 3)
    assert cluster.partition.replica.isr == {1, 3}
    assert tick(cluster, 1) == [{1}]


def test_who_is_at_the_end_of_the_log_stays() -> None:
    cluster = leading()
    cluster.now += lag(cluster)
    cluster.catch_up()
    assert tick(cluster, lag(cluster)) == []


def test_who_has_what_was_the_end_at_its_last_fetch_keeps_up_though_writes_go_on() -> None:
    """KAFKA-1546."""
    cluster = leading()
    began = cluster.now
    for _ in range(3):
        cluster.now += 100
        cluster.produce(batch_of(b"a"))
        cluster.follow(2, max(cluster.partition.log.end - 1, 0))
        cluster.follow(3, 0)
    assert cluster.partition.caught_up[2] == began + 200, "when its last fetch but one was heard"
    assert cluster.partition.caught_up[3] == began
    assert tick(cluster, lag(cluster) - 300) == []
    assert tick(cluster, 1) == [{1, 2}], "follower 3 has always been behind"


def test_who_was_not_in_sync_was_caught_up_when_it_asked_for_what_is_there_now() -> None:
    cluster = leading(now=0)
    cluster.decide(1, 2, (1, 2))
    cluster.produce(batch_of(b"a"))
    cluster.follow(3, 0, 2)
    assert 3 not in cluster.partition.caught_up
    cluster.produce(batch_of(b"b"))
    cluster.now = 5
    cluster.follow(3, 1, 2)
    assert cluster.partition.caught_up[3] == 0, "the time of its fetch before"


def test_the_clocks_of_followers_start_with_the_leaders_epoch() -> None:
    cluster = leading()
    cluster.catch_up()
    cluster.decide(2, 2)
    cluster.now += 10 * lag(cluster)
    cluster.decide(1, 3)
    assert (cluster.partition.last_fetch, cluster.partition.log_starts) == ({}, {})
    assert tick(cluster, lag(cluster)) == []
    assert tick(cluster, 1) == [{1, 3}]


def test_a_change_without_an_answer_is_asked_for_again() -> None:
    cluster = leading()
    again = cluster.config.broker_heartbeat_interval_ms
    assert tick(cluster, lag(cluster) + 1) == [{1, 3}]
    assert tick(cluster, again) == []
    assert tick(cluster, 1) == [{1, 3}]
    assert [one.again for one in cluster.told if isinstance(one, IsrAsked)] == [False, True]
    assert tick(cluster, again) == [], "it counts from the last time"


def test_who_leaves_the_isr_is_not_waited_for() -> None:
    cluster = leading()
    cluster.produce(batch_of(b"a"), acks=-1, timeout_ms=10**6)
    cluster.follow(3, 1)
    assert cluster.partition.replica.high_watermark == 0
    assert tick(cluster, lag(cluster) + 1) == [{1, 3}]
    cluster.follow(3, 1)
    outputs = answered(cluster, None, 1, 3)
    assert not [one for one in outputs if isinstance(one, Refused)]
    responses = [one for one in outputs if isinstance(one, m.Response)]
    assert cluster.partition.replica.high_watermark == 1
    (told,) = [one for one in responses if isinstance(one.body, m.ProduceResponse)]
    assert told.body.partitions[0].error is None


def test_a_refusal_is_told_and_changes_nothing() -> None:
    cluster = leading()
    assert tick(cluster, lag(cluster) + 1) == [{1, 3}]
    outputs = answered(cluster, "FENCED_LEADER_EPOCH", 1, 2, 3)
    assert [one for one in outputs if isinstance(one, Refused)] == [
        Refused("AlterPartition", "FENCED_LEADER_EPOCH")
    ]
    assert cluster.partition.replica.isr == {1, 2, 3}
    assert cluster.partition.replica.pending is not None, "it may have been accepted before"


def test_who_has_caught_up_is_let_in() -> None:
    cluster = Cluster()
    cluster.decide(1, 1, (1, 3))
    cluster.follow(2, 0)
    assert isrs(cluster.told) == [{1, 2, 3}]
    cluster.follow(2, 0)
    assert isrs(cluster.told) == [{1, 2, 3}], "it is asked for once"
    answered(cluster, None, 1, 2, 3)
    assert cluster.partition.replica.isr == {1, 2, 3}


@pytest.mark.parametrize(
    ("log_start", "joins"), [(1, True), (2, True), (0, False), (-1, False)], ids=str
)
def test_who_has_caught_up_stays_out_while_its_log_starts_before_ours(
    log_start: int, joins: bool
) -> None:
    """If it led it would show what is deleted; -1 is not said, and may be the very start."""
    cluster = Cluster()
    cluster.decide(1, 1, (1, 3))
    cluster.produce(batch_of(b"a", b"b"))
    cluster.follow(3, 2)
    cluster.partition.log.advance_start(1)
    cluster.follow(2, 2, log_start_offset=log_start)
    assert isrs(cluster.told) == ([{1, 2, 3}] if joins else [])


def test_who_has_caught_up_is_let_in_once_the_change_before_is_settled() -> None:
    cluster = Cluster()
    cluster.decide(1, 1, (1, 3))
    assert tick(cluster, lag(cluster) + 1) == [{1}]
    cluster.follow(2, 0)
    assert isrs(cluster.told) == [{1}], "one change at a time"
    answered(cluster, None, 1)
    cluster.follow(2, 0)
    assert isrs(cluster.told) == [{1}, {1, 2}]


def test_an_answer_counts_once() -> None:
    cluster = leading()
    tick(cluster, lag(cluster) + 1)
    outputs = answered(cluster, None, 1, 3)
    assert [one for one in outputs if not isinstance(one, m.Response)] == [
        IsrAnswerTaken(ORDERS),
        IsrAltered(ORDERS, 2, False),
    ]
    assert answered(cluster, None, 1, 3) == [], "it is the same answer again"


def test_an_answer_about_a_partition_that_is_not_here_any_more_means_nothing() -> None:
    cluster = leading()
    tick(cluster, lag(cluster) + 1)
    (*_, asked) = [one for one in cluster.told if isinstance(one, m.Request)]
    cluster.decide(2, 2, (2, 3), replicas=(2, 3))
    assert ORDERS not in cluster.node.partitions
    body = AlterPartitionResponse(ORDERS, Outcome(None, 1, 1, frozenset({1, 3}), 2))
    late = m.Response(CONTROLLER, 1, asked.correlation_id, body)
    assert list(cluster.node.handle(cluster.now, late)) == []


def test_who_joins_is_told_apart_from_who_leaves() -> None:
    cluster = Cluster()
    cluster.decide(1, 1, (1, 3))
    cluster.follow(2, 0)
    assert IsrAltered(ORDERS, 2, True) in answered(cluster, None, 1, 2, 3)
    cluster.versions += 1  # the controller's answer was a decision as well
    cluster.decide(1, 1, (1, 2))
    assert IsrAltered(ORDERS, 3, False) in cluster.told
    assert IsrAdopted(ORDERS) in cluster.told


def test_what_is_committed_is_told_to_whoever_coordinates_here() -> None:
    cluster = leading()
    heard: list[tuple[int, Partition]] = []
    cluster.partition.on_commit = lambda now, partition: heard.append((now, partition))
    cluster.produce(batch_of(b"a"))
    assert heard == []
    cluster.catch_up()
    assert heard == [(cluster.now, cluster.partition)]
    assert HighWatermarkAdvanced(ORDERS, 0, 1) in cluster.told


def test_a_deletion_does_not_wait_for_who_is_no_replica_any_more() -> None:
    cluster = leading()
    cluster.produce(batch_of(b"a"))
    cluster.catch_up()
    assert cluster.ask(m.DeleteRecordsRequest(((ORDERS, 1),), 100)) == []
    cluster.follow(2, 1, log_start_offset=1)
    told = cluster.decide(1, 1, (1, 2), replicas=(1, 2), full=False)
    assert told == [m.DeleteRecordsResponse((m.DeletedPartition(ORDERS, None, 1),))]


def test_a_fetch_that_waits_is_answered_when_there_are_records() -> None:
    cluster = leading()
    asked = m.FetchPartition(ORDERS, 0, 1, -1, 1)
    first = m.FetchRequest((asked,), 500, replica_id=2, replica_epoch=EPOCH, session_epoch=0)
    (begun,) = cluster.ask(first, 2)
    waiting = first._replace(partitions=(), session_id=begun.session_id, session_epoch=1)
    assert cluster.ask(waiting, 2) == []
    known = len(cluster.told)
    cluster.produce(batch_of(b"a"))
    served = [
        one.body for one in cluster.told[known:] if isinstance(one, m.Response) and one.target == 2
    ]
    assert [len(one.partitions[0].records) for one in served] == [1]


def test_a_leader_alone_in_its_isr_commits_what_it_appends() -> None:
    alone, accompanied = Cluster(), Cluster()
    alone.decide(1, 1, (1,))
    accompanied.decide(1, 1, (1, 2))
    for cluster in (alone, accompanied):
        cluster.produce(batch_of(b"a"))
    assert alone.partition.replica.high_watermark == 1
    assert accompanied.partition.replica.high_watermark == 0


def test_a_follower_that_waits_hears_of_a_high_watermark_that_moved() -> None:
    cluster = leading()
    cluster.produce(batch_of(b"a"))
    asked = m.FetchPartition(ORDERS, 1, 1, 1, 1)
    first = m.FetchRequest((asked,), 500, replica_id=2, replica_epoch=EPOCH, session_epoch=0)
    (begun,) = cluster.ask(first, 2)
    waiting = first._replace(partitions=(), session_id=begun.session_id, session_epoch=1)
    assert cluster.ask(waiting, 2) == []
    known = len(cluster.told)
    cluster.follow(3, 1)
    (told,) = [
        one.body for one in cluster.told[known:] if isinstance(one, m.Response) and one.target == 2
    ]
    assert [(one.high_watermark, len(one.records)) for one in told.partitions] == [(1, 0)]
