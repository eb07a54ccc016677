"""A client of a consumer group alone (KIP-848): what it gives up, takes, and says that it owns."""

from typing import Any

import pytest

from refimpl.machines.consumer_group import Partition
from refimpl.machines.consumer_membership import ConsumerMembership, NothingToDo
from refimpl.records.schema import Uuid

T = Uuid(b"t" * 16)
P, Q, R = (T, 0), (T, 1), (T, 2)


def owning(*owned: Partition, told: tuple[Partition, ...]) -> ConsumerMembership:
    return ConsumerMembership(3, frozenset(told), frozenset(owned))


def state(member: ConsumerMembership) -> tuple[Any, ...]:
    return member.epoch, set(member.told), set(member.owned)


def test_it_says_what_it_owns_when_all_is_done_that_it_was_told() -> None:
    assert owning(P, Q, told=(P, Q)).reported == {P, Q}
    assert owning(told=()).reported == frozenset()
    for unfinished in (owning(P, told=(P, Q)), owning(P, Q, told=(P,)), owning(P, told=(Q,))):
        assert unfinished.reported is None


def test_an_answer_brings_an_epoch_and_what_it_shall_own_if_that_has_changed() -> None:
    member = owning(P, told=(P,))
    member.answered(5, None)
    assert state(member) == (5, {P}, {P})
    member.answered(6, {Q: 6})
    assert state(member) == (6, {Q}, {P}), "what it owns changes when it gives up and takes"
    member.answered(7, {})
    assert state(member) == (7, set(), {P})


def test_who_is_fenced_owns_nothing_and_has_to_join() -> None:
    member = owning(P, Q, told=(P, R))
    member.fenced()
    assert state(member) == (0, set(), set())


def test_it_gives_up_what_is_not_its_any_more_and_takes_nothing_yet() -> None:
    member = owning(P, Q, told=(P, R))
    member.revoke()
    assert state(member) == (3, {P, R}, {P})


@pytest.mark.parametrize("member", [owning(P, told=(P, Q)), owning(P, told=(P,)), owning(told=())])
def test_there_may_be_nothing_to_give_up(member: ConsumerMembership) -> None:
    before = state(member)
    with pytest.raises(NothingToDo):
        member.revoke()
    assert state(member) == before


def test_it_takes_what_is_new() -> None:
    member = owning(P, told=(P, R))
    member.take()
    assert state(member) == (3, {P, R}, {P, R})
    with pytest.raises(NothingToDo):
        member.take()


@pytest.mark.parametrize("member", [owning(P, Q, told=(P, R)), owning(P, told=())])
def test_it_takes_nothing_before_it_has_given_up(member: ConsumerMembership) -> None:
    before = state(member)
    with pytest.raises(NothingToDo):
        member.take()
    assert state(member) == before
