"""Producer state from a snapshot and the batches behind it (KIP-98)."""

from collections.abc import Iterable

from refimpl.errors import CorruptFile, StorageDamage
from refimpl.machines.replica_log import Origin
from refimpl.storage.disk.interface import Buffer
from refimpl.storage.format.batch import MAGIC, NO_PRODUCER, BatchHeader
from refimpl.storage.format.control import read_marker
from refimpl.storage.format.offset_index import LARGEST_RELATIVE_OFFSET
from refimpl.storage.format.txn_index import AbortedTxn
from refimpl.storage.log.local_log import LocalLog
from refimpl.storage.log.producer_snapshot import read_snapshot
from refimpl.storage.log.producer_state import ProducerState, Staged
from refimpl.storage.log.segment import SNAPSHOT, Segment, file_name


def replayed(log: LocalLog, snapshots: Iterable[int], log_start: int, now_ms: int) -> ProducerState:
    """The producer state at the log's end; the time until each producer expires begins now."""
    state = nearest_snapshot(log, snapshots, log.end_offset, log_start)
    for segment in log.segments[log.number_of(state.end_offset) :]:
        replay_segment(state, segment, log.end_offset)
    state.expire(now_ms, log.config.producer_id_expiration_ms)
    return state


def nearest_snapshot(
    log: LocalLog, snapshots: Iterable[int], end: int, log_start: int
) -> ProducerState:
    """The newest readable snapshot up to this offset; without one an empty state at the log start.

    A damaged snapshot is skipped: the log has all of its content as well.
    """
    for offset in sorted(snapshots, reverse=True):
        if offset <= end:
            try:
                return read_snapshot(
                    log.disk, f"{log.folder}/{file_name(offset, SNAPSHOT)}", offset
                )
            except StorageDamage:
                continue
    return ProducerState(end_offset=min(log_start, end))


def aborted_in(
    log: LocalLog, snapshots: Iterable[int], segment: Segment, checked: bool
) -> list[AbortedTxn]:
    """The transactions whose abort marker is in this segment.

    Only headers are read, unless the CRC of each batch is to be checked first.
    """
    if checked:
        segment.verify()
    base = segment.base_offset
    state = nearest_snapshot(log, snapshots, base, log.segments[0].base_offset)
    for before in log.segments[log.number_of(state.end_offset) : log.number_of(base)]:
        replay_segment(state, before, base)
    following = log.segments[log.number_of(base) + 1 :]
    end = following[0].base_offset if following else log.end_offset
    aborted = replay_segment(state, segment, base + LARGEST_RELATIVE_OFFSET + 1)
    if state.end_offset > end:
        found = f"a batch that ends at offset {state.end_offset}, where the segment ends at {end}"
        raise CorruptFile(segment.path, segment.size, found)
    return aborted


def replay_segment(state: ProducerState, segment: Segment, end: int) -> list[AbortedTxn]:
    """Apply a segment's batches from the state's end on; return the transactions that they
    abort.
    """
    aborted: list[AbortedTxn] = []
    for position, header in segment.headers():
        if header.base_offset >= end:
            break
        if header.last_offset >= state.end_offset:
            batch = b""
            if header.is_control and header.magic == MAGIC:
                batch = segment.disk.read(segment.path, position, header.size)
            aborted += take(state, header, batch)
    return aborted


def take(state: ProducerState, header: BatchHeader, batch: Buffer) -> list[AbortedTxn]:
    """Apply one batch of the log; return the transactions for the transaction index."""
    if header.producer_id == NO_PRODUCER:
        state.end_offset = header.next_offset
        return []
    staged = Staged()
    marker = read_marker(batch) if header.is_control else None
    state.stage(staged, header, header.base_offset, marker, Origin.REPLICATION)
    return state.commit(staged, header.next_offset)
