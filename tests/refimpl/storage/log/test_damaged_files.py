"""Flushed files with a flipped bit, a lost end, or gone: the log answers right or names the damage.

Nothing is cut, nothing is invented, and one file takes nothing else with it.
"""

from collections.abc import Callable, Iterator

import pytest

from refimpl.errors import StorageDamage
from refimpl.machines.replica_log import Origin
from refimpl.storage.config import LogConfig
from refimpl.storage.disk.interface import MemoryDisk
from refimpl.storage.format.batch import Record, batches, encode_batch
from refimpl.storage.format.checkpoints import CLEAN_SHUTDOWN, RECOVERY_POINTS
from refimpl.storage.format.control import EndTxnMarker, encode_marker
from refimpl.storage.format.txn_index import TxnIndex
from refimpl.storage.log.log_dir import LogDir
from refimpl.storage.log.partition_log import PartitionLog
from refimpl.storage.log.recovery import Recovery
from refimpl.storage.log.segment import Segment
from tests.refimpl.storage.verified import append_verified

NOW_MS = 1_000_000
CONFIG = LogConfig(
    segment_bytes=900, index_interval_bytes=150, message_timestamp_after_max_ms=2**62
)
ORDERS = "orders", 0
#: The second byte of a batch's attributes, which has its codec, and if it is a control batch
ATTRIBUTES = 22


def transactional_log() -> MemoryDisk:
    """Twelve transactions of two producers, each second one aborted, in some five segments."""
    disk = MemoryDisk()
    directory = LogDir.open(disk, NOW_MS, CONFIG)
    log = directory.create(ORDERS, bytes(16), NOW_MS)
    for number in range(12):
        for producer in (1, 2):
            timestamp = NOW_MS + 10 * number + 37 * (number % 3) + producer
            data = encode_batch(
                [Record(n, timestamp + n, b"k", bytes(20)) for n in (0, 1)],
                producer_id=producer,
                producer_epoch=0,
                base_sequence=2 * number,
                transactional=True,
            )
            append_verified(log, data, 0, NOW_MS)
        for producer in (2, 1):
            marker = encode_marker(
                EndTxnMarker((number + producer) % 2 == 0, 0),
                producer_id=producer,
                producer_epoch=0,
                timestamp=NOW_MS + 10 * number,
            )
            log.append_as_leader(marker, 0, NOW_MS, Origin.COORDINATOR)
    log.advance_high_watermark(log.end_offset)
    directory.close()
    assert len(log.local.segments) > 4
    return disk


def plain_log(batches: int = 10) -> MemoryDisk:
    """Ten batches of three records in one segment, flushed; the broker was killed after that."""
    disk = MemoryDisk()
    directory = LogDir.open(disk, NOW_MS, CONFIG)
    log = directory.create(ORDERS, bytes(16), NOW_MS)
    for _ in range(batches):
        records = [Record(n, NOW_MS, b"k", b"v") for n in range(3)]
        log.append_as_leader(encode_batch(records), 0, NOW_MS)
    log.flush()
    directory.checkpoint()
    return disk


def copied(disk: MemoryDisk) -> MemoryDisk:
    files = {path: bytearray(data) for path, data in disk.files.items()}
    return MemoryDisk(files, set(disk.directories))


def opened(disk: MemoryDisk) -> PartitionLog:
    directory = LogDir.open(disk, NOW_MS, CONFIG)
    assert not directory.damaged, directory.damaged
    log = directory.log(ORDERS)
    log.advance_high_watermark(log.end_offset)
    return log


def damages(data: bytes) -> Iterator[bytes | None]:
    """Each sign bit and one other bit of each byte flipped, some tears, and no file."""
    for number in range(len(data)):
        for mask in (1 << number * 3 % 7, 0x80):
            flipped = bytearray(data)
            flipped[number] ^= mask
            yield bytes(flipped)
    for size in range(0, len(data), 5):
        yield data[:size]
    yield None


def damaged_in(disk: MemoryDisk, suffix: str, *, clean: bool) -> Iterator[MemoryDisk]:
    """The disk with each damage to each file of this kind."""
    for path in sorted(path for path in disk.files if path.endswith(suffix)):
        for content in damages(bytes(disk.files[path])):
            twin = copied(disk)
            if content is None:
                del twin.files[path]
            else:
                twin.files[path][:] = content
            if not clean:
                del twin.files[CLEAN_SHUTDOWN]
            yield twin


Answers = Callable[[PartitionLog], object]


def by_offset(log: PartitionLog) -> object:
    return [log.read(offset, 1) for offset in range(log.end_offset)]


def by_time(log: PartitionLog) -> object:
    newest = [segment.largest_timestamp() for segment in log.local.segments]
    wanted = range(NOW_MS, NOW_MS + 200, 7)
    return newest, [log.offset_for_timestamp(timestamp) for timestamp in wanted]


def aborted(log: PartitionLog) -> object:
    """As readers of committed records ask, segment by segment and over all of it."""
    asked = [segment.base_offset for segment in log.local.segments]
    asked = [log.aborted_transactions(offset, offset + 9) for offset in asked]
    return asked, log.aborted_transactions(0, log.end_offset)


@pytest.mark.parametrize("clean", [True, False], ids=["after a clean stop", "after a crash"])
@pytest.mark.parametrize(
    ("suffix", "answers"),
    [(".index", by_offset), (".timeindex", by_time), (".txnindex", aborted)],
    ids=["index", "timeindex", "txnindex"],
)
def test_a_damaged_index_changes_no_answer(suffix: str, answers: Answers, clean: bool) -> None:
    disk = transactional_log()
    expected = answers(opened(copied(disk)))
    found = [answers(opened(twin)) == expected for twin in damaged_in(disk, suffix, clean=clean)]
    assert len(found) > 100
    assert all(found), f"{found.count(False)} of {len(found)} damaged files gave another answer"


def test_an_aborted_transaction_is_told_though_its_index_is_gone() -> None:
    """The markers are in the log; a reader of committed records must not pay for a lost file."""
    disk = transactional_log()
    told = opened(copied(disk)).aborted_transactions(0, 1_000)
    assert len(told) == 12
    for path in [path for path in disk.files if path.endswith(".txnindex")]:
        del disk.files[path]
    assert opened(disk).aborted_transactions(0, 1_000) == told


def test_an_index_is_mended_on_the_disk_as_well() -> None:
    disk = transactional_log()
    whole = {path: bytes(data) for path, data in disk.files.items() if "index" in path}
    for path in whole:
        disk.files[path][:] = bytes(disk.files[path])[::-1]
    log = opened(disk)
    for answers in (by_offset, by_time, aborted):
        answers(log)
    assert {path: bytes(disk.files[path]) for path in whole} == whole


@pytest.mark.parametrize("bit", range(64))
def test_a_flipped_base_offset_below_the_recovery_point_is_damage(bit: int) -> None:
    """Kafka's CRC does not cover it, so only its neighbours and the recovery point tell."""
    disk = plain_log()
    (path,) = (path for path in disk.files if path.endswith(".log"))
    for position, header in batches(bytes(disk.files[path])):
        twin = copied(disk)
        twin.files[path][position + 7 - bit // 8] ^= 1 << bit % 8
        directory = LogDir.open(twin, NOW_MS, CONFIG)
        assert ORDERS in directory.damaged, f"offset {header.base_offset} became another, silently"
        assert bytes(twin.files[path])[position + 8 :] == bytes(disk.files[path])[position + 8 :]


@pytest.mark.parametrize("bit", [0, 2, 5, 33])
def test_a_flipped_base_offset_above_the_recovery_point_is_cut(bit: int) -> None:
    """That was not flushed: the log ends before what follows out of order."""
    disk = plain_log()
    del disk.files[RECOVERY_POINTS]
    (path,) = (path for path in disk.files if path.endswith(".log"))
    places = dict(batches(bytes(disk.files[path])))
    *_, (position, header), _ = places.items()
    disk.files[path][position + 7 - bit // 8] ^= 1 << bit % 8
    log = opened(disk)
    assert log.end_offset >= header.base_offset
    assert len(disk.files[path]) < sum(header.size for header in places.values())


@pytest.mark.parametrize("clean", [True, False], ids=["after a clean stop", "after a crash"])
def test_a_flipped_kind_of_a_batch_changes_no_answer_or_is_damage(clean: bool) -> None:
    """A batch of records that is taken for a control batch has no marker that could be read."""
    disk = transactional_log()
    expected, named = aborted(opened(copied(disk))), 0
    for path in [path for path in disk.files if path.endswith(".log")]:
        for position, _ in batches(bytes(disk.files[path])):
            for bit in range(6):
                twin = copied(disk)
                twin.files[path][position + ATTRIBUTES] ^= 1 << bit
                if not clean:
                    del twin.files[CLEAN_SHUTDOWN]
                directory = LogDir.open(twin, NOW_MS, CONFIG)
                try:
                    known = ORDERS in directory.damaged or aborted(directory.logs[ORDERS])
                    named += known is True
                    assert known in (True, expected)
                except StorageDamage:
                    named += 1
    assert named > 50


def test_a_gap_is_no_damage_below_the_recovery_point() -> None:
    """A follower has what its leader has, and the leader may have compacted."""
    disk = MemoryDisk()
    directory = LogDir.open(disk, NOW_MS, CONFIG)
    log = directory.create(ORDERS, bytes(16), NOW_MS)
    for offset in (3, 4, 9):
        log.append_as_follower(encode_batch([Record(offset, NOW_MS, None, b"v")]), 0, NOW_MS)
        log.flush()
    directory.checkpoint()
    log.append_as_follower(encode_batch([Record(15, NOW_MS, None, b"v")]), 0, NOW_MS)
    assert opened(disk).end_offset == 16


@pytest.mark.parametrize("clean", [True, False])
def test_the_time_until_a_producer_is_forgotten_begins_with_the_start(clean: bool) -> None:
    """Kafka holds a snapshot's producers against the timestamps of their records, which may be
    older than the batch that is sent again now.
    """
    disk = transactional_log()
    if not clean:
        del disk.files[".kafka_cleanshutdown"]
    start = NOW_MS + 10 * CONFIG.producer_id_expiration_ms
    log = LogDir.open(disk, start, CONFIG).log(ORDERS)
    assert set(log.producers.producers) == {1, 2}
    log.producers.expire_all(start + CONFIG.producer_id_expiration_ms - 1, 86_400_000)
    assert set(log.producers.producers) == {1, 2}
    log.producers.expire_all(start + CONFIG.producer_id_expiration_ms, 86_400_000)
    assert not log.producers.producers


# Bugs that these tests must find, each put back on purpose.


def believe_the_file(patch: pytest.MonkeyPatch) -> None:
    entries = TxnIndex.entries

    def believed(index: TxnIndex) -> object:
        index.replay = None
        return entries(index)

    patch.setattr(TxnIndex, "entries", believed)


def believe_a_time_index(patch: pytest.MonkeyPatch) -> None:
    def confirms(_segment: Segment, _entry: tuple[int, int]) -> bool:
        return True

    patch.setattr(Segment, "_confirms", confirms)


def believe_that_a_time_index_is_whole(patch: pytest.MonkeyPatch) -> None:
    def nothing_newer(_segment: Segment, _entry: tuple[int, int]) -> bool:
        return False

    patch.setattr(Segment, "_is_newer_behind", nothing_newer)


@pytest.mark.parametrize(
    ("put_back", "suffix", "answers"),
    [
        (believe_the_file, ".txnindex", aborted),
        (believe_a_time_index, ".timeindex", by_time),
        (believe_that_a_time_index_is_whole, ".timeindex", by_time),
    ],
)
def test_an_index_that_is_believed_is_found_out(
    put_back: Callable[[pytest.MonkeyPatch], None],
    suffix: str,
    answers: Answers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put_back(monkeypatch)
    with pytest.raises((AssertionError, StorageDamage)):
        test_a_damaged_index_changes_no_answer(suffix, answers, clean=True)


def test_a_leap_that_is_believed_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def fine(*_arguments: object) -> None:
        return None

    monkeypatch.setattr(Recovery, "_misplaced", fine)
    with pytest.raises(AssertionError, match="became another, silently"):
        test_a_flipped_base_offset_below_the_recovery_point_is_damage(4)
