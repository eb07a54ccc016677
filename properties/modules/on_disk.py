"""Replicas whose log is Kafka's files, and whose restarts are the storage's recovery.

A binding on disk is the same binding with other replicas, which write batches. `restart(checkpoint,
kept)` is a crash. The disk then has the first `kept` batches, half of the next one, and a
replication-offset-checkpoint of `checkpoint`. The storage, not the machine, decides the log's end,
its epochs and its high watermark; the conformance check compares them with the spec.
"""

from ast import literal_eval
from functools import cache
from typing import ClassVar

from attrs import define, field

from refimpl.machines.replica import Replica
from refimpl.storage.config import LogConfig
from refimpl.storage.disk.interface import MemoryDisk
from refimpl.storage.format.batch import BatchHeader, Record, encode_batch
from refimpl.storage.format.checkpoints import HIGH_WATERMARKS, RECOVERY_POINTS, write_offsets
from refimpl.storage.log.log_dir import LogDir, folder_name
from refimpl.storage.log.partition_log import PartitionLog
from refimpl.storage.log.segment import LOG
from refimpl.storage.replica.files import PartitionReplicaLog
from refimpl.storage.replica.memory_records import opened_by

PARTITION = "orders", 0
CONFIG = LogConfig()
NOW_MS = 0
#: The bytes of each value, so that all batches have one size and a limit counts records.
WIDTH = 16


@cache
def batch_of(value: object) -> bytes:
    """A batch with this value alone."""
    return encode_batch([Record(0, NOW_MS, None, repr(value).ljust(WIDTH).encode())])


@cache
def _value(content: bytes) -> object:
    return literal_eval(content.decode().rstrip())


def value_of(header: BatchHeader, content: bytes | None) -> object:
    """The value again, from a record's bytes."""
    return _value(content or b"None")


SIZE = len(batch_of(0))


@define(eq=False)
class LogOnDisk(PartitionReplicaLog):
    """A log in files of its own directory, on a disk that is only memory."""

    OPAQUE: ClassVar = True

    directory: LogDir = field(kw_only=True)
    disk: MemoryDisk = field(kw_only=True)
    crashing: bool = field(default=False, init=False)

    @classmethod
    def new(cls) -> "LogOnDisk":
        """An empty log."""
        disk = MemoryDisk()
        directory = LogDir.open(disk, NOW_MS, CONFIG)
        log = directory.create(PARTITION, bytes(16), NOW_MS)
        return cls(log, lambda: NOW_MS, opened_by(value_of), SIZE, directory=directory, disk=disk)

    def encoded(self, batch: object) -> bytes:
        """A value as a batch."""
        return batch_of(batch)

    def truncate_to(self, end: int) -> None:
        """Truncate the log; in a crash, lose the bytes after `end`, and recover."""
        if self.crashing:
            self._recover(end)
        else:
            super().truncate_to(end)

    def crash(self, checkpoint: int) -> None:
        """The process ends: high watermarks were last written down when ours stood here."""
        write_offsets(self.directory.disk, HIGH_WATERMARKS, {PARTITION: checkpoint})
        self.crashing = True

    def _recover(self, kept: int) -> None:
        """Start again on a disk that has the first `kept` batches, and half of the next one.

        Flushed bytes are lost only with the disk; then there is no recovery point.
        """
        content = self.disk.files[f"{folder_name(PARTITION)}/{0:020d}{LOG}"]
        if kept < self.log.local.recovery_point:
            write_offsets(self.disk, RECOVERY_POINTS, {PARTITION: 0})
        del content[kept * SIZE + (SIZE // 2) * (kept < self.end) :]
        self.directory = LogDir.open(self.disk, NOW_MS, CONFIG)
        self.log = self.directory.log(PARTITION)
        self.crashing = False

    @property
    def recovered(self) -> PartitionLog:
        """The recovered log."""
        return self.log


@define
class ReplicaOnDisk(Replica):
    """A replica that restarts with what its storage recovers."""

    def restart(self, checkpoint: int, kept: int) -> None:
        """Crash; the guard is the machine's, the log and the high watermark are the storage's."""
        log = self.log
        assert isinstance(log, LogOnDisk)
        if 0 <= checkpoint <= min(self.high_watermark, kept) and kept <= log.end:
            log.crash(checkpoint)
        super().restart(checkpoint, kept)
        self.high_watermark = log.recovered.high_watermark
