"""Both logs of a replica are one: whatever is done to them, they answer every question alike."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import HealthCheck, Phase, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from refimpl.errors import OffsetOutOfRange
from refimpl.machines.log import Log
from refimpl.machines.replica_log import UNDEFINED, EpochEnd, ReplicaLog
from refimpl.storage.config import LogConfig
from refimpl.storage.disk.crashing import CrashDisk, Inode
from refimpl.storage.format.batch import Record as StoredRecord
from refimpl.storage.format.batch import encode_batch
from refimpl.storage.log.epoch_cache import EpochCache
from refimpl.storage.log.log_dir import LogDir
from refimpl.storage.log.partition_log import PartitionLog
from refimpl.storage.replica.files import PartitionReplicaLog

PARTITION = "orders", 0
CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=100)
NOW_MS = 1_000
ALL = 1 << 20
SEGMENT = ".log"


def batch_of(values: Sequence[bytes], offset: int = 0, epoch: int = -1) -> bytes:
    stored = [StoredRecord(offset + n, NOW_MS, None, value) for n, value in enumerate(values)]
    return encode_batch(stored, leader_epoch=epoch)


values = st.lists(st.binary(min_size=1, max_size=3), min_size=1, max_size=3)
parts = st.floats(0, 1)


class TwoLogs(RuleBasedStateMachine):
    """A log in memory and one in files; `ends` are where batches end, `epoch` is the newest."""

    def __init__(self) -> None:
        super().__init__()
        self.memory, self.ends = Log(), [0]
        self.epoch = self.flushed = 0

    @initialize()
    def create(self) -> None:
        self.disk = CrashDisk()
        self.directory = LogDir.open(self.disk, NOW_MS, CONFIG)
        self.host(self.directory.create(PARTITION, bytes(16), NOW_MS))

    def host(self, log: PartitionLog) -> None:
        self.files = PartitionReplicaLog(log, lambda: NOW_MS)

    @property
    def last_records_epoch(self) -> int:
        return self.memory.records[-1].epoch if self.memory.records else 0

    # Writing

    @rule(batch=values, newer=st.integers(0, 2))
    def append(self, batch: list[bytes], newer: int) -> None:
        self.epoch = max(self.epoch, self.memory.latest_epoch) + newer
        offsets = [self.memory.append(self.epoch, value).first_offset for value in batch]
        assert self.files.append(self.epoch, batch_of(batch))[:2] == (offsets[0], offsets[-1])
        self.ends.append(self.memory.end)

    @rule(batches=st.lists(st.tuples(values, st.integers(0, 2)), min_size=1, max_size=3))
    def extend(self, batches: list[tuple[list[bytes], int]]) -> None:
        """A leader's records, also of an epoch below one that was assigned and left no record."""
        other, epoch = Log(start=self.memory.end), self.last_records_epoch
        data = b""
        for batch, newer in batches:
            epoch += newer
            data += batch_of(batch, other.end, epoch)
            for value in batch:
                other.append(epoch, value)
            self.ends.append(other.end)
        if self.last_records_epoch <= other.records[0].epoch < self.memory.latest_epoch:
            event("an epoch without records gives way")
        self.files.extend(type(self.files.slice(self.memory.end, 0))(data, self.memory.end))
        self.memory.extend(other.records)

    @rule(newer=st.integers(1, 2))
    def assign_epoch(self, newer: int) -> None:
        self.epoch = max(self.epoch, self.memory.latest_epoch) + newer
        for log in self.logs():
            log.assign_epoch(self.epoch)

    # Cutting

    @rule(part=parts)
    def truncate(self, part: float) -> None:
        """To where a batch ends, as replication does; the end itself included."""
        self.cut(self.ends[int(part * (len(self.ends) - 1))])

    @rule(further=st.integers(0, 2))
    def truncate_nothing(self, further: int) -> None:
        self.cut(self.memory.end + further)

    def cut(self, end: int) -> None:
        for log in self.logs():
            log.truncate_to(end)
        self.ends = [one for one in self.ends if one <= end]
        self.flushed = min(self.flushed, end)

    @rule(part=parts)
    def delete_records(self, part: float) -> None:
        start = self.memory.start
        start += int(part * (self.memory.end - start))
        for log in self.logs():
            log.advance_start(start)
        self.ends = [end for end in self.ends if end >= start]

    @rule(further=st.integers(-5, 5))
    def restart_at(self, further: int) -> None:
        """Behind the end, where the leader deleted; or before, where it was elected uncleanly."""
        offset = max(self.memory.end + further, 0)
        for log in self.logs():
            log.restart_at(offset)
        self.ends, self.flushed = [offset], offset

    # Files

    @rule()
    def roll(self) -> None:
        self.files.log.roll(NOW_MS)
        self.memory.advance_start(self.files.start)
        self.ends = [end for end in self.ends if end >= self.memory.start]

    @rule()
    def flush(self) -> None:
        self.files.log.flush()
        self.flushed = self.memory.end

    @rule(part=parts, torn=parts)
    def crash(self, part: float, torn: float) -> None:
        """Of what was not flushed a prefix is left, and a part of the next batch."""

        def keep(path: str, inode: Inode) -> bytes:
            count = int(part * len(inode.changes))
            if not path.endswith(SEGMENT) or count == len(inode.changes):
                return inode.after(len(inode.changes))
            data = inode.changes[count].data
            return inode.after(count + 1, int(torn * len(data or b"")))

        self.disk = self.disk.crashed(len(self.disk.name_changes), keep)
        self.directory = LogDir.open(self.disk, NOW_MS, CONFIG)
        self.host(self.directory.log(PARTITION))
        kept = self.files.end
        event("a crash loses records" if kept < self.memory.end else "a crash loses nothing")
        assert kept >= self.flushed
        if kept < self.memory.end:
            assert kept in self.ends or kept == self.memory.start
        self.cut(kept)
        self.flushed = kept

    @rule()
    def stop(self) -> None:
        self.directory.close()
        self.directory = LogDir.open(self.disk, NOW_MS, CONFIG)
        self.host(self.directory.log(PARTITION))
        self.cut(self.memory.end)

    # Asking

    def logs(self) -> tuple[ReplicaLog, ReplicaLog]:
        return self.memory, self.files

    @invariant()
    def both_answer_alike(self) -> None:
        memory, files = answers(self.memory), answers(self.files)
        assert memory == files

    @invariant()
    def both_serve_the_same_records(self) -> None:
        first, end = self.memory.start, self.memory.end
        for start in {first, end, *self.ends}:
            if first <= start <= end:
                read = self.files.slice(start, ALL)
                while start + len(read) < end:
                    read = [*read, *self.files.slice(start + len(read), ALL)]
                assert list(read) == list(self.memory.slice(start, ALL))
        for log in self.logs():
            for outside in (first - 1, end + 1):
                with pytest.raises(OffsetOutOfRange):
                    log.slice(outside, 1)


def answers(log: ReplicaLog) -> dict[str, object]:
    """Everything that can be asked about epochs, at every edge."""
    asked = range(-1, log.latest_epoch + 3)
    return {
        "start": log.start,
        "end": log.end,
        "latest epoch": log.latest_epoch,
        "ends": {epoch: log.end_of(epoch) for epoch in asked},
        "starts": {epoch: log.start_of(epoch) for epoch in asked},
        "records": list(log.records),
        "last record": log.records[-1] if log.records else None,
    }


TestTwoLogs = TwoLogs.TestCase
TestTwoLogs.settings = settings(
    max_examples=60, stateful_step_count=25, suppress_health_check=[HealthCheck.too_slow]
)


def test_records_of_files_are_cut_like_a_list() -> None:
    memory, files = in_memory(), in_files()
    for log in (memory, files):
        write(log, 2, 5)
        log.advance_start(1)
    for cut in (
        slice(None),
        slice(1, 3),
        slice(-2, None),
        slice(3, 1),
        slice(2, 99),
        slice(0, 4, 2),
    ):
        assert [*files.records[cut]] == [*memory.records[cut]]


# Both could be wrong alike: what Kafka answers, case by case (docs/replica-log.md).


def in_memory() -> ReplicaLog:
    return Log()


def in_files() -> ReplicaLog:
    directory = LogDir.open(CrashDisk(), NOW_MS, CONFIG)
    log = directory.create(PARTITION, bytes(16), NOW_MS)
    return PartitionReplicaLog(log, lambda: NOW_MS)


BOTH = pytest.mark.parametrize("new", [in_memory, in_files])


def write(log: ReplicaLog, epoch: int, count: int) -> None:
    for _ in range(count):
        log.append(epoch, b"a" if isinstance(log, Log) else batch_of([b"a"]))


@BOTH
def test_an_empty_log_knows_no_epoch(new: Callable[[], ReplicaLog]) -> None:
    log = new()
    assert log.latest_epoch == -1
    assert [log.end_of(epoch) for epoch in (-1, 0, 7)] == [UNDEFINED] * 3


@BOTH
def test_an_epoch_ends_where_the_next_one_in_the_log_starts(new: Callable[[], ReplicaLog]) -> None:
    log = new()
    write(log, 2, 3)
    write(log, 5, 2)
    assert log.end_of(2) == EpochEnd(2, 3)
    assert log.end_of(4) == EpochEnd(2, 3)
    assert log.end_of(5) == EpochEnd(5, 5)


@BOTH
def test_above_the_latest_epoch_nothing_is_known(new: Callable[[], ReplicaLog]) -> None:
    log = new()
    write(log, 2, 3)
    assert log.end_of(3) == log.end_of(-1) == UNDEFINED


@BOTH
def test_below_the_first_epoch_the_log_names_the_asked_one(new: Callable[[], ReplicaLog]) -> None:
    log = new()
    write(log, 2, 3)
    write(log, 5, 2)
    log.advance_start(4)
    assert log.end_of(2) == EpochEnd(2, 4)
    assert log.end_of(5) == EpochEnd(5, 5)
    assert log.start_of(2) == log.start_of(5) == 4


@BOTH
def test_a_leader_knows_its_epoch_before_its_first_record(new: Callable[[], ReplicaLog]) -> None:
    log = new()
    write(log, 2, 3)
    log.assign_epoch(6)
    assert log.latest_epoch == 6
    assert log.end_of(4) == EpochEnd(2, 3)
    assert log.end_of(6) == EpochEnd(6, 3)
    assert log.start_of(6) == 3


@BOTH
def test_a_reign_without_records_ends_with_the_next_cut(new: Callable[[], ReplicaLog]) -> None:
    log = new()
    write(log, 2, 3)
    log.assign_epoch(6)
    log.truncate_to(3)
    assert log.end == 3
    assert log.latest_epoch == 2


@BOTH
def test_a_reign_without_records_does_not_hide_an_older_epoch(
    new: Callable[[], ReplicaLog],
) -> None:
    """Kafka forgets where epoch 2 started, and asks again before it gets here."""
    log = new()
    write(log, 2, 3)
    log.assign_epoch(6)
    write(log, 2, 1)
    assert log.end_of(2) == EpochEnd(2, 4)
    assert log.start_of(2) == 0


@BOTH
def test_deleting_everything_keeps_the_epoch_that_spans_the_end(
    new: Callable[[], ReplicaLog],
) -> None:
    log = new()
    write(log, 2, 3)
    log.advance_start(3)
    assert log.end_of(2) == EpochEnd(2, 3)
    log.truncate_to(3)
    assert log.end_of(2) == UNDEFINED


@BOTH
def test_a_log_that_starts_anew_knows_no_epoch(new: Callable[[], ReplicaLog]) -> None:
    log = new()
    write(log, 2, 3)
    log.restart_at(7)
    assert (log.start, log.end, log.latest_epoch) == (7, 7, -1)
    assert log.end_of(2) == UNDEFINED


# Disagreements of the past are put back, and must be found.


def undefined_is_the_end(patch: pytest.MonkeyPatch) -> None:
    """For an epoch above all others, answer as the log in memory did."""
    known = Log.end_of

    def end_of(self: Log, epoch: int) -> EpochEnd:
        found = known(self, epoch)
        return EpochEnd(self.latest_epoch, self.end) if found == UNDEFINED else found

    patch.setattr(Log, "end_of", end_of)


def none_below_the_first(patch: pytest.MonkeyPatch) -> None:
    """For an epoch below the first, answer as the log in memory did: none."""
    known = Log.end_of

    def end_of(self: Log, epoch: int) -> EpochEnd:
        found = known(self, epoch)
        below = found.epoch == epoch and epoch not in {record.epoch for record in self.records}
        return EpochEnd(-1, found.end) if below and epoch != self.latest_epoch else found

    patch.setattr(Log, "end_of", end_of)


def an_empty_reign_survives_a_cut(patch: pytest.MonkeyPatch) -> None:
    """PartitionLog did nothing where there was nothing to cut."""
    known = PartitionLog.truncate_to

    def truncate_to(self: PartitionLog, offset: int, now_ms: int) -> None:
        if offset < self.end_offset:
            known(self, offset, now_ms)

    patch.setattr(PartitionLog, "truncate_to", truncate_to)


def an_older_epoch_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    """LeaderEpochFileCache.assign drops every epoch that is not below the new one."""
    known = EpochCache.note

    def note(self: EpochCache, epoch: int, start: int) -> None:
        if self.epochs and epoch <= self.epochs[-1]:
            while self.epochs and self.epochs[-1] >= epoch:
                self.epochs.pop()
                self.starts.pop()
        known(self, epoch, start)

    patch.setattr(EpochCache, "note", note)


def epochs_survive_a_new_beginning(patch: pytest.MonkeyPatch) -> None:
    """PartitionLog.restart_at kept the epochs of what it dropped."""

    def clear(self: EpochCache) -> None:
        pass

    patch.setattr(EpochCache, "clear", clear)


PUT_BACK = [
    undefined_is_the_end,
    none_below_the_first,
    an_empty_reign_survives_a_cut,
    an_older_epoch_is_forgotten,
    epochs_survive_a_new_beginning,
]


@pytest.mark.parametrize("put_back", PUT_BACK, ids=lambda bug: bug.__name__)
def test_a_disagreement_of_the_past_is_found(
    put_back: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    put_back(monkeypatch)
    quick = settings(
        max_examples=1500,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.too_slow],
    )
    with pytest.raises(AssertionError):
        run_state_machine_as_test(TwoLogs, settings=quick)


def test_nothing_has_no_size() -> None:
    """A leader in this process answers `()` where the next batch does not fit."""
    directory = LogDir.open(CrashDisk(), NOW_MS, CONFIG)
    log = PartitionReplicaLog(directory.create(PARTITION, bytes(16), NOW_MS), lambda: NOW_MS)
    assert log.size_of(()) == 0
    log.append(1, batch_of([b"a"]))
    assert log.size_of(log.slice(0, ALL)) == log.size > 0


def test_a_reader_without_room_reads_nothing() -> None:
    directory = LogDir.open(CrashDisk(), NOW_MS, CONFIG)
    log = PartitionReplicaLog(directory.create(PARTITION, bytes(16), NOW_MS), lambda: NOW_MS)
    log.append(1, batch_of([b"a"]))
    assert [log.slice(0, limit).data == b"" for limit in (0, 1)] == [True, False]


def test_records_of_coordinators_have_keys_and_those_without_are_passed_over() -> None:
    directory = LogDir.open(CrashDisk(), NOW_MS, CONFIG)
    log = PartitionReplicaLog(directory.create(PARTITION, bytes(16), NOW_MS), lambda: NOW_MS)
    log.append(1, batch_of([b"a", b"b"]))
    assert log.keyed_records(0, log.slice(0, ALL)) == ([], 2)
