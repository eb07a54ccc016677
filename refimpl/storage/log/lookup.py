"""Searches for records by time, and for the transactions that a reader must leave out.

KIP-79 (ListOffsets by time), KIP-98 (aborted transactions). They read, and change nothing.
"""

from refimpl.storage.format.batch import MAGIC, BatchHeader, decode_records
from refimpl.storage.format.txn_index import AbortedTxn
from refimpl.storage.log.local_log import LocalLog
from refimpl.storage.log.segment import Segment


def aborted_transactions(log: LocalLog, offset: int, up_to: int) -> list[AbortedTxn]:
    """The aborted transactions with records in this range, in the order of their markers."""
    aborted: list[AbortedTxn] = []
    for segment in log.segments[log.number_of(offset) :]:
        found, complete = segment.txn_index.overlapping(offset, up_to)
        aborted += found
        if complete:
            break
    return aborted


def offset_for_timestamp(log: LocalLog, timestamp: int, log_start: int) -> tuple[int, int] | None:
    """Offset and timestamp of the first record with this timestamp or a later one, from the log
    start on.

    Segments are ruled out by their newest timestamp, batches by their header; one batch is opened.
    """
    for segment in log.segments[log.number_of(log_start) :]:
        if segment.largest_timestamp()[0] < timestamp:
            continue
        found = segment.find(max(segment.offset_before(timestamp), log_start))
        if found is None:
            continue
        for position, header in segment.headers(found[0]):
            if header.max_timestamp >= timestamp:
                hit = _record(segment, position, header, timestamp, log_start)
                if hit is not None:
                    return hit
    return None


def _record(
    segment: Segment, position: int, header: BatchHeader, timestamp: int, log_start: int
) -> tuple[int, int] | None:
    """The first record in a batch with this timestamp or a later one, and not deleted.

    Compaction may have removed a batch's first records, or all of them. For old formats only the
    header is read: for compressed ones it names the last record in the wrapper.
    """
    if header.magic != MAGIC:
        return max(header.base_offset, log_start), header.max_timestamp
    for record in decode_records(segment.disk.read(segment.path, position, header.size)):
        if record.timestamp >= timestamp and record.offset >= log_start:
            return record.offset, record.timestamp
    return None
