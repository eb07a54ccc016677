"""Which batches of idempotent producers are in a log that keeps no bytes (KIP-98, KIP-360).

The rules are the storage's `ProducerState`; a header is made up for each batch. A `PartitionLog`
has the same within itself.
"""

from attrs import define, field

from refimpl.broker.messages import RecordBatch
from refimpl.machines.replica_log import ReplicaLog
from refimpl.storage.batch import MAGIC, BatchHeader
from refimpl.storage.producer_state import Origin, ProducerState, Staged


@define(eq=False)
class Sequences:
    """The producers of one partition, as its log tells."""

    state: ProducerState = field(factory=ProducerState)

    def rebuild(self, log: ReplicaLog) -> None:
        """Read the log from its start."""
        self.state = ProducerState()
        for offset, record in enumerate(log.records):
            batch = record.value
            if isinstance(batch, RecordBatch) and batch.producer_id >= 0:
                self._take(batch, offset, Origin.REPLICATION)

    def offset_of(self, batch: RecordBatch) -> int | None:
        """Where a repeated batch is; None for news.

        Raises OutOfOrderSequence if one is missing before it, InvalidProducerEpoch if a newer
        incarnation of the producer is known.
        """
        header = _header(batch, 0)
        seen = self.state.duplicate_of(header)
        if seen is not None:
            return seen.first_offset
        self.state.stage(Staged(), header, 0, None, Origin.CLIENT)
        return None

    def appended(self, batch: RecordBatch, offset: int) -> None:
        """A batch is in the log."""
        self._take(batch, offset, Origin.REPLICATION)

    def _take(self, batch: RecordBatch, offset: int, origin: Origin) -> None:
        staged = Staged()
        self.state.stage(staged, _header(batch, offset), offset, None, origin)
        self.state.commit(staged, offset + 1)


def _header(batch: RecordBatch, offset: int) -> BatchHeader:
    who = batch.producer_id, batch.producer_epoch, batch.base_sequence
    return BatchHeader(offset, 0, -1, MAGIC, 0, 0, 0, 0, 0, *who)
