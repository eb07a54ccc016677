"""Kafka's files as the log of a replica: `ReplicaLog` on top of `PartitionLog`."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias, overload

from attrs import define

from refimpl.machines.producer_state import ProducerState
from refimpl.machines.replica_log import (
    UNDEFINED,
    UNDEFINED_EPOCH,
    Appended,
    EpochEnd,
    Guard,
    Origin,
    Record,
)
from refimpl.named import named
from refimpl.records.coordinators import (
    CoordinatorRecord,
    RecordType,
    UnknownRecordType,
    read_record,
    records_in,
    write_record,
)
from refimpl.records.schema import INT16
from refimpl.records.transactional import Entry, InTransaction, TransactionEnd
from refimpl.storage.config import LogConfig
from refimpl.storage.disk.interface import Buffer
from refimpl.storage.format.batch import BatchHeader, decode_records, encode_batch, read_header
from refimpl.storage.format.control import EndTxnMarker, encode_marker, read_marker
from refimpl.storage.format.record import Record as KeyedRecord
from refimpl.storage.format.txn_index import AbortedTxn
from refimpl.storage.log.partition_log import PartitionLog
from refimpl.storage.replica.memory_records import MemoryRecords, Opened, as_bytes, whole
from refimpl.storage.replica.transactional import TransactionalBatch, Writer

_ANY_EPOCH = 2**31 - 1

Encoded: TypeAlias = tuple[int, bytes, bytes | None, int | None]
"""Offset, key and value of a record, and the producer in whose transaction it is."""


@define(eq=False)
class PartitionReplicaLog:
    """A `BrokerLog` whose records are batches of bytes in segments on a disk.

    A log that needs the time calls `now_ms`. A limit is counted in units of `unit` bytes: 1 for
    Kafka's max.bytes. Where all batches have one size, that size counts records.
    """

    log: PartitionLog
    now_ms: Callable[[], int]
    open: Callable[[bytes], Opened] = as_bytes
    unit: int = 1

    @property
    def start(self) -> int:
        """The log start offset."""
        return self.log.log_start_offset

    @property
    def end(self) -> int:
        """The log end offset."""
        return self.log.local.end_offset

    @property
    def latest_epoch(self) -> int:
        """The newest epoch in the log, -1 for none."""
        epochs = self.log.epochs.epochs
        return epochs[-1] if epochs else UNDEFINED_EPOCH

    @property
    def records(self) -> Sequence[Record]:
        """The records from `start` on, read and opened only when used."""
        return _Opened(self)

    def append(
        self,
        epoch: int,
        batch: Any,
        origin: Origin = Origin.CLIENT,
        transaction_version: int = 0,
        guard: Guard | None = None,
    ) -> Appended:
        """Append the batches of a client or of a coordinator as the leader of this epoch."""
        data, now_ms = self.encoded(batch), self.now_ms()
        written = self.log.append_as_leader(data, epoch, now_ms, origin, transaction_version, guard)
        return named(Appended, written)

    def encoded(self, batch: Any) -> Buffer:
        """The bytes of what is appended; a log of values encodes them here."""
        return batch

    def extend(self, records: MemoryRecords | Sequence[Record]) -> None:
        """Append a leader's answer, with its offsets and epochs.

        A leader in this process answers `()` if the next batch does not fit. Replica checks by the
        answer's epoch that no batch is of a newer epoch than the leader's.
        """
        if isinstance(records, MemoryRecords) and records.data:
            self.log.append_as_follower(records.data, _ANY_EPOCH, self.now_ms())

    def slice(self, start: int, limit: int, up_to: int | None = None) -> MemoryRecords:
        """Batches from the one that holds `start`, below `up_to` or the end, within the limit."""
        data = self.log.read(start, limit * self.unit, up_to if limit > 0 else start)
        return MemoryRecords(data, start, self.open)

    @property
    def producers(self) -> ProducerState:
        """The state of idempotent and transactional producers."""
        return self.log.producers

    @property
    def size(self) -> int:
        """The size of all segments."""
        return self.log.local.size // self.unit

    def size_of(self, records: MemoryRecords | Sequence[Record]) -> int:
        """The size of records that were read."""
        return len(records.data) // self.unit if isinstance(records, MemoryRecords) else 0

    def size_between(self, start: int, end: int) -> int:
        """The size of the batches from the one that holds `start` on, below `end`."""
        return self.log.local.size_between(start, end) // self.unit

    # Operations for clients

    def configure(self, config: LogConfig) -> None:
        """Apply new settings."""
        self.log.local.configure(config)

    @property
    def deletes(self) -> bool:
        """True if records may be deleted."""
        return self.log.config.deletes

    def last_stable_offset(self, high_watermark: int) -> int:
        """The offset below which every transaction is decided, at this high watermark."""
        log = self.log
        log.high_watermark = high_watermark
        if not (log.producers.opened or log.producers.unreplicated):
            return high_watermark
        log.producers.advance_high_watermark(high_watermark)
        return log.last_stable_offset

    def aborted_transactions(self, start: int, up_to: int) -> Sequence[AbortedTxn]:
        """The aborted transactions that a read_committed reader must leave out of this range."""
        return self.log.aborted_transactions(start, up_to)

    def offset_for_timestamp(self, timestamp: int) -> tuple[int, int] | None:
        """Offset and timestamp of the first record with this timestamp or a later one."""
        return self.log.offset_for_timestamp(timestamp)

    def newest_timestamp(self) -> tuple[int, int] | None:
        """Offset and timestamp of the newest record; of the first one, if several are equally
        new.
        """
        return self.log.newest_timestamp()

    def keyed_batch(
        self, records: Sequence[CoordinatorRecord], now_ms: int, writer: Writer | None = None
    ) -> bytes:
        """One batch of keys and values as Kafka's coordinators write them."""
        pairs = map(write_record, records)
        keyed = [KeyedRecord(at, now_ms, key, value) for at, (key, value) in enumerate(pairs)]
        if writer is None:
            return encode_batch(keyed)
        producer_id, producer_epoch = writer
        return encode_batch(
            keyed, producer_id=producer_id, producer_epoch=producer_epoch, transactional=True
        )

    def marker_batch(self, writer: Writer, marker: EndTxnMarker, now_ms: int) -> bytes:
        """The batch that ends a producer's transaction here."""
        producer_id, epoch = writer
        return encode_marker(
            marker, producer_id=producer_id, producer_epoch=epoch, timestamp=now_ms
        )

    def transactional(self, batch: Buffer) -> TransactionalBatch | None:
        """The producer of a batch that is of a transaction; None for any other."""
        header = read_header(batch)
        if not header.is_transactional:
            return None
        return TransactionalBatch(header.producer_id, header.producer_epoch, header.base_sequence)

    def keyed_records(
        self, start: int, records: MemoryRecords, committed: int = 0
    ) -> tuple[Sequence[tuple[int, Entry]], int]:
        """The records of a coordinator and the ends of transactions, with their offsets; and the
        next offset.

        Values that a later record below `committed` replaces are left out, as compaction leaves
        them out. Most records of a long log are such, and a coordinator that loads would decode
        each for nothing.
        """
        ends: list[tuple[int, Entry]] = []
        encoded: list[Encoded] = []
        end = start
        for header, batch in whole(records.data):
            end = header.next_offset
            if header.is_control:
                marker = read_marker(batch)
                if marker is not None:
                    ended = TransactionEnd(header.producer_id, marker.committed)
                    ends.append((header.base_offset, ended))
            else:
                by = header.producer_id if header.is_transactional else None
                encoded += [(*one, by) for one in self.keyed_in(header, batch)]
        found = [*ends, *self._decoded(encoded, committed)]
        return sorted([one for one in found if one[0] >= start]), end

    def _decoded(self, encoded: Sequence[Encoded], committed: int) -> Iterator[tuple[int, Entry]]:
        """Each record with its offset; unknown types of newer brokers are left out."""
        kinds = records_in(self.log.folder.rpartition("-")[0])
        alone = {INT16.packing.pack(number) for number, kind in kinds.items() if kind.stands_alone}
        newest = {
            key: offset
            for offset, key, _, by in encoded
            if offset < committed and by is None and key[:2] in alone
        }
        for offset, key, value, by in encoded:
            if by is None and value is not None and newest.get(key, offset) > offset:
                continue
            with suppress(UnknownRecordType):
                record = self.keyed_record(kinds, key, value)
                yield offset, record if by is None else InTransaction(record, by)

    def keyed_in(
        self, header: BatchHeader, batch: bytes
    ) -> Sequence[tuple[int, bytes, bytes | None]]:
        """Offset, key and value of each record of a batch that has a key."""
        records = decode_records(batch)
        return [(one.offset, one.key, one.value) for one in records if one.key is not None]

    def keyed_record(
        self, kinds: Mapping[int, RecordType], key: bytes, value: bytes | None
    ) -> CoordinatorRecord:
        """The record of a coordinator in this key and value."""
        return read_record(kinds, key, value)

    def epoch_at(self, offset: int) -> int:
        """The leader epoch of the record at this offset, -1 for none."""
        epoch = self.log.epochs.epoch_at(offset) if self.start <= offset < self.end else None
        return UNDEFINED_EPOCH if epoch is None else epoch

    # Epochs

    def assign_epoch(self, epoch: int) -> None:
        """Begin this replica's leader epoch at the log end offset; it is on disk before this
        returns.
        """
        self.log.epochs.assign(epoch, self.log.local.end_offset)

    def end_of(self, epoch: int) -> EpochEnd:
        """OffsetForLeaderEpoch, as the epoch cache answers it."""
        found = self.log.end_offset_for_epoch(epoch)
        return UNDEFINED if found is None else EpochEnd._make(found)

    def start_of(self, epoch: int) -> int:
        """The start offset of this epoch, or of the next one in the log; else the log end
        offset.
        """
        cache = self.log.epochs
        index = bisect_left(cache.epochs, epoch)
        return cache.starts[index] if index < len(cache.starts) else self.log.local.end_offset

    def truncate_to(self, end: int) -> None:
        """Truncate the log to this end offset, or before it if a batch would be split."""
        self.log.truncate_to(end, self.now_ms())

    def advance_start(self, start: int) -> None:
        """DeleteRecords: delete below this offset, up to which the caller knows all to be
        replicated.
        """
        self.log.advance_high_watermark(start)
        self.log.advance_log_start(start)

    def restart_at(self, offset: int) -> None:
        """Delete everything, and go on at this offset."""
        self.log.restart_at(offset, self.now_ms())


@define(eq=False)
class _Opened(Sequence[Record]):
    """The records of a log, one per offset, opened only when used."""

    source: PartitionReplicaLog

    def __len__(self) -> int:
        return self.source.end - self.source.start

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | Sequence[Record]:
        if isinstance(index, slice):
            first, last, step = index.indices(len(self))
            return self._read(first, last)[::step]
        number = range(len(self))[index]
        return self._read(number, number + 1)[0]

    def _read(self, first: int, last: int) -> list[Record]:
        log, open_all = self.source.log, self.source.open
        first, last = first + log.log_start_offset, last + log.log_start_offset
        found: list[Record] = []
        while first < last and (data := log.read(first, 1 if last - first == 1 else 1 << 20)):
            for offset, record in open_all(data):
                if first <= offset < last:
                    found.append(record)
                first = max(first, offset + 1)
        return found
