"""The disk with files: each broker's logs are Kafka's segments on a disk that crashes.

A crash keeps of each file a part of what was not flushed, and tears the write behind it; every
start of a process is the storage's own recovery.
"""

from collections.abc import Mapping
from typing import Any

import orjson
from attrs import define, field

from chaos.sim.network import Timeline
from refimpl.broker.logs import Found
from refimpl.broker.messages import RecordBatch, TopicPartition
from refimpl.broker.partition_replica_log import PartitionReplicaLog
from refimpl.storage.batch import BatchHeader, Record, encode_batch
from refimpl.storage.checkpoints import CLEAN_SHUTDOWN
from refimpl.storage.config import LogConfig
from refimpl.storage.crash_disk import CrashDisk, Inode
from refimpl.storage.disk import read_file
from refimpl.storage.log_dir import LogDir

# Payloads have one width, so that all batches have one size and a limit counts records.
WIDTH = 10
# A fetch reads from one segment, and Truncation knows none: a run for TLC stays in the first.
SMALL_SEGMENTS, ONE_SEGMENT = LogConfig(segment_bytes=4096), LogConfig(segment_bytes=1 << 24)


def encoded(batch: RecordBatch) -> bytes:
    """The bytes of a batch with one record."""
    value = str(batch.payload).zfill(WIDTH).encode()
    return encode_batch(
        [Record(0, 0, None, value)],
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
    )


def decoded(header: BatchHeader, value: bytes | None) -> RecordBatch:
    """The batch again, from the bytes of its record."""
    who = header.producer_id, header.producer_epoch, header.base_sequence
    return RecordBatch(int(value or b"-1"), *who)


SIZE = len(encoded(RecordBatch(0)))


@define(eq=False)
class SimulatedLog(PartitionReplicaLog):
    """A log in files, of the batches that simulated producers make."""

    def append(self, epoch: int, batch: Any) -> int:
        """Append a batch as the leader of this epoch."""
        return PartitionReplicaLog.append(self, epoch, encoded(batch))


@define(eq=False)
class FileLogs:
    """The log directory of one broker on a disk that crashes."""

    timeline: Timeline
    config: LogConfig = SMALL_SEGMENTS
    disk: CrashDisk = field(factory=CrashDisk)
    closed_by: int = field(default=-1, init=False)
    directory: LogDir = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Recover what is there."""
        if CLEAN_SHUTDOWN in self.disk.list_files(""):
            self.closed_by = orjson.loads(read_file(self.disk, CLEAN_SHUTDOWN))["brokerEpoch"]
        self.directory = LogDir.open(self.disk, self.timeline.now, self.config)

    @property
    def records(self) -> int:
        """How many records all logs have."""
        return sum(log.end_offset for log in self.directory.logs.values())

    def open(self, partition: TopicPartition) -> Found:
        """The recovered log, or a new one."""
        directory, now = self.directory, self.timeline.now
        if partition in directory.logs or partition in directory.damaged:
            log = directory.log(partition)
        else:
            log = directory.create(partition, bytes(16), now)
        replica_log = SimulatedLog(log, lambda: self.timeline.now, decoded, SIZE)
        return Found(replica_log, log.high_watermark)

    def flush(self) -> None:
        """Flush every log."""
        for log in self.directory.logs.values():
            log.flush()
        self.directory.checkpoint()

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write the high watermarks down."""
        for partition, high_watermark in high_watermarks.items():
            self.directory.logs[partition].high_watermark = high_watermark
        self.directory.checkpoint()

    def close(self, broker_epoch: int) -> None:
        """Flush everything and leave the mark of a controlled shutdown."""
        self.directory.close(broker_epoch)

    def clean_shutdown_epoch(self) -> int:
        """Who left the mark, or -1."""
        return self.closed_by

    def crashed(self, kept: float) -> "FileLogs":
        """The directory as the next process finds it."""
        disk = self.disk

        def keep(path: str, inode: Inode) -> bytes:
            count = int(kept * len(inode.changes))
            if count == len(inode.changes):
                return inode.after(count)
            data = inode.changes[count].data
            return inode.after(count + 1, None if data is None else len(data) // 2)

        names = int(kept * len(disk.name_changes))
        return FileLogs(self.timeline, self.config, disk.crashed(names, keep))
