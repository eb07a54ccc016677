"""A `LogDirectory` of Kafka's files: one storage `LogDir`, and the cleaner beside it."""

from collections.abc import Callable, Collection, Mapping

import orjson
from attrs import define, field

from refimpl.broker.logs import Found, OneDirectory
from refimpl.messages.broker import TopicPartition
from refimpl.storage.cleaner.log_cleaner import LogCleaner
from refimpl.storage.config import LogConfig
from refimpl.storage.disk.interface import Disk, read_file
from refimpl.storage.format.checkpoints import (
    CLEAN_SHUTDOWN,
    PARTITION_METADATA,
    read_partition_metadata,
)
from refimpl.storage.log.log_dir import LogDir
from refimpl.storage.log.partition_log import PartitionLog
from refimpl.storage.replica.files import PartitionReplicaLog

NO_ID = bytes(16)


@define(eq=False)
class FileLogs(OneDirectory):
    """One log directory on a disk; a log that needs the time calls `now_ms`.

    `topic_ids` are the topic ids of the metadata, for new partitions.
    """

    disk: Disk
    now_ms: Callable[[], int]
    config: LogConfig = field(factory=LogConfig)
    overrides: Mapping[str, LogConfig] = field(factory=dict[str, LogConfig])
    topic_ids: Mapping[str, bytes] = field(factory=dict[str, bytes])
    directory: LogDir = field(init=False)
    cleaner: LogCleaner = field(init=False)
    _closed_by: int = field(default=-1, init=False)

    def __attrs_post_init__(self) -> None:
        """Recover the logs on the disk."""
        if CLEAN_SHUTDOWN in self.disk.list_files(""):
            self._closed_by = orjson.loads(read_file(self.disk, CLEAN_SHUTDOWN))["brokerEpoch"]
        self.directory = LogDir.open(self.disk, self.now_ms(), self.config, self.overrides)
        self.cleaner = LogCleaner(self.directory)

    def partitions(self) -> list[TopicPartition]:
        """The partitions that are in the directory."""
        return [TopicPartition(*one) for one in (*self.directory.logs, *self.directory.damaged)]

    def directory_of(self, partition: TopicPartition) -> int:
        """The only directory."""
        return 0

    def offline_directories(self) -> Collection[int]:
        """The only directory, once it has failed."""
        return () if self.failure() is None else (0,)

    def prepare(self, partitions: Collection[TopicPartition]) -> None:
        """Create the folders of new partitions."""
        directory = self.directory
        known = directory.logs.keys() | directory.damaged.keys()
        new = [one for one in partitions if one not in known]
        if new:
            directory.prepare({one: self.topic_ids.get(one.topic, NO_ID) for one in new})

    def open(self, partition: TopicPartition) -> Found:
        """The recovered log, or a new one."""
        directory = self.directory
        if partition in directory.logs or partition in directory.damaged:
            log = directory.log(partition)
            has_id = PARTITION_METADATA in self.disk.list_files(log.folder)
            topic_id = read_partition_metadata(self.disk, log.folder) if has_id else NO_ID
        else:
            topic_id = self.topic_ids.get(partition.topic, NO_ID)
            log = directory.create(partition, topic_id, self.now_ms())
            self.cleaner.watch(partition)
        known = b"" if topic_id == NO_ID else topic_id
        return Found(self.replica_log(log), log.high_watermark, known)

    def told(self) -> None:
        """Nothing depends on it: the only directory can be read."""

    def begin_epochs(self, epochs: Mapping[TopicPartition, int]) -> None:
        """Write to the checkpoints that these logs begin their leader epochs."""
        logs = self.directory.logs
        self.directory.begin_epochs({one: epoch for one, epoch in epochs.items() if one in logs})

    def write_epochs(self) -> None:
        """Write the epochs that followers have taken to the checkpoints."""
        self.directory.write_epochs()

    def replica_log(self, log: PartitionLog) -> PartitionReplicaLog:
        """The log with the interface of a replica."""
        return PartitionReplicaLog(log, self.now_ms)

    def delete(self, partition: TopicPartition) -> None:
        """Rename the folder out of the way; its files go after file.delete.delay.ms."""
        now = self.now_ms()
        self.directory.delete(partition, f"{now:032x}", now)
        self.cleaner.forget(partition)

    def offline(self) -> Mapping[TopicPartition, str]:
        """All partitions once the disk has failed; else the damaged ones."""
        directory = self.directory
        if directory.disk.failure is not None:
            return {TopicPartition(*one): directory.disk.failure for one in directory.logs}
        return {TopicPartition(*one): str(why) for one, why in directory.damaged.items()}

    def failure(self) -> str | None:
        """The failure of the disk; None if it has not failed."""
        return self.directory.disk.failure

    def flush(self) -> None:
        """Flush every log."""
        self.directory.flush()
        self.directory.checkpoint()

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write the high watermarks to the checkpoint."""
        self._know(high_watermarks)
        self.directory.checkpoint()

    def apply_retention(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Delete records that exceed retention, and files whose delete delay is over."""
        self._know(high_watermarks)
        self.directory.apply_retention(self.now_ms())

    def expire_producers(self) -> None:
        """Remove producers that have been silent for too long."""
        self.directory.expire_producers(self.now_ms())

    def clean(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Compact the dirtiest log, if any needs it."""
        self._know(high_watermarks)
        self.cleaner.clean_dirtiest(self.now_ms())

    def close(self, broker_epoch: int) -> None:
        """Flush everything and leave the mark of a controlled shutdown."""
        self.directory.close(broker_epoch)

    def clean_shutdown_epoch(self) -> int:
        """The broker epoch that the clean shutdown mark names, or -1."""
        return self._closed_by

    def _know(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        for partition, high_watermark in high_watermarks.items():
            self.directory.logs[partition].high_watermark = high_watermark
