"""Bugs of a group and its coordinator: one for each place where the group's oracles speak."""

from typing import Any, TypeVar

from attrs import evolve

from chaos.clients.group_member import CommitTag
from chaos.oracles.classic_group import ClassicGroupOracle
from chaos.oracles.consumer_group import ConsumerGroupOracle
from chaos.oracles.coordinated_group import CoordinatedGroup
from chaos.sim import group_messages as g
from chaos.sim.addresses import FIRST_CLIENT, GROUP, OFFSETS
from chaos.sim.hosts import BrokerHost, Handled
from refimpl.clients.assignors import write_assignment
from refimpl.coordinator.observations import CoordinatorOperation
from refimpl.coordinator.operation import Performed
from refimpl.messages import group as m
from refimpl.messages import observations as o
from refimpl.messages.broker import MetadataRequest, MetadataResponse, Request, Response
from refimpl.records.consumer_groups import ConsumerGroupMetadata, CurrentMemberAssignment
from refimpl.records.coordinators import (
    CoordinatorRecord,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitValue,
)
from tests.chaos.oracle_cases import Cluster, breaks

V = TypeVar("V")
A, G = "CoordinatedGroup", "GroupPartition"
C, K = "ClassicGroupOracle", "ConsumerGroupOracle"
CONSUMER: dict[str, Any] = {"group_protocol": "consumer"}


def leader(c: Cluster) -> int:
    """The broker that is the group's coordinator."""
    found = c.run.group.offsets.state.leader
    assert found is not None
    return found


def _records(c: Cluster, kind: type[V]) -> list[tuple[CoordinatorRecord, V]]:
    """The records of a type in the group's log, and their values."""
    log = c.run.group.log_of(leader(c))
    records, _ = log.keyed_records(0, log.slice(0, 1 << 20))
    outside = [one for _, one in records if isinstance(one, CoordinatorRecord)]
    return [(one, one.value) for one in outside if isinstance(one.value, kind)]


@breaks("LoadedOracle._performed: compare()", "LoadedOracle.compare: LoadedIsLive")
def forgets_an_offset_that_is_in_its_log(c: Cluster) -> None:
    host = c.run.nodes[leader(c)]
    assert isinstance(host, BrokerHost)
    host.node.groups.coordinators.by_partition[0].shard.store.offsets.current.clear()
    for error in ("SOME_NEW_ERROR", "ANOTHER_NEW_ERROR"):  # every second kind is compared
        done = Performed(GROUP, None, error, None, None, (), 0)
        c.run.simulation.observe(leader(c), CoordinatorOperation(OFFSETS, done))


def _told(c: Cluster, asked: Any, answer: Any) -> None:
    """A broker answers a client's question about the cluster."""
    request = Request(FIRST_CLIENT, 1, 1, asked)
    handled = Handled(1, request, [Response(1, FIRST_CLIENT, 1, answer)])
    c.run.simulation.observe(1, handled)


@breaks("ToldOracle._handled: ToldAsHeard", "_wrong_leaders: is told as , heard is")
def tells_of_no_partition(c: Cluster) -> None:
    _told(c, MetadataRequest(), MetadataResponse((), {}))


@breaks("_wrong_coordinators: the coordinator of is told as , heard is")
def names_a_coordinator_that_does_not_lead(c: Cluster) -> None:
    found = m.FoundCoordinator(GROUP, None, 4)
    _told(c, m.FindCoordinatorRequest(m.GROUP, (GROUP,)), m.FindCoordinatorResponse((found,)))


def last(c: Cluster, kind: type[V]) -> tuple[CoordinatorRecord, V]:
    """The newest record of a type in the group's log, and its value."""
    return _records(c, kind)[-1]


def write(c: Cluster, record: CoordinatorRecord, value: object) -> None:
    """The coordinator writes a record, by mistake."""
    group: CoordinatedGroup = c.run.group
    log = group.log_of(leader(c))
    batch = log.keyed_batch([evolve(record, value=value)], 0)
    appended = log.append(group.epoch, batch)
    seen = o.Written(OFFSETS, appended.first_offset, appended.last_offset + 1)
    c.run.simulation.observe(leader(c), seen)


def owner(c: Cluster) -> tuple[str, int]:
    """The owner of partition 0: its id, and its generation or member epoch."""
    found = next(one for one in c.run.progress.consumers if 0 in one.owned)
    return found.member_id, found.group_generation


def commit(c: Cluster, *, by: int = 0, generation: int = 0, member: str = "") -> None:
    """The coordinator takes a commit: of so much more, in a generation so much newer."""
    record, value = last(c, OffsetCommitValue)
    member_id, now = owner(c)
    tag = CommitTag(member or member_id, now + generation, 1_000_000)
    write(c, record, evolve(value, offset=value.offset + by, metadata=str(tag)))


@breaks(
    f"{G}.judge: CommittedDelivered",
    f"{A}._committed: judge()",
    f"{A}._written: _committed()",
    commit_when="before",
)
def commits_what_nobody_was_handed(c: Cluster) -> None:
    commit(c, by=1)


@breaks(f"{G}.judge: must_be_done()", f"{G}.must_be_done: AtLeastOnce")
def commits_over_a_gap(c: Cluster) -> None:
    c.group.processed[2] = c.group.passed = 0
    commit(c)


@breaks(f"{A}._processed: did()", f"{G}.did: AtMostOnce", commit_when="before")
def processes_again(c: Cluster) -> None:
    c.run.simulation.observe(FIRST_CLIENT, g.Processed(0, 1, 1))


@breaks(f"{A}._committed: CommittedMonotone")
@breaks(f"{A}._committed: CommittedMonotone", **CONSUMER)
def goes_back(c: Cluster) -> None:
    commit(c, by=-1)


@breaks(f"{A}._answered: CommittedSurvives")
def answers_before_it_is_written(c: Cluster) -> None:
    c.run.simulation.observe(FIRST_CLIENT, g.CommitAnswered(0, 1, ("c0", 1, 1_000_000)))


@breaks(f"{A}._fetched: CommittedSurvives")
def forgets_what_is_committed(c: Cluster) -> None:
    c.run.simulation.observe(FIRST_CLIENT, g.FetchSent(1, 1_000_000))
    c.run.simulation.observe(FIRST_CLIENT, g.OffsetFetched(0, 1, 1_000_000, -1))


@breaks(
    "ProgressOracle._idle: member has no partition",
    several_subscriptions=True,
    consumers=1,
    **CONSUMER,
)
def gives_a_member_nothing(c: Cluster) -> None:
    c.run.progress.consumers[0].owned = ()
    c.finish()


@breaks("ProgressOracle._not_done: the group's log:")
def nobody_leads_the_groups_log(c: Cluster) -> None:
    state: Any = c.run.group.offsets.state
    state.leader = None
    c.finish()


# Classic groups


def generation(c: Cluster, by: int, *more: MemberMetadata) -> None:
    """The coordinator writes a generation so much newer, with more members."""
    record, value = last(c, GroupMetadataValue)
    write(c, record, evolve(value, generation=value.generation + by, members=value.members + more))


def classic(c: Cluster) -> ClassicGroupOracle:
    """The judge of a classic group."""
    assert isinstance(c.run.group, ClassicGroupOracle)
    return c.run.group


def assigned(c: Cluster, *partitions: int) -> None:
    """The owner of partition 0 takes these over."""
    member_id, now = owner(c)
    member = next(one.member for one in c.run.group.members if one.member_id == member_id)
    seen = g.Assigned(member, member_id, now, partitions)
    c.run.simulation.observe(FIRST_CLIENT, seen)


@breaks(f"{C}._group: OneOwner", f"{A}._written: _group()")
def assigns_a_partition_twice(c: Cluster) -> None:
    twice = write_assignment([("orders", 0)])
    stranger = evolve(last(c, GroupMetadataValue)[1].members[0], member_id="x", assignment=twice)
    generation(c, 1, stranger, evolve(stranger, member_id="y"))


@breaks(f"{A}._grows: GenerationsGrow", f"{C}._group: _grows()")
def goes_back_to_an_older_generation(c: Cluster) -> None:
    generation(c, -1)


@breaks(f"{A}._grows: Settles")
def rebalances_for_ever(c: Cluster) -> None:
    generation(c, 100)


@breaks(f"{A}._committed: CommitFenced", f"{C}._is_fenced: the generation is")
def takes_the_commit_of_an_old_generation(c: Cluster) -> None:
    commit(c, generation=-1)


@breaks(f"{C}._took_over: AssignmentWritten")
def tells_of_an_assignment_that_is_not_written(c: Cluster) -> None:
    assigned(c, 0, 1)


@breaks(f"{A}._nobody_else_owns: OneOwner", f"{C}._took_over: _nobody_else_owns()")
def takes_over_what_another_has(c: Cluster) -> None:
    idle = next(one for one in c.run.group.members if not one.owned)
    idle.up, idle.owned = True, (0,)
    assigned(c, 0)


# Consumer groups


def has(c: Cluster, **news: Any) -> None:
    """The coordinator writes that the last member that it wrote of has something else."""
    record, value = last(c, CurrentMemberAssignment)
    write(c, record, evolve(value, **news))


@breaks(f"{K}._group: _grows()", **CONSUMER)
def goes_back_to_an_older_epoch(c: Cluster) -> None:
    record, value = last(c, ConsumerGroupMetadata)
    write(c, record, evolve(value, epoch=value.epoch - 1))


@breaks(f"{K}._group: MemberEpochsGrow", **CONSUMER)
def puts_a_member_back(c: Cluster) -> None:
    _, value = last(c, CurrentMemberAssignment)
    has(c, member_epoch=value.member_epoch - 1)


@breaks(f"{K}._group: OneOwner", **CONSUMER)
def assigns_a_partition_to_two_members(c: Cluster) -> None:
    record, value = last(c, CurrentMemberAssignment)
    (orders,) = _records(c, CurrentMemberAssignment)[0][1].assigned_partitions
    both = (evolve(orders, partitions=(0,), assignment_epochs=(value.member_epoch,)),)
    key = evolve(record.key, member_id="x")
    write(c, evolve(record, key=key), evolve(value, assigned_partitions=both))


@breaks(f"{A}._committed: CommitFenced", f"{K}._is_fenced: the members are", **CONSUMER)
def takes_the_commit_of_nobody(c: Cluster) -> None:
    commit(c, member="x")


@breaks(f"{A}._committed: CommitFenced", f"{K}._is_fenced: it has the partition since", **CONSUMER)
def takes_a_commit_of_before_the_assignment(c: Cluster) -> None:
    commit(c, generation=-100)


@breaks(f"{A}._committed: CommitFenced", f"{K}._is_fenced: the partition is that of", **CONSUMER)
def takes_the_commit_of_a_member_without_the_partition(c: Cluster) -> None:
    idle = next(one for one in c.run.progress.consumers if 0 not in one.owned)
    commit(c, member=idle.member_id)


@breaks(f"{K}._told: AssignmentWritten", **CONSUMER)
def tells_a_member_of_an_epoch_that_is_not_written(c: Cluster) -> None:
    member_id, now = owner(c)
    c.run.simulation.observe(FIRST_CLIENT, g.Told(1, member_id, now + 1, None))


@breaks(f"{K}._told: AssignmentWritten", **CONSUMER)
def tells_a_member_of_more_than_is_written(c: Cluster) -> None:
    member_id, now = owner(c)
    c.run.simulation.observe(FIRST_CLIENT, g.Told(1, member_id, now, frozenset((0, 1))))


@breaks(f"{K}._took_over: _nobody_else_owns()", **CONSUMER)
def owns_what_another_member_has(c: Cluster) -> None:
    idle = next(one for one in c.run.group.members if not one.owned)
    assert isinstance(c.run.group, ConsumerGroupOracle)
    idle.up, idle.owned = True, (0,)
    assigned(c, 0)
