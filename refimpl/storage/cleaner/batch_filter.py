"""The filter of compaction: Kafka's rules for one batch at a time.

The newest record of each key stays. A tombstone stays until its batch's delete horizon. The first
compaction that meets the tombstone writes that horizon (KIP-534), so that every reader has
`delete.retention.ms` to see it; transaction markers go the same way. Offsets never change. The
header of a producer's last batch outlives its records: it holds the sequence number from which that
producer must go on (KIP-98).
"""

from collections.abc import Mapping

from attrs import define

from refimpl.machines.producer import Producer
from refimpl.storage.cleaner.cleaned_transactions import CleanedTransactions
from refimpl.storage.cleaner.offset_map import OffsetMap
from refimpl.storage.disk.interface import Buffer
from refimpl.storage.format.batch import (
    MAGIC,
    BatchHeader,
    Record,
    TimestampType,
    emptied,
    encode_batch,
)
from refimpl.storage.format.legacy import records_at


@define
class BatchFilter:
    """The rules of one round of cleaning, and its progress."""

    keys: OffsetMap
    transactions: CleanedTransactions
    producers: Mapping[int, Producer]
    now_ms: int
    delete_retention_ms: int
    #: The end of the round; the last batch stays, so that the log does not end earlier afterwards.
    end_offset: int
    #: True if tombstones of formats v0 and v1 in this segment are still too young to go.
    keeps_old_tombstones: bool = True

    def cleaned(self, header: BatchHeader, data: Buffer) -> Buffer | None:
        """The part of the batch that stays: all, some records, only its header, or None."""
        may_go = self.transactions.discards(header, data)
        discarded = may_go and (not header.is_control or self._is_due(header))
        stays = header.next_offset == self.end_offset or self._is_last_of_producer(header)
        if discarded:
            return emptied(header) if stays else None
        records = list(records_at(data, 0, header))
        kept = [one for one in records if header.is_control or self._keeps(header, one)]
        if not kept:
            return emptied(header) if stays else None
        tombstones = any(one.value is None for one in kept)
        dated = header.delete_horizon_ms is not None
        date = (tombstones or (may_go and header.is_control)) and not dated
        if header.magic == MAGIC and len(kept) == len(records) and not date:
            return data
        horizon = self.now_ms + self.delete_retention_ms if date else header.delete_horizon_ms
        return _rewritten(header, kept, horizon)

    def _keeps(self, header: BatchHeader, record: Record) -> bool:
        if record.offset > self.keys.latest_offset:
            return True
        if record.key is None or record.offset < self.keys.newest(record.key):
            return False
        if record.value is not None:
            return True
        return self.keeps_old_tombstones if header.magic < MAGIC else not self._is_due(header)

    def _is_due(self, header: BatchHeader) -> bool:
        horizon = header.delete_horizon_ms
        return horizon is not None and horizon <= self.now_ms

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        """True if the producer's state depends on this batch.

        A producer with only markers is fenced by the epoch of its newest one.
        """
        producer = self.producers.get(header.producer_id)
        if producer is None:
            return False
        if producer.seen:
            return header.last_offset == producer.seen[-1].last_offset
        return header.is_control and header.producer_epoch == producer.epoch


def _rewritten(header: BatchHeader, kept: list[Record], horizon: int | None) -> bytes:
    """The batch with fewer records, or with a delete horizon; old formats become v2."""
    stamped = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    whole = header.magic == MAGIC
    return encode_batch(
        kept,
        codec=header.codec,
        base_offset=header.base_offset if whole else kept[0].offset,
        last_offset=header.last_offset if whole else kept[-1].offset,
        leader_epoch=header.leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
        control=header.is_control,
        delete_horizon_ms=horizon,
        append_time_ms=header.max_timestamp if stamped else None,
    )
