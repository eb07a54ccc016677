"""A log's start, its snapshots of producers and its keys, when the cleaner goes over it."""

from attrs import evolve

from refimpl.storage.cleaner.compaction import Cleaned, compact
from refimpl.storage.cleaner.log_cleaner import LogCleaner
from refimpl.storage.cleaner.offset_map import OffsetMap
from refimpl.storage.format.batch import Record, encode_batch
from tests.refimpl.storage.cleaner.compacted import CONFIG, held
from tests.refimpl.storage.cleaner.test_log_cleaner import NOW_MS, A, B, directory, fill


def test_a_log_that_begins_behind_its_clean_part_is_dirty_from_its_start_on() -> None:
    where = directory()
    fill(where, A, 10)
    cleaner = LogCleaner(where)
    cleaner.clean_dirtiest(NOW_MS)
    fill(where, A, 10)
    assert [dirt.first_dirty for dirt in cleaner.dirt(NOW_MS)] == [10]
    where.logs[A].advance_log_start(15)
    assert [dirt.first_dirty for dirt in cleaner.dirt(NOW_MS)] == [15]


def test_snapshots_go_with_segments_that_are_merged_and_stay_with_the_others() -> None:
    """Segments of a few records are merged by twos."""
    where = directory()
    log = where.create(A, bytes(16), NOW_MS)
    for number in range(8):
        value = b"v" * 60
        data = encode_batch([Record(0, NOW_MS, b"%d" % number, value)])
        log.append_as_leader(data, 0, NOW_MS)
        log.advance_high_watermark(log.end_offset)
        log.roll(NOW_MS)
    assert log.snapshots == [1, 2, 3, 4, 5, 6, 7, 8]
    compact(log, 0, NOW_MS)
    bases = [segment.base_offset for segment in log.local.segments]
    assert 2 < len(bases) < 9
    assert log.snapshots == bases[1:]


def test_a_segment_of_some_megabytes_is_copied_whole_in_several_writes() -> None:
    where = directory(evolve(CONFIG, segment_bytes=1 << 24))
    log = where.create(A, bytes(16), NOW_MS)
    for number in range(7):
        record = Record(0, NOW_MS, b"%d" % (number % 5), bytes(400_000))
        log.append_as_leader(encode_batch([record]), 0, NOW_MS)
    log.advance_high_watermark(log.end_offset)
    log.roll(NOW_MS)
    cleaned = compact(log, 0, NOW_MS)
    assert [record.offset for record in held(log)] == [2, 3, 4, 5, 6]
    assert cleaned.end_offset == 7
    assert cleaned.bytes_kept > 2_000_000


def test_where_nothing_is_dirty_nothing_is_read() -> None:
    where = directory()
    fill(where, A, 3)
    log = where.logs[A]
    assert compact(log, log.end_offset, NOW_MS) == Cleaned(log.end_offset, 0, 0)


def test_a_key_that_is_in_a_full_map_already_needs_no_room() -> None:
    keys = OffsetMap(room=1)
    assert keys.put(b"k", 0)
    assert keys.put(b"k", 1)
    assert not keys.put(b"another", 2)
    assert (len(keys), keys.newest(b"k"), keys.newest(b"another")) == (1, 1, -1)


def test_a_batch_of_one_key_fits_where_there_is_room_for_one() -> None:
    where = directory()
    fill(where, A, 3)
    assert compact(where.logs[A], 0, NOW_MS, room=1).end_offset == 3


def test_a_log_that_has_waited_goes_after_those_that_are_dirtier() -> None:
    """As in Kafka's LogToClean: to have waited makes a log worth it, and no dirtier."""
    where = directory(evolve(CONFIG, max_compaction_lag_ms=50))
    fill(where, A, 10)
    cleaner = LogCleaner(where)
    cleaner.clean_dirtiest(NOW_MS)
    fill(where, A, 1)
    later = NOW_MS + 51
    fill(where, B, 10, later)
    due = {dirt.partition: dirt.is_due for dirt in cleaner.dirt(later)}
    assert due == {A: True, B: False}
    done = cleaner.clean_dirtiest(later), cleaner.clean_dirtiest(later)
    assert [one and one[0] for one in done] == [B, A]
