"""A partition's memory of its producers, and which of their batches and markers it takes.

The logs in files and in memory call it for each batch: `admit` before a leader writes it, `take`
once it is in the log. Spec: ProducerState. KIP-98 (idempotence, transactions), KIP-360 (a producer
that was forgotten goes on anywhere), KIP-890 (the first write of a transaction is verified, each
transaction has its own epoch).
"""

from collections.abc import Iterable

from attrs import define, field

from refimpl.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from refimpl.machines.producer import (
    EPOCH_PER_TRANSACTION,
    LARGEST_EPOCH,
    NONE,
    WINDOW,
    Batch,
    Entry,
    Marker,
    Producer,
    SeenBatch,
    Verification,
    sequence_after,
)
from refimpl.machines.replica_log import Guard


@define
class ProducerState:
    """All producers of a partition."""

    producers: dict[int, Producer] = field(factory=dict[int, Producer])
    window: int = WINDOW
    opened: dict[int, int] = field(factory=dict[int, int], init=False)
    """Open transactions: first offset, in this order, and producer."""
    unreplicated: dict[int, int] = field(factory=dict[int, int], init=False)
    """Transactions whose marker is not replicated: first offset, and that of the marker."""
    verifications: dict[int, Verification] = field(factory=dict[int, Verification], init=False)
    """By producer. They are not in the log: a state that is loaded has none."""

    def __attrs_post_init__(self) -> None:
        """Find the transactions that are open."""
        opened = ((one.first_offset, id) for id, one in self.producers.items() if one.is_open)
        self.opened = dict(sorted(opened))

    # Before the append

    def duplicate_of(self, batch: Batch) -> SeenBatch | None:
        """The batch in the log that this one repeats, if it is still remembered."""
        producer = self.producers.get(batch.producer_id)
        if producer is None or producer.epoch != batch.epoch:
            return None
        wanted = batch.first_sequence, batch.last_sequence
        return next((one for one in producer.seen if one[:2] == wanted), None)

    def must_verify(self, batch: Batch) -> bool:
        """True if the batch begins a transaction here, which its coordinator has to confirm."""
        if not batch.transactional:
            return False
        producer = self.producers.get(batch.producer_id)
        return producer is None or not producer.is_open or producer.epoch != batch.epoch

    def start_verification(self, batch: Batch, now_ms: int) -> Guard | None:
        """The guard with which this batch may be appended once the coordinator has confirmed it.

        It is None for a batch that begins no transaction here. All writes of a producer that wait
        have one guard. A write or a marker in between makes it worthless, so a late answer of the
        coordinator opens no transaction.
        """
        if not self.must_verify(batch):
            return None
        epoch, sequence = batch.epoch, batch.first_sequence
        known = self.verifications.get(batch.producer_id)
        if known is not None and (epoch, -sequence) <= (known.epoch, -known.lowest):
            return known.guard
        guard, since_ms = (known.guard, known.since_ms) if known else (Guard(), now_ms)
        begun = Verification(guard, epoch, sequence, batch.version, since_ms)
        self.verifications[batch.producer_id] = begun
        return guard

    def is_guarded(self, producer_id: int, guard: Guard | None) -> bool:
        """True while the guard is there that was made for a write."""
        verification = self.verifications.get(producer_id)
        return verification is not None and verification.guard is guard

    def admit(self, entry: Entry, guard: Guard | None = None) -> SeenBatch | None:
        """The batch in the log that a client's batch repeats; all else may be appended now.

        Raises the refusal of an entry that may not.
        """
        if isinstance(entry, Batch) and entry.first_sequence != NONE:
            seen = self.duplicate_of(entry)
            if seen is not None:
                return seen
        self.check(entry, guard)
        return None

    def check(self, entry: Entry, guard: Guard | None = None) -> None:
        """Refuse an entry that may not be appended now; a duplicate is asked for before.

        The first write of a transaction needs the guard of its verification.
        """
        if isinstance(entry, Marker):
            self._check_marker(entry)
        else:
            self._check_batch(entry, guard)

    def _check_batch(self, batch: Batch, guard: Guard | None) -> None:
        producer = self.producers.get(batch.producer_id) or Producer()
        if batch.epoch < producer.epoch:
            raise InvalidProducerEpoch(
                f"producer {batch.producer_id} is at epoch {producer.epoch}, not {batch.epoch}"
            )
        if self.must_verify(batch) and not self.is_guarded(batch.producer_id, guard):
            raise InvalidTxnState(
                f"producer {batch.producer_id} has no transaction that was verified here in epoch "
                f"{batch.epoch}, or that verification no longer counts"
            )
        if batch.first_sequence != NONE:
            self._check_sequence(producer, batch)
        if producer.is_open and (producer.epoch != batch.epoch or not batch.transactional):
            raise InvalidTxnState(
                f"producer {batch.producer_id} has a transaction open in epoch {producer.epoch} "
                f"since offset {producer.first_offset}"
            )

    def _check_sequence(self, producer: Producer, batch: Batch) -> None:
        waiting = self.verifications.get(batch.producer_id)
        if waiting is not None and batch.first_sequence > waiting.lowest:
            raise OutOfOrderSequence(
                f"producer {batch.producer_id} has sequence {waiting.lowest} waiting for its "
                f"coordinator, before {batch.first_sequence}"
            )
        expected = _expected(producer, batch, waiting)
        if expected not in (NONE, batch.first_sequence):
            raise OutOfOrderSequence(
                f"producer {batch.producer_id} in epoch {batch.epoch} must go on with sequence "
                f"{expected}, not {batch.first_sequence}"
            )

    def _check_marker(self, marker: Marker) -> None:
        """Refuse a marker of an older coordinator, or of another transaction than the open one."""
        producer = self.producers.get(marker.producer_id)
        if producer is None:
            return
        if marker.epoch < producer.epoch:
            raise InvalidProducerEpoch(
                f"producer {marker.producer_id} is at epoch {producer.epoch}, not {marker.epoch}"
            )
        if producer.is_open and marker.version >= EPOCH_PER_TRANSACTION:
            _check_exact(producer, marker)
        if marker.coordinator_epoch < producer.coordinator_epoch:
            raise TransactionCoordinatorFenced(
                f"producer {marker.producer_id} was served by coordinator epoch "
                f"{producer.coordinator_epoch}, not {marker.coordinator_epoch}"
            )

    # In the log

    def take(self, entry: Entry, offset: int, now_ms: int | None = None) -> int:
        """Remember an entry of the log, without any question.

        Return the first offset of the transaction that a marker ends, -1 for none.
        """
        producer = self.producers.get(entry.producer_id)
        if producer is None:
            producer = self.producers[entry.producer_id] = Producer()
        producer.enter(entry.epoch)
        producer.heard_ms, producer.timestamp_ms = now_ms, entry.timestamp_ms
        if isinstance(entry, Marker):
            return self._end(producer, entry, offset)
        self._add(producer, entry, offset)
        return NONE

    def _add(self, producer: Producer, batch: Batch, offset: int) -> None:
        """Remember a batch; its guard goes, unless a write of a later epoch waits for it."""
        _, _, first, last, transactional, _, records, timestamp_ms = batch
        producer.seen.append(SeenBatch(first, last, offset, offset + records - 1, timestamp_ms))
        if len(producer.seen) > self.window:
            producer.seen.popleft()
        if transactional and not producer.is_open:
            producer.first_offset = offset
            self.opened[offset] = batch.producer_id
        waiting = self.verifications.get(batch.producer_id) if self.verifications else None
        if waiting is not None and waiting.epoch <= batch.epoch:
            del self.verifications[batch.producer_id]

    def _end(self, producer: Producer, marker: Marker, offset: int) -> int:
        """Remember a marker.

        The guard goes, unless the epoch tells that the write that waits is of a later transaction
        (KAFKA-18575).
        """
        producer.coordinator_epoch = marker.coordinator_epoch
        first, producer.first_offset = producer.first_offset, NONE
        if first != NONE:
            del self.opened[first]
            self.unreplicated[first] = offset
        waiting = self.verifications.get(marker.producer_id)
        if waiting is not None:
            own_epochs = waiting.version >= EPOCH_PER_TRANSACTION
            if not (own_epochs and waiting.epoch >= marker.epoch):
                del self.verifications[marker.producer_id]
        return first

    # Offsets and time

    def advance_high_watermark(self, offset: int) -> None:
        """Transactions whose marker is below this offset are decided for good."""
        for first, last in [*self.unreplicated.items()]:
            if last < offset:
                del self.unreplicated[first]

    def last_stable(self, high_watermark: int) -> int:
        """The last stable offset: readers of committed records see what is below."""
        if not self.opened and not self.unreplicated:
            return high_watermark
        return min((high_watermark, *self.opened, *self.unreplicated))

    def expire(self, producer_id: int, now_ms: int, after_ms: int) -> bool:
        """Forget a producer that was silent for so long, by the broker's clock (KIP-854).

        One with an open transaction stays: readers wait for its end. By the timestamps of records,
        which Kafka takes, a producer of old records would be forgotten at once, and a batch that it
        repeats written twice.
        """
        producer = self.producers.get(producer_id)
        if producer is None or producer.is_open:
            return False
        if producer.heard_ms is None:
            producer.heard_ms = now_ms
        if now_ms - producer.heard_ms < after_ms:
            return False
        del self.producers[producer_id]
        return True

    def expire_all(self, now_ms: int, after_ms: int) -> None:
        """Forget all producers that were silent for so long, and guards that are as old."""
        for producer_id in list(self.producers):
            self.expire(producer_id, now_ms, after_ms)
        for producer_id, waiting in list(self.verifications.items()):
            if now_ms - waiting.since_ms >= after_ms:
                del self.verifications[producer_id]

    @classmethod
    def replayed(
        cls, entries: Iterable[Entry], high_watermark: int, now_ms: int, window: int
    ) -> "ProducerState":
        """The state of a broker that begins to lead with this log, as if it had heard it now."""
        state = cls(window=window)
        for offset, entry in enumerate(entries):
            state.take(entry, offset, now_ms)
        state.advance_high_watermark(high_watermark)
        return state


def _expected(producer: Producer, batch: Batch, waiting: Verification | None) -> int:
    """The sequence of the next batch, -1 for any.

    Nothing contradicts a producer that is not known (KIP-360). In an epoch of its own a transaction
    begins with sequence 0 all the same.
    """
    if producer.epoch == NONE:
        own_epoch = waiting is not None and waiting.version >= EPOCH_PER_TRANSACTION
        return 0 if own_epoch else NONE
    if producer.epoch != batch.epoch or not producer.seen:
        return 0
    return sequence_after(producer.last_sequence)


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
