"""Transactions at the leader of a partition: what it asks before it appends, and what it answers to
markers (KIP-98, KIP-890)."""

from collections.abc import Sequence
from typing import Any

import pytest

from refimpl.machines.messages import LeaderAndIsr
from refimpl.messages import broker as m
from refimpl.messages.cluster import PartitionRegistration, TopicCreated
from refimpl.messages.transaction_coordination import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from refimpl.messages.transactions import (
    ADD_PARTITION,
    DEFAULT_ERROR,
    GENERIC_ERROR,
    TxnMarker,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from refimpl.records.coordinators import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tests.refimpl.broker.node_cases import ORDERS, Cluster, batch_of, leading

COORDINATOR = 2
PAYMENTS = m.TopicPartition("payments", 0)
ELSEWHERE = m.TopicPartition("elsewhere", 0)


def place_coordinator(cluster: Cluster, leader: int | None = COORDINATOR) -> None:
    """The metadata has one partition of `__transaction_state`, at another broker."""
    name, topic_id = m.TopicPartition(TRANSACTIONS_TOPIC, 0), b"state".ljust(16, b"-")
    decision = LeaderAndIsr(1, leader, frozenset({COORDINATOR}), cluster.versions + 1)
    placed = PartitionRegistration(name, topic_id, decision, (COORDINATOR,))
    cluster.news(TopicCreated(TRANSACTIONS_TOPIC, topic_id), placed)


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.decide(1, 1, partitions=(ORDERS, PAYMENTS))
    place_coordinator(cluster)
    return cluster


def batch(
    sequence: int = 0, *, producer: int = 5, epoch: int = 0, transactional: bool = True
) -> Any:
    of = {"producer_id": producer, "producer_epoch": epoch, "base_sequence": sequence}
    return batch_of(b"v", transactional=transactional, **of)


def produce(
    cluster: Cluster,
    *batches: tuple[m.TopicPartition, bytes],
    support: int = GENERIC_ERROR,
    acks: int = 1,
) -> list[Any]:
    return cluster.ask(m.ProduceRequest(acks, 100, batches or [(ORDERS, batch())], "tx", support))


def asked(cluster: Cluster) -> list[m.Request]:
    """The verifications that the node asked for."""
    return [
        one
        for one in cluster.told
        if isinstance(one, m.Request) and isinstance(one.body, AddPartitionsToTxnRequest)
    ]


def verified(cluster: Cluster, error: str | None = None) -> list[Any]:
    """The coordinator answers the newest verification; answers what follows from that."""
    request = asked(cluster)[-1]
    body = AddPartitionsToTxnResponse([(one, error) for one in request.body.partitions])
    answer = m.Response(request.target, 1, request.correlation_id, body)
    outputs = list(cluster.node.handle(cluster.now, answer))
    cluster.told += outputs
    return [one.body for one in outputs if isinstance(one, m.Response)]


def errors_of(answers: Sequence[Any]) -> list[str | None]:
    (answer,) = answers
    assert isinstance(answer, m.ProduceResponse)
    return [one.error for one in answer.partitions]


def mark(
    cluster: Cluster,
    *partitions: m.TopicPartition,
    epoch: int = 0,
    committed: bool = False,
    by: int = 0,
    tv: int = 0,
) -> list[Any]:
    names = partitions or (ORDERS,)
    body = WriteTxnMarkersRequest((TxnMarker(5, epoch, committed, names, by, tv),))
    return [one for one in cluster.ask(body) if isinstance(one, WriteTxnMarkersResponse)]


# Produce


@pytest.mark.parametrize("support", [DEFAULT_ERROR, GENERIC_ERROR, ADD_PARTITION])
def test_the_first_write_of_a_transaction_waits_for_its_coordinator(
    cluster: Cluster, support: int
) -> None:
    produce(cluster, support=support)
    (request,) = asked(cluster)
    assert (request.target, cluster.partition.log.end) == (COORDINATOR, 0)
    body: AddPartitionsToTxnRequest = request.body
    assert body[:4] == ("tx", 5, 0, (ORDERS,))
    adds = support == ADD_PARTITION
    assert (body.verify_only, body.transaction_version) == (not adds, 2 if adds else 1)
    assert errors_of(verified(cluster)) == [None]
    assert errors_of(produce(cluster, (ORDERS, batch(1)), support=support)) == [None]
    assert (len(asked(cluster)), cluster.partition.log.end) == (1, 2)


def test_one_request_asks_once_for_all_its_partitions(cluster: Cluster) -> None:
    produce(cluster, (ORDERS, batch()), (PAYMENTS, batch()), (ELSEWHERE, batch()))
    (request,) = asked(cluster)
    assert request.body.partitions == (ORDERS, PAYMENTS)
    assert errors_of(verified(cluster)) == [None, None, "UNKNOWN_TOPIC_OR_PARTITION"]


def test_acks_of_all_wait_for_the_followers_after_that(cluster: Cluster) -> None:
    produce(cluster, acks=-1)
    assert verified(cluster) == []
    (answer,) = [one.body for one in cluster.catch_up() if isinstance(one.body, m.ProduceResponse)]
    assert answer.partitions[0][:3] == (ORDERS, None, 0)


@pytest.mark.parametrize(
    ("error", "support", "told"),
    [
        ("PRODUCER_FENCED", GENERIC_ERROR, "INVALID_PRODUCER_EPOCH"),
        ("TRANSACTION_ABORTABLE", GENERIC_ERROR, "TRANSACTION_ABORTABLE"),
        ("TRANSACTION_ABORTABLE", DEFAULT_ERROR, "INVALID_TXN_STATE"),
        ("INVALID_PRODUCER_ID_MAPPING", GENERIC_ERROR, "INVALID_PRODUCER_ID_MAPPING"),
        ("NOT_COORDINATOR", ADD_PARTITION, "NOT_ENOUGH_REPLICAS"),
        ("COORDINATOR_LOAD_IN_PROGRESS", GENERIC_ERROR, "NOT_ENOUGH_REPLICAS"),
        ("CONCURRENT_TRANSACTIONS", GENERIC_ERROR, "NOT_ENOUGH_REPLICAS"),
    ],
)
def test_what_cannot_be_verified_is_not_appended(
    cluster: Cluster, error: str, support: int, told: str
) -> None:
    produce(cluster, support=support)
    assert errors_of(verified(cluster, error)) == [told]
    assert cluster.partition.log.end == 0


def test_a_partition_is_added_again_while_the_transaction_before_is_ending(
    cluster: Cluster,
) -> None:
    """Each 20 ms for 100 ms, if that is left to the leader; then the client is told."""
    produce(cluster, support=ADD_PARTITION)
    for number in range(1, 6):
        assert verified(cluster, "CONCURRENT_TRANSACTIONS") == []
        assert len(asked(cluster)) == number
        cluster.later(20)
        assert len(asked(cluster)) == number + 1
    assert errors_of(verified(cluster, "CONCURRENT_TRANSACTIONS")) == ["CONCURRENT_TRANSACTIONS"]
    produce(cluster, support=ADD_PARTITION)
    verified(cluster, "CONCURRENT_TRANSACTIONS")
    cluster.later(20)
    assert errors_of(verified(cluster)) == [None]


def test_a_coordinator_that_is_not_there_is_not_waited_for(cluster: Cluster) -> None:
    place_coordinator(cluster, None)
    assert errors_of(produce(cluster)) == ["NOT_ENOUGH_REPLICAS"]
    place_coordinator(cluster)
    produce(cluster)
    cluster.node.disconnected(COORDINATOR)
    (answer,) = [
        one.body
        for one in cluster.node.handle(cluster.now, m.Timer(cluster.now, "expire"))
        if isinstance(one, m.Response)
    ]
    assert errors_of([answer]) == ["NOT_ENOUGH_REPLICAS"]
    produce(cluster)
    assert [errors_of([one]) for one in cluster.later(30_000)] == [["NOT_ENOUGH_REPLICAS"]]
    assert verified(cluster) == [], "too late"
    assert cluster.partition.log.end == 0


def test_an_answer_that_comes_after_the_end_of_its_transaction_opens_none(
    cluster: Cluster,
) -> None:
    """KAFKA-14884."""
    produce(cluster)
    mark(cluster)
    assert errors_of(verified(cluster)) == ["INVALID_TXN_STATE"]
    assert cluster.partition.log.end == 1


def test_a_leader_that_has_resigned_meanwhile_appends_nothing(cluster: Cluster) -> None:
    produce(cluster)
    cluster.decide(2, 2, partitions=(ORDERS, PAYMENTS))
    assert errors_of(verified(cluster)) == ["NOT_LEADER_OR_FOLLOWER"]


def test_a_request_has_one_producer(cluster: Cluster) -> None:
    two = (ORDERS, batch()), (PAYMENTS, batch(producer=6))
    assert errors_of(produce(cluster, *two)) == ["INVALID_PRODUCER_ID_MAPPING"] * 2
    assert not asked(cluster)


def test_records_of_a_transaction_that_nobody_names_are_refused(cluster: Cluster) -> None:
    assert errors_of(cluster.produce(batch())) == ["INVALID_TXN_STATE"]
    assert errors_of(produce(cluster, (ORDERS, batch(transactional=False)))) == [None]
    assert errors_of(produce(cluster, (ORDERS, b"nonsense"))) == ["CORRUPT_MESSAGE"]


# Markers


def test_a_marker_is_answered_once_it_is_committed(cluster: Cluster) -> None:
    produce(cluster)
    verified(cluster)
    assert mark(cluster, ORDERS, PAYMENTS, committed=True) == []
    assert cluster.partition.last_stable_offset == 0
    for follower in (2, 3):
        cluster.follow(follower, 2)
    assert cluster.partition.last_stable_offset == 2
    assert not [one for one in cluster.told if _is_answer(one)], "payments-0 is not committed yet"
    for follower in (2, 3):
        asked_for = m.FetchPartition(PAYMENTS, 1, 1, 1, 1)
        body = m.FetchRequest((asked_for,), 0, replica_id=follower, replica_epoch=follower)
        cluster.ask(body, follower)
    (answer,) = [one.body for one in cluster.told if _is_answer(one)]
    assert answer.errors == {5: {ORDERS: None, PAYMENTS: None}}


def _is_answer(one: Any) -> bool:
    return isinstance(one, m.Response) and isinstance(one.body, WriteTxnMarkersResponse)


def test_a_request_has_one_answer_whatever_is_not_here() -> None:
    """With one replica a marker is committed at once; Kafka may then never answer."""
    cluster = Cluster()
    cluster.decide(1, 1, (1,), replicas=(1,))
    one = TxnMarker(5, 0, False, (ORDERS,), 0)
    two = TxnMarker(6, 0, True, (ELSEWHERE, ORDERS), 0)
    for markers in ((one, two), (two, one), (two,), (one,), ()):
        answers = cluster.ask(WriteTxnMarkersRequest(markers))
        (answer,) = [one for one in answers if isinstance(one, WriteTxnMarkersResponse)]
        told = {
            5: {ORDERS: None},
            6: {ELSEWHERE: "UNKNOWN_TOPIC_OR_PARTITION", ORDERS: None},
        }
        assert answer.errors == {who: told[who] for who in [one.producer_id for one in markers]}


def test_two_markers_of_a_producer_are_one_result(cluster: Cluster) -> None:
    cluster = Cluster()
    cluster.decide(1, 1, (1,), replicas=(1,))
    markers = TxnMarker(5, 3, False, (ORDERS,), 0), TxnMarker(5, 2, False, (ORDERS,), 0)
    for order in (markers, markers[::-1]):
        answers = cluster.ask(WriteTxnMarkersRequest(order))
        (answer,) = [one for one in answers if isinstance(one, WriteTxnMarkersResponse)]
        assert answer.errors == {5: {ORDERS: "INVALID_PRODUCER_EPOCH"}}


def test_markers_are_refused_by_what_the_log_knows(cluster: Cluster) -> None:
    produce(cluster)
    verified(cluster)
    mark(cluster, by=4)
    fenced = mark(cluster, by=3)
    assert [one.errors for one in fenced] == [{5: {ORDERS: "TRANSACTION_COORDINATOR_FENCED"}}]
    produce(cluster, (ORDERS, batch(0, epoch=1)))
    verified(cluster)
    late = mark(cluster, by=4)
    assert [one.errors for one in late] == [{5: {ORDERS: "INVALID_PRODUCER_EPOCH"}}]
    late = mark(cluster, by=4, epoch=1, tv=2)
    assert [one.errors for one in late] == [{5: {ORDERS: "INVALID_PRODUCER_EPOCH"}}]


@pytest.mark.parametrize(("producer", "epoch"), [(-1, 0), (5, -1)])
def test_a_marker_of_nobody_is_refused(cluster: Cluster, producer: int, epoch: int) -> None:
    offsets = m.TopicPartition(OFFSETS_TOPIC, 0)
    marker = TxnMarker(producer, epoch, True, (ORDERS, offsets), 0)
    (answer,) = cluster.ask(WriteTxnMarkersRequest((marker,)))
    assert answer.errors == {producer: dict.fromkeys((ORDERS, offsets), "INVALID_REQUEST")}
    assert cluster.partition.log.end == 0


def test_too_few_in_sync_replicas_take_no_marker() -> None:
    cluster = leading(min_isr=3)
    cluster.decide(1, 1, (1, 2))
    (answer,) = mark(cluster)
    assert answer.errors == {5: {ORDERS: "NOT_ENOUGH_REPLICAS"}}


def test_markers_do_not_wait_for_ever(cluster: Cluster) -> None:
    assert mark(cluster) == []
    (answer,) = [one for one in cluster.later(30_000) if isinstance(one, WriteTxnMarkersResponse)]
    assert answer.errors == {5: {ORDERS: "REQUEST_TIMED_OUT"}}
    cluster.catch_up()
    assert len([one for one in cluster.told if _is_answer(one)]) == 1


def test_a_leader_that_resigns_does_not_say_that_a_marker_is_committed(cluster: Cluster) -> None:
    assert mark(cluster) == []
    cluster.decide(2, 2, partitions=(ORDERS, PAYMENTS))
    (answer,) = [one.body for one in cluster.told if _is_answer(one)]
    assert answer.errors == {5: {ORDERS: "NOT_LEADER_OR_FOLLOWER"}}
    (answer,) = mark(cluster)
    assert answer.errors == {5: {ORDERS: "NOT_LEADER_OR_FOLLOWER"}}


def test_an_open_transaction_is_described(cluster: Cluster) -> None:
    cluster.produce(batch(transactional=False, producer=9))
    produce(cluster)
    verified(cluster)
    (answer,) = cluster.ask(m.DescribeProducersRequest((ORDERS,)))
    found = {one.producer_id: one for one in answer.partitions[0].producers}
    assert (found[5].txn_start_offset, found[5].coordinator_epoch) == (1, -1)
    mark(cluster, by=7)
    (answer,) = cluster.ask(m.DescribeProducersRequest((ORDERS,)))
    found = {one.producer_id: one for one in answer.partitions[0].producers}
    assert (found[5].txn_start_offset, found[5].coordinator_epoch) == (-1, 7)
    assert (found[9].txn_start_offset, found[9].coordinator_epoch) == (-1, -1)
