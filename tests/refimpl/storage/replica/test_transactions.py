"""Transactions in a log, in files and in memory: who may begin one, what ends it, and what readers
of committed records are told (KIP-98, KIP-890, KIP-1228)."""

from typing import Any

import pytest
from attrs import define, field

from refimpl.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from refimpl.machines.producer import Batch
from refimpl.machines.replica_log import Appended, Guard, Origin
from refimpl.records.coordinators import GROUP_RECORDS, CoordinatorRecord, OffsetCommitKey
from refimpl.records.transactional import InTransaction, TransactionEnd
from refimpl.storage.config import LogConfig
from refimpl.storage.disk.interface import MemoryDisk
from refimpl.storage.format.batch import Record, encode_batch
from refimpl.storage.format.control import EndTxnMarker
from refimpl.storage.log.log_dir import LogDir
from refimpl.storage.replica.files import PartitionReplicaLog
from refimpl.storage.replica.memory import MemoryLog, RecordBatch
from refimpl.storage.replica.transactional import Writer

NOW = 1_700_000_000_000
DAY = 86_400_000


@define
class Story:
    """One log, and what producers and coordinators write to it."""

    in_memory: bool
    now: int = NOW
    disk: MemoryDisk = field(factory=MemoryDisk)
    log: Any = field(init=False)

    def __attrs_post_init__(self) -> None:
        if self.in_memory:
            self.log = MemoryLog()
            return
        directory = LogDir.open(self.disk, NOW, LogConfig())
        made = directory.create(("orders", 0), bytes(16), NOW)
        self.log = PartitionReplicaLog(made, lambda: self.now)

    def batch(
        self,
        sequence: int,
        *,
        producer: int = 7,
        epoch: int = 0,
        plain: bool = False,
        at: int = NOW,
    ) -> Any:
        if self.in_memory:
            return RecordBatch(("v",), producer, epoch, sequence, at, not plain)
        return encode_batch(
            [Record(0, at, None, b"v")],
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=not plain,
        )

    def verify(
        self, sequence: int = 0, producer: int = 7, epoch: int = 0, *, tv2: bool = False
    ) -> Guard | None:
        first = Batch(producer, epoch, sequence, sequence, True, 2 if tv2 else 1)
        return self.log.producers.start_verification(first, self.now)

    def write(self, sequence: int = 0, guard: Guard | None = None, **of: Any) -> Appended:
        return self.log.append(1, self.batch(sequence, **of), guard=guard)

    def begin(self, sequence: int = 0, producer: int = 7, epoch: int = 0, **of: Any) -> Appended:
        guard = self.verify(sequence, producer, epoch)
        return self.write(sequence, guard, producer=producer, epoch=epoch, **of)

    def end(
        self, producer: int = 7, epoch: int = 0, *, committed: bool = True, by: int = 0, tv: int = 0
    ) -> Appended:
        writer, marker = Writer(producer, epoch), EndTxnMarker(committed, by)
        batch = self.log.marker_batch(writer, marker, self.now)
        return self.log.append(1, batch, Origin.COORDINATOR, tv)

    def stable(self, high_watermark: int | None = None) -> int:
        return self.log.last_stable_offset(
            self.log.end if high_watermark is None else high_watermark
        )

    def aborted(self) -> list[tuple[int, int, int]]:
        found = self.log.aborted_transactions(self.log.start, self.log.end)
        return [(one.producer_id, one.first_offset, one.last_offset) for one in found]


@pytest.fixture(params=["files", "memory"])
def story(request: pytest.FixtureRequest) -> Story:
    return Story(request.param == "memory")


# Verification (KIP-890)


def test_a_transaction_that_nobody_verified_does_not_begin(story: Story) -> None:
    for guard in (None, Guard()):
        with pytest.raises(InvalidTxnState, match="verified"):
            story.write(0, guard)
    assert story.log.end == 0
    story.begin()
    assert story.verify(1) is None, "it goes on without"
    story.write(1)


def test_a_marker_makes_a_guard_worthless(story: Story) -> None:
    """KAFKA-14884: the coordinator's word is of a transaction that has ended since."""
    guard = story.verify()
    story.end(committed=False)
    with pytest.raises(InvalidTxnState):
        story.write(0, guard)
    other = story.verify()
    assert other is not guard
    story.write(0, other)


def test_the_marker_of_the_transaction_before_leaves_the_guard_of_the_next_one(
    story: Story,
) -> None:
    """KAFKA-18575: with an epoch for each transaction the marker has the epoch of who waits."""
    story.begin()
    guard = story.verify(epoch=1, tv2=True)
    story.end(epoch=1, tv=2)
    story.write(0, guard, epoch=1)
    story.verify(epoch=2, tv2=True)
    story.end(epoch=2, tv=2)
    late = story.verify(epoch=2, tv2=True)
    story.end(epoch=3, tv=2)
    with pytest.raises(InvalidProducerEpoch):
        story.write(0, late, epoch=2)


def test_of_those_that_wait_the_lowest_sequence_goes_first(story: Story) -> None:
    """KAFKA-14920."""
    later, first = story.verify(1), story.verify(0)
    assert later is first
    with pytest.raises(OutOfOrderSequence, match="sequence 0 waiting"):
        story.write(1, later)
    story.write(0, first)
    story.write(1, later)


def test_in_an_epoch_of_its_own_a_transaction_begins_at_zero(story: Story) -> None:
    guard = story.verify(3, tv2=True)
    with pytest.raises(OutOfOrderSequence, match="with sequence 0, not 3"):
        story.write(3, guard)
    story.write(3, story.verify(3, producer=8), producer=8)  # KIP-360: it may have been forgotten


def test_guards_do_not_stay_for_ever(story: Story) -> None:
    guard = story.verify()
    story.log.producers.expire_all(NOW + DAY - 1, DAY)
    assert story.verify() is guard
    story.log.producers.expire_all(NOW + DAY, DAY)
    assert story.verify() is not guard


# Data within and without


def test_a_batch_of_a_higher_epoch_joins_no_open_transaction(story: Story) -> None:
    """Kafka lets it in, and one marker decides both."""
    story.begin()
    guard = story.verify(epoch=1)
    with pytest.raises(InvalidTxnState, match="open in epoch 0 since offset 0"):
        story.write(0, guard, epoch=1)
    story.end(epoch=1, committed=False)
    story.begin(epoch=1)
    assert story.aborted() == [(7, 0, 1)]


def test_records_without_a_transaction_do_not_mix_with_one(story: Story) -> None:
    story.begin()
    with pytest.raises(InvalidTxnState):
        story.write(1, plain=True)
    story.end()
    story.write(1, plain=True)


def test_an_older_epoch_is_refused_before_its_transaction_is_looked_at(story: Story) -> None:
    story.begin(epoch=3)
    with pytest.raises(InvalidProducerEpoch):
        story.write(0, None, epoch=2)


# Markers


@pytest.mark.parametrize("tv", [0, 1])
def test_without_an_epoch_for_each_transaction_a_marker_has_that_of_the_open_one(
    story: Story, tv: int
) -> None:
    story.begin()
    story.end(tv=tv)
    assert story.stable() == 2
    story.begin(epoch=2)
    with pytest.raises(InvalidProducerEpoch):
        story.end(epoch=1, tv=tv)


def test_with_an_epoch_for_each_transaction_the_marker_of_another_ends_nothing(
    story: Story,
) -> None:
    """KAFKA-19446 (KIP-1228); its own repetition is no late one (KAFKA-19999).

    A marker of a later transaction would end one whose own marker was dropped (KAFKA-20734).
    """
    story.begin()
    for other in (0, 2):
        with pytest.raises(InvalidProducerEpoch, match="cannot end"):
            story.end(epoch=other, tv=2)
    story.end(epoch=1, tv=2)
    story.end(epoch=1, tv=2)
    story.begin(epoch=1)
    with pytest.raises(InvalidProducerEpoch, match="cannot end"):
        story.end(epoch=1, tv=2)
    assert story.stable() == 3


def test_the_last_epoch_is_ended_in_itself(story: Story) -> None:
    story.begin(epoch=2**15 - 1)
    story.end(epoch=2**15 - 1, tv=2)
    assert story.stable() == 2


def test_a_marker_of_an_older_coordinator_is_refused(story: Story) -> None:
    story.begin()
    story.end(by=5)
    story.begin(1)
    with pytest.raises(TransactionCoordinatorFenced):
        story.end(by=4)
    assert story.stable() == 2
    story.end(by=5)


# Readers of committed records


def test_the_last_stable_offset_is_that_of_the_first_that_is_not_decided_for_good(
    story: Story,
) -> None:
    story.write(0, plain=True, producer=9)
    story.begin()
    story.begin(producer=8)
    assert story.stable() == 1
    story.end(committed=False)
    assert story.stable(3) == 1, "its marker is not committed yet"
    assert story.stable() == 2
    story.end(8)
    assert (story.stable(4), story.stable(5)) == (2, 5)
    assert story.aborted() == [(7, 1, 3)]


def test_the_end_of_nothing_is_not_an_aborted_transaction(story: Story) -> None:
    story.end(committed=False)
    assert (story.aborted(), story.stable()) == ([], 1)


def test_a_truncated_marker_opens_its_transaction_again(story: Story) -> None:
    story.begin()
    story.end(committed=False)
    story.begin(1)
    assert (story.stable(), story.aborted()) == (2, [(7, 0, 1)])
    story.log.truncate_to(1)
    assert (story.stable(), story.aborted()) == (0, [])
    assert story.verify(1) is None
    story.end()
    assert (story.stable(), story.aborted()) == (2, [])


def test_deleted_records_hold_nobody_back(story: Story) -> None:
    story.begin()
    story.write(1)
    story.log.advance_start(1)
    assert story.stable() == 1


def test_a_follower_learns_all_of_it_from_the_records(story: Story) -> None:
    story.begin()
    story.begin(producer=8)
    story.end(committed=False)
    copy = Story(story.in_memory)
    copy.log.extend(story.log.slice(0, 100_000))
    assert (copy.log.end, copy.stable(), copy.aborted()) == (3, 1, [(7, 0, 2)])
    copy.end(8)
    assert copy.stable() == 4


# Who is remembered


def test_producers_expire_by_the_clock_of_the_broker() -> None:
    """The timestamps of replayed records are old, and a batch may be sent again now."""
    story = Story(False)
    story.write(0, plain=True, at=NOW - 2 * DAY)
    story.log.producers.expire_all(NOW + DAY - 1, DAY)
    assert story.write(0, plain=True, at=NOW - 2 * DAY).duplicate
    story.log.producers.expire_all(NOW + DAY, DAY)
    assert not story.log.producers.producers


def test_an_open_transaction_is_not_forgotten(story: Story) -> None:
    story.begin()
    for days in (0, 1, 2, 3):
        story.log.producers.expire_all(NOW + days * DAY, DAY)
    assert story.verify(1) is None


# Coordinators' records


def test_the_records_of_coordinators_come_with_their_transactions(story: Story) -> None:
    one = CoordinatorRecord(GROUP_RECORDS[1], OffsetCommitKey("g", "orders", 0))
    log = story.log
    log.append(1, log.keyed_batch([one], NOW), Origin.COORDINATOR)
    guard = story.verify(-1)
    batch = log.keyed_batch([one, one], NOW, Writer(7, 0))
    with pytest.raises(InvalidTxnState):
        log.append(1, batch, Origin.COORDINATOR)
    log.append(1, batch, Origin.COORDINATOR, guard=guard)
    story.end(committed=False)
    found, end = log.keyed_records(0, log.slice(0, 100_000))
    inside = InTransaction(one, 7)
    assert end == 4
    assert list(found) == [(0, one), (1, inside), (2, inside), (3, TransactionEnd(7, False))]


def test_batches_say_of_whose_transaction_they_are(story: Story) -> None:
    assert story.log.transactional(story.batch(4, epoch=2)) == (7, 2, 4)
    assert story.log.transactional(story.batch(4, plain=True)) is None


# In files


def test_a_start_finds_open_transactions_and_their_coordinators() -> None:
    story = Story(False)
    story.begin()
    story.end(by=5)
    story.begin(1)
    for clean in (True, False):
        if clean:
            story.log.log.close()
        again = LogDir.open(story.disk, NOW, LogConfig()).log(("orders", 0))
        producer = again.producers.producers[7]
        assert (producer.first_offset, producer.coordinator_epoch) == (2, 5)
        assert again.producers.opened == {2: 7}
