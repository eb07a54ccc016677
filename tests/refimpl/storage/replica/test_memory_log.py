"""The log in memory that knows batches and producers: what is never split, and what is known of
producers after everything that may happen to a log."""

from collections.abc import Callable, Sequence

import pytest

from refimpl.errors import InvalidProducerEpoch, OutOfOrderSequence
from refimpl.machines.replica_log import Appended, Record
from refimpl.records.coordinators import (
    GROUP_RECORDS,
    CoordinatorRecord,
    OffsetCommitKey,
)
from refimpl.storage.config import LogConfig
from refimpl.storage.format.batch import NO_TIMESTAMP
from refimpl.storage.replica.memory import BatchedValue, MemoryLog, RecordBatch

SIZES = (2, 3, 1)
"""Of the batches in `filled`."""


def plain(*values: object, at: int = NO_TIMESTAMP) -> RecordBatch:
    return RecordBatch(values, timestamp_ms=at)


def sent(sequence: int, *values: object, epoch: int = 0, producer: int = 0) -> RecordBatch:
    """A batch of an idempotent producer."""
    return RecordBatch(values, producer, epoch, sequence)


def filled(start: int = 0) -> MemoryLog:
    log = MemoryLog()
    for number, size in enumerate(SIZES):
        log.append(1, plain(*(f"{number}{at}" for at in range(size))))
    log.advance_start(start)
    return log


def payloads(records: Sequence[Record]) -> list[object]:
    return [one.value.payload for one in records if isinstance(one.value, BatchedValue)]


# Batches


@pytest.mark.parametrize("begin", [0, 1, 3])
def test_what_is_read_are_whole_batches_within_the_limit_and_the_first_one_always(
    begin: int,
) -> None:
    log, everything = filled(begin), payloads(filled().records)
    batches = [range(0, 2), range(2, 5), range(5, 6)]
    for start in range(begin, 7):
        for limit in range(-1, 8):
            for up_to in (None, *range(begin, 8)):
                bound, wanted = 6 if up_to is None else min(up_to, 6), list[int]()
                for batch in batches:
                    rest = [one for one in batch if start <= one < bound]
                    if limit <= 0 or (wanted and len(wanted) + len(rest) > limit):
                        break
                    wanted += rest
                read = payloads(log.slice(start, limit, up_to))
                assert read == [everything[one] for one in wanted], (start, limit, up_to)


@pytest.mark.parametrize(("to", "end"), [(0, 0), (1, 0), (2, 2), (4, 2), (5, 5), (6, 6), (9, 6)])
def test_a_cut_splits_no_batch(to: int, end: int) -> None:
    log = filled()
    log.truncate_to(to)
    assert (log.end, len(log.records)) == (end, end)


def test_a_cut_inside_of_a_batch_of_which_the_beginning_is_deleted_takes_all_of_it() -> None:
    log = filled(1)
    log.truncate_to(1)
    assert (log.start, log.end) == (1, 1)
    log = filled(3)
    log.truncate_to(4)
    assert (log.start, log.end) == (3, 3)


def test_appended_records_are_told_by_their_first_and_last_offset() -> None:
    log = MemoryLog()
    assert log.append(1, plain("a", "b")) == Appended(0, 1)
    assert log.append(2, plain("c")) == Appended(2, 2)
    assert [(one.epoch, one.value) for one in log.records][1:] == [
        (1, BatchedValue(plain("a", "b"), 1)),
        (2, BatchedValue(plain("c"), 0)),
    ]
    assert [log.epoch_at(offset) for offset in range(-1, 4)] == [-1, 1, 1, 2, -1]
    log.advance_start(1)
    assert [log.epoch_at(offset) for offset in range(4)] == [-1, 1, 2, -1]


def test_the_unit_is_the_record() -> None:
    log = filled(1)
    assert (log.size, log.size_of(log.slice(2, 3)), log.size_between(2, 5)) == (5, 3, 3)
    assert log.size_between(5, 2) == 0
    assert (log.last_stable_offset(4), log.aborted_transactions(0, 6)) == (4, [])


def test_whether_records_may_be_deleted_is_the_topics_to_say() -> None:
    log = MemoryLog()
    assert log.deletes
    log.configure(LogConfig(cleanup_policy=frozenset({"compact"})))
    assert not log.deletes


# Times


def test_the_first_record_that_is_as_new_and_the_newest_are_found() -> None:
    log = MemoryLog()
    assert (log.offset_for_timestamp(0), log.newest_timestamp()) == (None, None)
    log.append(1, plain("without a time"))
    log.extend([Record(1, "of no batch")])
    assert (log.offset_for_timestamp(-1), log.newest_timestamp()) == (None, None)
    log.append(1, plain("a", "b", at=0))
    assert (log.offset_for_timestamp(-1), log.newest_timestamp()) == ((2, 0), (2, 0))
    for at in (30, 20, 30):
        log.append(1, plain("c", at=at))
    assert [log.offset_for_timestamp(at) for at in (0, 1, 20, 30, 31)] == [
        *((2, 0), (4, 30), (4, 30), (4, 30)),
        None,
    ]
    assert log.newest_timestamp() == (4, 30)
    log.advance_start(5)
    assert (log.offset_for_timestamp(1), log.newest_timestamp()) == ((5, 20), (6, 30))


# Producers (KIP-98)


def test_a_repeated_batch_is_told_where_it_went() -> None:
    log = MemoryLog()
    log.append(1, plain("a"))
    assert log.append(1, sent(0, "b", "c")) == Appended(1, 2)
    assert log.append(2, sent(0, "b", "c")) == Appended(1, 2, duplicate=True)
    assert (log.end, log.latest_epoch) == (3, 1)


def test_who_is_no_idempotent_producer_may_repeat_itself() -> None:
    log = MemoryLog()
    for offset in range(2):
        assert log.append(1, plain("a")) == Appended(offset, offset)


def test_a_gap_and_an_older_incarnation_are_refused_and_leave_nothing() -> None:
    log = MemoryLog()
    log.append(1, sent(0, "a", epoch=1))
    with pytest.raises(OutOfOrderSequence):
        log.append(1, sent(2, "c", epoch=1))
    with pytest.raises(InvalidProducerEpoch):
        log.append(1, sent(1, "b", epoch=0))
    assert log.end == 1
    assert log.append(1, sent(1, "b", epoch=1)) == Appended(1, 1)


def copied(log: MemoryLog) -> MemoryLog:
    follower = MemoryLog()
    follower.extend(log.records[:1])
    follower.extend(log.records[1:])
    return follower


def opened(log: MemoryLog) -> MemoryLog:
    return MemoryLog(list(log.records))


@pytest.mark.parametrize("way", [copied, opened])
def test_who_has_the_records_knows_their_producers(way: Callable[[MemoryLog], MemoryLog]) -> None:
    log = MemoryLog()
    log.append(1, plain("a"))
    log.append(1, sent(0, "b", "c"))
    log.append(1, sent(0, "x", producer=7))
    log.append(1, sent(2, "d"))
    other = way(log)
    assert other.append(2, sent(0, "b", "c")) == Appended(1, 2, duplicate=True)
    assert other.append(2, sent(2, "d")) == Appended(4, 4, duplicate=True)
    assert other.append(2, sent(3, "e")) == Appended(5, 5)
    assert other.append(2, sent(1, "y", producer=7)) == Appended(6, 6)


def test_what_was_cut_is_not_remembered() -> None:
    log = MemoryLog()
    log.append(1, sent(0, "a"))
    log.append(1, sent(1, "b"))
    log.truncate_to(1)
    assert log.append(2, sent(0, "a")).duplicate
    assert log.append(2, sent(1, "b")) == Appended(1, 1)
    log.truncate_to(0)
    assert log.append(2, sent(0, "a")) == Appended(0, 0)


def test_a_producer_is_remembered_when_its_records_are_deleted() -> None:
    log = MemoryLog()
    log.append(1, sent(0, "a"))
    log.append(1, plain("b"))
    log.advance_start(1)
    log.truncate_to(2)
    assert log.append(1, sent(0, "a")) == Appended(0, 0, duplicate=True)


def test_a_log_that_begins_anew_remembers_nobody() -> None:
    log = MemoryLog()
    log.append(1, sent(0, "a"))
    log.restart_at(40)
    assert log.append(1, sent(0, "a")) == Appended(40, 40)


# Coordinators


def test_what_a_coordinator_wrote_is_read_with_its_offsets_and_nothing_else() -> None:
    kind = GROUP_RECORDS[1]
    one, two = (CoordinatorRecord(kind, OffsetCommitKey("g", "t", n)) for n in range(2))
    log = MemoryLog()
    log.append(1, plain("a"))
    batch = log.keyed_batch([one, two], 70)
    assert batch == plain(one, two, at=70)
    log.append(1, batch)
    log.extend([Record(1, one), Record(1, "of no batch")])
    assert log.keyed_records(0, log.slice(0, 9)) == ([(1, one), (2, two), (3, one)], 5)
    assert log.keyed_records(1, log.slice(1, 2)) == ([(1, one), (2, two)], 3)
