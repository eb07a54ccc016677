"""The log by itself: its epochs are those of its records, whatever happened to it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.errors import OffsetOutOfRange
from refimpl.machines.log import Log, Record
from refimpl.machines.replica import Replica
from refimpl.machines.replica_log import UNDEFINED, EpochEnd

EPOCHS = st.lists(st.integers(1, 4), max_size=8).map(sorted)


def log_of(epochs: list[int]) -> Log:
    return Log([Record(epoch, (epoch, offset)) for offset, epoch in enumerate(epochs)])


def is_log_of(log: Log, epochs: list[int]) -> None:
    """Every answer is what reading the records gives."""
    assert [record.epoch for record in log.records] == epochs
    assert log.end == len(epochs)
    assert log.latest_epoch == (epochs[-1] if epochs else -1)
    for epoch in range(6):
        end = sum(e <= epoch for e in epochs)
        largest = max((e for e in epochs if e <= epoch), default=epoch)
        known = epochs and epoch <= epochs[-1]
        assert log.end_of(epoch) == (EpochEnd(largest, end) if known else UNDEFINED)
        assert log.start_of(epoch) == sum(e < epoch for e in epochs)


@given(EPOCHS)
def test_epochs_are_found_as_by_reading(epochs: list[int]) -> None:
    is_log_of(log_of(epochs), epochs)


@given(EPOCHS, st.integers(0, 9), st.integers(0, 2))
def test_a_cut_log_is_the_log_that_was_never_longer(epochs: list[int], end: int, more: int) -> None:
    log = log_of(epochs)
    log.truncate_to(end)
    is_log_of(log, epochs[:end])
    epoch = max(log.latest_epoch, 1) + more
    assert log.append(epoch, "new") == len(epochs[:end])
    is_log_of(log, [*epochs[:end], epoch])


@given(EPOCHS, st.integers(0, 8))
def test_a_log_agrees_with_each_of_its_prefixes(epochs: list[int], end: int) -> None:
    prefix = epochs[:end]
    leader = Replica(1, log_of(epochs))
    assert leader.diverging(len(prefix), prefix[-1] if prefix else -1) is None


def test_a_longer_log_of_the_same_epoch_does_not_agree() -> None:
    leader = Replica(1, log_of([1, 1, 2]))
    assert leader.diverging(2, 1) is None
    assert leader.diverging(3, 1) == EpochEnd(1, 2)
    assert leader.diverging(0, -1) is None
    assert leader.diverging(1, 0) == EpochEnd(0, 0)


@pytest.mark.parametrize(("end", "last_epoch"), [(3, 3), (4, -1)])
def test_what_is_not_known_is_out_of_range(end: int, last_epoch: int) -> None:
    with pytest.raises(OffsetOutOfRange):
        Replica(1, log_of([1, 1, 2])).diverging(end, last_epoch)


def test_below_the_log_start_is_out_of_range_whatever_the_epoch() -> None:
    log = log_of([1, 1, 2])
    log.advance_start(2)
    for epoch in (-1, 1):
        with pytest.raises(OffsetOutOfRange):
            Replica(1, log).diverging(1, epoch)


@given(EPOCHS, st.integers(0, 9), st.integers(0, 9))
def test_a_slice_holds_what_it_is_asked_for(epochs: list[int], start: int, limit: int) -> None:
    log = log_of(epochs)
    if start > log.end:
        with pytest.raises(OffsetOutOfRange):
            log.slice(start, limit)
        return
    wanted = range(start, min(start + limit, len(epochs)))
    records = log.slice(start, limit)
    assert [record.value for record in records] == [(epochs[offset], offset) for offset in wanted]
