"""CPU-seconds of opening a log directory after a clean stop, by what its producers wrote.

    python bench/bench_clean_start.py [FOLDER] [--partitions 200] [--megabytes 64] [--times 5]

Each partition is a copy of one log; its segments are hard links, so the folder takes the space of
one. In each run directories are opened in turns, with and without the batches that a snapshot
leaves out (`refimpl/storage/log/recall.py`); the best of the runs counts.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from time import process_time

from measuring import conditions

from refimpl.machines.producer_state import ProducerState
from refimpl.storage.config import LogConfig
from refimpl.storage.disk.files import FileDisk
from refimpl.storage.format.batch import Record, encode_batch
from refimpl.storage.log import recall, replay
from refimpl.storage.log.local_log import LocalLog
from refimpl.storage.log.log_dir import LogDir
from refimpl.storage.log.segment import LOG

NOW_MS = 1_700_000_000_000
CONFIG = LogConfig(segment_bytes=1 << 30, message_timestamp_after_max_ms=2**62)
#: Bytes of a batch, and how many producers take turns
WRITERS = {
    "none": (100, 0),
    "small batches, 1 producer": (100, 1),
    "small batches, 10 producers": (100, 10),
    "16 KiB batches, 10 producers": (16_384, 10),
    "1 MiB batches, 10 producers": (1_000_000, 10),
    "small batches, 2,000 producers": (100, 2_000),
    "16 KiB batches, 2,000 producers": (16_384, 2_000),
}


def batches(size: int, producers: int) -> Iterator[bytes]:
    """Batches of about this size, of each producer in turn."""
    value = bytes(max(size - 75, 10))
    for number in count():
        records = [Record(0, NOW_MS + number, b"k", value)]
        if producers:
            turn, id = divmod(number, producers)
            yield encode_batch(records, producer_id=id, producer_epoch=0, base_sequence=turn)
        else:
            yield encode_batch(records)


def write(root: Path, size: int, producers: int, total: int, partitions: int) -> None:
    """A log directory with so many equal partitions, after a clean stop."""
    directory = LogDir.open(FileDisk(root), NOW_MS, CONFIG)
    log = directory.create(("t", 0), bytes(16), NOW_MS)
    others = [directory.create(("t", n), bytes(16), NOW_MS).folder for n in range(1, partitions)]
    for batch in batches(size, producers):
        log.append_as_leader(batch, 0, NOW_MS)
        if log.local.size >= total:
            break
    log.advance_high_watermark(log.end_offset)
    directory.close()
    for folder in others:
        for path in (root / folder).iterdir():
            if path.name != "partition.metadata":
                path.unlink()
        for path in (root / log.folder).iterdir():
            if path.suffix == LOG:
                os.link(path, root / folder / path.name)
            elif path.name != "partition.metadata":
                (root / folder / path.name).write_bytes(path.read_bytes())
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        lines = [f"t {n} {log.end_offset}" for n in range(partitions)]
        (root / name).write_text("\n".join(["0", str(partitions), *lines]) + "\n")


def nothing_recalled(log: LocalLog, state: ProducerState, end: int, log_start: int) -> None:
    """A start as Kafka's, by the snapshot alone."""


def opened(root: Path, rule: Callable[[LocalLog, ProducerState, int, int], None]) -> float:
    """CPU-seconds of opening the directory, which is left as after a clean stop."""
    mark = root / ".kafka_cleanshutdown"
    kept = mark.read_bytes()
    replay.recall_batches = rule
    began = process_time()
    directory = LogDir.open(FileDisk(root), NOW_MS, CONFIG)
    spent = process_time() - began
    assert not directory.damaged
    assert isinstance(directory.disk.disk, FileDisk)
    directory.disk.disk.close()
    mark.write_bytes(kept)
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--partitions", type=int, default=200)
    parser.add_argument("--megabytes", type=int, default=64)
    parser.add_argument("--times", type=int, default=5)
    given = parser.parse_args()
    print(f"{conditions()}; ms of CPU for each of {given.partitions} partitions, {sys.argv}\n")
    print("| | by the snapshot alone | with the batches before it | |\n|---|---|---|---|")
    for name, (size, producers) in WRITERS.items():
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            root = Path(folder)
            write(root, size, producers, given.megabytes << 20, given.partitions)
            rules = nothing_recalled, recall.recall_batches
            runs = [[opened(root, rule) for rule in rules] for _ in range(given.times)]
        before, after = (min(run) / given.partitions * 1e3 for run in zip(*runs, strict=True))
        print(f"| {name} | {before:.2f} | {after:.2f} | +{after - before:.2f} |", flush=True)


if __name__ == "__main__":
    main()
