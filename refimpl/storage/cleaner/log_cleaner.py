"""The choice of the next log to compact, and the progress of each: Kafka's LogCleanerManager.

`cleaner-offset-checkpoint` holds the end of each log's clean part. The dirtiest log goes first; one
that has waited for `max.compaction.lag.ms` goes whatever its dirty ratio (KIP-354), in its turn. A
damaged log is left alone from then on, and the others go on (KIP-346).
"""

from collections.abc import Iterator
from functools import partial

from attrs import define, field, frozen

from refimpl.errors import RefusedBatch, StorageDamage
from refimpl.storage.cleaner.compaction import Cleaned, compact, first_uncleanable_offset
from refimpl.storage.cleaner.offset_map import ROOM, segments_between
from refimpl.storage.format.checkpoints import Partition, read_offsets, write_offsets
from refimpl.storage.log.log_dir import LogDir
from refimpl.storage.log.partition_log import PartitionLog

CLEANER_OFFSETS = "cleaner-offset-checkpoint"


@frozen
class Dirt:
    """The dirty part of a log, and the amounts that a round would clean."""

    partition: Partition
    log: PartitionLog
    first_dirty: int
    clean_bytes: int
    dirty_bytes: int
    is_due: bool

    @property
    def ratio(self) -> float:
        """The dirty share of the bytes that could be cleaned."""
        return self.dirty_bytes / max(self.clean_bytes + self.dirty_bytes, 1)

    @property
    def is_worth_it(self) -> bool:
        """True if there is enough to clean, or it has waited long enough."""
        wanted = self.is_due or self.ratio > self.log.config.min_cleanable_dirty_ratio
        return wanted and self.dirty_bytes > 0


@define(eq=False)
class LogCleaner:
    """The cleaner of one log directory."""

    directory: LogDir
    room: int = ROOM
    #: Logs that are copied elsewhere: the copy would lack tombstones, and keep what they delete
    paused: set[Partition] = field(factory=set[Partition], init=False)
    uncleanable: dict[Partition, str] = field(factory=dict[Partition, str], init=False)
    _clean_to: dict[Partition, int] = field(factory=dict[Partition, int], init=False)

    def __attrs_post_init__(self) -> None:
        """Read the end of each log's clean part; a damaged checkpoint only costs work.

        A recovery may have truncated a log before this cleaner could be informed.
        """
        if CLEANER_OFFSETS in self.directory.disk.list_files(""):
            try:
                self._clean_to = read_offsets(self.directory.disk, CLEANER_OFFSETS)
            except StorageDamage:
                self._clean_to = {}
        for partition, log in self.directory.logs.items():
            self.watch(partition)
            self.truncated(partition, log.end_offset)

    def clean_dirtiest(self, now_ms: int) -> tuple[Partition, Cleaned] | None:
        """Clean one round of the log that needs it most; None if none does."""
        worth_it = [dirt for dirt in self.dirt(now_ms) if dirt.is_worth_it]
        if not worth_it:
            return None
        dirt = max(worth_it, key=lambda one: one.ratio)
        # Recovery looks for holes below the recovery point on disk, in segments that it reads; it
        # must read none that was compacted, for it may not know yet that the topic is.
        dirt.log.local.write_marks()
        try:
            done = compact(dirt.log, dirt.first_dirty, now_ms, room=self.room)
        except (StorageDamage, RefusedBatch) as damage:
            self.uncleanable[dirt.partition] = str(damage)
            return None
        self._checkpoint(dirt.partition, done.end_offset)
        return dirt.partition, done

    def dirt(self, now_ms: int) -> Iterator[Dirt]:
        """The dirty part of each compacted log."""
        for partition, log in self.directory.logs.items():
            is_kept = partition in self.uncleanable or partition in self.paused
            if log.config.compacts and not is_kept:
                yield self._dirt(partition, log, now_ms)

    def watch(self, partition: Partition) -> None:
        """Watch for truncations of this log: the checkpoint is on disk before data go, so no crash
        comes between.
        """
        self.directory.logs[partition].local.before_cut = partial(self.truncated, partition)

    def forget(self, partition: Partition) -> None:
        """Forget a deleted partition; a later one of its name is another one."""
        self.paused.discard(partition)
        self.uncleanable.pop(partition, None)
        self._clean_to.pop(partition, None)

    def clean_to(self, partition: Partition) -> int:
        """The end of a log's clean part; 0 if there is none."""
        return self._clean_to.get(partition, 0)

    def take(self, partition: Partition, clean_to: int) -> None:
        """Watch a log that came from another directory, where it was clean up to this offset."""
        self.watch(partition)
        self._checkpoint(partition, clean_to)

    def truncated(self, partition: Partition, offset: int) -> None:
        """Lower the clean part of a log that is truncated here: later records behind it are not
        clean.
        """
        if self._clean_to.get(partition, 0) > offset:
            self._checkpoint(partition, offset)

    def _dirt(self, partition: Partition, log: PartitionLog, now_ms: int) -> Dirt:
        local, known = log.local, self._clean_to.get(partition, log.log_start_offset)
        first = known if log.log_start_offset <= known <= log.end_offset else log.log_start_offset
        end = first_uncleanable_offset(log, first, now_ms)
        dirty = segments_between(local, first, end) if first < end else []
        clean = [one for one in local.segments if one.base_offset < first and one not in dirty]
        return Dirt(
            partition,
            log,
            first,
            sum(one.size for one in clean),
            sum(one.size for one in dirty),
            self._has_waited(log, first, now_ms),
        )

    def _has_waited(self, log: PartitionLog, first_dirty: int, now_ms: int) -> bool:
        """True if the oldest dirty segment began longer ago than `max.compaction.lag.ms`."""
        until = now_ms - log.config.max_compaction_lag_ms
        closed = segments_between(log.local, first_dirty, log.local.active.base_offset)
        firsts = (next(segment.headers(), None) for segment in closed)
        return any(first is not None and 0 < first[1].max_timestamp < until for first in firsts)

    def _checkpoint(self, partition: Partition, offset: int) -> None:
        self._clean_to[partition] = offset
        there = {one: at for one, at in self._clean_to.items() if one in self.directory.logs}
        write_offsets(self.directory.disk, CLEANER_OFFSETS, there)
