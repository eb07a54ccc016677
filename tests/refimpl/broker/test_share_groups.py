"""Share groups at one node: who gets which records, what is written, and what is refused."""

from collections.abc import Sequence
from typing import Any

import pytest

from refimpl.broker.node import PERSISTER
from refimpl.machines.share_partition import ACCEPT, RELEASE, RENEW
from refimpl.messages import broker as m
from refimpl.messages import group as g
from refimpl.messages import share as s
from refimpl.messages.cluster import GROUP, ConfigResource, ConfigsAltered
from refimpl.records.coordinators import OFFSETS_TOPIC, SHARE_TOPIC
from refimpl.records.schema import Uuid
from tests.refimpl.broker.node_cases import CLIENT, ORDERS, TOPIC_ID, Cluster, batch_of

OFFSETS, STATE = m.TopicPartition(OFFSETS_TOPIC, 0), m.TopicPartition(SHARE_TOPIC, 0)
ALONE = (1,)
EARLIEST = {"share.auto.offset.reset": "earliest", "share.assignment.interval.ms": "0"}


class Node:
    """A node that is alone, with what it sends itself delivered."""

    def __init__(
        self,
        configs: dict[str, str] = EARLIEST,
        cluster: Cluster | None = None,
        partitions: Sequence[m.TopicPartition] = (ORDERS, OFFSETS, STATE),
    ) -> None:
        self.cluster = Cluster() if cluster is None else cluster
        self.cluster.decide(1, 1, ALONE, partitions=partitions, replicas=ALONE)
        self.cluster.news(ConfigsAltered(ConfigResource(GROUP, "g"), configs))
        self.sessions = dict[str, int]()
        self.later(0)

    def deliver(self, outputs: Sequence[Any]) -> list[Any]:
        """The answers to clients, after everything that the node says to itself."""
        found, left, cluster = list[Any](), list(outputs), self.cluster
        while left:
            one = left.pop(0)
            to_itself = isinstance(one, m.Request | m.Response) and one.target == 1
            if to_itself:
                more = cluster.node.handle(cluster.now, one)
                cluster.told += more
                left += more
            elif isinstance(one, m.Response):
                found.append(one.body)
        return found

    def ask(self, body: Any) -> list[Any]:
        cluster = self.cluster
        cluster.number += 1
        request = m.Request(CLIENT, 1, cluster.number, body)
        outputs = cluster.node.handle(cluster.now, request)
        cluster.told += outputs
        return self.deliver(outputs)

    def later(self, ms: int) -> list[Any]:
        """Time passes, and timers that are due go off, also those that they set."""
        cluster = self.cluster
        cluster.now += ms
        found = list[Any]()
        for _ in range(6):
            due = [o for o in cluster.told if isinstance(o, m.Timer) and o.at_ms <= cluster.now]
            cluster.told = [one for one in cluster.told if one not in due]
            for timer in due:
                outputs = cluster.node.handle(cluster.now, timer)
                cluster.told += outputs
                found += self.deliver(outputs)
        return found

    def heartbeat(self, member: str, epoch: int = 0, **of: Any) -> g.ShareGroupHeartbeatResponse:
        of.setdefault("subscribed_topic_names", ("orders",))
        (answer,) = self.ask(g.ShareGroupHeartbeatRequest("g", member, epoch, **of))
        return answer

    def join(self, *members: str) -> None:
        """Members join; by their second heartbeats the state of all partitions is there."""
        for member in members:
            self.heartbeat(member)
        for member in members:
            epoch = self.cluster.node.groups.coordinators.by_partition[0].shard.value("g")
            self.heartbeat(member, epoch.members[member].epoch)

    def fetch(self, member: str, most: int = 100, wait_ms: int = 0, **acks: Any) -> list[Any]:
        epoch = self.sessions.get(member, 0)
        self.sessions[member] = epoch + 1
        names = (ORDERS,) if epoch == 0 else ()
        acknowledgements = {ORDERS: acks["acks"]} if acks else {}
        return self.ask(
            s.ShareFetchRequest(
                *("g", member, epoch, names, (), acknowledgements),
                max_wait_ms=wait_ms,
                max_records=most,
                acquire_mode=s.RECORD_LIMIT,
            )
        )

    def given(self, member: str, most: int = 100) -> list[tuple[int, int, int]]:
        (answer,) = self.fetch(member, most)
        return [tuple(one) for part in answer.partitions for one in part.acquired]

    def acknowledge(self, member: str, first: int, last: int, *types: int) -> str | None:
        epoch = self.sessions[member]
        self.sessions[member] = epoch + 1
        batches = (s.AcknowledgementBatch(first, last, types),)
        renews, acks = RENEW in types, {ORDERS: batches}
        (answer,) = self.ask(s.ShareAcknowledgeRequest("g", member, epoch, acks, renews))
        ((_, error, _),) = answer.partitions
        return error

    def described(self) -> g.DescribedShareOffset:
        (answer,) = self.ask(g.DescribeShareOffsetsRequest("g", None))
        (one,) = answer.partitions
        return one


@pytest.fixture
def node() -> Node:
    """A node with ten records, and two members."""
    node = Node()
    node.cluster.produce(batch_of(*[b"v"] * 10))
    node.join("a", "b")
    assert node.given("w") == [], "the first fetch has the state read"
    return node


def test_a_member_is_assigned_partitions_once_their_state_is_initialised() -> None:
    node = Node()
    joined = node.heartbeat("a")
    assert (joined.error, joined.member_epoch, joined.assignment) == (None, 1, ())
    again = node.heartbeat("a", 1, subscribed_topic_names=None)
    assert again.assignment == (g.TopicIdPartitions(Uuid(TOPIC_ID), (0,)),)
    assert node.heartbeat("a", again.member_epoch).assignment is None
    assert node.heartbeat("a", 7).error == "FENCED_MEMBER_EPOCH"
    assert node.heartbeat("x", 1).error == "UNKNOWN_MEMBER_ID"
    assert node.heartbeat("a", -1).member_epoch == -1
    (described,) = node.ask(g.ShareGroupDescribeRequest("g"))
    assert (described.group_state, described.members) == ("Empty", [])


def test_a_member_that_has_missed_its_new_assignment_is_told_again() -> None:
    node = Node()
    node.heartbeat("a")
    missed = node.heartbeat("a", 1, subscribed_topic_names=None)
    again = node.heartbeat("a", 1, subscribed_topic_names=None)
    assert again == missed
    assert again.assignment == (g.TopicIdPartitions(Uuid(TOPIC_ID), (0,)),)


def test_a_member_that_is_silent_is_out(node: Node) -> None:
    node.later(44_000)
    node.heartbeat("a", 0)
    node.later(2_000)
    (described,) = node.ask(g.ShareGroupDescribeRequest("g"))
    assert [one.member_id for one in described.members] == ["a"]


def test_records_are_with_one_member_and_an_accepted_one_comes_to_nobody_again(node: Node) -> None:
    assert node.given("a", 4) == [(0, 3, 1)]
    assert node.given("b") == [(4, 9, 1)]
    assert node.acknowledge("a", 0, 3, ACCEPT, RELEASE, ACCEPT, ACCEPT) is None
    assert node.given("b") == [(1, 1, 2)]
    assert node.acknowledge("a", 1, 1, ACCEPT) == "INVALID_RECORD_STATE"
    assert (node.described().start_offset, node.described().lag) == (0, 7)


def test_a_fetch_waits_for_records_and_for_those_that_are_given_back(node: Node) -> None:
    node.given("a")
    assert node.fetch("b", wait_ms=500) == []
    batches = {ORDERS: (s.AcknowledgementBatch(3, 4, (RELEASE,)),)}
    answers = node.ask(s.ShareAcknowledgeRequest("g", "a", 1, batches))
    (fetched,) = [one for one in answers if isinstance(one, s.ShareFetchResponse)]
    assert [one.acquired for one in fetched.partitions] == [[(3, 4, 2)]]
    assert node.fetch("b", wait_ms=500) == []
    (late,) = node.later(500)
    assert (late.error, late.partitions) == (None, ())


def test_a_lock_that_is_over_gives_the_record_to_another_member(node: Node) -> None:
    assert node.given("a") == [(0, 9, 1)]
    assert node.acknowledge("a", 0, 0, RENEW) is None
    node.later(15_000)
    assert node.acknowledge("a", 0, 1, RENEW) is None
    node.later(15_001)
    assert node.given("b") == [(2, 9, 2)]


def test_only_a_request_that_renews_may_renew(node: Node) -> None:
    node.given("a")
    renewal = {ORDERS: (s.AcknowledgementBatch(0, 1, (RENEW,)),)}
    (answer,) = node.ask(s.ShareAcknowledgeRequest("g", "a", 1, renewal))
    assert [error for _, error, _ in answer.partitions] == ["INVALID_REQUEST"]
    node.later(30_000)
    assert node.given("b") == [(0, 9, 2)], "the locks were not renewed"


def test_a_request_acknowledges_a_record_once(node: Node) -> None:
    node.given("a")
    twice = {ORDERS: tuple(s.AcknowledgementBatch(first, 3, (ACCEPT,)) for first in (2, 3))}
    (answer,) = node.ask(s.ShareAcknowledgeRequest("g", "a", 1, twice))
    assert [error for _, error, _ in answer.partitions] == ["INVALID_RECORD_STATE"]
    node.later(30_000)
    assert node.given("b") == [(0, 9, 2)], "nothing was taken"


def test_a_session_that_ends_gives_its_records_back(node: Node) -> None:
    assert node.given("a") == [(0, 9, 1)]
    (answer,) = node.ask(s.ShareFetchRequest("g", "a", s.FINAL_EPOCH, (), (), {}))
    assert answer.error is None
    assert node.given("b") == [(0, 9, 2)]


def test_a_connection_that_breaks_takes_its_sessions_with_it(node: Node) -> None:
    opened = s.ShareFetchRequest("g", "c", 0, (ORDERS,), (), {}, 0, max_records=4, connection=7)
    assert node.ask(opened._replace(acquire_mode=s.RECORD_LIMIT))[0].error is None
    assert node.ask(s.ShareFetchRequest("g", "c", 1, (), (), {}, 500, connection=7))[0].partitions
    assert node.ask(s.ShareFetchRequest("g", "c", 2, (), (), {}, 500, connection=7)) == []
    assert node.ask(s.ShareConnectionLost(8)) == [], "another connection"
    (late,) = node.ask(s.ShareConnectionLost(7))
    assert late.partitions == (), "who is gone acquires nothing"
    assert node.given("b") == [(0, 9, 2)]


@pytest.mark.parametrize(("room", "partitions"), [(0, 1), (1, 2)])
def test_the_bytes_of_all_partitions_are_within_the_limit(room: int, partitions: int) -> None:
    """An answer has one batch in any case, and a partition is begun while there is room."""
    other, batch = m.TopicPartition("orders", 1), batch_of(b"v")
    node = Node(partitions=(ORDERS, other, OFFSETS, STATE))
    for name in (ORDERS, other):
        node.cluster.ask(m.ProduceRequest(1, 100, [(name, batch)]))
    node.join("a")
    asked = s.ShareFetchRequest("g", "a", 0, (ORDERS, other), (), {}, 0)
    node.ask(asked)  # has the states read
    (answer,) = node.ask(
        asked._replace(session_epoch=1, partitions=(), max_bytes=len(batch) + room)
    )
    assert [one.acquired for one in answer.partitions] == [[(0, 0, 1)]] * partitions


def test_all_sessions_of_a_lost_connection_end(node: Node) -> None:
    sessions = node.cluster.node.share_partitions.sessions
    others = {*sessions.sessions}
    opened = s.ShareFetchRequest("g", "a", 0, (ORDERS,), (), {}, 0, connection=7)
    for group, member in (("g", "a"), ("g", "b"), ("h", "a")):
        node.ask(opened._replace(group_id=group, member_id=member))
    assert len(sessions.sessions) == len(others) + 3
    node.ask(s.ShareConnectionLost(7))
    assert {*sessions.sessions} == others


def test_requests_out_of_order_are_refused(node: Node) -> None:
    batches = {ORDERS: (s.AcknowledgementBatch(0, 0, (ACCEPT,)),)}
    for body, error in (
        (s.ShareFetchRequest("g", "a", 3, (), (), {}), "SHARE_SESSION_NOT_FOUND"),
        (s.ShareFetchRequest("g", "a", 0, (ORDERS,), (), batches), "INVALID_REQUEST"),
        (s.ShareAcknowledgeRequest("g", "a", 0, batches), "INVALID_SHARE_SESSION_EPOCH"),
        (s.ShareFetchRequest("g", "a", 0, (ORDERS,), (), {}, 0), None),
        (s.ShareFetchRequest("g", "a", 2, (), (), {}), "INVALID_SHARE_SESSION_EPOCH"),
    ):
        (answer,) = node.ask(body)
        assert answer.error == error, body


def test_a_new_leader_epoch_of_the_same_leader_loads_what_was_written(node: Node) -> None:
    assert node.given("a") == [(0, 9, 1)]
    assert node.acknowledge("a", 0, 4, ACCEPT) is None
    node.deliver(node.cluster.decide(1, 2, ALONE, partitions=(ORDERS,), replicas=ALONE, full=False))
    assert node.acknowledge("a", 5, 5, ACCEPT) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert node.given("b") == [], "the state is read again"
    assert node.given("b") == [(5, 9, 1)]
    (shared,) = node.cluster.node.share_partitions.shared.values()
    assert (shared.share.leader_epoch, shared.share.start) == (2, 5)


def test_deleted_records_are_passed_over(node: Node) -> None:
    assert node.given("a", 4) == [(0, 3, 1)]
    node.ask(m.DeleteRecordsRequest([(ORDERS, 6)], 100))
    assert node.given("b") == [(6, 9, 1)]
    assert node.acknowledge("a", 0, 3, ACCEPT) is None, "below the start nothing happens"


def test_a_write_is_tried_again_and_given_up_in_the_end(node: Node) -> None:
    assert node.given("a") == [(0, 9, 1)]
    node.cluster.node.share_coordinators.coordinators.by_partition.clear()
    batches = {ORDERS: (s.AcknowledgementBatch(0, 9, (ACCEPT,)),)}
    assert node.ask(s.ShareAcknowledgeRequest("g", "a", 1, batches)) == []
    assert any(isinstance(one, m.Timer) and one.name == PERSISTER for one in node.cluster.told)
    found = [one for _ in range(12) for one in node.later(1_000)]
    ((_, error, _),) = found[0].partitions
    assert error == "COORDINATOR_NOT_AVAILABLE"


def test_an_operator_sets_the_start_of_a_group_without_members(node: Node) -> None:
    assert node.given("a") == [(0, 9, 1)]
    assert node.acknowledge("a", 0, 9, ACCEPT) is None
    alter = g.AlterShareOffsetsRequest("g", ((ORDERS, 7),))
    assert node.ask(alter)[0].error == "NON_EMPTY_GROUP"
    for member in "aw":
        node.ask(s.ShareFetchRequest("g", member, s.FINAL_EPOCH, (), (), {}))
    node.heartbeat("a", -1)
    node.heartbeat("b", -1)
    (answer,) = node.ask(alter)
    assert [error for _, error, _ in answer.partitions] == [None]
    assert (node.described().start_offset, node.described().lag) == (7, 3)
    node.sessions.clear()
    node.join("c")
    node.fetch("c")
    (shared,) = node.cluster.node.share_partitions.shared.values()
    assert shared.share.start == 7
    assert node.ask(g.DeleteGroupRequest("g"))[0].error == "NON_EMPTY_GROUP"
    node.ask(s.ShareFetchRequest("g", "c", s.FINAL_EPOCH, (), (), {}))
    node.heartbeat("c", -1)
    assert node.ask(g.DeleteGroupRequest("g"))[0].error is None
    assert node.ask(g.DescribeShareOffsetsRequest("g", None))[0].partitions == []


def test_an_operator_sets_the_start_of_a_new_group_and_not_of_one_that_commits(node: Node) -> None:
    (answer,) = node.ask(g.AlterShareOffsetsRequest("new", ((ORDERS, 7),)))
    assert (answer.error, [error for _, error, _ in answer.partitions]) == (None, [None])
    commit = g.OffsetCommitRequest("plain", "", -1, None, [g.CommittedPartition(ORDERS, 1)])
    assert [error for _, error in node.ask(commit)[0].partitions] == [None]
    (answer,) = node.ask(g.AlterShareOffsetsRequest("plain", ((ORDERS, 7),)))
    assert answer.error == "GROUP_ID_NOT_FOUND"


def test_other_protocols_do_not_see_a_share_group(node: Node) -> None:
    (answer,) = node.ask(
        g.ConsumerGroupHeartbeatRequest(
            *("g", "x", 0), rebalance_timeout_ms=1, topic_partitions=(), subscribed_topic_names=()
        )
    )
    assert answer.error == "GROUP_ID_NOT_FOUND"
    (listed,) = node.ask(g.ListGroupsRequest(types=("share",)))
    assert [(one.group_id, one.state, one.type) for one in listed.groups] == [
        ("g", "Stable", "share")
    ]
