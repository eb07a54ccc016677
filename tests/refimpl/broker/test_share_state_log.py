"""`__share_group_state` at one node: what is pruned, and what goes with a deleted topic."""

from collections.abc import Iterator

import pytest

from refimpl.broker.partition import Partition
from refimpl.machines.messages import LeaderAndIsr
from refimpl.machines.share_partition import ACCEPT
from refimpl.messages import group as g
from refimpl.messages import share as s
from refimpl.messages.cluster import PartitionRegistration, TopicCreated, TopicDeleted
from refimpl.records.coordinators import CoordinatorRecord
from refimpl.records.schema import Uuid
from refimpl.shares.shard import SNAPSHOT, ShareShard
from tests.refimpl.broker.node_cases import ORDERS, TOPIC_ID, Cluster, batch_of
from tests.refimpl.broker.test_share_groups import ALONE, OFFSETS, STATE, Node

INTERVAL_MS = 300_000
KEY = s.ShareKey("g", Uuid(TOPIC_ID), 0)
OTHER = s.ShareKey("h", Uuid(TOPIC_ID), 0)
OTHER_ID = b"again".ljust(16, b"-")


@pytest.fixture
def node() -> Node:
    """A node with ten records, and two members."""
    node = Node()
    node.cluster.produce(batch_of(*[b"v"] * 10))
    node.join("a", "b")
    node.given("w")
    return node


def state_log(node: Node) -> Partition:
    return node.cluster.node.partitions[STATE]


def written(node: Node) -> Iterator[CoordinatorRecord]:
    """The records that are left in the state log."""
    log = state_log(node).log
    for _, record in log.keyed_records(log.start, log.slice(log.start, 1 << 20))[0]:
        assert isinstance(record, CoordinatorRecord)
        yield record


def again(node: Node) -> Node:
    """The same disk under the next process."""
    before = node.cluster
    here = tuple(before.node.partitions)
    return Node(cluster=Cluster(disk=before.disk, here=here, now=before.now), partitions=here)


def initialised(node: Node, key: s.ShareKey) -> None:
    (answer,) = node.ask(s.InitializeShareStateRequest(key, 1, 0))
    assert answer.error is None


def wrote(node: Node, key: s.ShareKey, start: int) -> None:
    (answer,) = node.ask(s.WriteShareStateRequest(key, 1, 0, start, 0, ()))
    assert answer.error is None


def shard_of(node: Node) -> ShareShard:
    return node.cluster.node.share_coordinators.coordinators.by_partition[0].shard


def test_records_that_no_load_needs_are_deleted() -> None:
    node = Node()
    for key in (OTHER, KEY):
        initialised(node, key)
        for start in range(600):
            wrote(node, key, start)
    assert state_log(node).log.start == 0
    node.later(INTERVAL_MS)
    assert state_log(node).log.start == 501, "the older of the last snapshots"
    assert next(written(node)).kind is SNAPSHOT
    assert again(node).cluster.node.partitions[STATE].log.start == state_log(node).log.start
    assert shard_of(again(node)).states.current == shard_of(node).states.current


def test_a_share_partition_that_is_cold_does_not_hold_the_log(node: Node) -> None:
    initialised(node, OTHER)
    first = shard_of(node).states.current[KEY].offset
    node.later(INTERVAL_MS - 1)
    wrote(node, OTHER, 1)
    assert shard_of(node).states.current[KEY].offset == first
    before = shard_of(node).states.current[KEY]
    node.later(1)
    after = shard_of(node).states.current[KEY]
    assert (after.state, after.created_ms) == (before.state, before.created_ms)
    assert after.offset > first
    node.later(INTERVAL_MS)
    assert state_log(node).log.start > first
    end = state_log(node).log.end
    for _ in range(3):
        node.later(INTERVAL_MS)
    assert state_log(node).log.end == end, "all are cold, and a snapshot helps nobody"


def test_a_deleted_topic_takes_its_state_with_it(node: Node) -> None:
    node.given("a")
    assert node.acknowledge("a", 0, 3, ACCEPT) is None
    node.cluster.news(TopicDeleted("orders", TOPIC_ID))
    assert shard_of(node).states.current == {}
    group = node.cluster.node.groups.coordinators.by_partition[0].shard.value("g")
    assert (group.initialized, group.initializing) == ({}, {})
    assert node.ask(g.DescribeShareOffsetsRequest("g", None))[0].partitions == []
    for one in (node, again(node)):
        for body in (
            s.InitializeShareStateRequest(KEY, 9, 0),
            s.DeleteShareStateRequest(KEY),
            s.ReadShareStateSummaryRequest(KEY),
        ):
            (answer,) = one.ask(body)
            assert answer.error == "UNKNOWN_TOPIC_OR_PARTITION", body
        (answer,) = one.ask(s.ReadShareStateRequest(KEY, 9))
        assert answer.error == "INVALID_REQUEST", "it has no state"
        assert shard_of(one).states.current == {}


def test_a_topic_that_is_made_again_begins_afresh(node: Node) -> None:
    node.given("a")
    assert node.acknowledge("a", 0, 3, ACCEPT) is None
    decision = LeaderAndIsr(1, 1, frozenset(ALONE), 1)
    node.cluster.news(
        TopicDeleted("orders", TOPIC_ID),
        TopicCreated("orders", OTHER_ID),
        PartitionRegistration(ORDERS, OTHER_ID, decision, ALONE),
    )
    node.cluster.produce(batch_of(*[b"n"] * 3))
    node.join("c")
    assert node.given("c") == [], "the first fetch has the state read"
    assert node.given("c") == [(0, 2, 1)]
    assert [key.topic_id for key in shard_of(node).states.current] == [OTHER_ID]


def test_a_topic_that_was_deleted_while_nobody_coordinated_is_forgotten_at_the_load(
    node: Node,
) -> None:
    """Kafka's coordinators hear of a deletion only while they are active."""
    node.given("a")
    assert node.acknowledge("a", 0, 3, ACCEPT) is None
    cluster = node.cluster
    both = OFFSETS, STATE
    cluster.decide(2, 2, (1, 2), partitions=both, replicas=(1, 2), full=False)
    cluster.news(TopicDeleted("orders", TOPIC_ID))
    cluster.decide(1, 3, ALONE, partitions=both, replicas=(1, 2), full=False)
    node.later(0)
    assert shard_of(node).states.current == {}
    group = cluster.node.groups.coordinators.by_partition[0].shard.value("g")
    assert (group.initialized, group.initializing) == ({}, {})


def test_a_coordinator_answers_nothing_before_what_it_loaded_is_committed() -> None:
    node, both = Node(), (1, 2)
    initialised(node, KEY)
    cluster, read = node.cluster, s.ReadShareStateRequest(KEY, 0)

    def decide(epoch: int, isr: tuple[int, ...]) -> None:
        node.deliver(cluster.decide(1, epoch, isr, partitions=(STATE,), replicas=both, full=False))
        node.later(0)

    decide(2, both)
    assert node.ask(s.WriteShareStateRequest(KEY, 1, 0, 7, 0, ())) == [], "it is not committed"
    decide(3, both)
    (answer,) = node.ask(read)
    assert answer.error == "COORDINATOR_LOAD_IN_PROGRESS"
    decide(3, ALONE)
    (answer,) = node.ask(read)
    assert (answer.error, answer.start_offset) == (None, 7)
