"""A batch of records on its way: what the producer decides by, around what its host has built."""

from collections.abc import Sequence
from typing import Any, Protocol

from attrs import define, field

from refimpl.messages.broker import TopicPartition

NONE = -1

Headers = Sequence[tuple[str, bytes | None]]


class Builder(Protocol):
    """The records of one batch, as the host keeps them: bytes at the edge, values in a simulator.

    Sizes are in the host's unit, and every limit with them.
    """

    @property
    def count(self) -> int:
        """The number of records."""
        ...

    @property
    def size(self) -> int:
        """The size of the whole batch, as far as it is known before it is compressed."""
        ...

    @property
    def largest(self) -> int:
        """The most that a batch of its largest record alone can take."""
        ...

    def append(
        self, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> bool:
        """Take one more record, if there is room; the first one always has."""
        ...

    def build(self, producer_id: int, epoch: int, sequence: int) -> Any:
        """The batch for a Produce request, under this producer's identity."""
        ...

    def split(self, limit: int) -> "Sequence[Builder]":
        """The same records in smaller batches, each within the limit or of one record."""
        ...


class BuilderFactory(Protocol):
    """A host's maker of batches."""

    def new(self, limit: int) -> Builder:
        """An empty batch."""
        ...

    def bound(self, key: bytes | None, value: bytes | None, headers: Headers) -> int:
        """The most that a batch of this record alone can take."""
        ...


@define(eq=False)
class ProducerBatch:
    """Records of one partition that are sent, sent again, and completed together."""

    partition: TopicPartition
    builder: Builder
    #: The size at which it is full, which counts in buffer.memory
    limit: int
    created_ms: int
    #: What the host knows each record by, in order
    handles: list[Any] = field(factory=list[Any])
    is_split: bool = False
    producer_id: int = NONE
    epoch: int = NONE
    sequence: int = NONE
    #: Among the batches of its partition that got a sequence; parts of one batch share it
    number: int = NONE
    #: The wait after its last failed attempt, and the number of that attempt
    backoff_ms: int = 0
    backoff_of: int = 0
    #: Its sequence was given anew, and it was not sent since
    renumbered: bool = False
    #: It may take no more records
    closed: bool = False
    #: A request with it waits for its answer
    in_flight: bool = False
    #: It has a result
    done: bool = False
    #: Of its memory nothing is held any more
    released: bool = False
    #: Attempts that have failed, and when the last one did
    attempts: int = 0
    attempt_ms: int = field(init=False)
    appended_ms: int = field(init=False)
    leader_epoch: int = NONE
    attempts_at_leader: int = 0

    def __attrs_post_init__(self) -> None:
        """The wait begins with the batch."""
        self.attempt_ms = self.appended_ms = self.created_ms

    @property
    def count(self) -> int:
        """The number of its records."""
        return len(self.handles)

    @property
    def has_sequence(self) -> bool:
        """True from the first time on that it is sent by an idempotent producer."""
        return self.sequence != NONE

    @property
    def is_full(self) -> bool:
        """True if it waits for no more records."""
        return self.closed or self.builder.size >= self.limit

    def waited_ms(self, now: int) -> int:
        """The time since the last attempt, or since it was begun, in ms."""
        return max(0, now - self.attempt_ms)

    def has_expired(self, now: int, delivery_timeout_ms: int) -> bool:
        """True if delivery.timeout.ms is over, which begins with the batch."""
        return now - self.created_ms >= delivery_timeout_ms

    def sees_leader(self, leader_epoch: int) -> None:
        """A newer leader may take at once what the old one has refused (KAFKA-15415)."""
        if leader_epoch > self.leader_epoch:
            self.leader_epoch, self.attempts_at_leader = leader_epoch, self.attempts

    @property
    def is_for_a_new_leader(self) -> bool:
        """True if the leader has changed since the last attempt."""
        return self.attempts > 0 and self.attempts == self.attempts_at_leader

    def fail_attempt(self, now: int) -> None:
        """Wait for another attempt."""
        self.attempts += 1
        self.attempt_ms = self.appended_ms = max(self.appended_ms, now)
