"""The transactional ids of one coordinator: a replay of its log, and the markers that are owed."""

from collections.abc import Iterator

from attrs import define, field

from refimpl.coordinator.versioned import Versioned
from refimpl.machines.transaction_coordinator import (
    LAST_EPOCH,
    TransactionMetadata,
    TransactionState,
)
from refimpl.machines.transaction_errors import ConcurrentTransactions
from refimpl.messages.broker import TopicPartition
from refimpl.records.coordinators import CoordinatorRecord
from refimpl.transactions.log_records import metadata_of


@define(eq=False)
class TransactionStore:
    """Transactional ids as written and as committed.

    `owed` are the partitions of each decided transaction that have not answered their marker. A
    decision counts once its record is committed.
    """

    ids: Versioned[str, TransactionMetadata] = field(factory=Versioned[str, TransactionMetadata])
    owed: dict[str, set[TopicPartition]] = field(factory=dict[str, set[TopicPartition]])
    #: The last epoch of each producer id; models have fewer
    last_epoch: int = LAST_EPOCH
    #: The ids whose decision is written, and the offset of its record, -1 if that is committed
    _prepared: dict[str, int] = field(factory=dict[str, int])

    # Change

    def replay(self, record: CoordinatorRecord, offset: int | None) -> None:
        """Apply a record; `offset` is its offset, or None if it is known to be committed."""
        transactional_id: str = record.key.transactional_id
        metadata = None if record.value is None else metadata_of(record.value, self.last_epoch)
        self.ids.put(transactional_id, metadata, offset)
        self.owed.pop(transactional_id, None)
        self._prepared.pop(transactional_id, None)
        if metadata is not None and metadata.prepared:
            self._prepared[transactional_id] = -1 if offset is None else offset

    def decided(self, high_watermark: int) -> list[str]:
        """The ids whose decision is committed now; from here on they owe markers."""
        found = [one for one, offset in self._prepared.items() if offset < high_watermark]
        for transactional_id in found:
            del self._prepared[transactional_id]
            metadata = self.ids.current[transactional_id]
            self.owed[transactional_id] = set(metadata.partitions)
        return found

    # Queries

    def settled(self, transactional_id: str) -> TransactionMetadata | None:
        """An id of which no change is under way; None if it is not known."""
        metadata = self.ids.get(transactional_id)
        if self.ids.is_pending(transactional_id):
            state = TransactionState.DEAD if metadata is None else metadata.state
            raise ConcurrentTransactions(state.shown)
        return metadata

    def idle(self) -> Iterator[tuple[str, TransactionMetadata]]:
        """The ids of which no change is under way."""
        for transactional_id, metadata in self.ids.current.items():
            if not self.ids.is_pending(transactional_id):
                yield transactional_id, metadata
