"""Leaders and replicas: elections that are asked for, and reassignments until their end."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.controller.errors import ApiError
from refimpl.controller.placement import (
    PLACEMENTS,
    UsableBroker,
    Wanted,
    alternate,
    assign,
)
from refimpl.machines.assignment import Assignment
from refimpl.messages import controller as c
from refimpl.messages.broker import TopicPartition
from tests.refimpl.controller.asking import Asking

T0 = TopicPartition("t", 0)


def elect(asking: Asking, kind: int, *partitions: TopicPartition) -> dict[object, str | None]:
    answer = asking.ask(c.ElectLeadersRequest(kind, partitions or None))
    return {one.partition: one.error for one in answer.partitions}


def test_the_preferred_leader_leads_when_it_is_asked_for_and_in_sync() -> None:
    asking = Asking()
    asking.create("t", (1, 2))
    assert elect(asking, c.PREFERRED, T0) == {T0: "ELECTION_NOT_NEEDED"}
    asking.controller.move_leader(0, T0, 2)
    assert elect(asking, c.PREFERRED) == {T0: None}
    assert asking.partition("t").decision.leader == 1
    asking.controller.move_leader(0, T0, 2)
    asking.alter_isr("t", 2)
    assert elect(asking, c.PREFERRED) == {T0: "PREFERRED_LEADER_NOT_AVAILABLE"}
    assert elect(asking, c.UNCLEAN) == {}
    assert elect(asking, c.UNCLEAN, T0) == {T0: "ELECTION_NOT_NEEDED"}
    assert elect(asking, 7, T0) == {T0: "INVALID_REQUEST"}
    missing = TopicPartition("t", 1)
    assert elect(asking, c.PREFERRED, missing) == {missing: "UNKNOWN_TOPIC_OR_PARTITION"}


def test_an_operator_may_accept_a_loss_once() -> None:
    asking = Asking()
    asking.create("t", (1, 2))
    asking.alter_isr("t", 1)
    asking.controller.registry.fence(1)
    asking.controller.decisions.broker_fenced(1)
    assert asking.partition("t").decision.leader is None
    assert elect(asking, c.PREFERRED, T0) == {T0: "PREFERRED_LEADER_NOT_AVAILABLE"}
    assert elect(asking, c.UNCLEAN, T0) == {T0: None}
    assert asking.partition("t").decision.leader == 2
    assert not asking.controller.partitions[T0].state.unclean_election


def test_a_reassignment_ends_when_all_that_it_adds_are_in_sync() -> None:
    asking = Asking()
    asking.create("t", (1, 2))
    assert asking.move("t", 3, 2) is None
    here = asking.partition("t")
    assert (here.replicas, here.adding, here.removing) == ((3, 2, 1), (3,), (1,))
    (one,) = asking.ask(c.ListPartitionReassignmentsRequest()).partitions
    assert one.partition == T0
    epoch = here.decision.leader_epoch
    answer = asking.alter_isr("t", 1, 2, 3)
    assert answer.error == "NEW_LEADER_ELECTED"
    here = asking.partition("t")
    assert (here.replicas, here.adding, here.removing) == ((3, 2), (), ())
    assert here.decision.isr == {2, 3}
    assert here.decision.leader == 3
    assert here.decision.leader_epoch > epoch
    assert asking.ask(c.ListPartitionReassignmentsRequest()).partitions == []


def test_a_reassignment_can_be_taken_back_and_replaced() -> None:
    asking = Asking(brokers=4)
    asking.create("t", (1, 2))
    assert asking.move("t") == "NO_REASSIGNMENT_IN_PROGRESS"
    asking.move("t", 3, 2)
    assert asking.move("t") is None
    assert set(asking.partition("t").replicas) == {1, 2}
    asking.move("t", 3, 2)
    assert asking.move("t", 4, 2) is None
    here = asking.partition("t")
    assert (here.replicas, here.adding, here.removing) == ((4, 2, 1, 3), (4,), (1, 3))
    asking.alter_isr("t", 1, 2, 4)
    assert asking.partition("t").replicas == (4, 2)


def test_a_reassignment_back_to_what_was_ends_at_once() -> None:
    """Kafka 4.3 keeps what an earlier reassignment added in its list, and waits for it."""
    asking = Asking()
    asking.create("t", (1, 2))
    asking.move("t", 3, 2)
    assert asking.move("t", 1, 2) is None
    here = asking.partition("t")
    assert (here.replicas, here.adding, here.removing) == ((1, 2), (), ())


@pytest.mark.parametrize(
    ("replicas", "error"),
    [((1, 9), "INVALID_REPLICA_ASSIGNMENT"), ((1, 1), "INVALID_REPLICA_ASSIGNMENT")],
)
def test_a_reassignment_is_refused(replicas: tuple[int, ...], error: str) -> None:
    asking = Asking()
    asking.create("t", (1, 2))
    assert asking.move("t", *replicas) == error
    only = {"allow_replication_factor_change": False}
    assert asking.move("t", 1, 2, 3, **only) == "INVALID_REPLICATION_FACTOR"


def test_taking_back_needs_somebody_in_sync_who_was_there_before() -> None:
    asking = Asking()
    asking.create("t", (1,))
    asking.create("u", (1,))
    one = asking.controller.partitions[TopicPartition("u", 0)]
    one.assignment = Assignment((2, 1), (2,), (1,))
    one.state.replicas, one.state.isr, one.state.leader = frozenset((1, 2)), frozenset((2,)), 2
    asking.controller.state.change(one.registration(TopicPartition("u", 0)))
    assert asking.move("u") == "INVALID_REPLICA_ASSIGNMENT"


ids = st.lists(st.integers(1, 6), min_size=1, max_size=5, unique=True).map(tuple)


@given(ids, ids, st.sets(st.integers(1, 6)))
def test_a_finished_reassignment_keeps_somebody_who_was_in_sync(
    before: tuple[int, ...], target: tuple[int, ...], isr: set[int]
) -> None:
    moving = Assignment(before).moved_to(target)
    assert set(moving.replicas) == set(before) | set(target)
    assert moving.target == target
    assert set(moving.original) == set(before)
    assert set(moving.cancelled().replicas) == set(before)
    in_sync = isr & set(moving.replicas)
    done = moving.completed(in_sync)
    if done is not None:
        assert done.replicas == target
        assert not done.in_progress
        assert in_sync & set(target)
        assert in_sync >= set(moving.adding)
    if in_sync >= set(moving.replicas) and moving.in_progress:
        assert done is not None


# Placement


def test_alternate_racks_and_the_shift_are_kafkas() -> None:
    """The examples of AdminUtils' documentation."""
    racks = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
    assert alternate(racks) == [0, 3, 1, 5, 4, 2]
    placed = assign([0, 1, 2, 3, 4], Wanted(10, 3), 0, 0, {})
    assert placed[:5] == [(0, 1, 2), (1, 2, 3), (2, 3, 4), (3, 4, 0), (4, 0, 1)]
    assert placed[5:] == [(0, 2, 3), (1, 3, 4), (2, 4, 0), (3, 0, 1), (4, 1, 2)]
    with_racks = assign(alternate(racks), Wanted(6, 3), 0, 0, racks)
    assert with_racks == [(0, 3, 1), (3, 1, 5), (1, 5, 4), (5, 4, 2), (4, 2, 0), (2, 0, 3)]


@st.composite
def clusters(draw: st.DrawFn) -> list[UsableBroker]:
    count = draw(st.integers(1, 7))
    racks = draw(st.sampled_from([(None,), ("a",), ("a", "b"), ("a", "b", "c")]))
    brokers = [UsableBroker(n, racks[n % len(racks)], draw(st.booleans())) for n in range(count)]
    leader = brokers[0]._replace(fenced=False)
    return [leader, *brokers[1:]]


@given(
    st.sampled_from(sorted(PLACEMENTS)),
    clusters(),
    st.integers(1, 12),
    st.integers(1, 7),
    st.integers(0, 1000),
)
def test_replicas_of_a_partition_are_on_different_brokers(
    name: str, brokers: list[UsableBroker], partitions: int, factor: int, seed: int
) -> None:
    wanted = Wanted(partitions, factor)
    if factor > len(brokers):
        with pytest.raises(ApiError, match="INVALID_REPLICATION_FACTOR"):
            PLACEMENTS[name](brokers, wanted, Random(seed))
        return
    placed = PLACEMENTS[name](brokers, wanted, Random(seed))
    assert len(placed) == partitions
    assert all(len(set(replicas)) == len(replicas) == factor for replicas in placed)
    if name == "striped":
        unfenced = {one.broker_id for one in brokers if not one.fenced}
        assert all(replicas[0] in unfenced for replicas in placed)


def test_racks_are_placed_by_their_names_and_brokers_without_one_first() -> None:
    brokers = [
        UsableBroker(1, "b"),
        UsableBroker(2, None),
        UsableBroker(3, "c"),
        UsableBroker(4, "a"),
    ]
    ordered = [brokers[1], brokers[3], brokers[0], brokers[2]]
    for seed in range(5):
        placed = PLACEMENTS["striped"](brokers, Wanted(8, 2), Random(seed))
        assert placed == PLACEMENTS["striped"](ordered, Wanted(8, 2), Random(seed))


@given(st.integers(2, 6), st.integers(1, 3), st.integers(0, 1000))
def test_striped_placement_spreads_over_racks_and_leads_in_turn(
    brokers: int, rounds: int, seed: int
) -> None:
    racks = [UsableBroker(n, "ab"[n % 2]) for n in range(2 * brokers)]
    for replicas in PLACEMENTS["striped"](racks, Wanted(len(racks) * rounds, 2), Random(seed)):
        assert {one % 2 for one in replicas} == {0, 1}
    alike = [UsableBroker(n) for n in range(brokers)]
    placed = PLACEMENTS["striped"](alike, Wanted(brokers * rounds, 2), Random(seed))
    led = Counter(replicas[0] for replicas in placed[:brokers])
    assert set(led.values()) == {1}


def test_a_move_is_not_taken_back_where_only_who_was_added_may_lead() -> None:
    """All of the old replicas lack what was acknowledged since, and the new one would delete it."""
    asking = Asking(brokers=4)
    asking.create("t", (1, 2))
    assert asking.move("t", 3, 4) is None
    assert asking.alter_isr("t", 1, 2, 3).error is None
    assert asking.alter_isr("t", 1, 3).error is None
    asking.controller.vanish(1)
    asking.controller.vanish(3)
    here = asking.partition("t")
    assert (here.decision.leader, here.decision.isr, here.elr) == (None, frozenset(), {3})
    assert asking.move("t") == "INVALID_REPLICA_ASSIGNMENT"
    assert asking.partition("t") == here
