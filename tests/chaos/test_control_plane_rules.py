"""The rules of the oracles of a control plane in a store one by one, without a run."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import define, field

from chaos.clients.operator import (
    CONFIGURATIONS,
    ENTITIES,
    FIRST_VALUE,
    ORDERS,
    QUOTAS,
    Altered,
    Answered,
    Asked,
    Setting,
)
from chaos.oracles.control_plane import ControlPlaneOracle
from chaos.oracles.operations import OperationsOracle
from chaos.sim.addresses import TOPIC, TOPIC_ID
from chaos.sim.store import Applied
from refimpl.controller import znodes
from refimpl.machines.messages import LeaderAndIsr
from refimpl.messages import controller as c
from refimpl.messages.broker import TopicPartition
from refimpl.messages.cluster import PartitionRegistration
from refimpl.messages.observations import ControllerElected, ControllerFenced
from refimpl.metadata.contract import Create, Delete, Multi, SetData
from tests.chaos.seen import Seen, reported

HERE = TopicPartition(TOPIC, 0)
ISR = (1, 2)
OTHER = b"other".ljust(16, b"-")


def decision(
    leader: int | None = 1,
    *,
    isr: tuple[int, ...] = ISR,
    epoch: int = 1,
    version: int = 1,
    **of: Any,
) -> PartitionRegistration:
    decided = LeaderAndIsr(epoch, leader, frozenset(isr), version)
    return PartitionRegistration(HERE, TOPIC_ID, decided, (1, 2, 3), **of)


@define
class Plane:
    """A store of which the oracle sees the writes; session 1 is the controller's."""

    believers: list[int] = field(factory=lambda: [1])
    watched: dict[int, set[str]] = field(factory=lambda: {1: {znodes.CONTROLLER}})
    seen: Seen = field(factory=Seen)
    oracle: ControlPlaneOracle = field(init=False)

    def __attrs_post_init__(self) -> None:
        simulation: Any = self.seen
        store: Any = SimpleNamespace(
            believers=lambda: self.believers,  # pyright: ignore
            watched=lambda: self.watched,  # pyright: ignore
        )
        self.oracle = ControlPlaneOracle(simulation, store, Counter())
        self.oracle.attach()
        self.claims(1)

    def writes(self, write: Any, *, session: int = 1) -> None:
        self.seen.observe(0, Applied(1, session, write))

    def claims(self, epoch: int, *, session: int = 1) -> None:
        change = SetData(znodes.CONTROLLER_EPOCH, str(epoch).encode())
        self.writes(Multi((change,)), session=session)

    def decides(self, one: PartitionRegistration, epoch: int = 1, *, session: int = 1) -> None:
        path = znodes.state_path(one.partition)
        self.writes(SetData(path, znodes.state(one, epoch)), session=session)

    def assigns(self, one: PartitionRegistration) -> None:
        self.writes(Create(znodes.topic_path(TOPIC), znodes.topic(TOPIC_ID, [one])))


def test_epochs_of_controllers_ascend_by_one() -> None:
    plane = Plane()
    plane.claims(2, session=2)
    for epoch in (1, 2, 4):
        with reported("ControllerEpochAscends"):
            plane.claims(epoch)
    count = "controllers that do not know that they are deposed"
    assert plane.oracle.counts[count] == 2
    nobody = Plane(believers=[])
    assert nobody.oracle.counts[count] == 0


def test_one_broker_acts_in_an_epoch() -> None:
    plane = Plane()
    for _ in range(2):
        plane.seen.observe(1, ControllerElected(1, 1, 1))
    plane.seen.observe(2, ControllerElected(2, 2, 1))
    with reported("OneControllerPerEpoch"):
        plane.seen.observe(2, ControllerElected(2, 1, 1))
    plane.seen.observe(1, ControllerFenced(1, 1))
    assert plane.oracle.counts["controllers elected"] == 4
    assert plane.oracle.counts["controllers deposed"] == 1


@pytest.mark.parametrize(
    "write",
    [
        SetData(znodes.state_path(HERE), znodes.state(decision(), 1)),
        Create(f"{znodes.DELETE_TOPICS}/t"),
        Delete(f"{znodes.CONFIGS}/topics/t"),
        Multi((SetData("/x", b""), SetData(f"{znodes.BROKER_EPOCHS}/1", b""))),
    ],
)
def test_only_the_controller_decides(write: Any) -> None:
    plane = Plane()
    plane.writes(write)
    with reported("DeposedWritesNothing"):
        plane.writes(write, session=2)


def test_others_write_elsewhere_and_before_there_is_a_controller() -> None:
    plane = Plane()
    for path in ("/brokers/ids/1", znodes.TOPICS, "/controller"):
        plane.writes(Create(path, b"{}"), session=2)
    plane.oracle.epoch = 0
    plane.writes(Create(f"{znodes.DELETE_TOPICS}/t"), session=2)


def test_a_leader_is_in_sync() -> None:
    with reported("LeaderInIsr"):
        Plane().decides(decision(3))
    Plane().decides(decision(None, isr=(2,)))


def test_who_is_in_sync_is_a_replica() -> None:
    plane = Plane()
    plane.assigns(decision())
    plane.decides(decision(isr=(1, 2, 3)))
    plane.decides(decision(isr=(1, 2), version=2))
    with reported("IsrOfReplicas"):
        plane.decides(decision(isr=(1, 4), version=3))


@pytest.mark.parametrize(
    ("one", "controller", "right"),
    [
        (decision(epoch=2, version=3), 1, True),
        (decision(epoch=3, version=3), 2, True),
        (decision(2, epoch=3, version=3), 1, True),
        (decision(epoch=1, version=3), 1, False),
        (decision(epoch=2, version=2), 1, False),
        (decision(epoch=2, version=1), 1, False),
        (decision(epoch=2, version=3), 0, False),
    ],
)
def test_decisions_do_not_go_back(one: PartitionRegistration, controller: int, right: bool) -> None:
    plane = Plane()
    plane.decides(decision(epoch=2, version=2))
    if right:
        plane.decides(one, controller)
    else:
        with reported("NeverBack"):
            plane.decides(one, controller)


def test_another_leader_begins_an_epoch() -> None:
    plane = Plane()
    plane.decides(decision())
    with reported("OneLeaderPerEpoch"):
        plane.decides(decision(2, version=2))


def test_a_topic_of_the_same_name_begins_anew() -> None:
    plane = Plane()
    plane.assigns(decision())
    plane.decides(decision(epoch=5, version=5))
    plane.writes(Multi((Delete(znodes.state_path(HERE)), Delete(znodes.topic_path(TOPIC)))))
    plane.decides(decision(isr=(1, 4)))


def test_reassignments_are_counted_and_have_to_end() -> None:
    plane = Plane()
    plane.assigns(decision())
    plane.decides(decision())
    assert plane.oracle.unfinished() == ""
    plane.assigns(decision(adding=(4,)))
    assert plane.oracle.unfinished() == f"{TOPIC}:0 is still being reassigned"
    plane.assigns(decision(removing=(3,)))
    assert plane.oracle.unfinished() == f"{TOPIC}:0 is still being reassigned"
    plane.assigns(decision(removing=(3,)))
    plane.decides(decision(None, epoch=2, version=2))
    assert plane.oracle.unfinished() == ""
    plane.decides(decision(epoch=3, version=3))
    plane.assigns(decision())
    assert plane.oracle.unfinished() == ""
    assert plane.oracle.counts["reassignments begun"] == 2
    assert plane.oracle.counts["reassignments over"] == 1


def test_in_the_end_one_acts_and_all_watch_who() -> None:
    assert Plane(believers=[]).oracle.unfinished() == "0 controllers act: []"
    assert "2 controllers act" in Plane(believers=[1, 2]).oracle.unfinished()
    deaf = Plane(watched={1: {znodes.CONTROLLER}, 2: set()})
    assert deaf.oracle.unfinished().endswith(": [2]")


# What operators are told

FIRST, SECOND = CONFIGURATIONS[:2]


@define
class Operations:
    """A store with topics and settings, and a broker that knows them."""

    seen: Seen = field(init=False)
    oracle: OperationsOracle = field(init=False)
    metadata: Any = field(init=False)
    nodes: dict[str, Any] = field(factory=dict[str, Any])
    replicas: dict[TopicPartition, None] = field(factory=dict[TopicPartition, None])

    def __attrs_post_init__(self) -> None:
        self.seen = Seen(network=SimpleNamespace(doubled=False))
        self.metadata = SimpleNamespace(
            topics=dict[str, Any](), configs=dict[Any, Any](), quotas=dict[Any, Any]()
        )
        node = SimpleNamespace(metadata=self.metadata, partitions=self.replicas)
        store: Any = SimpleNamespace(store=SimpleNamespace(tree=SimpleNamespace(nodes=self.nodes)))
        brokers: Any = [SimpleNamespace(id=1, node=node)]
        simulation: Any = self.seen
        self.oracle = OperationsOracle(simulation, store, brokers, Counter())
        self.oracle.attach()

    def asks(self, number: int, body: Any) -> None:
        self.seen.observe(0, Asked(number, body))

    def answers(self, number: int, body: Any) -> None:
        self.seen.observe(0, Answered(number, None, body))

    def stores(self, *changes: Any) -> None:
        self.seen.observe(0, Applied(1, 1, Multi(changes)))

    def creates(self, name: str, id: bytes = OTHER, partitions: int = 1) -> None:
        several = [
            decision()._replace(partition=TopicPartition(name, one)) for one in range(partitions)
        ]
        self.stores(Create(znodes.topic_path(name), znodes.topic(id, several)))

    def deletes(self, name: str) -> None:
        self.stores(Delete(znodes.topic_path(name)))

    def sets(self, setting: Setting, value: int) -> None:
        data = znodes.config({setting.key: value})
        self.nodes[setting.path] = SimpleNamespace(data=data)
        self.stores(SetData(setting.path, data))

    def knows(self, name: str, id: bytes = OTHER, partitions: int = 1) -> None:
        topic = SimpleNamespace(name=name, topic_id=id, partitions=range(partitions))
        self.metadata.topics[name] = topic


def test_a_topic_goes_only_if_somebody_asked_for_that() -> None:
    run = Operations()
    run.creates("x")
    with reported("CreatedStaysCreated"):
        run.deletes("x")
    for asked in (c.DeleteTopicsRequest(names=("x",)), c.DeleteTopicsRequest(topic_ids=(OTHER,))):
        run = Operations()
        run.asks(1, asked)
        run.creates("x")
        run.deletes("x")
        run.deletes("x")
        assert run.oracle.counts == {"topics created": 1, "topics deleted": 1}


def test_a_topic_that_was_deleted_does_not_come_back() -> None:
    run = Operations()
    run.asks(1, c.DeleteTopicsRequest(names=("x",)))
    run.creates("x")
    run.deletes("x")
    with reported("DeletedStaysDeleted"):
        run.creates("x")
    run.creates("x", b"third".ljust(16, b"-"))


def test_partitions_that_are_added_are_counted() -> None:
    run = Operations()
    for partitions in (2, 2, 3):
        run.creates("x", partitions=partitions)
    assert run.oracle.counts == {"topics created": 1, "partitions added": 1}


def test_writes_of_other_kinds_and_below_topics_are_none_of_topics() -> None:
    run = Operations()
    run.stores(SetData(znodes.state_path(HERE), b"?"), Create("/brokers/ids/1", b"?"))
    assert run.oracle.topics == {}


def test_what_was_created_is_stored_or_was_deleted_since() -> None:
    run = Operations()
    told = c.CreatedTopic("x", None, topic_id=OTHER)
    with reported("AcknowledgedIsStored.*x is not created"):
        run.answers(1, told)
    run.creates("x")
    run.answers(1, told)
    run.asks(2, c.DeleteTopicsRequest(names=("x",)))
    run.deletes("x")
    run.answers(1, told)


def test_what_was_deleted_is_gone() -> None:
    run = Operations()
    run.creates("x")
    told = c.DeletedTopic("x", OTHER, None)
    with reported("x is not deleted"):
        run.answers(1, told)
    run.answers(1, c.DeletedTopic("x", TOPIC_ID, None))
    run.asks(2, c.DeleteTopicsRequest(names=("x",)))
    run.deletes("x")
    run.answers(1, told)


def test_partitions_are_as_many_as_was_told_if_the_topic_is_the_same() -> None:
    run = Operations()
    run.creates("x", partitions=2)
    wanted = c.NewPartitions("x", 3)
    run.asks(1, c.CreatePartitionsRequest((wanted,)))
    with reported("x has no 3 partitions"):
        run.answers(1, wanted)
    run.creates("x", partitions=3)
    run.answers(1, wanted)
    run.asks(2, c.DeleteTopicsRequest(names=("x",)))
    run.deletes("x")
    run.creates("x", TOPIC_ID)
    run.answers(1, wanted)


def test_a_setting_had_the_value_that_was_told() -> None:
    run = Operations()
    run.sets(FIRST, FIRST_VALUE + 1)
    run.sets(FIRST, FIRST_VALUE + 2)
    for number in (1, 2):
        run.answers(number, Altered(FIRST, str(FIRST_VALUE + number)))
    for setting in (SECOND, QUOTAS[0]):
        with reported("AcknowledgedIsStored"):
            run.answers(3, Altered(setting, str(FIRST_VALUE + 1)))
    run.sets(QUOTAS[0], FIRST_VALUE + 4)
    run.answers(4, Altered(QUOTAS[0], str(FIRST_VALUE + 4)))
    assert run.oracle.counts == {"configurations altered": 2, "quotas altered": 1}


def _settled(run: Operations) -> None:
    """The broker knows all settings as they are stored."""
    config = run.nodes.get(znodes.config_path(ORDERS))
    run.metadata.configs[ORDERS] = znodes.config_of(config.data) if config else {}


@pytest.mark.parametrize(("doubled", "lost"), [(False, True), (True, False)])
def test_a_later_value_that_was_answered_before_is_lost(doubled: bool, lost: bool) -> None:
    """The second operation was asked for when the first one was answered."""
    run = Operations()
    run.seen.network.doubled = doubled
    for number in (1, 2):
        run.asks(number, None)
        run.sets(FIRST, FIRST_VALUE + number)
        run.answers(number, Altered(FIRST, str(FIRST_VALUE + number)))
    _settled(run)
    assert run.oracle.unfinished() == ""
    run.sets(FIRST, FIRST_VALUE + 1)
    _settled(run)
    assert ("was altered by [2] since" in run.oracle.unfinished()) is lost


def test_operations_that_were_asked_for_at_once_may_end_in_either_order() -> None:
    run = Operations()
    run.asks(1, None)
    run.asks(2, None)
    for number in (2, 1):
        run.sets(FIRST, FIRST_VALUE + number)
    for number in (1, 2):
        run.answers(number, Altered(FIRST, str(FIRST_VALUE + number)))
    _settled(run)
    assert run.oracle.unfinished() == ""


def test_every_broker_knows_the_topics_in_the_end() -> None:
    run = Operations()
    run.creates("x", partitions=2)
    run.creates(TOPIC, TOPIC_ID)
    _settled(run)
    assert "knows other topics" in run.oracle.unfinished()
    run.knows("x", partitions=1)
    assert "knows other topics" in run.oracle.unfinished()
    run.knows("x", partitions=2)
    assert run.oracle.unfinished() == ""
    run.knows("y")
    assert "knows other topics" in run.oracle.unfinished()


def test_every_broker_knows_configurations_and_quotas_in_the_end() -> None:
    run = Operations()
    run.sets(FIRST, FIRST_VALUE)
    assert "another configuration" in run.oracle.unfinished()
    _settled(run)
    assert run.oracle.unfinished() == ""
    run.sets(QUOTAS[0], FIRST_VALUE)
    assert "other quotas" in run.oracle.unfinished()
    run.metadata.quotas[frozenset(ENTITIES[0])] = {QUOTAS[0].key: float(FIRST_VALUE)}
    assert run.oracle.unfinished() == ""


def test_replicas_of_deleted_topics_go() -> None:
    run = Operations()
    _settled(run)
    run.creates("x")
    run.knows("x")
    run.replicas.update(dict.fromkeys((HERE, TopicPartition("x", 0))))
    assert run.oracle.unfinished() == ""
    run.replicas[TopicPartition("y", 0)] = None
    assert "keeps replicas of deleted topics: {'y'}" in run.oracle.unfinished()


def test_a_partition_without_a_decision_is_not_waited_for() -> None:
    plane = Plane()
    plane.assigns(decision(adding=(4,)))
    assert plane.oracle.unfinished() == ""


def test_paths_above_a_decision_hold_none() -> None:
    plane = Plane()
    for path in (f"{znodes.topic_path(TOPIC)}/partitions", znodes.partition_path(HERE)):
        plane.writes(Create(path))
    assert plane.oracle.decisions == {}
