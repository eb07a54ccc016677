"""A partition's assignment alone: what KIP-455 says of a move, read from its definition."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from refimpl.machines.assignment import Assignment

BROKERS = range(1, 7)
LISTS = st.lists(st.sampled_from(BROKERS), min_size=1, max_size=4, unique=True).map(tuple)
ISRS = st.sets(st.sampled_from(BROKERS))


@given(LISTS, LISTS)
def test_a_move_holds_both_the_new_replicas_first(
    old: tuple[int, ...], new: tuple[int, ...]
) -> None:
    moved = Assignment(old).moved_to(new)
    assert moved.replicas[: len(new)] == new
    assert set(moved.replicas) == {*old, *new}
    assert len(moved.replicas) == len(set(moved.replicas))
    assert moved.adding == tuple(sorted({*new} - {*old}))
    assert moved.removing == tuple(sorted({*old} - {*new}))
    assert moved.replicas[len(new) :] == moved.removing
    assert moved.target == new
    assert {*moved.original} == {*old}
    assert moved.in_progress == ({*old} != {*new})


@given(LISTS, LISTS, LISTS)
def test_another_move_takes_away_who_was_being_added_and_goes_on_adding_whom_it_wants_too(
    old: tuple[int, ...], first: tuple[int, ...], second: tuple[int, ...]
) -> None:
    moved = Assignment(old).moved_to(first).moved_to(second)
    assert moved.target == second
    assert {*moved.replicas} == {*old, *first, *second}
    assert {*moved.adding} == {*second} - {*old}
    assert {*moved.removing} == {*old, *first} - {*second}


@given(LISTS, LISTS)
def test_a_cancelled_move_leaves_who_was_there_before(
    old: tuple[int, ...], new: tuple[int, ...]
) -> None:
    cancelled = Assignment(old).moved_to(new).cancelled()
    assert {*cancelled.replicas} == {*old}
    assert not cancelled.in_progress


@given(LISTS, LISTS, ISRS)
def test_a_move_is_over_when_all_who_come_are_in_sync_and_enough_of_who_stay(
    old: tuple[int, ...], new: tuple[int, ...], isr: set[int]
) -> None:
    assume({*old} != {*new})
    moved = Assignment(old).moved_to(new)
    staying = isr & {*new}
    all_of_them = len(new) < len(old)
    over = {*new} - {*old} <= isr and bool(staying) and (not all_of_them or {*new} <= isr)
    isr &= {*old, *new}
    assert moved.completed(isr) == (Assignment(new) if over else None)


@pytest.mark.parametrize(
    ("replicas", "adding", "removing", "isr", "over"),
    [
        ((1, 2, 3), (), (), {1, 2, 3}, False),
        ((1, 2, 3), (3,), (), {1, 2}, False),
        ((1, 2, 3), (3,), (), {3}, True),
        ((1, 2, 3), (), (3,), {3}, False),
        ((1, 2, 3), (), (3,), {1, 3}, False),
        ((1, 2, 3), (), (3,), {1, 2}, True),
        ((4, 2, 1), (4,), (1,), {1, 2}, False),
        ((4, 2, 1), (4,), (1,), {4}, True),
        ((4, 2, 1, 3), (4,), (1, 3), {4}, False),
        ((4, 2, 1, 3), (4,), (1, 3), {2, 4}, True),
    ],
)
def test_when_a_move_is_over_row_by_row(
    replicas: tuple[int, ...],
    adding: tuple[int, ...],
    removing: tuple[int, ...],
    isr: set[int],
    over: bool,
) -> None:
    done = Assignment(replicas, adding, removing).completed(isr)
    assert (done is not None) == over
    if done is not None:
        assert done == Assignment(tuple(one for one in replicas if one not in removing))


def test_either_half_of_a_move_is_a_move() -> None:
    assert Assignment((1, 2), adding=(2,)).in_progress
    assert Assignment((1, 2), removing=(2,)).in_progress
    assert not Assignment((1, 2)).in_progress
