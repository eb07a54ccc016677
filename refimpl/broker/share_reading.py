"""Reading a partition's log for a share group: the bytes, and the offsets that hold records."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from attrs import frozen

from refimpl.broker.partition import Partition
from refimpl.machines.replica_log import Record
from refimpl.machines.share_partition import Reading
from refimpl.messages.broker import READ_COMMITTED
from refimpl.storage.format.batch import BatchHeader, decode_records
from refimpl.storage.format.txn_index import AbortedTxn
from refimpl.storage.replica.memory import BatchedValue, place_of
from refimpl.storage.replica.memory_records import MemoryRecords, whole


@frozen
class ReadBatch:
    """One batch that was read: its first and last offset, its records, and its bytes."""

    base_offset: int
    last_offset: int
    offsets: Sequence[int]
    data: bytes


def read(partition: Partition, offset: int, limit: int, isolation_level: int) -> list[ReadBatch]:
    """Batches from an offset on; those of aborted transactions and markers have no records."""
    end, log = partition.fetchable_end(isolation_level), partition.log
    if offset >= end or offset < log.start:
        return []
    records = log.slice(offset, max(limit, 1), end)
    committed = isolation_level == READ_COMMITTED
    aborted = log.aborted_transactions(offset, end) if committed else ()
    if isinstance(records, MemoryRecords):
        return list(_batches(records.data, aborted))
    return list(_in_memory(offset, records, aborted))


def reading(batches: Sequence[ReadBatch], offset: int) -> Reading:
    """The states of the offsets from one on, by these batches."""
    if not batches:
        return Reading((), offset)
    return Reading([one for batch in batches for one in batch.offsets], batches[-1].last_offset + 1)


def _in_memory(
    start: int, records: Sequence[Record], aborted: Sequence[AbortedTxn]
) -> Iterator[ReadBatch]:
    numbered = enumerate(records, start)
    for _, of_batch in groupby(numbered, lambda one: one[0] - place_of(one[1])):
        offsets = [offset for offset, _ in of_batch]
        first, value = offsets[0], records[offsets[0] - start].value
        hidden = isinstance(value, BatchedValue) and (
            value.batch.marker is not None
            or (value.batch.transactional and _is_aborted(value.batch.producer_id, first, aborted))
        )
        yield ReadBatch(first, offsets[-1], () if hidden else offsets, b"")


def _batches(data: bytes, aborted: Sequence[AbortedTxn]) -> Iterator[ReadBatch]:
    for header, batch in whole(data):
        first, last = header.base_offset, header.last_offset
        hidden = header.is_control or (
            header.is_transactional and _is_aborted(header.producer_id, first, aborted)
        )
        yield ReadBatch(first, last, () if hidden else _offsets(header, batch), batch)


def _is_aborted(producer_id: int, offset: int, aborted: Sequence[AbortedTxn]) -> bool:
    return any(
        one.producer_id == producer_id and one.first_offset <= offset <= one.last_offset
        for one in aborted
    )


def _offsets(header: BatchHeader, batch: bytes) -> Sequence[int]:
    """The offsets of a batch's records; only a compacted one has to be opened for that."""
    if header.record_count == header.last_offset_delta + 1:
        return range(header.base_offset, header.last_offset + 1)
    return [one.offset for one in decode_records(batch)]
