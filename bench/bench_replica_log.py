"""Both logs of a replica, in processor microseconds for each operation.

    python bench/bench_replica_log.py

A leader appends a batch of one record, a follower is handed it by a slice and extends, and each
log is cut now and then. Best of three.
"""

from collections.abc import Callable
from time import process_time

from rich.console import Console
from rich.table import Table

from refimpl.machines.log import Log
from refimpl.machines.replica_log import ReplicaLog
from refimpl.storage.disk.crashing import CrashDisk
from refimpl.storage.disk.interface import Disk, MemoryDisk
from refimpl.storage.format.batch import Record, encode_batch
from refimpl.storage.log.log_dir import LogDir
from refimpl.storage.replica.files import PartitionReplicaLog

COUNT, CUTS = 5_000, 50
BATCH = encode_batch([Record(0, 0, None, bytes(16))])


def in_files(disk: Disk) -> ReplicaLog:
    """A log on this disk."""
    log = LogDir.open(disk, 0).create(("bench", 0), bytes(16), 0)
    return PartitionReplicaLog(log, lambda: 0)


def microseconds(count: int, work: Callable[[], object]) -> float:
    """Microseconds of this process for each of so many operations."""
    start = process_time()
    work()
    return (process_time() - start) / count * 1e6


def measure(new: Callable[[], ReplicaLog]) -> dict[str, float]:
    """Each operation by name."""
    leader, follower = new(), new()

    def append() -> None:
        for _ in range(COUNT):
            leader.append(1, BATCH)

    def copy() -> None:
        for offset in range(COUNT):
            follower.extend(leader.slice(offset, 1))

    def ask() -> None:
        for _ in range(COUNT):
            leader.end_of(1)

    def cut() -> None:
        for number in range(CUTS):
            follower.truncate_to(COUNT - number)

    return {
        "append": microseconds(COUNT, append),
        "slice and extend": microseconds(COUNT, copy),
        "end of an epoch": microseconds(COUNT, ask),
        "truncate one record": microseconds(CUTS, cut),
    }


def main() -> None:
    """Print a table."""
    logs = {
        "in memory": Log,
        "files, memory disk": lambda: in_files(MemoryDisk()),
        "files, crash disk": lambda: in_files(CrashDisk()),
    }
    table = Table("µs of CPU", "in memory", "files, memory disk", "files, crash disk")
    found = {name: [measure(new) for _ in range(3)] for name, new in logs.items()}
    for operation in found["in memory"][0]:
        best = [min(one[operation] for one in found[name]) for name in logs]
        table.add_row(operation, *(f"{value:.2f}" for value in best))
    Console().print(table)


if __name__ == "__main__":
    main()
