"""The log by itself: its epochs are those of its records, whatever happened to it."""

from hypothesis import given
from hypothesis import strategies as st

from refimpl.machines.log import Log, Record

EPOCHS = st.lists(st.integers(1, 4), max_size=8).map(sorted)


def log_of(epochs: list[int]) -> Log:
    return Log([Record(epoch, (epoch, offset)) for offset, epoch in enumerate(epochs)])


def is_log_of(log: Log, epochs: list[int]) -> None:
    """Every answer is what reading the records gives."""
    assert [record.epoch for record in log.records] == epochs
    assert log.end == len(epochs)
    assert log.last_epoch == (epochs[-1] if epochs else 0)
    for epoch in range(6):
        assert log.end_of(epoch) == sum(e <= epoch for e in epochs)
        assert log.epoch_at_or_below(epoch) == max((e for e in epochs if e <= epoch), default=0)


@given(EPOCHS)
def test_epochs_are_found_as_by_reading(epochs: list[int]) -> None:
    is_log_of(log_of(epochs), epochs)


@given(EPOCHS, st.integers(0, 9), st.integers(0, 2))
def test_a_cut_log_is_the_log_that_was_never_longer(epochs: list[int], end: int, more: int) -> None:
    log = log_of(epochs)
    log.truncate_to(end)
    is_log_of(log, epochs[:end])
    epoch = log.last_epoch + more or 1
    assert log.append(Record(epoch, "new")) == len(epochs[:end])
    is_log_of(log, [*epochs[:end], epoch])


@given(EPOCHS, st.integers(0, 8))
def test_a_log_agrees_with_each_of_its_prefixes(epochs: list[int], end: int) -> None:
    prefix = epochs[:end]
    assert log_of(epochs).agrees(len(prefix), prefix[-1] if prefix else 0)


def test_a_longer_log_of_the_same_epoch_does_not_agree() -> None:
    log = log_of([1, 1, 2])
    assert log.agrees(2, 1)
    assert not log.agrees(3, 1)
    assert not log.agrees(3, 3)
    assert log.agrees(0, 0)
    assert not log.agrees(1, 0)


@given(EPOCHS, st.integers(0, 9), st.integers(0, 9))
def test_a_slice_holds_what_it_is_asked_for(epochs: list[int], start: int, limit: int) -> None:
    records = log_of(epochs).slice(start, limit)
    wanted = range(start, min(start + limit, len(epochs)))
    assert [record.value for record in records] == [(epochs[offset], offset) for offset in wanted]
