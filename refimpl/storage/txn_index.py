"""`.txnindex`: the aborted transactions that end in a segment (KIP-98).

A consumer that reads committed records only is told which transactions to leave out. The file is
there only where something was aborted.
"""

from struct import Struct

from attrs import define, field, frozen

from refimpl.storage.disk import Disk, read_file
from refimpl.storage.errors import CorruptFile, UnsupportedFormat

_ENTRY = Struct(">hqqqq")
_VERSION = 0


@frozen(order=True)
class AbortedTxn:
    """What a producer wrote between these offsets never happened."""

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
    _entries: list[AbortedTxn] | None = field(default=None, init=False)

    def append(self, txn: AbortedTxn) -> None:
        """Note an aborted transaction, in the order of their markers."""
        self.entries().append(txn)
        self._dirty = True
        if not self._held:
            self.disk.append(self.path, _pack(txn))
            self.size += _ENTRY.size

    def entries(self) -> list[AbortedTxn]:
        """All aborted transactions that end here; read once, when first asked for."""
        if self._entries is None:
            data = read_file(self.disk, self.path) if self.size else b""
            self._entries = [self._unpack(data, at) for at in range(0, len(data), _ENTRY.size)]
        return self._entries

    def overlapping(self, first_offset: int, end_offset: int) -> tuple[list[AbortedTxn], bool]:
        """Those that matter to a reader of this range; and whether later segments know of no more.

        A later marker cannot speak of earlier offsets than its last stable offset.
        """
        found: list[AbortedTxn] = []
        for txn in self.entries():
            if txn.last_offset >= first_offset and txn.first_offset < end_offset:
                found.append(txn)
            if txn.last_stable_offset >= end_offset:
                return found, True
        return found, False

    def truncate(self, offset: int) -> None:
        """Drop the markers from this offset on."""
        kept = [txn for txn in self.entries() if txn.last_offset < offset]
        if len(kept) < len(self.entries()):
            self.size = len(kept) * _ENTRY.size
            self.disk.truncate(self.path, self.size)
            self._entries, self._dirty = kept, True

    def reset(self) -> None:
        """Begin anew in memory; the file stays as it is until `flush` replaces what it holds."""
        self._entries, self._held, self._dirty = [], True, bool(self.size)

    def flush(self) -> None:
        """Make all entries survive a crash."""
        if self._held and self._dirty:
            if self.size:
                self.disk.truncate(self.path, 0)
            data = b"".join(map(_pack, self.entries()))
            self.disk.append(self.path, data)
            self.size = len(data)
        self._held = False
        if self._dirty:
            self.disk.flush(self.path)
            self._dirty = False

    def _unpack(self, data: bytes, position: int) -> AbortedTxn:
        if len(data) - position < _ENTRY.size:
            raise CorruptFile(self.path, position, f"a part of an entry of {_ENTRY.size} bytes")
        version, producer_id, first, last, stable = _ENTRY.unpack_from(data, position)
        if version != _VERSION:
            raise UnsupportedFormat(self.path, position, f"an entry of version {version}, not 0")
        return AbortedTxn(first, last, producer_id, stable)


def _pack(txn: AbortedTxn) -> bytes:
    offsets = txn.first_offset, txn.last_offset, txn.last_stable_offset
    return _ENTRY.pack(_VERSION, txn.producer_id, *offsets)
