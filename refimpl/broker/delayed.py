"""Requests that wait: what Kafka calls the purgatory.

A delayed operation is completed once: by what it waits for, by its time-out, or by a change of
role that makes it pointless.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any, TypeAlias

from attrs import define, field

from refimpl.machines.replica_log import Appended, Batch
from refimpl.messages.broker import (
    DeletedPartition,
    ProducedPartition,
    Request,
    TopicPartition,
)

PURGE_INTERVAL = 1000
"""So many operations are added before completed ones are looked for, as Kafka does by default:
producer.purgatory.purge.interval.requests."""
ANSWERED = Request(-1, -1, 0, None)
"""Stands for a request of which nothing is needed any more, its records least of all."""


@define(eq=False)
class DelayedProduce:
    """An acks=all Produce request, until each of its batches is committed or refused."""

    request: Request
    missing: int
    results: dict[TopicPartition, ProducedPartition]
    completed: bool = False


@define(eq=False)
class WaitingBatch:
    """One batch of a delayed produce: committed when the high watermark is above its last
    offset."""

    appended: Appended
    batch: Batch
    produce: DelayedProduce


@define(eq=False)
class DelayedDelete:
    """A DeleteRecords request, until all replicas have deleted, or one of us cannot know."""

    request: Request
    missing: int
    results: dict[TopicPartition, DeletedPartition] = field(
        factory=dict[TopicPartition, DeletedPartition]
    )

    @property
    def completed(self) -> bool:
        """Whether it is answered."""
        return len(self.results) == self.missing


Deadline: TypeAlias = tuple[int, int, Callable[[Any], None], Any]
"""When, a number that settles ties, how, and what."""


@define(eq=False)
class Deadlines:
    """Delayed operations by the time at which they end.

    Most are completed long before that: they are taken out when they may be half of all, so that
    30 s of acknowledged requests are not kept.
    """

    heap: list[Deadline] = field(factory=list[Deadline])
    count: int = 0
    armed_at: int | None = None
    #: How many there may be before the next purge
    most: int = PURGE_INTERVAL

    def add(self, at_ms: int, expire: Callable[[Any], None], delayed: Any) -> bool:
        """Have this expired at this time; answers whether a timer has to be set for it."""
        self.count += 1
        if len(self.heap) >= self.most:
            self._purge()
        heappush(self.heap, (at_ms, self.count, expire, delayed))
        if self.armed_at is not None and self.armed_at <= at_ms:
            return False
        self.armed_at = at_ms
        return True

    def _purge(self) -> None:
        """Take out what is completed. A timer that was set for it finds nothing to do."""
        self.heap[:] = [one for one in self.heap if not one[3].completed]
        heapify(self.heap)
        self.most = max(PURGE_INTERVAL, 2 * len(self.heap))

    def expire(self, now: int) -> int | None:
        """Expire what is due; answers when to come again, unless a timer is set for that."""
        if self.armed_at is not None and now < self.armed_at:
            return None
        heap = self.heap
        while heap and heap[0][0] <= now:
            _, _, expire, delayed = heappop(heap)
            expire(delayed)
        self.armed_at = heap[0][0] if heap else None
        return self.armed_at
