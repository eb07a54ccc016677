"""Producer ids: given out once each, from blocks that the controller allocates (KIP-730)."""

from typing import Any

from refimpl.broker.node import HEARTBEAT
from refimpl.messages import broker as m
from refimpl.messages.controller import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from refimpl.messages.observations import Refused
from tests.refimpl.broker.node_cases import EPOCH, ORDERS, Cluster, batch_of, leading


def init(cluster: Cluster) -> list[Any]:
    return cluster.ask(InitProducerIdRequest())


def asked(cluster: Cluster) -> list[m.Request]:
    """The requests for a block."""
    return [
        one
        for one in cluster.told
        if isinstance(one, m.Request) and isinstance(one.body, AllocateProducerIdsRequest)
    ]


def allocated(cluster: Cluster, to: m.Request, *block: int, error: str | None = None) -> list[Any]:
    body = AllocateProducerIdsResponse(error, *block)
    response = m.Response(0, 1, to.correlation_id, body)
    return [*cluster.node.handle(cluster.now, response)]


def given(outputs: list[Any]) -> list[int]:
    found = [one.body for one in outputs if isinstance(one, m.Response)]
    assert all(one == InitProducerIdResponse(None, one.producer_id, 0) for one in found)
    return [one.producer_id for one in found]


def test_who_asks_first_waits_for_a_block_and_the_next_is_served_from_it() -> None:
    cluster = Cluster()
    assert init(cluster) == [AllocateProducerIdsRequest(1, EPOCH)]
    assert init(cluster) == [], "it is asked for already"
    (to,) = asked(cluster)
    assert given(allocated(cluster, to, 1000, 3)) == [1000, 1001]
    assert init(cluster) == [InitProducerIdResponse(None, 1002, 0)]
    assert init(cluster) == [AllocateProducerIdsRequest(1, EPOCH)], "the block is used up"


def test_a_block_too_small_is_followed_by_another_one() -> None:
    cluster = Cluster()
    for _ in range(3):
        init(cluster)
    (to,) = asked(cluster)
    outputs = allocated(cluster, to, 0, 2)
    assert given(outputs) == [0, 1]
    (again,) = [one for one in outputs if isinstance(one, m.Request)]
    assert given(allocated(cluster, again, 7, 1)) == [7]


def test_a_block_that_was_not_asked_for_gives_nothing() -> None:
    cluster = Cluster()
    init(cluster)
    (to,) = asked(cluster)
    late = to._replace(correlation_id=to.correlation_id + 1)
    assert allocated(cluster, late, 1000, 3) == []
    assert given(allocated(cluster, to, 2000, 3)) == [2000]
    assert allocated(cluster, to, 2000, 3) == [], "its ids may be given out already"


def test_without_an_answer_and_after_a_refusal_it_is_asked_again_by_the_clock() -> None:
    cluster = Cluster()
    init(cluster)
    (to,) = asked(cluster)
    refused = allocated(cluster, to, error="NOT_CONTROLLER")
    assert refused == [Refused("AllocateProducerIds", "NOT_CONTROLLER")]
    for _ in range(2):
        cluster.told.clear()
        cluster.told += cluster.node.handle(cluster.now, m.Timer(cluster.now, HEARTBEAT))
        (to,) = asked(cluster)
    assert given(allocated(cluster, to, 5, 1)) == [5]
    cluster.told.clear()
    cluster.told += cluster.node.handle(cluster.now, m.Timer(cluster.now, HEARTBEAT))
    assert asked(cluster) == [], "nobody waits"


def test_an_answer_that_takes_longer_than_a_heartbeat_interval_counts_once() -> None:
    cluster = Cluster()
    init(cluster)
    (first,) = asked(cluster)
    for _ in range(3):
        cluster.told += cluster.node.handle(cluster.now, m.Timer(cluster.now, HEARTBEAT))
    assert given(allocated(cluster, first, 1000, 1)) == [1000]
    init(cluster)
    assert allocated(cluster, first, 1000, 1) == [], "a copy of the same answer"
    for late in asked(cluster)[1:-1]:
        assert allocated(cluster, late, 2000, 1) == [], "it has a block, and its ids are used up"


def test_who_is_not_registered_asks_for_none() -> None:
    cluster = Cluster()
    cluster.node.context.broker_epoch = -1
    assert init(cluster) == []


# What is known of producers, and of the log directory


def test_producers_are_described_by_every_replica() -> None:
    cluster = leading()
    open_txn = {"producer_epoch": 2, "base_sequence": 0, "transactional": True}
    cluster.produce(
        batch_of(b"a", b"b", at_ms=70, producer_id=5, producer_epoch=3, base_sequence=4)
    )
    cluster.begin(batch_of(b"c", at_ms=80, producer_id=6, **open_txn))
    elsewhere = m.TopicPartition("elsewhere", 0)
    (answer,) = cluster.ask(m.DescribeProducersRequest((ORDERS, elsewhere)))
    here, missing = answer.partitions
    assert (here.error, missing.error) == (None, "UNKNOWN_TOPIC_OR_PARTITION")
    assert set(here.producers) == {
        m.ActiveProducer(5, 3, 5, 70, -1, -1),
        m.ActiveProducer(6, 2, 0, 80, -1, 2),
    }
    cluster.decide(2, 2)
    (answer,) = cluster.ask(m.DescribeProducersRequest((ORDERS,)))
    (follower,) = answer.partitions
    assert (follower.error, len(follower.producers)) == (None, 2)


def test_logs_are_described_that_are_here() -> None:
    cluster = leading()
    cluster.produce(batch_of(b"a"))
    assert cluster.partition.replica.high_watermark == 0, "of which nobody lags behind"
    log = m.DescribedLog(ORDERS, len(batch_of(b"a")), 0)
    elsewhere = m.TopicPartition("elsewhere", 0)
    for wanted, found in ((None, [log]), ((elsewhere, ORDERS), [log]), ((elsewhere,), [])):
        (answer,) = cluster.ask(m.DescribeLogDirsRequest(wanted))
        assert (list(answer.logs), answer.error) == (found, None)


def test_a_directory_in_which_everything_has_failed_is_told() -> None:
    cluster = leading()
    context = cluster.node.context
    context.offline[m.TopicPartition("elsewhere", 0)] = "bad"
    (answer,) = cluster.ask(m.DescribeLogDirsRequest(None))
    assert (len(answer.logs), answer.error) == (1, None)
    context.partitions.clear()
    (answer,) = cluster.ask(m.DescribeLogDirsRequest(None))
    assert (list(answer.logs), answer.error) == ([], "KAFKA_STORAGE_ERROR")
    context.offline.clear()
    (answer,) = cluster.ask(m.DescribeLogDirsRequest(None))
    assert answer.error is None
