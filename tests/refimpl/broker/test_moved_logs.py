"""A log that moves to another directory is whole in one of them, wherever the process is killed."""

from copy import deepcopy
from typing import Any

import pytest
from attrs import define

from refimpl.broker.file_logs import FileLogs
from refimpl.broker.several_logs import SeveralLogs
from refimpl.messages.broker import TopicPartition
from refimpl.storage.config import LogConfig
from refimpl.storage.disk.interface import MemoryDisk
from refimpl.storage.format.batch import Record, encode_batch

NOW_MS, RECORDS = 1_000, 9
T = TopicPartition("t", 0)
CONFIG = LogConfig(segment_bytes=300, file_delete_delay_ms=50)
READS = ("read", "size", "list_files", "folders")


class Killed(BaseException):
    """The process ends here."""


@define(eq=False)
class Killing:
    """A disk that ends the process before the operation of some number."""

    disk: MemoryDisk
    left: list[int]

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self.disk, name)

        def counted(*given: Any) -> Any:
            if self.left[0] == 0:
                raise Killed
            self.left[0] -= 1
            return operation(*given)

        return operation if name in READS else counted


def opened(*disks: Any) -> SeveralLogs:
    return SeveralLogs([FileLogs(disk, lambda: NOW_MS, CONFIG) for disk in disks])


def copy(logs: SeveralLogs) -> None:
    """Fill the future log."""
    current, future = logs.open(T).log, logs.futures()[T].log
    while future.end < current.end:
        future.extend(current.slice(future.end, 200))


def begun() -> tuple[list[MemoryDisk], int]:
    """Two directories of which one has a partition that moves to the other."""
    disks = [MemoryDisk(), MemoryDisk()]
    logs = opened(*disks)
    log = logs.open(T).log
    for _ in range(RECORDS):
        log.append(7, encode_batch([Record(0, NOW_MS, b"k", b"v" * 30)]))
    there = logs.directory_of(T)
    logs.move(T, 1 - there)
    copy(logs)
    logs.flush()
    return disks, there


@pytest.mark.parametrize("torn", [False, True])
def test_a_kill_at_any_moment_of_a_replacement_leaves_one_whole_log(torn: bool) -> None:
    disks, there = begun()
    seen: set[bool] = set()
    for number in range(1000):
        after = deepcopy(disks)
        logs = opened(*after)
        copy(logs)
        left = [number]
        for one in logs.directories:
            one.directory.disk.disk = Killing(one.directory.disk.disk, left)  # type: ignore[arg-type]
        try:
            logs.replace(T, RECORDS)
        except Killed:
            is_over = False
        else:
            is_over = True
        again = opened(*after)
        if torn and again.futures():
            again.stop_moving(T)
            again = opened(*after)
        seen.add(moved := again.directory_of(T) != there)
        assert again.partitions() == [T]
        assert (again.open(T).log.end, again.open(T).log.latest_epoch) == (RECORDS, 7)
        assert len(again.open(T).log.slice(0, 1 << 20).data) > 0  # type: ignore[attr-defined]
        if not moved and not torn:
            copy(again)
            again.replace(T, RECORDS)
            assert again.directory_of(T) != there
        assert not again.futures()
        if is_over:
            assert again.open(T).high_watermark == RECORDS
            break
    assert seen == {False, True}


def test_the_cleaner_leaves_a_log_alone_that_moves_and_goes_on_where_it_was() -> None:
    disks, there = begun()
    logs = opened(*disks)
    source, target = logs.directories[there], logs.directories[1 - there]
    assert source.cleaner.paused == {T}
    source.cleaner.take(T, 4)
    copy(logs)
    logs.replace(T, RECORDS)
    assert (source.cleaner.paused, source.cleaner.clean_to(T)) == (set(), 0)
    assert target.cleaner.clean_to(T) == 4
    logs.move(T, there)
    assert target.cleaner.paused == {T}
    logs.stop_moving(T)
    assert target.cleaner.paused == set()


def test_a_copy_whose_log_is_gone_is_no_log() -> None:
    """The directory of the current log was emptied: what was copied may be a part of it."""
    disks, there = begun()
    disks[there] = MemoryDisk()
    logs = opened(*disks)
    assert logs.partitions() == []
    assert logs.open(T).log.end == 0
    assert not logs.futures()
