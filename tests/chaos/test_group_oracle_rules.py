"""The rules of a group's oracles one by one, on a log as it may be, without a run."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import define, evolve, field

from chaos.oracles.classic_group import ClassicGroupOracle
from chaos.oracles.consumer_group import ConsumerGroupOracle
from chaos.oracles.coordinated_group import CoordinatedGroup
from chaos.oracles.group import Commit, GroupPartition
from chaos.sim import group_messages as g
from chaos.sim.addresses import GROUP, OFFSETS, TOPIC, TOPIC_ID
from refimpl.clients.assignors import write_assignment
from refimpl.messages import observations as o
from refimpl.records.consumer_groups import (
    ConsumerGroupMetadata,
    CurrentMemberAssignment,
    GroupKey,
    MemberKey,
    OwnedPartitions,
)
from refimpl.records.coordinators import (
    GROUP_RECORDS,
    CoordinatorRecord,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from refimpl.records.schema import Uuid
from tests.chaos.seen import Seen, reported

ID = Uuid(TOPIC_ID)


# A group on a partition


def _of_group(when: str = "after", era: int = 0, **known: Any) -> GroupPartition:
    settings: Any = SimpleNamespace(commit_when=when)
    partition: Any = SimpleNamespace(era=era)
    return GroupPartition("t:0", settings, partition, Counter(), **known)


def _offset(offset: int) -> Commit:
    return Commit(offset, 0, "m", 1, offset)


def test_a_commit_covers_what_was_delivered_and_done() -> None:
    group = _of_group()
    group.polled(2)
    group.did(0)
    group.judge(_offset(1))
    with reported("AtLeastOnce"):
        group.judge(_offset(2))
    group.did(1)
    group.judge(_offset(2))
    with reported("CommittedDelivered"):
        group.judge(_offset(3))


def test_after_a_permitted_loss_a_commit_may_be_above_what_was_delivered() -> None:
    _of_group(era=1).judge(_offset(3))


def test_a_gap_in_what_was_processed_is_not_passed() -> None:
    group = _of_group(delivered=9)
    for offset in (0, 2, 3):
        group.did(offset)
    group.must_be_done(1)
    with reported("2 is committed, 1 is not processed"):
        group.must_be_done(2)


def test_what_is_promised_once_is_done_once_until_something_ends_the_promise() -> None:
    group = _of_group("before")
    group.did(0)
    with reported("AtMostOnce"):
        group.did(0)
    for other in (_of_group("before", era=1), _of_group("before", repeats=True), _of_group()):
        other.did(0)
        other.did(0)
        assert other.counts["redeliveries"] == 1


def test_commits_are_those_of_the_log_as_it_is() -> None:
    group = _of_group()
    for at, offset in ((3, 1), (5, 2), (7, 3)):
        group.took(at, _offset(offset))
    assert group.committed == 3
    assert group.since(5) == [2, 3]
    assert group.since(6) == [3]
    group.forget()
    assert (group.committed, group.since(0)) == (0, [])


def test_a_group_that_repeats_has_reached_what_was_acknowledged() -> None:
    known: dict[str, Any] = {"committed": 3, "answered": 5}
    assert _of_group(**known).reached == 3
    assert _of_group(repeats=True, **known).reached == 5


# A group and its coordinator's log


@define
class Log:
    """The coordinator's log as oracles read it."""

    entries: list[CoordinatorRecord] = field(factory=list[CoordinatorRecord])

    def slice(self, start: int, size: int) -> None:
        """Nothing but `keyed_records` looks at it."""

    def keyed_records(self, start: int, data: None) -> tuple[list[tuple[int, Any]], int]:
        return [*enumerate(self.entries)][start:], len(self.entries)


@define
class Group:
    """A group's oracle, and the log that it follows."""

    kind: type[CoordinatedGroup]
    era: int = 0
    owned: dict[int, tuple[int, ...]] = field(factory=dict[int, tuple[int, ...]])
    log: Log = field(factory=Log)
    seen: Seen = field(init=False)
    oracle: Any = field(init=False)
    partition: GroupPartition = field(factory=_of_group)

    def __attrs_post_init__(self) -> None:
        self.seen = Seen(settings=SimpleNamespace(member_session_ms=1000, reference_clients=False))
        end = SimpleNamespace(end=0)
        replica = SimpleNamespace(epoch=1, log=end, high_watermark=0)
        offsets = SimpleNamespace(era=self.era, replicas={1: replica, 2: evolve_of(replica)})
        members = [
            SimpleNamespace(
                member=number,
                member_id=f"m{number}",
                owned=self.owned.get(number, ()),
                up=True,
                group_generation=1,
                commits=0,
            )
            for number in (1, 2)
        ]
        kind: Any = self.kind
        self.oracle = kind(
            self.seen, self.log_of, offsets, [self.partition], members, Counter[str]()
        )
        self.oracle.attach()

    def log_of(self, who: int) -> Log:
        """All leaders have the same log."""
        return self.log

    def writes(self, *records: CoordinatorRecord, who: int = 1) -> None:
        begin = len(self.log.entries)
        self.log.entries += records
        self.seen.observe(who, o.Written(OFFSETS, begin, len(self.log.entries)))

    def leads(self, who: int, epoch: int, *kept: CoordinatorRecord) -> None:
        """Another leader begins, with this log."""
        self.log.entries[:] = kept
        replica = self.oracle.offsets.replicas[who]
        replica.epoch, replica.log.end = epoch, len(kept)
        self.seen.observe(who, o.BecameLeader(OFFSETS, False, 0))


def evolve_of(one: Any) -> Any:
    return SimpleNamespace(**vars(one) | {"log": SimpleNamespace(end=0)})


def generation(number: int, group: str = GROUP, **assigned: tuple[int, ...]) -> CoordinatorRecord:
    """A classic group's generation, with each member's partitions."""
    members = tuple(
        MemberMetadata(
            member_id=id,
            client_id="",
            client_host="",
            session_timeout=1,
            subscription=b"",
            assignment=write_assignment([(TOPIC, one) for one in numbers]),
        )
        for id, numbers in assigned.items()
    )
    value = GroupMetadataValue(
        protocol_type="consumer", generation=number, protocol="range", leader="", members=members
    )
    return CoordinatorRecord(GROUP_RECORDS[2], GroupMetadataKey(group), value)


def committed(offset: int, by: str, generation: int, number: int) -> CoordinatorRecord:
    key = OffsetCommitKey(GROUP, TOPIC, 0)
    value = OffsetCommitValue(
        offset=offset, metadata=f"{by} {generation} {number}", commit_timestamp=0
    )
    return CoordinatorRecord(GROUP_RECORDS[1], key, value)


def classic(**of: Any) -> Group:
    group = Group(ClassicGroupOracle, **of)
    group.partition.delivered, group.partition.processed = 9, [1] * 9
    return group


def test_a_commit_of_an_older_generation_is_fenced() -> None:
    group = classic()
    group.writes(generation(1, m1=(0,)), generation(2, m1=(0,)))
    group.writes(committed(1, "m1", 2, 1), committed(2, "m1", 3, 2))
    with reported("CommitFenced"):
        group.writes(committed(3, "m1", 1, 3))


def test_a_commit_of_somebody_else_is_fenced_in_a_generation_that_is_written() -> None:
    group = classic()
    group.writes(generation(2, m1=(0,)), committed(1, "m2", 3, 1))
    with reported("CommitFenced"):
        group.writes(committed(2, "m2", 2, 2))


def test_after_a_permitted_loss_nobody_is_fenced() -> None:
    group = classic(era=1)
    group.writes(generation(2, m1=(0,)), committed(1, "m1", 1, 1))


def test_a_generation_that_another_leader_does_not_have_is_not_written() -> None:
    group = classic()
    first = generation(1, m1=(0,))
    group.writes(first, generation(2, m1=(0,)))
    group.leads(2, 2, first)
    group.seen.observe(0, g.Assigned(1, "m1", 1, (0,)))
    with reported("AssignmentWritten"):
        group.seen.observe(0, g.Assigned(1, "m1", 2, (0,)))


def test_after_a_permitted_loss_members_may_have_what_is_not_written() -> None:
    classic(era=1).seen.observe(0, g.Assigned(1, "m1", 2, (0,)))


def test_an_assignment_is_the_written_one() -> None:
    group = classic()
    group.writes(generation(1, m1=(0,)))
    with reported("AssignmentWritten"):
        group.seen.observe(0, g.Assigned(1, "m1", 1, (0, 1)))


def test_members_of_one_generation_own_nothing_together() -> None:
    group = classic(owned={2: (0,)})
    group.writes(generation(1, m1=(0,), m2=(1,)))
    with reported("OneOwner"):
        group.seen.observe(0, g.Assigned(1, "m1", 1, (0,)))


@pytest.mark.parametrize("away", ["it is down", "another generation", "not in the record"])
def test_who_is_not_in_the_generation_may_still_believe_to_own(away: str) -> None:
    group = classic(owned={2: (0,)})
    other = group.oracle.members[1]
    other.up = away != "it is down"
    other.group_generation = 0 if away == "another generation" else 1
    others: dict[str, Any] = {} if away == "not in the record" else {"m2": (1,)}
    group.writes(generation(1, m1=(0,), **others))
    group.seen.observe(0, g.Assigned(1, "m1", 1, (0,)))


def test_a_generation_gives_a_partition_to_one() -> None:
    with reported("OneOwner"):
        classic().writes(generation(1, m1=(0,), m2=(0, 1)))


def test_generations_grow_unless_the_log_may_have_lost_some() -> None:
    group = classic()
    group.writes(generation(2), generation(2))
    assert group.oracle.counts["Rebalance"] == 1
    with reported("GenerationsGrow"):
        group.writes(generation(1))
    classic(era=1).writes(generation(2), generation(1))


def test_soon_after_the_last_fault_no_generation_follows() -> None:
    group = classic()
    group.writes(generation(5))
    group.oracle.healed()
    group.writes(generation(17))  # 4 and 4 for each of two members
    with reported("Settles"):
        group.writes(generation(18))


def test_generations_of_a_slow_log_are_not_counted() -> None:
    group = classic()
    group.oracle.healed()
    group.writes(generation(1))
    group.seen.timeline.now = 501
    group.writes(generation(99))


def test_another_groups_records_do_not_count() -> None:
    group = classic()
    group.writes(generation(3), generation(1, group="another"))
    assert group.oracle.current.number == 3


def test_commits_of_a_claim_go_forward() -> None:
    group = classic()
    group.writes(generation(1, m1=(0,)), committed(4, "m1", 1, 1), committed(4, "m1", 1, 2))
    with reported("CommittedMonotone"):
        group.writes(committed(3, "m1", 1, 3))


def test_a_commit_that_was_overtaken_ends_the_promise_of_at_most_once() -> None:
    group = classic()
    group.writes(generation(1, m1=(0,)), committed(4, "m1", 1, 2), committed(3, "m1", 1, 1))
    assert group.partition.repeats
    assert group.oracle.counts["commits overtaken"] == 1
    assert group.oracle.counts["ReceiveCommit"] == 2


def test_a_second_copy_of_a_commit_is_overtaken_as_well() -> None:
    group = classic()
    group.writes(generation(1, m1=(0,)), committed(4, "m1", 1, 2))
    assert not group.partition.repeats
    group.writes(committed(4, "m1", 1, 2))
    assert group.partition.repeats


def test_who_began_to_read_anew_commits_from_there_on() -> None:
    """Its second commit never arrived, so the group is where the first one was."""
    group = classic()
    group.writes(generation(1, m1=(0,)), committed(4, "m1", 1, 1))
    group.oracle.members[0].commits = 2
    group.seen.observe(0, g.Joined(0, 1, 1, 2))
    group.writes(committed(2, "m1", 1, 3))
    assert not group.partition.repeats
    with reported("CommittedMonotone"):
        group.writes(committed(1, "m1", 1, 4))


def test_a_commit_that_comes_after_its_sender_began_anew_is_overtaken() -> None:
    group = classic()
    group.writes(generation(1, m1=(0,)), committed(4, "m1", 1, 1))
    group.oracle.members[0].commits = 2
    group.seen.observe(0, g.Joined(0, 1, 1, 4))
    group.writes(committed(3, "m1", 1, 2))
    assert group.partition.repeats


def test_an_acknowledged_commit_is_in_the_log() -> None:
    group = classic()
    group.writes(generation(1, m1=(0,)), committed(4, "m1", 1, 1), committed(5, "m1", 1, 2))
    group.seen.observe(0, g.CommitAnswered(0, 1, ("m1", 1, 1)))
    assert group.partition.answered == 4
    with reported("CommittedSurvives"):
        group.seen.observe(0, g.CommitAnswered(0, 1, ("m1", 1, 3)))


def test_what_is_fetched_is_no_older_than_what_was_acknowledged_before() -> None:
    group = classic()
    group.writes(generation(1, m1=(0,)), committed(4, "m1", 1, 1))
    group.seen.observe(0, g.FetchSent(1, 1))
    group.writes(committed(5, "m1", 1, 2))
    group.seen.observe(0, g.CommitAnswered(0, 1, ("m1", 1, 2)))
    group.seen.observe(0, g.FetchSent(1, 2))
    group.seen.observe(0, g.OffsetFetched(0, 1, 1, -1))
    group.seen.observe(0, g.OffsetFetched(0, 1, 1, 4))
    group.seen.observe(0, g.OffsetFetched(0, 1, 2, 5))
    for offset in (-1, 4):
        with reported("CommittedSurvives"):
            group.seen.observe(0, g.OffsetFetched(0, 1, 2, offset))


def test_a_deposed_leader_writes_nothing_that_counts() -> None:
    group = classic()
    group.leads(2, 3)
    group.writes(generation(7), who=1)
    assert group.oracle.current.number == 0
    group.writes(generation(7), who=2)
    assert group.oracle.current.number == 7


# A consumer group


def epoch(number: int) -> CoordinatorRecord:
    return CoordinatorRecord(GROUP_RECORDS[3], GroupKey(GROUP), ConsumerGroupMetadata(epoch=number))


def has(
    member: str, epoch: int, assigned: dict[int, int], pending: dict[int, int] | None = None
) -> CoordinatorRecord:
    """A member's current assignment: partitions, each with its assignment epoch."""

    def owned(of: dict[int, int]) -> tuple[OwnedPartitions, ...]:
        if not of:
            return ()
        epochs = tuple(of.values())
        return (OwnedPartitions(topic_id=ID, partitions=tuple(of), assignment_epochs=epochs),)

    value = CurrentMemberAssignment(epoch, epoch - 1, 0, owned(assigned), owned(pending or {}))
    return CoordinatorRecord(GROUP_RECORDS[8], MemberKey(GROUP, member), value)


def without(record: CoordinatorRecord) -> CoordinatorRecord:
    return evolve(record, value=None)


def consumer(**of: Any) -> Group:
    group = Group(ConsumerGroupOracle, **of)
    group.partition.delivered, group.partition.processed = 9, [1] * 9
    return group


def test_member_epochs_grow_unless_a_static_member_is_away_or_the_log_has_lost_some() -> None:
    group = consumer()
    group.writes(has("m1", 3, {0: 3}), has("m1", 3, {0: 3}), has("m1", -2, {0: 3}))
    group.writes(has("m1", 5, {0: 3}))
    with reported("MemberEpochsGrow"):
        group.writes(has("m1", 4, {0: 3}))
    group = consumer(era=1)
    group.writes(has("m1", 3, {0: 3}))
    group.writes(has("m1", 2, {0: 3}))


def test_a_member_that_was_removed_begins_anew() -> None:
    group = consumer()
    group.writes(has("m1", 3, {0: 3}))
    group.writes(without(has("m1", 3, {})))
    assert group.oracle.has == {}
    group.writes(has("m1", 1, {0: 1}))


def test_a_partition_is_one_members_until_it_has_given_it_up() -> None:
    group = consumer()
    group.writes(has("m1", 3, {0: 3}), has("m2", 3, {1: 3}))
    group.writes(has("m1", 4, {}, {0: 3}))
    with reported("OneOwner"):
        group.writes(has("m2", 4, {1: 3, 0: 4}))


def test_epochs_of_the_group_are_counted_once() -> None:
    group = consumer()
    group.writes(epoch(2), has("m1", 2, {0: 2}))
    group.writes(has("m1", 3, {0: 2}))
    assert group.oracle.counts["Rebalance"] == 1
    with reported("GenerationsGrow"):
        group.writes(epoch(1))


def test_another_leader_has_the_members_of_its_log_alone() -> None:
    group = consumer()
    kept = has("m1", 3, {0: 3})
    group.writes(epoch(3), kept, has("m2", 3, {1: 3}))
    group.leads(2, 2, kept)
    assert group.oracle.group_epoch == 0
    assert [*group.oracle.has] == ["m1"]
    group.seen.observe(0, g.Told(1, "m1", 3, frozenset((0,))))
    with reported("AssignmentWritten"):
        group.seen.observe(0, g.Told(2, "m2", 3, frozenset((1,))))


def test_a_member_is_told_an_epoch_and_an_assignment_that_are_written_together() -> None:
    group = consumer()
    group.writes(has("m1", 3, {0: 3}), has("m1", 4, {1: 4}))
    for told in ((3, frozenset((0,))), (4, frozenset((1,))), (3, None)):
        group.seen.observe(0, g.Told(1, "m1", *told))
    with reported("AssignmentWritten"):
        group.seen.observe(0, g.Told(1, "m1", 4, frozenset((0,))))
    consumer(era=1).seen.observe(0, g.Told(1, "m1", 4, None))


def test_a_commit_is_fenced_below_the_epoch_of_its_partition() -> None:
    group = consumer()
    group.writes(has("m1", 3, {0: 3}))
    group.writes(committed(1, "m1", 3, 1))
    with reported("since 3"):
        group.writes(committed(2, "m1", 2, 2))


def test_a_commit_is_fenced_if_somebody_else_has_the_partition_or_it_is_no_member() -> None:
    group = consumer()
    group.writes(has("m1", 3, {0: 3}), has("m2", 3, {1: 3}))
    with reported("the partition is that of"):
        group.writes(committed(1, "m2", 3, 1))
    with reported("the members are"):
        group.writes(committed(1, "m3", 3, 1))
    group = consumer()
    group.writes(has("m1", 3, {1: 3}))
    group.writes(committed(1, "m1", 3, 1))


def test_members_that_the_coordinator_knows_own_nothing_together() -> None:
    group = consumer(owned={2: (0,)})
    group.writes(has("m1", 3, {0: 3}))
    group.seen.observe(0, g.Assigned(1, "m1", 3, (0,)))  # the other one was removed
    group.writes(has("m2", 3, {1: 3}))
    with reported("OneOwner"):
        group.seen.observe(0, g.Assigned(1, "m1", 3, (0,)))
    group.oracle.members[1].up = False
    group.seen.observe(0, g.Assigned(1, "m1", 3, (0,)))
    group.oracle.members[1].up = True
    group.seen.observe(0, g.Assigned(3, "m3", 3, (0,)))  # it was removed itself


def test_an_offset_that_nobody_committed_is_not_fetched() -> None:
    group = classic()
    group.seen.observe(0, g.FetchSent(1, 1))
    group.seen.observe(0, g.OffsetFetched(0, 1, 1, -1))
    with reported("CommittedSurvives"):
        group.seen.observe(0, g.OffsetFetched(0, 1, 1, 0))


def test_a_log_that_commits_in_time_is_not_slow() -> None:
    group = classic()
    group.oracle.healed()
    group.writes(generation(1))
    group.seen.observe(1, o.HighWatermarkAdvanced(OFFSETS, 0, 1))
    group.seen.timeline.now = 501
    with reported("Settles"):
        group.writes(generation(99))


def test_a_member_may_have_nothing_of_a_topic() -> None:
    group = consumer()
    nothing = OwnedPartitions(topic_id=ID, partitions=(), assignment_epochs=None)
    value = CurrentMemberAssignment(3, 2, 0, (nothing,), ())
    group.writes(evolve(has("m1", 3, {}), value=value))
    group.seen.observe(0, g.Told(1, "m1", 3, frozenset()))
