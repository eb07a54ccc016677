"""The embedded store on a disk: every answered write survives every crash.

Each batch of writes is appended to a log and flushed before its answers and events go out. From
time to time the whole state becomes the file `snapshot`, and a new log begins. A crash may tear a
log's last batch, which is then truncated, because nobody received an answer to it. Damage before a
whole batch raises `CorruptFile`. After a failure of its disk the store answers nothing any more.
"""

from collections.abc import Callable, Sequence
from typing import Self

from attrs import define, field

from refimpl.errors import CorruptFile, StorageOffline
from refimpl.metadata.embedded import EmbeddedStore, Frame, SessionConnection, Write
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
    """An `EmbeddedStore` whose frames go out once the writes that they report are flushed."""

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
        """Recover the store from the disk; every session has its whole timeout again.

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
        """Record a write; it is flushed when the call that caused it returns."""
        self._batch.append(Transaction(zxid, session, write))

    def handle(self, now: int, frame: Frame) -> Sequence[Frame]:
        """As `EmbeddedStore.handle`. Raises StorageOffline once the disk has failed."""
        return self._safely(lambda: self.store.handle(now, frame))

    def handle_all(self, now: int, frames: Sequence[Frame]) -> Sequence[Frame]:
        """Take several frames with one flush."""
        return self._safely(lambda: self.store.handle_all(now, frames))

    def expire(self, now: int) -> Sequence[Frame]:
        """As `EmbeddedStore.expire`."""
        return self._safely(lambda: self.store.expire(now))

    def disconnect(self, connection: SessionConnection) -> None:
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
        """Write the whole state; the old log is then deleted."""
        replace_file(self.disk, SNAPSHOT, encode_state(self.store))
        old, self.log = self.log, log_name(self.store.zxid)
        _begin(self.disk, self.log)
        self.disk.delete(old)
        self._since_snapshot = 0


def _recover(disk: Disk, store: EmbeddedStore) -> tuple[str, int]:
    """Load the snapshot and redo the logs; return the log to go on with, and its number of
    transactions.
    """
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
    """Raise CorruptFile unless the damage is a torn last batch: a whole batch behind it was
    flushed.
    """
    if not is_last:
        raise CorruptFile(name, end, "a damaged batch, and a later log")
    for position in range(end + 1, len(content) - HEAD.size):
        if piece_at(content, position) is not None:
            raise CorruptFile(name, end, f"a damaged batch, with a whole one at byte {position}")


def _begin(disk: Disk, log: str) -> None:
    """Create an empty log whose name survives a crash."""
    disk.append(log)
    disk.flush(log)
    disk.flush_folder("")
