"""Groups at one node: who coordinates them, what is loaded, when requests are answered, timers."""

from collections.abc import Sequence
from typing import Any

import pytest

from refimpl.broker.node import GROUPS
from refimpl.coordinator.observations import (
    CoordinatorLoaded,
    CoordinatorOperation,
    CoordinatorUnloaded,
)
from refimpl.messages import broker as m
from refimpl.messages import group as g
from refimpl.messages.cluster import (
    BrokerRegistration,
    ConfigResource,
    ConfigsAltered,
    TopicCreated,
    TopicDeleted,
)
from refimpl.messages.controller import Envelope
from refimpl.messages.observations import Refused, Written
from refimpl.messages.transaction_coordination import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from refimpl.messages.transactions import (
    TxnMarker,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from refimpl.records.coordinators import OFFSETS_TOPIC, partition_for
from refimpl.records.schema import Uuid
from tests.refimpl.broker.node_cases import EPOCH, ORDERS, Cluster, batch_of
from tests.refimpl.broker.test_transactions import place_coordinator

OFFSETS = m.TopicPartition(OFFSETS_TOPIC, 0)
ALONE = (1,)
NO_ID = bytes(16)


def coordinating(*isr: int, **of: Any) -> Cluster:
    """A node that leads orders-0 and the one partition of the groups."""
    cluster = Cluster(**of)
    cluster.decide(1, 1, isr or ALONE, partitions=(ORDERS, OFFSETS))
    settle(cluster)
    return cluster


def settle(cluster: Cluster) -> list[Any]:
    """Loading goes on by timers that are due at once."""
    found: list[Any] = []
    for _ in range(5):
        found += cluster.later(0)
    return found


def commit(cluster: Cluster, offset: int, group: str = "g") -> list[Any]:
    one = g.CommittedPartition(ORDERS, offset)
    return cluster.ask(g.OffsetCommitRequest(group, "", -1, None, (one,)))


def fetched(cluster: Cluster, group: str = "g") -> tuple[str | None, list[int]]:
    (answer,) = cluster.ask(g.OffsetFetchRequest(group, None))
    return answer.error, [one.offset for one in answer.partitions]


def done(error: str | None = None) -> g.OffsetCommitResponse:
    return g.OffsetCommitResponse([(ORDERS, error)])


def join(cluster: Cluster, group: str = "g", session_ms: int = 6_000) -> list[Any]:
    protocols = (("range", b"\0\0\0\0\0\0\0\0\0\0"),)
    return cluster.ask(
        g.JoinGroupRequest(group, session_ms, 1_000, "", None, "consumer", protocols)
    )


def of_kind(kind: type, found: Sequence[Any]) -> list[Any]:
    return [one for one in found if isinstance(one, kind)]


# Who coordinates


def test_the_topic_of_the_groups_is_made_when_somebody_asks_for_a_coordinator() -> None:
    cluster = Cluster()
    found = cluster.ask(g.FindCoordinatorRequest(g.GROUP, ("g",)))
    (asked,) = of_kind(Envelope, found)
    assert [topic.name for topic in asked.body.topics] == [OFFSETS_TOPIC]
    (answer,) = of_kind(g.FindCoordinatorResponse, found)
    assert [*answer.coordinators] == [g.FoundCoordinator("g", "COORDINATOR_NOT_AVAILABLE")]


def test_whoever_leads_the_groups_partition_and_lives_coordinates_it() -> None:
    cluster = Cluster()

    def found(key_type: int = g.GROUP) -> g.FoundCoordinator:
        (answer,) = cluster.ask(g.FindCoordinatorRequest(key_type, ("g",)))
        (one,) = answer.coordinators
        return one

    nobody = g.FoundCoordinator("g", "COORDINATOR_NOT_AVAILABLE")
    cluster.news(TopicCreated(OFFSETS_TOPIC, OFFSETS_TOPIC.encode().ljust(16, b"-")), full=True)
    assert found() == nobody, "its partitions are not told yet"
    cluster.decide(2, 1, partitions=(ORDERS, OFFSETS))
    assert found() == g.FoundCoordinator("g", None, 2)
    assert found(g.SHARE).error == "INVALID_REQUEST"
    cluster.news(BrokerRegistration(2, EPOCH, 1, fenced=True))
    assert found() == nobody
    cluster.decide(9, 2, partitions=(OFFSETS,), full=False)
    assert found() == nobody, "that broker is not told of"


def test_a_group_is_one_partitions_and_others_send_it_away() -> None:
    many = tuple(m.TopicPartition(OFFSETS_TOPIC, number) for number in range(5))
    cluster = Cluster()
    assert commit(cluster, 3) == [done("NOT_COORDINATOR")]
    cluster.decide(1, 1, ALONE, partitions=(ORDERS, *many))
    settle(cluster)
    group = next(name for name in "abcdefgh" if partition_for(name, 5) == 3)
    assert commit(cluster, 7, group) == [done()]
    assert cluster.node.partitions[many[3]].log.end == 1
    assert [cluster.node.partitions[one].log.end for one in many] == [0, 0, 0, 1, 0]
    (listed,) = cluster.ask(g.ListGroupsRequest())
    assert [one.group_id for one in listed.groups] == [group]


@pytest.mark.parametrize(
    "body",
    [
        g.HeartbeatRequest("", 1, "m"),
        g.LeaveGroupRequest("", ()),
        g.OffsetDeleteRequest("", ()),
    ],
)
def test_a_group_without_a_name_is_none(body: Any) -> None:
    (answer,) = coordinating().ask(body)
    assert answer.error == "INVALID_GROUP_ID"


def test_a_name_is_not_needed_for_offsets() -> None:
    cluster = coordinating()
    assert commit(cluster, 3, "") == [done()]


# What is written, and when it is answered


def test_a_commit_is_written_and_answered_when_it_is_committed() -> None:
    cluster = coordinating(1, 2)
    cluster.told.clear()
    assert commit(cluster, 3) == []
    assert Written(OFFSETS, 0, 1) in cluster.told
    assert of_kind(CoordinatorOperation, cluster.told)
    assert fetched(cluster) == (None, [-1]) or fetched(cluster) == (None, [])
    log = cluster.node.partitions[OFFSETS].log
    asked = m.FetchPartition(OFFSETS, log.end, 1, 1, 1)
    body = m.FetchRequest((asked,), 0, replica_id=2, replica_epoch=2)
    assert done() in cluster.ask(body, 2)
    assert fetched(cluster) == (None, [3])


def test_a_timer_that_is_not_needed_any_more_is_forgotten() -> None:
    cluster = coordinating()
    due = cluster.node.groups.coordinators._due  # pyright: ignore[reportPrivateUsage]
    (refused,) = join(cluster)
    assert refused.error == "MEMBER_ID_REQUIRED"

    def of_the_member() -> int:
        return sum(key.member_id == refused.member_id for _, key in due)

    assert of_the_member() == 1, "it has so long to come back"
    cluster.ask(g.LeaveGroupRequest("g", (g.LeavingMember(refused.member_id),)))
    assert of_the_member() == 0


def test_what_writes_nothing_is_no_append() -> None:
    cluster = coordinating()
    cluster.told.clear()
    (answer,) = cluster.ask(g.HeartbeatRequest("g", 1, "m"))
    assert answer.error == "UNKNOWN_MEMBER_ID"
    assert of_kind(Written, cluster.told) == []
    assert of_kind(CoordinatorOperation, cluster.told)


def test_who_leads_again_is_no_coordinator_until_it_has_loaded() -> None:
    """Its log is committed at once, because it is alone in sync, but it must load it first."""
    cluster = coordinating(1, 2)
    commit(cluster, 3)
    cluster.decide(2, 2, (1, 2), partitions=(ORDERS, OFFSETS))
    cluster.decide(1, 3, ALONE, partitions=(ORDERS, OFFSETS))
    assert cluster.node.partitions[OFFSETS].replica.high_watermark == 1
    settle(cluster)
    assert fetched(cluster) == (None, [3])


def test_a_leader_alone_answers_at_once() -> None:
    cluster = coordinating()
    assert commit(cluster, 3) == [done()]
    assert fetched(cluster) == (None, [3])
    assert fetched(cluster, "other") == (None, [])


def test_groups_are_written_though_too_few_are_in_sync() -> None:
    """As in Kafka: they are committed when there are enough."""
    cluster = coordinating()
    cluster.node.partitions[OFFSETS].replica.min_isr = 2
    assert commit(cluster, 3) == []
    assert cluster.node.partitions[OFFSETS].log.end == 1


def test_a_log_that_takes_nothing_is_told() -> None:
    cluster = coordinating()
    cluster.node.partitions[OFFSETS].replica.up = False
    cluster.told.clear()
    (answer,) = commit(cluster, 3)
    assert answer.partitions[0][1] is not None
    assert Refused("GroupCoordinator", "NOT_LEADER_OR_FOLLOWER") in cluster.told


# Loading and unloading


def test_what_was_written_is_found_by_the_next_process() -> None:
    cluster = coordinating()
    for offset in (3, 4):
        commit(cluster, offset)
    cluster.node.close()
    again = Cluster(disk=cluster.disk, logs=cluster.logs)
    again.decide(1, 2, ALONE, partitions=(ORDERS, OFFSETS))
    settle(again)
    assert fetched(again) == (None, [4])
    (loaded,) = of_kind(CoordinatorLoaded, again.told)
    assert (loaded.partition, loaded.end) == (OFFSETS, 2)


def test_who_waits_when_another_one_coordinates_hears_that_and_nothing_later() -> None:
    cluster = coordinating(1, 2)
    assert commit(cluster, 3) == []
    assert join(cluster) == []
    told = cluster.decide(2, 2, partitions=(ORDERS, OFFSETS))
    assert done("NOT_COORDINATOR") in told
    assert [one.error for one in of_kind(g.JoinGroupResponse, told)] == ["NOT_COORDINATOR"]
    assert CoordinatorUnloaded(OFFSETS) in cluster.told
    assert commit(cluster, 3) == [done("NOT_COORDINATOR")]
    assert of_kind(g.JoinGroupResponse, cluster.later(60_000)) == []
    (listed,) = cluster.ask(g.ListGroupsRequest())
    assert listed == g.ListGroupsResponse(None, [])


def test_a_partition_that_goes_takes_its_groups_with_it() -> None:
    cluster = coordinating()
    cluster.news(TopicDeleted(OFFSETS_TOPIC, OFFSETS_TOPIC.encode().ljust(16, b"-")))
    assert CoordinatorUnloaded(OFFSETS) in cluster.told
    assert commit(cluster, 3) == [done("NOT_COORDINATOR")]


def test_other_partitions_have_no_groups() -> None:
    cluster = Cluster()
    cluster.decide(1, 1, ALONE)
    assert not of_kind(CoordinatorLoaded, cluster.told)
    cluster.decide(2, 2)
    assert not of_kind(CoordinatorUnloaded, cluster.told)
    cluster = coordinating()
    cluster.told.clear()
    cluster.news(TopicDeleted("nobody", NO_ID))
    assert cluster.told == []


def test_what_is_committed_of_a_topic_that_goes_goes_with_it() -> None:
    cluster = coordinating()
    commit(cluster, 3)
    cluster.told.clear()
    cluster.news(TopicDeleted(ORDERS.topic, ORDERS.topic.encode().ljust(16, b"-")))
    assert Written(OFFSETS, 1, 2) in cluster.told
    assert fetched(cluster) == (None, [])


# Timers


def test_a_member_that_is_silent_is_removed_when_its_session_is_over() -> None:
    cluster = coordinating()
    cluster.told.clear()
    (answer,) = join(cluster) or cluster.later(3_000)
    member = answer.member_id
    again = cluster.ask(
        g.JoinGroupRequest(
            *("g", 6_000, 1_000, member, None, "consumer"),
            (("range", b"\0\0\0\0\0\0\0\0\0\0"),),
        )
    )
    (joined,) = again or cluster.later(3_000)
    assert (joined.error, joined.member_id, joined.leader) == (None, member, member)

    def beats() -> str | None:
        (answer,) = cluster.ask(g.HeartbeatRequest("g", joined.generation_id, member))
        return answer.error

    (synced,) = cluster.ask(
        g.SyncGroupRequest("g", joined.generation_id, member, None, None, None, ((member, b""),))
    )
    assert synced.error is None
    for _ in range(3):
        cluster.later(4_000)
        assert beats() is None
    cluster.later(6_001)
    assert beats() == "UNKNOWN_MEMBER_ID"


def test_a_timer_that_comes_too_early_sets_none() -> None:
    cluster = coordinating()
    join(cluster)
    due = [one.at_ms for one in cluster.told if isinstance(one, m.Timer) and one.name == GROUPS]
    assert due
    early = m.Timer(min(due) - 1, GROUPS)
    before = cluster.now
    assert list(cluster.node.handle(before, early)) == []


# What groups are configured with, and what they know of topics


def test_a_group_has_its_own_configuration() -> None:
    cluster = coordinating()
    cluster.news(
        ConfigsAltered(ConfigResource("group", "g"), {"consumer.session.timeout.ms": "50000"})
    )
    groups = cluster.node.groups
    (coordinator,) = groups.coordinators.by_partition.values()
    assert coordinator.partition == 0
    assert groups.configured("g") == {"consumer.session.timeout.ms": "50000"}
    assert groups.configured("other") == {}


def test_records_of_clients_stay_with_clients() -> None:
    cluster = coordinating()
    cluster.produce(batch_of(b"a"))
    assert cluster.node.partitions[OFFSETS].log.end == 0


# Transactions


def txn_commit(cluster: Cluster, offset: int = 9) -> list[Any]:
    one = g.CommittedPartition(ORDERS, offset)
    return cluster.ask(g.TxnOffsetCommitRequest("g", "tx", 5, 0, (one,), transaction_support=2))


def verify(cluster: Cluster, error: str | None = None) -> list[Any]:
    """The transaction's coordinator answers."""
    asked = [one for one in cluster.told if isinstance(one, m.Request)]
    (request,) = [one for one in asked if isinstance(one.body, AddPartitionsToTxnRequest)][-1:]
    assert request.body[:5] == ("tx", 5, 0, (OFFSETS,), False)
    body = AddPartitionsToTxnResponse([(OFFSETS, error)])
    answer = m.Response(request.target, 1, request.correlation_id, body)
    outputs = cluster.node.handle(cluster.now, answer)
    cluster.told += outputs
    return [one.body for one in outputs if isinstance(one, m.Response)]


def end_transaction(cluster: Cluster, number: int = 0, epoch: int = 0, by: int = 0) -> str | None:
    name = m.TopicPartition(OFFSETS_TOPIC, number)
    marker = TxnMarker(5, epoch, True, (name,), by, 0)
    answers = cluster.ask(WriteTxnMarkersRequest((marker,)))
    (answer,) = of_kind(WriteTxnMarkersResponse, answers)
    return answer.errors[5][name]


def stable(cluster: Cluster) -> list[tuple[str | None, int]]:
    answers = cluster.ask(g.OffsetFetchRequest("g", [(ORDERS, Uuid(NO_ID))], require_stable=True))
    return [(one.error, one.offset) for one in answers[0].partitions]


def test_offsets_within_a_transaction_are_verified_and_count_with_its_marker() -> None:
    cluster = coordinating()
    place_coordinator(cluster)
    commit(cluster, 3)
    assert of_kind(g.TxnOffsetCommitResponse, txn_commit(cluster)) == []
    assert verify(cluster) == [g.TxnOffsetCommitResponse([(ORDERS, None)])]
    assert of_kind(g.TxnOffsetCommitResponse, txn_commit(cluster, 10)), "it is open now"
    assert stable(cluster) == [("UNSTABLE_OFFSET_COMMIT", -1)]
    assert fetched(cluster) == (None, [3])
    assert end_transaction(cluster) is None
    assert stable(cluster) == [(None, 10)]
    log = cluster.node.partitions[OFFSETS].log
    assert log.producers.producers[5].first_offset < 0


def test_the_next_coordinator_finds_open_transactions_and_their_ends() -> None:
    cluster = coordinating()
    place_coordinator(cluster)
    txn_commit(cluster)
    verify(cluster)
    for ended in (False, True):
        for epoch in (2, 3) if not ended else (4, 5):
            leader = 2 if epoch % 2 == 0 else 1
            cluster.decide(leader, epoch, (leader,), partitions=(OFFSETS,), full=False)
        settle(cluster)
        assert stable(cluster) == [(None, 9) if ended else ("UNSTABLE_OFFSET_COMMIT", -1)]
        if not ended:
            assert end_transaction(cluster) is None


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"),
        ("TRANSACTION_ABORTABLE", "TRANSACTION_ABORTABLE"),
        ("NETWORK_EXCEPTION", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("NOT_COORDINATOR", "NOT_COORDINATOR"),
    ],
)
def test_offsets_that_cannot_be_verified_are_not_written(error: str, told: str) -> None:
    cluster = coordinating()
    place_coordinator(cluster)
    txn_commit(cluster)
    assert verify(cluster, error) == [g.TxnOffsetCommitResponse([(ORDERS, told)])]
    assert cluster.node.partitions[OFFSETS].log.end == 0


def test_a_late_answer_of_the_coordinator_opens_no_transaction_of_offsets() -> None:
    cluster = coordinating()
    place_coordinator(cluster)
    txn_commit(cluster)
    assert end_transaction(cluster) is None
    # Its epoch is that of the next transaction, if each has one of its own (KAFKA-18575).
    assert verify(cluster) == [g.TxnOffsetCommitResponse([(ORDERS, None)])]
    one = g.CommittedPartition(ORDERS, 1)
    asked = g.TxnOffsetCommitRequest("g", "tx", 6, 0, (one,))
    cluster.ask(asked)
    cluster.ask(WriteTxnMarkersRequest((TxnMarker(6, 0, False, (OFFSETS,), 0, 0),)))
    request = [one for one in cluster.told if isinstance(one, m.Request)][-1]
    assert request.body[:5] == ("tx", 6, 0, (OFFSETS,), True)
    body = AddPartitionsToTxnResponse([(OFFSETS, None)])
    outputs = cluster.node.handle(
        cluster.now, m.Response(request.target, 1, request.correlation_id, body)
    )
    (answer,) = [one.body for one in outputs if isinstance(one, m.Response)]
    assert answer.partitions == [(ORDERS, "INVALID_TXN_STATE")]


def test_markers_go_to_whoever_coordinates_the_groups() -> None:
    cluster = coordinating()
    assert end_transaction(cluster, epoch=2, by=4) is None
    assert end_transaction(cluster, epoch=1, by=4) == "INVALID_PRODUCER_EPOCH"
    assert end_transaction(cluster, epoch=2, by=3) == "TRANSACTION_COORDINATOR_FENCED"
    assert end_transaction(cluster, 3) == "UNKNOWN_TOPIC_OR_PARTITION"
    cluster.decide(2, 2, partitions=(ORDERS, OFFSETS))
    assert end_transaction(cluster) == "NOT_LEADER_OR_FOLLOWER"
    place_coordinator(cluster)
    assert txn_commit(cluster) == [g.TxnOffsetCommitResponse([(ORDERS, "NOT_COORDINATOR")])]
