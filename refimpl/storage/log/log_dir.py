"""A log directory: a folder per partition, and the checkpoints that they share.

Kafka calls it LogManager, for one of its directories (KIP-112, KIP-858). A partition that cannot be
opened stays closed and is reported; the others go on. A disk failure takes all of them offline.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence

from attrs import define, field

from refimpl.errors import StorageDamage, StorageOffline
from refimpl.storage.config import LogConfig
from refimpl.storage.disk.guarded import GuardedDisk
from refimpl.storage.disk.interface import Disk, replace_files
from refimpl.storage.format.checkpoints import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    Partition,
    read_offsets,
    take_clean_shutdown,
    write_clean_shutdown,
    write_offsets,
    write_partition_metadata,
)
from refimpl.storage.log.epoch_cache import EpochCache
from refimpl.storage.log.leftovers import TEMPORARY
from refimpl.storage.log.partition_log import PartitionLog
from refimpl.storage.log.recovery import nothing, open_log

_FOLDER = re.compile(r"([a-zA-Z0-9._-]+)-(\d+)")
_DELETING = "-delete"
_FUTURE = re.compile(r"([a-zA-Z0-9._-]+)-(\d+)\.([0-9a-f]{32})-future")
_FIRST = f"{0:020d}."


def folder_name(partition: Partition) -> str:
    """The name of a partition's folder: `topic-partition`."""
    return f"{partition[0]}-{partition[1]}"


def future_name(partition: Partition, unique: str) -> str:
    """The name of the folder that a log moves to, as long as it is not all there (KIP-113)."""
    return f"{folder_name(partition)}.{unique}-future"


def _deleted_name(partition: Partition, unique: str) -> str:
    return f"{folder_name(partition)}.{unique}{_DELETING}"


@define(eq=False)
class LogDir:
    """All partitions in one directory."""

    disk: GuardedDisk
    config: LogConfig
    overrides: Mapping[str, LogConfig]
    logs: dict[Partition, PartitionLog] = field(factory=dict[Partition, PartitionLog], init=False)
    damaged: dict[Partition, StorageDamage] = field(
        factory=dict[Partition, StorageDamage], init=False
    )
    #: The logs of partitions that move here from another directory (KIP-113)
    futures: dict[Partition, PartitionLog] = field(
        factory=dict[Partition, PartitionLog], init=False
    )
    _offsets: dict[str, dict[Partition, int]] = field(
        factory=dict[str, dict[Partition, int]], init=False
    )
    _flushed_ms: dict[Partition, int] = field(factory=dict[Partition, int], init=False)
    _doomed: dict[str, int] = field(factory=dict[str, int], init=False)
    _opening: bool = field(default=True, init=False)
    #: The epochs that followers have taken, not yet written
    _epochs: dict[EpochCache, None] = field(factory=dict[EpochCache, None], init=False)
    #: Folders that exist for partitions that are not created yet
    _prepared: set[tuple[Partition, bytes]] = field(
        factory=set[tuple[Partition, bytes]], init=False
    )

    @classmethod
    def open(
        cls,
        disk: Disk,
        now_ms: int,
        config: LogConfig | None = None,
        overrides: Mapping[str, LogConfig] | None = None,
    ) -> "LogDir":
        """Open every partition, recovering those that need it.

        `overrides` are the settings of topics that have their own. A damaged checkpoint is an
        error. It is replaced as a whole, so no crash can damage it, and without it flushed data
        could not be told from torn data.
        """
        guarded = GuardedDisk(disk)
        opened = cls(guarded, config or LogConfig(), overrides or {})
        clean = take_clean_shutdown(guarded)
        there = guarded.list_files("")
        for path in (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS):
            opened._offsets[path] = read_offsets(guarded, path) if path in there else {}
        for folder in guarded.folders():
            opened._open_folder(folder, now_ms, clean=clean)
        opened._opened(now_ms, clean=clean)
        return opened

    @property
    def is_offline(self) -> bool:
        """True if the disk has failed."""
        return self.disk.failure is not None

    def log(self, partition: Partition) -> PartitionLog:
        """The log of a partition that exists here and is undamaged."""
        if self.disk.failure is not None:
            raise StorageOffline(self.disk.failure)
        if partition in self.damaged:
            raise StorageOffline(str(self.damaged[partition]))
        return self.logs[partition]

    def prepare(self, topic_ids: Mapping[Partition, bytes]) -> None:
        """Make the folders of new partitions together: each alone would wait for the disk three
        times.
        """
        folders = {folder_name(one): topic_id for one, topic_id in topic_ids.items()}
        for folder in folders:
            self.disk.make_folder(folder)
        write_partition_metadata(self.disk, folders)
        self._prepared |= topic_ids.items()

    def create(self, partition: Partition, topic_id: bytes, now_ms: int) -> PartitionLog:
        """An empty log for a new partition, whose folder survives a crash from now on.

        Only partition.metadata is flushed: without its other files the log is as empty. No
        checkpoint is written either: a log without an entry starts at 0.
        """
        self.delete_future(partition, now_ms)
        if (partition, topic_id) not in self._prepared:
            self.prepare({partition: topic_id})
        self._prepared.discard((partition, topic_id))
        log = self._open(partition, now_ms, clean=True, write_marks=nothing)
        log.local.write_marks = self._write_marks
        return log

    def begin_epochs(self, epochs: Mapping[Partition, int]) -> None:
        """Begin a leader epoch at the end of each of these logs; all are on disk before this
        returns.

        They are written together: each alone would wait for the disk twice.
        """
        begun = [self.logs[partition] for partition in epochs]
        for log, epoch in zip(begun, epochs.values(), strict=True):
            log.epochs.note(epoch, log.local.end_offset)
        self._write_epochs([log.epochs for log in begun])

    def write_epochs(self) -> None:
        """Write the epochs that followers have taken; all are on disk before this returns."""
        if self._epochs:
            self._write_epochs(list(self._epochs))

    def _write_epochs(self, caches: Collection[EpochCache]) -> None:
        files: dict[str, bytes] = {}
        for cache in caches:
            files |= cache.unwritten()
        if files:
            replace_files(self.disk, files)
        for cache in caches:
            cache.written()

    def delete(self, partition: Partition, unique: str, now_ms: int) -> None:
        """Delete a partition; its files go after `file.delete.delay.ms`, under a unique name."""
        self._doom(self.logs.pop(partition), _deleted_name(partition, unique), now_ms)

    def _doom(self, log: PartitionLog, name: str, now_ms: int) -> None:
        self._epochs.pop(log.epochs, None)
        self.disk.rename(log.folder, name)
        self.disk.flush_folder("")
        self._doomed[name] = now_ms + log.config.file_delete_delay_ms
        self.checkpoint()

    # Moves between directories (KIP-113)

    def create_future(
        self, partition: Partition, topic_id: bytes, unique: str, config: LogConfig, now_ms: int
    ) -> PartitionLog:
        """An empty log in a folder of its own, for a partition that moves here."""
        folder = future_name(partition, unique)
        self.disk.make_folder(folder)
        write_partition_metadata(self.disk, {folder: topic_id})
        log = self.futures[partition] = open_log(self.disk, folder, config, now_ms, clean=True)
        log.local.write_marks = self._write_marks
        log.epochs.together = self._epochs
        return log

    def delete_future(self, partition: Partition, now_ms: int) -> None:
        """Give up a move to this directory; the files go after file.delete.delay.ms."""
        log = self.futures.pop(partition, None)
        if log is not None:
            self._doom(log, _deleted_name(partition, _unique(log.folder)), now_ms)

    def settle(self, partition: Partition, high_watermark: int) -> str:
        """Have a future log on disk with all its marks; return the unique part of its name.

        The current log may be deleted after that, under a name with the same part: it says, to a
        start after a crash, that the future log was whole.
        """
        log = self.futures[partition]
        log.advance_high_watermark(high_watermark)
        log.close()
        self.checkpoint()
        return _unique(log.folder)

    def replace(self, partition: Partition, now_ms: int) -> PartitionLog:
        """Let a future log that is settled be the log of its partition; return it under its name.

        If that fails it is the partition's log as well, and as offline as the directory.
        """
        log = self.logs[partition] = self.futures.pop(partition)
        self._epochs.pop(log.epochs, None)
        folder, local = folder_name(partition), log.local
        self.disk.rename(log.folder, folder)
        self.disk.flush_folder("")
        opened = self.logs[partition] = open_log(
            *(self.disk, folder, log.config, now_ms),
            clean=True,
            recovery_point=local.recovery_point,
            log_start=log.log_start_offset,
            high_watermark=log.high_watermark,
            write_marks=self._write_marks,
        )
        opened.epochs.together = self._epochs
        return opened

    def was_replaced(self, partition: Partition, by: str) -> bool:
        """True if a log of this partition was deleted because one of this unique name is whole."""
        return _deleted_name(partition, by) in self._doomed

    def unique_of(self, partition: Partition) -> str:
        """The unique part of the name of a future log's folder."""
        return _unique(self.futures[partition].folder)

    def _all(self) -> list[PartitionLog]:
        return [*self.logs.values(), *self.futures.values()]

    def checkpoint(self) -> None:
        """Write the recovery points, the log starts and the high watermarks."""
        self._write_marks()
        self._write(HIGH_WATERMARKS, lambda log: log.high_watermark)

    def housekeeping(self, now_ms: int) -> None:
        """Do the periodic work: flushing by time, retention, expiry, delayed deletion,
        checkpoints.
        """
        self.flush_due(now_ms)
        self.apply_retention(now_ms)
        self.expire_producers(now_ms)
        self.checkpoint()

    def flush_due(self, now_ms: int) -> None:
        """Flush the logs that were not flushed for `flush.ms`."""
        for partition, log in self.logs.items():
            if now_ms - self._flushed_ms.setdefault(partition, now_ms) >= log.config.flush_ms:
                log.flush()
                self._flushed_ms[partition] = now_ms

    def expire_producers(self, now_ms: int) -> None:
        """Remove producers that have been silent for too long."""
        for log in self.logs.values():
            log.producers.expire_all(now_ms, log.config.producer_id_expiration_ms)

    def apply_retention(self, now_ms: int) -> None:
        """Delete records that exceed retention, and files whose delete delay is over."""
        for log in self.logs.values():
            log.apply_retention(now_ms)
        self.delete_due(now_ms)

    def delete_due(self, now_ms: int) -> None:
        """Delete the files whose delay is over."""
        for log in self._all():
            log.local.delete_due(now_ms)
        for folder in [folder for folder, due_ms in self._doomed.items() if due_ms <= now_ms]:
            for name in self.disk.list_files(folder):
                self.disk.delete(f"{folder}/{name}")
            self.disk.delete_folder(folder)
            del self._doomed[folder]

    def flush(self, besides: Sequence[str] = ()) -> None:
        """Flush every log, all of them together, and new files besides."""
        self.write_epochs()
        files = list(besides)
        folders = [path.rpartition("/")[0] for path in besides]
        for log in self._all():
            of_log, folder = log.local.unflushed()
            files += of_log
            folders += folder
        if files or folders:
            self.disk.flush_together(files, folders)
        for log in self._all():
            log.local.flushed()

    def close(self, broker_epoch: int = -1) -> None:
        """Flush everything and leave the clean shutdown mark.

        All logs are flushed together, and all snapshots: each alone would wait for the disk. A
        snapshot has a checksum, and is new: it is written under its name at once, as by Kafka.
        """
        snapshots: dict[str, bytes] = {}
        for log in self._all():
            log.local.active.end()
            snapshots |= log.missing_snapshot()
        for path, content in snapshots.items():
            self.disk.overwrite(path, content)
        self.flush(list(snapshots))
        self.checkpoint()
        write_clean_shutdown(self.disk, broker_epoch)

    def _open_folder(self, folder: str, now_ms: int, *, clean: bool) -> None:
        name = _FOLDER.fullmatch(folder)
        if folder.endswith(_DELETING):
            self._doomed[folder] = now_ms + self.config.file_delete_delay_ms
        elif name is not None and not self._was_begun(folder):
            partition = name[1], int(name[2])
            try:
                self._open(partition, now_ms, clean=clean, write_marks=self._write_marks)
            except StorageDamage as damage:
                self.damaged[partition] = damage
        elif (future := _FUTURE.fullmatch(folder)) is not None:
            self._open_future((future[1], int(future[2])), folder, now_ms, clean=clean)

    def _opened(self, now_ms: int, *, clean: bool) -> None:
        """Do together what each log left to be done for its opening: alone it waits for the disk.

        Leader epochs first, because recovery reads no epochs below the recovery point.
        """
        self._write_epochs([log.epochs for log in self._all()])
        self._opening = False
        for partition in self.futures.keys() & (self.logs.keys() | self.damaged.keys()):
            self.delete_future(partition, now_ms)
        if not clean:
            self.flush()
        self.checkpoint()

    def _open_future(self, partition: Partition, folder: str, now_ms: int, *, clean: bool) -> None:
        """Open a log that was moving here; what cannot go on is deleted, for it is a copy."""
        is_whole = PARTITION_METADATA in self.disk.list_files(folder)
        if partition not in self.futures and is_whole:
            try:
                self.futures[partition] = self._open(
                    partition, now_ms, clean=clean, write_marks=self._write_marks, folder=folder
                )
            except StorageDamage:
                is_whole = False
            else:
                return
        doomed = _deleted_name(partition, _unique(folder))
        self.disk.rename(folder, doomed)
        self._doomed[doomed] = now_ms + self.config.file_delete_delay_ms

    def _was_begun(self, folder: str) -> bool:
        """Delete the leftovers of a log whose process was killed while creating it; True if it was
        one.

        Such a log has no partition.metadata, which comes before anything else, and at most the
        empty files of a first segment. Brokers before Kafka 2.8 wrote no partition.metadata, but
        their logs have data.
        """
        files = self.disk.list_files(folder)
        if PARTITION_METADATA in files or not all(
            name.endswith(TEMPORARY) or (size == 0 and name.startswith(_FIRST))
            for name, size in files.items()
        ):
            return False
        for name in files:
            self.disk.delete(f"{folder}/{name}")
        self.disk.delete_folder(folder)
        return True

    def _open(
        self,
        partition: Partition,
        now_ms: int,
        *,
        clean: bool,
        write_marks: Callable[[], None],
        folder: str | None = None,
    ) -> PartitionLog:
        def known(path: str) -> int:
            return self._offsets[path].get(partition, 0)

        log = open_log(
            self.disk,
            folder or folder_name(partition),
            self.overrides.get(partition[0], self.config),
            now_ms,
            clean=clean,
            recovery_point=known(RECOVERY_POINTS),
            log_start=known(LOG_STARTS),
            high_watermark=known(HIGH_WATERMARKS),
            write_marks=write_marks,
            with_others=self._opening,
        )
        log.epochs.together = self._epochs
        if folder is None:
            self.logs[partition] = log
        return log

    def _write_marks(self) -> None:
        if self._opening:
            self._write_epochs([log.epochs for log in self._all()])
        self._write(RECOVERY_POINTS, lambda log: log.local.recovery_point)
        self._write(LOG_STARTS, lambda log: log.log_start_offset)

    def _write(self, path: str, offset_of: Callable[[PartitionLog], int]) -> None:
        """Write one checkpoint, if it changed; entries of damaged partitions are kept.

        Entries of deleted folders are dropped: they mean nothing to a new folder of the same name.
        """
        offsets = self._offsets[path]
        kept = offsets.keys() if self._opening else offsets.keys() & self.damaged.keys()
        current = {partition: offsets[partition] for partition in kept}
        for logs in (self.futures, self.logs):
            current |= {partition: offset_of(log) for partition, log in logs.items()}
        if current != offsets:
            write_offsets(self.disk, path, current)
            self._offsets[path] = current


def _unique(folder: str) -> str:
    """The unique part of the name of a future log's folder."""
    found = _FUTURE.fullmatch(folder)
    assert found is not None, folder
    return found[3]
