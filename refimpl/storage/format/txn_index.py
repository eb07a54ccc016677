"""`.txnindex`: the aborted transactions that end in a segment (KIP-98).

A read_committed consumer receives the transactions to leave out. The file exists only if something
was aborted, and holds nothing that the log's own markers do not.
"""

from collections.abc import Callable
from struct import Struct

from attrs import define, field, frozen

from refimpl.errors import CorruptFile, UnsupportedFormat
from refimpl.storage.disk.interface import Disk, read_file

_ENTRY = Struct(">hqqqq")
_VERSION = 0


@frozen(order=True)
class AbortedTxn:
    """An aborted transaction: its producer's records between these offsets do not count."""

    first_offset: int
    last_offset: int
    producer_id: int
    last_stable_offset: int


@define(eq=False)
class TxnIndex:
    """The transaction index of one segment."""

    disk: Disk
    path: str
    size: int = 0
    _dirty: bool = field(default=False, init=False)
    _held: bool = field(default=False, init=False)
    #: Reads the log's own markers, by headers or with every CRC checked; without it the file is :
    # trusted.
    replay: Callable[[bool], list[AbortedTxn]] | None = None
    _entries: list[AbortedTxn] | None = field(default=None, init=False)

    def append(self, txn: AbortedTxn) -> None:
        """Note an aborted transaction, in the order of the markers."""
        entries = self.entries()
        if entries and entries[-1].last_offset >= txn.last_offset:
            return  # the log was read just now, and has the marker already
        entries.append(txn)
        self._dirty = True
        if not self._held:
            self.disk.append(self.path, _pack(txn))
            self.size += _ENTRY.size

    def entries(self) -> list[AbortedTxn]:
        """All aborted transactions that end here, compared with the log when first used.

        The file has no checksum, and a missing one looks like a segment without aborts. If it
        differs from the markers, it is made anew.
        """
        if self._entries is None:
            data = read_file(self.disk, self.path) if self.size else b""
            if self.replay is None:
                self._entries = self._unpack(data)
            else:
                self._entries = self.replay(False)
                if data != b"".join(map(_pack, self._entries)):
                    self._entries = self.replay(True)
                    self._replace()
        return self._entries

    def overlapping(self, first_offset: int, end_offset: int) -> tuple[list[AbortedTxn], bool]:
        """The transactions that matter to a reader of this range, and True if later segments have
        no more.

        A later marker cannot be about earlier offsets than its last stable offset.
        """
        found: list[AbortedTxn] = []
        for txn in self.entries():
            if txn.last_offset >= first_offset and txn.first_offset < end_offset:
                found.append(txn)
            if txn.last_stable_offset >= end_offset:
                return found, True
        return found, False

    def truncate(self, offset: int) -> None:
        """Remove the markers from this offset on; the rest is compared with the log later."""
        if self._entries is not None:
            self._entries = [txn for txn in self._entries if txn.last_offset < offset]
        if self.size and not self._held:
            data = read_file(self.disk, self.path)
            whole = data[: len(data) // _ENTRY.size * _ENTRY.size]
            kept = sum(last < offset for *_, last, _ in _ENTRY.iter_unpack(whole)) * _ENTRY.size
            if kept < self.size:
                self.disk.truncate(self.path, kept)
                self.size, self._dirty = kept, True

    def take(self, entries: list[AbortedTxn]) -> None:
        """Use these entries, which the file has as well."""
        self._entries = entries

    def reset(self) -> None:
        """Begin anew in memory; the file is not changed until `flush` replaces it."""
        self._entries, self._held, self._dirty = [], True, bool(self.size)

    def flush(self) -> None:
        """Flush all entries, so that they survive a crash."""
        if self._held and self._dirty:
            self._replace()
        self._held = False
        if self._dirty:
            self.disk.flush(self.path)
            self._dirty = False

    def _replace(self) -> None:
        if self.size:
            self.disk.truncate(self.path, 0)
        data = b"".join(map(_pack, self.entries()))
        self.disk.append(self.path, data)
        self.size, self._dirty = len(data), True

    def _unpack(self, data: bytes) -> list[AbortedTxn]:
        whole = len(data) // _ENTRY.size * _ENTRY.size
        if whole < len(data):
            raise CorruptFile(self.path, whole, f"a part of an entry of {_ENTRY.size} bytes")
        entries: list[AbortedTxn] = []
        for version, producer_id, first, last, stable in _ENTRY.iter_unpack(data):
            if version != _VERSION:
                at = len(entries) * _ENTRY.size
                raise UnsupportedFormat(self.path, at, f"an entry of version {version}, not 0")
            entries.append(AbortedTxn(first, last, producer_id, stable))
        return entries


def _pack(txn: AbortedTxn) -> bytes:
    offsets = txn.first_offset, txn.last_offset, txn.last_stable_offset
    return _ENTRY.pack(_VERSION, txn.producer_id, *offsets)
