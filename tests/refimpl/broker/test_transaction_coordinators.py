"""Transactional ids at one node: who coordinates them, and markers to every leader."""

from typing import Any

import pytest

from refimpl.broker.node import MARKERS, TRANSACTIONS
from refimpl.broker.txn_markers import RETRY_MS
from refimpl.machines.messages import LeaderAndIsr
from refimpl.messages import broker as m
from refimpl.messages import group as g
from refimpl.messages import transaction_coordination as t
from refimpl.messages.cluster import PartitionRegistration, TopicCreated, TopicDeleted
from refimpl.messages.controller import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    Envelope,
    InitProducerIdResponse,
)
from refimpl.messages.transactions import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from refimpl.records.coordinators import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, partition_for
from tests.refimpl.broker.node_cases import EPOCH, ORDERS, Cluster

STATE = m.TopicPartition(TRANSACTIONS_TOPIC, 0)
OTHER, GONE = m.TopicPartition("other", 0), m.TopicPartition("gone", 0)
ID = "payments"
ALONE = (1,)


def settle(cluster: Cluster) -> None:
    for _ in range(5):
        cluster.later(0)


def coordinating(**of: Any) -> Cluster:
    """A node that leads the one partition of the ids, and has producer ids; 2 leads the others."""
    cluster = Cluster(**of)
    cluster.decide(1, 1, ALONE, partitions=(ORDERS, STATE))
    for name in (OTHER, GONE):
        led(cluster, name, 2)
    settle(cluster)
    return cluster


def led(cluster: Cluster, name: m.TopicPartition, leader: int | None, epoch: int = 1) -> list[Any]:
    """A topic of one partition that this node has no replica of."""
    topic_id = name.topic.encode().ljust(16, b"-")
    isr = frozenset((leader or 2,))
    decided = LeaderAndIsr(epoch, leader, isr, cluster.versions + 1)
    return cluster.news(
        TopicCreated(name.topic, topic_id),
        PartitionRegistration(name, topic_id, decided, (2, 3)),
    )


def initialised(cluster: Cluster) -> tuple[int, int]:
    found = cluster.ask(t.InitTransactionalIdRequest(ID, 60_000))
    if isinstance(found[0], AllocateProducerIdsRequest):
        (asked,) = [
            one
            for one in cluster.told
            if isinstance(one, m.Request) and isinstance(one.body, AllocateProducerIdsRequest)
        ]
        block = m.Response(0, 1, asked.correlation_id, AllocateProducerIdsResponse(None, 500, 1000))
        outputs = cluster.node.handle(cluster.now, block)
        cluster.told += outputs
        found = [one.body for one in outputs if isinstance(one, m.Response)]
    (answer,) = [one for one in found if isinstance(one, InitProducerIdResponse)]
    assert answer.error is None
    return answer.producer_id, answer.producer_epoch


def decided(cluster: Cluster, *partitions: m.TopicPartition) -> list[Any]:
    """The outcome of the commit of a transaction with these partitions."""
    at = initialised(cluster)
    (added,) = cluster.ask(t.AddPartitionsToTxnRequest(ID, *at, partitions))
    assert all(error is None for _, error in added.partitions)
    return cluster.ask(t.EndTxnRequest(ID, *at, True))


def markers(cluster: Cluster) -> list[m.Request]:
    """The requests with markers that this node has sent so far."""
    found = [
        one
        for one in cluster.told
        if isinstance(one, m.Request) and isinstance(one.body, WriteTxnMarkersRequest)
    ]
    cluster.told = [one for one in cluster.told if one not in found]
    return found


def answered(cluster: Cluster, to: m.Request, error: str | None = None) -> None:
    """A leader says this of each partition."""
    errors = {one.producer_id: dict.fromkeys(one.partitions, error) for one in to.body.markers}
    response = m.Response(to.target, 1, to.correlation_id, WriteTxnMarkersResponse(errors))
    cluster.told += cluster.node.handle(cluster.now, response)


def state(cluster: Cluster) -> str:
    (answer,) = cluster.ask(t.DescribeTransactionRequest(ID))
    return answer.state


def test_the_topic_is_made_when_somebody_asks_for_a_coordinator() -> None:
    cluster = Cluster()
    found = cluster.ask(g.FindCoordinatorRequest(g.TRANSACTION, (ID,)))
    (asked,) = [one for one in found if isinstance(one, Envelope)]
    (topic,) = asked.body.topics
    assert (topic.name, topic.num_partitions) == (TRANSACTIONS_TOPIC, 50)
    assert ("cleanup.policy", "compact") in topic.configs
    (answer,) = [one for one in found if isinstance(one, g.FindCoordinatorResponse)]
    assert [*answer.coordinators] == [g.FoundCoordinator(ID, "COORDINATOR_NOT_AVAILABLE")]
    (answer,) = coordinating().ask(g.FindCoordinatorRequest(g.TRANSACTION, (ID,)))
    assert [*answer.coordinators] == [g.FoundCoordinator(ID, None, 1)]


@pytest.mark.parametrize(
    "body",
    [
        t.InitTransactionalIdRequest(ID, 60_000),
        t.AddPartitionsToTxnRequest(ID, 1, 0, (ORDERS,)),
        t.AddOffsetsToTxnRequest(ID, 1, 0, "g"),
        t.EndTxnRequest(ID, 1, 0, True),
        t.DescribeTransactionRequest(ID),
    ],
)
def test_who_is_not_the_coordinator_says_so_and_an_id_has_a_name(body: Any) -> None:
    cluster = Cluster()
    cluster.decide(2, 1, partitions=(ORDERS, STATE))
    cluster.node.producer_ids.end = 1
    (answer,) = cluster.ask(body)
    assert answer == t.refused(body, "NOT_COORDINATOR")
    nameless = body._replace(transactional_id="")
    (answer,) = cluster.ask(nameless)
    assert answer == t.refused(nameless, "INVALID_REQUEST")


def test_the_first_producer_waits_for_producer_ids() -> None:
    cluster = coordinating()
    assert initialised(cluster) == (500, 0)
    assert initialised(cluster) == (500, 1)


def test_markers_go_to_every_leader_and_the_transaction_is_complete_with_the_last() -> None:
    cluster = coordinating()
    (ended,) = [one for one in decided(cluster, ORDERS, OTHER) if isinstance(one, t.EndTxnResponse)]
    assert ended == t.EndTxnResponse(None, 500, 1), "the producer is told before the partitions"
    sent = markers(cluster)
    assert [one.target for one in sent] == [1, 2]
    first = sent[0].body.markers[0]
    assert first == (500, 1, True, (ORDERS,), 1, 2)
    answered(cluster, sent[1])
    assert state(cluster) == "PrepareCommit"
    answered(cluster, sent[0])
    assert state(cluster) == "CompleteCommit"
    cluster.later(RETRY_MS)
    assert markers(cluster) == []


def test_a_partition_without_leader_is_waited_for() -> None:
    """Kafka 4.3 takes it for a deleted one (KAFKA-20734)."""
    cluster = coordinating()
    led(cluster, OTHER, None, 2)
    decided(cluster, OTHER)
    for _ in range(3):
        cluster.later(RETRY_MS)
    assert markers(cluster) == []
    assert state(cluster) == "PrepareCommit"
    led(cluster, OTHER, 3, 3)
    cluster.later(RETRY_MS)
    (sent,) = markers(cluster)
    assert sent.target == 3
    answered(cluster, sent)
    assert state(cluster) == "CompleteCommit"


def test_a_deleted_partition_owes_nothing() -> None:
    cluster = coordinating()
    decided(cluster, ORDERS, GONE)
    to_gone, to_us = markers(cluster)
    answered(cluster, to_us)
    answered(cluster, to_gone, "UNKNOWN_TOPIC_OR_PARTITION")
    cluster.later(RETRY_MS)
    (again,) = markers(cluster)
    assert again.body.markers[0].partitions == (GONE,), "it is there as far as this broker knows"
    cluster.news(TopicDeleted("gone", b"gone".ljust(16, b"-")))
    answered(cluster, again, "UNKNOWN_TOPIC_OR_PARTITION")
    cluster.later(RETRY_MS)
    assert markers(cluster) == []
    assert state(cluster) == "CompleteCommit"


def test_a_partition_that_is_not_known_yet_is_not_a_deleted_one() -> None:
    """An update was lost: what this broker does not know may be in it."""
    cluster = coordinating()
    decided(cluster, OTHER)
    (sent,) = markers(cluster)
    del cluster.node.metadata.partitions[OTHER]
    cluster.node.metadata.heard_version += 1
    answered(cluster, sent, "NOT_LEADER_OR_FOLLOWER")
    cluster.later(RETRY_MS)
    assert state(cluster) == "PrepareCommit"


@pytest.mark.parametrize(
    "error", ["NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS", "TRANSACTION_COORDINATOR_FENCED"]
)
def test_a_refused_marker_is_sent_again(error: str) -> None:
    cluster = coordinating()
    decided(cluster, OTHER)
    for _ in range(3):
        (sent,) = markers(cluster)
        answered(cluster, sent, error)
        assert markers(cluster) == [], "not at once"
        cluster.later(RETRY_MS)
    (sent,) = markers(cluster)
    answered(cluster, sent)
    assert state(cluster) == "CompleteCommit"


def test_a_partition_with_a_later_epoch_holds_nobody_up() -> None:
    """In Kafka 4.3 the markers of all partitions are given up, and the id is stuck."""
    cluster = coordinating()
    decided(cluster, ORDERS, OTHER)
    to_us, to_other = markers(cluster)
    answered(cluster, to_other, "INVALID_PRODUCER_EPOCH")
    assert state(cluster) == "PrepareCommit"
    answered(cluster, to_us)
    assert state(cluster) == "CompleteCommit"


def test_a_lost_answer_is_not_waited_for() -> None:
    cluster = coordinating()
    decided(cluster, OTHER)
    (lost,) = markers(cluster)
    cluster.later(RETRY_MS)
    assert markers(cluster) == [], "it is under way"
    cluster.node.disconnected(2)
    cluster.later(RETRY_MS)
    (again,) = markers(cluster)
    answered(cluster, lost)
    assert state(cluster) == "PrepareCommit", "an answer to what was given up"
    cluster.later(30_000)
    (third,) = markers(cluster)
    assert third.body == again.body
    answered(cluster, third)
    assert state(cluster) == "CompleteCommit"


def test_another_coordinator_goes_on_where_this_one_was() -> None:
    cluster = coordinating()
    decided(cluster, OTHER)
    (before,) = markers(cluster)
    cluster.decide(2, 2, (1, 2), partitions=(STATE,), full=False)
    (refused,) = cluster.ask(t.DescribeTransactionRequest(ID))
    assert refused.error == "NOT_COORDINATOR"
    cluster.decide(1, 3, ALONE, partitions=(STATE,), full=False)
    settle(cluster)
    answered(cluster, before)
    assert state(cluster) == "PrepareCommit", "an answer to an earlier coordinator"
    (sent,) = markers(cluster)
    assert sent.body.markers[0].coordinator_epoch == 3
    answered(cluster, sent)
    assert state(cluster) == "CompleteCommit"


def test_no_marker_goes_out_before_the_decision_is_committed() -> None:
    cluster = Cluster()
    cluster.decide(1, 1, ALONE, partitions=(ORDERS, STATE))
    led(cluster, OTHER, 2)
    settle(cluster)
    at = initialised(cluster)
    cluster.ask(t.AddPartitionsToTxnRequest(ID, *at, (OTHER,)))
    cluster.decide(1, 1, (1, 2), partitions=(STATE,), full=False)
    assert cluster.ask(t.EndTxnRequest(ID, *at, True)) == []
    cluster.later(RETRY_MS)
    assert markers(cluster) == []


def test_one_unknown_partition_adds_none() -> None:
    cluster = coordinating()
    at = initialised(cluster)
    missing = m.TopicPartition("missing", 0)
    (answer,) = cluster.ask(t.AddPartitionsToTxnRequest(ID, *at, (ORDERS, missing)))
    assert [*answer.partitions] == [
        (ORDERS, "OPERATION_NOT_ATTEMPTED"),
        (missing, "UNKNOWN_TOPIC_OR_PARTITION"),
    ]
    assert state(cluster) == "Empty"


def test_ids_are_listed_by_state_producer_duration_and_pattern() -> None:
    cluster = coordinating()
    at = initialised(cluster)
    cluster.ask(t.AddPartitionsToTxnRequest(ID, *at, (ORDERS,)))
    cluster.now += 5_000

    def listed(**of: Any) -> list[str]:
        (answer,) = cluster.ask(t.ListTransactionsRequest(**of))
        assert answer.error is None
        return [one.transactional_id for one in answer.transactions]

    assert listed() == [ID]
    assert listed(states=("Ongoing", "Nonsense")) == [ID]
    assert listed(states=("Nonsense",)) == listed(states=("Empty",)) == []
    assert listed(producer_ids=(500,)) == [ID]
    assert listed(producer_ids=(501,)) == []
    assert listed(duration_ms=4_999) == [ID]
    assert listed(duration_ms=5_000) == []
    assert listed(pattern="pay.*") == [ID]
    assert listed(pattern="pay") == []
    (answer,) = cluster.ask(t.ListTransactionsRequest(states=("Nonsense",)))
    assert [*answer.unknown_states] == ["Nonsense"]
    (answer,) = cluster.ask(t.ListTransactionsRequest(pattern="("))
    assert answer.error == "INVALID_REGULAR_EXPRESSION"


def test_timers_are_the_nodes() -> None:
    cluster = coordinating()
    names = {one.name for one in cluster.told if isinstance(one, m.Timer)}
    assert TRANSACTIONS in names
    decided(cluster, OTHER)
    assert MARKERS in {one.name for one in cluster.told if isinstance(one, m.Timer)}


def test_a_coordinator_that_waited_for_its_log_goes_on_now_and_not_in_the_past() -> None:
    cluster = coordinating()
    initialised(cluster)
    cluster.decide(1, 2, (1, 2), partitions=(ORDERS, STATE))
    assert not cluster.ask(t.InitTransactionalIdRequest(ID, 60_000)), "it is not replicated"
    cluster.decide(1, 3, (1, 2), partitions=(ORDERS, STATE))
    (answer,) = cluster.ask(t.DescribeTransactionRequest(ID))
    assert answer.error == "COORDINATOR_LOAD_IN_PROGRESS"
    log = cluster.node.partitions[STATE].log
    fetched = m.FetchPartition(STATE, log.end, 3, log.epoch_at(log.end - 1), 1)
    cluster.told.clear()
    cluster.ask(m.FetchRequest((fetched,), 0, replica_id=2, replica_epoch=EPOCH), 2)
    assert all(one.at_ms >= cluster.now for one in cluster.told if isinstance(one, m.Timer))
    settle(cluster)
    assert state(cluster) == "Empty"


def test_offsets_have_their_partition_before_their_topic_is_there() -> None:
    """Clients add a group's offsets first, and look for its coordinator then."""
    cluster = coordinating()
    assert OFFSETS_TOPIC not in cluster.node.metadata.topics
    added = cluster.node.transactions.offsets_of("g")
    assert added == m.TopicPartition(OFFSETS_TOPIC, partition_for("g", 50))
