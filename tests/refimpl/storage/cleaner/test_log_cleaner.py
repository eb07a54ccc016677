"""The cleaner's choice of a log, its range, and its checkpoint."""

from attrs import evolve

from refimpl.broker.file_logs import FileLogs
from refimpl.messages.broker import TopicPartition
from refimpl.storage.cleaner.log_cleaner import CLEANER_OFFSETS, LogCleaner
from refimpl.storage.config import LogConfig
from refimpl.storage.disk.interface import MemoryDisk
from refimpl.storage.format.batch import Record, encode_batch
from refimpl.storage.format.checkpoints import read_offsets
from refimpl.storage.log.log_dir import LogDir
from tests.refimpl.storage.cleaner.compacted import CONFIG, RETENTION_MS, Compacted, held

NOW_MS = 10_000
A, B = ("a", 0), ("b", 0)


def directory(config: LogConfig = CONFIG, disk: MemoryDisk | None = None) -> LogDir:
    return LogDir.open(disk or MemoryDisk(), NOW_MS, config)


def fill(where: LogDir, partition: tuple[str, int], batches: int, now_ms: int = NOW_MS) -> None:
    """Values of one key, then a new segment."""
    log = where.logs.get(partition) or where.create(partition, bytes(16), now_ms)
    for _ in range(batches):
        log.append_as_leader(encode_batch([Record(0, now_ms, b"key", b"v" * 20)]), 0, now_ms)
    log.advance_high_watermark(log.end_offset)
    log.roll(now_ms)


def test_the_dirtiest_log_goes_first() -> None:
    where = directory()
    fill(where, A, 10)
    cleaner = LogCleaner(where)
    cleaner.clean_dirtiest(NOW_MS)
    fill(where, A, 1)
    fill(where, B, 10)
    done = cleaner.clean_dirtiest(NOW_MS)
    assert done is not None
    assert done[0] == B
    assert done[1].bytes_kept < done[1].bytes_read


def test_a_log_that_is_clean_enough_is_left_alone() -> None:
    where = directory(evolve(CONFIG, min_cleanable_dirty_ratio=0.9))
    fill(where, A, 10)
    cleaner = LogCleaner(where)
    assert cleaner.clean_dirtiest(NOW_MS) is not None
    assert cleaner.clean_dirtiest(NOW_MS) is None


def test_a_log_that_has_waited_long_enough_goes_whatever_its_share_of_dirt() -> None:
    """KIP-354."""
    where = directory(evolve(CONFIG, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=50))
    fill(where, A, 3)
    cleaner = LogCleaner(where)
    assert cleaner.clean_dirtiest(NOW_MS + 50) is None
    assert cleaner.clean_dirtiest(NOW_MS + 51) is not None


def test_young_records_are_left_alone() -> None:
    """KIP-58."""
    where = directory(evolve(CONFIG, min_compaction_lag_ms=50))
    fill(where, A, 3)
    cleaner = LogCleaner(where)
    assert cleaner.clean_dirtiest(NOW_MS + 49) is None
    assert cleaner.clean_dirtiest(NOW_MS + 50) is not None


def test_how_far_a_log_is_clean_survives_a_restart() -> None:
    disk = MemoryDisk()
    where = directory(disk=disk)
    fill(where, A, 10)
    LogCleaner(where).clean_dirtiest(NOW_MS)
    assert read_offsets(disk, CLEANER_OFFSETS) == {A: 10}
    assert LogCleaner(where).clean_dirtiest(NOW_MS) is None


def test_a_crash_after_compaction_damages_no_log_whose_settings_are_not_known_yet() -> None:
    """A broker opens its logs before the controller has told it that a topic is compacted.

    The recovery point on disk may be one from before the compaction, inside of what that removed.
    """
    disk, config = MemoryDisk(), evolve(CONFIG, segment_bytes=1 << 20)
    where = directory(config, disk)
    log = where.create(A, bytes(16), NOW_MS)
    for _ in range(5):
        log.append_as_leader(encode_batch([Record(0, NOW_MS, b"key", b"v")]), 0, NOW_MS)
    log.flush()
    log.local.write_marks()
    fill(where, A, 5)
    cleaner = LogCleaner(where)
    assert cleaner.clean_dirtiest(NOW_MS) is not None
    opened = LogDir.open(disk, NOW_MS, evolve(config, cleanup_policy=frozenset({"delete"})))
    assert opened.damaged == {}
    assert opened.logs[A].end_offset == 10


def test_what_is_written_behind_a_cut_is_dirty_again() -> None:
    where = directory()
    fill(where, A, 10)
    cleaner = LogCleaner(where)
    cleaner.clean_dirtiest(NOW_MS)
    fill(where, A, 10)
    where.logs[A].truncate_to(15, NOW_MS)
    fill(where, A, 10)
    (dirt,) = cleaner.dirt(NOW_MS)
    assert dirt.first_dirty == 10
    cleaner.clean_dirtiest(NOW_MS)
    where.logs[A].truncate_to(12, NOW_MS)
    assert read_offsets(where.disk, CLEANER_OFFSETS)[A] <= 12
    fill(where, A, 20)
    (dirt,) = cleaner.dirt(NOW_MS)
    assert dirt.first_dirty <= 12


def test_what_a_recovery_cut_before_the_cleaner_was_there_is_dirty() -> None:
    disk = MemoryDisk()
    where = directory(disk=disk)
    fill(where, A, 10)
    LogCleaner(where).clean_dirtiest(NOW_MS)
    again = directory(disk=disk)
    again.logs[A].truncate_to(5, NOW_MS)
    cleaner = LogCleaner(again)
    fill(again, A, 10)
    (dirt,) = cleaner.dirt(NOW_MS)
    assert dirt.first_dirty <= 5


def test_a_partition_that_bears_the_name_of_one_that_was_deleted_is_dirty() -> None:
    logs = FileLogs(MemoryDisk(), lambda: NOW_MS, CONFIG)
    logs.open(TopicPartition(*A))
    fill(logs.directory, A, 10)
    logs.cleaner.clean_dirtiest(NOW_MS)
    logs.delete(TopicPartition(*A))
    logs.open(TopicPartition(*A))
    fill(logs.directory, A, 20)
    (dirt,) = logs.cleaner.dirt(NOW_MS)
    assert dirt.first_dirty == 0


def test_a_replica_that_cuts_its_log_tells_the_cleaner() -> None:
    logs = FileLogs(MemoryDisk(), lambda: NOW_MS, CONFIG)
    log = logs.open(TopicPartition(*A)).log
    fill(logs.directory, A, 10)
    logs.cleaner.clean_dirtiest(NOW_MS)
    log.truncate_to(5)
    fill(logs.directory, A, 10)
    (dirt,) = logs.cleaner.dirt(NOW_MS)
    assert dirt.first_dirty <= 5


def test_a_damaged_checkpoint_costs_work_and_nothing_else() -> None:
    disk = MemoryDisk()
    where = directory(disk=disk)
    fill(where, A, 10)
    disk.append(CLEANER_OFFSETS, b"no checkpoint")
    assert LogCleaner(where).clean_dirtiest(NOW_MS) is not None


def test_a_damaged_log_is_named_and_left_alone_and_the_others_go_on() -> None:
    """KIP-346."""
    disk = MemoryDisk()
    where = directory(disk=disk)
    fill(where, A, 20)
    fill(where, B, 10)
    path = where.logs[A].local.segments[0].path
    disk.files[path][70] ^= 1
    before = bytes(disk.files[path])
    cleaner = LogCleaner(where)
    cleaned = [cleaner.clean_dirtiest(NOW_MS) for _ in range(2)]
    assert [done[0] for done in cleaned if done] == [B]
    assert path in cleaner.uncleanable[A]
    assert disk.files[path] == before


def test_a_log_with_more_keys_than_there_is_room_for_is_cleaned_in_several_rounds() -> None:
    model = Compacted(config=evolve(CONFIG, segment_bytes=10_000))
    for number in range(30):
        model.append([(b"%d" % (number % 10), b"%d" % number)])
    model.roll()
    ends = [model.clean(room=4).end_offset for _ in range(8)]
    assert ends == sorted(ends)
    assert ends[0] < ends[-1] == 30
    assert [record.value for record in held(model.log)] == [b"%d" % n for n in range(20, 30)]


def test_not_even_one_batch_with_room_for_its_keys_is_an_error_and_no_endless_loop() -> None:
    where = directory()
    log = where.create(A, bytes(16), NOW_MS)
    records = [Record(n, NOW_MS, b"%d" % n, b"v") for n in range(5)]
    log.append_as_leader(encode_batch(records), 0, NOW_MS)
    log.advance_high_watermark(log.end_offset)
    log.roll(NOW_MS)
    cleaner = LogCleaner(where, room=4)
    assert cleaner.clean_dirtiest(NOW_MS) is None
    assert "room for 4 keys" in cleaner.uncleanable[A]


def test_tombstones_and_markers_do_go_in_the_end() -> None:
    """The properties say what must not go too early; this says that it goes."""
    model = Compacted(config=evolve(CONFIG, segment_bytes=10_000))
    model.append([(b"k", b"v")], producer=1, transactional=True)
    model.end_transaction(1, committed=False)
    model.append([(b"k", None)], producer=1, transactional=True)
    model.end_transaction(1, committed=True)
    sizes: list[int] = []
    for _ in range(5):
        model.append([(b"other", b"v")], producer=1)
        model.roll()
        sizes.append(model.clean().bytes_kept)
        model.now_ms += 2 * RETENTION_MS
    assert [record.key for record in held(model.log)] == [b"other"]
    assert sizes[-1] < sizes[0]
    assert not any(segment.txn_index.entries() for segment in model.log.local.segments)


def test_a_tombstone_stays_until_every_reader_had_time_to_see_it() -> None:
    """KIP-534: the time begins when the cleaner first meets it, not when it was written."""
    model = Compacted(config=evolve(CONFIG, segment_bytes=10_000))
    model.append([(b"k", None)])
    left: list[list[bytes | None]] = []
    for later_ms in (5 * RETENTION_MS, RETENTION_MS - 1, 1):
        model.now_ms += later_ms
        model.append([(b"other", b"v")])
        model.roll()
        model.clean()
        left.append([record.key for record in held(model.log)])
    assert left == [[b"k", b"other"], [b"k", b"other"], [b"other"]]


def test_what_is_behind_the_keys_that_are_known_stays_whatever_it_is() -> None:
    model = Compacted(config=evolve(CONFIG, segment_bytes=10_000))
    model.append([(b"a", b"v")])
    model.append([(b"b", b"v")])
    model.append([(None, b"v")])
    model.roll()
    assert model.clean(room=1).end_offset == 1
    assert [record.offset for record in held(model.log)] == [0, 1, 2]


def test_a_marker_stays_as_long_as_a_record_of_its_transaction() -> None:
    """Without it a start would take the transaction for open, and readers would wait for ever."""
    model = Compacted(config=evolve(CONFIG, segment_bytes=10_000))
    model.append([(b"k", b"v")], producer=1, transactional=True)
    model.end_transaction(1, committed=True)
    for _ in range(5):
        model.append([(b"other", b"v")])
        model.roll()
        model.clean()
        model.now_ms += 2 * RETENTION_MS
    kinds = [header.is_control for _, header in model.log.local.segments[0].headers()]
    assert kinds == [False, True, False]


def test_an_aborted_record_supersedes_nothing() -> None:
    model = Compacted()
    model.append([(b"k", b"committed")])
    model.append([(b"k", b"aborted")], producer=1, transactional=True)
    model.end_transaction(1, committed=False)
    model.roll()
    model.clean()
    assert [record.value for record in held(model.log)] == [b"committed"]


def test_an_open_transaction_holds_the_cleaner_back() -> None:
    model = Compacted()
    model.append([(b"k", b"old")])
    model.append([(b"k", b"new")], producer=1, transactional=True)
    model.roll()
    assert model.clean().end_offset == 0
    model.end_transaction(1, committed=True)
    assert model.clean().end_offset == 2
    assert [record.value for record in held(model.log)] == [b"new"]


def test_the_end_of_what_was_cleaned_is_kept_though_nothing_there_is() -> None:
    """A record without a key goes; if it was the last, its offset must not be given again."""
    model = Compacted()
    model.append([(b"k", b"v")])
    model.append([(None, b"v")])
    model.roll()
    model.clean()
    assert [record.offset for record in held(model.log)] == [0]
    assert [header.next_offset for _, header in model.log.local.segments[0].headers()] == [1, 2]


def test_a_log_that_is_not_compacted_is_not_looked_at() -> None:
    where = directory(evolve(CONFIG, cleanup_policy=frozenset({"delete"})))
    fill(where, A, 10)
    assert list(LogCleaner(where).dirt(NOW_MS)) == []
