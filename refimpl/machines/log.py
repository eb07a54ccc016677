"""One partition's log on one replica, in memory, with its leader-epoch cache.

Spec: `log` in Truncation and DurableIsr.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from attrs import define, field

from refimpl.errors import OutsideLog
from refimpl.machines.replica_log import (
    UNDEFINED,
    UNDEFINED_EPOCH,
    Appended,
    EpochEnd,
    Guard,
    Origin,
    Record,
)
from refimpl.named import named

__all__ = ["Log", "Record"]


@define
class Log:
    """A `ReplicaLog` as a list of records, the first of them at offset `start`.

    The cache holds the start offset of each leader epoch, as `leader-epoch-checkpoint` does, so
    that OffsetForLeaderEpoch is answered without reading records (KIP-101).
    """

    records: list[Record] = field(factory=list[Record])
    start: int = 0
    #: The log end offset: that of the next record
    end: int = field(init=False, eq=False)
    _epochs: list[int] = field(factory=list[int], init=False, eq=False)
    _starts: list[int] = field(factory=list[int], init=False, eq=False)

    def __attrs_post_init__(self) -> None:
        """Build the cache of a log that is not empty, as recovery does."""
        self.end = self.start + len(self.records)
        for offset, record in enumerate(self.records, self.start):
            self._assign(record.epoch, offset)

    @property
    def latest_epoch(self) -> int:
        """The newest epoch in the log, -1 for none."""
        return self._epochs[-1] if self._epochs else UNDEFINED_EPOCH

    def append(
        self,
        epoch: int,
        batch: object,
        origin: Origin = Origin.CLIENT,
        transaction_version: int = 0,
        guard: Guard | None = None,
    ) -> Appended:
        """Append a value in this epoch; the origin makes no difference here."""
        offset = self.end
        self._assign(epoch, offset)
        self.records.append(Record(epoch, batch))
        self.end = offset + 1
        return Appended(offset, offset)

    def extend(self, records: Iterable[Record]) -> None:
        """Append in order, each in its epoch."""
        for record in records:
            self._assign(record.epoch, self.end)
            self.records.append(record)
            self.end += 1

    def slice(self, start: int, limit: int, up_to: int | None = None) -> Sequence[Record]:
        """At most `limit` records from `start` on, below `up_to` or the end."""
        if not self.start <= start <= self.end:
            raise OutsideLog(start, self.start, self.end)
        first = start - self.start
        last = first + limit
        if up_to is not None:
            last = max(min(last, up_to - self.start), first)
        return self.records[first:last]

    # Epochs

    def assign_epoch(self, epoch: int) -> None:
        """Begin this replica's leader epoch at the log end offset."""
        self._assign(epoch, self.end)

    def end_of(self, epoch: int) -> EpochEnd:
        """OffsetForLeaderEpoch: the largest epoch not above this one, and its end offset."""
        if epoch < 0 or not self._epochs or epoch > self._epochs[-1]:
            return UNDEFINED
        after = bisect_right(self._epochs, epoch)
        end = self._starts[after] if after < len(self._starts) else self.end
        return named(EpochEnd, (self._epochs[after - 1] if after else epoch, end))

    def start_of(self, epoch: int) -> int:
        """The start offset of this epoch, or of the next one in the log; else the log end
        offset.
        """
        index = bisect_left(self._epochs, epoch)
        return self._starts[index] if index < len(self._starts) else self.end

    def _assign(self, epoch: int, start: int) -> None:
        """Note that an epoch starts here; contradicting entries belong to truncated records, and
        go.
        """
        if self._epochs and self._epochs[-1] == epoch and self._starts[-1] <= start:
            return
        while self._epochs and (self._starts[-1] >= start or self._epochs[-1] > epoch):
            self._starts.pop()
            self._epochs.pop()
        if not self._epochs or self._epochs[-1] != epoch:
            self._epochs.append(epoch)
            self._starts.append(start)

    # Cut and delete

    def truncate_to(self, end: int) -> None:
        """Truncate the log to this end offset; epochs that start there or behind it go in any
        case.
        """
        end = min(end, self.end)
        self.start = min(self.start, end)
        del self.records[end - self.start :]
        while self._starts and self._starts[-1] >= end:
            self._starts.pop()
            self._epochs.pop()
        self.end = end

    def advance_start(self, start: int) -> None:
        """DeleteRecords (KIP-107): delete all records below this offset."""
        if start <= self.start:
            return
        if start > self.end:
            raise OutsideLog(start, self.start, self.end)
        del self.records[: start - self.start]
        self.start = start
        spanning = bisect_right(self._starts, start) - 1
        if spanning >= 0:
            del self._epochs[:spanning], self._starts[:spanning]
            self._starts[0] = start

    def restart_at(self, offset: int) -> None:
        """Delete everything, and go on at this offset."""
        self.records, self.start, self.end = [], offset, offset
        self._epochs, self._starts = [], []
