"""Logs on disks that fail, and with files that are not as they should be."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from refimpl.errors import CorruptFile, StorageOffline, UnsupportedFormat
from refimpl.storage.config import LogConfig
from refimpl.storage.disk.crashing import CrashDisk
from refimpl.storage.disk.files import FileDisk
from refimpl.storage.disk.interface import MemoryDisk
from refimpl.storage.format.batch import Record, encode_batch
from refimpl.storage.log.log_dir import LogDir
from refimpl.storage.log.partition_log import PartitionLog

NOW_MS = 1_000
CONFIG = LogConfig(segment_bytes=500, index_interval_bytes=100)
ORDERS, OTHERS = ("orders", 0), ("others", 3)
LOG = "orders-0/00000000000000000000.log"


def batch(size: int = 50) -> bytes:
    return encode_batch([Record(0, NOW_MS, b"k", bytes([7]) * size)])


def two_logs(disk: MemoryDisk | FileDisk, batches: int = 3) -> tuple[LogDir, PartitionLog]:
    directory = LogDir.open(disk, NOW_MS, CONFIG)
    for partition in (OTHERS, ORDERS):
        log = directory.create(partition, bytes(16), NOW_MS)
        for _ in range(batches):
            log.append_as_leader(batch(), 0, NOW_MS)
    return directory, directory.log(ORDERS)


# Disks that fail


def append(log: PartitionLog) -> object:
    return log.append_as_leader(batch(), 0, NOW_MS)


WORK: dict[str, Callable[[PartitionLog], object]] = {
    "append": append,
    "read": lambda log: log.read(0, 100),
    "flush": lambda log: log.flush(),
    "flush_folder": lambda log: log.roll(NOW_MS),
    "truncate": lambda log: log.truncate_to(1, NOW_MS),
}


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EROFS])
@pytest.mark.parametrize("operation", WORK)
def test_a_failure_takes_the_directory_offline_and_nothing_is_tried_again(
    operation: str, code: int
) -> None:
    disk = CrashDisk()
    directory, log = two_logs(disk)
    disk.fail = lambda done, _path: code if done == operation else None
    with pytest.raises(StorageOffline, match=errno.errorcode[code]):
        WORK[operation](log)
    disk.fail = None
    before = disk.operations
    assert directory.is_offline
    for work in (WORK["append"], WORK["read"], WORK["truncate"]):
        with pytest.raises(StorageOffline, match=f"`{operation} "):
            work(log)
    with pytest.raises(StorageOffline, match=f"`{operation} "):
        directory.log(OTHERS)
    assert disk.operations == before


def test_a_failed_flush_is_never_followed_by_one_that_succeeds() -> None:
    disk = CrashDisk()
    _, log = two_logs(disk)
    disk.fail = lambda done, _path: errno.EIO if done == "flush" else None
    for _ in range(3):
        with pytest.raises(StorageOffline, match="`flush "):
            log.flush()
        disk.fail = None
    assert log.local.recovery_point == 0


@pytest.mark.parametrize("room", range(0, 200, 7))
def test_a_full_disk_tears_a_batch_and_recovery_cuts_it(room: int) -> None:
    disk = CrashDisk()
    directory, log = two_logs(disk)
    log.flush()
    directory.checkpoint()
    disk.capacity = disk.used + room
    appended = room // len(batch())
    for _ in range(appended):
        append(log)
    with pytest.raises(StorageOffline, match="No space left"):
        append(log)
    disk.capacity = None
    again = LogDir.open(disk, NOW_MS, CONFIG).log(ORDERS)
    assert again.end_offset == 3 + appended
    append(again)
    assert again.end_offset == 4 + appended


def test_every_operation_may_fail_and_what_was_flushed_stays() -> None:
    failed = 0
    while work_until_failure(failed):
        failed += 1
    assert failed > 30


def work_until_failure(operations: int) -> bool:
    """True if the disk failed, after so many operations, before the work was done."""
    disk = CrashDisk()
    directory, log = two_logs(disk)
    log.flush()
    last = disk.operations + operations
    disk.fail = lambda _operation, _path: errno.EIO if disk.operations > last else None
    try:
        for _ in range(4):
            log.append_as_leader(batch(), 1, NOW_MS)
        log.truncate_to(5, NOW_MS)
        log.flush()
        directory.close()
    except StorageOffline:
        pass
    disk.fail = None
    again = LogDir.open(disk.crashed(), NOW_MS, CONFIG)
    assert not again.damaged
    assert again.log(ORDERS).end_offset >= 3
    return directory.is_offline


# Files that are not what they should be


def damage_is_named(disk: MemoryDisk, kind: type[Exception], path: str, words: str) -> None:
    """One partition stays closed, the other goes on, and no file was touched."""
    before = {name: bytes(data) for name, data in disk.files.items() if "orders" in name}
    directory = LogDir.open(disk, NOW_MS, CONFIG)
    assert type(directory.damaged[ORDERS]) is kind
    assert str(directory.damaged[ORDERS]).startswith(f"{path}: at byte ")
    assert words in str(directory.damaged[ORDERS])
    assert {name: bytes(data) for name, data in disk.files.items() if "orders" in name} == before
    directory.log(OTHERS).append_as_leader(batch(), 0, NOW_MS)
    with pytest.raises(StorageOffline, match=path):
        directory.log(ORDERS)
    assert directory.log(OTHERS).read(0, 1)


@pytest.fixture
def disk() -> MemoryDisk:
    """Two logs with three segments each, flushed, and nobody had time to shut down."""
    disk = MemoryDisk()
    directory, _ = two_logs(disk, batches=9)
    for log in directory.logs.values():
        log.flush()
    directory.checkpoint()
    return disk


def test_a_flipped_bit_in_flushed_data_is_not_cut_away(disk: MemoryDisk) -> None:
    active = max(path for path in disk.files if path.startswith("orders") and path.endswith(".log"))
    disk.files[active][70] ^= 4
    damage_is_named(disk, CorruptFile, active, "CRC")


def test_a_foreign_file_is_left_alone(disk: MemoryDisk) -> None:
    del disk.files["recovery-point-offset-checkpoint"]
    disk.files[LOG][:] = b"Dear diary, today I found out that a log is not a log.\n" * 9
    damage_is_named(disk, CorruptFile, LOG, "this is not a log of Kafka's")


def test_a_log_of_a_newer_format_is_left_alone(disk: MemoryDisk) -> None:
    del disk.files["recovery-point-offset-checkpoint"]
    disk.files[LOG][16] = 3
    disk.files[LOG][80] ^= 1  # what a new format has there, an old CRC will not match
    damage_is_named(disk, UnsupportedFormat, LOG, "message format 3 is not known")


def test_a_newer_batch_behind_older_ones_is_left_alone(disk: MemoryDisk) -> None:
    del disk.files["recovery-point-offset-checkpoint"]
    size = len(batch())
    disk.files[LOG][size + 16] = 3
    disk.files[LOG][size + 80] ^= 1
    damage_is_named(disk, UnsupportedFormat, LOG, f"at byte {size}: message format 3")


@pytest.mark.parametrize(
    ("content", "kind", "words"),
    [
        (b"0\n1\n0 zero\n", CorruptFile, "at byte 4: 'zero', where a number should be"),
        (b"1\n1\n0 0\n", UnsupportedFormat, "a checkpoint of version 1, not 0"),
        (b"0\n2\n0 0\n", CorruptFile, "1 entries, where 2 are promised"),
        (b"0\n1\n0 0 0\n", CorruptFile, "at byte 4: 3 fields in a line, not 2"),
        (b"\xff\xfe\n", CorruptFile, "no text"),
        (b"0\n", CorruptFile, "where a checkpoint has version and count"),
    ],
)
def test_a_damaged_epoch_checkpoint_is_named(
    disk: MemoryDisk, content: bytes, kind: type[Exception], words: str
) -> None:
    path = "orders-0/leader-epoch-checkpoint"
    disk.files[path][:] = content
    damage_is_named(disk, kind, path, words)


@pytest.mark.parametrize(
    "path", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint"]
)
def test_a_damaged_checkpoint_of_the_directory_stops_all_of_it(disk: MemoryDisk, path: str) -> None:
    disk.files[path][:] = b"0\n7\n"
    with pytest.raises(CorruptFile, match=rf"{path}: at byte 4: 0 entries, where 7 are promised"):
        LogDir.open(disk, NOW_MS, CONFIG)


@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_in_what_was_not_flushed_ends_the_log_there(bit: int) -> None:
    whole = MemoryDisk()
    two_logs(whole)
    size = len(batch())
    for at in range(2 * size, 3 * size):
        disk = MemoryDisk({path: bytearray(data) for path, data in whole.files.items()}, set())
        disk.directories = set(whole.directories)
        disk.files[LOG][at] ^= 1 << bit
        found = LogDir.open(disk, NOW_MS, CONFIG)
        outside_the_crc = at - 2 * size in (*range(8), *range(12, 16))
        if outside_the_crc and not found.damaged:
            assert found.log(ORDERS).end_offset >= 2
        else:
            assert found.log(ORDERS).end_offset == 2
            assert bytes(disk.files[LOG]) == bytes(whole.files[LOG][: 2 * size])


def test_a_missing_epoch_checkpoint_is_made_from_the_log(disk: MemoryDisk) -> None:
    there = bytes(disk.files.pop("orders-0/leader-epoch-checkpoint"))
    LogDir.open(disk, NOW_MS, CONFIG)
    assert bytes(disk.files["orders-0/leader-epoch-checkpoint"]) == there


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "zeros", "noise", "cut", "shifted"])
def test_no_index_is_believed_that_the_log_contradicts(
    disk: MemoryDisk, suffix: str, damage: str
) -> None:
    for path in [path for path in disk.files if path.endswith(suffix)]:
        data = disk.files[path]
        if damage == "missing":
            del disk.files[path]
        else:
            data[:] = {
                "zeros": bytes(len(data)),
                "noise": bytes((n * 37 + 11) % 128 for n in range(len(data))),
                "cut": bytes(data[: len(data) // 2 + 1]),
                "shifted": b"\0" + bytes(data[:-1]),
            }[damage]
    log = LogDir.open(disk, NOW_MS, CONFIG).log(ORDERS)
    for offset in range(9):
        assert int.from_bytes(log.read(offset, 1)[:8]) == offset
    assert {segment.largest_timestamp()[0] for segment in log.local.segments} == {NOW_MS}


def test_a_damaged_snapshot_is_passed_over(disk: MemoryDisk) -> None:
    for path in disk.files:
        if path.endswith(".snapshot"):
            disk.files[path][3] ^= 1
    assert LogDir.open(disk, NOW_MS, CONFIG).log(ORDERS).end_offset == 9


def test_a_folder_that_is_no_partition_is_left_alone(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    two_logs(disk)[0].close()
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "orders-0" / "notes.txt").write_text("mine")
    directory = LogDir.open(FileDisk(tmp_path), NOW_MS, CONFIG)
    assert set(directory.logs) == {ORDERS, OTHERS}
    assert (tmp_path / "orders-0" / "notes.txt").read_text() == "mine"
