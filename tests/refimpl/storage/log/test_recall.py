"""The batches of producers that a snapshot leaves out: which are recalled, and at what cost."""

from collections.abc import Iterator

import pytest
from attrs import evolve
from hypothesis import event, given
from hypothesis import strategies as st

from refimpl.errors import OutOfOrderSequence
from refimpl.machines.producer import LARGEST_SEQUENCE, WINDOW, Producer, SeenBatch
from refimpl.machines.replica_log import Origin
from refimpl.storage.cleaner.compaction import compact
from refimpl.storage.config import LogConfig
from refimpl.storage.disk.interface import MemoryDisk
from refimpl.storage.format.batch import Record, encode_batch
from refimpl.storage.format.control import EndTxnMarker, encode_marker
from refimpl.storage.log import recall
from refimpl.storage.log.log_dir import LogDir
from refimpl.storage.log.partition_log import PartitionLog
from refimpl.storage.log.recall import BATCHES, INTERVALS
from tests.refimpl.storage.verified import append_verified

NOW_MS, ORDERS = 1_000, ("orders", 0)
CONFIG = LogConfig(index_interval_bytes=300, min_compaction_lag_ms=0)
END = LARGEST_SEQUENCE


class CountingDisk(MemoryDisk):
    """A disk that counts the bytes that are read of `.log` files."""

    bytes_read = 0

    def read(self, path: str, position: int, length: int) -> bytes:
        data = super().read(path, position, length)
        self.bytes_read += len(data) if path.endswith(".log") else 0
        return data


def opened(disk: MemoryDisk, config: LogConfig = CONFIG) -> tuple[LogDir, PartitionLog]:
    directory = LogDir.open(disk, NOW_MS, config)
    log = directory.logs.get(ORDERS) or directory.create(ORDERS, bytes(16), NOW_MS)
    return directory, log


def batch(
    sequence: int, count: int = 1, *, producer: int = 7, epoch: int = 0, key: bytes = b"k",
    size: int = 10, transactional: bool = False,
) -> bytes:  # fmt: skip
    records = [Record(n, NOW_MS, key, bytes(size)) for n in range(count)]
    fields = {"producer_id": producer, "producer_epoch": epoch, "base_sequence": sequence}
    return encode_batch(records, transactional=transactional, **fields)  # type: ignore[arg-type]


def append(log: PartitionLog, *batches: bytes) -> None:
    for one in batches:
        append_verified(log, one, 0, NOW_MS)
    log.advance_high_watermark(log.end_offset)


def marker(log: PartitionLog, epoch: int = 0) -> None:
    data = encode_marker(
        EndTxnMarker(True, 1), producer_id=7, producer_epoch=epoch, timestamp=NOW_MS
    )
    log.append_as_leader(data, 0, NOW_MS, Origin.COORDINATOR)


def seen(log: PartitionLog) -> dict[int, list[SeenBatch]]:
    return {id: [*one.seen] for id, one in log.producers.producers.items()}


def firsts(log: PartitionLog, producer: int = 7) -> list[int]:
    return [one.first_sequence for one in log.producers.producers[producer].seen]


def restarted(directory: LogDir, config: LogConfig = CONFIG) -> PartitionLog:
    directory.close()
    disk = directory.disk.disk
    assert isinstance(disk, MemoryDisk)
    return opened(disk, config)[1]


# The rule


@pytest.mark.parametrize(
    ("epoch", "first", "last", "may"),
    [
        (3, 8, 9, True),
        (3, 7, 8, False),
        (3, 9, 10, False),
        (2, 8, 9, False),
        (3, -1, -1, False),
    ],
)
def test_a_batch_is_recalled_if_it_is_right_before(
    epoch: int, first: int, last: int, may: bool
) -> None:
    producer = Producer(3)
    producer.seen.append(SeenBatch(10, 12, 40, 42))
    assert producer.recall(epoch, SeenBatch(first, last, 20)) == may
    assert [one.first_sequence for one in producer.seen] == ([first, 10] if may else [10])


def test_nothing_is_right_before_a_batch_without_sequences() -> None:
    producer = Producer(3)
    producer.seen.append(SeenBatch(-1, -1, 40, 42))
    assert not producer.recall(3, SeenBatch(END - 1, END, 20))
    assert not producer.recall(3, SeenBatch(-1, -1, 20))


def test_before_the_first_sequence_there_is_no_batch_without_one() -> None:
    producer = Producer(3)
    producer.seen.append(SeenBatch(0, 0, 40, 40))
    assert not producer.recall(3, SeenBatch(-1, -1, 20))


# A restart


def test_a_batch_in_flight_is_known_again_after_a_clean_restart() -> None:
    directory, log = opened(MemoryDisk())
    append(log, batch(0), batch(1), batch(2))
    again = restarted(directory)
    repeated = again.append_as_leader(batch(1), 1, NOW_MS)
    assert (repeated.duplicate, repeated.first_offset) == (True, 1)
    assert seen(again) == seen(log)
    assert again.append_as_leader(batch(3), 1, NOW_MS).first_offset == 3


def test_five_batches_are_recalled_and_no_more() -> None:
    directory, log = opened(MemoryDisk())
    append(log, *map(batch, range(8)))
    again = restarted(directory)
    assert firsts(again) == [3, 4, 5, 6, 7]
    with pytest.raises(OutOfOrderSequence):
        again.append_as_leader(batch(2), 1, NOW_MS)


@pytest.mark.parametrize("last", [END, 2])
def test_sequences_go_on_at_0(last: int) -> None:
    """Between two batches, and within one."""
    directory, log = opened(MemoryDisk())
    count = (last - (END - 4)) % (END + 1)
    append(log, batch(END - 5, 2), batch(END - 3, count), batch((last + 1) % (END + 1), 2))
    assert log.producers.producers[7].seen[1].last_sequence == last
    assert seen(restarted(directory)) == seen(log)


def test_a_batch_of_another_epoch_is_not_recalled() -> None:
    directory, log = opened(MemoryDisk())
    append(log, batch(0), batch(1), batch(0, epoch=1), batch(1, epoch=1))
    assert firsts(restarted(directory)) == [0, 1]


def test_a_marker_of_the_same_epoch_is_passed() -> None:
    directory, log = opened(MemoryDisk())
    append(log, batch(0, transactional=True))
    marker(log)
    append(log, batch(1, transactional=True), batch(2, transactional=True))
    again = restarted(directory)
    assert firsts(again) == [0, 1, 2]
    assert (again.producers.opened, again.producers.producers[7].coordinator_epoch) == ({2: 7}, 1)


def test_a_marker_of_another_epoch_is_the_end() -> None:
    directory, log = opened(MemoryDisk())
    append(log, batch(0, transactional=True))
    marker(log, epoch=1)
    again = restarted(directory)
    assert (firsts(again), again.producers.producers[7].epoch) == ([], 1)


def test_no_batch_before_a_marker_of_an_earlier_epoch_is_asked_for() -> None:
    """Compaction took the first batch of the newest epoch, so only the marker ends the reading."""
    disk = CountingDisk()
    directory, log = opened(disk)
    append(log, batch(0, key=b"stays", transactional=True))
    append(log, *(encode_batch([Record(0, NOW_MS, b"%d" % n, bytes(50))]) for n in range(200)))
    marker(log)
    append(log, batch(0, epoch=1), batch(1, epoch=1), batch(2, epoch=1, key=b"other"))
    log.roll(NOW_MS)
    compact(log, 0, NOW_MS)
    directory.close()
    disk.bytes_read = 0
    assert firsts(opened(disk)[1]) == [1, 2]
    assert disk.bytes_read < 6_000 < log.local.size / 4


def test_a_batch_below_the_log_start_is_not_recalled() -> None:
    directory, log = opened(MemoryDisk())
    append(log, batch(0, 2), batch(2, 2), batch(4, 2))
    log.advance_log_start(3)
    assert firsts(restarted(directory)) == [2, 4]


def test_batches_of_the_segments_before_are_recalled() -> None:
    directory, log = opened(MemoryDisk())
    for sequence in range(6):
        append(log, batch(sequence))
        log.roll(NOW_MS)
    assert len(log.local.segments) == 7
    again = restarted(directory)
    assert seen(again) == seen(log)
    assert firsts(again) == [1, 2, 3, 4, 5]


def test_producers_between_each_other_each_have_their_own() -> None:
    directory, log = opened(MemoryDisk())
    for sequence in range(7):
        append(log, batch(sequence), batch(sequence + 4, producer=8, count=1 + sequence * 0))
        append(log, encode_batch([Record(0, NOW_MS, b"k", b"of nobody")]))
    assert seen(restarted(directory)) == seen(log)


# Other readers of a snapshot


def test_a_truncation_to_a_snapshot_recalls_too() -> None:
    _, log = opened(MemoryDisk())
    append(log, batch(0), batch(1))
    log.roll(NOW_MS)
    before = seen(log)
    append(log, batch(2))
    log.truncate_to(2, NOW_MS)
    assert seen(log) == before


def test_a_recovery_that_begins_at_a_snapshot_recalls_too() -> None:
    disk = MemoryDisk()
    directory, log = opened(disk)
    append(log, batch(0), batch(1), batch(2))
    log.roll(NOW_MS)
    append(log, batch(3))
    directory.flush()
    directory.checkpoint()
    again = opened(disk)[1]  # without a clean stop
    assert again.end_offset == 4
    assert firsts(again) == [0, 1, 2, 3]


# Compaction


def test_a_batch_that_compaction_removed_leaves_nothing_before_it() -> None:
    """The batch before a hole is there, and is not right before the one behind it."""
    directory, log = opened(MemoryDisk())
    append(log, batch(0, key=b"stays"), batch(1), batch(2), batch(3), batch(4, key=b"other"))
    log.roll(NOW_MS)
    compact(log, 0, NOW_MS)
    again = restarted(directory)
    assert firsts(again) == [3, 4]


def test_a_batch_that_compaction_shortened_keeps_its_sequences() -> None:
    directory, log = opened(MemoryDisk())
    append(log, batch(0, 3), batch(3, 2, key=b"other"), batch(5, key=b"last"))
    before = seen(log)
    log.roll(NOW_MS)
    compact(log, 0, NOW_MS)
    again = restarted(directory)
    assert seen(again) == before
    assert again.append_as_leader(batch(0, 3), 1, NOW_MS).duplicate


# The bound


def interleaved(log: PartitionLog, others: int, size: int) -> None:
    """Two batches of producer 7 with so many of another one in between."""
    append(log, batch(1), *(batch(n, producer=8, size=size) for n in range(others)), batch(2))


@pytest.mark.parametrize(("size", "within"), [(10, BATCHES), (600, INTERVALS)])
def test_the_reading_is_bounded_by_batches_and_by_intervals(size: int, within: int) -> None:
    config = evolve(CONFIG, index_interval_bytes=1_000 if size == 10 else 300)
    for others, found in ((within // 2, [1, 2]), (within + 40, [2])):
        directory, log = opened(MemoryDisk(), config)
        interleaved(log, others, size)
        assert firsts(restarted(directory, config)) == found


def test_of_an_interval_so_many_batches_are_read_and_no_more() -> None:
    """Two of them are of the producer whose earlier one is recalled."""
    config = evolve(CONFIG, index_interval_bytes=1_000_000)
    for others, found in ((BATCHES - 2, [1, 2]), (BATCHES - 1, [2])):
        directory, log = opened(MemoryDisk(), config)
        interleaved(log, others, 10)
        assert firsts(restarted(directory, config)) == found


def test_a_start_reads_no_whole_segment() -> None:
    disk = CountingDisk()
    config = evolve(CONFIG, index_interval_bytes=4096)
    directory, log = opened(disk, config)
    for sequence in range(10_000):
        append(log, batch(sequence, producer=8))
    append(log, batch(1), batch(2))
    directory.close()
    disk.bytes_read = 0
    again = opened(disk, config)[1]
    assert firsts(again) == [1, 2]
    assert disk.bytes_read < BATCHES * 100 < log.local.size / 4


def test_a_start_ends_early_once_each_producer_has_its_five() -> None:
    disk = CountingDisk()
    directory, log = opened(disk)
    append(log, *map(batch, range(500)))
    directory.close()
    disk.bytes_read = 0
    again = opened(disk)[1]
    assert len(firsts(again)) == WINDOW
    assert disk.bytes_read < 3_000


def test_a_log_without_producers_is_not_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> Iterator[None]:
        raise AssertionError("batches were read")

    directory, log = opened(MemoryDisk())
    append(log, encode_batch([Record(0, NOW_MS, b"k", b"v")]))
    monkeypatch.setattr(recall, "_intervals", never)
    assert restarted(directory).end_offset == 1


# All of it


steps = st.lists(
    st.tuples(
        st.sampled_from(["append"] * 12 + ["roll", "epoch", "truncate", "start", "restart"]),
        st.sampled_from([7, 8, 9]),
        st.sampled_from([2, 4]),
    ),
    min_size=1,
    max_size=40,
)


@given(steps, st.sampled_from([0, END - 6]), st.sampled_from([1, 300, 5_000]))
def test_after_a_restart_a_leader_knows_the_batches_that_it_knew(
    steps: list[tuple[str, int, int]], start: int, interval: int
) -> None:
    """Below the log start it need not.

    Of an even number of records no batch begins at 0 after the largest sequence (see `recall`).
    """
    config = evolve(CONFIG, index_interval_bytes=interval)
    directory, log = opened(MemoryDisk(), config)
    epochs: dict[int, int] = {7: 0, 8: 0, 9: 0}
    for what, producer, count in steps:
        known = log.producers.producers.get(producer)
        if what == "append":
            goes_on = known is not None and known.seen and known.epoch == epochs[producer]
            last = known.last_sequence if goes_on and known is not None else start - 1
            sequence = (last + 1) % (END + 1) if goes_on or known is None else 0
            append(log, batch(sequence, count, producer=producer, epoch=epochs[producer]))
        elif what == "epoch":
            epochs[producer] += 1
        elif what == "roll":
            log.roll(NOW_MS)
        elif what == "truncate":
            log.truncate_to(max(log.end_offset - count, log.log_start_offset), NOW_MS)
        elif what == "start":
            log.advance_log_start(min(log.log_start_offset + count, log.high_watermark))
        else:
            before = readable(log)
            directory.close()
            directory, log = opened(directory.disk.disk, config)  # type: ignore[arg-type]
            assert readable(log) == before
            event("more than one batch" if any(map(above_one, before.values())) else "at most one")
    before = readable(log)
    assert readable(restarted(directory, config)) == before


def above_one(batches: list[SeenBatch]) -> bool:
    return len(batches) > 1


def readable(log: PartitionLog) -> dict[int, list[SeenBatch]]:
    """The batches of each producer above the log start, and the last one in any case."""
    return {
        id: [one for one in batches[:-1] if one.last_offset >= log.log_start_offset] + batches[-1:]
        for id, batches in seen(log).items()
    }
