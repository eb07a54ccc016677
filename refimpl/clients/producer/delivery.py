"""Which batch of a partition goes next, under which sequence, and what an answer says of it.

Spec: Producer. KIP-98 (sequences), KAFKA-5494 (several batches in flight), KIP-360 (a producer that
does not know what was written goes on in a new epoch). Three rules are ours: the first batch of an
epoch goes alone, a batch that expires with its only attempt under way counts as unresolved, and an
unanswered batch is never further back than a leader remembers, also when leaders change.
"""

from collections import deque
from collections.abc import Iterator
from typing import Literal

from attrs import define, field

from refimpl.clients.errors import RETRIABLE
from refimpl.clients.producer.batch import NONE, ProducerBatch
from refimpl.clients.producer.errors import (
    EarlierEpoch,
    EarlierRetry,
    FirstUnknown,
    NoBumpNeeded,
    NoProducerEpoch,
    NotExpired,
    NothingToSend,
    NothingUnresolved,
    PastWindow,
    TooManyInFlight,
    UnresolvedSequence,
)
from refimpl.errors import Refusal
from refimpl.messages.broker import TopicPartition

SEQUENCES = 2**31
LAST_EPOCH = 2**15 - 1
DUPLICATE, OUT_OF_ORDER, FORGOTTEN = (
    *("DUPLICATE_SEQUENCE_NUMBER", "OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID"),
)

Outcome = Literal["written", "retried", "failed", "late"]


@define(eq=False)
class Sequences:
    """One partition's batches: those that wait, and the sequences of those that were sent.

    The queue holds batches that are sent again, in order of their sequences, and then new ones.
    """

    queue: deque[ProducerBatch] = field(factory=deque[ProducerBatch])
    #: Sent and without a result, in the order of their sequences
    tracked: list[ProducerBatch] = field(factory=list[ProducerBatch])
    producer_id: int = NONE
    epoch: int = NONE
    next_sequence: int = 0
    #: The batches that have got a sequence so far
    numbered: int = 0
    #: The last sequence of this epoch that was acknowledged, -1 if none was
    acked: int = NONE
    #: The sequence after the last one of which nobody knows whether it was used, -1 if all is known
    unresolved: int = NONE


@define(eq=False)
class Delivery:
    """All partitions of a producer, and its identity.

    Without idempotence there are no sequences: what is sent again goes first.
    """

    idempotent: bool = True
    most_in_flight: int = 5
    #: What was lost ends the transaction: its batches are not sent again in another epoch
    transactional: bool = False
    #: Kafka's client sends the first batches of an epoch together
    first_alone: bool = True
    #: Kafka's client forgets that a batch was sent which expires before its first answer
    remembers_sent: bool = True
    #: Kafka's client bounds the batches in flight of each connection, and not of each partition
    within_window: bool = True
    producer_id: int = NONE
    epoch: int = NONE
    partitions: dict[TopicPartition, Sequences] = field(factory=dict[TopicPartition, Sequences])
    #: Partitions whose sequences begin again with the next epoch
    restarting: set[TopicPartition] = field(factory=set[TopicPartition])
    #: Partitions that may have an unresolved sequence
    doubtful: set[TopicPartition] = field(factory=set[TopicPartition])

    def of(self, partition: TopicPartition) -> Sequences:
        """The batches of a partition."""
        one = self.partitions.get(partition)
        if one is None:
            one = self.partitions[partition] = Sequences()
        return one

    @property
    def must_settle(self) -> bool:
        """True if a partition must be resolved, or an epoch taken, before anything is sent."""
        return bool(self.restarting) or any(True for _ in self.resolvable())

    def resolvable(self) -> Iterator[TopicPartition]:
        """Partitions with an unresolved sequence and nothing in flight."""
        for partition in self.doubtful:
            one = self.partitions[partition]
            if one.unresolved != NONE and not one.tracked:
                yield partition

    # The application, and the clock

    def enqueue(self, batch: ProducerBatch) -> None:
        """A new batch waits behind all others of its partition."""
        self.of(batch.partition).queue.append(batch)

    def expire(self, batch: ProducerBatch) -> None:
        """delivery.timeout.ms is over: the batch fails, wherever it is.

        If it was sent, nobody knows whether its sequence was used.
        """
        if batch.done:
            raise NotExpired
        one = self.of(batch.partition)
        if batch in one.queue:
            one.queue.remove(batch)
        batch.done = True
        if not self.idempotent or not batch.has_sequence:
            return
        one.tracked.remove(batch)
        if self.remembers_sent or batch.attempts > 0:
            self._doubt(one, batch)

    # Sequences and epochs

    def resolve(self, partition: TopicPartition) -> None:
        """Nothing of the partition is in flight any more: now its sequences are known, or never.

        They are known if the last one was acknowledged. If not, a new epoch begins.
        """
        one = self.of(partition)
        if one.unresolved == NONE or one.tracked:
            raise NothingUnresolved
        if _after(one.acked, 1) != one.next_sequence:
            self.restarting.add(partition)
        one.unresolved = NONE
        self.doubtful.discard(partition)

    def bump(self) -> None:
        """Take the next epoch, in which the sequences of these partitions begin again (KIP-360).

        After the last epoch comes another producer id, which a coordinator gives.
        """
        if not self.restarting:
            raise NoBumpNeeded
        if self.epoch == LAST_EPOCH:
            self.producer_id = self.epoch = NONE
        else:
            self.identify(self.producer_id, self.epoch + 1)

    def identify(self, producer_id: int, epoch: int) -> None:
        """Go on under this producer id and epoch, for example those that a coordinator gave."""
        self.producer_id, self.epoch = producer_id, epoch
        for partition in self.restarting:
            self._restart(self.of(partition))
        self.restarting.clear()

    def _restart(self, one: Sequences) -> None:
        one.producer_id, one.epoch, one.acked, one.unresolved = (
            *(self.producer_id, self.epoch, NONE, NONE),
        )
        one.next_sequence = 0
        for batch in one.tracked:
            _number(one, batch)
            batch.renumbered = True

    # A connection

    def may_drain(self, partition: TopicPartition, in_flight: int = 0) -> Refusal | None:
        """The reason for which the partition's first batch may not be sent now, if there is one."""
        one = self.partitions.get(partition)
        if one is None or not one.queue:
            return NothingToSend()
        if in_flight >= self.most_in_flight:
            return TooManyInFlight(in_flight, self.most_in_flight)
        if not self.idempotent:
            return None
        if self.producer_id == NONE or self.must_settle:
            return NoProducerEpoch()
        batch = one.queue[0]
        if batch.has_sequence:
            first = one.tracked[0]
            return None if first is batch else EarlierRetry(batch.sequence, first.sequence)
        if one.unresolved != NONE:
            return UnresolvedSequence(one.unresolved)
        if one.tracked and self._is_stale(one):
            return EarlierEpoch(one.epoch, self.epoch)
        if one.tracked and one.acked == NONE and self.first_alone:
            return FirstUnknown()
        if one.tracked and self.within_window:
            behind = one.numbered - one.tracked[0].number
            if behind >= self.most_in_flight:
                return PastWindow(behind, self.most_in_flight)
        return None

    def drain(self, partition: TopicPartition, in_flight: int = 0) -> ProducerBatch:
        """Take the first batch out of the queue to send it; a new one gets its sequence."""
        refusal = self.may_drain(partition, in_flight)
        if refusal is not None:
            raise refusal
        one = self.partitions[partition]
        batch = one.queue.popleft()
        batch.closed, batch.renumbered = True, False
        if self.idempotent and not batch.has_sequence:
            if self._is_stale(one):
                self._restart(one)
            _number(one, batch)
            one.tracked.append(batch)
        return batch

    def take_answer(
        self,
        batch: ProducerBatch,
        error: str | None,
        *,
        sent_as: tuple[int, int],
        may_retry: bool = True,
        log_start_offset: int = NONE,
    ) -> Outcome:
        """A leader has answered, or will not any more.

        `sent_as` is the epoch and the sequence under which the batch was sent: it may have others
        by now. Without `may_retry` its attempts or its time are used up.
        """
        one = self.of(batch.partition)
        if error is None or error == DUPLICATE:
            self._acknowledge(one, batch, *sent_as)
            if batch.done:
                return "late"
            self._settle(one, batch)
            return "written"
        if batch.done:
            return "late"
        if may_retry and self._may_retry(one, batch, error, log_start_offset):
            self._insert(one, batch)
            return "retried"
        self._give_up(one, batch, certain=batch.attempts == 0 and error not in RETRIABLE)
        return "failed"

    def _give_up(self, one: Sequences, batch: ProducerBatch, *, certain: bool) -> None:
        """Whatever follows a batch that was not written begins in a new epoch. If it may have been
        written, those in flight behind it may be, too, and are waited for.
        """
        self._settle(one, batch)
        if self.idempotent and certain:
            self.restarting.add(batch.partition)
        elif self.idempotent:
            self._doubt(one, batch)

    def replace(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """Send these batches instead of one that was too large, under its sequences."""
        one = self.of(batch.partition)
        batch.done = True
        if batch.has_sequence:
            at = one.tracked.index(batch)
            one.tracked[at : at + 1] = parts
            sequence = batch.sequence
            for part in parts:
                part.producer_id, part.epoch = batch.producer_id, batch.epoch
                part.sequence, part.number = sequence, batch.number
                sequence = _after(sequence, part.count)
        for part in reversed(parts):
            part.closed = True
            self._insert(one, part)

    # What an answer means

    def _acknowledge(self, one: Sequences, batch: ProducerBatch, epoch: int, sequence: int) -> None:
        """The sequence was used, even if the batch had expired; one of an older epoch says nothing
        of this one.
        """
        last = (sequence + batch.count - 1) % SEQUENCES
        if self.idempotent and epoch == one.epoch and _is_before(one.acked, last):
            one.acked = last

    def _settle(self, one: Sequences, batch: ProducerBatch) -> None:
        batch.done = True
        if batch.has_sequence:
            one.tracked.remove(batch)

    def _may_retry(self, one: Sequences, batch: ProducerBatch, error: str, log_start: int) -> bool:
        if not self.idempotent:
            return error in RETRIABLE
        if error == OUT_OF_ORDER:
            lost = self._is_lost(one, batch)
            if lost and not self.transactional:
                self.restarting.add(batch.partition)
            return not (self.transactional and (lost or one.unresolved != NONE))
        if error == FORGOTTEN:
            if log_start != NONE and not batch.renumbered:
                self.restarting.add(batch.partition)
            return True
        return error in RETRIABLE

    def _is_lost(self, one: Sequences, batch: ProducerBatch) -> bool:
        """The leader expects another sequence: what comes before is still missing, or was lost.

        It was lost if the batch is the next one after what was acknowledged, or after what expired.
        """
        if one.unresolved == NONE:
            return not batch.renumbered and batch.sequence == _after(one.acked, 1)
        return batch.sequence == one.unresolved

    def _insert(self, one: Sequences, batch: ProducerBatch) -> None:
        """Wait for another attempt: with sequences in their order, without them first."""
        if not batch.has_sequence:
            one.queue.appendleft(batch)
            return
        before = one.tracked[: one.tracked.index(batch)]
        at = sum(1 for other in one.queue if other in before)
        one.queue.insert(at, batch)

    def _doubt(self, one: Sequences, batch: ProducerBatch) -> None:
        """Nobody knows whether the sequences of this batch were used."""
        self.doubtful.add(batch.partition)
        following = _after(batch.sequence, batch.count)
        if one.unresolved == NONE or _is_before(one.unresolved, following):
            one.unresolved = following

    def _is_stale(self, one: Sequences) -> bool:
        return (one.producer_id, one.epoch) != (self.producer_id, self.epoch)


def _number(one: Sequences, batch: ProducerBatch) -> None:
    """Give a batch the partition's next sequences."""
    batch.producer_id, batch.epoch, batch.sequence = one.producer_id, one.epoch, one.next_sequence
    batch.number, one.numbered = one.numbered, one.numbered + 1
    one.next_sequence = _after(one.next_sequence, batch.count)


def _after(sequence: int, count: int) -> int:
    """The sequence that follows; they wrap around at 2^31, and -1 is followed by 0."""
    return (sequence + count) % SEQUENCES


def _is_before(sequence: int, other: int) -> bool:
    """True if the second one is later, around the wrap as well; -1 is before all."""
    return sequence == NONE or 0 < (other - sequence) % SEQUENCES < SEQUENCES // 2
