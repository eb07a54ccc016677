"""The logs of a node: which work its timers do, and what is told when a disk fails over it."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, cast

from attrs import define, field

from refimpl.broker.config import BrokerConfig
from refimpl.broker.context import Context
from refimpl.broker.log_manager import (
    CHECKPOINT,
    CLEANER,
    FLUSH,
    PRODUCERS,
    RETENTION,
    LogManager,
)
from refimpl.broker.logs import BrokerLog, Found, OneDirectory
from refimpl.errors import CorruptFile, StorageOffline
from refimpl.machines.log import Log
from refimpl.messages.broker import TopicPartition
from refimpl.messages.observations import Refused

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ID = b"t" * 16
CONFIG = BrokerConfig(
    log_flush_interval_ms=1,
    replica_high_watermark_checkpoint_interval_ms=2,
    log_retention_check_interval_ms=3,
    log_cleaner_backoff_ms=4,
    producer_id_expiration_check_interval_ms=5,
)
MARKS = {T0: 3, T1: 4}


@define(eq=False)
class Directory(OneDirectory):
    """A log directory that notes what it is asked, and fails at what it is told to fail at."""

    asked: list[tuple[Any, ...]] = field(factory=list[tuple[Any, ...]])
    fails: dict[str, Exception] = field(factory=dict[str, Exception])
    off: dict[TopicPartition, str] = field(factory=dict[TopicPartition, str])

    def _note(self, what: str, *of: Any) -> None:
        self.asked.append((what, *of))
        if what in self.fails:
            raise self.fails[what]

    def directory_of(self, partition: TopicPartition) -> int:
        return 0

    def offline_directories(self) -> Collection[int]:
        return ()

    def prepare(self, partitions: Collection[TopicPartition]) -> None:
        self._note("prepare", *partitions)

    def told(self) -> None: ...

    def begin_epochs(self, epochs: Mapping[TopicPartition, int]) -> None:
        self._note("begin_epochs", epochs)

    def write_epochs(self) -> None:
        self._note("write_epochs")

    def open(self, partition: TopicPartition) -> Found:
        self._note("open", partition)
        return Found(cast(BrokerLog, Log()), MARKS[partition], ID)

    def delete(self, partition: TopicPartition) -> None:
        self._note("delete", partition)

    def offline(self) -> Mapping[TopicPartition, str]:
        return self.off

    def failure(self) -> str | None:
        return None

    def flush(self) -> None:
        self._note("flush")

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        self._note("checkpoint", high_watermarks)

    def apply_retention(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        self._note("retention", high_watermarks)

    def expire_producers(self) -> None:
        self._note("producers")

    def clean(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        self._note("clean", high_watermarks)

    def close(self, broker_epoch: int) -> None:
        self._note("close", broker_epoch)

    def clean_shutdown_epoch(self) -> int:
        return -1


def managed(config: BrokerConfig = CONFIG) -> tuple[LogManager, Directory]:
    """The logs of broker 7 in its epoch 9, with two partitions, and nothing asked yet."""
    directory = Directory()
    made = LogManager(Context(7, config, 1, broker_epoch=9), directory)
    for name in (T0, T1):
        assert made.open(name, 2) is not None
    directory.asked.clear()
    return made, directory


def offline(directory: Directory, what: str) -> None:
    directory.fails[what] = StorageOffline("broken")


def refused(made: LogManager) -> list[str]:
    """The logs refused for the failed disk, which must be marked as failed then."""
    outputs, made.context.outputs = made.context.outputs, []
    assert all(one == Refused(one.what, "KAFKA_STORAGE_ERROR") for one in outputs)
    assert made.context.storage_failed == bool(outputs)
    return [one.what for one in outputs]


def test_each_work_is_done_by_its_timer_and_comes_again_after_its_time() -> None:
    made, directory = managed()
    periods = {FLUSH: 1, CHECKPOINT: 2, RETENTION: 3, CLEANER: 4, PRODUCERS: 5}
    assert made.timers == periods
    assert {name: made.work(name) for name in periods} == periods
    assert directory.asked == [
        ("flush",),
        *((name, MARKS) for name in ("checkpoint", "retention", "clean")),
        ("producers",),
    ]
    assert refused(made) == []


def test_where_nothing_is_cleaned_there_is_no_timer_for_it() -> None:
    made, _ = managed(BrokerConfig(log_cleaner_enable=False))
    assert made.timers.keys() == {FLUSH, CHECKPOINT, RETENTION, PRODUCERS}


def test_work_that_a_disk_fails_over_is_told_and_comes_again() -> None:
    made, directory = managed()
    offline(directory, "flush")
    assert made.work(FLUSH) == 1
    assert refused(made) == [FLUSH]


def test_folders_are_prepared_or_it_is_told_why_not() -> None:
    made, directory = managed()
    made.prepare([T0, T1])
    assert (directory.asked, refused(made)) == ([("prepare", T0, T1)], [])
    offline(directory, "prepare")
    made.prepare([T0])
    assert refused(made) == ["LeaderAndIsr"]


def test_an_open_log_is_a_partition_with_a_replica_of_this_process() -> None:
    made, _ = managed()
    partition = made.open(T1, 2)
    assert partition is not None
    assert made.context.partitions[T1] is partition
    assert (partition.name, partition.topic_id) == (T1, ID)
    replica = partition.replica
    assert (replica.id, replica.incarnation, replica.min_isr) == (7, 9, 2)
    assert (replica.high_watermark, replica.log) == (4, partition.log)


def test_a_log_that_cannot_be_opened_is_no_partition_and_is_offline() -> None:
    failures: tuple[Callable[[], Exception], ...] = (
        lambda: StorageOffline("broken"),
        lambda: CorruptFile("t-0/0.log", 7, "bad"),
    )
    for failure in failures:
        made, directory = managed()
        del made.context.partitions[T0]
        directory.fails["open"] = failure()
        assert made.open(T0, 1) is None
        assert made.context.offline == {T0: str(failure())}
        assert made.context.partitions.keys() == {T1}


def test_epochs_begin_together_or_it_is_told_why_not() -> None:
    made, directory = managed()
    made.begin_epochs({T0: 3, T1: 4})
    assert (directory.asked, refused(made)) == ([("begin_epochs", {T0: 3, T1: 4})], [])
    offline(directory, "begin_epochs")
    made.begin_epochs({T0: 5})
    assert refused(made) == ["LeaderAndIsr"]


def test_a_log_is_deleted_or_it_is_told_why_not() -> None:
    made, directory = managed()
    made.delete(T0)
    assert (directory.asked, refused(made)) == ([("delete", T0)], [])
    offline(directory, "delete")
    made.delete(T0)
    assert refused(made) == ["StopReplica"]


def test_at_the_end_all_is_flushed_and_written_down_before_the_mark_is_left() -> None:
    made, directory = managed()
    made.close()
    assert directory.asked == [("checkpoint", MARKS), ("close", 9)]
    assert refused(made) == []


def test_where_the_disk_fails_at_the_end_there_is_no_mark() -> None:
    for what, asked in (("checkpoint", 1), ("close", 2)):
        made, directory = managed()
        offline(directory, what)
        made.close()
        assert (len(directory.asked), refused(made)) == (asked, ["shutdown"])


def test_a_partition_that_failed_is_told_once_and_only_if_it_is_ours() -> None:
    made, directory = managed()
    failed = made.context.partitions[T0]
    directory.off = {T0: "broken", TopicPartition("u", 0): "gone"}
    assert made.failed() == [failed]
    assert made.failed() == []
    assert made.context.offline == {T0: "broken"}
    assert made.context.partitions.keys() == {T1}
