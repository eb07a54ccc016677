"""A topic's settings in words and lists: the log that they define, without files or indexes.

Written from the descriptions of Kafka's topic settings (KIP-32, KIP-33, KIP-58, KIP-354, KIP-534),
apart from `refimpl.storage`. Only bytes are taken from the log: `sizes` has those of each batch.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import define, evolve, field, frozen

from refimpl.storage.format.batch import Record

Settings = Mapping[str, Any]


@frozen
class Batch:
    """Some records, or only the offsets of them."""

    first: int
    last: int
    #: The timestamp of the header, which outlives the records
    newest_ms: int
    codec: str
    #: True if the broker stamped the records
    stamped: bool
    records: tuple[Record, ...]
    horizon_ms: int | None = None


@define
class Part:
    """A segment."""

    base: int
    created_ms: int
    batches: list[Batch] = field(factory=list[Batch])

    @property
    def newest_ms(self) -> int:
        return max((one.newest_ms for one in self.batches), default=-1)


@define
class DefinedLog:
    """The log of one partition, as its settings define it."""

    settings: Settings
    now_ms: int
    end: int = 0
    mark: int = 0
    clean_to: int = 0
    #: The size of each batch by its first offset
    sizes: Mapping[int, int] = field(factory=dict[int, int])
    parts: list[Part] = field(init=False)
    #: The rules that have decided something, for a test that all of them have
    seen: set[str] = field(factory=set[str])

    def __attrs_post_init__(self) -> None:
        self.parts = [Part(0, self.now_ms)]

    @property
    def start(self) -> int:
        return self.parts[0].base

    @property
    def batches(self) -> list[Batch]:
        return [batch for part in self.parts for batch in part.batches]

    @property
    def records(self) -> list[Record]:
        return [record for batch in self.batches for record in batch.records]

    # Appends

    def refuses(self, records: list[Record]) -> bool:
        """True if a producer's batch breaks a rule of the topic."""
        late = self.now_ms + self.settings["message.timestamp.after.max.ms"]
        early = self.now_ms - self.settings["message.timestamp.before.max.ms"]
        sent = self.settings["message.timestamp.type"] == "CreateTime"
        wrong_time = sent and any(not early <= one.timestamp <= late for one in records)
        no_key = self._has("compact") and any(one.key is None for one in records)
        self._note("a timestamp out of range", wrong_time)
        self._note("a record without a key", no_key)
        return wrong_time or no_key

    def append(self, records: list[Record], codec: str, size: int) -> None:
        """Take a batch that was not refused; on disk it has this size."""
        stamped = self.settings["message.timestamp.type"] == "LogAppendTime"
        kept = tuple(
            evolve(one, offset=self.end + number, **({"timestamp": self.now_ms} if stamped else {}))
            for number, one in enumerate(records)
        )
        newest = max(one.timestamp for one in kept)
        last = self.end + len(kept) - 1
        topic = self.settings["compression.type"]
        written = codec if topic == "producer" else topic
        self._roll_before(newest, size)
        self.sizes = {**self.sizes, self.end: size}
        self.parts[-1].batches.append(Batch(self.end, last, newest, written, stamped, kept))
        self.end = last + 1

    def _roll_before(self, newest_ms: int, size: int) -> None:
        active = self.parts[-1]
        if not active.batches:
            return
        longest = self.settings["segment.ms"]
        if self._has("compact"):
            longest = min(longest, self.settings["max.compaction.lag.ms"])
        full = self._size(active) + size > self.settings["segment.bytes"]
        old = newest_ms - active.batches[0].newest_ms > longest
        self._note("a roll by size", full)
        self._note("a roll by segment.ms", old and longest == self.settings["segment.ms"])
        self._note("a roll by max.compaction.lag.ms", old and longest < self.settings["segment.ms"])
        if full or old:
            self.roll()

    def roll(self) -> None:
        """Begin a new segment, if the last one has anything."""
        if self.parts[-1].batches:
            self.parts.append(Part(self.end, self.now_ms))

    # Retention

    def retain(self) -> None:
        """Delete the oldest segments, as long as time or size ask for it."""
        surplus = self._size(*self.parts) - self.settings["retention.bytes"]
        limited = self.settings["retention.bytes"] >= 0
        while self._has("delete"):
            oldest = self.parts[0]
            last = len(self.parts) == 1
            surplus -= self._size(oldest)
            born = oldest.newest_ms if oldest.newest_ms >= 0 else oldest.created_ms
            age = self.now_ms - born
            old = 0 <= self.settings["retention.ms"] < age
            large = limited and surplus >= 0
            end = self.end if last else self.parts[1].base
            if not (old or large) or end > self.mark or (last and not oldest.batches):
                return
            self._note("retention by time", old)
            self._note("retention by size", large)
            del self.parts[0]
            if last:
                self.parts.append(Part(self.end, self.now_ms))

    # Compaction

    def clean(self) -> None:
        """One round of the cleaner, if the log needs it."""
        if not self._has("compact"):
            return
        first = self.clean_to if self.start <= self.clean_to <= self.end else self.start
        end = self._cleanable_end(first)
        dirty = [one for one in self.parts if first <= one.base < end]
        clean = [one for one in self.parts if one.base < first]
        bytes_dirty, bytes_clean = self._size(*dirty), self._size(*clean)
        share = bytes_dirty / max(bytes_dirty + bytes_clean, 1)
        enough = share > self.settings["min.cleanable.dirty.ratio"]
        overdue = self._has_waited(first)
        if not bytes_dirty or not (enough or overdue):
            self._note("too little dirt", bytes_dirty > 0)
            return
        self._note("a log that is overdue", not enough)
        self._compact(end)
        self.clean_to = end

    def _cleanable_end(self, first: int) -> int:
        """The start of the first segment that is open, not replicated, or young."""
        lag = self.settings["min.compaction.lag.ms"]
        end = self.parts[-1].base
        for part in self.parts:
            if lag > 0 and part.base >= first and part.newest_ms > self.now_ms - lag:
                self._note("a young segment", part.base < end)
                end = min(end, part.base)
        holding = [part.base for part in self.parts if part.base <= min(self.mark, end)]
        return holding[-1]

    def _has_waited(self, first: int) -> bool:
        until = self.now_ms - self.settings["max.compaction.lag.ms"]
        closed = [one for one in self.parts[:-1] if one.base >= first and one.batches]
        return any(0 < one.batches[0].newest_ms < until for one in closed)

    def _compact(self, end: int) -> None:
        below = [part for part in self.parts if part.base < end]
        records = (r for part in below for batch in part.batches for r in batch.records)
        newest = {record.key: record.offset for record in records}
        groups: list[list[Part]] = []
        for part in below:
            if groups and self._size(*groups[-1], part) <= self.settings["segment.bytes"]:
                self._note("segments that are merged", True)
                groups[-1].append(part)
            else:
                groups.append([part])
        self.parts[: len(below)] = [self._merged(group, newest, end) for group in groups]

    def _merged(self, group: list[Part], newest: Mapping[bytes | None, int], end: int) -> Part:
        merged = Part(group[0].base, group[-1].created_ms)
        for part in group:
            for batch in part.batches:
                merged.batches += self._left(batch, newest, end)
        return merged

    def _left(self, batch: Batch, newest: Mapping[bytes | None, int], end: int) -> Iterator[Batch]:
        due = batch.horizon_ms is not None and batch.horizon_ms <= self.now_ms
        kept = tuple(
            one
            for one in batch.records
            if one.key is not None
            and newest[one.key] == one.offset
            and not (one.value is None and due)
        )
        self._note("a tombstone that goes", due and len(kept) < len(batch.records))
        if not kept:
            if batch.last + 1 == end:
                self._note("a batch that is only its header", True)
                yield evolve(batch, records=(), codec="uncompressed", horizon_ms=None)
            return
        horizon = batch.horizon_ms
        if horizon is None and any(one.value is None for one in kept):
            self._note("a delete horizon", True)
            horizon = self.now_ms + self.settings["delete.retention.ms"]
        stamps = {one.timestamp for one in kept}
        changed = horizon != batch.horizon_ms or len(kept) < len(batch.records)
        newest_ms = max(stamps) if changed else batch.newest_ms
        yield evolve(batch, records=kept, horizon_ms=horizon, newest_ms=newest_ms)

    # Reads

    def at_time(self, timestamp: int) -> tuple[int, int] | None:
        """ListOffsets: the first record with this timestamp or a later one."""
        found = ((r.offset, r.timestamp) for r in self.records if r.timestamp >= timestamp)
        return next(found, None)

    def _has(self, policy: str) -> bool:
        return policy in self.settings["cleanup.policy"]

    def _size(self, *parts: Part) -> int:
        return sum(self.sizes[batch.first] for part in parts for batch in part.batches)

    def _note(self, rule: str, decided: bool) -> None:
        if decided:
            self.seen.add(rule)
