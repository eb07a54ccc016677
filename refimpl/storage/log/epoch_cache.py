"""The start offsets of leader epochs: `leader-epoch-checkpoint`, and its queries.

KIP-101, KIP-279, KIP-320. A leader writes it before the first record of an epoch, a follower
before it asks for more, and both before a segment ends. Recovery reads the epochs of records behind
that, so after a crash none is missing; surplus entries are removed at the next start.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from attrs import define, field

from refimpl.storage.disk.interface import Disk
from refimpl.storage.format.checkpoints import LEADER_EPOCHS, epochs_checkpoint, write_epochs


@define(eq=False)
class EpochCache:
    """The epochs of one partition's log, oldest first."""

    disk: Disk
    folder: str
    epochs: list[int] = field(factory=list[int])
    starts: list[int] = field(factory=list[int])
    #: False while many logs are opened, whose checkpoints are written together
    writes_at_once: bool = field(default=True, init=False)
    #: Caches whose checkpoints somebody writes together; None if each is written at once
    together: "dict[EpochCache, None] | None" = field(default=None, init=False)
    _changed: bool = field(default=True, init=False)

    @classmethod
    def of(cls, disk: Disk, folder: str, entries: Iterable[tuple[int, int]]) -> "EpochCache":
        """A cache with the entries of a checkpoint."""
        cache = cls(disk, folder)
        for epoch, start in entries:
            cache.note(epoch, start)
        cache._changed = False
        return cache

    @property
    def latest(self) -> int | None:
        """The epoch of the last record."""
        return self.epochs[-1] if self.epochs else None

    def assign(self, epoch: int, start: int) -> None:
        """Note that records of this epoch begin here; a new entry is on disk before this
        returns.
        """
        self.note(epoch, start)
        self.write_if_changed()

    def assign_with_others(self, epoch: int, start: int) -> None:
        """Note the same; whoever writes the checkpoints together does so before it goes on."""
        if self.together is None:
            self.assign(epoch, start)
            return
        self.note(epoch, start)
        if self._changed:
            self.together[self] = None

    def note(self, epoch: int, start: int) -> None:
        """Note the same in memory.

        Contradicting entries are dropped: later starts and later epochs belong to records that were
        truncated, or to an epoch without records.
        """
        if epoch < 0 or (epoch == self.latest and start >= self.starts[-1]):
            return
        while self.epochs and (self.epochs[-1] > epoch or self.starts[-1] >= start):
            self.epochs.pop()
            self.starts.pop()
            self._changed = True
        if epoch == self.latest:
            return
        self.epochs.append(epoch)
        self.starts.append(start)
        self._changed = True

    def truncate_end(self, end: int) -> None:
        """Remove the epochs that start at this offset or later."""
        keep = bisect_left(self.starts, end)
        if keep < len(self.starts):
            del self.epochs[keep:], self.starts[keep:]
            self._changed = True
        self.write_if_changed()

    def truncate_start(self, start: int) -> None:
        """Remove the epochs that end at the new log start; the one that spans it starts there."""
        drop = bisect_right(self.starts, start) - 1
        if drop >= 0 and self.starts[drop] != start:
            self.starts[drop] = start
        elif drop <= 0:
            return
        del self.epochs[:drop], self.starts[:drop]
        self._changed = True
        self.write_if_changed()

    def clear(self) -> None:
        """Remove all epochs."""
        if self.epochs:
            self.epochs, self.starts, self._changed = [], [], True
            self.write_if_changed()

    def end_of(self, epoch: int, log_end: int) -> tuple[int, int] | None:
        """OffsetForLeaderEpoch: the largest epoch not above this one, and its end offset.

        None for an epoch above all others, and for a log without epochs.
        """
        if not self.epochs or epoch > self.epochs[-1] or epoch < 0:
            return None
        index = bisect_right(self.epochs, epoch)
        end = self.starts[index] if index < len(self.starts) else log_end
        return (self.epochs[index - 1] if index else epoch), end

    def epoch_at(self, offset: int) -> int | None:
        """The epoch in which the record at this offset was written."""
        index = bisect_right(self.starts, offset)
        return self.epochs[index - 1] if index else None

    def write_if_changed(self) -> None:
        """Replace the checkpoint, if the entries have changed."""
        if self._changed and self.writes_at_once:
            path = f"{self.folder}/{LEADER_EPOCHS}"
            write_epochs(self.disk, path, zip(self.epochs, self.starts, strict=True))
            self.written()

    def unwritten(self) -> dict[str, bytes]:
        """The path and the content of the checkpoint, if the entries have changed."""
        if not self._changed:
            return {}
        entries = zip(self.epochs, self.starts, strict=True)
        return {f"{self.folder}/{LEADER_EPOCHS}": epochs_checkpoint(entries)}

    def written(self) -> None:
        """Note that somebody else has written the checkpoint; later ones are written at once."""
        self._changed, self.writes_at_once = False, True
        if self.together:
            self.together.pop(self, None)
