"""The disk with files: each broker's logs are Kafka's segments on a disk that crashes.

A crash keeps a part of each file's unflushed writes, and tears the next write. Every start of a
process is the storage's own recovery.
"""

import errno
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from attrs import define, field

from chaos.sim.expiry import Expiry
from chaos.sim.network import Clock
from refimpl.broker.file_logs import FileLogs
from refimpl.machines.replica_log import Record as LogRecord
from refimpl.messages.broker import TopicPartition
from refimpl.records.coordinators import CoordinatorRecord, RecordType
from refimpl.storage.config import LogConfig
from refimpl.storage.disk.crashing import CrashDisk, Inode
from refimpl.storage.disk.guarded import GuardedDisk
from refimpl.storage.disk.interface import Disk
from refimpl.storage.format.batch import CRC_FROM, BatchHeader, Record, decode_records, encode_batch
from refimpl.storage.format.control import encode_marker
from refimpl.storage.log.partition_log import PartitionLog
from refimpl.storage.replica.files import PartitionReplicaLog
from refimpl.storage.replica.memory import RecordBatch
from refimpl.storage.replica.memory_records import whole
from refimpl.storage.replica.transactional import TransactionalBatch

# Payloads have one width, so that batches of one record have one size, and a limit counts them.
WIDTH = 10


class StoredValue(NamedTuple):
    """The value of a record in a file, and whose batch it is in; a coordinator's has a key."""

    payload: int | tuple[bytes, bytes | None]
    producer_id: int
    producer_epoch: int
    base_sequence: int


def encoded(batch: RecordBatch) -> bytes:
    """The bytes of a batch."""
    values, producer_id, producer_epoch, base_sequence, timestamp, transactional, marker = batch
    if marker is not None:
        return encode_marker(
            marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp=timestamp
        )
    records = [
        Record(at, timestamp, None, str(value).zfill(WIDTH).encode())
        for at, value in enumerate(values)
    ]
    return encode_batch(
        records,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
    )


def decoded(header: BatchHeader, record: Record) -> StoredValue:
    """A record's decoded value."""
    who = header.producer_id, header.producer_epoch, header.base_sequence
    if record.key is not None:
        return StoredValue((record.key, record.value), *who)
    return StoredValue(int(record.value or b"-1"), *who)


@define(eq=False)
class Opener:
    """Opens batches, each content once: all that the CRC covers is the same in every replica.

    `keyed` are keys and values with their offsets in the batch, and `records` are the records of
    coordinators in them, by the log's name.
    """

    known: dict[bytes, tuple[tuple[int, StoredValue], ...]] = field(
        factory=dict[bytes, tuple[tuple[int, StoredValue], ...]]
    )
    keyed: dict[bytes, Sequence[tuple[int, bytes, bytes | None]]] = field(
        factory=dict[bytes, Sequence[tuple[int, bytes, bytes | None]]], repr=False
    )
    records: dict[tuple[str, bytes, bytes | None], CoordinatorRecord] = field(
        factory=dict[tuple[str, bytes, bytes | None], CoordinatorRecord], repr=False
    )

    def __call__(self, data: bytes) -> Iterator[tuple[int, LogRecord]]:
        """Each record with its offset."""
        for header, batch in whole(data):
            body, base, epoch = batch[CRC_FROM:], header.base_offset, header.leader_epoch
            values = self.known.get(body)
            if values is None:
                values = self.known[body] = tuple(
                    [(one.offset - base, decoded(header, one)) for one in decode_records(batch)]
                )
            for delta, value in values:
                yield base + delta, LogRecord(epoch, value)


SIZE = len(encoded(RecordBatch((0,))))


@contextmanager
def _whole(disk: Disk) -> Generator[None]:
    """Oracles read a disk's content even after it has failed."""
    assert isinstance(disk, GuardedDisk)
    assert isinstance(disk.disk, CrashDisk)
    was = disk.failure, disk.disk.fail
    disk.failure = disk.disk.fail = None
    try:
        yield
    finally:
        disk.failure, disk.disk.fail = was


def _works(disk: Disk) -> bool:
    """True if the disk has not failed, so that nothing has to be restored."""
    assert isinstance(disk, GuardedDisk)
    assert isinstance(disk.disk, CrashDisk)
    return disk.failure is None and disk.disk.fail is None


@define(eq=False)
class SimulatedLog(PartitionReplicaLog):
    """A log in files, of the batches that simulated producers make.

    Oracles read the same records again and again, so each is read from its file and decoded once.
    Truncated records are forgotten. At the end of a run everything is read anew.
    """

    opener: Opener = field(kw_only=True)
    known: list[LogRecord] = field(factory=list[LogRecord])

    @property
    def records(self) -> Sequence[LogRecord]:
        """The records from `start` on."""
        known, log = self.known, self.log
        if len(known) < log.local.end_offset - log.log_start_offset:
            unread = PartitionReplicaLog.records.__get__(self)
            if _works(self.log.disk):
                known += unread[len(known) :]
            else:
                with _whole(self.log.disk):
                    known += unread[len(known) :]
        return known

    def truncate_to(self, end: int) -> None:
        """Cut the log."""
        PartitionReplicaLog.truncate_to(self, end)
        del self.known[max(self.end - self.start, 0) :]

    def advance_start(self, start: int) -> None:
        """Delete records."""
        self.known = []
        PartitionReplicaLog.advance_start(self, start)

    def restart_at(self, offset: int) -> None:
        """Drop everything."""
        self.known = []
        PartitionReplicaLog.restart_at(self, offset)

    def transactional(self, batch: Any) -> TransactionalBatch | None:
        """The producer of a batch, if it is of a transaction."""
        return TransactionalBatch(*batch[1:4]) if batch.transactional else None

    def encoded(self, batch: Any) -> bytes:
        """A batch that is not bytes yet as Kafka's."""
        return batch if isinstance(batch, bytes) else encoded(batch)

    def keyed_in(
        self, header: BatchHeader, batch: bytes
    ) -> Sequence[tuple[int, bytes, bytes | None]]:
        """The records of a batch that have keys, opened once."""
        body, base, known = batch[CRC_FROM:], header.base_offset, self.opener.keyed
        if body not in known:
            found = PartitionReplicaLog.keyed_in(self, header, batch)
            known[body] = [(offset - base, key, value) for offset, key, value in found]
        return [(base + delta, key, value) for delta, key, value in known[body]]

    def keyed_record(
        self, kinds: Mapping[int, RecordType], key: bytes, value: bytes | None
    ) -> CoordinatorRecord:
        """The record of a coordinator in this key and value, decoded once."""
        known, content = self.opener.records, (self.log.folder, key, value)
        record = known.get(content)
        if record is None:
            record = known[content] = PartitionReplicaLog.keyed_record(self, kinds, key, value)
        return record


@define(eq=False)
class CrashingLogs(FileLogs):
    """The log directory of one broker on a disk that crashes."""

    opener: Opener = field(factory=Opener)
    expiry: Expiry = field(factory=Expiry)

    @classmethod
    def on(cls, clock: Clock, config: LogConfig, expiry: Expiry) -> "CrashingLogs":
        """A new disk."""
        return cls(CrashDisk(), clock.now_ms, config, expiry=expiry)

    @property
    def records(self) -> int:
        """The number of records of all logs."""
        return sum(log.end_offset for log in self.directory.logs.values())

    def partitions(self) -> list[TopicPartition]:
        """The partitions that have logs."""
        return [TopicPartition(*one) for one in self.directory.logs]

    def expire_producers(self) -> None:
        """Forget the producers that were silent for long."""
        logs = self.directory.logs.items()
        states = {TopicPartition(*name): log.producers for name, log in logs}
        self.expiry.expire(states, lambda: FileLogs.expire_producers(self))

    def replica_log(self, log: PartitionLog) -> PartitionReplicaLog:
        """The log as a replica knows it."""
        return SimulatedLog(log, self.now_ms, self.opener, SIZE, opener=self.opener)

    @property
    def broken(self) -> bool:
        """True if the disk answers EIO."""
        assert isinstance(self.disk, CrashDisk)
        return self.disk.fail is not None

    def fail(self) -> bool:
        """From now on the disk answers EIO."""
        assert isinstance(self.disk, CrashDisk)
        self.disk.fail = lambda operation, path: errno.EIO
        return True

    def heal(self) -> None:
        """The disk works again, if no process noticed its failure."""
        assert isinstance(self.disk, CrashDisk)
        self.disk.fail = None

    def crashed(self, kept: float) -> "CrashingLogs":
        """The directory as the next process finds it."""
        disk = self.disk
        assert isinstance(disk, CrashDisk)

        def keep(path: str, inode: Inode) -> bytes:
            count = int(kept * len(inode.changes))
            if count == len(inode.changes):
                return inode.after(count)
            data = inode.changes[count].data
            return inode.after(count + 1, None if data is None else len(data) // 2)

        names = int(kept * len(disk.name_changes))
        crashed = disk.crashed(names, keep)
        expiry = Expiry(self.expiry.counts)
        return CrashingLogs(crashed, self.now_ms, self.config, opener=self.opener, expiry=expiry)
