"""Compaction: a log that keeps the newest record of each key.

KIP-58 (lag), KIP-98 (transactions), KIP-534 (tombstones and markers). A round reads the keys of the
dirty part of a log. Then it rewrites every segment from the log's beginning up to the end of the
known keys, merges small segments, and swaps the new ones in. Offsets stay; a reader at a removed
offset finds the next record that is left.
"""

from collections.abc import Iterator, Sequence

from attrs import frozen

from refimpl.errors import InvalidRecord
from refimpl.storage.cleaner.batch_filter import BatchFilter
from refimpl.storage.cleaner.cleaned_transactions import CleanedTransactions
from refimpl.storage.cleaner.offset_map import ROOM, batches_of, mapped_keys, segments_between
from refimpl.storage.cleaner.segment_swap import new_cleaned_segment, swap_in
from refimpl.storage.disk.interface import Buffer
from refimpl.storage.format.batch import BatchHeader, read_header
from refimpl.storage.format.index_file import IndexFile
from refimpl.storage.format.offset_index import LARGEST_RELATIVE_OFFSET
from refimpl.storage.log.local_log import LocalLog
from refimpl.storage.log.lookup import aborted_transactions
from refimpl.storage.log.partition_log import PartitionLog
from refimpl.storage.log.segment import Segment

_WRITE_SIZE = 1 << 20


@frozen
class Cleaned:
    """The result of a round: the end of the clean part, and the bytes read and kept."""

    end_offset: int
    bytes_read: int
    bytes_kept: int


def first_uncleanable_offset(log: PartitionLog, first_dirty: int, now_ms: int) -> int:
    """The offset at which cleaning must stop: that of a segment that is open, young or still
    growing.
    """
    local, lag_ms = log.local, log.config.min_compaction_lag_ms
    closed = segments_between(local, first_dirty, local.active.base_offset)
    young = (s for s in closed if s.largest_timestamp()[0] > now_ms - lag_ms)
    too_young = next(young, None) if lag_ms > 0 else None
    end = min(log.last_stable_offset, local.active.base_offset)
    end = end if too_young is None else min(end, too_young.base_offset)
    return local.segments[local.number_of(end)].base_offset


def compact(log: PartitionLog, first_dirty: int, now_ms: int, *, room: int = ROOM) -> Cleaned:
    """Clean one round: the part behind `first_dirty`, and older records that it supersedes."""
    local, end = log.local, first_uncleanable_offset(log, first_dirty, now_ms)
    if first_dirty >= end:
        return Cleaned(first_dirty, 0, 0)
    old_horizon_ms = _old_horizon_ms(local, first_dirty, log.config.delete_retention_ms)
    keys = mapped_keys(local, first_dirty, end, room)
    transactions = CleanedTransactions()
    rules = BatchFilter(
        *(keys, transactions, log.producers.producers, now_ms),
        *(log.config.delete_retention_ms, end),
    )
    clean_to = keys.latest_offset + 1
    if clean_to <= first_dirty:
        raise InvalidRecord(
            f"the batch at offset {first_dirty} has more keys than the room for {room} keys"
        )
    read = kept = 0
    for group in list(_groups(local, segments_between(local, 0, clean_to), end)):
        cleaned = new_cleaned_segment(local, group[0].base_offset, now_ms)
        transactions.keep = cleaned.txn_index.append
        for segment in group:
            transactions.expect(
                aborted_transactions(local, segment.base_offset, _end(local, segment))
            )
            rules.keeps_old_tombstones = segment.largest_timestamp()[0] > old_horizon_ms
            _clean_into(cleaned, segment, rules)
        read += sum(segment.size for segment in group)
        kept += cleaned.size
        swap_in(local, group, cleaned, now_ms)
        log.drop_snapshots({one.base_offset for one in group[1:]} & set(log.snapshots))
    return Cleaned(clean_to, read, kept)


def _clean_into(cleaned: Segment, segment: Segment, rules: BatchFilter) -> None:
    """Copy the records that stay, in writes of about a megabyte."""
    batches: list[BatchHeader] = []
    parts: list[Buffer] = []
    size = 0
    for header, data in batches_of(segment):
        left = rules.cleaned(header, data)
        if left is not None:
            batches.append(read_header(left))
            parts.append(bytes(left))
            size += len(left)
        if size >= _WRITE_SIZE:
            cleaned.append(batches, parts)
            batches, parts, size = [], [], 0
    if batches:
        cleaned.append(batches, parts)


def _groups(log: LocalLog, segments: Sequence[Segment], end: int) -> Iterator[list[Segment]]:
    """Groups of segments that fit into one: by bytes of log and indexes, and by range of
    offsets.
    """
    group: list[Segment] = []
    for number, segment in enumerate(segments):
        following = segments[number + 1 : number + 2]
        last_offset = (following[0].base_offset if following else end) - 1
        if group and not _fits(log, [*group, segment], last_offset):
            yield group
            group = []
        group.append(segment)
    if group:
        yield group


def _fits(log: LocalLog, group: Sequence[Segment], last_offset: int) -> bool:
    limit = log.config.segment_index_bytes
    return (
        sum(one.size for one in group) <= log.config.segment_bytes
        and sum(_bytes(one.offset_index.file) for one in group) <= limit
        and sum(_bytes(one.time_index.file) for one in group) <= limit
        and last_offset - group[0].base_offset <= LARGEST_RELATIVE_OFFSET
    )


def _bytes(index: IndexFile) -> int:
    return index.count * index.entry.size


def _end(log: LocalLog, segment: Segment) -> int:
    return log.segments[log.segments.index(segment) + 1].base_offset


def _old_horizon_ms(log: LocalLog, first_dirty: int, retention_ms: int) -> int:
    """The time before which tombstones of old formats go, by the age of the last clean segment.

    Kafka uses the file's modification time. This uses its newest record, which a copied file has as
    well.
    """
    clean = segments_between(log, 0, first_dirty)
    return clean[-1].largest_timestamp()[0] - retention_ms if clean else 0
