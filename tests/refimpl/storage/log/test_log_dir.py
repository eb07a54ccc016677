"""A folder of partitions: made, deleted, made again, and opened together."""

from collections.abc import Sequence
from itertools import islice

import pytest
from attrs import evolve

from refimpl.broker.file_logs import FileLogs
from refimpl.messages.broker import TopicPartition
from refimpl.storage.config import LogConfig
from refimpl.storage.disk.crashing import CrashDisk
from refimpl.storage.disk.interface import MemoryDisk
from refimpl.storage.format.batch import Record, encode_batch
from refimpl.storage.format.checkpoints import (
    RECOVERY_POINTS,
    read_offsets,
    read_partition_metadata,
)
from refimpl.storage.log.log_dir import LogDir
from tests.refimpl.storage.log.crash_states import disk_of, images

NOW_MS, ORDERS, OTHERS = 1_000, ("orders", 0), ("o.t-h_ers", 12)
CONFIG = LogConfig(segment_bytes=300, file_delete_delay_ms=50)


def batch() -> bytes:
    return encode_batch([Record(0, NOW_MS, b"k", b"v" * 30)])


def filled(disk: MemoryDisk, config: LogConfig = CONFIG) -> LogDir:
    directory = LogDir.open(disk, NOW_MS, config)
    for number, partition in enumerate((ORDERS, OTHERS), start=1):
        log = directory.create(partition, bytes([number]) * 16, NOW_MS)
        for _ in range(9):
            log.append_as_leader(batch(), 0, NOW_MS)
        log.flush()
    directory.checkpoint()
    return directory


def test_thirteen_and_nineteen_partitions_are_32_folders() -> None:
    disk = MemoryDisk()
    directory = LogDir.open(disk, NOW_MS, CONFIG)
    for topic, count in (("a", 13), ("b", 19)):
        for number in range(count):
            directory.create((topic, number), bytes(16), NOW_MS)
    directory.close()
    assert len(disk.folders()) == 32
    assert len(LogDir.open(disk, NOW_MS, CONFIG).logs) == 32


class Waiting(MemoryDisk):
    """A disk that counts how often it is waited for."""

    waits = 0

    def flush_together(self, files: Sequence[str], folders: Sequence[str]) -> None:
        self.waits += 1

    def flush(self, path: str) -> None:
        self.waits += 1

    def flush_folder(self, folder: str) -> None:
        self.waits += 1


def test_a_shutdown_waits_for_the_disk_a_few_times_however_many_logs_there_are() -> None:
    found: list[int] = []
    for count in (3, 30):
        disk = Waiting()
        directory = LogDir.open(disk, NOW_MS, CONFIG)
        for number in range(count):
            log = directory.create(("many", number), bytes(16), NOW_MS)
            if number % 2:
                log.append_as_leader(batch(), 0, NOW_MS)
        disk.waits = 0
        directory.close()
        found.append(disk.waits)
    assert found[0] == found[1]


def test_partitions_that_are_made_together_survive_a_crash_and_wait_for_the_disk_once() -> None:
    disk = CrashDisk()
    directory = LogDir.open(disk, NOW_MS, CONFIG)
    wanted = {("many", number): bytes(15) + bytes([number]) for number in range(20)}
    flushed: list[str] = []
    found: list[int] = []

    def crash_here(operation: str, path: str) -> None:
        flushed.extend([path] * (operation == "flush_folder"))
        if len(found) < 30:
            found.extend(len(LogDir.open(disk_of(one), NOW_MS).logs) for one in images(disk))

    disk.fail = crash_here
    directory.prepare(wanted)
    disk.fail = None
    assert flushed.count("") == 1
    for image in images(disk):
        after = disk_of(image)
        ids = {one: read_partition_metadata(after, f"{one[0]}-{one[1]}") for one in wanted}
        assert ids == wanted
    disk.fail = lambda operation, _: flushed.append(operation)
    del flushed[:]
    for partition, topic_id in wanted.items():
        directory.create(partition, topic_id, NOW_MS)
    assert "flush_folder" not in flushed
    assert directory.logs.keys() == wanted.keys()


def test_a_deleted_partition_goes_after_its_delay_and_its_name_can_be_used_again() -> None:
    disk = MemoryDisk()
    directory = filled(disk)
    directory.delete(ORDERS, "a1b2", NOW_MS)
    directory.create(ORDERS, bytes(16), NOW_MS).append_as_leader(batch(), 3, NOW_MS)
    directory.housekeeping(NOW_MS + 49)
    assert disk.folders() == ["o.t-h_ers-12", "orders-0", "orders-0.a1b2-delete"]
    directory.housekeeping(NOW_MS + 50)
    assert disk.folders() == ["o.t-h_ers-12", "orders-0"]
    again = LogDir.open(disk, NOW_MS, CONFIG)
    assert (again.log(ORDERS).end_offset, again.log(OTHERS).end_offset) == (1, 9)
    assert read_partition_metadata(disk, "orders-0") == bytes(16)


def test_a_deletion_that_a_crash_interrupted_goes_on() -> None:
    disk = CrashDisk()
    filled(disk).delete(ORDERS, "a1b2", NOW_MS)
    found = disk.crashed()
    again = LogDir.open(found, NOW_MS, CONFIG)
    assert set(again.logs) == {OTHERS}
    again.housekeeping(NOW_MS + 50)
    assert found.folders() == ["o.t-h_ers-12"]


def test_what_is_known_of_a_damaged_partition_is_kept() -> None:
    disk = MemoryDisk()
    filled(disk)
    log = min(path for path in disk.files if path.startswith("orders") and path.endswith(".log"))
    whole = bytes(disk.files[log])
    active = max(path for path in disk.files if path.startswith("orders") and path.endswith(".log"))
    disk.files[active][-1] ^= 1
    for _ in range(2):
        directory = LogDir.open(disk, NOW_MS, CONFIG)
        assert list(directory.damaged) == [ORDERS]
        directory.close()
        del disk.files[".kafka_cleanshutdown"]
        assert read_offsets(disk, RECOVERY_POINTS)[ORDERS] == 9
    disk.files[active][-1] ^= 1
    assert LogDir.open(disk, NOW_MS, CONFIG).log(ORDERS).end_offset == 9
    assert bytes(disk.files[log]) == whole


def test_a_folder_that_is_gone_takes_its_offsets_along() -> None:
    disk = MemoryDisk()
    filled(disk)
    for path in [path for path in disk.files if path.startswith("orders-0/")]:
        disk.delete(path)
    disk.delete_folder("orders-0")
    LogDir.open(disk, NOW_MS, CONFIG)
    assert set(read_offsets(disk, RECOVERY_POINTS)) == {OTHERS}


def test_topics_have_settings_of_their_own() -> None:
    disk = MemoryDisk()
    own = {"orders": evolve(CONFIG, retention_bytes=0)}
    filled(disk).close()
    directory = LogDir.open(disk, NOW_MS, CONFIG, own)
    for log in directory.logs.values():
        log.advance_high_watermark(9)
    directory.housekeeping(NOW_MS)
    assert directory.log(ORDERS).log_start_offset == 9
    assert directory.log(OTHERS).log_start_offset == 0


def test_nothing_goes_that_is_not_replicated() -> None:
    directory = filled(MemoryDisk(), evolve(CONFIG, retention_ms=0))
    directory.log(ORDERS).advance_high_watermark(5)
    directory.housekeeping(NOW_MS + 10_000)
    first = directory.log(ORDERS).local.segments[0].base_offset
    assert 0 < first == directory.log(ORDERS).log_start_offset <= 5
    assert directory.log(OTHERS).log_start_offset == 0


def test_flushing_by_time_and_by_number() -> None:
    directory = filled(MemoryDisk(), evolve(CONFIG, flush_ms=100, flush_messages=3))
    log = directory.log(ORDERS)
    for expected in (9, 9, 12, 12):
        log.append_as_leader(batch(), 0, NOW_MS)
        assert log.local.recovery_point >= expected
    directory.housekeeping(NOW_MS)
    assert log.local.recovery_point < log.end_offset
    directory.housekeeping(NOW_MS + 100)
    assert log.local.recovery_point == log.end_offset == 13


def test_a_closed_segment_is_not_read_again() -> None:
    disk = CrashDisk()
    directory = LogDir.open(disk, NOW_MS, CONFIG)
    log = directory.create(ORDERS, bytes(16), NOW_MS)
    for _ in range(9):
        log.append_as_leader(batch(), 0, NOW_MS)
    directory.checkpoint()
    after = disk.crashed()
    reads: list[str] = []
    after.fail = lambda operation, path: reads.append(path) if operation == "read" else None
    again = LogDir.open(after, NOW_MS, CONFIG)
    bases = [segment.base_offset for segment in log.local.segments]
    assert again.log(ORDERS).end_offset == bases[-1]
    assert not [path for path in reads if path.endswith(".log") and f"{bases[-1]:020d}" not in path]


@pytest.mark.parametrize("left", [(), ("partition.metadata.tmp",), ("00000000000000000000.log",)])
def test_a_log_whose_process_was_killed_while_it_made_it_was_never_begun(
    left: tuple[str, ...],
) -> None:
    disk = MemoryDisk()
    filled(disk).close()
    disk.make_folder("orders-7")
    for name in left:
        disk.append(f"orders-7/{name}", b"")
    logs = FileLogs(disk, lambda: NOW_MS, CONFIG, topic_ids={"orders": bytes(15) + b"7"})
    assert ("orders", 7) not in logs.directory.logs
    found = logs.open(TopicPartition("orders", 7))
    assert (found.log.end, found.topic_id) == (0, bytes(15) + b"7")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("00000000000000000000.log.swap", b"compacted"),
        ("00000000000000000000.log.deleted", b"expired"),
        ("00000000000000000018.log", b""),
        ("leader-epoch-checkpoint", b"0\n1\n3 0\n"),
    ],
)
def test_a_log_of_an_older_broker_was_begun(name: str, data: bytes) -> None:
    """Before Kafka 2.8 there was no partition.metadata."""
    disk = MemoryDisk()
    filled(disk).close()
    disk.make_folder("orders-7")
    disk.append(f"orders-7/{name}", data)
    directory = LogDir.open(disk, NOW_MS, CONFIG)
    assert ("orders", 7) in {*directory.logs, *directory.damaged}


def test_a_swapped_segment_that_is_damaged_closes_its_partition_alone() -> None:
    disk = MemoryDisk()
    filled(disk).close()
    disk.append("orders-0/00000000000000000000.log.swap", batch() + b"torn")
    directory = LogDir.open(disk, NOW_MS, CONFIG)
    assert directory.damaged.keys() == {ORDERS}
    assert str(directory.damaged[ORDERS]) == (
        f"orders-0/00000000000000000000.log.swap: at byte {len(batch())}: "
        "only 4 bytes, less than any batch has"
    )
    assert OTHERS in directory.logs


@pytest.mark.parametrize("clean", [True, False])
def test_a_start_waits_for_the_disk_a_few_times_however_many_logs_there_are(clean: bool) -> None:
    found: list[int] = []
    for count in (3, 30):
        disk = Waiting()
        directory = LogDir.open(disk, NOW_MS, CONFIG)
        many = [("many", number) for number in range(count)]
        for partition in many:
            directory.create(partition, bytes(16), NOW_MS).append_as_leader(batch(), 0, NOW_MS)
        directory.begin_epochs(dict.fromkeys(many, 1))  # of which no record comes
        if clean:
            directory.close()
        disk.waits = 0
        again = LogDir.open(disk, NOW_MS, CONFIG)
        found.append(disk.waits)
        assert [log.epochs.epochs for log in again.logs.values()] == [[0]] * count
        assert [log.local.recovery_point for log in again.logs.values()] == [1] * count
        for number in range(count):
            assert b"\n1 " not in disk.files[f"many-{number}/leader-epoch-checkpoint"]
    assert found[0] == found[1]


def test_followers_write_the_epochs_of_one_answer_together() -> None:
    found: list[int] = []
    for count in (3, 30):
        disk = Waiting()
        directory = LogDir.open(disk, NOW_MS, CONFIG)
        many = [("many", number) for number in range(count)]
        logs = [directory.create(one, bytes(16), NOW_MS) for one in many]
        disk.waits = 0
        for log in logs:
            log.append_as_follower(sent(0, 7), 7, NOW_MS)
        assert disk.waits == 0
        directory.write_epochs()
        found.append(disk.waits)
        directory.write_epochs()
        assert disk.waits == found[-1]
        directory.delete(many[0], "a", NOW_MS)
        for number in range(1, count):
            assert b"\n7 0\n" in disk.files[f"many-{number}/leader-epoch-checkpoint"]
    assert found[0] == found[1] > 0


def test_no_crash_of_a_follower_loses_the_epoch_of_a_record_that_it_keeps() -> None:
    disk = CrashDisk()
    directory = LogDir.open(disk, NOW_MS, evolve(CONFIG, segment_bytes=150))
    logs = [directory.create(one, bytes(16), NOW_MS) for one in (ORDERS, OTHERS)]
    kept: set[tuple[int, ...]] = set()

    def crash_here(operation: str, path: str) -> None:
        for image in islice(images(disk), 12):
            for log in LogDir.open(disk_of(image), NOW_MS, CONFIG).logs.values():
                assert len(log.epochs.epochs) == log.end_offset
                kept.add(tuple(log.epochs.epochs))

    disk.fail = crash_here
    for epoch in range(3):
        for log in logs:
            log.append_as_follower(sent(epoch, epoch), epoch, NOW_MS)
        if epoch == 0:
            directory.write_epochs()
        logs[0].flush()
        directory.checkpoint()
    crash_here("", "")
    assert {(), (0,), (0, 1)} <= kept


def test_epochs_of_a_log_that_is_deleted_are_not_written() -> None:
    disk = MemoryDisk()
    directory = LogDir.open(disk, NOW_MS, CONFIG)
    directory.create(ORDERS, bytes(16), NOW_MS).append_as_follower(sent(0, 7), 7, NOW_MS)
    directory.delete(ORDERS, "a", NOW_MS)
    directory.write_epochs()
    assert not directory.is_offline


def sent(offset: int, epoch: int) -> bytes:
    """A record as a leader of this epoch sends it."""
    return encode_batch([Record(offset, NOW_MS, b"k", b"v" * 30)], leader_epoch=epoch)
