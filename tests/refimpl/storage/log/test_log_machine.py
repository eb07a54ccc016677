"""A log against a plain list: appends, cuts, deletions and crashes in any order."""

from collections.abc import Callable

import pytest
from attrs import evolve
from hypothesis import HealthCheck, Phase, event, settings, target
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from refimpl.errors import Refusal, StorageDamage
from refimpl.storage.config import LogConfig
from refimpl.storage.disk.crashing import CrashDisk, Inode
from refimpl.storage.format.batch import Record, batches, decode_records, encode_batch
from refimpl.storage.format.compression import Codec
from refimpl.storage.format.offset_index import OffsetIndex
from refimpl.storage.log import retention
from refimpl.storage.log.local_log import LocalLog
from refimpl.storage.log.log_dir import LogDir
from refimpl.storage.log.partition_log import PartitionLog
from refimpl.storage.log.segment import Segment

PARTITION = "orders", 0
NOW_MS = 1_000
CONFIG = LogConfig(
    segment_bytes=600,
    index_interval_bytes=100,
    segment_index_bytes=60,
    retention_ms=500,
    retention_bytes=1_500,
    file_delete_delay_ms=100,
    message_timestamp_after_max_ms=2**62,
)

payloads = st.lists(
    st.tuples(st.integers(0, 2_000), st.binary(max_size=30)), min_size=1, max_size=4
)


class LogMachine(RuleBasedStateMachine):
    """One partition's log, and the list of batches that it should be."""

    disk: CrashDisk
    directory: LogDir
    log: PartitionLog

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[Record]] = []
        self.epoch, self.start, self.flushed, self.now_ms = 0, 0, 0, NOW_MS
        self.end = self.most = 0

    @initialize(config=st.sampled_from((CONFIG, evolve(CONFIG, segment_ms=300))))
    def create(self, config: LogConfig) -> None:
        self.config = config
        self.disk = CrashDisk()
        self.directory = LogDir.open(self.disk, self.now_ms, config)
        self.log = self.directory.create(PARTITION, bytes(16), self.now_ms)

    # Writing

    @rule(payload=payloads, codec=st.sampled_from(Codec))
    def append(self, payload: list[tuple[int, bytes]], codec: Codec) -> None:
        data = encode_batch(records(0, payload), codec=codec)
        appended = self.log.append_as_leader(data, self.epoch, self.now_ms)
        assert appended.first_offset == self.end
        self.take(records(self.end, payload))

    @rule(gap=st.integers(0, 3), many=st.lists(payloads, min_size=1, max_size=3), cut=st.booleans())
    def follow(self, gap: int, many: list[list[tuple[int, bytes]]], cut: bool) -> None:
        """Append a leader's answer, which may have gaps, and whose last batch may be cut off."""
        offset, parts = self.end + gap, list[bytes]()
        expected: list[list[Record]] = []
        for payload in many:
            expected.append(records(offset, payload))
            parts.append(encode_batch(expected[-1], leader_epoch=self.epoch))
            offset += len(payload)
        data = b"".join(parts)
        if cut:
            data = data[:-1]
            expected.pop()
        appended = self.log.append_as_follower(data, self.epoch, self.now_ms)
        assert (appended is None) == (not expected)
        for batch in expected:
            self.take(batch)

    @rule()
    def elect(self) -> None:
        self.epoch += 1

    @rule()
    def roll(self) -> None:
        """A log that is one empty segment begins anew at its end."""
        is_empty = self.log.local.size == 0 and len(self.log.local.segments) == 1
        self.log.roll(self.now_ms)
        if is_empty:
            self.start = self.end

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.flushed = len(self.batches)

    @rule()
    def checkpoint(self) -> None:
        self.directory.checkpoint()

    @rule(replicated=st.floats(0, 1))
    def replicate(self, replicated: float) -> None:
        self.log.advance_high_watermark(int(self.start + replicated * (self.end - self.start)))

    # Cutting

    @precondition(lambda self: self.batches)
    @rule(keep=st.floats(0, 1))
    def truncate(self, keep: float) -> None:
        """To a batch's beginning, as replication does."""
        number = int(keep * len(self.batches))
        offset = self.batches[number][0].offset if number < len(self.batches) else self.end
        self.log.truncate_to(offset, self.now_ms)
        del self.batches[number:]
        self.flushed, self.end = min(self.flushed, number), offset
        self.start = min(self.start, offset)
        self.epoch += 1

    @rule(offset=st.floats(0, 1))
    def delete_records(self, offset: float) -> None:
        """To any replicated offset, also within a batch."""
        mark = self.log.high_watermark
        self.start = max(self.start, int(self.start + offset * (mark - self.start)))
        self.log.advance_log_start(self.start)

    @rule(later_ms=st.integers(0, 900))
    def tidy(self, later_ms: int) -> None:
        self.now_ms += later_ms
        before = {s.base_offset: s for s in self.log.local.segments}
        size, old_start = self.log.local.size, self.start
        self.directory.housekeeping(self.now_ms)
        self.start = self.log.log_start_offset
        assert old_start <= self.start <= max(self.log.high_watermark, old_start)
        gone = [s for base, s in before.items() if base < self.log.local.segments[0].base_offset]
        for number, segment in enumerate(gone):
            size -= segment.size
            end = gone[number + 1].base_offset if number + 1 < len(gone) else self.start
            newest = max(self.timestamps(segment.base_offset, end), default=-1)
            too_old = self.now_ms - max(newest, 0) > self.config.retention_ms
            assert end <= old_start or too_old or size >= self.config.retention_bytes
        if gone:
            event("retention")
        while self.batches and self.batches[0][-1].offset < self.log.local.segments[0].base_offset:
            del self.batches[0]
            self.flushed = max(self.flushed - 1, 0)

    # Starting again

    @rule()
    def restart(self) -> None:
        self.directory.close()
        self.flushed = len(self.batches)
        self.reopen(self.disk)
        self.ends_again()

    @rule(names=st.floats(0, 1), kept=st.floats(0, 1), torn=st.floats(0, 1), zeros=st.booleans())
    def crash(self, names: float, kept: float, torn: float, zeros: bool) -> None:
        def keep(_path: str, inode: Inode) -> bytes:
            count = round(kept * len(inode.changes))
            last = inode.changes[count - 1].data if count else None
            at = None if last is None else round(torn * len(last))
            return inode.after(count, at, zeros=zeros)

        count = round(names * len(self.disk.name_changes))
        self.reopen(self.disk.crashed(count, keep))
        left = sum(batch[-1].offset < self.log.end_offset for batch in self.batches)
        assert left >= self.flushed, f"{self.flushed} batches were flushed, {left} are left"
        event(f"a crash lost {'something' if left < len(self.batches) else 'nothing'}")
        del self.batches[left:]
        self.flushed = left
        self.ends_again()
        self.epoch += 1

    # Reading

    @precondition(lambda self: self.end > self.start)
    @rule(where=st.floats(0, 1, exclude_max=True), max_bytes=st.integers(1, 1_000))
    def fetch(self, where: float, max_bytes: int) -> None:
        offset = int(self.start + where * (self.end - self.start))
        data = self.log.read(offset, max_bytes)
        first = next((b for b in self.batches if b[-1].offset >= offset), None)
        if first is None:
            assert data == b""
        else:
            _, header = next(batches(data))
            assert (header.base_offset, header.last_offset) == (first[0].offset, first[-1].offset)
            assert len(data) <= max(max_bytes, header.size)

    @rule(timestamp=st.integers(0, 2_001))
    def find_time(self, timestamp: int) -> None:
        newer = ((r.offset, r.timestamp) for r in self.readable() if r.timestamp >= timestamp)
        assert self.log.offset_for_timestamp(timestamp) == next(newer, None)

    @invariant()
    def the_log_is_the_list(self) -> None:
        assert self.log.end_offset == self.end
        assert self.log.log_start_offset == self.start
        found: list[Record] = []
        offset = self.start
        while data := self.log.read(offset, 1 << 20):
            for at, header in batches(data):
                found += decode_records(data, at)
                offset = header.next_offset
        assert [r for r in found if r.offset >= self.start] == self.readable()
        self.most = max(self.most, len(self.log.local.segments))

    def teardown(self) -> None:
        if not hasattr(self, "log"):
            return
        target(float(self.most), label="segments")
        self.crash(names=0, kept=0, torn=0, zeros=False)
        self.the_log_is_the_list()

    def readable(self) -> list[Record]:
        return [record for batch in self.batches for record in batch if record.offset >= self.start]

    def timestamps(self, first: int, end: int) -> list[int]:
        every = (record for batch in self.batches for record in batch)
        return [record.timestamp for record in every if first <= record.offset < end]

    def take(self, batch: list[Record]) -> None:
        self.batches.append(batch)
        self.end = batch[-1].offset + 1

    def ends_again(self) -> None:
        """A gap at the end, which only a leader's word was for, is gone after a start."""
        last = self.batches[-1][-1].offset + 1 if self.batches else self.start
        assert last <= self.log.end_offset <= max(self.end, self.start)
        self.end = self.log.end_offset

    def reopen(self, disk: CrashDisk) -> None:
        self.disk = disk
        self.directory = LogDir.open(disk, self.now_ms, self.config)
        assert not self.directory.damaged
        self.log = self.directory.log(PARTITION)


def records(offset: int, payload: list[tuple[int, bytes]]) -> list[Record]:
    return [
        Record(offset + number, timestamp, value[:1] or None, value)
        for number, (timestamp, value) in enumerate(payload)
    ]


TestLogMachine = LogMachine.TestCase


# Bugs that the machine must find, each put back on purpose.


def begin_look_ups_too_late(patch: pytest.MonkeyPatch) -> None:
    """At the entry behind the right one."""
    lookup = OffsetIndex.lookup

    def late(index: OffsetIndex, offset: int) -> tuple[int, int]:
        return lookup(index, offset + 4)

    patch.setattr(OffsetIndex, "lookup", late)


def begin_time_look_ups_too_late(patch: pytest.MonkeyPatch) -> None:
    """Behind the batch that has the answer."""
    before = Segment.offset_before

    def late(segment: Segment, timestamp: int) -> int:
        return before(segment, timestamp) + 1

    patch.setattr(Segment, "offset_before", late)


def delete_one_segment_more(patch: pytest.MonkeyPatch) -> None:
    """Retention by size goes on until it is below the limit."""
    expired = retention.expired

    def too_many(log: LocalLog, mark: int, start: int, now_ms: int) -> int:
        return min(expired(log, mark, start, now_ms) + 1, max(len(log.segments) - 1, 0))

    patch.setattr("refimpl.storage.log.partition_log.expired", too_many)


def forget_the_log_start(patch: pytest.MonkeyPatch) -> None:
    """As Kafka, for up to a minute: a crash brings deleted records back."""

    def forget(_directory: LogDir) -> None:
        pass

    patch.setattr(LogDir, "_write_marks", forget)


def believe_torn_batches(patch: pytest.MonkeyPatch) -> None:
    def believe(*_arguments: object) -> bool:
        return True

    patch.setattr("refimpl.storage.log.scan.crc_matches", believe)


BUGS = [
    begin_look_ups_too_late,
    begin_time_look_ups_too_late,
    delete_one_segment_more,
    forget_the_log_start,
    believe_torn_batches,
]


@pytest.mark.parametrize("put_back", BUGS, ids=lambda bug: bug.__name__)
def test_the_machine_finds_a_known_bug(
    put_back: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    put_back(monkeypatch)
    quick = settings(
        max_examples=2_000,  # it ends with the first that shows the bug; which that is varies
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.too_slow],
    )
    with pytest.raises((AssertionError, Refusal, StorageDamage)):
        run_state_machine_as_test(LogMachine, settings=quick)


# What random runs have found, each as the shortest run that shows it.


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> LogMachine:
    """A machine that is driven by hand, outside of Hypothesis."""

    def nothing(_label: str) -> None:
        pass

    monkeypatch.setattr("tests.refimpl.storage.log.test_log_machine.event", nothing)
    driven = LogMachine()
    driven.create(CONFIG)
    return driven


ONE = [[(0, b"")]]


def test_nothing_is_called_flushed_where_nothing_was_written(machine: LogMachine) -> None:
    """A leader's gap at the beginning, a cut to nothing, a flush, and a torn write after it."""
    machine.follow(gap=2, many=ONE, cut=False)
    machine.truncate(keep=0.0)
    machine.flush()
    machine.follow(gap=1, many=ONE, cut=False)
    machine.checkpoint()
    machine.crash(names=1.0, kept=1.0, torn=0.2, zeros=False)
    machine.the_log_is_the_list()


def test_the_recovery_point_does_not_lie_behind_a_cut_within_a_batch() -> None:
    disk = CrashDisk()
    log = LogDir.open(disk, NOW_MS, CONFIG).create(PARTITION, bytes(16), NOW_MS)
    log.append_as_leader(encode_batch(records(0, [(0, b"")] * 4)), 0, NOW_MS)
    log.flush()
    log.truncate_to(2, NOW_MS)
    assert log.end_offset == log.local.recovery_point == 0


def test_the_high_watermark_is_never_before_the_log_start(machine: LogMachine) -> None:
    """An empty segment whose base moved took the log's start along."""
    machine.follow(gap=1, many=ONE, cut=False)
    machine.truncate(keep=0.0)
    machine.roll()
    machine.delete_records(0.0)
    assert machine.log.high_watermark == machine.log.log_start_offset == 1


def test_a_log_start_that_an_empty_segment_took_along_survives_a_crash(
    machine: LogMachine,
) -> None:
    machine.follow(gap=3, many=ONE, cut=False)
    machine.truncate(keep=0.0)
    machine.roll()
    machine.crash(names=0, kept=0, torn=0, zeros=False)
    machine.the_log_is_the_list()


def test_a_roll_behind_deleted_records_leaves_the_log_start(machine: LogMachine) -> None:
    machine.follow(gap=0, many=[[(0, b"")] * 2], cut=False)
    machine.replicate(1.0)
    machine.delete_records(0.5)
    machine.truncate(keep=0.0)
    machine.roll()
    machine.the_log_is_the_list()
