"""Behaviour of controller and replica that no test checked, as generated mutants showed."""

from typing import Any

import pytest

from refimpl.errors import StaleBrokerEpoch
from refimpl.machines import controller_errors as errors
from refimpl.machines import replica_errors
from refimpl.machines.brokers import BrokerRegistry
from refimpl.machines.controller import PartitionState
from refimpl.machines.log import Log, Record
from refimpl.machines.messages import LeaderAndIsr
from refimpl.machines.replica import Replica


def partition(**settings: Any) -> PartitionState:
    return PartitionState.create((1, 2, 3), **settings)


def gone(state: PartitionState, broker: int) -> bool:
    state.brokers.fence(broker)
    return state.remove(broker)


def facts(state: PartitionState) -> tuple[Any, ...]:
    return state.replicas, state.leader, state.isr, state.leader_epoch, state.partition_epoch


# ------------------------------------------------------------------------------ KIP-455


def test_who_is_no_replica_any_more_leaves_the_isr_by_a_new_leader_epoch() -> None:
    state = partition()
    state.reassign(frozenset({1, 2}), None)
    assert facts(state) == ({1, 2}, 1, {1, 2}, 2, 2)


def test_a_replica_more_is_no_new_leader_epoch_and_not_in_sync_yet() -> None:
    state = partition()
    state.reassign(frozenset({1, 2, 3, 4}), None)
    assert facts(state) == ({1, 2, 3, 4}, 1, {1, 2, 3}, 1, 2)


def test_if_the_leader_goes_its_successor_leads_or_nobody() -> None:
    state, vacant = partition(), partition()
    state.reassign(frozenset({2, 3}), 3)
    assert facts(state) == ({2, 3}, 3, {2, 3}, 2, 2)
    vacant.reassign(frozenset({2, 3}), None)
    assert facts(vacant) == ({2, 3}, None, {2, 3}, 2, 2)


def test_where_nobody_leads_the_successor_does_by_a_new_leader_epoch() -> None:
    state = partition()
    for broker in (3, 2, 1):
        gone(state, broker)
    state.brokers.unfence(1)
    epoch = state.leader_epoch
    state.reassign(frozenset({1, 2, 3, 4}), 1)
    assert facts(state)[1:4] == (1, {1}, epoch + 1)


def test_a_leader_that_stays_leads_on_whoever_is_named() -> None:
    state = partition()
    state.brokers.fence(3)
    state.reassign(frozenset({1, 2}), 3)
    assert facts(state) == ({1, 2}, 1, {1, 2}, 2, 2)


def test_somebody_who_stays_must_be_in_sync_and_the_successor_alive_and_in_sync() -> None:
    state = partition()
    gone(state, 3)
    before = facts(state)
    with pytest.raises(errors.NoneInSync):
        state.reassign(frozenset({3, 4}), None)
    with pytest.raises(errors.NotAlive):
        state.reassign(frozenset({2, 3}), 3)
    state.brokers.unfence(3)
    with pytest.raises(errors.NotEligible):
        state.reassign(frozenset({2, 3}), 3)
    assert facts(state) == before


def test_where_nobody_is_in_sync_a_replica_may_be_added_and_none_removed() -> None:
    """The eligible may be all that has the records, and nobody knows which of them has crashed."""
    state = partition(min_isr=2, elr_enabled=True)
    for broker in (3, 2, 1):
        gone(state, broker)
    assert (state.isr, state.elr) == (frozenset(), {1, 2})
    before = facts(state)
    for target in ({1, 3}, {2}, {3, 4}):
        with pytest.raises(errors.NoneInSync):
            state.reassign(frozenset(target), None)
    assert (facts(state), state.elr) == (before, {1, 2})
    state.reassign(frozenset({1, 2, 3, 4}), None)
    assert (state.leader, state.isr, state.elr) == (None, frozenset(), {1, 2})


def test_who_is_no_replica_any_more_is_not_eligible_when_it_is_one_again() -> None:
    state = partition(min_isr=2, elr_enabled=True)
    for broker in (3, 2):
        gone(state, broker)
    assert (state.isr, state.elr) == ({1}, {2})
    state.reassign(frozenset({1}), None)
    assert state.elr == frozenset()
    state.reassign(frozenset({1, 2}), None)
    assert state.elr == frozenset()


def test_the_last_leader_does_not_lead_again_once_it_is_no_replica() -> None:
    state = partition(min_isr=1, elr_enabled=True, last_known_leader=True)
    state.last_known, state.leader = 1, None
    state.reassign(frozenset({1, 2}), None)
    assert state.last_known == 1
    state.reassign(frozenset({2}), None)
    assert state.last_known is None


def test_only_a_replica_is_elected_uncleanly() -> None:
    registry = BrokerRegistry(dict.fromkeys((1, 2, 3), 0), frozenset({1, 2, 3}))
    state = PartitionState.create((1,), registry, unclean_election=True)
    gone(state, 1)
    with pytest.raises(errors.NotAReplica, match=r"3 is none of the replicas \{1\}"):
        state.elect_unclean(3)


# ------------------------------------------------------------------------------ vacant partitions


def test_only_the_last_leader_leads_again_alive_and_after_all_others_have_crashed() -> None:
    state = partition(min_isr=1, elr_enabled=True, last_known_leader=True)
    gone(state, 2)
    gone(state, 3)
    gone(state, 1)
    assert (state.leader, state.isr, state.last_known) == (None, frozenset(), 1)
    with pytest.raises(errors.NotAlive):
        state.elect_last_known(1)
    for broker in (1, 2):
        state.brokers.unfence(broker)
    with pytest.raises(errors.NotEligible):
        state.elect_last_known(1)  # it is in the ELR
    state.register(1, crashed=True)
    assert state.elr == frozenset()
    with pytest.raises(errors.NotEligible):
        state.elect_last_known(2)
    epoch = state.leader_epoch
    state.elect_last_known(1)
    assert facts(state)[1:4] == (1, {1}, epoch + 1)


def test_taking_out_who_is_out_already_is_no_decision() -> None:
    state = partition()
    assert gone(state, 3)
    before = facts(state)
    assert not state.remove(3)
    assert facts(state) == before


def test_the_last_of_the_isr_stays_in_it_and_goes_only_once() -> None:
    state = partition()
    assert all(gone(state, broker) for broker in (3, 2, 1))
    assert (state.leader, state.isr) == (None, {1})
    before = facts(state)
    assert not state.remove(1)
    assert facts(state) == before


# ------------------------------------------------------------------------------ KIP-966


def with_elr(**changed: Any) -> PartitionState:
    """A partition with an ELR of which each test says who is in sync, eligible and there."""
    state = partition(min_isr=2, elr_enabled=True, unclean_election=True)
    for name, value in changed.items():
        setattr(state, name, value)
    return state


def test_one_of_the_isr_is_elected_though_others_of_it_are_there() -> None:
    state = with_elr(leader=None, isr=frozenset({1, 2}))
    state.elect(2)
    assert facts(state)[1:4] == (2, {1, 2}, 2)


def test_one_of_the_elr_is_elected_where_the_isr_is_not_there() -> None:
    state = with_elr(leader=None, isr=frozenset({1}), elr=frozenset({2}))
    state.brokers.fence(1)
    state.elect(2)
    assert (state.leader, state.isr, state.elr) == (2, {1, 2}, set())


def test_no_unclean_election_while_one_of_the_elr_is_there() -> None:
    state = with_elr(leader=None, isr=frozenset(), elr=frozenset({2}))
    with pytest.raises(errors.CleanElectionPossible, match=r"\{2\}"):
        state.elect_unclean(3)
    state.brokers.fence(2)
    state.elect_unclean(3)
    assert (state.leader, state.isr, state.elr) == (3, {3}, set())


def test_who_leaves_the_isr_below_its_minimum_is_eligible_and_who_is_in_it_is_not() -> None:
    state = with_elr(min_isr=3)
    gone(state, 3)
    assert (state.isr, state.elr) == ({1, 2}, {3})
    without = partition(min_isr=3)
    gone(without, 3)
    assert without.elr == frozenset()


def test_a_crash_costs_eligibility_and_is_news_only_then() -> None:
    state = with_elr(isr=frozenset({1}), elr=frozenset({2}))
    before = facts(state)
    state.register(2, crashed=False)
    state.register(3, crashed=True)
    assert (facts(state), state.elr) == (before, {2})
    state.register(2, crashed=True)
    assert (state.partition_epoch, state.leader_epoch, state.elr) == (2, 1, set())


def test_the_last_leader_is_known_while_nobody_leads_and_where_the_topic_wants_it() -> None:
    state = with_elr(last_known_leader=True)
    for broker in (1, 2, 3):
        gone(state, broker)
    assert (state.leader, state.last_known) == (None, 1)
    state.brokers.unfence(2)
    state.elect(2)
    assert state.last_known is None
    without = with_elr()
    gone(without, 1)
    assert (without.leader, without.last_known) == (None, None)


# ------------------------------------------------------------------------------ who is gone


def test_who_is_not_in_the_isr_is_fenced_without_a_decision() -> None:
    state = partition()
    gone(state, 3)
    before = facts(state)
    assert state.fence(3, 1) is False
    assert facts(state) == before


def test_a_partition_goes_offline_with_members_of_the_isr_that_are_not_there() -> None:
    state = partition()
    for broker in (2, 3):
        state.brokers.fence(broker)
    state.go_offline(1)
    assert (state.leader, state.isr) == (None, {2, 3})


def test_a_leader_that_stays_need_not_be_there() -> None:
    state = partition()
    state.brokers.fence(1)
    state.reassign(frozenset({1, 2}), None)
    assert facts(state)[:3] == ({1, 2}, 1, {1, 2})


def test_who_was_never_heard_of_is_silent_from_the_beginning_of_time() -> None:
    brokers = BrokerRegistry({1: 0}, frozenset({1}))
    assert brokers.silent(5, 5) == ()
    assert brokers.silent(6, 5) == (1,)


def test_only_its_own_process_shuts_a_broker_down() -> None:
    brokers = BrokerRegistry({1: 2}, frozenset({1}))
    for incarnation in (1, 3):
        with pytest.raises(StaleBrokerEpoch):
            brokers.shut_down(1, incarnation)
    with pytest.raises(errors.BrokerNotRegistered):
        brokers.shut_down(2, 2)
    assert brokers.active == {1}


# ------------------------------------------------------------------------------ logs


def following() -> Replica:
    replica = Replica(2, log=Log([Record(1, "a"), Record(1, "b")]), high_watermark=1)
    replica.told(LeaderAndIsr(1, 1, frozenset({1, 2}), 1))
    return replica


def test_a_replica_whose_log_failed_plays_no_role() -> None:
    replica = following()
    replica.fetch_request()
    replica.fail()
    assert (replica.up, replica.leader, replica.awaited) == (False, None, 0)
    with pytest.raises(replica_errors.NotFollower):
        replica.fetch_request()


def test_a_log_starts_where_it_is_told_up_to_its_end_and_cuts_by_offset() -> None:
    log = Log([Record(1, value) for value in "abcd"])
    log.advance_start(1)
    log.advance_start(3)
    assert (log.start, log.end, [one.value for one in log.records]) == (3, 4, ["d"])
    log.advance_start(4)
    assert (log.start, log.end, log.records) == (4, 4, [])
    log = Log([Record(1, value) for value in "abcd"])
    log.advance_start(2)
    log.truncate_to(3)
    assert (log.start, [one.value for one in log.records]) == (2, ["c"])
    log.truncate_to(1)
    assert (log.start, log.end, log.records) == (1, 1, [])


def test_a_log_without_epochs_starts_where_it_is_told_and_one_that_is_told_its_start_stays() -> (
    None
):
    log = Log([Record(1, "a"), Record(2, "b")])
    log.advance_start(0)
    assert (log.end_of(1), log.start_of(2)) == ((1, 1), 1)
    log.restart_at(3)
    log.advance_start(3)
    assert (log.start, log.end, log.latest_epoch) == (3, 3, -1)
