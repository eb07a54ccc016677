"""Flushed batches are never lost and never wrong, whatever a crash leaves."""

import os
from collections.abc import Callable
from random import Random

import pytest

from refimpl.errors import Refusal, StorageDamage
from refimpl.storage.disk.crashing import CrashDisk
from refimpl.storage.disk.interface import Disk, MemoryDisk
from refimpl.storage.log.epoch_cache import EpochCache
from refimpl.storage.log.local_log import LocalLog
from refimpl.storage.log.log_dir import LogDir
from refimpl.storage.log.partition_log import PartitionLog
from refimpl.storage.log.segment import Segment
from tests.refimpl.storage.log.crash_states import (
    CONFIG,
    NOW_MS,
    Image,
    Promise,
    Workload,
    check,
    digest,
    disk_of,
    explore,
    images,
    lasting,
)

SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"


def life(work: Workload) -> None:
    """Everything that happens to a log, once: transactions, rolls, epochs, cuts, deletions."""
    work.start()
    work.append()
    work.append(size=40)
    work.flush()
    work.append(producer=7, sequence=0)
    work.directory.checkpoint()
    work.append(1, producer=8, sequence=0)
    work.mark(7, committed=False, epoch=1)
    work.append(1)
    work.flush()
    work.append(1)
    work.directory.checkpoint()
    work.append(1, producer=8, sequence=2)
    work.mark(8, committed=True, epoch=1)
    work.append(2)
    work.truncate(keep=9)
    work.append(3)
    work.append(3)
    work.flush()
    work.delete_records(4)
    work.append(3)
    work.tidy(10)
    work.append(3)
    work.truncate(keep=4)
    work.append(4)
    work.append(4)
    work.stop()


def cut_back(work: Workload) -> None:
    """Truncate an idempotent producer's batches, segments and all; others write instead."""
    work.start()
    for number in range(6):
        work.append(producer=7, sequence=2 * number)
    work.flush()
    work.directory.checkpoint()
    work.truncate(keep=2)
    for _ in range(4):
        work.append(1)
    work.flush()
    work.directory.checkpoint()
    work.append(1)


def new_beginning(work: Workload) -> None:
    """A follower whose leader has deleted more than the follower has: everything is dropped."""
    work.start()
    for _ in range(6):
        work.append()
    work.flush()
    work.directory.checkpoint()
    work.append()
    work.restart(500)
    work.append(1)
    work.append(1)
    work.flush()
    work.restart(40)
    work.append(2)
    work.directory.checkpoint()


def new_beginning_inside_of_a_batch(work: Workload) -> None:
    """A follower whose leader has deleted half a batch gets the whole."""
    work.start()
    for _ in range(6):
        work.append()
    work.flush()
    work.restart_inside(500)
    work.append(1)
    work.flush()
    work.directory.checkpoint()
    work.append(1)


def old_age(work: Workload) -> None:
    """Retention takes segment after segment, also the last one."""
    work.start()
    for _ in range(9):
        work.append()
        work.tidy(30)
    work.flush()
    work.tidy(200)
    work.append(1)
    work.tidy(60)


class Story:
    """A workload drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __call__(self, work: Workload) -> None:
        dice = Random(self.seed)
        work.start()
        epoch, sequences = 0, {7: 0, 8: 0}
        open_txns: set[int] = set()
        for _ in range(30):
            match dice.choices(STEPS, WEIGHTS)[0]:
                case "append":
                    work.append(epoch, size=dice.randrange(60))
                case "transact":
                    producer = dice.choice((7, 8))
                    work.append(epoch, producer=producer, sequence=sequences[producer])
                    sequences[producer] += 2
                    open_txns.add(producer)
                case "mark" if open_txns:
                    producer = open_txns.pop()
                    work.mark(producer, committed=dice.random() < 0.5, epoch=epoch)
                case "flush":
                    work.flush()
                case "checkpoint":
                    work.directory.checkpoint()
                case "elect":
                    epoch += 1
                case "truncate" if len(work.promise.log) > work.promise.first + 1:
                    work.truncate(dice.randrange(work.promise.first, len(work.promise.log)))
                    epoch += 1
                    sequences = {7: 1000 * epoch, 8: 1000 * epoch}
                    open_txns.clear()
                case "delete" if len(work.promise.log) > work.promise.first + 1:
                    work.delete_records(dice.randrange(work.promise.first, len(work.promise.log)))
                case "tidy":
                    work.tidy(dice.randrange(60))
                case _:
                    pass
        if dice.random() < 0.5:
            work.stop()


STEPS = ["append", "transact", "mark", "flush", "checkpoint", "elect", "truncate", "delete", "tidy"]
WEIGHTS = 8, 4, 2, 3, 2, 1, 1, 1, 1


STORIES = [cut_back, life, new_beginning, new_beginning_inside_of_a_batch, old_age]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_what_was_flushed_is_there_after_any_crash(story: Callable[[Workload], None]) -> None:
    assert explore(story, check, every=1 if SOAK else 5) > 400


def test_chance_finds_no_crash_that_loses_or_invents() -> None:
    """`HYPOTHESIS_PROFILE=soak` explores a hundred thousand states, in a minute."""
    states = seed = 0
    while states < (100_000 if SOAK else 1_000):
        states += explore(Story(seed), check, every=1 if SOAK else 20)
        seed += 1
    print(f"{states} states after crashes, seeds 0 to {seed - 1}")


def test_a_crash_inside_recovery_changes_nothing() -> None:
    visited = recoveries = 0

    def crash_again(image: Image, promise: Promise) -> None:
        nonlocal visited, recoveries
        visited += 1
        if visited % (10 if SOAK else 100) == 0:
            recoveries += explore_recovery(image, promise)

    for story in STORIES:
        explore(story, crash_again)
    assert recoveries > 1_000


def explore_recovery(image: Image, promise: Promise) -> int:
    """Crash in every way inside the start after a crash, and start again."""
    files, folders = image
    disk = CrashDisk({path: bytearray(data) for path, data in files.items()}, set(folders))
    once = disk_of(image)
    LogDir.open(once, NOW_MS, CONFIG)
    seen: set[bytes] = set()

    def crash_here(_operation: str, _path: str) -> None:
        for again in images(disk):
            if (key := digest(again)) not in seen:
                seen.add(key)
                check(again, promise)
                twice = disk_of(again)
                LogDir.open(twice, NOW_MS, CONFIG)
                assert logs_of(twice) == logs_of(once)

    disk.fail = crash_here
    LogDir.open(disk, NOW_MS, CONFIG)
    return len(seen)


def logs_of(disk: MemoryDisk) -> dict[str, bytes]:
    return {path: data for path, data in lasting(disk).items() if path.endswith(".log")}


# Bugs that a crash brings to light, each put back on purpose.


def nothing(*_arguments: object) -> None:
    """Instead of what should be done."""


def roll_without_flush(patch: pytest.MonkeyPatch) -> None:
    """As Kafka, which leaves the flush to a background thread."""
    roll = LocalLog.roll

    def careless(log: LocalLog, base_offset: int, now_ms: int) -> None:
        with pytest.MonkeyPatch.context() as inside:
            inside.setattr(Segment, "flush", nothing)
            inside.setattr(LocalLog, "flush", nothing)
            roll(log, base_offset, now_ms)

    patch.setattr(LocalLog, "roll", careless)


def flush_without_names(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CrashDisk, "flush_folder", nothing)


def flush_without_bytes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CrashDisk, "flush", nothing)


def cut_without_lowering_the_recovery_point(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LocalLog, "_lower", nothing)


def cut_without_dropping_snapshots(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionLog, "drop_snapshots", nothing)


def recover_without_crc(patch: pytest.MonkeyPatch) -> None:
    def believe(*_arguments: object) -> bool:
        return True

    patch.setattr("refimpl.storage.log.scan.crc_matches", believe)


def recover_without_cutting_epochs(patch: pytest.MonkeyPatch) -> None:
    """The epoch of a batch that was lost stays: it was written down before the batch was."""
    patch.setattr(EpochCache, "truncate_end", nothing)


def write_checkpoints_in_place(patch: pytest.MonkeyPatch) -> None:
    def overwrite(disk: Disk, path: str, content: bytes) -> None:
        disk.append(path)
        disk.truncate(path, 0)
        disk.append(path, content)

    patch.setattr("refimpl.storage.format.checkpoints.replace_file", overwrite)


#: Each with what gives it away.
BUGS: dict[Callable[[pytest.MonkeyPatch], None], str] = {
    roll_without_flush: "a hole before the end",
    flush_without_names: "batches were flushed, 0 are left",
    flush_without_bytes: "a hole before the end",
    cut_without_lowering_the_recovery_point: "is damaged",
    cut_without_dropping_snapshots: "producers that nobody was",
    recover_without_crc: "bytes that nobody wrote there",
    recover_without_cutting_epochs: "epochs that the log does not have",
    write_checkpoints_in_place: "deleted records are back",
}


@pytest.mark.parametrize("put_back", BUGS, ids=lambda bug: bug.__name__)
def test_a_known_bug_is_found(
    put_back: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    put_back(monkeypatch)
    found = (AssertionError, StorageDamage, Refusal, KeyError)
    with pytest.raises(found, match=BUGS[put_back]):
        run_all()


def run_all() -> None:
    for story in [*STORIES, *map(Story, range(4))]:
        explore(story, check)
