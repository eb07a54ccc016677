"""The batches of a log as its memory of producers takes them (KIP-98)."""

from refimpl.machines.producer import Batch, Entry, Marker
from refimpl.machines.producer_state import ProducerState
from refimpl.storage.disk.interface import Buffer
from refimpl.storage.format.batch import BatchHeader
from refimpl.storage.format.control import EndTxnMarker, read_marker
from refimpl.storage.format.txn_index import AbortedTxn


def entry_of(header: BatchHeader, batch: Buffer, transaction_version: int = 0) -> Entry | None:
    """A producer's batch or marker; None for a marker that compaction has emptied."""
    if not header.is_control:
        return batch_of(header)
    marker = read_marker(batch)
    return None if marker is None else marker_of(header, marker, transaction_version)


def batch_of(header: BatchHeader) -> Batch:
    """A producer's batch of data."""
    return Batch(
        *(header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence),
        transactional=header.is_transactional,
        records=header.last_offset_delta + 1,
        timestamp_ms=header.max_timestamp,
    )


def marker_of(header: BatchHeader, marker: EndTxnMarker, transaction_version: int) -> Marker:
    """The end of a producer's transaction."""
    return Marker(
        *(header.producer_id, header.producer_epoch, marker.coordinator_epoch),
        *(transaction_version, marker.committed, header.max_timestamp),
    )


def take(
    state: ProducerState, entry: Entry, offset: int, now_ms: int | None = None
) -> AbortedTxn | None:
    """Remember an entry of the log; return the transaction that it aborts, for the index."""
    first = state.take(entry, offset, now_ms)
    if first < 0 or not isinstance(entry, Marker) or entry.committed:
        return None
    stable = min((*state.opened, offset + 1))
    return AbortedTxn(first, offset, entry.producer_id, stable)
