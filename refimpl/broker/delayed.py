"""Requests that wait: Kafka's purgatory.

A delayed operation is completed once: by the event that it waits for, by its timeout, or by a
change of role that makes it pointless.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any, Protocol, TypeAlias

from attrs import define, field

from refimpl.machines.replica_log import Appended, Batch
from refimpl.messages.broker import (
    DeletedPartition,
    ProducedPartition,
    Request,
    TopicPartition,
)

PURGE_INTERVAL = 1000
"""The number of operations that are added before completed ones are removed, by Kafka's default of
producer.purgatory.purge.interval.requests.
"""
ANSWERED = Request(-1, -1, 0, None)
"""Replaces a completed request, so that its records are freed."""


@define(eq=False)
class DelayedProduce:
    """An acks=all Produce request, until each of its batches is committed or refused."""

    request: Request
    missing: int
    results: dict[TopicPartition, ProducedPartition]
    completed: bool = False


class DelayedMarker(Protocol):
    """A transaction's marker, until it is committed or refused."""

    completed: bool

    def done(self, error: str | None) -> None:
        """Take the result: an error, or None once it is committed."""
        ...


@define(eq=False)
class WaitingBatch:
    """One batch of a delayed produce, or a marker; it is committed once the high watermark is above
    its last offset.
    """

    appended: Appended
    batch: Batch
    produce: DelayedProduce | DelayedMarker


@define(eq=False)
class DelayedDelete:
    """A DeleteRecords request, until each partition is deleted at all replicas or refused."""

    request: Request
    missing: int
    results: dict[TopicPartition, DeletedPartition] = field(
        factory=dict[TopicPartition, DeletedPartition]
    )

    @property
    def completed(self) -> bool:
        """True if every partition has a result."""
        return len(self.results) == self.missing


Deadline: TypeAlias = tuple[int, int, Callable[[Any], None], Any]
"""A time, a number that settles ties, the function to call, and its argument."""


@define(eq=False)
class Deadlines:
    """Delayed operations by the time at which they end.

    Most are completed long before. They are removed when they may be half of all, so that 30 s of
    acknowledged requests are not kept.
    """

    heap: list[Deadline] = field(factory=list[Deadline])
    count: int = 0
    armed_at: int | None = None
    #: The size at which the next purge takes place
    most: int = PURGE_INTERVAL

    def add(self, at_ms: int, expire: Callable[[Any], None], delayed: Any) -> bool:
        """Add an operation that expires at this time; True if a timer has to be set for it."""
        self.count += 1
        if len(self.heap) >= self.most:
            self._purge()
        heappush(self.heap, (at_ms, self.count, expire, delayed))
        if self.armed_at is not None and self.armed_at <= at_ms:
            return False
        self.armed_at = at_ms
        return True

    def _purge(self) -> None:
        """Remove completed operations. A timer that was set for one finds nothing to do."""
        self.heap[:] = [one for one in self.heap if not one[3].completed]
        heapify(self.heap)
        self.most = max(PURGE_INTERVAL, 2 * len(self.heap))

    def expire(self, now: int) -> int | None:
        """Expire due operations; return the time of the next one, unless a timer is set for it."""
        if self.armed_at is not None and now < self.armed_at:
            return None
        heap = self.heap
        while heap and heap[0][0] <= now:
            _, _, expire, delayed = heappop(heap)
            expire(delayed)
        self.armed_at = heap[0][0] if heap else None
        return self.armed_at
