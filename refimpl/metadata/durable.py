"""The embedded store on a disk: what was answered survives every crash.

Each batch of writes is appended to a log and flushed before anything that it caused goes out. Now
and then the whole state becomes the file `snapshot`, and a new log begins. A log's last batch may
be torn by a crash, and is then cut off, for nobody was told of it; damage before a batch that is
whole raises `CorruptFile`. After a failure of its disk the store answers nothing any more.
"""

from collections.abc import Callable, Sequence
from typing import Self

from attrs import define, field

from refimpl.errors import CorruptFile, StorageOffline
from refimpl.metadata.embedded import Connection, EmbeddedStore, Frame, Write
from refimpl.metadata.records import (
    HEAD,
    Transaction,
    decode_batch,
    decode_state,
    encode_batch,
    encode_state,
    piece_at,
    pieces,
)
from refimpl.storage.disk.guarded import GuardedDisk
from refimpl.storage.disk.interface import Disk, read_file, replace_file

SNAPSHOT = "snapshot"
LOG = "log."
TRANSACTIONS_A_SNAPSHOT = 10_000


def log_name(zxid: int) -> str:
    """The log that holds transactions behind this zxid."""
    return f"{LOG}{zxid:020}"


@define(eq=False)
class DurableStore:
    """An `EmbeddedStore` whose frames go out when what they tell of is safe."""

    disk: GuardedDisk
    store: EmbeddedStore
    log: str
    transactions_a_snapshot: int
    _batch: list[Transaction] = field(factory=list[Transaction])
    _since_snapshot: int = 0

    @classmethod
    def open(
        cls,
        disk: Disk,
        now: int,
        store: EmbeddedStore | None = None,
        transactions_a_snapshot: int = TRANSACTIONS_A_SNAPSHOT,
    ) -> Self:
        """Recover what the disk has; every session that was there has its whole time-out again.

        Raises CorruptFile for damage that no crash explains, StorageOffline if the disk fails.
        """
        guarded, store = GuardedDisk(disk), store or EmbeddedStore()
        log, count = _recover(guarded, store)
        store.restarted(now)
        durable = cls(guarded, store, log, transactions_a_snapshot)
        durable._since_snapshot = count
        store.journal = durable
        return durable

    def append(self, zxid: int, session: int, write: Write) -> None:
        """Take note of a write; it is safe when the call that caused it returns."""
        self._batch.append(Transaction(zxid, session, write))

    def handle(self, now: int, frame: Frame) -> Sequence[Frame]:
        """As `EmbeddedStore.handle`. Raises StorageOffline, from then on, when the disk fails."""
        return self._safely(lambda: self.store.handle(now, frame))

    def handle_all(self, now: int, frames: Sequence[Frame]) -> Sequence[Frame]:
        """Take several frames with one flush."""
        return self._safely(lambda: self.store.handle_all(now, frames))

    def expire(self, now: int) -> Sequence[Frame]:
        """As `EmbeddedStore.expire`."""
        return self._safely(lambda: self.store.expire(now))

    def disconnect(self, connection: Connection) -> None:
        """As `EmbeddedStore.disconnect`."""
        self.store.disconnect(connection)

    @property
    def next_expiry(self) -> int | None:
        """As `EmbeddedStore.next_expiry`."""
        return self.store.next_expiry

    def _safely(self, work: Callable[[], Sequence[Frame]]) -> Sequence[Frame]:
        if self.disk.failure is not None:
            raise StorageOffline(self.disk.failure)
        frames = work()
        if self._batch:
            self.disk.append(self.log, encode_batch(self._batch))
            self.disk.flush(self.log)
            self._since_snapshot += len(self._batch)
            self._batch = []
            if self._since_snapshot >= self.transactions_a_snapshot:
                self._snapshot()
        return frames

    def _snapshot(self) -> None:
        """Write the state down as a whole; logs of what it contains are then of no use."""
        replace_file(self.disk, SNAPSHOT, encode_state(self.store))
        old, self.log = self.log, log_name(self.store.zxid)
        _begin(self.disk, self.log)
        self.disk.delete(old)
        self._since_snapshot = 0


def _recover(disk: Disk, store: EmbeddedStore) -> tuple[str, int]:
    """Load the snapshot, redo the logs; answers the log to go on with, and what it has."""
    files = disk.list_files("")
    if SNAPSHOT in files:
        payload = piece_at(read_file(disk, SNAPSHOT), 0)
        if payload is None:
            raise CorruptFile(SNAPSHOT, 0, "its checksum does not fit")
        decode_state(payload, store)
    contained, count = store.zxid, 0
    logs = sorted(name for name in files if name.startswith(LOG))
    for name in logs:
        content, end = read_file(disk, name), 0
        for end, payload in pieces(content):  # noqa: B007
            for zxid, session, write in decode_batch(payload):
                if zxid > contained:
                    store.redo(zxid, session, write)
                    count += 1
        if end < len(content):
            _must_be_torn(name, content, end, is_last=name == logs[-1])
            disk.truncate(name, end)
            disk.flush(name)
    for name in logs[:-1]:
        disk.delete(name)  # the snapshot contains it, or there would not be a later one
    if not logs:
        _begin(disk, log_name(store.zxid))
        return log_name(store.zxid), 0
    return logs[-1], count


def _must_be_torn(name: str, content: bytes, end: int, *, is_last: bool) -> None:
    """A crash tears the last batch; a whole one behind the damage was safe, and so was the rest."""
    if not is_last:
        raise CorruptFile(name, end, "a damaged batch, and a later log")
    for position in range(end + 1, len(content) - HEAD.size):
        if piece_at(content, position) is not None:
            raise CorruptFile(name, end, f"a damaged batch, with a whole one at byte {position}")


def _begin(disk: Disk, log: str) -> None:
    """Make an empty log whose name is safe."""
    disk.append(log)
    disk.flush(log)
    disk.flush_folder("")
