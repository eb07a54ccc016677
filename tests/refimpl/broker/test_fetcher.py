"""A follower's fetchers: whom it asks, what for, and what it makes of the answers."""

from typing import Any

import pytest
from attrs import evolve

from refimpl.broker.log_manager import CHECKPOINT
from refimpl.broker.node import FETCH
from refimpl.machines.replica_log import EpochEnd
from refimpl.messages import broker as m
from refimpl.messages.observations import AnswerTaken, Ignored, LogRestarted, Refused
from refimpl.storage.format.checkpoints import HIGH_WATERMARKS
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
"""The end of the log of `served`."""


def served(high_watermark: int = ALL) -> m.FetchedPartition:
    """A leader's answer to a follower with an empty log: three batches of two records."""
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
    """The requests sent when the fetchers' timer fires, `ms` later."""
    cluster.now += ms
    return requests(cluster.node.handle(cluster.now, m.Timer(cluster.now, FETCH)))


def decided(cluster: Cluster, leader: int, epoch: int) -> list[m.Request]:
    """The requests to other brokers after this decision on the leader."""
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
    assert list(cluster.node.handle(cluster.now, stranger)) == [Ignored("answers nobody waits for")]
    gone = m.Response(2, 1, 1, m.ListOffsetsResponse((m.ListedOffset(SECOND, None, 40),)))
    gone = gone._replace(correlation_id=asked.correlation_id)
    assert list(cluster.node.handle(cluster.now, gone)) == [Ignored("answers nobody waits for")]
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


def test_what_does_not_continue_the_log_is_told_and_asked_for_again_later() -> None:
    cluster, asked = following()
    damaged = served()
    data = bytes(damaged.records.data)
    flipped = data[:-1] + bytes([data[-1] ^ 1])
    damaged = damaged._replace(records=evolve(damaged.records, data=flipped))
    outputs = answer_outputs(cluster, asked, damaged)
    assert list(outputs) == [Refused("replication", "CORRUPT_MESSAGE")]
    assert tick(cluster, cluster.config.replica_fetch_backoff_ms - 1) == []
    (asked,) = tick(cluster, 1)
    answer(cluster, asked, served())
    assert cluster.partition.log.end == ALL


def test_a_disk_that_fails_under_a_follower_is_told() -> None:
    disk = FailingDisk()
    cluster, asked = following(disk=disk)
    disk.broken = True
    outputs = answer_outputs(cluster, asked, served())
    assert Refused("replication", "KAFKA_STORAGE_ERROR") in outputs
    assert not [one for one in outputs if isinstance(one, AnswerTaken)]


# A log that ends outside of the leader's (KIP-107)


def listed(cluster: Cluster, asked: m.Request, offset: int, error: str | None = None) -> list[Any]:
    """The leader says where its log ends or starts."""
    body = m.ListOffsetsResponse((m.ListedOffset(ORDERS, error, offset),))
    return [*cluster.node.handle(cluster.now, m.Response(2, 1, asked.correlation_id, body))]


def wanted(request: m.Request) -> tuple[int, int]:
    (one,) = request.body.partitions
    assert one.partition == ORDERS
    return one.timestamp, one.current_leader_epoch


def out_of_range(**of: Any) -> tuple[Cluster, m.Request]:
    """A follower that has something, and asks how far the leader's log goes."""
    cluster, asked = following(**of)
    (asked,) = answer(cluster, asked, served())
    (asked,) = answer(cluster, asked, OUT_OF_RANGE)
    return cluster, asked


def test_a_log_that_begins_anew_is_told_and_goes_on_at_once() -> None:
    cluster, latest = out_of_range()
    assert wanted(latest) == (m.LATEST, 1)
    (earliest,) = listed(cluster, latest, 50)
    assert wanted(earliest) == (m.EARLIEST_LOCAL, 1)
    told, asked = listed(cluster, earliest, 40)
    assert told == LogRestarted(ORDERS, ALL, 40)
    assert [one.fetch_offset for one in asked.body.partitions] == [40]
    assert cluster.partition.log.start == cluster.partition.log.end == 40


def test_a_log_that_ends_behind_the_leaders_begins_anew_where_that_starts() -> None:
    """The leader was elected uncleanly. The lower high watermark is written down at once: what
    comes next may be as long as what was, and is not committed."""
    cluster, latest = out_of_range()
    cluster.node.handle(cluster.now, m.Timer(cluster.now, CHECKPOINT))
    (earliest,) = listed(cluster, latest, 4)
    told, asked = listed(cluster, earliest, 0)
    assert told == LogRestarted(ORDERS, ALL, 0)
    assert [one.fetch_offset for one in asked.body.partitions] == [0]
    answer(cluster, asked, served(high_watermark=2))
    assert cluster.partition.log.end == ALL
    again = Cluster(disk=cluster.disk)
    again.decide(2, 2)
    assert again.partition.replica.high_watermark == 0


@pytest.mark.parametrize(
    ("end", "start", "written"), [(50, 40, False), (5, ALL, False), (4, 0, True)]
)
def test_where_a_log_begins_anew_only_a_lower_high_watermark_is_written_down_at_once(
    end: int, start: int, written: bool
) -> None:
    cluster, latest = out_of_range()
    (earliest,) = listed(cluster, latest, end)
    _, asked = listed(cluster, earliest, start)
    assert (HIGH_WATERMARKS in cluster.disk.list_files("")) is written
    if written:
        cluster.disk.delete(HIGH_WATERMARKS)
        answer(cluster, asked, served(high_watermark=2))
        assert HIGH_WATERMARKS not in cluster.disk.list_files(""), "once is enough"


def test_a_log_that_ends_inside_of_the_leaders_is_left_alone_for_a_while() -> None:
    cluster, latest = out_of_range()
    (earliest,) = listed(cluster, latest, ALL)
    assert listed(cluster, earliest, ALL) == [Refused("restarting a log", "INVALID_REQUEST")]
    assert (cluster.partition.log.start, cluster.partition.log.end) == (0, ALL)
    assert tick(cluster, cluster.config.replica_fetch_backoff_ms - 1) == []
    (asked,) = tick(cluster, 1)
    assert type(asked.body) is m.FetchRequest


def test_each_answer_of_a_leader_about_its_log_counts_once_and_for_what_was_asked() -> None:
    """Taken for where the log starts, where it ends would throw everything away."""
    cluster, latest = out_of_range()
    (earliest,) = listed(cluster, latest, 50)
    ignored = [Ignored("answers nobody waits for")]
    assert listed(cluster, latest, 50) == ignored
    assert cluster.partition.log.end == ALL
    listed(cluster, earliest, 40)
    assert listed(cluster, earliest, 40) == ignored


def test_while_the_leader_is_asked_about_its_log_nothing_is_fetched() -> None:
    cluster, latest = out_of_range()
    patience = cluster.config.replica_socket_timeout_ms
    assert patience > cluster.config.replica_fetch_backoff_ms
    assert tick(cluster, patience - 1) == []
    (earliest,) = listed(cluster, latest, 50)
    assert tick(cluster, patience - 1) == []
    (asked,) = tick(cluster, 1)
    assert type(asked.body) is m.FetchRequest
    assert listed(cluster, earliest, 40) == [Ignored("answers nobody waits for")]
    assert cluster.partition.log.end == ALL


def test_a_leader_that_does_not_say_how_far_its_log_goes_is_asked_again_later() -> None:
    cluster, latest = out_of_range()
    refused = [Refused("listing offsets", "FENCED_LEADER_EPOCH")]
    assert listed(cluster, latest, -1, "FENCED_LEADER_EPOCH") == refused
    assert tick(cluster, cluster.config.replica_fetch_backoff_ms - 1) == []
    (asked,) = tick(cluster, 1)
    (again,) = answer(cluster, asked, OUT_OF_RANGE)
    assert wanted(again) == (m.LATEST, 1)


def test_a_connection_that_is_lost_takes_the_answers_about_the_log_along() -> None:
    cluster, latest = out_of_range()
    cluster.node.disconnected(2)
    (asked,) = tick(cluster)
    assert type(asked.body) is m.FetchRequest
    assert listed(cluster, latest, 50) == [Ignored("answers nobody waits for")]


def test_what_another_leader_said_of_its_log_means_nothing() -> None:
    cluster, latest = out_of_range()
    decided(cluster, 3, 2)
    assert listed(cluster, latest, 50) == [Ignored("answers nobody waits for")]
    (asked,) = decided(cluster, 2, 3)
    assert listed(cluster, latest, 50) == [Ignored("answers nobody waits for")]
    assert type(asked.body) is m.FetchRequest


def test_a_partition_is_fetched_beside_one_that_is_out_of_range() -> None:
    cluster, asked = following(partitions=(ORDERS, SECOND))
    other, latest = sorted(answer(cluster, asked, OUT_OF_RANGE), key=lambda one: str(one.body))
    assert asked_for(other) == [SECOND]
    (earliest,) = listed(cluster, latest, 50)
    assert listed(cluster, earliest, 40) == [LogRestarted(ORDERS, 0, 40)], "one request at a time"
    (asked,) = answer(cluster, other, m.FetchedPartition(SECOND, None, 0, 0, 0))
    assert asked_for(asked) == [ORDERS]


def test_a_disk_that_fails_where_a_log_begins_anew_is_told() -> None:
    disk = FailingDisk()
    cluster, latest = out_of_range(disk=disk)
    (earliest,) = listed(cluster, latest, 50)
    disk.broken = True
    assert Refused("restarting a log", "KAFKA_STORAGE_ERROR") in listed(cluster, earliest, 40)
