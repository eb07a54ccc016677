"""The rules of a partition's oracle one by one, on replicas as they may be, without a run."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import define, field

from chaos.oracles.partition import PartitionOracle
from chaos.oracles.violation import Violation
from refimpl.machines.log import Log, Record
from refimpl.machines.messages import FetchRequest, LeaderAndIsr
from refimpl.messages.broker import TopicPartition
from refimpl.messages.observations import Decided
from refimpl.storage.replica.memory import RecordBatch

NAME = TopicPartition("t", 0)
ALL = frozenset((1, 2, 3))


def values(*numbers: int, epoch: int = 1) -> list[Record]:
    return [Record(epoch, SimpleNamespace(payload=number)) for number in numbers]


@define
class Partition:
    """Three replicas with the same three records, of which all are committed; the first leads."""

    settings: dict[str, Any] = field(factory=dict[str, Any])
    committed: int = 3
    oracle: PartitionOracle = field(init=False)
    replicas: dict[int, Any] = field(init=False)

    def __attrs_post_init__(self) -> None:
        records = values(0, 1, 2)
        self.replicas = {
            id: SimpleNamespace(
                id=id,
                log=Log([*records]),
                high_watermark=self.committed,
                leads=id == 1,
                epoch=1,
                isr=ALL,
                maximal_isr=ALL,
                min_isr=1,
                ends={2: 3, 3: 3},
                seen={2: 1, 3: 1},
                incarnation=1,
            )
            for id in (1, 2, 3)
        }
        known: dict[str, Any] = {
            **{"unclean": False, "lossy": False, "elr": False, "overlap": False},
            **{"min_isr": 2, "reconfigures": False},
        }
        decision = LeaderAndIsr(1, 1, ALL, 1)
        state: Any = SimpleNamespace(
            decision=decision, leader=1, leader_epoch=1, isr=ALL, elr=frozenset[int]()
        )
        settings: Any = SimpleNamespace(**known | self.settings)
        self.oracle = PartitionOracle("t:0", settings, state, self.replicas, Counter())
        self.oracle.became_leader(self.leader)
        self.oracle.wrote(self.leader, 0, 3)
        for offset in range(self.committed):
            self.oracle.log.commit(records[offset])

    @property
    def leader(self) -> Any:
        return self.replicas[1]

    @property
    def follower(self) -> Any:
        return self.replicas[2]

    def wrote(self, *records: Record) -> None:
        """The leader writes these."""
        end = self.leader.log.end
        self.leader.log.extend(records)
        self.oracle.wrote(self.leader, end, self.leader.log.end)

    def copied(self, *records: Record, start: int | None = None) -> None:
        """The follower copies these."""
        end = self.follower.log.end
        self.follower.log.extend(records)
        self.oracle.copied(self.follower, end if start is None else start)

    def decided(
        self,
        action: str = "ShrinkIsr",
        isr: frozenset[int] = ALL,
        *,
        leader: int | None = 1,
        epoch: int = 1,
        elr: frozenset[int] = frozenset[int](),
        alive: frozenset[int] = ALL,
    ) -> None:
        state: Any = self.oracle.state
        state.isr, state.elr = isr, elr
        decision = LeaderAndIsr(epoch, leader, isr, 2)
        self.oracle.decided(Decided(NAME, action, 1, 0, decision, elr, alive))

    def heard(self, *, epoch: int = 1, known: int = 1) -> None:
        self.oracle.heard(self.leader, FetchRequest(2, 1, 1, epoch, 3, 1), known)


def reported(oracle: str) -> Any:
    return pytest.raises(Violation, match=oracle)


# Writing and copying


def test_a_leader_writes_in_its_epoch_behind_no_newer_one() -> None:
    partition = Partition()
    partition.wrote(*values(3))
    partition.leader.epoch = 2
    partition.oracle.became_leader(partition.leader)
    partition.wrote(*values(4, epoch=2))
    with reported("EpochsAscend"):
        partition.wrote(*values(5, epoch=1))


def test_nobody_else_writes_in_an_epoch() -> None:
    partition = Partition()
    partition.follower.log.extend(values(3))
    with reported("OneLeaderPerEpoch"):
        partition.oracle.wrote(partition.follower, 3, 4)
    partition.follower.epoch = 1
    with reported("OneLeaderPerEpoch"):
        partition.oracle.became_leader(partition.follower)


def test_an_offset_of_an_epoch_has_one_record() -> None:
    partition = Partition()
    partition.oracle.written.pop((1, 0))
    partition.oracle.wrote(partition.leader, 0, 1)
    with reported("LogMatching"):
        partition.oracle.wrote(partition.leader, 0, 1)


def test_a_follower_has_its_leaders_record_behind_the_same_one() -> None:
    partition = Partition()
    partition.wrote(*values(3, 4))
    partition.copied(*partition.leader.log.records[3:4])
    partition.copied(Record(1, partition.leader.log.records[4].value))  # an equal one
    with reported("LogMatching"):
        partition.copied(*values(9))


def test_a_copy_behind_another_epoch_does_not_match() -> None:
    partition = Partition()
    partition.leader.epoch = 2
    partition.oracle.became_leader(partition.leader)
    partition.wrote(*values(3, 4, epoch=2))
    partition.follower.log.extend(values(7))
    with reported("LogMatching.*epoch 2 at 4 behind 1"):
        partition.copied(partition.leader.log.records[4])


def test_a_log_of_which_the_beginning_is_deleted_is_compared_with_the_rest() -> None:
    partition = Partition()
    partition.wrote(*values(3))
    records = partition.leader.log.records
    partition.follower.log = Log(records[2:3], 2)
    partition.copied(records[3], start=0)
    partition.follower.log = Log(values(9), 2)
    with reported("LogMatching"):
        partition.oracle.copied(partition.follower, 0)


# High watermarks


def test_a_high_watermark_is_in_the_log() -> None:
    partition = Partition()
    partition.follower.high_watermark = 4
    with reported("HighWatermarkInLog"):
        partition.oracle.moved(partition.follower, 3)
    partition.follower.high_watermark = 3
    partition.oracle.moved(partition.follower, 2)


def test_a_leaders_high_watermark_does_not_go_back_and_a_followers_may() -> None:
    partition = Partition()
    partition.leader.high_watermark = partition.follower.high_watermark = 2
    partition.oracle.moved(partition.follower, 3)
    with reported("HighWatermarkMonotone"):
        partition.oracle.moved(partition.leader, 3)


def test_a_follower_commits_nothing_first() -> None:
    partition = Partition(committed=2)
    partition.follower.high_watermark = 3
    with reported("ViewsArePrefixes.*sees 3, committed is 2"):
        partition.oracle.moved(partition.follower, 2)
    partition.leader.high_watermark = 3
    partition.oracle.moved(partition.leader, 2)
    assert len(partition.oracle.log.committed) == 3
    partition.oracle.moved(partition.follower, 2)


def test_a_replica_commits_the_records_that_are_committed() -> None:
    partition = Partition()
    partition.follower.log = Log([*partition.leader.log.records[:2], *values(9)])
    with reported("AppendOnly.*at 2..3"):
        partition.oracle.moved(partition.follower, 2)
    partition.oracle.moved(partition.follower, 3)


def test_a_commit_is_at_everybody_in_sync() -> None:
    partition = Partition(committed=2)
    partition.replicas[3].log = Log(values(0, 1))
    partition.replicas[3].log.records[:] = partition.leader.log.records[:2]
    partition.leader.high_watermark = 3
    with reported("CommittedInIsr.*replica 3 ends at 2"):
        partition.oracle.moved(partition.leader, 2)


def test_all_that_is_deleted_at_a_leader_is_committed_unseen() -> None:
    partition = Partition(committed=0)
    partition.leader.log = Log(partition.leader.log.records[2:], 2)
    partition.leader.high_watermark = 3
    partition.oracle.moved(partition.leader, 0)
    assert len(partition.oracle.log.committed) == 3
    assert partition.oracle.log.committed[2] == partition.leader.log.records[0]


# What leaders count


def test_a_leader_counts_a_follower_of_its_own_epoch() -> None:
    partition = Partition()
    partition.heard()
    for epoch in (0, 2):
        with reported("EndsAreTrue"):
            partition.heard(epoch=epoch)
    partition.follower.epoch = 0
    with reported("EndsAreTrue"):
        partition.heard()


def test_a_leader_counts_no_earlier_process_of_a_follower() -> None:
    partition = Partition()
    with reported("EndsAreTrue.*incarnation 1 after 2"):
        partition.heard(known=2)


def test_what_a_leader_counts_is_in_the_followers_log() -> None:
    partition = Partition()
    partition.leader.ends[2] = 4
    with reported("EndsAreTrue.*counts 4 at replica 2, which ends at 3"):
        partition.heard()
    partition.follower.incarnation = 2  # of an earlier process nobody knows
    partition.heard()
    partition.follower.incarnation, partition.follower.epoch = 1, 2
    partition.heard()


def test_a_leader_commits_at_once_what_all_in_sync_have() -> None:
    partition = Partition()
    partition.oracle.eager(partition.leader)
    partition.leader.high_watermark = 2
    with reported("Progress.*all of .1, 2, 3. have 3"):
        partition.oracle.eager(partition.leader)
    partition.leader.ends[3] = 2
    partition.oracle.eager(partition.leader)
    partition.leader.maximal_isr = frozenset((1, 2))
    with reported("Progress"):
        partition.oracle.eager(partition.leader)
    partition.leader.leads = False
    partition.oracle.eager(partition.leader)


def test_a_leader_with_too_few_in_sync_waits() -> None:
    partition = Partition()
    partition.leader.high_watermark, partition.leader.min_isr = 2, 4
    partition.oracle.eager(partition.leader)
    partition.leader.min_isr = 3
    with reported("Progress"):
        partition.oracle.eager(partition.leader)


def test_a_leader_alone_commits_its_log() -> None:
    partition = Partition()
    partition.leader.high_watermark = 2
    partition.leader.isr = partition.leader.maximal_isr = frozenset((1,))
    with reported("Progress.*all of .1. have 3"):
        partition.oracle.eager(partition.leader)


# Decisions


def test_a_leader_is_in_sync_and_runs_as_all_in_sync_do() -> None:
    for leader, alive in ((2, ALL), (1, frozenset((2, 3))), (2, frozenset((1, 3)))):
        with reported("LeaderInIsr"):
            Partition().decided(isr=frozenset((1,)), leader=leader, alive=alive)
    Partition().decided(isr=frozenset((1,)), alive=frozenset((1,)))


def test_nobody_is_in_sync_and_eligible() -> None:
    partition = Partition()
    partition.decided(isr=frozenset((1, 2)), elr=frozenset((3,)))
    with reported("ElrOutsideIsr"):
        partition.decided(isr=frozenset((1, 2)), elr=frozenset((2,)))


@pytest.mark.parametrize("who", ["in sync", "eligible"])
def test_who_may_lead_has_what_is_committed(who: str) -> None:
    partition = Partition()
    partition.follower.log = Log(partition.leader.log.records[:2])
    isr = frozenset((1, 2)) if who == "in sync" else frozenset((1,))
    with reported("CommittedInIsr"):
        partition.decided(isr=isr, elr=frozenset((2,)) - isr)
    partition.decided(isr=frozenset((1, 3)))


def test_a_log_that_was_deleted_up_to_the_end_has_all_that_is_committed() -> None:
    partition = Partition()
    partition.follower.log = Log([], 3)
    partition.decided()
    partition.follower.log = Log(values(9), 2)
    with reported("CommittedInIsr"):
        partition.decided()


def test_an_unclean_election_is_reported_where_it_is_not_enabled() -> None:
    partition = Partition()
    with reported("UncleanElection"):
        partition.decided("ElectUnclean", frozenset((2,)), leader=2, epoch=2)


def test_an_unclean_leader_settles_what_is_left() -> None:
    partition = Partition({"unclean": True})
    partition.follower.log = Log(partition.leader.log.records[:1])
    partition.decided("ElectUnclean", frozenset((2,)), leader=2, epoch=2)
    assert (partition.oracle.era, partition.oracle.unsettled) == (2, True)
    partition.follower.epoch, partition.follower.leads = 2, True
    partition.follower.high_watermark = 1
    partition.oracle.became_leader(partition.leader)  # of the epoch before: nothing is settled
    assert partition.oracle.unsettled
    partition.oracle.became_leader(partition.follower)
    assert not partition.oracle.unsettled
    assert len(partition.oracle.log.committed) == 1
    assert partition.oracle.counts["allowed losses"] == 2
    assert [len(one) for one in partition.oracle.lost] == [3]


def test_a_leader_that_lost_nothing_settles_without_a_loss() -> None:
    partition = Partition({"unclean": True}, committed=2)
    partition.decided("ElectUnclean", frozenset((2,)), leader=2, epoch=2)
    partition.follower.epoch, partition.follower.high_watermark = 2, 3
    partition.oracle.became_leader(partition.follower)
    assert partition.oracle.counts["allowed losses"] == 0
    assert partition.oracle.lost == []
    assert len(partition.oracle.log.committed) == 3


def test_records_that_differ_from_a_place_on_are_lost_from_there() -> None:
    partition = Partition({"unclean": True})
    partition.follower.log = Log([partition.leader.log.records[0], *values(8, 9)])
    partition.decided("ElectUnclean", frozenset((2,)), leader=2, epoch=2)
    partition.follower.epoch, partition.follower.high_watermark = 2, 3
    partition.oracle.became_leader(partition.follower)
    assert partition.oracle.counts["allowed losses"] == 2
    assert partition.oracle.log.committed == partition.follower.log.records


# Cuts


def test_a_cut_keeps_the_high_watermark_in_the_log() -> None:
    partition = Partition()
    partition.follower.log = Log(partition.leader.log.records[:2])
    with reported("HighWatermarkInLog"):
        partition.oracle.cut(partition.follower, 3)


def test_who_is_in_sync_cuts_nothing_that_is_committed() -> None:
    partition = Partition()
    partition.follower.log = Log(partition.leader.log.records[:2])
    partition.follower.high_watermark = 2
    with reported("CommittedInIsr.*cut to 2 of 3"):
        partition.oracle.cut(partition.follower, 3)
    partition.oracle.cut(partition.follower, 2)
    partition.decided(isr=frozenset((1, 3)))
    partition.oracle.cut(partition.follower, 3)
    assert partition.oracle.counts["truncations"] == 2


def test_a_cut_above_what_is_committed_is_no_loss() -> None:
    partition = Partition(committed=2)
    partition.follower.log = Log(partition.leader.log.records[:2])
    partition.oracle.cut(partition.follower, 3)
    partition.oracle.era = 2
    partition.oracle.log.commit(values(2)[0])
    partition.oracle.cut(partition.follower, 3)


# Crashes


def test_a_broker_that_is_back_has_what_is_committed() -> None:
    partition = Partition()
    partition.oracle.registered(partition.follower)
    partition.follower.log = Log(partition.leader.log.records[:2])
    with reported("CommittedInIsr.*replica 2 is in sync, and lost some"):
        partition.oracle.registered(partition.follower)
    partition.decided(isr=frozenset((1, 3)))
    partition.oracle.registered(partition.follower)


@pytest.mark.parametrize(("settings", "may"), [({}, True), ({"elr": True}, False)])
def test_the_last_in_sync_may_lose_records_where_nobody_else_is_eligible(
    settings: dict[str, Any], may: bool
) -> None:
    partition = Partition({"lossy": True} | settings)
    partition.decided(isr=frozenset((2,)), leader=2, epoch=4)
    partition.oracle.registered(partition.follower)
    assert not partition.oracle.unsettled
    partition.follower.log = Log(partition.leader.log.records[:2])
    if may:
        partition.oracle.registered(partition.follower)
        assert (partition.oracle.era, partition.oracle.alone) == (5, (2, 5))
    else:
        with reported("CommittedInIsr"):
            partition.oracle.registered(partition.follower)


def test_not_even_where_disks_lose_may_one_of_several_in_sync() -> None:
    partition = Partition({"lossy": True})
    partition.follower.log = Log(partition.leader.log.records[:2])
    with reported("CommittedInIsr"):
        partition.oracle.registered(partition.follower)


# Clients


def test_what_is_acknowledged_is_committed_in_its_place() -> None:
    partition = Partition()
    partition.oracle.acked(partition.leader, 1, RecordBatch((1, 2)))
    for first, batch in ((2, (2, 3)), (3, (3,)), (1, (1, 9))):
        with reported("AckedSurvives"):
            partition.oracle.acked(partition.leader, first, RecordBatch(batch))


def test_consumers_are_given_what_is_committed() -> None:
    partition = Partition()
    records = partition.leader.log.records
    partition.oracle.read(partition.leader, 1, records[1:])
    with reported("ViewsArePrefixes"):
        partition.oracle.read(partition.leader, 1, values(9))
    partition.oracle.lost.append([records[0], *values(9)])
    with reported("ViewsArePrefixes"):
        partition.oracle.read(partition.leader, 1, partition.oracle.lost[0][1:])  # pyright: ignore
    partition.oracle.read(partition.follower, 1, partition.oracle.lost[0][1:])  # pyright: ignore
    with reported("ViewsArePrefixes"):
        partition.oracle.read(partition.follower, 0, partition.oracle.lost[0][1:])  # pyright: ignore


def test_epochs_before_a_permitted_loss_are_not_judged() -> None:
    partition = Partition()
    partition.oracle.era = 2
    partition.oracle.acked(partition.leader, 5, RecordBatch((1,)))
    partition.oracle.read(partition.leader, 0, values(9))
    partition.leader.epoch = 2
    partition.oracle.unsettled = True
    partition.oracle.acked(partition.leader, 5, RecordBatch((1,)))
    partition.oracle.unsettled = False
    with reported("AckedSurvives"):
        partition.oracle.acked(partition.leader, 5, RecordBatch((1,)))


@pytest.mark.parametrize(
    ("settings", "leader", "isr", "elr", "unavailable"),
    [
        ({"elr": True, "overlap": True}, None, (), (), True),
        ({"elr": True, "min_isr": 1}, None, (), (), True),
        ({"elr": True, "reconfigures": True}, None, (), (), True),
        ({"elr": True, "unclean": True, "reconfigures": True}, None, (), (), True),
        ({"elr": True}, None, (), (), False),
        ({"elr": True, "overlap": True, "unclean": True}, None, (), (), False),
        ({"overlap": True}, None, (), (), False),
        ({"elr": True, "overlap": True}, 1, (), (), False),
        ({"elr": True, "overlap": True}, None, (1,), (), False),
        ({"elr": True, "overlap": True}, None, (), (1,), False),
    ],
)
def test_a_partition_may_stay_without_a_leader_where_all_that_are_eligible_crashed(
    settings: dict[str, Any],
    leader: int | None,
    isr: tuple[int, ...],
    elr: tuple[int, ...],
    unavailable: bool,
) -> None:
    partition = Partition(settings)
    state: Any = partition.oracle.state
    state.leader, state.isr, state.elr = leader, frozenset(isr), frozenset(elr)
    assert partition.oracle.unavailable() is unavailable


def test_only_a_leader_commits_what_the_last_in_sync_has_lost() -> None:
    """The third replica is in sync again, and has lost what this one had fetched from it."""
    partition = Partition({"lossy": True})
    partition.oracle.alone = 3, 2
    partition.replicas[3].incarnation = 2
    partition.replicas[3].log = Log(partition.leader.log.records[:2])
    partition.follower.seen = {3: 1}
    partition.oracle.moved(partition.follower, 2)
    assert partition.oracle.era == 0
    partition.oracle.moved(partition.leader, 2)
    assert partition.oracle.era == 2
    assert partition.oracle.counts["records committed after they were lost"] == 1
