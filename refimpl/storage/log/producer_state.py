"""A partition's memory of its producers: epochs, sequences, open transactions.

KIP-98 (idempotence and transactions), KIP-360 (a producer that was forgotten may start anywhere).
The last five batches of each producer are kept, because so many may be in flight: a repeated one is
answered with the offsets that it got the first time.
"""

from collections import deque

from attrs import define, field, frozen

from refimpl.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from refimpl.machines.replica_log import Guard, Origin
from refimpl.storage.format.batch import NO_EPOCH, NO_SEQUENCE, NO_TIMESTAMP, BatchHeader
from refimpl.storage.format.control import EndTxnMarker
from refimpl.storage.format.txn_index import AbortedTxn

_REMEMBERED_BATCHES = 5
_LARGEST_SEQUENCE, _LARGEST_EPOCH = 2**31 - 1, 2**15 - 1
#: transaction.version: since 2, markers carry the next epoch (KIP-890).
_EPOCH_PER_TRANSACTION = 2


@frozen
class SeenBatch:
    """A batch of a producer that is in the log."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


@define
class Producer:
    """The latest batches and the open transaction of one producer in this partition.

    `last_timestamp` is of its records. `heard_ms` is when this broker's clock saw the last of them,
    None since a load.
    """

    epoch: int = NO_EPOCH
    coordinator_epoch: int = -1
    last_timestamp: int = NO_TIMESTAMP
    txn_first_offset: int | None = None
    batches: deque[SeenBatch] = field(factory=lambda: deque[SeenBatch]((), _REMEMBERED_BATCHES))
    heard_ms: int | None = None

    @property
    def last_sequence(self) -> int:
        """The sequence of its last record, if one is known."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def duplicate_of(self, header: BatchHeader) -> SeenBatch | None:
        """The batch that this one repeats."""
        if header.producer_epoch != self.epoch:
            return None
        wanted = header.base_sequence, header.last_sequence
        return next(
            (b for b in self.batches if (b.first_sequence, b.last_sequence) == wanted), None
        )

    def copy(self) -> "Producer":
        """A copy that may be changed."""
        batches = deque(self.batches, _REMEMBERED_BATCHES)
        return Producer(
            *(self.epoch, self.coordinator_epoch, self.last_timestamp, self.txn_first_offset),
            batches,
        )

    def enter(self, epoch: int) -> None:
        """Begin a new epoch, without the batches of the old one."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()


@frozen
class CompletedTxn:
    """A transaction that its marker has ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


@define
class Verification:
    """A producer whose first write of a transaction waits for the coordinator's word (KIP-890).

    The lowest of the sequences that wait goes first (KAFKA-14920). With `next_epochs` each of the
    producer's transactions has an epoch of its own (transaction.version 2).
    """

    guard: Guard
    epoch: int
    lowest_sequence: int
    next_epochs: bool
    since_ms: int


@define
class Staged:
    """The changes of an append until it is written: a refused append has changed nothing."""

    producers: dict[int, Producer] = field(factory=dict[int, Producer])
    started: dict[int, int] = field(factory=dict[int, int])
    completed: list[CompletedTxn] = field(factory=list[CompletedTxn])
    #: The producers to which a marker was written
    ended: tuple[int, ...] = ()


@define
class ProducerState:
    """All producers of a partition, up to `end_offset`."""

    producers: dict[int, Producer] = field(factory=dict[int, Producer])
    end_offset: int = 0
    ongoing: dict[int, int] = field(factory=dict[int, int], init=False)
    unreplicated: dict[int, int] = field(factory=dict[int, int], init=False)
    #: By producer id; they are not in the log, and end with this replica's leadership
    verifications: dict[int, Verification] = field(factory=dict[int, Verification], init=False)

    def __attrs_post_init__(self) -> None:
        """Find the transactions that are still open."""
        open_txns = (
            (producer.txn_first_offset, producer_id)
            for producer_id, producer in self.producers.items()
            if producer.txn_first_offset is not None
        )
        self.ongoing = dict(sorted(open_txns))

    def duplicate_of(self, header: BatchHeader) -> SeenBatch | None:
        """The batch in the log that this one repeats."""
        producer = self.producers.get(header.producer_id)
        return producer.duplicate_of(header) if producer else None

    # Verification

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """True if this producer has a transaction open here, in this epoch."""
        producer = self.producers.get(producer_id)
        return (
            producer is not None
            and producer.epoch == epoch
            and producer.txn_first_offset is not None
        )

    def guard_of(
        self, producer_id: int, epoch: int, sequence: int, now_ms: int, *, next_epochs: bool
    ) -> Guard | None:
        """The guard for a write that may begin a transaction; None if it goes on with one.

        All writes that wait for one verification share its guard. A write or a marker in between
        makes it worthless, so a late answer of the coordinator opens no transaction (KAFKA-14884).
        """
        if self.has_open_transaction(producer_id, epoch):
            return None
        waiting = self.verifications.get(producer_id)
        if waiting is None:
            waiting = Verification(Guard(), epoch, sequence, next_epochs, now_ms)
            self.verifications[producer_id] = waiting
        elif epoch > waiting.epoch:
            waiting.epoch, waiting.lowest_sequence = epoch, sequence
            waiting.next_epochs = next_epochs
        elif epoch == waiting.epoch:
            waiting.lowest_sequence = min(waiting.lowest_sequence, sequence)
        return waiting.guard

    # Append

    def stage(
        self,
        staged: Staged,
        header: BatchHeader,
        first_offset: int,
        marker: EndTxnMarker | None,
        origin: Origin,
        transaction_version: int = 0,
        guard: Guard | None = None,
    ) -> None:
        """Check one batch of a producer and note its changes."""
        producer = staged.producers.get(header.producer_id)
        if producer is None:
            known = self.producers.get(header.producer_id)
            producer = Producer() if known is None else known.copy()
        begins = header.is_transactional and producer.txn_first_offset is None
        if origin is not Origin.REPLICATION:
            _check(producer, header, marker, origin, transaction_version)
            if begins and marker is None:
                self._check_verified(producer, header, guard)
        staged.producers[header.producer_id] = producer
        if marker is not None:
            self._end(staged, producer, header, first_offset, marker)
            staged.ended = (*staged.ended, header.producer_id)
        elif not header.is_control:
            if begins:
                producer.txn_first_offset = first_offset
                staged.started[first_offset] = header.producer_id
            _take(producer, header, first_offset)

    def _check_verified(self, producer: Producer, header: BatchHeader, guard: Guard | None) -> None:
        """Refuse the first write of a transaction of which the coordinator does not know.

        In an epoch of its own a transaction begins at sequence 0, even if the producer is not known
        here.
        """
        who, sequence = f"producer {header.producer_id}", header.base_sequence
        waiting = self.verifications.get(header.producer_id)
        if waiting is None or waiting.guard is not guard:
            raise InvalidTxnState(f"{who} has no transaction that was verified here")
        if sequence > waiting.lowest_sequence:
            raise OutOfOrderSequence(
                f"{who} has sequence {waiting.lowest_sequence} waiting before {sequence}"
            )
        if producer.epoch == NO_EPOCH and waiting.next_epochs and sequence > 0:
            raise OutOfOrderSequence(f"{who} begins its epoch with sequence 0, not {sequence}")

    def commit(
        self, staged: Staged, end_offset: int, now_ms: int | None = None
    ) -> list[AbortedTxn]:
        """Apply the changes of written batches; return the transactions for the transaction
        index.

        Without a time the batches were loaded, not heard now.
        """
        aborted: list[AbortedTxn] = []
        for producer in staged.producers.values():
            producer.heard_ms = now_ms
        if self.verifications:
            for producer_id, producer in staged.producers.items():
                self._clear_verification(producer_id, producer, staged)
        self.producers.update(staged.producers)
        self.ongoing.update(staged.started)
        for txn in staged.completed:
            del self.ongoing[txn.first_offset]
            self.unreplicated[txn.first_offset] = txn.last_offset
            if txn.aborted:
                stable = min((*self.ongoing, txn.last_offset + 1))
                aborted.append(
                    AbortedTxn(txn.first_offset, txn.last_offset, txn.producer_id, stable)
                )
        self.end_offset = end_offset
        return aborted

    def _clear_verification(self, producer_id: int, producer: Producer, staged: Staged) -> None:
        """Make a guard worthless: its transaction is open now, or over.

        The marker of the transaction before has the epoch of the one that waits, if each has its
        own. That guard stays (KAFKA-18575).
        """
        waiting = self.verifications.get(producer_id)
        if waiting is None:
            return
        own = waiting.next_epochs and waiting.epoch == producer.epoch
        if producer_id not in staged.ended or not own:
            del self.verifications[producer_id]

    def first_unstable_offset(self) -> int | None:
        """The first offset of the oldest transaction that is open, or whose end is not
        replicated.
        """
        first = next(iter(self.ongoing), None)  # in the order of their first offsets
        if self.unreplicated:
            decided = min(self.unreplicated)
            return decided if first is None else min(first, decided)
        return first

    def advance_high_watermark(self, offset: int) -> None:
        """Take a new high watermark: transactions that ended below it are decided for good."""
        if self.unreplicated:
            self.unreplicated = {f: last for f, last in self.unreplicated.items() if last >= offset}

    def expire(self, now_ms: int, after_ms: int) -> None:
        """Remove producers that were silent for `producer.id.expiration.ms` and have no open
        transaction.

        Only the broker's clock counts. By the timestamps of old records, which Kafka takes, a
        producer would be forgotten at once, and a batch that it repeats written twice. After a load
        the time begins anew.
        """
        for producer_id, producer in list(self.producers.items()):
            if producer.heard_ms is None:
                producer.heard_ms = now_ms
            elif now_ms - producer.heard_ms >= after_ms and producer.txn_first_offset is None:
                del self.producers[producer_id]
        for producer_id, waiting in list(self.verifications.items()):
            if now_ms - waiting.since_ms >= after_ms:
                del self.verifications[producer_id]

    def _end(
        self,
        staged: Staged,
        producer: Producer,
        header: BatchHeader,
        offset: int,
        marker: EndTxnMarker,
    ) -> None:
        # A marker without records before it decides nothing.
        if producer.txn_first_offset is not None:
            staged.completed.append(
                CompletedTxn(
                    header.producer_id, producer.txn_first_offset, offset, not marker.committed
                )
            )
        producer.enter(header.producer_epoch)
        producer.txn_first_offset = None
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.last_timestamp = header.max_timestamp


def _take(producer: Producer, header: BatchHeader, first_offset: int) -> None:
    producer.enter(header.producer_epoch)
    last_offset = first_offset + header.last_offset_delta
    seen = SeenBatch(
        header.base_sequence, header.last_sequence, first_offset, last_offset, header.max_timestamp
    )
    producer.batches.append(seen)
    producer.last_timestamp = header.max_timestamp


def _check(
    producer: Producer,
    header: BatchHeader,
    marker: EndTxnMarker | None,
    origin: Origin,
    transaction_version: int,
) -> None:
    who = f"producer {header.producer_id}"
    if header.producer_epoch < producer.epoch:
        raise InvalidProducerEpoch(
            f"{who} is at epoch {producer.epoch}, not {header.producer_epoch}"
        )
    if marker is not None:
        if transaction_version >= _EPOCH_PER_TRANSACTION:
            _check_new_epoch(producer, header)
        if marker.coordinator_epoch < producer.coordinator_epoch:
            raise TransactionCoordinatorFenced(
                f"{who} was served by coordinator epoch {producer.coordinator_epoch}, "
                f"not {marker.coordinator_epoch}"
            )
        return
    if producer.txn_first_offset is not None:
        since = f"{who} has a transaction open since {producer.txn_first_offset}"
        if not header.is_transactional:
            raise InvalidTxnState(since)
        if header.producer_epoch > producer.epoch:
            # Kafka lets it join, so one end would decide two transactions.
            raise InvalidTxnState(f"{since}, in epoch {producer.epoch}")
    if origin is Origin.CLIENT:
        _check_sequence(producer, header)


def _check_new_epoch(producer: Producer, header: BatchHeader) -> None:
    """Refuse a late marker of the current epoch: each transaction has its own epoch (KIP-1228).

    It is accepted if it is repeated after its transaction has ended (KAFKA-19999), or if no epoch
    is left.
    """
    late = header.producer_epoch == producer.epoch and producer.txn_first_offset is not None
    if late and producer.epoch != _LARGEST_EPOCH:
        raise InvalidProducerEpoch(
            f"producer {header.producer_id} has a transaction open in epoch {producer.epoch}, "
            f"which a marker of the same epoch cannot end"
        )


def _check_sequence(producer: Producer, header: BatchHeader) -> None:
    if producer.epoch == NO_EPOCH:
        return  # nothing is remembered, so nothing contradicts (KIP-360)
    new_epoch = header.producer_epoch != producer.epoch
    last = NO_SEQUENCE if new_epoch else producer.last_sequence
    expected = 0 if last == _LARGEST_SEQUENCE else last + 1
    if header.base_sequence != expected:
        raise OutOfOrderSequence(
            f"producer {header.producer_id} in epoch {header.producer_epoch} must go on with "
            f"sequence {expected}, not {header.base_sequence}"
        )
