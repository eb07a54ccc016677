"""One partition's log: Kafka's UnifiedLog.

KIP-98 (producers), KIP-101 (epochs), KIP-107 (DeleteRecords), KIP-734 (the newest timestamp). The
machine knows no clock: the caller passes the time.
"""

from collections.abc import Iterable
from typing import NamedTuple

from attrs import define, field

from refimpl.errors import AboveHighWatermark, OutsideLog, RecordListTooLarge
from refimpl.machines.producer import Entry
from refimpl.machines.producer_state import ProducerState
from refimpl.machines.replica_log import Guard, Origin
from refimpl.storage.config import LogConfig
from refimpl.storage.disk.interface import Buffer, Disk
from refimpl.storage.format.batch import (
    MAGIC,
    NO_PRODUCER,
    BatchHeader,
    TimestampType,
    header_placed,
    placed,
    stamped,
)
from refimpl.storage.format.txn_index import AbortedTxn
from refimpl.storage.log.epoch_cache import EpochCache
from refimpl.storage.log.local_log import LocalLog
from refimpl.storage.log.lookup import aborted_transactions, offset_for_timestamp
from refimpl.storage.log.producer_snapshot import snapshot_of, write_snapshot
from refimpl.storage.log.producers import entry_of, take
from refimpl.storage.log.replay import replayed
from refimpl.storage.log.retention import expired
from refimpl.storage.log.segment import SNAPSHOT, file_name
from refimpl.storage.log.validation import from_leader, from_producer, with_codec


class LogAppendInfo(NamedTuple):
    """The offsets of appended records; for a repeated batch those of the first time."""

    first_offset: int
    last_offset: int
    append_time_ms: int = -1
    duplicate: bool = False


@define(eq=False)
class PartitionLog:
    """The log of one replica of one partition."""

    local: LocalLog
    epochs: EpochCache
    producers: ProducerState
    log_start_offset: int
    high_watermark: int
    snapshots: list[int] = field(factory=list[int])

    @property
    def disk(self) -> Disk:
        """The disk of the log."""
        return self.local.disk

    @property
    def folder(self) -> str:
        """The partition's folder, `topic-partition`."""
        return self.local.folder

    @property
    def config(self) -> LogConfig:
        """The settings of the log."""
        return self.local.config

    @property
    def end_offset(self) -> int:
        """The log end offset: that of the next record."""
        return self.local.end_offset

    @property
    def last_stable_offset(self) -> int:
        """The offset below which every transaction is decided (read_committed)."""
        stable = self.producers.last_stable(self.high_watermark)
        return min(max(stable, self.log_start_offset), self.high_watermark)

    # Append

    def append_as_leader(
        self,
        data: Buffer,
        leader_epoch: int,
        now_ms: int,
        origin: Origin = Origin.CLIENT,
        transaction_version: int = 0,
        guard: Guard | None = None,
    ) -> LogAppendInfo:
        """Assign offsets to a producer's batches, and write them.

        The record bytes go to disk as they came, unless the topic has a `compression.type` of its
        own. Refused or repeated batches change nothing. `transaction_version` decides whether a
        marker's epoch must be a new one (KIP-1228). The first write of a transaction needs the
        guard under which it was verified (KIP-890).
        """
        config = self.config
        if len(data) > config.segment_bytes:
            raise RecordListTooLarge(f"{len(data)} bytes, above {config.segment_bytes}")
        found = from_producer(data, config, origin, now_ms)
        if config.compression_type is not None:
            data, found = with_codec(data, found, config.compression_type, config)
        append_time = config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
        view, offset = memoryview(data), self.end_offset
        entries: list[tuple[int, Entry]] = []
        batches: list[BatchHeader] = []
        parts: list[Buffer] = []
        for position, header in found:
            if append_time:
                head = stamped(data, position, header, offset, leader_epoch, now_ms)
            else:
                head = placed(header, offset, leader_epoch)
            header = header_placed(header, offset, leader_epoch)
            if append_time:
                header = header._replace(max_timestamp=now_ms)
            if header.producer_id != NO_PRODUCER:
                batch = view[position : position + header.size]
                entry = entry_of(header, batch, transaction_version)
                if entry is not None:
                    seen = self.producers.admit(entry, guard)
                    if seen is not None:
                        return LogAppendInfo(
                            seen.first_offset, seen.last_offset, seen.timestamp_ms, True
                        )
                    entries.append((offset, entry))
            parts += (head, view[position + len(head) : position + header.size])
            batches.append(header)
            offset = header.next_offset
        first = self._write(batches, parts, entries, len(data), now_ms)
        return LogAppendInfo(first, offset - 1, now_ms if append_time else -1)

    def append_as_follower(
        self, data: Buffer, leader_epoch: int, now_ms: int
    ) -> LogAppendInfo | None:
        """Write the leader's batches with their offsets; None if no batch is whole.

        Offsets may have gaps, where the leader has compacted.
        """
        start = self.log_start_offset
        found = from_leader(data, self.end_offset, leader_epoch, empty=start == self.end_offset)
        if not found:
            return None
        view, entries = memoryview(data), list[tuple[int, Entry]]()
        for position, header in found:
            if header.producer_id != NO_PRODUCER:
                entry = entry_of(header, view[position : position + header.size])
                if entry is not None:
                    entries.append((header.base_offset, entry))
        end = found[-1][0] + found[-1][1].size
        base_offset = found[0][1].base_offset
        if base_offset < start:
            self._begin_before_start(base_offset, now_ms)
        headers = [header for _, header in found]
        first = self._write(headers, [view[:end]], entries, end, now_ms, as_follower=True)
        if base_offset < start:
            self.epochs.truncate_start(start)
        return LogAppendInfo(first, self.end_offset - 1)

    # Read

    def read(self, offset: int, max_bytes: int, up_to: int | None = None) -> bytes:
        """Batches from the one that holds this offset on, below `up_to` or the log's end."""
        if not self.log_start_offset <= offset <= self.end_offset:
            raise OutsideLog(offset, self.log_start_offset, self.end_offset)
        end = self.end_offset if up_to is None else min(up_to, self.end_offset)
        return self.local.read(offset, max_bytes, end)

    def aborted_transactions(self, offset: int, up_to: int) -> list[AbortedTxn]:
        """The aborted transactions that a read_committed reader must leave out of this range."""
        return aborted_transactions(self.local, offset, up_to)

    def offset_for_timestamp(self, timestamp: int) -> tuple[int, int] | None:
        """Offset and timestamp of the first record with this timestamp or a later one (KIP-79)."""
        return offset_for_timestamp(self.local, timestamp, self.log_start_offset)

    def newest_timestamp(self) -> tuple[int, int] | None:
        """Offset and timestamp of the newest record; of the first one, if several are equally
        new.
        """
        newest = max(segment.largest_timestamp()[0] for segment in self.local.segments)
        return None if newest < 0 else self.offset_for_timestamp(newest)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int] | None:
        """OffsetForLeaderEpoch: the largest epoch not above this one, and its end offset."""
        return self.epochs.end_of(epoch, self.end_offset)

    # Move the marks

    def advance_high_watermark(self, offset: int) -> None:
        """Raise the high watermark; never backwards, never past the end."""
        self.high_watermark = max(self.high_watermark, min(offset, self.end_offset))
        self.producers.advance_high_watermark(self.high_watermark)

    def advance_log_start(self, offset: int) -> None:
        """DeleteRecords: make records below this offset unreadable (KIP-107).

        Files go later, with retention, once all of their records are before the start. The start is
        on disk before this returns; Kafka writes it once a minute, and a crash may undo it.
        """
        if offset > self.high_watermark:
            raise AboveHighWatermark(offset, self.high_watermark)
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.local.write_marks()
            self.epochs.truncate_start(offset)

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Truncate the log to this end offset; a shorter log keeps its records.

        In any case epochs that start at the new end are removed: they have no records (KIP-101).
        """
        if offset < self.local.segments[0].base_offset:
            self.restart_at(offset, now_ms)
        elif offset < self.end_offset:
            # A snapshot behind the new end would be taken for one of the next records.
            self.drop_snapshots(taken for taken in self.snapshots if taken > offset)
            self.local.truncate(offset, now_ms)
            self._ends_at(replayed(self.local, self.snapshots, self.log_start_offset, now_ms))
        else:
            self.epochs.truncate_end(self.end_offset)

    def restart_at(self, offset: int, now_ms: int) -> None:
        """Delete everything: the leader's log begins behind the end of ours, or we cannot
        compare.
        """
        self.drop_snapshots(self.snapshots)
        self.local.restart(offset, now_ms)
        self.log_start_offset = offset
        self.epochs.clear()
        self._ends_at(ProducerState())

    def apply_retention(self, now_ms: int) -> int:
        """Delete the oldest segments that exceed retention, or are before the log start.

        Return their number; the log start moves with them.
        """
        count = expired(self.local, self.high_watermark, self.log_start_offset, now_ms)
        if count == len(self.local.segments):
            self.roll(now_ms)
        if count:
            gone, self.local.segments = self.local.segments[:count], self.local.segments[count:]
            start = self.local.segments[0].base_offset
            self.advance_log_start(start)
            self.local.remove(gone, now_ms)
            self.drop_snapshots(taken for taken in self.snapshots if taken < start)
        return count

    def flush(self) -> None:
        """Flush the whole log, so that it survives a crash."""
        self.epochs.write_if_changed()
        self.local.flush()

    def roll(self, now_ms: int, base_offset: int | None = None) -> None:
        """Begin a new segment, and write a snapshot of the producers."""
        base = self.end_offset if base_offset is None else base_offset
        if self.local.active.base_offset == base:
            return
        self.epochs.write_if_changed()
        self.local.roll(base, now_ms)
        self.local.end_offset = base
        start = self.local.segments[0].base_offset
        if start > self.log_start_offset:  # an empty segment was dropped
            self.log_start_offset = start
            self.local.write_marks()
            self.advance_high_watermark(start)
        self.take_snapshot()

    def _begin_before_start(self, base_offset: int, now_ms: int) -> None:
        """Restart the log at a batch that begins before the log start; the log start does not move.

        A crash before the batch is whole leaves an empty log at the start, as it was.
        """
        self.drop_snapshots(self.snapshots)
        self.local.restart(base_offset, now_ms)

    def take_snapshot(self) -> None:
        """Write producer state for the log's end, unless it exists."""
        offset = self.end_offset
        if offset not in self.snapshots:
            write_snapshot(self.disk, self.snapshot_path(offset), self.producers)
            self.snapshots.append(offset)

    def close(self) -> None:
        """Flush everything, so that the next start needs no recovery."""
        self.local.active.close()
        self.flush()
        self.take_snapshot()

    def missing_snapshot(self) -> dict[str, bytes]:
        """The path and the content of the snapshot for the log's end, unless it exists.

        A log that never had a record needs none, as in Kafka.
        """
        if self.end_offset == 0 or self.end_offset in self.snapshots:
            return {}
        self.snapshots.append(self.end_offset)
        return {self.snapshot_path(self.end_offset): snapshot_of(self.producers)}

    def snapshot_path(self, offset: int) -> str:
        """The path of the snapshot for this log end offset."""
        return f"{self.folder}/{file_name(offset, SNAPSHOT)}"

    def drop_snapshots(self, offsets: Iterable[int]) -> None:
        """Delete some snapshots."""
        for offset in list(offsets):
            self.disk.delete(self.snapshot_path(offset))
            self.snapshots.remove(offset)

    def _ends_at(self, producers: ProducerState) -> None:
        self.producers = producers
        self.epochs.truncate_end(self.end_offset)
        self.log_start_offset = min(self.log_start_offset, self.end_offset)
        self.local.write_marks()
        self.high_watermark = min(max(self.high_watermark, self.log_start_offset), self.end_offset)
        self.producers.advance_high_watermark(self.high_watermark)

    def _write(
        self,
        batches: list[BatchHeader],
        parts: list[Buffer],
        entries: list[tuple[int, Entry]],
        size: int,
        now_ms: int,
        *,
        as_follower: bool = False,
    ) -> int:
        local, first = self.local, batches[0]
        timestamp = first.max_timestamp
        if len(batches) > 1:
            timestamp = max([header.max_timestamp for header in batches])
        if local.active.must_roll(size, timestamp, batches[-1].last_offset, now_ms):
            self.roll(now_ms, first.base_offset)
        epochs = self.epochs
        for header in batches:
            if header.magic != MAGIC:
                epochs.clear()
            elif header.leader_epoch != epochs.latest:
                assign = epochs.assign_with_others if as_follower else epochs.assign
                assign(header.leader_epoch, header.base_offset)
        local.append(batches, parts)
        for offset, entry in entries:
            aborted = take(self.producers, entry, offset, now_ms)
            if aborted is not None:
                local.active.txn_index.append(aborted)
        if local.end_offset - local.recovery_point >= local.config.flush_messages:
            self.flush()
        return first.base_offset
