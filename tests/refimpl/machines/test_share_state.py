"""The stored state of a share partition: merges of batches, and each fence."""

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.errors import Refusal
from refimpl.machines.share_partition import (
    ACKNOWLEDGED,
    AVAILABLE,
    PersisterStateBatch,
    ShareWrite,
)
from refimpl.machines.share_state import ShareState, initialised, merged, read, written

STATES = (AVAILABLE, ACKNOWLEDGED)


@st.composite
def batches(draw: st.DrawFn) -> PersisterStateBatch:
    first = draw(st.integers(0, 12))
    last = draw(st.integers(first, 12))
    return PersisterStateBatch(first, last, draw(st.sampled_from(STATES)), draw(st.integers(1, 3)))


def by_offset(found: tuple[PersisterStateBatch, ...]) -> dict[int, tuple[int, int]]:
    return {
        offset: (one.delivery_count, one.state)
        for one in found
        for offset in range(one.first_offset, one.last_offset + 1)
    }


@given(st.lists(batches(), max_size=6), st.integers(0, 13))
def test_of_all_batches_that_cover_an_offset_the_highest_stays(
    new: list[PersisterStateBatch], start: int
) -> None:
    found = merged((), new, start)
    expected = {
        offset: max((one.delivery_count, one.state) for one in covering)
        for offset in range(start, 13)
        if (covering := [one for one in new if one.first_offset <= offset <= one.last_offset])
    }
    assert by_offset(found) == expected
    assert all(a.last_offset < b.first_offset for a, b in pairwise(found))


@given(st.lists(batches(), max_size=5), st.randoms())
def test_writes_come_to_the_same_in_any_order(
    new: list[PersisterStateBatch], random: Random
) -> None:
    other = list(new)
    random.shuffle(other)
    assert merged((), new, 3) == merged((), other, 3)


def test_a_write_that_is_late_takes_nothing_back() -> None:
    first = written(
        ShareState(1, 0, 0), 1, 0, ShareWrite(40, (PersisterStateBatch(95, 99, AVAILABLE, 1),), 7)
    )
    late = written(first, 1, 0, ShareWrite(35, (PersisterStateBatch(70, 74, ACKNOWLEDGED, 1),), 30))
    assert (late.start, late.complete) == (40, 7)
    assert late.batches == ((70, 74, ACKNOWLEDGED, 1), (95, 99, AVAILABLE, 1))


def test_the_number_of_records_that_are_done_with_does_not_get_lower_before_the_start_moves() -> (
    None
):
    writes = [
        ShareWrite(4, (PersisterStateBatch(o, o, ACKNOWLEDGED, 1),), o - 4) for o in (5, 6, 7)
    ]
    for order in (writes, writes[::-1]):
        state = ShareState(1, 0, 4)
        for write in order:
            state = written(state, 1, 0, write)
        assert state.complete == 3
    assert written(state, 1, 0, ShareWrite(9, (), 0)).complete == 0


def test_an_initialisation_that_comes_twice_changes_nothing_and_a_new_one_begins_anew() -> None:
    known = ShareState(2, 5, 50, 3, (PersisterStateBatch(60, 69, ACKNOWLEDGED, 1),))
    assert initialised(known, 2, -1) is known
    assert initialised(known, 3, 10) == ShareState(3, 5, 10)
    with pytest.raises(Refusal, match=r"FENCED_STATE_EPOCH: .* 1, and here it is 2"):
        initialised(known, 1, -1)


def test_each_fence_refuses() -> None:
    known, nothing = ShareState(2, 5, 50), ShareWrite(50, ())
    assert read(known, 6).leader_epoch == 6
    for step, error in (
        (lambda: read(known, 4), "FENCED_LEADER_EPOCH"),
        (lambda: read(None, 4), "INVALID_REQUEST"),
        (lambda: written(known, 2, 4, nothing), "FENCED_LEADER_EPOCH"),
        (lambda: written(known, 1, 5, nothing), "FENCED_STATE_EPOCH"),
        (lambda: written(None, 1, 5, nothing), "INVALID_REQUEST"),
    ):
        with pytest.raises(Refusal, match=error):
            step()
