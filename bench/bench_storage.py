"""Figures of the storage, in processor seconds, each against its yardstick in the same run.

    python bench/bench_storage.py [FOLDER]

Writes up to two gigabytes into a temporary folder and removes it.
"""

import os
import sys
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from random import Random
from struct import Struct
from time import process_time

from crc32c import crc32c
from rich.console import Console
from rich.table import Table

from refimpl.storage.config import LogConfig
from refimpl.storage.disk.files import FileDisk
from refimpl.storage.disk.interface import replace_file
from refimpl.storage.format.batch import Record, batches, decode_records, encode_batch
from refimpl.storage.log.log_dir import LogDir
from refimpl.storage.log.partition_log import PartitionLog
from refimpl.storage.log.segment import LOG, file_name

MIB, GIB, NOW_MS = 1 << 20, 1 << 30, 1_700_000_000_000
CONFIG = LogConfig(max_message_bytes=2 * MIB)
PARTITION = "bench", 0
_LENGTH, _CRC = Struct(">i"), Struct(">I")


def batch_of(size: int) -> bytes:
    """A batch of about this size, of records of a kibibyte."""
    records = [Record(n, NOW_MS, b"key", bytes(1000)) for n in range(max(size // 1024, 1))]
    return encode_batch(records)


def new_log(root: Path) -> tuple[LogDir, PartitionLog]:
    """An empty log in an empty directory."""
    root.mkdir()
    directory = LogDir.open(FileDisk(root), NOW_MS, CONFIG)
    return directory, directory.create(PARTITION, bytes(16), NOW_MS)


def cpu_seconds(work: Callable[[], object]) -> float:
    """CPU-seconds of this process for a piece of work."""
    start = process_time()
    work()
    return process_time() - start


def write_bare(path: Path, batch: bytes, count: int) -> None:
    """The yardstick of an append: check the CRC, write the bytes."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    view = memoryview(batch)
    for _ in range(count):
        assert crc32c(view[21:]) == _CRC.unpack_from(batch, 17)[0]
        os.write(handle, batch)
    os.close(handle)


def append(log: PartitionLog, batch: bytes, count: int) -> None:
    """The same, by the log."""
    for _ in range(count):
        log.append_as_leader(batch, 1, NOW_MS)


def compare_appends(root: Path, size: int, count: int) -> tuple[float, float]:
    """Processor seconds of the log's appends and of bare writes, in turns, the best of three."""
    batch = batch_of(size)
    ours: list[float] = []
    bare: list[float] = []
    for turn in range(3):
        path = root / f"bare-{turn}"
        bare.append(cpu_seconds(lambda path=path: write_bare(path, batch, count)))
        path.unlink()
        folder = root / f"log-{size}-{turn}"
        directory, log = new_log(folder)
        ours.append(cpu_seconds(lambda log=log: append(log, batch, count)))
        remove(folder, directory)
    return min(ours), min(bare)


def remove(folder: Path, directory: LogDir) -> None:
    """Remove a log directory."""
    directory.close()
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()


def read_and_check(path: Path) -> None:
    """The yardstick of recovery: read everything, check every CRC."""
    handle = os.open(path, os.O_RDONLY)
    position, end = 0, os.fstat(handle).st_size
    data, start = memoryview(b""), 0
    while position < end:
        at = position - start
        if len(data) - at < 61 or len(data) - at < 12 + _LENGTH.unpack_from(data, at + 8)[0]:
            data, start, at = memoryview(os.pread(handle, 4 * MIB, position)), position, 0
        size = 12 + _LENGTH.unpack_from(data, at + 8)[0]
        assert crc32c(data[at + 21 : at + size]) == _CRC.unpack_from(data, at + 17)[0]
        position += size
    os.close(handle)


def look_up(log: PartitionLog, times: int) -> None:
    """Random single-batch reads."""
    dice = Random(7)
    end = log.end_offset
    for _ in range(times):
        log.local.segments[0].find(dice.randrange(end))


def many_segments(root: Path, count: int) -> Path:
    """A log of so many small segments, written file by file, with a clean shutdown."""
    directory, _ = new_log(root)
    directory.close()
    batch, folder = batch_of(1024), root / "bench-0"
    for base in range(count):
        data = base.to_bytes(8) + batch[8:]
        (folder / file_name(base, LOG)).write_bytes(data)
        (folder / file_name(base, ".index")).touch()
        (folder / file_name(base, ".timeindex")).write_bytes(NOW_MS.to_bytes(8) + bytes(4))
    return root


def main() -> None:
    """Measure, and print one table."""
    table = Table("what", "measured", "yardstick", "goal")
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as folder:
        root = Path(folder)
        for row in rows(root):
            table.add_row(*row)
    Console().print(table)


def rows(root: Path) -> list[tuple[str, str, str, str]]:
    """One row per figure."""
    found: list[tuple[str, str, str, str]] = []

    def add(what: str, measured: str, yardstick: str, goal: str) -> None:
        found.append((what, measured, yardstick, goal))
        print(*found[-1], sep=" | ", file=sys.stderr)

    ours, bare = compare_appends(root, MIB, 512)
    add("append 512 batches of 1 MiB", f"{ours:.2f} s", f"{bare:.2f} s: {bare / ours:.0%}", "60%")
    ours, bare = compare_appends(root, 16 * 1024, 16_384)
    add("append batches of 16 KiB", f"{16_384 / ours:,.0f}/s", f"{bare / ours:.0%}", "30,000/s")
    single = encode_batch([Record(0, NOW_MS, b"key", bytes(100))])
    directory, log = new_log(root / "single")
    each = best_of(lambda: append(log, single, 20_000)) / 20_000 * 1e6
    add("append a batch of one record", f"{each:.1f} µs", "", "4.5 µs: Kafka")
    fetched = single * 5_000
    each = best_of(lambda: [*batches(fetched)]) / 5_000 * 1e6
    add("read the header of a batch of one record", f"{each:.2f} µs", "", "0.2 µs: Kafka")
    remove(root / "single", directory)
    for names in (0, 2):
        add_decoding(names, add)
    for size in (MIB, 16 * 1024):
        add_recovery(root / f"big-{size}", size, add)
    config_open = many_segments(root / "many", 10_000)
    disk = FileDisk(config_open)
    opened = cpu_seconds(lambda: LogDir.open(disk, NOW_MS, CONFIG))
    add("open 10,000 segments, clean", f"{opened:.2f} s", "", "2 s")
    opened = cpu_seconds(lambda: LogDir.open(disk, NOW_MS, CONFIG))
    add("open 10,000 segments, after a crash", f"{opened:.2f} s", "", "")
    return found


def best_of(work: Callable[[], object]) -> float:
    """Processor seconds of the best of five."""
    return min(cpu_seconds(work) for _ in range(5))


def add_decoding(names: int, add: Callable[[str, str, str, str], None]) -> None:
    """Records decoded in a second, by the library and by ours in Python."""
    headers = tuple((f"h{n}", b"1") for n in range(names))
    many = [Record(n, NOW_MS + n, b"key-%d" % n, bytes(100), headers) for n in range(1_000)]
    batch = encode_batch(many)
    small = [encode_batch(many[n : n + 50]) for n in range(0, 1_000, 50)]
    library = 10_000 / best_of(lambda: [[*decode_records(batch)] for _ in range(10)])
    ours = 10_000 / best_of(lambda: [[*decode_records(b)] for b in small * 10])
    what = f"decode records with {names} headers"
    add(what, f"{library:,.0f}/s", f"{ours:,.0f}/s in batches of 50", "")


def add_recovery(root: Path, size: int, add: Callable[[str, str, str, str], None]) -> None:
    """Look-ups in, recovery of, and memory for one gigabyte in batches of this size."""
    directory, log = new_log(root)
    batch = batch_of(size)
    tracemalloc.start()
    append(log, batch, 64)
    log.flush()
    before = tracemalloc.get_traced_memory()[0]
    append(log, batch, 960)
    log.flush()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    append(log, batch, max(GIB // len(batch) - 1_024, 0))
    look_up(log, 100)
    each = cpu_seconds(lambda: look_up(log, 5_000)) / 5_000 * 1e6
    name = f"1 GiB in batches of {size // 1024} KiB"
    add(f"look up an offset in {name}", f"{each:.1f} µs", "", "50 µs")
    path = root / "bench-0" / file_name(0, LOG)
    bare = min(cpu_seconds(lambda: read_and_check(path)) for _ in range(3))
    replace_file(directory.disk, "recovery-point-offset-checkpoint", b"0\n0\n")
    ours = 9e9
    for _ in range(3):
        disk = FileDisk(root)
        replace_file(disk, "recovery-point-offset-checkpoint", b"0\n0\n")
        ours = min(ours, cpu_seconds(lambda disk=disk: LogDir.open(disk, NOW_MS, CONFIG)))
    add(f"recover {name}", f"{ours:.2f} s", f"{bare:.2f} s: {bare / ours:.0%}", "60%")
    add(f"memory for 960 batches more, {name}", f"{grown:,} bytes", "", "0 per batch")
    remove(root, directory)


if __name__ == "__main__":
    main()
