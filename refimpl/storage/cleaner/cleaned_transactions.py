"""Transactions during compaction: aborted records go, and their marker goes after them.

KIP-98, KIP-534. A marker must stay as long as a record of its transaction is there. Otherwise a
read_committed reader would take the aborted records for open, or leave out later ones.
"""

from collections.abc import Callable, Iterable
from heapq import heappop, heappush

from attrs import define, field

from refimpl.storage.disk.interface import Buffer
from refimpl.storage.format.batch import BatchHeader
from refimpl.storage.format.control import ControlType, control_type
from refimpl.storage.format.legacy import records_at
from refimpl.storage.format.txn_index import AbortedTxn


def _forget(txn: AbortedTxn) -> None:
    """Discard an aborted transaction, if no index is written."""


@define
class CleanedTransactions:
    """The transactions that are open at the last batch that was read."""

    #: Called with each aborted transaction whose records and marker are still there.
    keep: Callable[[AbortedTxn], None] = _forget
    _expected: list[AbortedTxn] = field(factory=list[AbortedTxn], init=False)
    _aborted: dict[int, AbortedTxn] = field(factory=dict[int, AbortedTxn], init=False)
    _seen: set[int] = field(factory=set[int], init=False)

    def expect(self, aborted: Iterable[AbortedTxn]) -> None:
        """Add aborted transactions from the index of the next part of the log."""
        for txn in aborted:
            heappush(self._expected, txn)

    def discards(self, header: BatchHeader, data: Buffer) -> bool:
        """True if the batch may go: its records were aborted, or its marker marks nothing any
        more.
        """
        while self._expected and self._expected[0].first_offset <= header.last_offset:
            txn = heappop(self._expected)
            self._aborted.setdefault(txn.producer_id, txn)
        if header.is_control:
            return self._ends(header, data)
        if not header.is_transactional:
            return False
        self._seen.add(header.producer_id)
        return header.producer_id in self._aborted

    def _ends(self, header: BatchHeader, data: Buffer) -> bool:
        record = next(records_at(data, 0, header), None)
        if record is None:
            return True
        kind = control_type(record.key)
        if kind not in (ControlType.ABORT, ControlType.COMMIT):
            return False
        has_records = header.producer_id in self._seen
        self._seen.discard(header.producer_id)
        aborted = self._aborted.pop(header.producer_id, None)
        if kind == ControlType.ABORT and aborted is not None and has_records:
            self.keep(aborted)
        return not has_records
