"""One partition's log on one replica, with its leader-epoch cache.

Spec: `log` in Truncation and DurableIsr.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from attrs import define, field, frozen


@frozen(slots=True)
class Record:
    """A record as replication sees it.

    Offset and epoch name it, for an epoch has one leader, which only appends.
    """

    epoch: int
    value: object


@define
class Log:
    """Records in offset order.

    Only `append` and `truncate_to` change it, and they keep the epoch cache in step.     The
    cache holds where each leader epoch starts, as in `leader-epoch-checkpoint`, so that
    OffsetForLeaderEpoch     is answered without reading records (KIP-101).
    """

    records: list[Record] = field(factory=list[Record])
    _epochs: list[int] = field(factory=list[int], init=False, eq=False)
    _starts: list[int] = field(factory=list[int], init=False, eq=False)

    def __attrs_post_init__(self) -> None:
        """Build the cache of a log that is not empty, as recovery does."""
        records, self.records = self.records, []
        self.extend(records)

    @property
    def end(self) -> int:
        """The log end offset: that of the next record."""
        return len(self.records)

    @property
    def last_epoch(self) -> int:
        """The leader epoch of the last record, 0 for none."""
        return self._epochs[-1] if self._epochs else 0

    def append(self, record: Record) -> int:
        """Put a record behind all others and return its offset."""
        offset = len(self.records)
        if not self._epochs or record.epoch != self._epochs[-1]:
            self._epochs.append(record.epoch)
            self._starts.append(offset)
        self.records.append(record)
        return offset

    def extend(self, records: Iterable[Record]) -> None:
        """Append in order."""
        for record in records:
            self.append(record)

    def truncate_to(self, end: int) -> None:
        """Cut everything from `end` on.

        A log that is shorter stays as it is.
        """
        del self.records[end:]
        while self._starts and self._starts[-1] >= end:
            self._starts.pop()
            self._epochs.pop()

    def end_of(self, epoch: int) -> int:
        """OffsetForLeaderEpoch: where this epoch, or the largest one below, ends (KIP-101)."""
        index = bisect_right(self._epochs, epoch)
        return len(self.records) if index == len(self._starts) else self._starts[index]

    def epoch_at_or_below(self, epoch: int) -> int:
        """The largest epoch in the log that is not above this one, 0 for none (KIP-279)."""
        index = bisect_right(self._epochs, epoch)
        return self._epochs[index - 1] if index else 0

    def agrees(self, end: int, last_epoch: int) -> bool:
        """Whether a log that ends here with this epoch is a prefix of ours (KIP-320)."""
        if end == 0:
            return True
        return self.epoch_at_or_below(last_epoch) == last_epoch and self.end_of(last_epoch) >= end

    def slice(self, start: int, limit: int) -> Sequence[Record]:
        """At most `limit` records from `start` on."""
        return self.records[start : start + limit]
