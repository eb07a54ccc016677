"""Topic settings two by two: logs with each pair of values, compared with their definition."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import combinations, product
from random import Random
from typing import Any

import pytest
from attrs import define, field

from refimpl.configs import TOPIC
from refimpl.errors import Refusal
from refimpl.storage.cleaner import batch_filter, compaction, log_cleaner
from refimpl.storage.cleaner.batch_filter import BatchFilter
from refimpl.storage.cleaner.log_cleaner import LogCleaner
from refimpl.storage.config import LogConfig
from refimpl.storage.disk.interface import MemoryDisk
from refimpl.storage.format.batch import (
    BatchHeader,
    Record,
    TimestampType,
    batches,
    decode_records,
    encode_batch,
)
from refimpl.storage.format.checkpoints import Partition
from refimpl.storage.format.compression import Codec
from refimpl.storage.log.log_dir import LogDir
from refimpl.storage.log.partition_log import PartitionLog
from refimpl.storage.log.segment import Segment
from tests.refimpl.storage.defined import Batch, DefinedLog, Settings

PARTITION: Partition = ("orders", 0)
NOW_MS = 1_000
NEVER = 2**63 - 1
VALUES: dict[str, tuple[Any, ...]] = {
    "cleanup.policy": (["delete"], ["compact"], ["compact", "delete"], []),
    "compression.type": ("producer", "uncompressed", "lz4"),
    "delete.retention.ms": (0, 100),
    "index.interval.bytes": (0, 4096),
    "max.compaction.lag.ms": (NEVER, 60),
    "message.timestamp.after.max.ms": (NEVER, 40),
    "message.timestamp.before.max.ms": (NEVER, 40),
    "message.timestamp.type": ("CreateTime", "LogAppendTime"),
    "min.cleanable.dirty.ratio": (0.0, 0.4, 1.0),
    "min.compaction.lag.ms": (0, 30),
    "retention.bytes": (-1, 500),
    "retention.ms": (-1, 120),
    "segment.bytes": (260, 4000),
    "segment.ms": (NEVER, 50),
}
FIXED = {"segment.jitter.ms": 0, "file.delete.delay.ms": 0}
CODECS = {Codec.NONE: "uncompressed", Codec.LZ4: "lz4", Codec.GZIP: "gzip"}


def rows_with_every_pair(values: dict[str, tuple[Any, ...]]) -> Iterator[Settings]:
    """Settings of which some row has any two values of two settings; greedy, from one seed."""
    rng = Random(1)
    names = list(values)
    left = {
        (one, other, i, j)
        for one, other in combinations(names, 2)
        for i, j in product(range(len(values[one])), range(len(values[other])))
    }

    def new_pairs(row: dict[str, int]) -> set[tuple[str, str, int, int]]:
        return {(a, b, row[a], row[b]) for a, b in combinations(names, 2)} & left

    while left:
        candidates = [{name: rng.randrange(len(values[name])) for name in names} for _ in range(60)]
        best = max(candidates, key=lambda row: len(new_pairs(row)))
        left -= new_pairs(best)
        yield {name: values[name][number] for name, number in best.items()}


ROWS = list(rows_with_every_pair(VALUES))


#: Key, value, and the difference of its time to the broker's clock
Content = tuple[bytes | None, bytes | None, int]


@define
class Both:
    """A log in files and the one that its settings define, driven together."""

    settings: dict[str, Any]
    defined: DefinedLog = field(init=False)
    disk: MemoryDisk = field(factory=MemoryDisk)
    directory: LogDir = field(init=False)
    cleaner: LogCleaner = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.defined = DefinedLog(self.settings, NOW_MS)
        self._open()
        self.directory.create(PARTITION, bytes(16), NOW_MS)
        self.cleaner.watch(PARTITION)

    @property
    def log(self) -> PartitionLog:
        return self.directory.log(PARTITION)

    @property
    def now_ms(self) -> int:
        return self.defined.now_ms

    def append(self, contents: Sequence[Content], codec: Codec, replicated: bool) -> None:
        """A producer's batch; times are relative to the broker's clock."""
        records = [
            Record(number, self.now_ms + ago, key, value)
            for number, (key, value, ago) in enumerate(contents)
        ]
        refused = self.defined.refuses(records)
        try:
            self.log.append_as_leader(encode_batch(records, codec=codec), 0, self.now_ms)
        except Refusal:
            assert refused
            return
        assert not refused
        size = self._sizes()[self.defined.end]
        self.defined.append(records, CODECS[codec], size)
        if replicated:
            self.log.advance_high_watermark(self.log.end_offset)
            self.defined.mark = self.defined.end

    def wait(self, later_ms: int) -> None:
        self.defined.now_ms += later_ms

    def retain(self) -> None:
        self.directory.housekeeping(self.now_ms)
        self.defined.retain()

    def clean(self) -> None:
        self.cleaner.clean_dirtiest(self.now_ms)
        assert not self.cleaner.uncleanable
        self.defined.clean()
        self.defined.sizes = self._sizes()

    def roll_and_clean(self) -> None:
        self.log.roll(self.now_ms)
        self.defined.roll()
        self.clean()

    def alter(self, name: str, number: int) -> None:
        values = VALUES[name]
        self.settings[name] = values[number % len(values)]
        self.log.local.configure(self._config())

    def restart(self) -> None:
        self.directory.close()
        self._open()
        for part in self.defined.parts:
            part.created_ms = self.now_ms

    def check(self) -> None:
        """Assert that the log is the defined one: segments, batches, records and answers."""
        log, defined = self.log, self.defined
        assert [one.base_offset for one in log.local.segments] == [
            one.base for one in defined.parts
        ]
        assert (log.log_start_offset, log.end_offset) == (defined.start, defined.end)
        assert self._batches() == defined.batches
        times = {record.timestamp for record in defined.records}
        for time in {moved for one in times for moved in (one, one + 1)}:
            assert log.offset_for_timestamp(time) == defined.at_time(time)

    def _batches(self) -> list[Batch]:
        """Every batch, read from the log start on as a consumer reads it."""
        found: list[Batch] = []
        offset = self.log.log_start_offset
        while data := self.log.read(offset, 300):
            at, header = next(batches(data[: _first_size(data)]))
            found.append(_batch(data, at, header))
            offset = header.next_offset
        return found

    def _sizes(self) -> dict[int, int]:
        every = (one for segment in self.log.local.segments for one in segment.headers())
        return {header.base_offset: header.size for _, header in every}

    def _config(self) -> LogConfig:
        topic = {name: entry.default for name, entry in TOPIC.items()}
        return LogConfig.of({**topic, **FIXED, **self.settings}, 86_400_000)

    def _open(self) -> None:
        self.directory = LogDir.open(self.disk, self.now_ms, self._config())
        self.cleaner = LogCleaner(self.directory)


def _first_size(data: bytes) -> int:
    return 12 + int.from_bytes(data[8:12])


def _batch(data: bytes, at: int, header: BatchHeader) -> Batch:
    return Batch(
        header.base_offset,
        header.last_offset,
        header.max_timestamp,
        CODECS[header.codec],
        header.timestamp_type is TimestampType.LOG_APPEND_TIME,
        tuple(decode_records(data, at)),
        header.delete_horizon_ms,
    )


Step = tuple[Any, ...]
KEYS = (b"a", b"a", b"b", b"c", b"d", b"e", b"f")
#: The steps of a story, those that are taken more often several times
STEPS = ("append",) * 8 + ("wait",) * 3 + ("roll_and_clean",) * 3 + ("clean", "retain", "other")
STORIES = range(12)


def story_of(seed: int) -> list[Step]:
    """Sixty steps of a producer, the clock, the cleaner and retention."""
    rng = Random(seed)
    return [_step(rng.choice(STEPS), rng) for _ in range(60)]


def _step(name: str, rng: Random) -> Step:
    if name == "append":
        contents = [_record(rng) for _ in range(rng.randint(1, 4))]
        return name, contents, rng.choice([*CODECS]), rng.random() < 0.9
    if name == "wait":
        return name, rng.choice((0, 1, 30, 50, 60, 100, 120))
    if name == "other":
        altered = ("alter", rng.choice([*VALUES]), rng.randrange(4))
        return rng.choice([altered, ("restart",)])
    return (name,)


def _record(rng: Random) -> Content:
    key = None if rng.random() < 0.03 else rng.choice(KEYS)
    value = None if rng.random() < 0.4 else bytes(rng.randrange(30))
    return key, value, rng.choice((0, 0, 0, -10, 10, -70, 70))


def follow(row: Settings, story: list[Step]) -> set[str]:
    """Drive both logs and compare them after each step; the rules that decided something."""
    both = Both(dict(row))
    for name, *arguments in story:
        getattr(both, name)(*arguments)
        both.check()
    return both.defined.seen


def follow_all() -> None:
    """Follow the stories of each row, up to the first that fails."""
    for number in range(len(ROWS)):
        follow_stories(number)


def follow_stories(number: int) -> set[str]:
    """Follow the stories of a row; the rules that decided something."""
    seen: set[str] = set()
    for seed in STORIES:
        print(f"row {number}, story {seed}")  # pytest shows the last line if one fails
        seen |= follow(ROWS[number], story_of(1_000 * number + seed))
    return seen


@cache
def rules_in(number: int) -> set[str]:
    """The rules that decide something in the stories of a row."""
    return follow_stories(number)


@pytest.mark.parametrize("number", range(len(ROWS)))
def test_a_log_is_what_its_settings_define(number: int) -> None:
    rules_in(number)


def test_two_values_of_two_settings_meet_in_some_row() -> None:
    for one, other in combinations(VALUES, 2):
        met = [(row[one], row[other]) for row in ROWS]
        assert all(pair in met for pair in product(VALUES[one], VALUES[other]))


def test_each_rule_decides_something_in_some_story() -> None:
    seen = {rule for number in range(len(ROWS)) for rule in rules_in(number)}
    assert seen == {
        "a delete horizon",
        "a log that is overdue",
        "a record without a key",
        "a roll by max.compaction.lag.ms",
        "a roll by segment.ms",
        "a roll by size",
        "a timestamp out of range",
        "a tombstone that goes",
        "a young segment",
        "retention by size",
        "retention by time",
        "segments that are merged",
        "too little dirt",
    }


DEFAULTS: Settings = {name: values[0] for name, values in VALUES.items()}
APPENDED = ("append", [(b"a", b"v" * 30, 0)], Codec.NONE, True)


def test_the_last_batch_of_a_round_leaves_its_header() -> None:
    """A record without a key was written before the topic was compacted."""
    row = {**DEFAULTS, "segment.bytes": 260}
    nameless = ("append", [(None, b"v" * 30, 0)], Codec.NONE, True)
    story = [APPENDED, nameless, APPENDED, ("alter", "cleanup.policy", 1), ("clean",)]
    assert "a batch that is only its header" in follow(row, story)


def test_a_search_by_time_names_a_record_that_is_left() -> None:
    """Under LogAppendTime a batch has one timestamp, and compaction removes its first records."""
    row = {
        **DEFAULTS,
        "cleanup.policy": ["compact"],
        "message.timestamp.type": "LogAppendTime",
        "segment.bytes": 260,
    }
    two = ("append", [(b"a", b"old", 0), (b"b", b"v" * 30, 0)], Codec.NONE, True)
    follow(row, [two, APPENDED, APPENDED, ("clean",)])


def test_a_record_that_is_too_old_is_found_between_others() -> None:
    """message.timestamp.before.max.ms, though the header has neither its timestamp."""
    row = {**DEFAULTS, "message.timestamp.before.max.ms": 40}
    story = ("append", [(b"a", b"", 0), (b"a", b"", -70), (b"a", b"", 10)], Codec.NONE, True)
    assert follow(row, [story]) == {"a timestamp out of range"}


@pytest.mark.parametrize(("bytes_more", "left"), [(0, 2), (-1, 2), (1, 3)])
def test_retention_by_size_leaves_what_the_limit_holds(bytes_more: int, left: int) -> None:
    """A segment goes if what is left has at least the limit, as in Kafka."""
    both = Both({**DEFAULTS, "segment.bytes": 100})
    for _ in range(5):
        both.append(*APPENDED[1:])
    size = both.log.local.segments[0].size
    both.settings["retention.bytes"] = 2 * size + bytes_more
    both.alter("retention.ms", 0)
    both.retain()
    both.check()
    assert len(both.log.local.segments) == left


# Bugs of two settings at once, each put back on purpose.


def rewrite_as_created(patch: pytest.MonkeyPatch) -> None:
    """A stamped batch that gets a delete horizon loses its timestamp type."""

    def created(header: BatchHeader, kept: list[Record], horizon: int | None) -> bytes:
        plain = header._replace(attributes=header.attributes & ~0x08)
        return rewritten(plain, kept, horizon)

    rewritten = batch_filter._rewritten  # pyright: ignore[reportPrivateUsage]
    patch.setattr(batch_filter, "_rewritten", created)


def date_tombstones_by_their_own_time(patch: pytest.MonkeyPatch) -> None:
    """The delete horizon is counted from the batch's newest timestamp."""

    def cleaned(rules: BatchFilter, header: BatchHeader, data: Any) -> Any:
        now, rules.now_ms = rules.now_ms, header.max_timestamp
        try:
            return right(rules, header, data)
        finally:
            rules.now_ms = now

    right = BatchFilter.cleaned
    patch.setattr(BatchFilter, "cleaned", cleaned)


def let_compacted_segments_grow(patch: pytest.MonkeyPatch) -> None:
    """max.compaction.lag.ms does not close a segment (KIP-354)."""
    patch.setattr(LogConfig, "max_segment_ms", property(lambda self: self.segment_ms))


def delete_what_is_only_compacted(patch: pytest.MonkeyPatch) -> None:
    """Retention goes by its limits, whatever the policy."""
    patch.setattr(LogConfig, "deletes", True)


def roll_by_what_producers_say(patch: pytest.MonkeyPatch) -> None:
    """segment.ms is counted by the clock, not by the records."""

    def by_clock(segment: Segment, _timestamp: int, now_ms: int) -> int:
        return now_ms - segment.created_ms

    patch.setattr(Segment, "_waited_ms", by_clock)


def call_no_segment_young(patch: pytest.MonkeyPatch) -> None:
    """min.compaction.lag.ms counts from the last start of the log."""

    def end_of(log: PartitionLog, first: int, _now_ms: int) -> int:
        return right(log, first, 2**62)

    right = compaction.first_uncleanable_offset
    patch.setattr(compaction, "first_uncleanable_offset", end_of)
    patch.setattr(log_cleaner, "first_uncleanable_offset", end_of)


BUGS = [
    rewrite_as_created,
    date_tombstones_by_their_own_time,
    let_compacted_segments_grow,
    delete_what_is_only_compacted,
    roll_by_what_producers_say,
    call_no_segment_young,
]


@pytest.mark.parametrize("put_back", BUGS, ids=lambda bug: bug.__name__)
def test_a_known_bug_is_found(
    put_back: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    put_back(monkeypatch)
    with pytest.raises(AssertionError):
        follow_all()
