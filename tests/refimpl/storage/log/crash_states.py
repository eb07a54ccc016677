"""Every state that a crash can leave of a workload, and what a start must make of each.

A crash may come before any operation on the disk. It keeps some prefix of the unflushed changes of
names, and of each file some prefix of its unflushed changes: of a log every one, the last torn at
every byte, with zeros where bytes are missing or without; of all other files nothing or everything.
"""

from collections.abc import Callable, Iterator
from functools import cache
from hashlib import blake2b

from attrs import define, evolve, field, frozen

from refimpl.machines.producer import Producer
from refimpl.machines.producer_state import ProducerState
from refimpl.storage.config import LogConfig
from refimpl.storage.disk.crashing import CrashDisk, Inode
from refimpl.storage.disk.interface import MemoryDisk
from refimpl.storage.format.batch import Record, encode_batch, read_header
from refimpl.storage.format.checkpoints import CLEAN_SHUTDOWN
from refimpl.storage.format.control import EndTxnMarker, encode_marker
from refimpl.storage.format.txn_index import AbortedTxn
from refimpl.storage.log.local_log import DELETED
from refimpl.storage.log.log_dir import LogDir
from refimpl.storage.log.partition_log import PartitionLog
from refimpl.storage.log.replay import Replay

PARTITION, FOLDER = ("orders", 0), "orders-0"
CONFIG = LogConfig(
    segment_bytes=500,
    index_interval_bytes=150,
    retention_ms=100,
    file_delete_delay_ms=50,
    message_timestamp_after_max_ms=2**62,
)
NOW_MS = 1_000
Image = tuple[dict[str, bytes], frozenset[str]]


@frozen
class Promise:
    """The logs that a crash may leave at this moment: `log[i:j]`, `i <= first`, `j >= least`.

    Readers never see the batches before `log[deleted]`.
    """

    log: tuple[bytes, ...] = ()
    first: int = 0
    least: int = 0
    deleted: int = 0


@define
class Workload:
    """A log on a disk that may crash, with what is promised about it at each moment."""

    disk: CrashDisk = field(factory=CrashDisk)
    promise: Promise = Promise()
    now_ms: int = NOW_MS
    directory: LogDir = field(init=False)
    log: PartitionLog = field(init=False)

    def start(self) -> None:
        self.directory = LogDir.open(self.disk, self.now_ms, CONFIG)
        self.log = self.directory.create(PARTITION, bytes(range(16)), self.now_ms)

    def append(
        self, epoch: int = 0, size: int = 20, producer: int = -1, sequence: int = -1
    ) -> None:
        """A batch of two records, transactional if it has a producer."""
        end = self.log.end_offset
        records = [Record(end + n, self.now_ms, b"key", bytes([end % 251]) * size) for n in (0, 1)]
        data = encode_batch(
            records,
            leader_epoch=epoch,
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=sequence,
            transactional=producer >= 0,
        )
        self._append(data, epoch)

    def mark(self, producer: int, *, committed: bool, epoch: int = 0) -> None:
        marker = encode_marker(
            EndTxnMarker(committed, 1),
            producer_id=producer,
            producer_epoch=0,
            timestamp=self.now_ms,
            offset=self.log.end_offset,
            leader_epoch=epoch,
        )
        self._append(marker, epoch)

    def flush(self) -> None:
        self.log.flush()
        self.promise = evolve(self.promise, least=len(self.promise.log))

    def truncate(self, keep: int) -> None:
        """Cut to the first so many batches."""
        least = min(keep, self.promise.least)
        self.promise = evolve(self.promise, least=least)
        self.log.truncate_to(base_of(self.promise.log[keep]), self.now_ms)
        self.promise = evolve(self.promise, log=self.promise.log[:keep])

    def restart(self, offset: int) -> None:
        self.promise = evolve(self.promise, least=0, deleted=0)
        self.log.restart_at(offset, self.now_ms)
        self.promise = Promise()

    def restart_inside(self, base_offset: int) -> None:
        """Begin anew where the leader's log starts, inside of a batch, and copy that."""
        self.restart(base_offset + 1)
        records = [Record(base_offset + n, self.now_ms, b"key", b"value") for n in (0, 1)]
        self.promise = evolve(self.promise, first=1)
        self._append(encode_batch(records, leader_epoch=1), 1)

    def delete_records(self, index: int) -> None:
        """Move the log's start to this batch."""
        self.promise = evolve(self.promise, first=index)
        self.log.advance_high_watermark(self.log.end_offset)
        self.log.advance_log_start(base_of(self.promise.log[index]))
        self.promise = evolve(self.promise, deleted=index)

    def tidy(self, later_ms: int) -> None:
        """Retention, deletion of what is due, checkpoints."""
        self.now_ms += later_ms
        self.log.advance_high_watermark(self.log.end_offset)
        self.promise = evolve(self.promise, first=len(self.promise.log))
        self.directory.housekeeping(self.now_ms)
        kept = sum(base_of(data) < self.log.log_start_offset for data in self.promise.log)
        self.promise = evolve(self.promise, first=kept, deleted=kept)

    def stop(self) -> None:
        self.directory.close()
        self.promise = evolve(self.promise, least=len(self.promise.log))

    def _append(self, data: bytes, epoch: int) -> None:
        self.promise = evolve(self.promise, log=(*self.promise.log, data))
        # A follower's append takes the bytes as they are, so that they can be compared.
        assert self.log.append_as_follower(data, epoch, self.now_ms)


def images(disk: CrashDisk) -> Iterator[Image]:
    """All disks that the next start may find, if the disk crashed now."""
    for count in range(len(disk.name_changes) + 1):
        names, folders = disk.names_after(count)
        logs = [path for path, inode in names.items() if path.endswith(".log") and inode.changes]
        for everything in (False, True):
            rest = {
                path: inode.after(len(inode.changes)) if everything else inode.safe
                for path, inode in names.items()
            }
            yield rest, frozenset(folders)
            for path in logs:
                for content in survivors(names[path]):
                    yield {**rest, path: content}, frozenset(folders)


def survivors(inode: Inode) -> Iterator[bytes]:
    """All contents that a crash may leave of one file."""
    last = len(inode.changes)
    for count in range(last):
        yield inode.after(count)
    torn = inode.changes[-1].data or b""
    for at in range(len(torn)):
        yield inode.after(last, at)
        yield inode.after(last, at, zeros=True)


def explore(
    run: Callable[[Workload], None], visit: Callable[[Image, Promise], None], every: int = 1
) -> int:
    """Run a workload and visit each different state that a crash can leave, or every n-th, with
    what was promised then; returns how many were visited."""
    workload = Workload()
    seen: set[tuple[bytes, Promise]] = set()
    visited: set[bytes] = set()

    def crash_here(_operation: str, _path: str) -> None:
        for image in images(workload.disk):
            key = digest(image), workload.promise
            if key not in seen:
                seen.add(key)
                if len(seen) % every == 0:
                    visited.add(key[0])
                    visit(image, workload.promise)

    workload.disk.fail = crash_here
    run(workload)
    crash_here("", "")
    return len(visited)


def digest(image: Image) -> bytes:
    files, folders = image
    hashed = blake2b(repr(sorted(folders)).encode(), digest_size=16)
    for path, content in sorted(files.items()):
        hashed.update(b"%s %d\n%s" % (path.encode(), len(content), content))
    return hashed.digest()


def disk_of(image: Image) -> MemoryDisk:
    files, folders = image
    return MemoryDisk({path: bytearray(content) for path, content in files.items()}, set(folders))


def check(image: Image, promise: Promise) -> None:
    """A start after the crash finds what was promised, and a second start finds the same."""
    disk = disk_of(image)
    directory = LogDir.open(disk, NOW_MS, CONFIG)
    assert not directory.damaged, f"{FOLDER} is damaged: {directory.damaged[PARTITION]}"
    log = directory.logs.get(PARTITION)
    if log is None:
        assert promise.least == 0, f"{promise.least} batches were flushed, 0 are left"
        return
    check_log(log, disk, promise)
    if CLEAN_SHUTDOWN in image[0]:
        # Only the start after this one reads everything, and makes the indexes anew.
        LogDir.open(disk, NOW_MS, CONFIG)
    once = lasting(disk)
    LogDir.open(disk, NOW_MS, CONFIG)
    assert lasting(disk) == once, "a second start finds something else"


def check_log(log: PartitionLog, disk: MemoryDisk, promise: Promise) -> None:
    visible = b"".join(bytes(disk.files[segment.path]) for segment in log.local.segments)
    bases = [base_of(data) for data in promise.log]
    start = log.local.segments[0].base_offset
    if not visible and promise.least == 0:
        return
    first = bases.index(start) if start in bases else len(bases)
    last, end = first, 0
    while last < len(bases) and visible.startswith(promise.log[last], end):
        end += len(promise.log[last])
        last += 1
    assert b"".join(promise.log[first:last]) == visible, "bytes that nobody wrote there"
    assert last >= promise.least, f"{promise.least} batches were flushed, {last} are left"
    assert first <= promise.first
    assert log.log_start_offset <= (bases[promise.first] if promise.first < len(bases) else 2**63)
    hidden = bases[promise.deleted] if promise.deleted < len(bases) else 0
    assert log.log_start_offset >= hidden, "deleted records are back"
    end = read_header(promise.log[last - 1]).next_offset if last else start
    assert log.end_offset == max(end, log.log_start_offset), "a hole before the end"
    check_derived(log, promise.log[:last], first)


def check_derived(log: PartitionLog, kept: tuple[bytes, ...], first: int) -> None:
    """Indexes, epochs and producers say what the batches say."""
    state, aborted = producers_of(kept)
    for producer_id, producer in log.producers.producers.items():
        known = state.producers.get(producer_id, Producer())
        assert producer.last_sequence == known.last_sequence, "producers that nobody was"
        assert producer.first_offset == known.first_offset, "producers that nobody was"
    indexed = [txn for segment in log.local.segments for txn in segment.txn_index.entries()]
    held = [txn for txn in aborted if txn.last_offset >= log.local.segments[0].base_offset]
    told = [evolve(txn, last_stable_offset=0) for txn in indexed]
    assert told == held, "transactions that nobody aborted"
    assert log.epochs.starts[-1:] < [log.end_offset], "epochs that the log does not have"
    for data in kept[first:]:
        header = read_header(data)
        assert log.local.read(header.last_offset, 1, log.end_offset) == data
        if header.base_offset >= log.log_start_offset:
            known = log.epochs.epoch_at(header.base_offset)
            assert known == header.leader_epoch, "epochs that the log does not have"
    for segment in log.local.segments:
        file = segment.offset_index.file
        batch_at = dict(segment.headers())
        for number in range(file.count):
            relative, at = file.get(number)
            assert batch_at[at].last_offset == segment.base_offset + relative


@cache
def producers_of(kept: tuple[bytes, ...]) -> tuple[ProducerState, list[AbortedTxn]]:
    """The producer states and aborted transactions by the batches, read from the first on."""
    replay = Replay(ProducerState(), 0)
    aborted: list[AbortedTxn] = []
    for data in kept:
        aborted += replay.batch(read_header(data), data)
    return replay.state, [evolve(txn, last_stable_offset=0) for txn in aborted]


def lasting(disk: MemoryDisk) -> dict[str, bytes]:
    """All files but those that wait to be deleted."""
    return {
        path: bytes(content) for path, content in disk.files.items() if not path.endswith(DELETED)
    }


def base_of(data: bytes) -> int:
    return read_header(data).base_offset
