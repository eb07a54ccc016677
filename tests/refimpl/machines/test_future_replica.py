"""A future log follows the current one through truncations, and replaces it only with all of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.errors import Refusal
from refimpl.machines.future_replica import FutureReplica
from refimpl.machines.log import Log
from refimpl.machines.replica import Replica

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 2)),
        st.tuples(st.just("truncate"), st.integers(0, 8)),
        st.tuples(st.just("restart"), st.integers(0, 8)),
        st.tuples(st.just("delete"), st.integers(0, 8)),
        st.tuples(st.just("follow"), st.integers(1, 3)),
    ),
    max_size=25,
)


def moving() -> FutureReplica:
    return FutureReplica(Replica(1), Log())


@given(STEPS)
def test_it_has_caught_up_only_with_the_same_records_and_catches_up_in_the_end(
    steps: list[tuple[str, int]],
) -> None:
    future, epoch, value = moving(), 0, 0
    log = future.current.log
    for what, number in steps:
        match what:
            case "append":
                epoch, value = epoch + number, value + 1
                log.append(epoch, (value,))
            case "truncate":
                log.truncate_to(max(log.start, log.end - number))
                epoch += 1
            case "restart":
                log.restart_at(number)
                epoch += 1
            case "delete":
                log.advance_start(min(log.end, log.start + number))
            case _:
                future.follow(number)
        if future.has_caught_up:
            assert same(future)
    for _ in range(60):
        if future.has_caught_up:
            break
        future.follow(2)
    assert future.has_caught_up
    future.complete()
    assert same(future)
    assert future.log.latest_epoch == log.latest_epoch


def same(future: FutureReplica) -> bool:
    current, ours = future.current.log, future.log
    return (ours.start, [*ours.records]) == (current.start, [*current.records])


def test_an_epoch_that_no_record_bears_is_taken_over() -> None:
    future = moving()
    future.current.log.append(3, ("a",))
    future.current.log.assign_epoch(5)
    with pytest.raises(Refusal, match="ends at 0, where the current one ends at 1"):
        future.complete()
    future.follow(10)
    assert future.log.latest_epoch == 3
    future.complete()
    assert future.log.end_of(5) == future.current.log.end_of(5) == (5, 1)


def test_a_log_of_the_same_length_with_other_records_has_not_caught_up() -> None:
    future = moving()
    log = future.current.log
    log.append(1, ("a",))
    log.append(1, ("b",))
    future.follow(10)
    assert future.has_caught_up
    log.truncate_to(1)
    log.append(2, ("c",))
    assert not future.has_caught_up
    future.follow(10)
    assert future.log.end == 1
    future.follow(10)
    assert future.has_caught_up
    assert same(future)


def test_what_the_current_log_has_truncated_is_cut_and_the_rest_is_not_copied_again() -> None:
    future = moving()
    current = future.current.log
    for epoch in (1, 1, 3):
        current.append(epoch, (epoch,))
    future.follow(10)
    current.truncate_to(2)
    future.follow(10)
    assert (future.log.end, future.log.latest_epoch) == (2, 1)
    assert future.has_caught_up


def test_a_log_without_what_the_current_one_has_below_its_start_has_not_caught_up() -> None:
    """After an unclean election a follower begins anew at its leader's start, and copies what its
    own log had deleted."""
    future = moving()
    current = future.current.log
    current.restart_at(10)
    for value in "ab":
        current.append(1, (value,))
    while not future.has_caught_up:
        future.follow(10)
    current.restart_at(0)
    for value in range(8):
        current.append(3, (value,))
    future.log.truncate_to(8)
    assert not future.has_caught_up
    for _ in range(3):
        future.follow(10)
    assert future.has_caught_up
    assert same(future)
