"""The log by itself: its epochs are those of its records, whatever happened to it."""

from collections.abc import Iterable
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.errors import OffsetOutOfRange, Refusal
from refimpl.machines.log import Log, Record
from refimpl.machines.replica import Replica
from refimpl.machines.replica_log import UNDEFINED, EpochEnd

EPOCHS = st.lists(st.integers(0, 4), max_size=8).map(sorted)


def log_of(epochs: list[int], start: int = 0) -> Log:
    return Log([Record(epoch, (epoch, at)) for at, epoch in enumerate(epochs, start)], start)


def numbers(records: Iterable[Record]) -> list[int]:
    """The offsets, which `log_of` wrote into the values."""
    return [cast("tuple[int, int]", record.value)[1] for record in records]


def is_log_of(log: Log, epochs: list[int], start: int = 0) -> None:
    """Every answer is what reading the records gives."""
    assert [record.epoch for record in log.records] == epochs
    assert (log.start, log.end) == (start, start + len(epochs))
    assert log.latest_epoch == (epochs[-1] if epochs else -1)
    for epoch in range(-1, 6):
        assert log.end_of(epoch) == end_of(epoch, epochs, start), epoch
        assert log.start_of(epoch) == start + sum(e < epoch for e in epochs), epoch


def end_of(epoch: int, epochs: list[int], start: int) -> EpochEnd:
    """OffsetForLeaderEpoch from its definition in `ReplicaLog`."""
    if not epochs or not 0 <= epoch <= epochs[-1]:
        return UNDEFINED
    upto = [e for e in epochs if e <= epoch]
    return EpochEnd(upto[-1] if upto else epoch, start + len(upto))


@given(EPOCHS, st.integers(0, 5))
def test_epochs_are_found_as_by_reading(epochs: list[int], start: int) -> None:
    is_log_of(log_of(epochs, start), epochs, start)


@given(EPOCHS, st.integers(0, 9), st.integers(0, 2))
def test_a_cut_log_is_the_log_that_was_never_longer(epochs: list[int], end: int, more: int) -> None:
    log, kept = log_of(epochs), epochs[:end]
    log.truncate_to(end)
    is_log_of(log, kept)
    epoch = max(log.latest_epoch, 0) + more
    assert log.append(epoch, "new").first_offset == len(kept)
    is_log_of(log, [*kept, epoch])


@given(EPOCHS.filter(len), st.data())
def test_a_log_whose_begin_is_deleted_answers_for_the_rest(
    epochs: list[int], data: st.DataObject
) -> None:
    log = log_of(epochs)
    start = data.draw(st.integers(0, len(epochs) - 1))
    log.advance_start(start)
    is_log_of(log, epochs[start:], start)
    log.advance_start(0)
    assert log.start == start
    with pytest.raises(Refusal):
        log.advance_start(log.end + 1)


@given(EPOCHS, st.integers(0, 3))
def test_an_epoch_is_in_the_leaders_log_from_the_beginning_of_its_reign(
    epochs: list[int], more: int
) -> None:
    log = log_of(epochs)
    epoch = max(log.latest_epoch, 0) + more
    log.assign_epoch(epoch)
    assert log.latest_epoch == epoch
    assert log.end_of(epoch) == EpochEnd(epoch, len(epochs))
    log.truncate_to(len(epochs))
    is_log_of(log, epochs)


def test_a_reign_without_records_gives_way_to_what_the_leader_answered() -> None:
    log = log_of([1, 1])
    log.assign_epoch(5)
    log.extend([Record(2, "a"), Record(3, "b")])
    is_log_of(log, [1, 1, 2, 3])


STEPS = st.lists(
    st.tuples(st.sampled_from(["assign", "append", "extend", "truncate"]), st.integers(0, 5)),
    max_size=12,
)


@given(STEPS)
def test_epochs_are_those_of_the_records_and_of_the_reign_whatever_happened(
    steps: list[tuple[str, int]],
) -> None:
    log, epochs, reign = Log(), list[int](), None
    for step, number in steps:
        newest = epochs[-1] if epochs else 0
        match step:
            case "assign" if number >= max(newest, reign or 0):
                log.assign_epoch(number)
                reign = None if epochs and number == newest else number
            case "append" if number >= newest:
                log.append(number, "a")
                epochs.append(number)
                reign = None
            case "extend" if number >= newest:
                log.extend([Record(number, "b")])
                epochs.append(number)
                reign = None
            case "truncate":
                log.truncate_to(number)
                del epochs[number:]
                reign = None
            case _:
                continue
        if reign is None:
            is_log_of(log, epochs)
        else:
            assert log.latest_epoch == reign
            for epoch in range(reign):
                assert log.end_of(epoch) == end_of(epoch, [*epochs, reign], 0)
                assert log.start_of(epoch) == sum(one < epoch for one in epochs)
            assert log.end_of(reign) == EpochEnd(reign, len(epochs))


def test_an_epoch_that_goes_back_takes_later_ones_with_it() -> None:
    """Nobody writes such a log; Kafka's cache answers for it like this."""
    log = log_of([1, 3])
    log.extend([Record(2, "a")])
    assert (log.latest_epoch, log.end_of(2), log.end_of(1)) == (2, (2, 3), (1, 2))


def test_a_log_that_goes_on_elsewhere_knows_no_epochs() -> None:
    log = log_of([1, 2])
    log.restart_at(7)
    is_log_of(log, [], 7)


@given(EPOCHS, st.integers(0, 3), st.integers(0, 9), st.integers(1, 9))
def test_a_slice_holds_what_it_is_asked_for(
    epochs: list[int], start: int, first: int, limit: int
) -> None:
    log = log_of(epochs, start)
    if not log.start <= first <= log.end:
        with pytest.raises(Refusal) as refused:
            log.slice(first, limit)
        assert refused.value.kafka_error == "OFFSET_OUT_OF_RANGE"
        return
    offsets = numbers(log.slice(first, limit))
    assert offsets == list(range(first, min(first + limit, log.end)))
    assert numbers(log.slice(first, limit, up_to=first + 1)) == offsets[:1]


# ------------------------------------------------------------------------------ compared


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
