"""The controller's record of a partition alone, and the registry of brokers, guard by guard."""

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from refimpl.errors import FencedLeaderEpoch, Refusal, StaleBrokerEpoch
from refimpl.machines import controller_errors as errors
from refimpl.machines.brokers import BrokerRegistry
from refimpl.machines.controller import PartitionState, first_live
from refimpl.machines.messages import UNKNOWN_EPOCH, AlterPartitionRequest


def partition(**settings: Any) -> PartitionState:
    return PartitionState.create((1, 2, 3), **settings)


def request(state: PartitionState, *isr: int, **other: Any) -> AlterPartitionRequest:
    """The request of this partition's leader, with every epoch up to date."""
    asked = AlterPartitionRequest(
        state.leader or 0,
        state.brokers.epochs[state.leader or 0],
        state.leader_epoch,
        state.partition_epoch,
        tuple((r, state.brokers.epochs.get(r, UNKNOWN_EPOCH)) for r in isr),
    )
    return evolve(asked, **other)


def gone(state: PartitionState, broker: int) -> None:
    state.brokers.fence(broker)
    state.remove(broker)


# ------------------------------------------------------------------------------ AlterPartition


def test_a_change_raises_the_partition_epoch_and_not_the_leader_epoch() -> None:
    state = partition()
    done = state.alter_partition(request(state, 1, 2))
    assert (done.error, done.isr, done.leader_epoch, done.partition_epoch) == (None, {1, 2}, 1, 2)


Wrong = Callable[[PartitionState], AlterPartitionRequest]
REFUSED: list[tuple[Wrong, type[Refusal], str]] = [
    (lambda s: request(s, 1, 2, broker_epoch=7), StaleBrokerEpoch, "incarnation 0, and this"),
    (lambda s: request(s, 1, 2, broker_id=9), errors.BrokerNotRegistered, "broker 9"),
    (lambda s: request(s, 1, 2, leader_epoch=9), errors.SupersededController, "leader epoch 9"),
    (
        lambda s: request(s, 1, 2, partition_epoch=9),
        errors.SupersededController,
        "partition epoch 9",
    ),
    (lambda s: request(s, 1, 2, leader_epoch=0), FencedLeaderEpoch, "of leader epoch 0"),
    (lambda s: request(s, 1, 2, broker_id=2), errors.NotTheLeader, "2 asks, and 1 leads"),
    (lambda s: request(s, 1, 2, partition_epoch=0), errors.InvalidUpdateVersion, "asked at"),
    (lambda s: request(s, 2, 3), errors.InvalidIsr, "ISR {2, 3} must hold the leader 1"),
    (lambda s: request(s, 1, 4), errors.InvalidIsr, "only replicas of {1, 2, 3}"),
]


@pytest.mark.parametrize(("wrong", "kind", "why"), REFUSED)
def test_a_request_is_refused_by_its_own_guard(wrong: Wrong, kind: type[Refusal], why: str) -> None:
    state = partition()
    before = repr(state)
    with pytest.raises(kind, match=why):
        state.check(wrong(state))
    assert state.alter_partition(wrong(state)).error == kind.kafka_error
    assert repr(state) == before


def test_what_is_in_force_is_confirmed_even_if_asked_at_an_older_partition_epoch() -> None:
    state = partition()
    asked = request(state, 1, 2)
    state.alter_partition(asked)
    again = state.alter_partition(asked)
    assert (again.error, again.partition_epoch) == (None, 2)


def without_3(state: PartitionState) -> PartitionState:
    state.alter_partition(request(state, 1, 2))
    return state


def fenced(state: PartitionState) -> AlterPartitionRequest:
    state.brokers.fence(3)
    return request(state, 1, 2, 3)


def leaving(state: PartitionState) -> AlterPartitionRequest:
    state.brokers.shut_down(3, 0)
    return request(state, 1, 2, 3)


def restarted(state: PartitionState) -> AlterPartitionRequest:
    asked = request(state, 1, 2, 3)
    state.brokers.fence(3)
    state.brokers.register(3, 1)
    state.brokers.unfence(3)
    return asked


def restarted_twice(state: PartitionState) -> AlterPartitionRequest:
    """Broker epochs are numbers of all brokers together: the next one may be any number higher."""
    asked = restarted(state)
    state.brokers.fence(3)
    state.brokers.register(3, 5)
    state.brokers.unfence(3)
    return asked


def not_registered_yet(state: PartitionState) -> AlterPartitionRequest:
    members = tuple((r, 1 if r == 3 else 0) for r in (1, 2, 3))
    return request(state, 1, 2, 3, new_isr=members)


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        (fenced, errors.InactiveReplica),
        (leaving, errors.InactiveReplica),
        (restarted, errors.RestartedReplica),
        (restarted_twice, errors.RestartedReplica),
        (not_registered_yet, errors.RestartedReplica),
    ],
)
def test_a_refusal_for_the_sake_of_a_replica_fences_copies_of_its_request(
    wrong: Wrong, kind: type[Refusal]
) -> None:
    state = without_3(partition())
    asked = wrong(state)
    with pytest.raises(kind):
        state.check(asked)
    refused = state.alter_partition(asked)
    assert (refused.error, refused.partition_epoch, refused.isr) == (
        "INELIGIBLE_REPLICA",
        asked.partition_epoch + 1,
        {1, 2},
    )
    if 3 not in state.brokers.alive:
        state.brokers.unfence(3)
    assert state.alter_partition(asked).error == "INVALID_UPDATE_VERSION"


def test_a_member_that_was_not_heard_yet_is_not_compared() -> None:
    state = partition()
    state.brokers.epochs[2] = 5
    asked = request(state, 1, new_isr=((1, 0), (2, UNKNOWN_EPOCH)))
    assert state.alter_partition(asked).error is None


# ------------------------------------------------------------------------------ decisions


def test_a_partition_does_not_go_offline_while_somebody_of_the_isr_is_there() -> None:
    state = partition()
    with pytest.raises(errors.SuccessorAvailable, match=r"1 is gone, and \{2, 3\} of the ISR"):
        state.go_offline(1)
    with pytest.raises(errors.LeaderStays):
        state.go_offline(2)
    gone(state, 2)
    gone(state, 3)
    state.go_offline(1)
    assert (state.leader, state.isr) == (None, {1})
    with pytest.raises(errors.AlreadyOffline):
        state.go_offline(1)


def test_a_successor_is_of_the_isr_and_alive_and_a_leader_that_is_there_stays() -> None:
    state = partition()
    with pytest.raises(errors.LeaderStays, match="1 goes on leading, not 2"):
        state.fence(3, 2)
    with pytest.raises(errors.NotEligible):
        state.fence(1, 1)
    state.brokers.fence(2)
    with pytest.raises(errors.NotEligible):
        state.fence(1, 2)
    assert state.fence(1, 3)
    assert (state.leader, state.isr, state.leader_epoch) == (3, {2, 3}, 2)
    gone(state, 3)
    with pytest.raises(errors.NoLeaderToReplace):
        state.fence(2, 1)


def test_a_follower_that_is_gone_leaves_the_isr_within_the_leader_epoch() -> None:
    state = partition()
    assert state.fence(3, 1)
    assert state.remove(2)
    assert (state.leader, state.leader_epoch, state.partition_epoch, state.isr) == (1, 1, 3, {1})


def test_an_election_is_for_a_vacancy_and_a_move_is_not() -> None:
    state = partition()
    with pytest.raises(errors.ElectionNotNeeded, match="1 leads"):
        state.elect(2)
    state.move_leader(2)
    state.brokers.fence(3)
    with pytest.raises(errors.NotAlive):
        state.move_leader(3)
    without = partition()
    without.alter_partition(request(without, 1))
    with pytest.raises(errors.NotEligible):
        without.move_leader(2)
    gone(state, 2)
    with pytest.raises(errors.NoLeaderToReplace):
        state.move_leader(1)


def test_an_election_takes_the_elr_only_when_nobody_of_the_isr_is_there() -> None:
    state = partition(min_isr=2, elr_enabled=True)
    gone(state, 3)
    gone(state, 2)
    gone(state, 1)
    assert (state.isr, state.elr) == (set(), {1, 2})
    with pytest.raises(errors.NotAlive):
        state.elect(1)
    state.brokers.unfence(3)
    with pytest.raises(errors.NotEligible, match=r"the ELR \{1, 2\}"):
        state.elect(3)
    state.brokers.unfence(1)
    state.register(2, crashed=True)
    assert state.elr == {1}
    state.elect(1)
    assert (state.isr, state.elr, state.leader) == ({1}, set(), 1)
    state.brokers.unfence(2)
    again = partition(min_isr=3, elr_enabled=True)
    gone(again, 3)
    gone(again, 1)
    again.brokers.unfence(3)
    with pytest.raises(errors.NotEligible):
        again.elect(3)


def test_an_unclean_election_needs_leave_and_nobody_who_has_everything() -> None:
    state = partition(unclean_election=True)
    with pytest.raises(errors.CleanElectionPossible, match=r"\{1, 2, 3\} are alive"):
        state.elect_unclean(2)
    for broker in (3, 2, 1):
        gone(state, broker)
    with pytest.raises(errors.NotAlive):
        state.elect_unclean(3)
    state.brokers.unfence(3)
    state.elect_unclean(3)
    assert state.isr == {3}
    with pytest.raises(errors.UncleanElectionDisabled):
        partition().elect_unclean(2)


def test_whoever_shuts_down_is_neither_elected_nor_let_in() -> None:
    state = partition()
    state.brokers.shut_down(2, 0)
    with pytest.raises(errors.NotAlive):
        state.move_leader(2)
    with pytest.raises(errors.NotEligible):
        state.fence(1, 2)


# ------------------------------------------------------------------------------ the registry


def test_partitions_share_one_registry() -> None:
    brokers = BrokerRegistry(dict.fromkeys((1, 2, 3), 0), frozenset({1, 2, 3}))
    one, other = partition(brokers=brokers), partition(brokers=brokers)
    one.brokers.fence(2)
    with pytest.raises(errors.NotAlive):
        other.move_leader(2)


def test_an_older_incarnation_does_not_come_back_and_a_newer_one_waits_for_the_fence() -> None:
    brokers = BrokerRegistry()
    brokers.register(1, 3)
    brokers.register(1, 3)
    brokers.unfence(1)
    with pytest.raises(StaleBrokerEpoch, match="broker 1 is here in incarnation 3"):
        brokers.register(1, 2)
    brokers.register(1, 3)
    with pytest.raises(errors.DuplicateRegistration, match="registers as incarnation 4, and 3"):
        brokers.register(1, 4)
    brokers.fence(1)
    brokers.register(1, 4)
    assert brokers.epochs[1] == 4


def test_a_broker_takes_part_between_unfence_and_fence() -> None:
    brokers = BrokerRegistry()
    with pytest.raises(errors.BrokerNotRegistered):
        brokers.unfence(1)
    brokers.register(1, 0)
    with pytest.raises(errors.AlreadyFenced):
        brokers.fence(1)
    brokers.unfence(1)
    with pytest.raises(errors.AlreadyUnfenced):
        brokers.unfence(1)


def test_heartbeats_count_for_the_incarnation_that_sends_them() -> None:
    brokers = BrokerRegistry()
    with pytest.raises(errors.BrokerNotRegistered):
        brokers.heartbeat(1, 0, 5)
    brokers.register(1, 1)
    with pytest.raises(StaleBrokerEpoch):
        brokers.heartbeat(1, 0, 5)
    assert brokers.heartbeat(1, 1, 5)
    brokers.unfence(1)
    assert not brokers.heartbeat(1, 1, 10)
    assert brokers.silent(15, 5) == ()
    assert brokers.silent(16, 5) == (1,)


def test_a_controlled_shutdown_is_final_for_its_incarnation() -> None:
    brokers = BrokerRegistry()
    brokers.register(1, 0)
    brokers.unfence(1)
    brokers.shut_down(1, 0)
    assert (brokers.alive, brokers.active) == ({1}, set())
    brokers.fence(1)
    with pytest.raises(errors.ShuttingDown):
        brokers.unfence(1)
    brokers.register(1, 1)
    brokers.unfence(1)
    assert brokers.active == {1}


# ------------------------------------------------------------------------------ logs that fail


def test_a_replica_whose_log_failed_is_not_elected_until_its_broker_starts_again() -> None:
    state = partition()
    assert state.fail_replica(2)
    assert not state.fail_replica(2)
    assert not state.fail_replica(9)
    assert state.brokers.active == {1, 2, 3}
    assert state.active == {1, 3}
    with pytest.raises(errors.NotEligible):
        state.fence(1, successor=2)
    with pytest.raises(errors.NotAlive):
        state.move_leader(2)
    state.register(2, crashed=False)
    assert state.active == {1, 2, 3}


def test_a_replica_whose_log_failed_joins_no_isr() -> None:
    state = partition()
    state.fail_replica(3)
    state.fence(3, successor=1)
    assert state.alter_partition(request(state, 1, 2, 3)).error == "INELIGIBLE_REPLICA"
    state.register(3, crashed=False)
    assert state.alter_partition(request(state, 1, 2, 3)).error is None


def test_who_is_alone_with_a_failed_log_is_no_successor_and_goes_offline() -> None:
    state = partition()
    for one in (1, 2, 3):
        state.fail_replica(one)
    state.go_offline(1)
    assert state.leader is None
    with pytest.raises(errors.NotAlive):
        state.elect(2)


def test_a_log_that_failed_may_lack_records_and_is_not_eligible_any_more() -> None:
    state = partition(min_isr=3, elr_enabled=True)
    state.fail_replica(3)
    state.fence(3, successor=1)
    assert state.elr == {3}
    state.register(3, crashed=False)
    assert state.elr == set()


# ------------------------------------------------------------------------------ who is next


@pytest.mark.parametrize(
    ("candidates", "alive", "chosen"),
    [({2, 3}, {2, 3}, 3), ({1, 2}, {2, 3}, 2), ({1, 2}, {1, 3}, 1), ({1}, {2, 3}, None)],
)
def test_the_first_of_the_assignment_that_may_and_can_lead_is_chosen(
    candidates: set[int], alive: set[int], chosen: int | None
) -> None:
    assert first_live((3, 2, 1), frozenset(candidates), frozenset(alive)) == chosen
