"""One producer in a partition, and the batches and markers that it has there.

Spec: `producers`, `guard` in ProducerState. Offsets, sequences and epochs are Kafka's: all begin at
0, and -1 is none.
"""

from collections import deque
from typing import NamedTuple, TypeAlias

from attrs import define, field, frozen

from refimpl.machines.replica_log import Guard

WINDOW = 5
"""The batches of a producer that are remembered: as many may be in flight."""
NONE = -1
LARGEST_SEQUENCE, LARGEST_EPOCH = 2**31 - 1, 2**15 - 1
EPOCH_PER_TRANSACTION = 2
"""transaction.version: since 2 each transaction has its own epoch."""


class Batch(NamedTuple):
    """A producer's batch, as far as it decides anything here."""

    producer_id: int
    epoch: int
    first_sequence: int
    """None (-1) in a coordinator's batch: sequences are the clients' own."""
    last_sequence: int
    transactional: bool = False
    version: int = 0
    """The transaction.version of its sender, which counts when it is verified."""
    records: int = 1
    timestamp_ms: int = NONE
    """Of its newest record."""


class Marker(NamedTuple):
    """The end of a transaction, sent by its coordinator."""

    producer_id: int
    epoch: int
    coordinator_epoch: int
    version: int = 0
    committed: bool = True
    timestamp_ms: int = NONE


Entry: TypeAlias = Batch | Marker


class SeenBatch(NamedTuple):
    """A batch that is in the log."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int = NONE
    timestamp_ms: int = NONE


def sequence_after(sequence: int) -> int:
    """The sequence that follows: 0 follows the largest (KIP-98)."""
    return 0 if sequence == LARGEST_SEQUENCE else sequence + 1


@define
class Producer:
    """The latest batches and the open transaction of one producer."""

    epoch: int = NONE
    coordinator_epoch: int = NONE
    first_offset: int = NONE
    """Of the open transaction."""
    heard_ms: int | None = None
    """When this broker took its last entry, by the broker's clock. A log without a clock leaves it
    out; then the time begins with the next look for producers that expire.
    """
    timestamp_ms: int = NONE
    """Of its last entry."""
    seen: deque[SeenBatch] = field(factory=deque[SeenBatch])

    @property
    def is_open(self) -> bool:
        """True while it has a transaction open here."""
        return self.first_offset != NONE

    @property
    def last_sequence(self) -> int:
        """The sequence of its last record, -1 if none is known."""
        return self.seen[-1].last_sequence if self.seen else NONE

    def recall(self, epoch: int, batch: SeenBatch) -> bool:
        """Remember a batch again, before those that are remembered; False if it may not be.

        It must be right before them: of this epoch, and without a sequence in between.
        """
        last = batch.last_sequence
        follows = epoch == self.epoch and NONE not in (last, self.last_sequence)
        if not follows or self.seen[0].first_sequence != sequence_after(last):
            return False
        self.seen.appendleft(batch)
        return True

    def enter(self, epoch: int) -> None:
        """Go on in this epoch; a new one begins without the batches of the old one."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.seen.clear()


@frozen
class Verification:
    """The guard of the writes that wait for the coordinator (KAFKA-14884)."""

    guard: Guard
    epoch: int
    lowest: int
    """The lowest sequence that waits: no write passes it (KAFKA-14920)."""
    version: int
    """The transaction.version of the writes."""
    since_ms: int
