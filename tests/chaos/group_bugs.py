"""Bugs of a group that brokers coordinate: one for each place where its oracles speak."""

from typing import Any, TypeVar

from attrs import evolve

from chaos.oracles.coordinated_group import CoordinatedGroup, Generation
from chaos.sim import group_messages as g
from chaos.sim.addresses import FIRST_CLIENT, OFFSETS
from refimpl.assignors import write_assignment
from refimpl.broker import observations as o
from refimpl.storage.coordinator_records import (
    CoordinatorRecord,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitValue,
)
from tests.chaos.oracle_cases import Cluster, breaks

V = TypeVar("V")
C, P = "CoordinatedGroup", "CoordinatedPartition"
CLASSIC: dict[str, Any] = {"group_protocol": "classic"}
BEFORE = {**CLASSIC, "commit_when": "before"}


def group(c: Cluster) -> CoordinatedGroup:
    """The judge of the group."""
    found = c.run.progress.coordinated
    assert found is not None
    return found


def leader(c: Cluster) -> int:
    """Who coordinates."""
    found = group(c).offsets.state.leader
    assert found is not None
    return found


def last(c: Cluster, kind: type[V]) -> tuple[CoordinatorRecord, V]:
    """The newest record of a type in the group's log, and its value."""
    log = group(c).log_of(leader(c))
    records, _ = log.keyed_records(0, log.slice(0, 1 << 20))
    found = [(one, one.value) for _, one in records if isinstance(one.value, kind)]
    return found[-1]


def write(c: Cluster, record: CoordinatorRecord, value: object) -> None:
    """The coordinator writes a record, by mistake."""
    log, epoch = group(c).log_of(leader(c)), group(c).epoch
    batch = log.keyed_batch([evolve(record, value=value)], 0)
    appended = log.append(epoch, batch)
    seen = o.Written(OFFSETS, appended.first_offset, appended.last_offset + 1)
    c.run.simulation.observe(leader(c), seen)


def commit(c: Cluster, *, by: int = 0, generation: int = 0) -> None:
    """The coordinator takes a commit: of so much more, in a generation so much newer."""
    record, value = last(c, OffsetCommitValue)
    current = group(c).current
    member = next(one for one, parts in current.assigned.items() if 0 in parts)
    tag = member, current.number + generation, 1_000_000
    write(c, record, evolve(value, offset=value.offset + by, metadata=repr(tag)))


def generation(c: Cluster, by: int, *more: MemberMetadata) -> None:
    """The coordinator writes a generation so much newer, with more members."""
    record, value = last(c, GroupMetadataValue)
    write(c, record, evolve(value, generation=value.generation + by, members=value.members + more))


def assigned(c: Cluster, *partitions: int) -> None:
    """The owner of partition 0 takes these over."""
    current: Generation = group(c).current
    members = {one.member_id: one.member for one in group(c).members}
    owner = next(one for one, parts in current.assigned.items() if 0 in parts)
    seen = g.Assigned(members[owner], owner, current.number, partitions)
    c.run.simulation.observe(FIRST_CLIENT, seen)


@breaks(
    *(f"{P}.committed: CommittedDelivered", f"{C}._commit: committed()"),
    f"{C}._written: _commit()",
    **BEFORE,
)
def commits_what_nobody_was_handed(c: Cluster) -> None:
    commit(c, by=1)


@breaks(f"{P}.committed: must_be_done()", **CLASSIC)
def commits_over_a_gap(c: Cluster) -> None:
    judged = c.run.groups[0]
    judged.processed[2] = judged.passed = 0
    commit(c)


@breaks(f"{C}._processed: did()", **BEFORE)
def processes_again(c: Cluster) -> None:
    c.run.simulation.observe(FIRST_CLIENT, g.Processed(0, 1, 1))


@breaks(f"{C}._generation: OneOwner", f"{C}._written: _generation()", **CLASSIC)
def assigns_a_partition_twice(c: Cluster) -> None:
    twice = write_assignment([("orders", 0)])
    stranger = evolve(last(c, GroupMetadataValue)[1].members[0], member_id="x", assignment=twice)
    generation(c, 1, stranger, evolve(stranger, member_id="y"))


@breaks(f"{C}._generation: GenerationsGrow", **CLASSIC)
def goes_back_to_an_older_generation(c: Cluster) -> None:
    generation(c, -1)


@breaks(f"{C}._settles: Settles", f"{C}._generation: _settles()", **CLASSIC)
def rebalances_for_ever(c: Cluster) -> None:
    generation(c, 100)


@breaks(f"{C}._commit: CommitFenced", **CLASSIC)
def takes_the_commit_of_an_old_generation(c: Cluster) -> None:
    commit(c, generation=-1)


@breaks(f"{C}._commit: CommittedMonotone", **CLASSIC)
def goes_back(c: Cluster) -> None:
    commit(c, by=-1)


@breaks(f"{C}._took_over: AssignmentWritten", **CLASSIC)
def tells_of_an_assignment_that_is_not_written(c: Cluster) -> None:
    assigned(c, 0, 1)


@breaks(f"{C}._took_over: OneOwner", **CLASSIC)
def takes_over_what_another_has(c: Cluster) -> None:
    current = group(c).current
    idle = next(m for m in group(c).members if not current.assigned[m.member_id])
    idle.up, idle.owned = True, (0,)
    assigned(c, 0)


@breaks(f"{C}._answered: CommittedSurvives", **CLASSIC)
def answers_before_it_is_written(c: Cluster) -> None:
    c.run.simulation.observe(FIRST_CLIENT, g.CommitAnswered(0, 1, ("c0", 1, 1_000_000)))


@breaks(f"{C}._fetched: CommittedSurvives", **CLASSIC)
def forgets_what_is_committed(c: Cluster) -> None:
    c.run.simulation.observe(FIRST_CLIENT, g.FetchSent(1, 1_000_000))
    c.run.simulation.observe(FIRST_CLIENT, g.OffsetFetched(0, 1, 1_000_000, -1))


@breaks("ProgressOracle._missing: the group's log:", **CLASSIC)
def nobody_leads_the_groups_log(c: Cluster) -> None:
    state: Any = group(c).offsets.state
    state.leader = None
    c.finish()
