"""A bug for each site of the oracles of the control plane: what a wrong controller would write."""

from typing import Any

from attrs import evolve

from chaos.clients.operator import (
    CONFIGURATIONS,
    ENTITIES,
    FIRST_VALUE,
    KEYS,
    ORDERS,
    QUOTAS,
    RATES,
    Altered,
    Answered,
    Asked,
)
from chaos.oracles.control_plane import ControlPlaneOracle
from chaos.oracles.operations import OperationsOracle
from chaos.sim.store import Applied
from refimpl.controller import znodes
from refimpl.machines.messages import LeaderAndIsr
from refimpl.messages import controller as control
from refimpl.messages.broker import TopicPartition
from refimpl.messages.cluster import (
    ConfigsAltered,
    PartitionRegistration,
    QuotasAltered,
    TopicCreated,
)
from refimpl.messages.observations import ControllerElected
from refimpl.metadata.contract import Create, Delete, SetData
from tests.chaos.oracle_cases import Cluster, breaks

C = "ControlPlaneOracle"
NOBODY = 999


def plane(c: Cluster) -> ControlPlaneOracle:
    found = c.run.progress.control_plane
    assert found is not None
    assert found.epoch > 0
    return found


def writes(c: Cluster, path: str, data: bytes, session: int | None = None) -> None:
    """The store applies a write of the controller, or of another session."""
    oracle = plane(c)
    owner = oracle.owner[oracle.epoch] if session is None else session
    c.run.simulation.observe(NOBODY, Applied(1, owner, SetData(path, data)))


def stored(c: Cluster, path: str) -> bytes:
    return plane(c).store.store.tree.nodes[path].data


def decides(c: Cluster, after: LeaderAndIsr | None = None, **of: Any) -> LeaderAndIsr:
    """The controller writes the next decision about the partition, with this in it."""
    path = znodes.state_path(c.name)
    found = znodes.state_of(stored(c, path))
    now = after or found.decision
    following = LeaderAndIsr(now.leader_epoch + 1, now.leader, now.isr, now.partition_epoch + 1)
    registration = PartitionRegistration(c.name, b"", evolve(following, **of), (1, 2, 3))
    writes(c, path, znodes.state(registration, max(found.controller_epoch, 1)))
    return registration.decision


def known(c: Cluster) -> LeaderAndIsr:
    """The topic's znode and a decision are written, and right."""
    path = znodes.topic_path(c.name.topic)
    writes(c, path, stored(c, path))
    return decides(c)


@breaks(f"{C}._elected: OneControllerPerEpoch", store=True)
def two_act_in_an_epoch(c: Cluster) -> None:
    epoch = plane(c).epoch
    c.run.simulation.observe(NOBODY, ControllerElected(NOBODY, epoch, 0))


@breaks(f"{C}._claimed: ControllerEpochAscends", f"{C}._applied: _claimed()", store=True)
def leaves_an_epoch_out(c: Cluster) -> None:
    oracle = plane(c)
    writes(c, znodes.CONTROLLER_EPOCH, str(oracle.epoch + 2).encode())


@breaks(
    f"{C}._must_be_controller: DeposedWritesNothing",
    f"{C}._applied: _must_be_controller()",
    store=True,
)
def writes_without_being_controller(c: Cluster) -> None:
    writes(c, f"{znodes.CONFIGS}/topics/{c.name.topic}", znodes.config({}), NOBODY)


@breaks(
    f"{C}._judge: LeaderInIsr", f"{C}._applied: _decided()", f"{C}._decided: _judge()", store=True
)
def elects_who_is_not_in_sync(c: Cluster) -> None:
    decides(c, known(c), leader=1, isr=frozenset((2, 3)))


@breaks(f"{C}._judge: IsrOfReplicas", store=True)
def takes_in_who_is_no_replica(c: Cluster) -> None:
    decides(c, known(c), leader=1, isr=frozenset((1, NOBODY)))


@breaks(f"{C}._judge: NeverBack", store=True)
def decides_in_an_older_partition_epoch(c: Cluster) -> None:
    decides(c, known(c), partition_epoch=0)


@breaks(f"{C}._judge: OneLeaderPerEpoch", store=True)
def moves_the_leader_within_an_epoch(c: Cluster) -> None:
    now = known(c)
    other = next(one for one in (1, 2, 3) if one != now.leader)
    decides(c, now, leader=other, isr=frozenset((other,)), leader_epoch=now.leader_epoch)


@breaks(f"{C}.unfinished: controllers act:", store=True)
def two_believe_to_be_controller(c: Cluster) -> None:
    plane(c).store.acting = {1: lambda: True, 2: lambda: True}
    c.finish()


@breaks(f"{C}.unfinished: brokers that do not watch who is controller:", store=True)
def watches_no_more(c: Cluster) -> None:
    for paths in plane(c).store.watched().values():
        paths.clear()
    c.finish()


@breaks(f"{C}.unfinished: : is still being reassigned", store=True)
def moves_for_ever(c: Cluster) -> None:
    known(c)
    partitions = plane(c).replicas[c.name.topic]
    partitions[c.name.partition] = partitions[c.name.partition]._replace(adding=(3,))
    c.finish()


# What operators were told

OO = "OperationsOracle"
OPERATIONS = {"store": True, "operate_ms": 1_000_000}
MINE, ID = "mine", bytes(16)


def operations(c: Cluster) -> OperationsOracle:
    found = c.run.progress.operations
    assert found is not None
    return found


def applied(c: Cluster, write: Any) -> None:
    """The store applies a write of the controller."""
    oracle = plane(c)
    c.run.simulation.observe(NOBODY, Applied(1, oracle.owner[oracle.epoch], write))


def asks(c: Cluster, body: Any) -> None:
    c.run.simulation.observe(NOBODY, Asked(NOBODY, body))


def is_told(c: Cluster, asked: Any, body: Any) -> None:
    c.run.simulation.observe(NOBODY, Answered(NOBODY, asked, body))


def made(c: Cluster) -> None:
    """A topic without partitions is there."""
    applied(c, Create(znodes.topic_path(MINE), znodes.topic(ID, [])))


def deleted(c: Cluster) -> None:
    applied(c, Delete(znodes.topic_path(MINE)))


@breaks(f"{OO}._is_there: DeletedStaysDeleted", f"{OO}._applied: _is_there()", **OPERATIONS)
def a_deleted_topic_comes_back(c: Cluster) -> None:
    made(c)
    asks(c, control.DeleteTopicsRequest((MINE,)))
    deleted(c)
    made(c)


@breaks(f"{OO}._is_gone: CreatedStaysCreated", f"{OO}._applied: _is_gone()", **OPERATIONS)
def deletes_what_nobody_wants_deleted(c: Cluster) -> None:
    made(c)
    deleted(c)


@breaks(f"{OO}._answered: AcknowledgedIsStored", f"{OO}._missing: is not created", **OPERATIONS)
def says_created_and_forgets(c: Cluster) -> None:
    is_told(c, None, control.CreatedTopic(MINE, None, topic_id=ID))


@breaks(f"{OO}._missing: is not deleted", **OPERATIONS)
def says_deleted_and_forgets(c: Cluster) -> None:
    made(c)
    is_told(c, None, control.DeletedTopic(MINE, ID, None))


@breaks(f"{OO}._missing: has no partitions", **OPERATIONS)
def says_partitions_are_added_and_forgets(c: Cluster) -> None:
    made(c)
    wanted = control.NewPartitions(MINE, 3)
    asks(c, control.CreatePartitionsRequest((wanted,)))
    is_told(c, None, wanted)


@breaks(f"{OO}._missing: of is not", **OPERATIONS)
def says_altered_and_forgets(c: Cluster) -> None:
    is_told(c, None, Altered(CONFIGURATIONS[0], str(FIRST_VALUE + 1)))


@breaks(f"{OO}._missing: of is not", **OPERATIONS)
def says_that_a_quota_is_altered_and_forgets(c: Cluster) -> None:
    is_told(c, None, Altered(QUOTAS[0], str(float(FIRST_VALUE + 1))))


@breaks(f"{OO}.unfinished: of is , and was altered by since", **OPERATIONS)
def loses_a_configuration(c: Cluster) -> None:
    """It was altered, and is no more."""
    operations(c).answered[CONFIGURATIONS[0]][7] = 7
    c.finish()


@breaks(f"{OO}.unfinished: broker knows other topics than there are: ,", **OPERATIONS)
def tells_of_a_topic_that_is_not_there(c: Cluster) -> None:
    broker = operations(c).brokers[1].node.metadata
    broker.apply(TopicCreated(MINE, ID))
    c.finish()


@breaks(f"{OO}.unfinished: broker has another configuration than was stored", **OPERATIONS)
def tells_of_a_configuration_that_is_not_there(c: Cluster) -> None:
    broker = operations(c).brokers[1].node.metadata
    broker.apply(ConfigsAltered(ORDERS, {KEYS[0]: "1"}))
    c.finish()


@breaks(f"{OO}.unfinished: broker has other quotas than were stored", **OPERATIONS)
def tells_of_a_quota_that_is_not_there(c: Cluster) -> None:
    broker = operations(c).brokers[1].node.metadata
    broker.apply(QuotasAltered(frozenset(ENTITIES[1]), {RATES[0]: 1.0}))
    c.finish()


@breaks(f"{OO}.unfinished: broker keeps replicas of deleted topics:", **OPERATIONS)
def keeps_a_replica_of_a_deleted_topic(c: Cluster) -> None:
    context = operations(c).brokers[1].node.context
    context.partitions[TopicPartition(MINE, 0)] = context.partitions[c.name]
    c.finish()
