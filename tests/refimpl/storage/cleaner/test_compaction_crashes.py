"""A crash at any moment of a compaction leaves the old segments or the new ones, never a mixture.

Every operation on the disk may be the last. Of what was not flushed nothing is kept, or all of it,
and names come back in every state that a journal in order allows.
"""

from collections.abc import Callable

import pytest
from attrs import evolve

from refimpl.storage.cleaner.compaction import compact
from refimpl.storage.disk.crashing import CrashDisk
from refimpl.storage.disk.interface import Disk, MemoryDisk
from refimpl.storage.format.batch import Record, encode_batch
from refimpl.storage.log.leftovers import CLEANED, SWAP
from refimpl.storage.log.partition_log import PartitionLog
from refimpl.storage.log.recovery import Recovery, open_log
from tests.refimpl.storage.cleaner.compacted import CONFIG, FOLDER, RETENTION_MS, Compacted, check
from tests.refimpl.storage.log.crash_states import Image, digest, disk_of, images

A, B, C = b"a", b"b", b"c"
NOW_MS = 1_000


def plain(model: Compacted) -> None:
    """Values of three keys over several small segments, some of which will be empty."""
    for number in range(12):
        model.append([(A, b"%d" % number), (B if number % 2 else C, b"x" * number)])
    model.roll()


def tombstones(model: Compacted) -> None:
    """A key that comes, goes, and whose tombstone is due."""
    for number in range(6):
        model.append([(A, b"v"), (B, b"%d" % number), (A, None)])
    model.roll()
    model.clean()
    model.now_ms += 2 * RETENTION_MS
    model.append([(B, b"new"), (C, b"new")])
    model.roll()


def transactions(model: Compacted) -> None:
    """Committed and aborted transactions, and markers whose time has come."""
    for number in range(8):
        model.append([(A, b"%d" % number)], producer=1, transactional=True)
        model.append([(B, b"%d" % number)], producer=2, transactional=True)
        model.end_transaction(1, committed=number % 2 == 0)
        model.end_transaction(2, committed=number % 3 == 0)
    model.roll()
    model.clean()
    model.now_ms += 2 * RETENTION_MS
    model.append([(A, b"new")])
    model.roll()


def reopened(disk: Disk, model: Compacted) -> PartitionLog:
    return open_log(
        disk,
        FOLDER,
        model.config,
        model.now_ms,
        clean=False,
        recovery_point=model.log.local.recovery_point,
        high_watermark=model.log.high_watermark,
    )


def states(disk: CrashDisk, run: Callable[[], object]) -> list[Image]:
    """Every different state that a crash during `run` can leave."""
    found: dict[bytes, Image] = {}

    def look(_operation: str = "", _path: str = "") -> None:
        for image in images(disk):
            found.setdefault(digest(image), image)

    disk.fail = look
    run()
    look()
    disk.fail = None
    return list(found.values())


@pytest.mark.parametrize("prepare", [plain, tombstones, transactions])
@pytest.mark.parametrize("segment_bytes", [200, 400, 4_000])
def test_after_a_crash_in_a_compaction_nothing_is_lost_and_nothing_comes_back(
    prepare: Callable[[Compacted], None], segment_bytes: int
) -> None:
    disk = CrashDisk()
    model = Compacted(disk=disk, config=evolve(CONFIG, segment_bytes=segment_bytes))
    prepare(model)
    model.log.flush()
    left = states(disk, model.clean)
    interrupted = [
        image for image in left if any(name.endswith((CLEANED, SWAP)) for name in image[0])
    ]
    assert len(interrupted) > 10
    for image in left:
        again = disk_of(image)
        check(model, reopened(again, model))
        assert not [name for name in again.files if name.endswith((CLEANED, SWAP))]
    print(f"{len(left)} states")


def test_a_crash_while_a_start_finishes_a_swap_is_no_worse() -> None:
    disk = CrashDisk()
    model = Compacted(disk=disk)
    transactions(model)
    model.log.flush()
    swapping = [i for i in states(disk, model.clean) if any(name.endswith(SWAP) for name in i[0])]
    visited = 0
    for image in swapping[::7]:
        files, folders = image
        second = CrashDisk({path: bytearray(data) for path, data in files.items()}, set(folders))
        for left in states(second, lambda disk=second: reopened(disk, model)):
            check(model, reopened(disk_of(left), model))
            visited += 1
    print(f"{visited} states")
    assert visited > 100


def log_of_two_epochs(disk: Disk) -> PartitionLog:
    """Epoch 0 up to offset 10, epoch 1 behind it, whose first records are superseded."""
    disk.make_folder(FOLDER)
    log = open_log(disk, FOLDER, CONFIG, NOW_MS, clean=False)
    for offset in range(30):
        record = Record(0, NOW_MS, b"ab"[offset % 2 : offset % 2 + 1], b"%d" % offset)
        log.append_as_leader(encode_batch([record]), int(offset >= 10), NOW_MS)
    log.advance_high_watermark(log.end_offset)
    log.roll(NOW_MS)
    return log


def forget_epochs_from_the_recovery_point(patch: pytest.MonkeyPatch) -> None:
    """And make them anew from the batches that are left."""
    run = Recovery.run

    def rebuild(recovery: Recovery) -> None:
        local = recovery.log.local
        begins = local.segments[local.number_of(local.recovery_point)].base_offset
        recovery.log.epochs.truncate_end(begins)
        run(recovery)

    patch.setattr(Recovery, "run", rebuild)


def end_of_epoch_0_after_a_crash(recovery_point: int) -> tuple[int, int] | None:
    disk = MemoryDisk()
    log = log_of_two_epochs(disk)
    compact(log, 0, NOW_MS)
    assert all(
        not 10 <= header.base_offset < 20
        for segment in log.local.segments
        for _, header in segment.headers()
    )
    again = open_log(
        disk, FOLDER, CONFIG, NOW_MS, clean=False, recovery_point=recovery_point, high_watermark=30
    )
    assert again.end_offset == 30
    return again.end_offset_for_epoch(0)


@pytest.mark.parametrize("recovery_point", [0, 10, 25, 30])
def test_an_epoch_ends_where_it_ended_though_its_neighbours_were_compacted(
    recovery_point: int,
) -> None:
    """A follower cuts its log there: if the end moved, it would keep what the leader lacks."""
    assert end_of_epoch_0_after_a_crash(recovery_point) == (0, 10)


def test_epochs_that_are_made_from_compacted_batches_are_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forget_epochs_from_the_recovery_point(monkeypatch)
    assert end_of_epoch_0_after_a_crash(10) != (0, 10)
