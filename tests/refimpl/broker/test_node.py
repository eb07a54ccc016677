"""Answers to clients and followers by a node on Kafka's files."""

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from refimpl.broker.file_logs import FileLogs
from refimpl.broker.node import FETCH, HEARTBEAT
from refimpl.errors import CorruptFile
from refimpl.machines.replica_log import Origin
from refimpl.messages import broker as m
from refimpl.messages.controller import (
    CONTROLLER,
    BrokerHeartbeatRequest,
    StorageFailed,
    UpdateMetadataRequest,
)
from refimpl.messages.observations import FetchAnswered, Ignored, Refused, WentOffline
from refimpl.storage.config import LogConfig
from refimpl.storage.disk.interface import MemoryDisk
from refimpl.storage.format.batch import batches
from refimpl.storage.format.control import EndTxnMarker, encode_marker
from refimpl.storage.replica.files import PartitionReplicaLog
from tests.refimpl.broker.node_cases import (
    CLIENT,
    EPOCH,
    ORDERS,
    Cluster,
    FailingDisk,
    answer,
    answer_outputs,
    batch_of,
    following,
    leading,
)

ONE = len(batch_of(b"a"))
K = TypeVar("K")


def of_kind(kind: type[K], found: list[Any]) -> list[K]:
    return [one for one in found if isinstance(one, kind)]


def test_a_batch_of_several_records_is_acknowledged_when_its_last_is_committed() -> None:
    cluster = leading(min_isr=2)
    assert cluster.produce(batch_of(b"a", b"b", b"c"), acks=-1) == []
    assert cluster.partition.log.end == 3
    cluster.follow(2, 3)
    cluster.follow(3, 0)
    assert cluster.partition.replica.high_watermark == 0
    (produced,) = of_kind(m.ProduceResponse, cluster.follow(3, 3))
    assert produced.partitions == (m.ProducedPartition(ORDERS, None, 0, -1, 0),)


def test_what_is_not_committed_in_time_is_told_once_and_may_be_committed_later() -> None:
    cluster = leading()
    assert cluster.produce(batch_of(b"a"), acks=-1, timeout_ms=100) == []
    assert of_kind(m.ProduceResponse, cluster.later(99)) == []
    (told,) = of_kind(m.ProduceResponse, cluster.later(1))
    assert told.partitions == (m.ProducedPartition(ORDERS, "REQUEST_TIMED_OUT"),)
    assert Refused("Produce", "REQUEST_TIMED_OUT") in cluster.told
    assert of_kind(m.ProduceResponse, [one.body for one in cluster.catch_up()]) == []
    assert cluster.partition.replica.high_watermark == 1


def test_who_was_told_of_a_time_out_is_told_nothing_when_the_leader_goes() -> None:
    cluster = leading()
    cluster.produce(batch_of(b"a"), acks=-1, timeout_ms=100)
    assert len(of_kind(m.ProduceResponse, cluster.later(100))) == 1
    assert of_kind(m.ProduceResponse, cluster.decide(2, 2)) == []


def test_a_repeated_batch_is_told_where_it_went() -> None:
    cluster = leading()
    sent = batch_of(b"a", b"b", producer_id=5, producer_epoch=0, base_sequence=0)
    first, again = (cluster.produce(sent)[0].partitions[0] for _ in range(2))
    assert first[:3] == again[:3] == (ORDERS, None, 0)
    assert cluster.partition.log.end == 2


def test_a_gap_in_the_sequences_is_refused() -> None:
    cluster = leading()
    cluster.produce(batch_of(b"a", producer_id=5, producer_epoch=0, base_sequence=0))
    late = batch_of(b"c", producer_id=5, producer_epoch=0, base_sequence=2)
    (answer,) = cluster.produce(late)
    assert answer.partitions[0].error == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert "sequence 1, not 2" in answer.partitions[0].message


@pytest.mark.parametrize(
    ("acks", "error"), [(2, "INVALID_REQUIRED_ACKS"), (-1, "NOT_ENOUGH_REPLICAS")]
)
def test_what_may_not_be_appended_is_refused(acks: int, error: str) -> None:
    cluster = leading(min_isr=2)
    cluster.decide(1, 2, (1,))
    (answer,) = cluster.produce(batch_of(b"a"), acks=acks)
    assert answer.partitions[0].error == error
    assert cluster.partition.log.end == 0


# Fetch


def committed(count: int, **of: object) -> Cluster:
    """A leader with so many committed batches of two records."""
    cluster = leading(**of)
    for number in range(count):
        cluster.produce(batch_of(b"%d" % number, b"x", at_ms=number * 10))
    cluster.catch_up()
    assert cluster.partition.replica.high_watermark == 2 * count
    return cluster


def read(cluster: Cluster, offset: int, **of: object) -> list[int]:
    """The base offsets of the batches that a consumer gets."""
    (answer,) = cluster.fetch(offset, **of)
    (fetched,) = answer.partitions
    assert fetched.error is None
    data = fetched.records.data if fetched.records else b""
    return [header.base_offset for _, header in batches(data)]


def test_a_fetch_inside_of_a_batch_begins_with_the_whole_batch() -> None:
    assert read(committed(3), 3) == [2, 4]


def test_limits_are_bytes_and_the_first_batch_comes_whole() -> None:
    cluster = committed(3)
    size = len(batch_of(b"0", b"x"))
    assert read(cluster, 0, max_bytes=1) == [0]
    assert read(cluster, 0, max_bytes=2 * size) == [0, 2]


@pytest.mark.parametrize("room", [1, 1 + ONE])
def test_only_the_first_partition_of_an_answer_may_pass_its_limit(room: int) -> None:
    cluster = leading()
    for value in (b"a", b"b"):
        cluster.produce(batch_of(value))
    cluster.catch_up()
    cluster.catch_up()
    both = (m.FetchPartition(ORDERS, 0, max_bytes=1), m.FetchPartition(ORDERS, 1))
    (answer,) = cluster.ask(m.FetchRequest(both, 0, max_bytes=room))
    assert [len(one.records) for one in answer.partitions] == [1, 0]
    (answer,) = cluster.ask(m.FetchRequest(both, 0, max_bytes=2 * ONE))
    assert [len(one.records) for one in answer.partitions] == [1, 1]


def test_nothing_above_the_high_watermark_is_read() -> None:
    cluster = committed(1)
    cluster.produce(batch_of(b"late"))
    assert read(cluster, 0) == [0]
    assert read(cluster, 2) == []


def test_a_fetch_waits_for_min_bytes() -> None:
    cluster = committed(1)
    assert cluster.fetch(2, max_wait_ms=50, min_bytes=2 * ONE) == []
    cluster.produce(batch_of(b"a"))
    assert consumed(cluster.catch_up()) == []
    cluster.produce(batch_of(b"b"))
    assert consumed(cluster.catch_up()) == [2 * ONE]


def test_a_fetch_of_which_one_partition_is_refused_waits_for_no_records_of_another() -> None:
    cluster = committed(1)
    names = (ORDERS, m.TopicPartition("elsewhere", 0))
    asked = tuple(m.FetchPartition(name, 0) for name in names)
    (answer,) = cluster.ask(m.FetchRequest(asked, 50, min_bytes=10**6))
    errors = [one.error for one in answer.partitions]
    assert errors == [None, "UNKNOWN_TOPIC_OR_PARTITION"]


def test_a_fetch_of_no_bytes_waits_for_nothing() -> None:
    cluster = committed(1)
    (answer,) = cluster.fetch(2, max_wait_ms=50, min_bytes=0)
    assert [(one.error, len(one.records)) for one in answer.partitions] == [(None, 0)]


def test_a_fetch_is_answered_once() -> None:
    cluster = committed(1)
    end = cluster.partition.log.end
    assert cluster.fetch(end, max_wait_ms=50) == []
    assert len(of_kind(m.FetchResponse, cluster.later(50))) == 1
    cluster.produce(batch_of(b"a"))
    assert consumed(cluster.catch_up()) == []


def consumed(answers: list[m.Response]) -> list[int]:
    """The number of bytes in each answer to a consumer."""
    fetched = of_kind(m.FetchResponse, [one.body for one in answers if one.target == CLIENT])
    return [len(one.partitions[0].records.data) for one in fetched]


def test_a_fetch_that_waited_in_vain_is_answered_with_what_there_is() -> None:
    cluster = committed(1)
    cluster.fetch(2, max_wait_ms=50)
    (answer,) = cluster.later(50)
    assert answer.partitions[0][:3] == (ORDERS, None, 2)
    assert not answer.partitions[0].records


def test_who_reads_committed_records_waits_for_the_end_of_a_transaction() -> None:
    cluster = committed(1)
    open_txn = {"producer_id": 5, "producer_epoch": 0, "transactional": True}
    cluster.begin(batch_of(b"a", base_sequence=0, **open_txn))
    cluster.catch_up()
    assert read(cluster, 2) == [2]
    assert read(cluster, 2, isolation_level=m.READ_COMMITTED) == []
    (answer,) = cluster.fetch(2)
    assert answer.partitions[0].last_stable_offset == 2
    who = {"producer_id": 5, "producer_epoch": 0}
    marker = encode_marker(EndTxnMarker(False, 0), timestamp=1_000, **who)
    log = cluster.partition.log
    assert isinstance(log, PartitionReplicaLog)
    log.log.append_as_leader(marker, 1, cluster.now, Origin.COORDINATOR)
    cluster.catch_up()
    (answer,) = cluster.fetch(2, isolation_level=m.READ_COMMITTED)
    (fetched,) = answer.partitions
    assert fetched.last_stable_offset == 4
    assert [(one.producer_id, one.first_offset) for one in fetched.aborted_transactions] == [(5, 2)]


# ListOffsets


def test_it_is_told_of_followers_alone_that_they_were_answered() -> None:
    cluster = committed(3)

    def answered(ask: Callable[[], object]) -> list[m.TopicPartition]:
        known = len(cluster.told)
        ask()
        return [one.partition for one in of_kind(FetchAnswered, cluster.told[known:])]

    assert answered(lambda: cluster.follow(2, 0)) == [ORDERS]
    assert answered(lambda: cluster.follow(2, 0, epoch=9)) == []
    assert answered(lambda: cluster.fetch(0)) == []


def listed(cluster: Cluster, timestamp: int, **of: int) -> tuple[int, int, int]:
    one = m.ListOffsetsPartition(ORDERS, timestamp)
    (answer,) = cluster.ask(m.ListOffsetsRequest((one,), **of))
    (found,) = answer.partitions
    assert found.error is None
    return found[2:]


def test_offsets_by_time_and_at_the_ends_of_the_log() -> None:
    cluster = committed(3)
    cluster.produce(batch_of(b"not committed", at_ms=99))
    assert listed(cluster, m.EARLIEST) == listed(cluster, m.EARLIEST_LOCAL) == (0, -1, 1)
    assert listed(cluster, m.LATEST) == (6, -1, 1)
    assert listed(cluster, 5) == (2, 10, 1)
    assert listed(cluster, 98) == (-1, -1, -1)
    assert listed(cluster, m.LATEST_TIERED) == (-1, -1, -1)
    assert listed(cluster, m.LATEST, replica_id=2) == (7, -1, 1)
    assert listed(cluster, m.MAX_TIMESTAMP, replica_id=2) == (6, 99, 1)


def test_a_new_leader_does_not_know_yet_how_much_is_committed() -> None:
    cluster = committed(2)
    cluster.produce(batch_of(b"a"))
    cluster.decide(2, 2)
    cluster.decide(1, 3)
    one = m.ListOffsetsPartition(ORDERS, m.LATEST)
    (answer,) = cluster.ask(m.ListOffsetsRequest((one,)))
    assert answer.partitions[0].error == "OFFSET_NOT_AVAILABLE"
    assert listed(cluster, m.EARLIEST) == (0, -1, 1)


# DeleteRecords


def delete(cluster: Cluster, offset: int) -> list[m.DeletedPartition]:
    answers = cluster.ask(m.DeleteRecordsRequest(((ORDERS, offset),), 100))
    return [one for answer in answers for one in answer.partitions]


def test_records_are_deleted_when_all_in_sync_have_deleted_them() -> None:
    cluster = committed(3)
    assert delete(cluster, 4) == []
    assert cluster.partition.log.start == 4
    cluster.follow(2, 6, log_start_offset=4)
    answers = cluster.follow(3, 6, log_start_offset=5)
    assert m.DeleteRecordsResponse((m.DeletedPartition(ORDERS, None, 4),)) in answers
    assert listed(cluster, m.EARLIEST)[0] == 4
    (answer,) = cluster.fetch(3)
    assert answer.partitions[0].error == "OFFSET_OUT_OF_RANGE"


def test_a_deletion_waits_for_followers_out_of_sync_and_for_nobody_who_is_fenced() -> None:
    cluster = committed(1)
    cluster.decide(1, 1, (1, 2))
    assert delete(cluster, 2) == []
    answers = cluster.follow(2, 2, log_start_offset=2)
    assert of_kind(m.DeleteRecordsResponse, answers) == []
    answers = cluster.decide(1, 1, (1, 2), fenced=(3,))
    assert answers == [m.DeleteRecordsResponse((m.DeletedPartition(ORDERS, None, 2),))]


def test_a_deletion_that_nobody_follows_times_out() -> None:
    cluster = committed(1)
    assert delete(cluster, m.HIGH_WATERMARK) == []
    (answer,) = cluster.later(100)
    assert answer.partitions == (m.DeletedPartition(ORDERS, "REQUEST_TIMED_OUT"),)
    assert cluster.partition.log.start == 2


@pytest.mark.parametrize("offset", [7, -2])
def test_only_what_is_committed_can_be_deleted(offset: int) -> None:
    cluster = committed(3)
    cluster.produce(batch_of(b"not committed"))
    assert delete(cluster, offset) == [m.DeletedPartition(ORDERS, "OFFSET_OUT_OF_RANGE")]
    assert cluster.partition.log.start == 0


def test_a_compacted_topic_does_not_delete_records() -> None:
    cluster = committed(1)
    cluster.partition.log.configure(LogConfig(cleanup_policy=frozenset({"compact"})))
    assert delete(cluster, 1) == [m.DeletedPartition(ORDERS, "POLICY_VIOLATION")]


# A follower


def test_a_follower_deletes_what_its_leader_has_deleted() -> None:
    cluster, asked = following()
    leader = committed(3)
    (whole,) = leader.fetch(0)[0].partitions
    (asked,) = answer(cluster, asked, whole._replace(log_start_offset=4))
    assert cluster.partition.log.start == 4
    assert asked.body.partitions[0].log_start_offset == 4


def test_in_a_session_a_follower_names_what_has_changed_alone() -> None:
    cluster, asked = following()
    assert [one.partition for one in asked.body.partitions] == [ORDERS]
    empty = m.FetchedPartition(ORDERS, None, 0, 0, 0)
    (asked,) = answer(cluster, asked, empty)
    assert (asked.body.session_epoch, tuple(asked.body.partitions)) == (1, ())
    (whole,) = committed(3).fetch(0)[0].partitions
    (asked,) = answer(cluster, asked, whole)
    assert [one.fetch_offset for one in asked.body.partitions] == [cluster.partition.log.end]


def test_a_partition_that_was_refused_is_left_alone_for_the_backoff() -> None:
    cluster, asked = following()
    assert answer(cluster, asked, m.FetchedPartition(ORDERS, "NOT_LEADER_OR_FOLLOWER")) == []
    again = cluster.now + cluster.config.replica_fetch_backoff_ms

    def asks(now: int) -> list[int]:
        outputs = cluster.node.handle(now, m.Timer(now, FETCH))
        return [one.target for one in outputs if isinstance(one, m.Request)]

    assert asks(again - 1) == []
    assert asks(again) == [2]


def test_a_lost_connection_ends_the_session_and_another_ones_does_not() -> None:
    cluster, asked = following()
    (asked,) = answer(cluster, asked, m.FetchedPartition(ORDERS, None, 0, 0, 0))
    cluster.node.disconnected(3)
    fetcher = cluster.node.fetchers.fetchers[2]
    assert (fetcher.in_flight, fetcher.session.epoch) == (asked.correlation_id, 1)
    cluster.node.disconnected(2)
    assert (fetcher.in_flight, fetcher.session.epoch) == (0, m.NEW_SESSION)
    (late,) = [one for one in answer_outputs(cluster, asked) if isinstance(one, Ignored)]
    assert late.what == "answers nobody waits for"


def test_who_gets_no_answer_asks_again_in_a_new_session() -> None:
    cluster, asked = following()
    (asked,) = answer(cluster, asked, m.FetchedPartition(ORDERS, None, 0, 0, 0))
    assert asked.body.session_epoch == 1
    patience = cluster.config.replica_socket_timeout_ms

    def asks(now: int) -> list[int]:
        outputs = cluster.node.handle(now, m.Timer(now, FETCH))
        return [one.body.session_epoch for one in outputs if isinstance(one, m.Request)]

    assert asks(cluster.now + patience) == []
    assert asks(cluster.now + patience + 1) == [m.NEW_SESSION]


def test_a_leader_that_cannot_tell_its_log_start_changes_nothing() -> None:
    cluster, asked = following()
    (asked,) = answer(cluster, asked, m.FetchedPartition(ORDERS, "OFFSET_OUT_OF_RANGE"))
    failed = m.ListOffsetsResponse((m.ListedOffset(ORDERS, "NOT_LEADER_OR_FOLLOWER", 40),))
    cluster.node.handle(cluster.now, m.Response(2, 1, asked.correlation_id, failed))
    assert (cluster.partition.log.start, cluster.partition.log.end) == (0, 0)


def test_a_follower_that_waits_hears_of_a_log_start_that_moved() -> None:
    cluster = committed(3)
    end = cluster.partition.log.end
    one = m.FetchPartition(ORDERS, end, 1, cluster.partition.log.epoch_at(end - 1), 50)
    first = m.FetchRequest((one,), 500, replica_id=2, replica_epoch=2, session_epoch=0)
    (begun,) = cluster.ask(first, 2)
    waiting = first._replace(partitions=(), session_id=begun.session_id, session_epoch=1)
    assert cluster.ask(waiting, 2) == []
    known = len(cluster.told)
    delete(cluster, 1)
    (told,) = [
        one.body for one in cluster.told[known:] if isinstance(one, m.Response) and one.target == 2
    ]
    assert [one.log_start_offset for one in told.partitions] == [1]


# Storage


def test_a_disk_that_fails_takes_its_partitions_offline_and_the_node_goes_on() -> None:
    disk = FailingDisk()
    cluster = committed(1, disk=disk)
    assert cluster.produce(batch_of(b"a"), acks=-1) == []
    cluster.fetch(2, max_wait_ms=50)
    cluster.told.clear()
    disk.broken = True
    answers = cluster.produce(batch_of(b"b"))
    answers += cluster.later(0)
    errors = [one.partitions[0].error for one in answers]
    assert errors == ["KAFKA_STORAGE_ERROR"] * 3
    assert WentOffline(ORDERS) in cluster.told
    (failed,) = of_kind(StorageFailed, cluster.told)
    assert "Input/output error" in failed.why
    cluster.told.clear()
    (answer,) = cluster.fetch(0)
    assert answer.partitions[0].error == "KAFKA_STORAGE_ERROR"
    assert cluster.decide(1, 2) == []
    assert cluster.ask(m.MetadataRequest())
    assert of_kind(m.Timer, cluster.told) == [], "once it is looked after it is no news"


def heartbeats(cluster: Cluster) -> list[tuple[m.TopicPartition, ...]]:
    """The failed logs that the node reports, for each heartbeat."""
    asked = [one.body for one in cluster.told if isinstance(one, m.Request)]
    return [one.offline for one in asked if isinstance(one, BrokerHeartbeatRequest)]


def test_the_controller_hears_at_once_and_ever_again_that_a_log_has_failed() -> None:
    cluster = leading()
    cluster.told.append(m.Timer(cluster.now, HEARTBEAT))
    cluster.later(0)
    assert heartbeats(cluster) == [()]
    cluster.told.clear()
    assert isinstance(cluster.node.logs, FileLogs)
    cluster.node.logs.directory.damaged[ORDERS] = CorruptFile("orders-0", 0, "bad")
    cluster.node.context.storage_failed = True
    cluster.fetch(0)
    cluster.later(0)
    assert heartbeats(cluster) == [(ORDERS,)]
    assert of_kind(StorageFailed, cluster.told) == []
    cluster.told.append(m.Timer(cluster.now, HEARTBEAT))
    cluster.later(0)
    assert heartbeats(cluster) == [(ORDERS,), (ORDERS,)]


def test_a_log_that_is_damaged_from_the_start_is_told() -> None:
    cluster = Cluster()
    assert isinstance(cluster.node.logs, FileLogs)
    cluster.node.logs.directory.damaged[ORDERS] = CorruptFile("orders-0", 0, "bad")
    cluster.decide(1, 1)
    assert ORDERS not in cluster.node.partitions
    cluster.told.append(m.Timer(cluster.now, HEARTBEAT))
    cluster.later(0)
    assert heartbeats(cluster) == [(ORDERS,)]


@pytest.mark.parametrize(
    ("epoch", "source", "why"),
    [
        (EPOCH - 1, CONTROLLER, "decisions for an earlier incarnation"),
        (EPOCH + 1, CONTROLLER, "decisions for an earlier incarnation"),
        (EPOCH, 2, "decisions for an earlier incarnation"),
        (EPOCH, CONTROLLER, None),
    ],
)
def test_news_are_for_one_process_and_by_who_says_so(
    epoch: int, source: int, why: str | None
) -> None:
    cluster = leading()
    cluster.told.clear()
    cluster.ask(UpdateMetadataRequest(epoch, cluster.versions + 1, (), False), source)
    assert cluster.told == ([] if why is None else [Ignored(why)])
    taken = cluster.node.metadata.metadata_version == cluster.versions + 1
    assert taken == (why is None)


def test_what_an_earlier_topic_of_the_same_name_left_is_not_taken_for_ours() -> None:
    disk = MemoryDisk()
    assert committed(1, disk=disk).partition.log.end == 2
    same = Cluster(disk=disk)
    same.decide(2, 2)
    assert same.partition.log.end == 2
    another = Cluster(disk=disk)
    another.decide(2, 2, topic_id=b"another".ljust(16, b"-"))
    assert another.partition.log.end == 0
