"""The offsets of a group that are committed with transactions.

Spec: TransactionalOffsets. KIP-447: each member has a transactional id of its own, so only the
generation fences one that has lost its partitions. Offsets of a transaction are pending until its
marker arrives.
"""

from collections.abc import Hashable

from attrs import define, field, frozen

from refimpl.errors import Refusal
from refimpl.machines.group_errors import IllegalGeneration, NotTheOwner


@frozen
class UnstableOffset(Refusal):
    """A transaction is open that may change the offset (KAFKA-9346)."""

    kafka_error = "UNSTABLE_OFFSET_COMMIT"
    says = "producers {producers} have offsets pending"
    producers: frozenset[int]


@frozen
class AnotherTopic(Refusal):
    """The offsets are of a topic that was deleted; another one bears its name."""

    kafka_error = "UNKNOWN_TOPIC_ID"
    says = "the topic has the id {here}, and the offset is of {asked}"
    asked: Hashable
    here: Hashable


@frozen
class NextOffset:
    """The next record to read, and the topic's id."""

    position: int
    topic: Hashable


@define
class TransactionalOffsets:
    """One partition's offset in a group, and what transactions will make of it."""

    topic: Hashable
    generation: int = 0
    owner: int | None = None
    committed: NextOffset | None = None
    pending: dict[int, NextOffset] = field(factory=dict[int, NextOffset])
    """Per producer."""

    # The group

    def rebalance(self, owner: int | None) -> None:
        """Begin a generation, in which this member owns the partition, or nobody."""
        self.owner = owner
        self.generation += 1

    def clean_up(self) -> bool:
        """True if the group goes: it has neither members nor offsets, pending ones included."""
        return self.owner is None and self.committed is None and not self.pending

    # Offsets

    def fetch(self, generation: int) -> NextOffset | None:
        """The committed offset, for a member of this generation that requires a stable one."""
        if generation != self.generation:
            raise IllegalGeneration(generation, self.generation)
        if self.pending:
            raise UnstableOffset(frozenset(self.pending))
        return self.committed

    def add(self, producer: int, member: int, generation: int, offset: NextOffset) -> None:
        """TxnOffsetCommit: the offset is committed if the producer's transaction is.

        The generation is the one in which the member polled the records.
        """
        if generation != self.generation:
            raise IllegalGeneration(generation, self.generation)
        if member != self.owner:
            raise NotTheOwner(member, self.owner)
        if offset.topic != self.topic:
            raise AnotherTopic(offset.topic, self.topic)
        self.pending[producer] = offset

    def end(self, producer: int, committed: bool) -> None:
        """The marker of the producer's transaction."""
        offset = self.pending.pop(producer, None)
        if committed and offset is not None:
            self.committed = offset

    def replace_topic(self, topic: Hashable) -> None:
        """The topic is deleted, with all its offsets, and another one bears its name."""
        self.topic = topic
        self.committed = None
        self.pending.clear()
