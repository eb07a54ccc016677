"""Placement of replicas, partition by partition, with known random numbers."""

from collections.abc import MutableSequence, Sequence
from random import Random
from typing import Any

import pytest
from attrs import define, field

from refimpl.controller.errors import ApiError
from refimpl.controller.placement import PLACEMENTS, UsableBroker, Wanted, assign, plain, shifted


@define
class Dice(Random):
    """Says these numbers, then zeros, and shuffles by turning round."""

    numbers: list[int] = field(factory=list[int])

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        return self.numbers.pop(0) if self.numbers else 0

    def shuffle(self, x: MutableSequence[Any]) -> None:
        x.reverse()


def brokers(*ids: int, fenced: Sequence[int] = (), **racks: Sequence[int]) -> list[UsableBroker]:
    of = {one: rack for rack, members in racks.items() for one in members}
    return [UsableBroker(one, of.get(one), one in fenced) for one in ids]


def striped(of: list[UsableBroker], count: int, factor: int, *dice: int) -> list[tuple[int, ...]]:
    return PLACEMENTS["striped"](of, Wanted(count, factor), Dice([*dice]))


# Kafka 4.x


def test_without_racks_brokers_lead_in_turn_and_in_another_order_once_all_have_led() -> None:
    assert striped(brokers(0, 1, 2), 7, 2) == [
        *((0, 1), (1, 2), (2, 0)),
        *((2, 1), (1, 0), (0, 2)),
        (0, 1),
    ]


def test_the_first_broker_is_drawn() -> None:
    assert striped(brokers(0, 1, 2), 3, 3, 2) == [(2, 0, 1), (0, 1, 2), (1, 2, 0)]


def test_fenced_brokers_come_last_and_never_first() -> None:
    assert striped(brokers(0, 1, 2, fenced=(1,)), 3, 3) == [(0, 2, 1), (2, 0, 1), (2, 0, 1)]
    assert striped(brokers(0, 1, 2, 3, fenced=(1, 2)), 2, 4) == [(0, 3, 1, 2), (3, 0, 2, 1)]
    assert striped(brokers(0, 1, fenced=(1,)), 2, 1) == [(0,), (0,)]


def test_racks_take_turns() -> None:
    of = brokers(0, 1, 2, 3, a=(0, 1), b=(2, 3))
    assert striped(of, 4, 2) == [(0, 2), (3, 1), (0, 2), (3, 1)]
    assert striped(of, 2, 3) == [(0, 2, 1), (3, 1, 2)]
    assert striped(of, 2, 2, 0, 0, 1) == [(2, 0), (1, 3)], "the first rack is drawn last"
    assert striped(of, 5, 2)[4:] == [(3, 1)], "all have led: the racks are in another order"


def test_a_rack_of_which_all_are_fenced_leads_nothing() -> None:
    assert striped(brokers(0, 1, a=(0,), b=(1,), fenced=(1,)), 2, 2) == [(0, 1), (0, 1)]


def test_who_is_in_no_rack_is_in_one_of_its_own_which_comes_first() -> None:
    assert striped(brokers(0, 1, 2, a=(0,)), 2, 2) == [(1, 0), (0, 2)]


# Kafka up to 3.9


def test_start_and_shift_are_drawn_in_this_order() -> None:
    placed = shifted(brokers(3, 1, 2), Wanted(2, 2), Dice([2, 1]))
    assert placed == assign([1, 2, 3], Wanted(2, 2), 2, 1, {}) == [(3, 2), (1, 3)]


def test_further_partitions_go_on_where_the_first_is_led() -> None:
    of = brokers(1, 2, 3)
    assert shifted(of, Wanted(1, 2, first=1, first_leader=2), Dice()) == [(3, 2)]
    assert shifted(of, Wanted(1, 2, first=1, first_leader=0), Dice()) == [(2, 3)]
    assert shifted(of, Wanted(1, 2, first=1, first_leader=9), Dice()) == [(2, 3)], "it is gone"
    assert shifted(of, Wanted(2, 2, first=2, first_leader=1), Dice()) == [(3, 1), (1, 3)]


def test_all_or_none_have_a_rack() -> None:
    with pytest.raises(ApiError, match="Not all brokers have rack information"):
        shifted(brokers(1, 2, a=(1,)), Wanted(1, 1), Dice())
    of = brokers(0, 1, 2, 3, a=(0, 1), b=(2, 3))
    assert shifted(of, Wanted(4, 2), Dice()) == [(0, 2), (2, 1), (1, 3), (3, 0)]
    assert shifted(of, Wanted(1, 4), Dice()) == [(0, 2, 1, 3)]
    assert shifted(of, Wanted(1, 2), Dice([0, 2])) == [(0, 3)], "1 is next, and in the same rack"


# Without dice, and what cannot be


def test_plainly_replicas_follow_each_other() -> None:
    assert plain(brokers(3, 1, 2), Wanted(3, 2, first=1), Dice()) == [(2, 3), (3, 1), (1, 2)]


@pytest.mark.parametrize("name", sorted(PLACEMENTS))
def test_too_many_or_no_replicas_and_nobody_to_lead_are_refused(name: str) -> None:
    place = PLACEMENTS[name]
    for factor, of, says in (
        (0, brokers(1), "must be positive"),
        (-1, brokers(1), "must be positive"),
        (1, brokers(1, 2, fenced=(1, 2)), "All brokers are currently fenced"),
        (3, brokers(1, 2), r"target replication factor of 3 .* only 2 broker"),
    ):
        with pytest.raises(ApiError, match=says):
            place(of, Wanted(1, factor), Dice())
    assert place(brokers(1, 2, fenced=(2,)), Wanted(1, 2), Dice()) == [(1, 2)]
    assert place(brokers(1), Wanted(1, 1), Dice()) == [(1,)]
