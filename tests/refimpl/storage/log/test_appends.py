"""A leader's appends: those accepted, those refused, and its state of producers."""

from itertools import pairwise

import pytest
from attrs import evolve

from refimpl.errors import (
    CorruptBatch,
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidRecords,
    InvalidTimestamp,
    InvalidTxnState,
    MessageTooLarge,
    OffsetOutOfRange,
    OutOfOrderSequence,
    RecordListTooLarge,
    Refusal,
    RefusedBatch,
    TransactionCoordinatorFenced,
    UnexpectedOffset,
    UnreadableBatch,
    UnsupportedForMessageFormat,
)
from refimpl.machines.replica_log import Origin
from refimpl.storage.config import LogConfig
from refimpl.storage.disk.interface import MemoryDisk
from refimpl.storage.format.batch import (
    Record,
    TimestampType,
    crc_matches,
    decode_records,
    encode_batch,
    read_header,
)
from refimpl.storage.format.compression import Codec
from refimpl.storage.format.control import EndTxnMarker, encode_marker
from refimpl.storage.format.txn_index import AbortedTxn
from refimpl.storage.log.log_dir import LogDir
from refimpl.storage.log.partition_log import PartitionLog
from refimpl.storage.log.recovery import open_log
from refimpl.storage.log.validation import MOST_NAMED
from tests.refimpl.storage.format.bombs import BOMBS, bomb_batch
from tests.refimpl.storage.format.independent import legacy_written_by_others
from tests.refimpl.storage.verified import append_verified

NOW_MS = 1_000_000
CONFIG = LogConfig(max_message_bytes=500, segment_bytes=2_000)


def new_log(config: LogConfig = CONFIG, disk: MemoryDisk | None = None) -> PartitionLog:
    return LogDir.open(disk or MemoryDisk(), NOW_MS, config).create(
        ("orders", 0), bytes(16), NOW_MS
    )


@pytest.fixture
def log() -> PartitionLog:
    return new_log()


def batch(
    count: int = 1, *, size: int = 10, at_ms: int = NOW_MS, offset: int = 0, **fields: int
) -> bytes:
    records = [Record(offset + n, at_ms, b"k", bytes(size)) for n in range(count)]
    return encode_batch(records, **fields)  # type: ignore[arg-type]


def idempotent(sequence: int, count: int = 1, *, epoch: int = 0, producer: int = 7) -> bytes:
    return batch(count, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)


def transactional(sequence: int, *, producer: int = 7) -> bytes:
    return batch(producer_id=producer, producer_epoch=0, base_sequence=sequence, transactional=True)


def end(log: PartitionLog, producer: int, *, committed: bool, coordinator: int = 1) -> int:
    marker = encode_marker(
        EndTxnMarker(committed, coordinator),
        producer_id=producer,
        producer_epoch=0,
        timestamp=NOW_MS,
    )
    return log.append_as_leader(marker, 0, NOW_MS, Origin.COORDINATOR).first_offset


def patched(data: bytes, at: int, value: int, size: int) -> bytes:
    return data[:at] + value.to_bytes(size, signed=True) + data[at + size :]


def with_crc(data: bytes) -> bytes:
    from crc32c import crc32c

    return data[:17] + crc32c(data[21:]).to_bytes(4) + data[21:]


HOUR_MS = 3_600_000
REFUSED: dict[str, tuple[bytes, type[Refusal]]] = {
    "nothing": (b"", InvalidRecord),
    "half a batch": (batch()[:-1], CorruptBatch),
    "a flipped bit": (patched(batch(), 65, 99, 1), CorruptBatch),
    "a length of nothing": (patched(batch(), 8, 0, 4), CorruptBatch),
    "the format of 2012": (patched(batch(), 16, 0, 1), RefusedBatch),
    "the format of the future": (patched(batch(), 16, 9, 1), UnsupportedForMessageFormat),
    "too large": (batch(size=600), MessageTooLarge),
    "larger than a segment": (batch(size=200) * 9, RecordListTooLarge),
    "an offset of its own": (batch(offset=5), InvalidRecord),
    "a control record": (batch(control=True), InvalidRecord),
    "two records that are one": (with_crc(patched(batch(), 57, 2, 4)), InvalidRecord),
    "no record": (with_crc(patched(patched(batch(), 57, 0, 4), 23, -1, 4)), InvalidRecord),
    "a codec nobody knows": (with_crc(patched(batch(), 21, 6, 2)), UnreadableBatch),
    "a delete horizon": (batch(delete_horizon_ms=5), InvalidRecord),
    "no sequence": (batch(producer_id=7, producer_epoch=0), InvalidRecord),
    "a transaction of nobody": (batch(transactional=True), InvalidRecord),
    "from the future": (batch(at_ms=NOW_MS + HOUR_MS + 1), InvalidTimestamp),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_refused_batch_changes_nothing(what: str) -> None:
    disk = MemoryDisk()
    log = new_log(disk=disk)
    log.append_as_leader(batch(), 0, NOW_MS)
    before = {path: bytes(data) for path, data in disk.files.items()}
    data, error = REFUSED[what]
    with pytest.raises(error):
        log.append_as_leader(data, 1, NOW_MS)
    assert {path: bytes(data) for path, data in disk.files.items()} == before
    assert log.end_offset == 1


def test_bounds_of_timestamps_are_inclusive() -> None:
    log = new_log(evolve(CONFIG, message_timestamp_before_max_ms=10))
    log.append_as_leader(batch(at_ms=NOW_MS - 10), 0, NOW_MS)
    log.append_as_leader(batch(at_ms=NOW_MS + HOUR_MS), 0, NOW_MS)
    with pytest.raises(InvalidTimestamp, match="rejected due to invalid timestamp") as refused:
        log.append_as_leader(batch(2, at_ms=NOW_MS - 11), 0, NOW_MS)
    (number, why), *_ = refused.value.records
    assert (number, f"within [{NOW_MS - 10}, {NOW_MS + HOUR_MS}]" in why) == (0, True)


def test_the_broker_stamps_where_it_is_told_to() -> None:
    log = new_log(evolve(CONFIG, message_timestamp_type=TimestampType.LOG_APPEND_TIME))
    appended = log.append_as_leader(batch(2, at_ms=5), 0, NOW_MS)
    assert appended.append_time_ms == NOW_MS
    assert {record.timestamp for record in decode_records(log.read(0, 1))} == {NOW_MS}
    assert log.offset_for_timestamp(NOW_MS) == (0, NOW_MS)


def test_a_timestamp_finds_a_message_of_an_old_format_by_its_header() -> None:
    disk = MemoryDisk()
    disk.make_folder("orders-0")
    for offset in range(3):
        record = Record(offset, NOW_MS + offset, b"k", b"v")
        message = legacy_written_by_others([record], 1, Codec.NONE)
        disk.append(f"orders-0/{0:020}.log", offset.to_bytes(8) + message[8:])
    log = open_log(disk, "orders-0", CONFIG, NOW_MS, clean=False)
    log.advance_high_watermark(log.end_offset)
    found = [log.offset_for_timestamp(NOW_MS + later) for later in range(4)]
    assert found == [(0, NOW_MS), (1, NOW_MS + 1), (2, NOW_MS + 2), None]


def test_record_bytes_reach_the_disk_as_they_came(log: PartitionLog) -> None:
    log.append_as_leader(batch(), 0, NOW_MS)
    sent = batch(3) + batch(2)
    assert log.append_as_leader(memoryview(sent), 4, NOW_MS).last_offset == 5
    kept = log.read(1, 1_000)
    assert kept[16 : len(batch(3))] == sent[16 : len(batch(3))]
    assert [read_header(kept).leader_epoch, log.epochs.latest] == [4, 4]


def test_a_repeated_batch_is_told_where_it_went_the_first_time(log: PartitionLog) -> None:
    sent = [idempotent(sequence, 2) for sequence in range(0, 12, 2)]
    for data in sent:
        log.append_as_leader(data, 0, NOW_MS)
    for number, data in enumerate(sent[1:], start=1):
        again = log.append_as_leader(data, 0, NOW_MS)
        assert (again.duplicate, again.first_offset) == (True, 2 * number)
    with pytest.raises(OutOfOrderSequence):  # the sixth last is forgotten
        log.append_as_leader(sent[0], 0, NOW_MS)
    assert log.end_offset == 12


@pytest.mark.parametrize("sequence", [0, 1, 3, 2**31 - 1])
def test_a_sequence_must_follow(log: PartitionLog, sequence: int) -> None:
    log.append_as_leader(idempotent(0, 2), 0, NOW_MS)
    with pytest.raises(OutOfOrderSequence, match=f"sequence 2, not {sequence}"):
        log.append_as_leader(idempotent(sequence), 0, NOW_MS)


def test_sequences_wrap_around(log: PartitionLog) -> None:
    log.append_as_leader(idempotent(2**31 - 2, 2), 0, NOW_MS)
    log.append_as_leader(idempotent(0), 0, NOW_MS)
    assert log.end_offset == 3


def test_a_new_producer_epoch_begins_at_zero_and_fences_the_old(log: PartitionLog) -> None:
    log.append_as_leader(idempotent(0), 0, NOW_MS)
    with pytest.raises(OutOfOrderSequence):
        log.append_as_leader(idempotent(1, epoch=1), 0, NOW_MS)
    log.append_as_leader(idempotent(0, epoch=1), 0, NOW_MS)
    with pytest.raises(InvalidProducerEpoch, match="at epoch 1, not 0"):
        log.append_as_leader(idempotent(1), 0, NOW_MS)


def test_the_last_stable_offset_waits_for_the_oldest_open_transaction(log: PartitionLog) -> None:
    log.append_as_leader(batch(), 0, NOW_MS)
    append_verified(log, transactional(0), 0, NOW_MS)
    append_verified(log, transactional(0, producer=8), 0, NOW_MS)
    log.advance_high_watermark(3)
    assert log.last_stable_offset == 1
    assert end(log, 7, committed=True) == 3
    assert log.last_stable_offset == 1, "the marker is not replicated yet"
    log.advance_high_watermark(4)
    assert log.last_stable_offset == 2
    end(log, 8, committed=False)
    log.advance_high_watermark(5)
    assert log.last_stable_offset == 5
    assert log.aborted_transactions(0, 5) == [AbortedTxn(2, 4, 8, 5)]
    assert log.aborted_transactions(0, 2) == []


def test_transactions_that_came_in_one_piece_are_told_apart() -> None:
    """As a follower gets them: begun and ended within one fetch."""
    leader, follower = new_log(), new_log()
    append_verified(leader, transactional(0), 0, NOW_MS)
    append_verified(leader, transactional(0, producer=8), 0, NOW_MS)
    end(leader, 7, committed=False)
    end(leader, 8, committed=False)
    follower.append_as_follower(leader.read(0, 10_000), 0, NOW_MS)
    expected = [AbortedTxn(0, 2, 7, 1), AbortedTxn(1, 3, 8, 4)]
    assert leader.aborted_transactions(0, 3) == follower.aborted_transactions(0, 3) == expected


def test_a_transaction_is_not_mixed_with_other_records(log: PartitionLog) -> None:
    append_verified(log, transactional(0), 0, NOW_MS)
    with pytest.raises(InvalidTxnState, match="open in epoch 0 since offset 0"):
        log.append_as_leader(idempotent(1), 0, NOW_MS)


def test_a_replaced_coordinator_ends_nothing(log: PartitionLog) -> None:
    append_verified(log, transactional(0), 0, NOW_MS)
    end(log, 7, committed=True, coordinator=5)
    append_verified(log, transactional(1), 0, NOW_MS)
    with pytest.raises(TransactionCoordinatorFenced):
        end(log, 7, committed=True, coordinator=4)


def test_silent_producers_are_forgotten_but_not_with_a_transaction_open(log: PartitionLog) -> None:
    log.append_as_leader(idempotent(0), 0, NOW_MS)
    append_verified(log, transactional(0, producer=8), 0, NOW_MS)
    log.producers.expire_all(NOW_MS + 100, after_ms=100)
    assert set(log.producers.producers) == {8}
    log.append_as_leader(idempotent(41), 0, NOW_MS)  # nothing contradicts it (KIP-360)


@pytest.mark.parametrize("clean", [True, False])
def test_producers_are_remembered_over_a_start(clean: bool) -> None:
    disk = MemoryDisk()
    directory = LogDir.open(disk, NOW_MS, CONFIG)
    log = directory.create(("orders", 0), bytes(16), NOW_MS)
    for sequence in range(40):
        log.append_as_leader(idempotent(sequence), 0, NOW_MS)
    append_verified(log, transactional(0, producer=8), 0, NOW_MS)
    assert len(log.local.segments) > 1
    if clean:
        directory.close()
    again = LogDir.open(disk, NOW_MS, CONFIG).log(("orders", 0))
    assert again.append_as_leader(idempotent(39), 0, NOW_MS).duplicate
    with pytest.raises(OutOfOrderSequence):
        again.append_as_leader(idempotent(41), 0, NOW_MS)
    again.advance_high_watermark(41)
    assert again.last_stable_offset == 40


def test_a_follower_takes_what_continues_its_log(log: PartitionLog) -> None:
    fetched = batch(2, leader_epoch=3) + batch(1, offset=7, leader_epoch=4)
    assert log.append_as_follower(fetched[:-1], 4, NOW_MS)
    assert (log.end_offset, log.epochs.epochs) == (2, [3])
    assert log.append_as_follower(batch(1, offset=7, leader_epoch=4), 3, NOW_MS) is None
    assert log.append_as_follower(batch(1, offset=7, leader_epoch=4), 4, NOW_MS)
    assert (log.end_offset, log.epochs.starts) == (8, [0, 7])
    with pytest.raises(UnexpectedOffset, match="offset 5, where 8 must follow"):
        log.append_as_follower(batch(1, offset=5), 4, NOW_MS)
    with pytest.raises(CorruptBatch):
        log.append_as_follower(patched(batch(1, offset=8), 65, 9, 1), 4, NOW_MS)


def test_an_empty_log_that_starts_inside_of_a_batch_takes_the_whole(log: PartitionLog) -> None:
    """The leader's log starts there, for records are deleted up to any offset (KIP-107)."""
    log.restart_at(7, NOW_MS)
    first = batch(5, offset=5, leader_epoch=3, producer_id=7, producer_epoch=0, base_sequence=0)
    for other in (batch(2, offset=5), batch(2, offset=8) + batch(2, offset=9)):
        with pytest.raises(UnexpectedOffset):
            log.append_as_follower(other, 3, NOW_MS)
        assert (log.log_start_offset, log.end_offset) == (7, 7)
    assert log.append_as_follower(first, 3, NOW_MS)
    assert (log.log_start_offset, log.end_offset) == (7, 10)
    assert log.read(7, 1) == first
    assert (log.epochs.epochs, log.epochs.starts) == ([3], [7])
    assert log.producers.producers[7].last_sequence == 4
    with pytest.raises(UnexpectedOffset):
        log.append_as_follower(batch(5, offset=8, leader_epoch=3), 3, NOW_MS)


def test_epochs_answer_where_they_end(log: PartitionLog) -> None:
    for epoch in (2, 2, 5, 7):
        log.append_as_leader(batch(), epoch, NOW_MS)
    answers = {epoch: log.end_offset_for_epoch(epoch) for epoch in (0, 2, 4, 5, 7, 8)}
    assert answers == {0: (0, 0), 2: (2, 2), 4: (2, 2), 5: (5, 3), 7: (7, 4), 8: None}


def test_reading_outside_the_log_is_refused(log: PartitionLog) -> None:
    log.append_as_leader(batch(3), 0, NOW_MS)
    log.advance_high_watermark(3)
    log.advance_log_start(2)
    assert read_header(log.read(2, 1)).base_offset == 0, "a batch is never split"
    assert log.read(3, 1) == b""
    for offset in (1, 4):
        with pytest.raises(OffsetOutOfRange, match="a log from 2 to 3"):
            log.read(offset, 1)
    with pytest.raises(OffsetOutOfRange, match="above the high watermark"):
        log.advance_log_start(4)


def test_a_segment_ends_by_size_time_index_and_offset_range() -> None:
    def bases(config: LogConfig, *sent: bytes) -> list[int]:
        log = new_log(config)
        for data in sent:
            log.append_as_follower(data, 0, NOW_MS)
        return [segment.base_offset for segment in log.local.segments]

    def at(offset: int, at_ms: int = NOW_MS) -> bytes:
        return batch(1, offset=offset, at_ms=at_ms)

    size = len(at(0))
    assert bases(evolve(CONFIG, segment_bytes=2 * size), at(0), at(1), at(2)) == [0, 2]
    assert bases(evolve(CONFIG, segment_ms=10), at(0), at(1, NOW_MS + 10), at(2, NOW_MS + 11)) == [
        0,
        2,
    ]
    for one, other in ((0, 11), (11, 0)):  # the newest of several that come together counts
        together = at(1, NOW_MS + one) + at(2, NOW_MS + other)
        assert bases(evolve(CONFIG, segment_ms=10), at(0), together) == [0, 1]
    sparse = evolve(CONFIG, segment_index_bytes=24, index_interval_bytes=0)
    assert bases(sparse, *map(at, range(5))) == [0, 2, 4]
    assert bases(CONFIG, at(0), at(2**31 - 1), at(2**31)) == [0, 2**31]


@pytest.mark.parametrize(
    ("kind", "told"),
    [(TimestampType.LOG_APPEND_TIME, NOW_MS), (TimestampType.CREATE_TIME, NOW_MS - 5)],
)
def test_a_repeated_batch_is_answered_with_the_time_of_the_first(
    kind: TimestampType, told: int
) -> None:
    """With CreateTime the first time there was none to tell, and its own timestamp stands for it,
    as in Kafka.
    """
    log = new_log(evolve(CONFIG, message_timestamp_type=kind))
    sent = batch(2, at_ms=NOW_MS - 5, producer_id=7, producer_epoch=0, base_sequence=0)
    log.append_as_leader(sent, 0, NOW_MS)
    again = log.append_as_leader(sent, 0, NOW_MS + 50)
    assert again == (0, 1, told, True)


def test_an_index_has_an_entry_per_interval() -> None:
    log = new_log(evolve(CONFIG, index_interval_bytes=200))
    for _ in range(12):
        log.append_as_leader(batch(), 0, NOW_MS)
    index = log.local.active.offset_index.file
    places = [index.get(number)[1] for number in range(index.count)]
    assert places
    assert {after - before for before, after in pairwise(places)} == {3 * len(batch())}


def test_segments_that_began_together_do_not_end_together() -> None:
    """`segment.jitter.ms` shortens each by its own share, the same after a restart."""
    config = evolve(CONFIG, segment_ms=1_000, segment_jitter_ms=400)
    ends: set[int] = set()
    for number in range(8):
        directory = LogDir.open(MemoryDisk(), NOW_MS, config)
        log = directory.create((f"topic-{number}", 0), bytes(16), NOW_MS)
        log.append_as_leader(batch(at_ms=NOW_MS), 0, NOW_MS)
        later = next(
            ms for ms in range(1_100) if log.local.active.must_roll(10, NOW_MS + ms, 1, NOW_MS)
        )
        assert 600 < later <= 1_001
        ends.add(later)
    assert len(ends) > 4


def test_a_compacted_segment_is_closed_in_time_to_be_compacted() -> None:
    config = evolve(CONFIG, cleanup_policy=frozenset({"compact"}), max_compaction_lag_ms=50)
    log = new_log(config)
    for at in (0, 50, 51):
        log.append_as_leader(batch(at_ms=NOW_MS + at), 0, NOW_MS)
    assert [segment.base_offset for segment in log.local.segments] == [0, 2]


@pytest.mark.parametrize("codec", Codec)
def test_a_compacted_topic_takes_no_record_without_a_key(codec: Codec) -> None:
    records = [Record(n, NOW_MS, None if n in (1, 3) else b"k", b"v") for n in range(5)]
    data = encode_batch(records, codec=codec)
    for policy in ("compact", "compact,delete"):
        log = new_log(evolve(CONFIG, cleanup_policy=frozenset(policy.split(","))))
        with pytest.raises(InvalidRecords) as refused:
            log.append_as_leader(data, 0, NOW_MS)
        assert [number for number, _ in refused.value.records] == [1, 3]
        assert log.end_offset == 0
        log.append_as_leader(encode_batch(records[:1], codec=codec), 0, NOW_MS)
    assert new_log(CONFIG).append_as_leader(data, 0, NOW_MS).last_offset == 4


@pytest.mark.parametrize("wanted", Codec)
@pytest.mark.parametrize("sent", Codec)
def test_a_topic_may_have_a_codec_of_its_own(sent: Codec, wanted: Codec) -> None:
    log = new_log(evolve(CONFIG, compression_type=wanted, max_message_bytes=5_000))
    records = [Record(n, NOW_MS + n, b"k", bytes(200)) for n in range(3)]
    data = encode_batch(records, codec=sent, producer_id=7, producer_epoch=0, base_sequence=4)
    assert log.append_as_leader(data, 3, NOW_MS).last_offset == 2
    kept = log.read(0, 10_000)
    header = read_header(kept)
    assert header.codec is wanted
    assert crc_matches(kept, header)
    assert (header.producer_id, header.base_sequence, header.leader_epoch) == (7, 4, 3)
    assert list(decode_records(kept)) == records
    if sent is wanted:
        assert kept[21:] == data[21:]


def test_what_another_codec_makes_too_large_is_refused() -> None:
    log = new_log(evolve(CONFIG, compression_type=Codec.NONE))
    with pytest.raises(MessageTooLarge, match="above 500"):
        log.append_as_leader(batch(size=600, codec=Codec.GZIP), 0, NOW_MS)
    assert log.end_offset == 0


@pytest.mark.parametrize("codec", BOMBS)
def test_nobody_opens_a_bomb(codec: Codec) -> None:
    """Neither for its keys, nor for another codec, nor for a timestamp; it costs one answer."""
    data = bomb_batch(codec, NOW_MS)
    large = LogConfig(max_message_bytes=len(data))
    other = Codec.GZIP if codec is Codec.ZSTD else Codec.ZSTD
    for config in (
        evolve(large, cleanup_policy=frozenset({"compact"})),
        evolve(large, compression_type=other),
    ):
        log = new_log(config)
        with pytest.raises(MessageTooLarge, match="when they are decompressed"):
            log.append_as_leader(data, 0, NOW_MS)
        assert log.end_offset == 0
    log = new_log(large)
    assert log.append_as_leader(data, 0, NOW_MS).last_offset == 0
    with pytest.raises(MessageTooLarge, match="when they are decompressed"):
        log.offset_for_timestamp(NOW_MS)


def test_of_many_records_without_a_key_the_first_ones_are_named() -> None:
    records = [Record(n, NOW_MS, None, b"") for n in range(MOST_NAMED + 3)]
    log = new_log(LogConfig(cleanup_policy=frozenset({"compact"})))
    with pytest.raises(InvalidRecords, match=f"{MOST_NAMED + 3} have none") as refused:
        log.append_as_leader(encode_batch(records, codec=Codec.ZSTD), 0, NOW_MS)
    assert [number for number, _ in refused.value.records] == list(range(MOST_NAMED))


def marked(log: PartitionLog, epoch: int, version: int) -> None:
    marker = EndTxnMarker(committed=True, coordinator_epoch=1)
    data = encode_marker(marker, producer_id=7, producer_epoch=epoch, timestamp=NOW_MS)
    log.append_as_leader(data, 0, NOW_MS, Origin.COORDINATOR, version)
    log.advance_high_watermark(log.end_offset)


def test_a_marker_of_the_epoch_of_its_transaction_comes_late(log: PartitionLog) -> None:
    """KIP-1228: where each transaction has its own epoch, its marker carries the next one."""
    append_verified(log, transactional(0), 0, NOW_MS)
    with pytest.raises(InvalidProducerEpoch, match="a marker of epoch 0 cannot end"):
        marked(log, 0, 2)
    assert log.last_stable_offset == 0
    marked(log, 1, 2)
    assert log.last_stable_offset == log.end_offset == 2
    marked(log, 1, 2)  # repeated: its transaction has ended (KAFKA-19999)
    with pytest.raises(InvalidProducerEpoch):
        marked(log, 0, 2)


def test_a_marker_of_an_older_protocol_has_the_epoch_of_its_transaction(log: PartitionLog) -> None:
    append_verified(log, transactional(0), 0, NOW_MS)
    marked(log, 0, 1)
    assert log.last_stable_offset == 2
