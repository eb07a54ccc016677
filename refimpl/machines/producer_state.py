"""A partition's memory of its producers, and which of their batches and markers it takes.

Spec: ProducerState. KIP-98 (idempotence, transactions), KIP-360 (a producer that was forgotten goes
on anywhere), KIP-890 (the first write of a transaction is verified, each transaction has its own
epoch). Offsets, sequences and epochs are Kafka's: all begin at 0, and -1 is none.
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from attrs import define, field, frozen

from refimpl.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)

WINDOW = 5
"""The batches of a producer that are remembered: as many may be in flight."""
NONE = -1
LARGEST_SEQUENCE, LARGEST_EPOCH = 2**31 - 1, 2**15 - 1
EPOCH_PER_TRANSACTION = 2
"""transaction.version: since 2 each transaction has its own epoch."""


class Batch(NamedTuple):
    """The part of a producer's batch that decides if it is taken."""

    producer_id: int
    epoch: int
    first_sequence: int
    last_sequence: int
    transactional: bool = False
    version: int = 0
    """The transaction.version of its sender."""


class Marker(NamedTuple):
    """The end of a transaction, sent by its coordinator."""

    producer_id: int
    epoch: int
    coordinator_epoch: int
    version: int = 0


class SeenBatch(NamedTuple):
    """A batch that is in the log."""

    first_sequence: int
    last_sequence: int
    first_offset: int


@define
class Producer:
    """The latest batches and the open transaction of one producer."""

    epoch: int = NONE
    coordinator_epoch: int = NONE
    first_offset: int = NONE
    """Of the open transaction."""
    heard_ms: int = 0
    """When this broker took its last batch or marker, by the broker's clock."""
    seen: deque[SeenBatch] = field(factory=deque[SeenBatch])

    @property
    def is_open(self) -> bool:
        return self.first_offset != NONE

    def enter(self, epoch: int, now_ms: int) -> None:
        """Go on in this epoch; a new one begins without the batches of the old one."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.seen.clear()
        self.heard_ms = now_ms


@frozen
class Verification:
    """The guard of the writes that wait for the coordinator (KAFKA-14884)."""

    number: int
    """No other guard has it."""
    epoch: int
    lowest: int
    """The lowest sequence that waits: no write passes it (KAFKA-14920)."""


@define
class ProducerState:
    """All producers of a partition."""

    window: int = WINDOW
    producers: dict[int, Producer] = field(factory=dict[int, Producer])
    unreplicated: dict[int, int] = field(factory=dict[int, int])
    """Transactions whose marker is not replicated: first offset, and that of the marker."""
    verifications: dict[int, Verification] = field(factory=dict[int, Verification])
    guards: int = 0

    # Batches

    def duplicate_of(self, batch: Batch) -> SeenBatch | None:
        """The batch in the log that this one repeats, if it is still remembered."""
        producer = self.producers.get(batch.producer_id)
        if producer is None or producer.epoch != batch.epoch:
            return None
        wanted = batch.first_sequence, batch.last_sequence
        return next((one for one in producer.seen if one[:2] == wanted), None)

    def must_verify(self, batch: Batch) -> bool:
        """True if the batch begins a transaction here, which its coordinator has to confirm."""
        producer = self.producers.get(batch.producer_id)
        goes_on = producer is not None and producer.is_open and producer.epoch == batch.epoch
        return batch.transactional and not goes_on

    def start_verification(self, batch: Batch) -> int:
        """The guard with which this batch may be appended once the coordinator has confirmed it.

        All writes of a producer that wait have one guard.
        """
        epoch, sequence = batch.epoch, batch.first_sequence
        known = self.verifications.get(batch.producer_id)
        if known is None:
            self.guards += 1
            known = Verification(self.guards, epoch, sequence)
        elif epoch > known.epoch or (epoch == known.epoch and sequence < known.lowest):
            known = Verification(known.number, epoch, sequence)
        self.verifications[batch.producer_id] = known
        return known.number

    def is_guarded(self, producer_id: int, guard: int) -> bool:
        """True while the guard is there that was made for a write."""
        verification = self.verifications.get(producer_id)
        return verification is not None and verification.number == guard

    def check(self, batch: Batch, guard: int = NONE) -> None:
        """Refuse a batch that a client may not append now; a duplicate is asked for before."""
        producer = self.producers.get(batch.producer_id) or Producer()
        if self.must_verify(batch) and not self.is_guarded(batch.producer_id, guard):
            raise InvalidTxnState(
                f"producer {batch.producer_id} has no transaction open in epoch {batch.epoch}, "
                "and the coordinator's word is not there or no longer counts"
            )
        if batch.epoch < producer.epoch:
            raise InvalidProducerEpoch(
                f"producer {batch.producer_id} is at epoch {producer.epoch}, not {batch.epoch}"
            )
        if producer.is_open and (producer.epoch != batch.epoch or not batch.transactional):
            raise InvalidTxnState(
                f"producer {batch.producer_id} has a transaction open in epoch {producer.epoch} "
                f"since offset {producer.first_offset}"
            )
        self._check_sequence(producer, batch)

    def _check_sequence(self, producer: Producer, batch: Batch) -> None:
        verification = self.verifications.get(batch.producer_id)
        if verification is not None and batch.first_sequence > verification.lowest:
            raise OutOfOrderSequence(
                f"producer {batch.producer_id} has a batch that waits, with sequence "
                f"{verification.lowest}, and this one has {batch.first_sequence}"
            )
        expected = self._expected(producer, batch)
        if expected not in (NONE, batch.first_sequence):
            raise OutOfOrderSequence(
                f"producer {batch.producer_id} in epoch {batch.epoch} must go on with sequence "
                f"{expected}, not {batch.first_sequence}"
            )

    def _expected(self, producer: Producer, batch: Batch) -> int:
        """The sequence of the next batch, -1 for any."""
        if producer.epoch == NONE:
            return 0 if batch.version >= EPOCH_PER_TRANSACTION else NONE
        if producer.epoch != batch.epoch or not producer.seen:
            return 0
        last = producer.seen[-1].last_sequence
        return 0 if last == LARGEST_SEQUENCE else last + 1

    def append(self, batch: Batch, offset: int, now_ms: int, guard: int = NONE) -> None:
        """Take a client's batch at this offset.

        Its guard goes, unless a write of a later epoch waits for it.
        """
        self.check(batch, guard)
        self.replay(batch, offset, now_ms)
        waiting = self.verifications.get(batch.producer_id)
        if waiting is not None and waiting.epoch <= batch.epoch:
            del self.verifications[batch.producer_id]

    def replay(self, batch: Batch, offset: int, now_ms: int) -> None:
        """Remember a batch that the log has, without any question: a follower's, or a reload's."""
        producer = self.producers.setdefault(batch.producer_id, Producer())
        producer.enter(batch.epoch, now_ms)
        producer.seen.append(SeenBatch(batch.first_sequence, batch.last_sequence, offset))
        if len(producer.seen) > self.window:
            producer.seen.popleft()
        if batch.transactional and not producer.is_open:
            producer.first_offset = offset

    # Markers

    def check_marker(self, marker: Marker) -> None:
        """Refuse a marker of an older coordinator, or of another transaction than the open one."""
        producer = self.producers.get(marker.producer_id)
        if producer is None:
            return
        if marker.coordinator_epoch < producer.coordinator_epoch:
            raise TransactionCoordinatorFenced(
                f"producer {marker.producer_id} was served by coordinator epoch "
                f"{producer.coordinator_epoch}, not {marker.coordinator_epoch}"
            )
        if marker.epoch < producer.epoch:
            raise InvalidProducerEpoch(
                f"producer {marker.producer_id} is at epoch {producer.epoch}, not {marker.epoch}"
            )
        if producer.is_open and marker.version >= EPOCH_PER_TRANSACTION:
            _check_exact(producer, marker)

    def end(self, marker: Marker, offset: int, now_ms: int) -> int:
        """Take a marker at this offset; return the first offset of the transaction, -1 for none.

        The guard goes, unless the epoch tells that the write that waits is of a later transaction
        (KAFKA-18575).
        """
        self.check_marker(marker)
        first = self.replay_marker(marker, offset, now_ms)
        waiting = self.verifications.get(marker.producer_id)
        own_epochs = marker.version >= EPOCH_PER_TRANSACTION
        if waiting is not None and not (own_epochs and waiting.epoch >= marker.epoch):
            del self.verifications[marker.producer_id]
        return first

    def replay_marker(self, marker: Marker, offset: int, now_ms: int) -> int:
        """Remember a marker that the log has, without any question."""
        producer = self.producers.setdefault(marker.producer_id, Producer())
        producer.enter(marker.epoch, now_ms)
        producer.coordinator_epoch = marker.coordinator_epoch
        first, producer.first_offset = producer.first_offset, NONE
        if first != NONE:
            self.unreplicated[first] = offset
        return first

    # Offsets and time

    def advance_high_watermark(self, offset: int) -> None:
        """Transactions whose marker is below this offset are decided for good."""
        for first, last in [*self.unreplicated.items()]:
            if last < offset:
                del self.unreplicated[first]

    def last_stable(self, high_watermark: int) -> int:
        """The last stable offset: readers of committed records see what is below."""
        opened = [one.first_offset for one in self.producers.values() if one.is_open]
        return min((high_watermark, *opened, *self.unreplicated))

    def expire(self, producer_id: int, now_ms: int, after_ms: int) -> bool:
        """Forget a producer that was silent for so long, by the broker's clock (KIP-854).

        One with an open transaction stays: readers wait for its end.
        """
        producer = self.producers.get(producer_id)
        if producer is None or producer.is_open or now_ms - producer.heard_ms < after_ms:
            return False
        del self.producers[producer_id]
        return True

    @classmethod
    def replayed(
        cls, entries: Iterable[Batch | Marker], high_watermark: int, now_ms: int, window: int
    ) -> "ProducerState":
        """The state of a broker that begins to lead with this log, as if it had heard it now."""
        state = cls(window)
        for offset, entry in enumerate(entries):
            if isinstance(entry, Marker):
                state.replay_marker(entry, offset, now_ms)
            else:
                state.replay(entry, offset, now_ms)
        state.advance_high_watermark(high_watermark)
        return state


def _check_exact(producer: Producer, marker: Marker) -> None:
    """Each transaction has its own epoch, and its marker bears the next one (KIP-1228).

    A marker of the current epoch is late, and one that is further ahead ends another transaction.
    The last epoch has no next one.
    """
    wanted = min(producer.epoch + 1, LARGEST_EPOCH)
    if marker.epoch != wanted:
        raise InvalidProducerEpoch(
            f"producer {marker.producer_id} has a transaction open in epoch {producer.epoch}, "
            f"which a marker of epoch {marker.epoch} cannot end: that of its end is {wanted}"
        )
