"""A partition's log in memory that knows batches and producers, as Kafka's files do.

The rules for producers are those of the files: the machine `ProducerState`.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, cast

from attrs import define, field

from refimpl.machines.log import Log
from refimpl.machines.producer import Batch, Entry, Marker
from refimpl.machines.producer_state import ProducerState
from refimpl.machines.replica_log import Appended, Guard, Origin, Record
from refimpl.records.coordinators import CoordinatorRecord
from refimpl.records.transactional import InTransaction, TransactionEnd
from refimpl.storage.config import LogConfig
from refimpl.storage.format.batch import NO_SEQUENCE, NO_TIMESTAMP, last_sequence
from refimpl.storage.format.control import EndTxnMarker
from refimpl.storage.format.txn_index import AbortedTxn
from refimpl.storage.log.producers import take
from refimpl.storage.replica.transactional import TransactionalBatch, Writer


class RecordBatch(NamedTuple):
    """A producer's batch: the values, and the producer's id, epoch and sequence (KIP-98).

    A marker is a batch whose one value is its marker.
    """

    values: tuple[object, ...]
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    timestamp_ms: int = NO_TIMESTAMP
    transactional: bool = False
    marker: EndTxnMarker | None = None


class BatchedValue(NamedTuple):
    """The value of a record in memory: its batch, and its place in it."""

    batch: RecordBatch
    place: int

    @property
    def payload(self) -> object:
        """The producer's value of the record."""
        return self.batch.values[self.place]


@define(eq=False)
class MemoryLog(Log):
    """A `BrokerLog` in memory: its unit is the record, and it appends `RecordBatch`es.

    Batches are never split: not by a reader's limit, and not by a truncation.
    """

    producers: ProducerState = field(factory=ProducerState)
    deletes: bool = True
    _idempotent: bool = field(default=False, init=False)
    #: The transactions whose abort marker is in the log, in the order of the markers
    _aborted: list[AbortedTxn] = field(factory=list[AbortedTxn], init=False)

    def __attrs_post_init__(self) -> None:
        """Rebuild the producer state of a log that is not empty."""
        Log.__attrs_post_init__(self)
        self._replay()

    def configure(self, config: LogConfig) -> None:
        """Apply new settings; in memory only `deletes` changes."""
        self.deletes = config.deletes

    # Append

    def append(
        self,
        epoch: int,
        batch: Any,
        origin: Origin = Origin.CLIENT,
        transaction_version: int = 0,
        guard: Guard | None = None,
    ) -> Appended:
        """Append a batch as the leader of this epoch, unless it is there already.

        Raises OutOfOrderSequence if one is missing before it, InvalidProducerEpoch if a newer
        incarnation of the producer is known.
        """
        sent = cast("RecordBatch", batch)
        first = self.end
        last = first + len(sent.values) - 1
        entry = _entry(sent, transaction_version)
        if entry is not None:
            seen = self.producers.admit(entry, guard)
            if seen is not None:
                return Appended(seen.first_offset, seen.last_offset, duplicate=True)
        self._assign(epoch, first)
        self.records += [Record(epoch, BatchedValue(sent, at)) for at in range(len(sent.values))]
        self.end = last + 1
        if entry is not None:
            self._take(entry, first)
        return Appended(first, last)

    def extend(self, records: Iterable[Record]) -> None:
        """Append a leader's answer."""
        known = len(self.records)
        Log.extend(self, records)
        self._replay_from(known)

    # Read

    def slice(self, start: int, limit: int, up_to: int | None = None) -> Sequence[Record]:
        """Records from `start` on, below `up_to` or the end.

        They are whole batches of at most `limit` records, and the first one always.
        """
        records, begin = self.records, self.start
        first, end = start - begin, len(records)
        if up_to is not None and up_to - begin < end:
            end = up_to - begin
        last = first + limit
        if limit <= 0 or last > end:
            last = first if limit <= 0 else max(end, first)
        elif last < end:
            last = self._batch_start(last)
            if last <= first:
                last = first + 1
                while last < end and place_of(records[last]):
                    last += 1
        return Log.slice(self, start, last - first)

    @property
    def size(self) -> int:
        """The number of records."""
        return len(self.records)

    def size_of(self, records: Sequence[Record]) -> int:
        """The number of these records."""
        return len(records)

    def size_between(self, start: int, end: int) -> int:
        """The number of records from one offset to another."""
        return max(end - start, 0)

    def last_stable_offset(self, high_watermark: int) -> int:
        """The offset below which every transaction is decided, at this high watermark."""
        producers = self.producers
        if not (producers.opened or producers.unreplicated):
            return high_watermark
        producers.advance_high_watermark(high_watermark)
        return min(max(producers.last_stable(high_watermark), self.start), high_watermark)

    def aborted_transactions(self, start: int, up_to: int) -> Sequence[AbortedTxn]:
        """The aborted transactions that a read_committed reader must leave out of this range."""
        return [
            one for one in self._aborted if one.last_offset >= start and one.first_offset < up_to
        ]

    def offset_for_timestamp(self, timestamp: int) -> tuple[int, int] | None:
        """Offset and timestamp of the first record with this timestamp or a later one (KIP-79)."""
        for offset, record in enumerate(self.records, self.start):
            value = record.value
            if isinstance(value, BatchedValue) and value.batch.timestamp_ms >= max(timestamp, 0):
                return offset, value.batch.timestamp_ms
        return None

    def newest_timestamp(self) -> tuple[int, int] | None:
        """Offset and timestamp of the newest record; of the first one, if several are equally
        new.
        """
        times = [
            record.value.batch.timestamp_ms
            for record in self.records
            if isinstance(record.value, BatchedValue) and record.value.batch.timestamp_ms >= 0
        ]
        return self.offset_for_timestamp(max(times)) if times else None

    def epoch_at(self, offset: int) -> int:
        """The epoch of the record at this offset, -1 for none."""
        here = self.start <= offset < self.end
        return self.records[offset - self.start].epoch if here else -1

    # Coordinators

    def keyed_batch(
        self, records: Sequence[CoordinatorRecord], now_ms: int, writer: Writer | None = None
    ) -> RecordBatch:
        """One batch of a coordinator's records; in memory each record itself is the value."""
        batch = RecordBatch(tuple(records), timestamp_ms=now_ms)
        if writer is None:
            return batch
        producer_id, producer_epoch = writer
        return batch._replace(
            producer_id=producer_id, producer_epoch=producer_epoch, transactional=True
        )

    def marker_batch(self, writer: Writer, marker: EndTxnMarker, now_ms: int) -> RecordBatch:
        """The batch that ends a producer's transaction here."""
        return RecordBatch((marker,), *writer, NO_SEQUENCE, now_ms, True, marker)

    def transactional(self, batch: RecordBatch) -> TransactionalBatch | None:
        """The producer of a batch, if it is of a transaction."""
        return TransactionalBatch(*batch[1:4]) if batch.transactional else None

    def keyed_records(
        self, start: int, records: Sequence[Record], committed: int = 0
    ) -> tuple[Sequence[tuple[int, CoordinatorRecord | InTransaction | TransactionEnd]], int]:
        """The records of a coordinator and the ends of transactions, with their offsets; and the
        next offset. None is left out: they are decoded already.
        """
        found: list[tuple[int, CoordinatorRecord | InTransaction | TransactionEnd]] = []
        for offset, record in enumerate(records, start):
            value = record.value
            payload = value.payload if isinstance(value, BatchedValue) else value
            batch = value.batch if isinstance(value, BatchedValue) else RecordBatch(())
            if isinstance(payload, EndTxnMarker):
                found.append((offset, TransactionEnd(batch.producer_id, payload.committed)))
            elif isinstance(payload, CoordinatorRecord):
                one = InTransaction(payload, batch.producer_id) if batch.transactional else payload
                found.append((offset, one))
        return found, start + len(records)

    # Truncation

    def truncate_to(self, end: int) -> None:
        """Truncate the log to this end offset, or before it if a batch would be split."""
        before = len(self.records)
        if self.start < end < self.end:
            end = self.start + self._batch_start(end - self.start)
        Log.truncate_to(self, end)
        if len(self.records) < before:
            self._replay()

    def restart_at(self, offset: int) -> None:
        """Delete everything, and go on at this offset."""
        Log.restart_at(self, offset)
        self._replay()

    def _batch_start(self, at: int) -> int:
        """The index in the list at which this record's batch begins."""
        return max(at - place_of(self.records[at]), 0)

    # Producers

    def _replay(self) -> None:
        """Rebuild the producer state from the log."""
        if not self._idempotent and not self.records:
            return
        self.producers, self._idempotent, self._aborted = ProducerState(), False, []
        self._replay_from(0)

    def _replay_from(self, at: int) -> None:
        for offset, record in enumerate(self.records[at:], self.start + at):
            value = record.value
            if isinstance(value, BatchedValue) and not value.place:
                entry = _entry(value.batch)
                if entry is not None:
                    self._take(entry, offset)

    def _take(self, entry: Entry, offset: int) -> None:
        aborted = take(self.producers, entry, offset)
        if aborted is not None:
            self._aborted.append(aborted)
        self._idempotent = True


def place_of(record: Record) -> int:
    """The place of a record in its batch."""
    value = record.value
    return value.place if isinstance(value, BatchedValue) else 0


def _entry(batch: RecordBatch, transaction_version: int = 0) -> Entry | None:
    """A producer's batch or marker; None for a batch of nobody."""
    values, producer_id, epoch, first, timestamp_ms, transactional, marker = batch
    if producer_id < 0:
        return None
    if marker is not None:
        end = marker.coordinator_epoch, transaction_version, marker.committed, timestamp_ms
        return Marker(producer_id, epoch, *end)
    last = last_sequence(first, len(values))
    return Batch(
        *(producer_id, epoch, first, last, transactional),
        records=len(values),
        timestamp_ms=timestamp_ms,
    )
