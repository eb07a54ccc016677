"""Producer state from a snapshot and the batches behind it (KIP-98)."""

from collections.abc import Iterable

from attrs import define

from refimpl.errors import CorruptFile, RefusedBatch, StorageDamage
from refimpl.machines.producer_state import ProducerState
from refimpl.storage.disk.interface import Buffer
from refimpl.storage.format.batch import MAGIC, NO_PRODUCER, BatchHeader
from refimpl.storage.format.offset_index import LARGEST_RELATIVE_OFFSET
from refimpl.storage.format.txn_index import AbortedTxn
from refimpl.storage.log.local_log import LocalLog
from refimpl.storage.log.producer_snapshot import read_snapshot
from refimpl.storage.log.producers import entry_of, take
from refimpl.storage.log.recall import recall_batches
from refimpl.storage.log.segment import SNAPSHOT, Segment, file_name


@define
class Replay:
    """The producers of a log's first batches, which end at `end_offset`.

    The time until each producer expires begins at `now_ms`; without it, with the next look.
    """

    state: ProducerState
    end_offset: int
    now_ms: int | None = None

    def segment(self, segment: Segment, end: int) -> list[AbortedTxn]:
        """Apply a segment's batches that follow, below `end`; return the transactions that they
        abort. Raises CorruptFile for a marker that cannot be read.
        """
        aborted: list[AbortedTxn] = []
        for position, header in segment.headers():
            if header.base_offset >= end:
                break
            if header.last_offset >= self.end_offset:
                batch = b""
                if header.is_control and header.magic == MAGIC:
                    batch = segment.disk.read(segment.path, position, header.size)
                try:
                    aborted += self.batch(header, batch)
                except RefusedBatch as damage:
                    raise CorruptFile(segment.path, position, str(damage)) from None
        return aborted

    def batch(self, header: BatchHeader, batch: Buffer) -> list[AbortedTxn]:
        """Apply one batch of the log; return the transaction that it aborts, for the index.

        Only markers are opened, so the bytes of other batches may be missing.
        """
        self.end_offset = header.next_offset
        entry = entry_of(header, batch) if header.producer_id != NO_PRODUCER else None
        if entry is None:
            return []
        aborted = take(self.state, entry, header.base_offset, self.now_ms)
        return [] if aborted is None else [aborted]


def replayed(log: LocalLog, snapshots: Iterable[int], log_start: int, now_ms: int) -> ProducerState:
    """The producer state at the log's end; the time until each producer expires begins now."""
    replay = producers_before(log, snapshots, log.end_offset, log_start, now_ms)
    if replay.end_offset < log.end_offset:  # otherwise the active segment would be read in vain
        for segment in log.segments[log.number_of(replay.end_offset) :]:
            replay.segment(segment, log.end_offset)
    return replay.state


def producers_before(
    log: LocalLog, snapshots: Iterable[int], end: int, log_start: int, now_ms: int
) -> Replay:
    """The newest readable snapshot up to this offset, and the batches that it leaves out."""
    replay = nearest_snapshot(log, snapshots, end, log_start, now_ms)
    recall_batches(log, replay.state, replay.end_offset, log_start)
    return replay


def nearest_snapshot(
    log: LocalLog, snapshots: Iterable[int], end: int, log_start: int, now_ms: int | None = None
) -> Replay:
    """The newest readable snapshot up to this offset; without one an empty state at the log start.

    A damaged snapshot is skipped: the log has all of its content as well.
    """
    for offset in sorted(snapshots, reverse=True):
        if offset <= end:
            path = f"{log.folder}/{file_name(offset, SNAPSHOT)}"
            try:
                return Replay(read_snapshot(log.disk, path, now_ms), offset, now_ms)
            except StorageDamage:
                continue
    return Replay(ProducerState(), min(log_start, end), now_ms)


def aborted_in(
    log: LocalLog, snapshots: Iterable[int], segment: Segment, checked: bool
) -> list[AbortedTxn]:
    """The transactions whose abort marker is in this segment.

    Only headers are read, unless the CRC of each batch is to be checked first.
    """
    if checked:
        segment.verify()
    base = segment.base_offset
    replay = nearest_snapshot(log, snapshots, base, log.segments[0].base_offset)
    for before in log.segments[log.number_of(replay.end_offset) : log.number_of(base)]:
        replay.segment(before, base)
    following = log.segments[log.number_of(base) + 1 :]
    end = following[0].base_offset if following else log.end_offset
    aborted = replay.segment(segment, base + LARGEST_RELATIVE_OFFSET + 1)
    if replay.end_offset > end:
        found = f"a batch that ends at offset {replay.end_offset}, where the segment ends at {end}"
        raise CorruptFile(segment.path, segment.size, found)
    return aborted
