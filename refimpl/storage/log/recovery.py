"""The opening of a log, cleanly or after a crash: Kafka's LogLoader.

After a crash the segments from the recovery point on are read as a whole. The first batch that is
not whole ends the log, because later bytes were never flushed. Indexes, producer state and epochs
are rebuilt from the rest. Damage *below* the recovery point is no torn write: nothing is truncated,
the partition stays closed, and the error names the place. (Kafka truncates there, too.)
"""

from collections.abc import Callable
from functools import partial

from attrs import define

from refimpl.errors import CorruptFile, RefusedBatch, UnsupportedFormat
from refimpl.machines.producer_state import ProducerState
from refimpl.storage.config import LogConfig
from refimpl.storage.disk.interface import Disk
from refimpl.storage.format.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    NO_EPOCH,
    NO_PRODUCER,
    BatchHeader,
    crc_matches,
    read_header,
)
from refimpl.storage.format.checkpoints import LEADER_EPOCHS, RECOVERY_POINTS, read_epochs
from refimpl.storage.format.offset_index import LARGEST_RELATIVE_OFFSET
from refimpl.storage.log.epoch_cache import EpochCache
from refimpl.storage.log.leftovers import finish_leftovers
from refimpl.storage.log.local_log import LocalLog
from refimpl.storage.log.partition_log import PartitionLog
from refimpl.storage.log.replay import Replay, aborted_in, producers_before, replayed
from refimpl.storage.log.scan import whole_batches
from refimpl.storage.log.segment import LOG, SNAPSHOT, Segment


def nothing() -> None:
    """Do nothing, if no checkpoint is shared with other logs."""


def open_log(
    disk: Disk,
    folder: str,
    config: LogConfig,
    now_ms: int,
    *,
    clean: bool,
    recovery_point: int = 0,
    log_start: int = 0,
    high_watermark: int = 0,
    write_marks: Callable[[], None] = nothing,
    with_others: bool = False,
) -> PartitionLog:
    """The log in this folder; an empty folder is a log that starts at `log_start`.

    One that is opened `with_others` is not flushed, and its leader epochs are not written: the
    caller does so for all of them together, before it writes a recovery point.
    """
    sizes = finish_leftovers(disk, folder)
    bases = sorted(int(name[:20]) for name in sizes if name.endswith(LOG))
    segments = [Segment.open(disk, folder, base, config, now_ms, sizes) for base in bases]
    local = LocalLog(disk, folder, config, segments, 0, recovery_point, write_marks)
    snapshots = sorted(int(name[:20]) for name in sizes if name.endswith(SNAPSHOT))
    path = f"{folder}/{LEADER_EPOCHS}"
    known_epochs = sizes.get(LEADER_EPOCHS, 0) > 0
    epochs = EpochCache.of(disk, folder, read_epochs(disk, path) if known_epochs else ())
    epochs.writes_at_once = not with_others
    log = PartitionLog(local, epochs, ProducerState(), log_start, high_watermark, snapshots)
    for segment in segments:
        segment.txn_index.replay = partial(aborted_in, local, snapshots, segment)
    if not segments:
        log.restart_at(log_start, now_ms)
    elif clean:
        _trust(log, now_ms)
    else:
        Recovery(log, now_ms).run()
    if log.end_offset < log_start:
        # Records were deleted up to an offset behind the lost ones: later ones start there, too.
        log.restart_at(log_start, now_ms)
    _settle(log, high_watermark, known_epochs=known_epochs)
    if not clean and not with_others:
        log.flush()
    return log


def _trust(log: PartitionLog, now_ms: int) -> None:
    """Open the log after a clean shutdown: only the last batches' headers are read."""
    local = log.local
    local.recovered_to(local.active.next_offset())
    local.recovery_point = local.end_offset
    log.producers = replayed(local, log.snapshots, log.log_start_offset, now_ms)


def _settle(log: PartitionLog, high_watermark: int, *, known_epochs: bool) -> None:
    """Adjust offsets and epochs to the content of the log."""
    local = log.local
    for segment in local.segments:
        if segment.size and not segment.offset_index.file.exists:
            segment.rebuild_index()
    if not known_epochs:
        for segment in local.segments:
            for _, header in segment.headers() if segment.size else ():
                log.epochs.note(header.leader_epoch, header.base_offset)
    log.log_start_offset = max(log.log_start_offset, local.segments[0].base_offset)
    log.epochs.truncate_start(log.log_start_offset)
    log.epochs.truncate_end(log.end_offset)
    log.epochs.write_if_changed()
    log.high_watermark = min(max(high_watermark, log.log_start_offset), log.end_offset)
    log.producers.advance_high_watermark(log.high_watermark)


@define
class Recovery:
    """One log's recovery after a crash."""

    log: PartitionLog
    now_ms: int
    end_offset: int = 0

    def run(self) -> None:
        """Read all that may be torn, truncate at the first damage, flush the rest.

        Nothing is changed on disk before everything was read. Later segments go before the
        truncation: otherwise a crash in between would leave a hole.
        """
        local = self.log.local
        first = local.number_of(local.recovery_point)
        segments = local.segments
        begins = segments[first].base_offset
        replay = producers_before(
            local, self.log.snapshots, begins, self.log.log_start_offset, self.now_ms
        )
        for segment in segments[local.number_of(replay.end_offset) : first]:
            replay.segment(segment, begins)
        cut: int | None = None
        number = first
        for number in range(first, len(segments)):
            begins = segments[number].base_offset
            if begins < self.end_offset:
                why = f"a segment that begins at {begins}, where the one before ends at"
                self._judge(segments[number], 0, f"{why} {self.end_offset}", begins)
                number -= 1
                break
            cut = self._read(segments[number], replay)
            if cut is not None:
                break
        local.recovered_to(self.end_offset)
        self._drop_after(number)
        if cut is not None:
            segments[number].cut(cut)
        self.log.producers = replay.state

    def _read(self, segment: Segment, replay: Replay) -> int | None:
        """Read a whole segment; return the position to truncate at, None if it is whole."""
        segment.reset_indexes()
        segment.txn_index.reset()
        position, self.end_offset = 0, segment.base_offset
        epochs = self.log.epochs
        newest_epoch = NO_EPOCH if epochs.latest is None else epochs.latest
        try:
            for position, header, batch in whole_batches(
                segment.disk, segment.path, 0, segment.size
            ):
                misplaced = self._misplaced(segment, header)
                if misplaced is not None:
                    self._judge(segment, position, misplaced, header.base_offset)
                    break
                segment.index(position, header)
                if header.leader_epoch > newest_epoch:
                    epochs.note(header.leader_epoch, header.base_offset)
                    newest_epoch = header.leader_epoch
                if header.producer_id != NO_PRODUCER:
                    for aborted in replay.batch(header, batch):
                        segment.txn_index.append(aborted)
                position += header.size
                self.end_offset = header.next_offset
        except RefusedBatch as damage:
            self._judge(segment, position, damage.why, self.end_offset)
        segment.time_index.maybe_append(*segment.largest_timestamp())
        return None if position == segment.size else position

    def _misplaced(self, segment: Segment, header: BatchHeader) -> str | None:
        """The error in the offset of a batch, which its CRC does not cover; None if there is none.

        Compaction leaves gaps, and so do leaders that compacted. A batch ended at the recovery
        point, so only a compacted segment can lack that batch.
        """
        base, end, flushed = header.base_offset, self.end_offset, self.log.local.recovery_point
        if not end <= base <= header.last_offset <= segment.base_offset + LARGEST_RELATIVE_OFFSET:
            return f"offset {base}, where {end} may follow"
        compacted = self.log.config.compacts and segment is not self.log.local.active
        if compacted or base in (end, flushed) or not self._was_flushed(end):
            return None
        return f"offset {base}, where {end} must follow" if header.next_offset > flushed else None

    def _was_flushed(self, offset: int) -> bool:
        """True if records that are readable from this offset on survive every crash.

        Kafka raises the recovery point to the log start, flushed or not.
        """
        return max(offset, self.log.log_start_offset) < self.log.local.recovery_point

    def _judge(self, segment: Segment, position: int, why: str, offset: int) -> None:
        """Raise CorruptFile unless a crash can have left these bytes; others must not be truncated.

        The records lost with them begin at `offset`, or at the end of those that were read.
        """
        log, path = self.log, segment.path
        if self._was_flushed(min(offset, self.end_offset)):
            raise CorruptFile(
                path,
                position,
                f"{why}; offset {self.end_offset} should be here, for everything below "
                f"{log.local.recovery_point} was flushed. Without the partition's line in "
                f"{RECOVERY_POINTS} the log would be cut here",
            )
        rest = segment.size - position
        head = log.disk.read(path, position, HEADER_SIZE)
        if len(head) == HEADER_SIZE and head[MAGIC_AT] > MAGIC:
            length = int.from_bytes(head[8:LOG_OVERHEAD], signed=True)
            plausible = self._follows(head[:8]) and 0 < length <= rest - LOG_OVERHEAD
            if plausible and not self._is_v2(segment, position, LOG_OVERHEAD + length):
                raise UnsupportedFormat(path, position, why)
        if position == 0 and not self._may_be_torn(head):
            raise CorruptFile(path, position, f"{why}: this is not a log of Kafka's")

    def _may_be_torn(self, head: bytes) -> bool:
        """True if this can be the beginning of a batch of ours, with the rest lost or still
        zero.
        """
        written = head.rstrip(b"\0")
        if len(written) <= MAGIC_AT:
            return self._follows(written[:8])
        length = int.from_bytes(head[8:LOG_OVERHEAD], signed=True)
        return head[MAGIC_AT] <= MAGIC and length > 0 and self._follows(head[:8])

    def _follows(self, offset: bytes) -> bool:
        """True if a base offset, or the first bytes of one, can come next."""
        least, most = (int.from_bytes(offset.ljust(8, fill)) for fill in (b"\0", b"\xff"))
        return most >= self.end_offset and least <= self.end_offset + LARGEST_RELATIVE_OFFSET

    def _is_v2(self, segment: Segment, position: int, size: int) -> bool:
        """True if the batch is v2 with a flipped magic byte: the CRC does not cover that byte, and
        matches.
        """
        batch = bytearray(segment.disk.read(segment.path, position, size))
        batch[MAGIC_AT] = MAGIC
        return crc_matches(batch, read_header(batch))

    def _drop_after(self, number: int) -> None:
        log, local = self.log, self.log.local
        later = local.segments[:number:-1]
        snapshots = [taken for taken in log.snapshots if taken > self.end_offset]
        log.drop_snapshots(snapshots)
        local.remove(later, self.now_ms)
        del local.segments[number + 1 :]
        if later or snapshots:
            log.disk.flush_folder(log.folder)
