"""The state of one transactional id, and the rules by which its coordinator changes it.

Spec: TransactionCoordinator. KIP-98, KIP-360, KIP-588, KIP-890. A step returns the state to write,
and changes nothing: the new state counts once its record is committed. Each step has a guard that
Kafka 4.3 lacks where docs/kafka-diff.md says so.
"""

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, NamedTuple

from attrs import evolve, frozen

from refimpl.machines import transaction_errors as errors

LAST_EPOCH = 32766
"""The last epoch that a producer is given; the one above is that of a last fence or marker."""


class TransactionState(Enum):
    """The states of a transactional id, by Kafka's names; a value is the number in records."""

    EMPTY = 0, "Empty"
    ONGOING = 1, "Ongoing"
    PREPARE_COMMIT = 2, "PrepareCommit"
    PREPARE_ABORT = 3, "PrepareAbort"
    COMPLETE_COMMIT = 4, "CompleteCommit"
    COMPLETE_ABORT = 5, "CompleteAbort"
    DEAD = 6, "Dead"
    PREPARE_EPOCH_FENCE = 7, "PrepareEpochFence"

    def __init__(self, number: int, shown: str) -> None:
        self.number = number
        self.shown = shown


BY_NUMBER = {one.number: one for one in TransactionState}
BY_NAME = {one.shown: one for one in TransactionState}
PREPARED = frozenset((TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT))
IDLE = frozenset(
    (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
)


class ProducerIdentity(NamedTuple):
    """A producer id with one of its epochs."""

    id: int
    epoch: int

    def above(self) -> "ProducerIdentity":
        """The next epoch: that of a marker in version 2, and of a fence."""
        return ProducerIdentity(self.id, self.epoch + 1)


NewId = Callable[[], int]
"""Gives a producer id that no other producer has. Raises a refusal if none is at hand."""


@frozen(kw_only=True)
class TransactionMetadata:
    """A transactional id: its producer and its transaction. Kafka's TransactionMetadata.

    `at` is the current identity, which markers bear too. `next` is that of the producer once the
    transaction is complete. `last` is the one before `at` of the same producer: its answer may have
    been lost, and it may ask again. A fence for a newer instance leaves no such identity.
    """

    state: TransactionState = TransactionState.EMPTY
    at: ProducerIdentity
    next: ProducerIdentity
    last: ProducerIdentity | None = None
    partitions: frozenset[Any] = frozenset()
    timeout_ms: int = 60_000
    updated_ms: int = -1
    started_ms: int = -1
    #: The version of the client that begun or ended the transaction: 0 or 2
    client_version: int = 0
    last_epoch: int = LAST_EPOCH

    @property
    def prepared(self) -> bool:
        """True if the transaction is decided, and its markers are not all written."""
        return self.state in PREPARED

    @property
    def committed(self) -> bool:
        """True if the transaction is, or was, to be committed."""
        return self.state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)

    def _after(self, new_id: NewId) -> ProducerIdentity:
        """The identity that a producer is given next; a new id if the epochs are exhausted."""
        if self.at.epoch < self.last_epoch:
            return self.at.above()
        return ProducerIdentity(new_id(), 0)

    # InitProducerId

    def init_producer_id(
        self, expected: ProducerIdentity | None, new_id: NewId
    ) -> "TransactionMetadata":
        """Give an instance the next epoch, while no transaction is open.

        The one before is kept, because the answer may be lost.
        """
        self._must_be_idle()
        self._must_be_expected(expected)
        at = self._after(new_id)
        return evolve(
            self,
            state=TransactionState.EMPTY,
            at=at,
            next=at,
            last=expected,
            partitions=frozenset(),
        )

    def init_again(self, expected: ProducerIdentity | None) -> ProducerIdentity:
        """The identity that was given for the expected one, to an instance that asks again."""
        self._must_be_idle()
        if expected is None or expected != self.last:
            raise errors.ProducerFenced(-1 if expected is None else expected.epoch, self.at.epoch)
        return self.at

    def init_fences(self, expected: ProducerIdentity | None) -> "TransactionMetadata":
        """Abort the open transaction of an earlier instance, whose epoch ends.

        An instance that names an older epoch is refused here too: it is a zombie, and the open
        transaction is its successor's.
        """
        if self.state is not TransactionState.ONGOING:
            raise errors.ConcurrentTransactions(self.state.shown)
        self._must_be_expected(expected)
        return self._fenced()

    def _fenced(self) -> "TransactionMetadata":
        above = self.at.above()
        return evolve(self, state=TransactionState.PREPARE_ABORT, at=above, next=above, last=None)

    def _must_be_idle(self) -> None:
        if self.state not in IDLE:
            raise errors.ConcurrentTransactions(self.state.shown)

    def _must_be_expected(self, expected: ProducerIdentity | None) -> None:
        if expected is not None and expected != self.at:
            if self.state is TransactionState.ONGOING and expected == self.last:
                raise errors.ConcurrentTransactions(self.state.shown)
            raise errors.ProducerFenced(expected.epoch, self.at.epoch)

    # AddPartitionsToTxn

    def add_partitions(
        self, at: ProducerIdentity, partitions: Iterable[Any]
    ) -> "TransactionMetadata":
        """Add partitions to the transaction, which begins with the first of them.

        The same value comes back if all of them are in it.
        """
        self._must_be_at(at)
        if self.prepared:
            raise errors.ConcurrentTransactions(self.state.shown)
        together = self.partitions | frozenset(partitions)
        if self.state is TransactionState.ONGOING and together == self.partitions:
            return self
        return evolve(self, state=TransactionState.ONGOING, partitions=together)

    def verify_partition(self, at: ProducerIdentity, partition: Any) -> None:
        """Refuse a write to a partition that is not in the open transaction (KIP-890)."""
        self._must_be_at(at)
        if self.prepared:
            raise errors.ConcurrentTransactions(self.state.shown)
        if self.state is not TransactionState.ONGOING or partition not in self.partitions:
            raise errors.TransactionAbortable(partition)

    def _must_be_at(self, at: ProducerIdentity) -> None:
        if at.id != self.at.id:
            raise errors.InvalidProducerIdMapping(at.id, self.at.id)
        if at.epoch != self.at.epoch:
            raise errors.ProducerFenced(at.epoch, self.at.epoch)

    # EndTxn

    def end_txn(
        self, at: ProducerIdentity, version: int, new_id: NewId, *, committed: bool
    ) -> "TransactionMetadata":
        """Decide the transaction.

        In version 2 the producer gets another epoch with each end, and may abort what it has not
        begun: it cannot always know.
        """
        self._must_be_at(at)
        if self.prepared:
            raise errors.ConcurrentTransactions(self.state.shown)
        if self.state is not TransactionState.ONGOING and (committed or version < 2):
            raise errors.NothingToEnd(_outcome(committed), self.state.shown)
        state = TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT
        if version < 2:
            return evolve(self, state=state)
        return evolve(
            self, state=state, at=at.above(), next=self._after(new_id), last=at, client_version=2
        )

    def end_again(
        self, at: ProducerIdentity, version: int, *, committed: bool
    ) -> ProducerIdentity | None:
        """The answer to a producer that has ended its transaction in this way already.

        None means that this is no such retry. The end must have been its own: who was fenced
        would be given the epoch of the fence.
        """
        if at != (self.last if version >= 2 else self.at):
            return None
        if self.state is TransactionState.EMPTY or self.state is TransactionState.ONGOING:
            return None
        if self.prepared:
            raise errors.ConcurrentTransactions(self.state.shown)
        if self.committed is not committed:
            raise errors.NothingToEnd(_outcome(committed), self.state.shown)
        return self.at

    # The coordinator's own steps

    def time_out(self) -> "TransactionMetadata":
        """Abort a transaction that takes too long.

        Its producer is not replaced: it may abort as well, or ask for its next epoch (KIP-588).
        With its last epoch there is none that it could be given, and it is fenced.
        """
        if self.state is not TransactionState.ONGOING:
            raise errors.NothingToEnd("abort", self.state.shown)
        has_next = self.at.epoch < self.last_epoch
        return evolve(self._fenced(), last=self.at if has_next else None)

    def complete(self, owed: int) -> "TransactionMetadata":
        """End a decided transaction, once no partition owes an answer to its marker."""
        if not self.prepared:
            raise errors.NothingToEnd("complete", self.state.shown)
        if owed:
            raise errors.MarkersNotWritten(owed)
        state = (
            TransactionState.COMPLETE_COMMIT if self.committed else TransactionState.COMPLETE_ABORT
        )
        return evolve(self, state=state, at=self.next, partitions=frozenset())


def _outcome(committed: bool) -> str:
    return "commit" if committed else "abort"
