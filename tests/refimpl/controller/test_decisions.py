"""Each decision of the controller about partitions, alone: what is in force by it, and what of it
is told."""

from collections.abc import Sequence

import pytest

from refimpl.controller.configs import MIN_ISR, UNCLEAN_ELECTION
from refimpl.controller.decisions import Decisions
from refimpl.controller.elections import Choice
from refimpl.controller.state import Controlled, ControllerConfig, ControllerState
from refimpl.errors import Refusal
from refimpl.machines.assignment import Assignment
from refimpl.machines.messages import AlterPartitionRequest, AlterPartitionResponse, LeaderAndIsr
from refimpl.messages.broker import TopicPartition
from refimpl.messages.cluster import (
    TOPIC,
    ConfigResource,
    ConfigsAltered,
    PartitionRegistration,
    TopicCreated,
)
from refimpl.messages.observations import Decided, IsrAnswered, Refused

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
IDS = {"t": b"t" * 16, "u": b"u" * 16}
PLAIN = ControllerConfig(eligible_leader_replicas=False)
ELR = ControllerConfig(min_insync_replicas=2)


def deciding(config: ControllerConfig = PLAIN, *alive: int) -> Decisions:
    """The topics t and u, and brokers 1 to 4 in the epochs 11 to 14: all alive, or these."""
    made = Decisions(ControllerState(config))
    for broker in (1, 2, 3, 4):
        made.state.registry.register(broker, 10 + broker)
        if broker in (alive or (1, 2, 3, 4)):
            made.state.registry.unfence(broker)
    for name, topic_id in IDS.items():
        made.create_topic(name, topic_id)
    assert changed(made) == [TopicCreated(*one) for one in IDS.items()]
    return made


def with_partition(
    *replicas: int, config: ControllerConfig = PLAIN
) -> tuple[Decisions, Controlled]:
    """And t-0, led by the first of these."""
    made = deciding(config)
    made.create_partition(T0, replicas)
    changed(made)
    return made, made.state.partitions[T0]


def changed(made: Decisions) -> list[object]:
    """The changes that took effect since the last call."""
    changes, made.state.changes = made.state.changes, []
    return list(changes)


def told(made: Decisions) -> list[tuple[str, int, int]]:
    """The decisions since this was asked: action, broker, successor."""
    outputs, made.state.outputs = made.state.outputs, []
    return [(one.action, one.broker, one.successor) for one in outputs if isinstance(one, Decided)]


def gone(made: Decisions, *brokers: int) -> None:
    """The sessions of these are over; each is decided about in turn."""
    for broker in brokers:
        made.state.registry.fence(broker)
    for broker in brokers:
        made.broker_fenced(broker)


def leads(one: Controlled) -> tuple[int | None, set[int]]:
    return one.state.leader, set(one.state.isr)


# New partitions


def test_of_a_new_partition_the_active_replicas_are_in_sync_and_the_first_of_them_leads() -> None:
    made = deciding(PLAIN, 2, 3, 4)
    made.state.registry.shut_down(4, 14)
    made.create_partition(T0, (1, 4, 3, 2))
    assert changed(made) == [
        PartitionRegistration(T0, IDS["t"], LeaderAndIsr(1, 3, frozenset((2, 3)), 1), (1, 4, 3, 2))
    ]
    assert made.state.metadata.partitions.keys() == {T0}
    assert made.state.outputs == []


def test_a_new_partition_is_configured_by_its_topic_and_else_by_the_controller() -> None:
    everything = ControllerConfig(
        min_insync_replicas=2, unclean_leader_election_enable=True, last_known_leader=True
    )
    state = with_partition(1, 2, 3, config=everything)[1].state
    assert (state.min_isr, state.elr_enabled) == (2, True)
    assert (state.unclean_election, state.last_known_leader) == (True, True)
    assert with_partition(1, config=everything)[1].state.min_isr == 1, "there are not so many"
    made = deciding(everything)
    own = {MIN_ISR: "3", UNCLEAN_ELECTION: "false"}
    made.state.metadata.apply(ConfigsAltered(ConfigResource(TOPIC, "t"), own))
    made.create_partition(T0, (1, 2, 3))
    state = made.state.partitions[T0].state
    assert (state.min_isr, state.unclean_election) == (3, False)


def test_creation_goes_on_where_somebody_is_there_and_waits_elsewhere() -> None:
    made = deciding(PLAIN, 1)
    assert made.create_missing([(T0, (2, 1)), (T1, (2, 3))]) == [(T1, (2, 3))]
    assert made.state.partitions.keys() == {T0}
    assert made.state.partitions[T0].state.leader == 1


# A controller goes on with what another one began


def test_a_reassignment_that_was_half_written_ends_and_what_does_not_move_stays() -> None:
    made = deciding()
    for name in (T0, T1, U0):
        made.create_partition(name, (1, 2, 3))
    here = made.state.partitions
    here[T0].assignment = Assignment((2, 3))
    here[T1].assignment = Assignment((3, 2, 1), (3,), (1,))
    told(made)
    made.resume()
    assert told(made) == [("Reassign", 1, 2), ("Reassign", 1, 3)]
    assert [leads(one) for one in here.values()] == [(2, {2, 3}), (3, {2, 3}), (1, {1, 2, 3})]
    assert [one.assignment for one in here.values()] == [
        *(Assignment((2, 3)), Assignment((3, 2)), Assignment((1, 2, 3)))
    ]
    here[U0].state.isr = frozenset((1, 2))
    here[U0].assignment = Assignment((1, 2, 4, 3), (4,), (3,))
    made.resume()
    assert told(made) == [], "nobody is in sync who is no replica, and 4 is not"


def test_who_is_removed_by_a_half_written_move_is_not_eligible_any_more() -> None:
    """Its log is deleted: once it is a replica again, it would lead with an empty one."""
    made, one = with_partition(1, 2, 3, config=ELR)
    one.state.isr, one.state.elr = frozenset({1}), frozenset({2, 3})
    one.assignment = Assignment((1,))
    told(made)
    made.resume()
    assert told(made) == [("Reassign", 0, 1)]
    assert (leads(one), one.state.elr, one.state.replicas) == ((1, {1}), set(), {1})


def test_whoever_is_in_sync_anywhere_is_a_member() -> None:
    made = deciding()
    made.create_partition(T0, (1, 2))
    made.create_partition(U0, (4,))
    assert made.members() == {1, 2, 4}
    assert [*made.hosts(1)] == [T0]
    assert [*made.hosts(4)] == [U0]
    assert [*made.hosts(3)] == []


# Configurations


def test_a_topics_configuration_is_its_own_and_that_of_all_is_everybodys() -> None:
    made = deciding()
    for name in (T0, U0):
        made.create_partition(name, (1, 2))
    for topic in IDS:
        made.state.metadata.apply(ConfigsAltered(ConfigResource(TOPIC, topic), {MIN_ISR: "2"}))

    def required() -> list[int]:
        return [made.state.partitions[name].state.min_isr for name in (T0, U0)]

    changed(made)
    made.configured("u")
    assert required() == [1, 2]
    made.configured()
    assert required() == [2, 2]
    assert changed(made) == []


def test_another_min_insync_replicas_ends_the_elr_and_nothing_else_does() -> None:
    """KIP-966."""
    made, one = with_partition(1, 2, 3, config=ELR)
    made.create_partition(T1, (1, 2))
    other = made.state.partitions[T1].state.decision
    one.state.isr, one.state.elr = frozenset({1}), frozenset({2})
    before = one.state.partition_epoch
    changed(made)
    made.configured("t")
    assert (one.state.elr, changed(made)) == ({2}, [])
    made.configured("t", clear_elr=True)
    assert (one.state.elr, one.state.partition_epoch) == (set(), before + 1)
    assert changed(made) == [one.registration(T0)]
    assert made.state.partitions[T1].state.decision == other


def test_where_a_loss_is_accepted_from_now_on_somebody_leads() -> None:
    made, one = with_partition(1, 2)
    one.state.isr = frozenset({1})
    gone(made, 1)
    assert one.state.leader is None
    told(made)
    own = {UNCLEAN_ELECTION: "true"}
    made.state.metadata.apply(ConfigsAltered(ConfigResource(TOPIC, "t"), own))
    made.configured("u")
    assert told(made) == []
    made.configured("t")
    assert (told(made), leads(one)) == ([("ElectUnclean", 2, 0)], (2, {2}))


# Brokers come and go


def test_the_first_of_the_assignment_that_is_in_sync_succeeds_a_leader_that_is_gone() -> None:
    made, one = with_partition(1, 3, 2)
    one.state.isr = frozenset((1, 2, 3))
    gone(made, 1)
    assert told(made) == [("Fence", 1, 3)]
    assert leads(one) == (3, {2, 3})
    assert changed(made) == [one.registration(T0)]


def test_a_leader_leads_on_when_a_follower_is_gone() -> None:
    made, one = with_partition(1, 2, 3)
    made.elect(T0, one, Choice(2))
    told(made)
    epoch = one.state.leader_epoch
    gone(made, 3)
    assert told(made) == [("Fence", 3, 2)]
    assert (leads(one), one.state.leader_epoch) == ((2, {1, 2}), epoch)


def test_who_was_not_in_sync_is_not_missed() -> None:
    made, one = with_partition(1, 2, 3)
    one.state.isr = frozenset((1, 2))
    changed(made)
    gone(made, 3)
    assert (told(made), changed(made)) == ([], [])


def test_where_a_broker_has_no_replica_its_end_is_no_matter() -> None:
    """The partition's leader is gone as well: of that it is its own turn."""
    made, one = with_partition(2, 3)
    gone(made, 1, 2)
    assert told(made) == [("Fence", 2, 3)]
    assert leads(one) == (3, {3})


def test_nobody_leads_where_nobody_else_is_in_sync_and_then_the_eligible_do() -> None:
    made, one = with_partition(1, 2)
    one.state.isr = frozenset({1})
    gone(made, 1)
    assert told(made) == [("GoOffline", 1, 0)]
    assert leads(one) == (None, {1})
    made, one = with_partition(1, 2, config=ELR)
    one.state.isr, one.state.elr = frozenset({1}), frozenset({2})
    gone(made, 1)
    assert told(made) == [("GoOffline", 1, 0), ("ElectEligible", 2, 0)]
    assert (leads(one), one.state.elr) == ((2, {2}), {1})


def test_who_is_gone_where_nobody_leads_is_in_sync_no_more() -> None:
    made, one = with_partition(1, 2, config=ELR)
    one.state.leader = None
    gone(made, 1)
    assert told(made) == [("Remove", 1, 0), ("Elect", 2, 0)]
    assert (leads(one), one.state.elr) == ((2, {2}), {1})
    one.state.leader, one.state.isr = None, frozenset()
    made.broker_fenced(1)
    assert told(made) == [], "once"


def test_a_process_that_crashed_is_not_eligible_and_may_still_lead_what_it_led() -> None:
    made, one = with_partition(1, 2, config=ELR)
    one.state.isr, one.state.elr = frozenset({1}), frozenset({2})
    changed(made)
    made.broker_registered(2, crashed=False)
    assert (told(made), changed(made)) == ([], [])
    made.broker_registered(2, crashed=True)
    assert told(made) == [("Register", 2, 0)]
    assert changed(made) == [one.registration(T0)]
    one.state.leader = None
    made.broker_registered(1, crashed=True)
    assert (told(made), leads(one)) == ([("Elect", 1, 0)], (1, {1}))


def test_a_log_that_failed_is_decided_about_once_and_elsewhere_nothing_is() -> None:
    made, one = with_partition(1, 2)
    made.create_partition(T1, (1, 2))
    made.replicas_failed(1, (U0, T0))
    (decided,) = made.state.outputs
    assert decided == Decided(
        *(T0, "Fence", 1, 2, one.state.decision),
        *(frozenset(), frozenset((2, 3, 4))),
    ), "for this partition broker 1 is not alive"
    made.state.outputs.clear()
    made.replicas_failed(1, (T0,))
    made.replicas_failed(2, (T0,))
    assert told(made) == [("GoOffline", 2, 0)]


def test_with_the_last_log_the_partition_fails_and_an_eligible_one_leads() -> None:
    made, one = with_partition(1, 2, config=ELR)
    one.state.isr, one.state.elr = frozenset({1}), frozenset({2})
    made.replicas_failed(1, (T0,))
    assert told(made) == [("GoOffline", 1, 0), ("ElectEligible", 2, 0)]


# Elections


def test_leaders_are_found_where_nobody_leads_and_nowhere_else() -> None:
    made = deciding()
    for name in (T0, T1, U0):
        made.create_partition(name, (1, 2))
    for name in (T0, U0):
        made.state.partitions[name].state.leader = None
    changed(made)
    made.find_leaders()
    assert told(made) == [("Elect", 1, 0)] * 2
    assert changed(made) == [made.state.partitions[one].registration(one) for one in (T0, U0)]


def test_an_election_that_is_refused_changes_nothing_and_is_told() -> None:
    """Somebody is in sync who is no replica by the assignment: a move that was half written."""
    made, one = with_partition(1, 2, 3, config=ELR)
    one.assignment = Assignment((2, 3))
    one.state.leader, one.state.isr, one.state.elr = None, frozenset({1}), frozenset({2})
    changed(made)
    made.find_leaders()
    assert made.state.outputs == [Refused("election", "ELIGIBLE_LEADERS_NOT_AVAILABLE")]
    assert (one.state.leader, changed(made)) == (None, [])


def test_the_last_leader_leads_again_where_that_is_allowed_and_nobody_else_may() -> None:
    made, one = with_partition(1, 2)
    one.state.last_known_leader = True
    one.state.leader, one.state.isr, one.state.last_known = None, frozenset(), 2
    made.find_leaders()
    assert (told(made), leads(one)) == ([("ElectLastKnown", 2, 0)], (2, {2}))


def test_leadership_moves_to_who_is_preferred_and_in_sync() -> None:
    made, one = with_partition(1, 2)
    made.balance()
    assert told(made) == [], "it leads"
    made.elect(T0, one, Choice(2))
    assert told(made) == [("Elect", 2, 0)]
    made.balance()
    assert (told(made), one.state.leader) == ([("Elect", 1, 0)], 1)


def test_a_loss_is_accepted_once_whatever_comes_of_it() -> None:
    """KIP-460."""
    made, one = with_partition(1, 2)
    one.state.leader, one.state.isr = None, frozenset({1})
    with pytest.raises(Refusal):
        made.elect_unclean_once(T0, one, 2)
    assert (told(made), one.state.unclean_election) == ([], False)
    made.state.registry.fence(1)
    made.elect_unclean_once(T0, one, 2)
    assert told(made) == [("ElectUnclean", 2, 0)]
    assert (leads(one), one.state.unclean_election) == ((2, {2}), False)
    one.state.leader, one.state.unclean_election = None, True
    made.state.registry.fence(2)
    with pytest.raises(Refusal):
        made.elect_unclean_once(T0, one, 2)
    assert one.state.unclean_election, "it is allowed always"


# The ISR


def alter(
    made: Decisions, one: Controlled, isr: Sequence[int], *, behind: int = 0
) -> tuple[AlterPartitionRequest, AlterPartitionResponse]:
    """A leader's request for this ISR, so many partition epochs old, and the answer to it."""
    state, epochs = one.state, made.state.registry.epochs
    leader = state.leader or 0
    asked = AlterPartitionRequest(
        *(leader, epochs[leader], state.leader_epoch, state.partition_epoch - behind),
        tuple((member, epochs[member]) for member in isr),
    )
    return asked, made.alter_partition(T0, asked)


def test_an_isr_that_is_accepted_is_told_member_by_member() -> None:
    made, one = with_partition(1, 2, 3, 4)
    one.state.isr = frozenset((1, 2))
    before, epoch = one.state.partition_epoch, one.state.leader_epoch
    changed(made)
    asked, outcome = alter(made, one, (1, 4, 3))
    isr = frozenset((1, 3, 4))
    assert outcome == AlterPartitionResponse(None, 1, epoch, isr, before + 1)
    answered, *decided = made.state.outputs
    everybody = frozenset((1, 2, 3, 4))
    assert answered == IsrAnswered(T0, asked, outcome, everybody)
    decision = LeaderAndIsr(epoch, 1, isr, before + 1)
    assert decided == [
        Decided(T0, action, 1, follower, decision, frozenset(), everybody)
        for action, follower in (("ShrinkIsr", 2), ("ExpandIsr", 3), ("ExpandIsr", 4))
    ]
    assert changed(made) == [one.registration(T0)]


def test_what_is_in_force_is_confirmed_and_told_to_nobody() -> None:
    made, one = with_partition(1, 2)
    changed(made)
    asked, outcome = alter(made, one, (1, 2))
    assert outcome.error is None
    assert made.state.outputs == [IsrAnswered(T0, asked, outcome, frozenset((1, 2, 3, 4)))]
    assert changed(made) == []


def test_a_refusal_for_a_replicas_sake_is_told_and_another_one_is_not() -> None:
    made, one = with_partition(1, 2)
    one.state.isr = frozenset({1})
    made.state.registry.fence(2)
    changed(made)
    _, outcome = alter(made, one, (1, 2))
    assert outcome.error == "INELIGIBLE_REPLICA"
    assert (told(made), changed(made)) == ([], [one.registration(T0)])
    _, outcome = alter(made, one, (1, 2), behind=1)
    assert outcome.error == "INVALID_UPDATE_VERSION"
    assert (told(made), changed(made)) == ([], [])


# Reassignment


def test_a_move_begins_with_all_replicas_and_ends_when_those_added_are_in_sync() -> None:
    made, one = with_partition(1, 2)
    changed(made)
    moving = one.assignment.moved_to((3, 2))
    made.move(T0, moving)
    assert (one.assignment, one.state.replicas) == (moving, {1, 2, 3})
    assert (told(made), leads(one)) == ([("Reassign", 0, 1)], (1, {1, 2}))
    assert changed(made) == [one.registration(T0)]
    _, outcome = alter(made, one, (1, 2, 3))
    state = one.state
    assert outcome == AlterPartitionResponse(
        *("NEW_LEADER_ELECTED", 3, state.leader_epoch, frozenset((2, 3)), state.partition_epoch)
    )
    assert told(made) == [("ExpandIsr", 1, 3), ("Reassign", 1, 3)]
    assert one.assignment == Assignment((3, 2))
    assert changed(made)[-1] == one.registration(T0)


def test_a_leader_that_stays_is_told_the_isr_after_the_move() -> None:
    made, one = with_partition(1, 2)
    made.move(T0, one.assignment.moved_to((1, 3)))
    told(made)
    _, outcome = alter(made, one, (1, 2, 3))
    state = one.state
    assert outcome == AlterPartitionResponse(
        *(None, 1, state.leader_epoch, frozenset((1, 3)), state.partition_epoch)
    )
    assert told(made) == [("ExpandIsr", 1, 3), ("Reassign", 2, 1)]


def test_a_move_does_not_end_by_a_request_that_is_refused() -> None:
    made, one = with_partition(1, 2, 3)
    one.assignment = Assignment((3, 2, 1), (3,), (1,))
    one.state.isr = frozenset((1, 2))
    one.state.partition_epoch += 1
    _, outcome = alter(made, one, (1, 2, 3), behind=1)
    assert outcome.error == "INVALID_UPDATE_VERSION"
    one.state.isr = frozenset((1, 2, 3))
    _, outcome = alter(made, one, (1, 2), behind=1)
    assert outcome.error == "INVALID_UPDATE_VERSION"
    assert (told(made), one.assignment.in_progress) == ([], True)


def test_a_move_that_nothing_is_added_for_ends_at_once() -> None:
    made, one = with_partition(1, 2, 3)
    made.move(T0, one.assignment.moved_to((3, 1)))
    assert (told(made), leads(one)) == ([("Reassign", 2, 1)], (1, {1, 3}))
    assert one.assignment == Assignment((3, 1))


def test_the_first_of_the_new_assignment_that_is_in_sync_and_active_leads_after_a_move() -> None:
    made, one = with_partition(1, 2, 3)
    one.state.isr = frozenset((1, 2, 3))
    made.state.registry.shut_down(3, 13)
    made.move(T0, Assignment((4, 3, 2)))
    assert (told(made), leads(one)) == ([("Reassign", 1, 2)], (2, {2, 3}))


def test_where_nobody_leads_a_move_names_nobody() -> None:
    made, one = with_partition(1, 2)
    made.state.registry.fence(1)
    made.state.registry.fence(2)
    one.state.leader = None
    made.move(T0, Assignment((2,)))
    assert (told(made), leads(one)) == ([("Reassign", 1, 0)], (None, {2}))


def test_more_replicas_may_be_required_to_be_in_sync_after_a_move() -> None:
    made, one = with_partition(1, config=ELR)
    assert one.state.min_isr == 1
    made.move(T0, one.assignment.moved_to((1, 2)))
    assert one.state.min_isr == 2
