"""The variables of each TLA+ module, read from the state of its machine.

One mapping for each machine, from the variable's name in the spec to a function of the machine.
Where the variable is a function of replicas or members, this is its value for one of them. Values
are plain: `int`, `str`, `bool`, `tuple` for a sequence, `frozenset` for a set.

Whoever looks at machines in the words of a spec stands on these: the conformance check, which
compares them with the state graph after each step, and equally a writer of protocol events
(`refimpl.events`), which needs no `properties` for it. The simulator's oracles do not: they judge
the records of a step, values and all, where a projection is the epochs of the whole log, and they
are a second opinion, which must not share the mistakes of this one.
What no machine holds (messages under way, ghosts, bounds) is not here.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from refimpl.machines.abstract_log import AbstractLog
from refimpl.machines.brokers import BrokerRegistry
from refimpl.machines.classic_consumer import ClassicConsumer
from refimpl.machines.classic_group import ClassicGroup
from refimpl.machines.consumer_group import NO_EPOCH, ConsumerGroup, ConsumerMember, Partition
from refimpl.machines.consumer_membership import ConsumerMembership
from refimpl.machines.controller import PartitionState
from refimpl.machines.election import ControllerElection
from refimpl.machines.group import CommitCoordinator, CommittingMember
from refimpl.machines.replica import Replica

M = TypeVar("M")
Projection: TypeAlias = Mapping[str, Callable[[M], Any]]


def by_replica(
    numbers: Mapping[int, int], replicas: tuple[int, ...], nothing: int = 0
) -> tuple[int, ...]:
    """The value known of each replica, as a sequence; `nothing` for a replica without one."""
    if not numbers:
        return (nothing,) * len(replicas)
    return tuple([numbers.get(r, nothing) for r in replicas])


# A log is to Truncation the leader epochs of its records, to DurableIsr their numbers.

TRUNCATION_REPLICA: Projection[Replica] = {
    "log": lambda r: tuple([record.epoch for record in r.log.records]),
    "highWatermark": lambda r: r.high_watermark,
    "epoch": lambda r: r.epoch,
    "isr": lambda r: r.isr,
    "incarnation": lambda r: r.incarnation,
}

# In the role of a follower a replica has no partition epoch there.

REPLICATION_REPLICA: Projection[Replica] = {
    **TRUNCATION_REPLICA,
    "partitionEpoch": lambda r: r.partition_epoch if r.leads else 0,
}

ALTER_PARTITION_STATE: Projection[PartitionState] = {
    "leader": lambda s: s.leader or 0,
    "epoch": lambda s: s.leader_epoch,
    "partitionEpoch": lambda s: s.partition_epoch,
    "isr": lambda s: s.isr,
}

DURABLE_ISR_REPLICA: Projection[Replica] = {
    "log": lambda r: tuple([record.value for record in r.log.records]),
}

DURABLE_ISR_CONTROLLER: Projection[PartitionState] = {
    "up": lambda s: s.brokers.alive,
    "isr": lambda s: s.isr,
    "elr": lambda s: s.elr,
    "leader": lambda s: s.leader or 0,
    "lastKnown": lambda s: s.last_known or 0,
}

CONSUMER_COMMIT_COORDINATOR: Projection[CommitCoordinator] = {
    "generation": lambda c: c.generation,
    "owner": lambda c: c.owner or 0,
    "committed": lambda c: c.committed,
}

CONSUMER_COMMIT_MEMBER: Projection[CommittingMember] = {
    "joined": lambda m: m.generation,
    "position": lambda m: m.position,
    "done": lambda m: m.done,
    "last": lambda m: m.last,
}

CLASSIC_GROUP: Projection[ClassicGroup] = {
    "state": lambda g: g.state,
    "generation": lambda g: g.generation,
    "initial": lambda g: g.initial is not None,
}

CLASSIC_CONSUMER: Projection[ClassicConsumer] = {
    "believes": lambda c: c.generation,
    "owned": lambda c: c.owned,
}


def classic_phase(group: ClassicGroup, id: str) -> str:
    """The phase of a member id at the coordinator: one entry of ClassicGroup's `phase`."""
    if id in group.pending:
        return "pending"
    member = group.members.get(id)
    if member is None:
        return "none"
    if member.join is not None:
        return "new" if member.is_new else "joining"
    if member.sync is not None:
        return "syncing"
    if id in group.unsynced:
        return "absent" if member.absent else "unsynced"
    return "in"


CONSUMER_GROUP: Projection[ConsumerGroup] = {
    "groupEpoch": lambda g: g.epoch,
    "targetEpoch": lambda g: g.target_epoch,
}

CONSUMER_STATES = "stable", "unrevoked", "unreleased"
NOT_ASSIGNED = -1


def consumer_member(member: ConsumerMember, partitions: Sequence[Partition]) -> Mapping[str, Any]:
    """A member at the coordinator: one entry of ConsumerGroup's `member`."""
    return {
        "epoch": member.epoch,
        "previous": 0 if member.previous_epoch == NO_EPOCH else member.previous_epoch,
        "state": CONSUMER_STATES[member.state],
        "assigned": tuple([member.assigned.get(one, NOT_ASSIGNED) for one in partitions]),
        "pending": tuple([member.pending.get(one, NOT_ASSIGNED) for one in partitions]),
    }


CONSUMER_MEMBERSHIP: Projection[ConsumerMembership] = {
    "heard": lambda m: m.epoch,
    "told": lambda m: frozenset([number + 1 for _, number in m.told]),
    "owned": lambda m: frozenset([number + 1 for _, number in m.owned]),
}

CONTROLLER_ELECTION: Projection[ControllerElection] = {
    "watch": lambda e: e.watch,
    "role": lambda e: e.role,
    "fence": lambda e: (
        e.controllership.fence
        if e.controllership is not None
        else 0
        if e.role == "follower"
        else e.seen[1]
    ),
}

REGISTRATION_REGISTRY: Projection[BrokerRegistry] = {
    "alive": lambda r: r.alive,
    "leaving": lambda r: r.leaving,
}

REGISTRATION_PARTITION: Projection[PartitionState] = {
    "leader": lambda s: s.leader or 0,
    "isr": lambda s: s.isr,
}

REASSIGNMENT_PARTITION: Projection[PartitionState] = {
    **REGISTRATION_PARTITION,
    "replicas": lambda s: s.replicas,
    "alive": lambda s: s.brokers.alive,
}

ABS_LOG: Projection[AbstractLog] = {
    "committed": lambda log: tuple(log.committed),
}
