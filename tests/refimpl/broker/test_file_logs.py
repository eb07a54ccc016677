"""A node's operations on its log directory, on Kafka's files: one rule each, without a node."""

import pytest
from attrs import define, field

from refimpl.broker.file_logs import FileLogs
from refimpl.errors import CorruptFile, StorageOffline
from refimpl.messages.broker import TopicPartition
from refimpl.storage.cleaner.log_cleaner import CLEANER_OFFSETS
from refimpl.storage.config import LogConfig
from refimpl.storage.disk.interface import MemoryDisk
from refimpl.storage.format.batch import Record, encode_batch
from refimpl.storage.format.checkpoints import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    read_epochs,
    read_offsets,
    read_partition_metadata,
)

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
ID, ANOTHER = b"t" * 16, b"a" * 16
COMPACTED = LogConfig(
    cleanup_policy=frozenset({"compact"}), segment_bytes=100, min_cleanable_dirty_ratio=0.0
)
DELETED = LogConfig(segment_bytes=100, retention_ms=1_000, file_delete_delay_ms=50)


@define(eq=False)
class CountingDisk(MemoryDisk):
    """A disk that counts what it flushed, and may be broken."""

    flushes: int = 0
    broken: bool = False

    def flush_together(self, files: object, folders: object) -> None:
        self.flushes += 1

    def flush(self, path: str) -> None:
        self.flushes += 1
        if self.broken:
            raise OSError(5, "Input/output error")


@define(eq=False)
class Directory:
    """A log directory, its disk and its clock."""

    config: LogConfig = field(factory=LogConfig)
    disk: CountingDisk = field(factory=CountingDisk)
    now: int = 10_000
    ids: dict[str, bytes] = field(factory=lambda: {"t": ID})
    logs: FileLogs = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.again()

    def again(self) -> None:
        """A process opens what is there."""
        self.logs = FileLogs(self.disk, lambda: self.now, self.config, topic_ids=self.ids)

    def write(self, partition: TopicPartition, *values: bytes, at_ms: int | None = None) -> None:
        at_ms = self.now if at_ms is None else at_ms
        log = self.logs.directory.logs[partition]
        for value in values:
            log.append_as_leader(encode_batch([Record(0, at_ms, b"key", value)]), 1, self.now)

    def end(self, partition: TopicPartition) -> int:
        return self.logs.directory.logs[partition].end_offset

    def damage(self, partition: TopicPartition) -> None:
        """As if it had been found so at the start."""
        directory = self.logs.directory
        del directory.logs[partition]
        directory.damaged[partition] = CorruptFile("t-0/0.log", 7, "bad")


def folder(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


# Opening


def test_a_new_log_is_empty_and_belongs_to_the_topic_that_is_told_of() -> None:
    here = Directory()
    log, high_watermark, topic_id = here.logs.open(T0)
    assert (log.end, high_watermark, topic_id) == (0, 0, ID)
    assert read_partition_metadata(here.disk, "t-0") == ID
    assert here.logs.open(U0).topic_id == b"", "nobody has told of it"


def test_a_log_that_is_there_is_found_as_it_was_left() -> None:
    here = Directory()
    here.logs.open(T0)
    here.logs.open(U0)
    here.write(T0, b"a", b"b")
    here.logs.checkpoint({T0: 1})
    here.ids["t"] = here.ids["u"] = ANOTHER
    here.again()
    log, high_watermark, topic_id = here.logs.open(T0)
    assert (log.end, high_watermark, topic_id) == (2, 1, ID)
    assert here.logs.open(U0).topic_id == b"", "it was made before anybody told of the topic"
    here.disk.delete(f"t-0/{PARTITION_METADATA}")
    assert here.logs.open(T0).topic_id == b""


def test_a_damaged_log_is_not_made_anew() -> None:
    here = Directory()
    here.logs.open(T0)
    here.damage(T0)
    with pytest.raises(StorageOffline, match="bad"):
        here.logs.open(T0)
    assert not here.logs.directory.logs


def test_a_log_asks_its_own_clock() -> None:
    here = Directory()
    log = here.logs.open(T0).log
    here.now = 77_777
    log.append(1, encode_batch([Record(0, 5, None, b"a")]))
    before = LogConfig().message_timestamp_before_max_ms
    assert before > 77_777, "or it would be refused"
    assert here.logs.replica_log(here.logs.directory.logs[T0]).now_ms() == 77_777


# Folders that are made together


def test_folders_are_made_for_those_that_are_new_and_for_nobody_else() -> None:
    here = Directory()
    here.logs.open(T0)
    here.logs.open(T1)
    here.damage(T1)
    here.ids["t"] = ANOTHER
    here.logs.prepare((T0, T1, TopicPartition("t", 2), U0))
    assert here.disk.folders() == ["t-0", "t-1", "t-2", "u-0"]
    ids = [read_partition_metadata(here.disk, one) for one in here.disk.folders()]
    assert ids == [ID, ID, ANOTHER, bytes(16)]
    flushes = here.disk.flushes
    here.logs.prepare((T0, T1))
    assert here.disk.flushes == flushes, "nothing is new"
    here.logs.open(U0)
    assert here.disk.flushes == flushes, "its folder is there"


def test_epochs_that_begin_together_wait_for_the_disk_twice_and_are_on_it() -> None:
    here = Directory()
    for number in range(5):
        here.logs.open(TopicPartition("t", number))
    here.write(T0, b"a", b"b")
    known = {TopicPartition("t", number): 7 for number in range(4)} | {U0: 7}
    flushes = here.disk.flushes
    here.logs.begin_epochs(known)
    assert here.disk.flushes == flushes + 2
    here.logs.begin_epochs(known)
    assert here.disk.flushes == flushes + 2, "nothing has changed"
    found = [read_epochs(here.disk, f"t-{number}/{LEADER_EPOCHS}") for number in range(4)]
    assert found == [[(1, 0), (7, 2)], [(7, 0)], [(7, 0)], [(7, 0)]]
    assert LEADER_EPOCHS not in here.disk.list_files("t-4") or not read_epochs(
        here.disk, f"t-4/{LEADER_EPOCHS}"
    )
    assert U0 not in here.logs.directory.logs


# What goes


def test_a_log_that_goes_is_renamed_and_its_files_go_later() -> None:
    here = Directory(DELETED)
    here.logs.open(T0)
    here.logs.open(T1)
    here.logs.delete(T0)
    gone = f"t-0.{here.now:032x}-delete"
    assert here.disk.folders() == [gone, "t-1"]
    here.now += 49
    here.logs.apply_retention({})
    assert gone in here.disk.folders()
    here.now += 1
    here.logs.apply_retention({})
    assert here.disk.folders() == ["t-1"]


def test_the_cleaner_forgets_a_log_that_goes() -> None:
    here = Directory(COMPACTED)
    here.logs.open(T0)
    here.logs.cleaner.uncleanable[T0] = "bad"
    here.logs.delete(T0)
    assert not here.logs.cleaner.uncleanable


# What fails


def test_what_is_damaged_is_offline_and_once_the_disk_fails_everything_is() -> None:
    here = Directory()
    for name in (T0, T1, U0):
        here.logs.open(name)
    here.damage(T0)
    assert here.logs.offline().keys() == {T0}
    assert "bad" in here.logs.offline()[T0]
    assert here.logs.failure() is None
    here.write(T1, b"a")
    here.disk.broken = True
    with pytest.raises(StorageOffline):
        here.logs.flush()
    why = here.logs.failure()
    assert why is not None
    assert here.logs.offline() == {T1: why, U0: why}


# By the clock


def test_flushed_logs_need_no_recovery() -> None:
    here = Directory()
    here.logs.open(T0)
    here.write(T0, b"a", b"b")
    assert here.logs.directory.logs[T0].local.recovery_point == 0
    here.logs.flush()
    assert here.logs.directory.logs[T0].local.recovery_point == 2
    assert read_offsets(here.disk, RECOVERY_POINTS) == {T0: 2}


def test_a_checkpoint_has_the_high_watermarks_that_are_told() -> None:
    here = Directory()
    here.logs.open(T0)
    here.write(T0, b"a", b"b")
    here.logs.checkpoint({T0: 2})
    assert read_offsets(here.disk, HIGH_WATERMARKS) == {T0: 2}


def test_what_is_too_old_goes_below_the_high_watermark_that_is_told() -> None:
    here = Directory(DELETED)
    log = here.logs.open(T0).log
    here.write(T0, *(b"%20d" % n for n in range(4)), at_ms=here.now - 5_000)
    here.logs.apply_retention({})
    assert log.start == 0, "nothing is known to be committed"
    here.logs.apply_retention({T0: 2})
    assert log.start == 2
    here.logs.apply_retention({T0: 4})
    assert log.start == 4


def test_dirt_below_the_high_watermark_that_is_told_is_cleaned() -> None:
    here = Directory(COMPACTED)
    here.logs.open(T0)
    here.write(T0, b"a", b"b", b"c", b"d")
    size = here.logs.directory.logs[T0].local.size
    here.logs.clean({T0: 0})
    assert here.logs.directory.logs[T0].local.size == size
    here.logs.clean({T0: 4})
    assert here.logs.directory.logs[T0].local.size < size


def test_a_cut_of_a_log_that_was_made_later_is_known_to_the_cleaner() -> None:
    here = Directory(COMPACTED)
    log = here.logs.open(T0).log
    here.write(T0, b"a", b"b", b"c", b"d")
    here.logs.clean({T0: 4})
    cleaned = read_offsets(here.disk, CLEANER_OFFSETS)[T0]
    assert cleaned > 1
    log.truncate_to(1)
    assert read_offsets(here.disk, CLEANER_OFFSETS) == {T0: 1}


def test_producers_that_are_silent_for_too_long_are_forgotten() -> None:
    here = Directory(LogConfig(producer_id_expiration_ms=100))
    here.logs.open(T0)
    log = here.logs.directory.logs[T0]
    batch = encode_batch(
        [Record(0, here.now, None, b"a")], producer_id=7, producer_epoch=0, base_sequence=0
    )
    log.append_as_leader(batch, 1, here.now)
    here.logs.expire_producers()
    assert 7 in log.producers.producers
    here.now += 1_000
    here.logs.expire_producers()
    assert 7 not in log.producers.producers


# A controlled shutdown


def test_whoever_closes_leaves_its_epoch_and_the_next_start_takes_the_mark_away() -> None:
    """KIP-966."""
    here = Directory()
    assert here.logs.clean_shutdown_epoch() == -1
    here.logs.open(T0)
    here.write(T0, b"a")
    here.logs.close(9)
    assert CLEAN_SHUTDOWN in here.disk.list_files("")
    assert read_offsets(here.disk, RECOVERY_POINTS) == {T0: 1}, "everything is on disk"
    here.again()
    assert here.logs.clean_shutdown_epoch() == 9
    assert CLEAN_SHUTDOWN not in here.disk.list_files("")
    here.again()
    assert here.logs.clean_shutdown_epoch() == -1
