"""A partition's memory of producers by itself, guard by guard.

Each test opens every guard but one, so that a guard cannot hide behind another.
"""

import pytest
from attrs import asdict

from refimpl.errors import Refusal
from refimpl.machines.producer import (
    LARGEST_EPOCH,
    LARGEST_SEQUENCE,
    NONE,
    Batch,
    Entry,
    Marker,
)
from refimpl.machines.producer_state import ProducerState
from refimpl.machines.replica_log import Guard


def refused(state: ProducerState, what: Entry, guard: Guard | None = None) -> str:
    """The refusal of a batch or a marker, which must change nothing."""
    before = asdict(state)
    with pytest.raises(Refusal) as refusal:
        state.check(what, guard)
    assert asdict(state) == before
    return refusal.value.kafka_error


def append(
    state: ProducerState, what: Entry, offset: int, now_ms: int = 0, guard: Guard | None = None
) -> int:
    """Take a batch or a marker, as a leader does."""
    state.check(what, guard)
    return state.take(what, offset, now_ms)


def asked(state: ProducerState, what: Batch) -> Guard | None:
    return state.start_verification(what, 0)


def batch(epoch: int = 0, sequence: int = 0, version: int = 2, to: int | None = None) -> Batch:
    last = sequence if to is None else to
    return Batch(7, epoch, sequence, last, transactional=version > 0, version=version)


def marker(epoch: int = 1, coordinator: int = 0, version: int = 2) -> Marker:
    return Marker(7, epoch, coordinator, version)


def opened(version: int = 2) -> ProducerState:
    """A producer with one batch in an open transaction of epoch 0, at offset 4."""
    state = ProducerState()
    first = batch(version=version)
    append(state, first, 4, 0, asked(state, first) if version else None)
    return state


# Sequences


def test_five_batches_are_remembered_by_their_exact_sequences() -> None:
    state = opened(version=0)
    for number in range(1, 7):
        append(state, batch(sequence=number, version=0), 4 + number, 0)
    assert state.duplicate_of(batch(sequence=1, version=0)) is None
    found = state.duplicate_of(batch(sequence=2, version=0))
    assert found is not None
    assert found.first_offset == 6
    assert state.duplicate_of(batch(sequence=2, version=0, to=3)) is None
    assert state.duplicate_of(batch(epoch=1, sequence=2, version=0)) is None
    assert state.duplicate_of(batch(sequence=2, version=0)._replace(producer_id=8)) is None


@pytest.mark.parametrize("sequence", [0, 2])
def test_a_batch_that_is_not_the_next_one_is_refused(sequence: int) -> None:
    assert refused(opened(0), batch(sequence=sequence, version=0)) == (
        "OUT_OF_ORDER_SEQUENCE_NUMBER"
    )


def test_sequences_begin_again_behind_the_largest() -> None:
    state = ProducerState()
    append(state, batch(sequence=LARGEST_SEQUENCE - 1, version=0, to=LARGEST_SEQUENCE), 0, 0)
    append(state, batch(sequence=0, version=0), 2, 0)


def test_a_new_epoch_begins_with_its_first_sequence() -> None:
    assert refused(opened(0), batch(1, 1, 0)) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    state = opened(0)
    append(state, batch(1, 0, 0), 5, 0)
    assert refused(state, batch(0, 1, 0)) == "INVALID_PRODUCER_EPOCH"


def test_a_forgotten_producer_goes_on_anywhere_but_not_in_version_2() -> None:
    append(ProducerState(), batch(sequence=3, version=0), 0, 0)
    state = ProducerState()
    write = batch(sequence=3)
    assert refused(state, write, asked(state, write)) == "OUT_OF_ORDER_SEQUENCE_NUMBER"


# Verification


def test_the_first_write_of_a_transaction_needs_its_guard() -> None:
    state = ProducerState()
    assert state.must_verify(batch())
    assert refused(state, batch()) == "INVALID_TXN_STATE"
    guard = asked(state, batch())
    assert refused(state, batch(), Guard()) == "INVALID_TXN_STATE"
    append(state, batch(), 4, 0, guard)
    assert not state.must_verify(batch(sequence=1))
    assert not state.is_guarded(7, guard)
    append(state, batch(sequence=1), 5, 0)


def test_writes_that_wait_have_one_guard_and_none_passes_the_lowest() -> None:
    state = ProducerState()
    guard = asked(state, batch(sequence=1, version=1))
    assert asked(state, batch(sequence=0, version=1)) == guard
    assert asked(state, batch(sequence=2, version=1)) == guard
    assert refused(state, batch(sequence=1, version=1), guard) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    append(state, batch(sequence=0, version=1), 4, 0, guard)


def test_a_marker_takes_the_guard_unless_a_later_epoch_waits() -> None:
    state = ProducerState()
    guard = asked(state, batch(epoch=1))
    append(state, marker(epoch=1), 0, 0)
    assert state.is_guarded(7, guard)
    append(state, marker(epoch=2), 1, 0)
    assert not state.is_guarded(7, guard)


def test_in_version_1_every_marker_takes_the_guard() -> None:
    state = ProducerState()
    guard = asked(state, batch(epoch=1, version=1))
    append(state, marker(epoch=0, version=1), 0, 0)
    assert not state.is_guarded(7, guard)


def test_a_write_of_an_earlier_epoch_leaves_the_guard_of_the_next_one() -> None:
    state = ProducerState()
    late = asked(state, batch())
    guard = asked(state, batch(epoch=1))
    append(state, batch(), 4, 0, late)
    assert state.is_guarded(7, guard)


# Open transactions and markers


def test_a_write_of_a_later_epoch_does_not_join_an_open_transaction() -> None:
    state = opened()
    write = batch(epoch=1)
    assert refused(state, write, asked(state, write)) == "INVALID_TXN_STATE"


def test_a_batch_outside_of_transactions_does_not_join_one() -> None:
    assert refused(opened(), batch(sequence=1, version=0)) == "INVALID_TXN_STATE"


@pytest.mark.parametrize(
    ("epoch", "coordinator", "error"),
    [
        (0, 3, "INVALID_PRODUCER_EPOCH"),
        (2, 3, "INVALID_PRODUCER_EPOCH"),
        (1, 2, "TRANSACTION_COORDINATOR_FENCED"),
    ],
)
def test_only_the_open_transactions_own_marker_ends_it(
    epoch: int, coordinator: int, error: str
) -> None:
    state = opened()
    state.producers[7].coordinator_epoch = 3
    assert refused(state, marker(epoch, coordinator)) == error
    assert append(state, marker(1, 3), 5, 0) == 4
    assert append(state, marker(1, 3), 6, 0) == NONE


def test_an_older_marker_is_refused_where_nothing_is_open() -> None:
    state = ProducerState()
    append(state, marker(epoch=3), 0, 0)
    assert refused(state, marker(epoch=2)) == "INVALID_PRODUCER_EPOCH"


def test_the_last_epoch_ends_itself_and_version_1_ends_any_epoch() -> None:
    state = opened()
    state.producers[7].epoch = LARGEST_EPOCH
    assert append(state, marker(LARGEST_EPOCH), 5, 0) == 4
    assert append(opened(1), marker(0, version=1), 5, 0) == 4
    assert append(opened(1), marker(5, version=1), 5, 0) == 4


def test_sequences_go_on_behind_a_marker_of_the_same_epoch_only() -> None:
    state = opened(1)
    append(state, marker(0, version=1), 5, 0)
    write = batch(0, 1, 1)
    append(state, write, 6, 0, asked(state, write))
    append(state, marker(1, version=1), 7, 0)
    again = batch(1, 0, 1)
    append(state, again, 8, 0, asked(state, again))


# Offsets and time


def test_readers_wait_for_the_end_and_until_it_is_replicated() -> None:
    state = opened()
    assert state.last_stable(9) == 4
    append(state, marker(), 5, 0)
    assert state.last_stable(5) == 4
    state.advance_high_watermark(5)
    assert state.last_stable(5) == 4
    state.advance_high_watermark(6)
    assert state.last_stable(6) == 6


def test_a_producer_expires_by_the_brokers_clock_but_not_while_its_transaction_is_open() -> None:
    state = opened()
    assert not state.expire(7, 100, 10)
    append(state, marker(), 5, 50)
    assert not state.expire(7, 59, 10)
    assert state.expire(7, 60, 10)
    assert not state.expire(7, 60, 10)


def test_a_new_leader_remembers_what_its_log_says() -> None:
    entries = [batch(), batch(sequence=1), marker(), batch(epoch=1)]
    state = ProducerState.replayed(entries, 2, 8, window=5)
    known = state.producers[7]
    assert (known.epoch, known.coordinator_epoch, known.first_offset, known.heard_ms) == (
        1,
        0,
        3,
        8,
    )
    assert [one.first_offset for one in known.seen] == [3]
    assert state.unreplicated == {0: 2}
    assert ProducerState.replayed(entries, 3, 8, window=5).unreplicated == {}
