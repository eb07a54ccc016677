"""The exchange between a node on a store and its candidate for the controller."""

from collections.abc import Sequence
from typing import Any, cast

import pytest
from attrs import define, field

from refimpl.broker.config import BrokerConfig
from refimpl.broker.file_logs import FileLogs
from refimpl.broker.node import FETCH, HEARTBEAT
from refimpl.broker.stored_node import StoredNode
from refimpl.controller.controller import BALANCE
from refimpl.controller.stored_controller import StoredController
from refimpl.machines.messages import AlterPartitionRequest
from refimpl.messages import broker as m
from refimpl.messages import controller as c
from refimpl.messages.observations import BrokerEpochTaken
from refimpl.metadata import contract as store
from refimpl.storage.disk.interface import MemoryDisk

T0 = m.TopicPartition("t", 0)
ALTER = c.AlterPartitionRequest(T0, AlterPartitionRequest(2, 1, 1, 1, ()))
EVENT = store.WatchEvent(store.EventType.DELETED, "/controller")


@define(eq=False)
class Election:
    newest_epoch: int = 0


@define(eq=False)
class Candidate:
    """A candidate that notes what it takes, and whom it believed to be controller then."""

    election: Election = field(factory=Election)
    broker_epoch: int = -1
    controller_id: int = -1
    #: Who it finds to be controller, if anybody
    found: int | None = None
    outputs: list[Any] = field(factory=list[Any])
    taken: list[tuple[int, Any]] = field(factory=list[tuple[int, Any]])

    def handle(self, now: int, message: Any) -> Sequence[Any]:
        self.taken.append((self.controller_id, message))
        if self.found is not None:
            self.controller_id = self.found
        outputs, self.outputs = self.outputs, []
        return outputs


def started(**of: Any) -> tuple[StoredNode, Candidate]:
    candidate = Candidate(**of)
    logs = FileLogs(MemoryDisk(), lambda: 0, topic_ids={})
    node = StoredNode(
        *(1, BrokerConfig(), logs, dict[str, int](), 5),
        candidate=cast(StoredController, candidate),
    )
    assert node.start(0, [T0]) == []
    return node, candidate


def timers(outputs: Sequence[Any]) -> set[str]:
    return {one.name for one in outputs if isinstance(one, m.Timer)}


def test_a_start_opens_logs_and_asks_nobody() -> None:
    node, candidate = started()
    assert node.partitions.keys() == {T0}
    assert (node.context.controller, candidate.taken) == (-1, [])


@pytest.mark.parametrize(
    "message",
    [
        *(store.Connected(1, 6_000), store.Suspended(), store.Expired()),
        *(store.StoreResponse(1, store.Created("/a")), EVENT, m.Timer(0, BALANCE)),
        *(m.Request(2, 1, 1, body) for body in (ALTER, c.Envelope(ALTER))),
        m.Request(2, 1, 1, c.BrokerHeartbeatRequest(2, 1, 1, False)),
        m.Request(2, 1, 1, c.AllocateProducerIdsRequest(2, 1)),
    ],
)
def test_what_is_the_stores_or_for_the_controller_is_the_candidates(message: Any) -> None:
    node, candidate = started(outputs=["said"])
    assert list(node.handle(0, message)) == ["said"]
    assert candidate.taken == [(-1, message)]


@pytest.mark.parametrize(
    "message",
    [
        *(m.Timer(0, HEARTBEAT), m.Response(2, 1, 1, ALTER)),
        m.Request(100, 1, 1, m.ListOffsetsRequest(())),
    ],
)
def test_all_else_is_the_brokers(message: Any) -> None:
    node, candidate = started()
    node.handle(0, message)
    assert candidate.taken == []


def test_the_candidate_knows_who_is_controller_by_news_and_the_broker_by_the_candidate() -> None:
    node, candidate = started(found=3)
    node.context.controller = 2
    node.handle(0, EVENT)
    assert (candidate.taken, node.context.controller) == ([(2, EVENT)], 3)


def test_a_broker_epoch_is_taken_at_once_and_the_first_one_begins_the_work() -> None:
    node, candidate = started()
    assert node.handle(0, EVENT) == []
    candidate.broker_epoch, candidate.outputs = 0, ["said"]
    said, taken, *others = node.handle(7, EVENT)
    assert (said, taken) == ("said", BrokerEpochTaken(1, 5, 0))
    assert timers(others) >= {HEARTBEAT, FETCH}
    assert node.partitions[T0].replica.incarnation == node.context.broker_epoch == 0
    assert node.handle(8, EVENT) == []
    candidate.broker_epoch = 6
    assert list(node.handle(9, EVENT)) == [BrokerEpochTaken(1, 5, 6)], "it is at work already"
    assert node.partitions[T0].replica.incarnation == 6


def test_the_newest_controller_is_the_one_of_news_or_of_the_store() -> None:
    node, candidate = started()
    for of_the_store, newest in ((2, 2), (1, 2), (3, 3)):
        candidate.election.newest_epoch = of_the_store
        node.handle(0, EVENT)
        assert node.fence.controller_epoch == newest
