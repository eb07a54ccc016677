"""Requests that wait: what Kafka calls the purgatory.

A delayed operation is completed once: by what it waits for, by its time-out, or by a change of
role that makes it pointless.
"""

from collections.abc import Callable
from heapq import heappop, heappush

from attrs import define, field

from refimpl.broker.messages import (
    FetchedPartition,
    ProducedPartition,
    RecordBatch,
    Request,
    TopicPartition,
)
from refimpl.broker.partition import Partition
from refimpl.broker.sessions import FetchSession, SessionPartition
from refimpl.machines.messages import FetchRequest


@define(eq=False)
class DelayedProduce:
    """An acks=all Produce request, until each of its batches is committed or refused."""

    request: Request
    missing: int
    results: dict[TopicPartition, ProducedPartition] = field(
        factory=dict[TopicPartition, ProducedPartition]
    )
    completed: bool = False


@define(eq=False)
class WaitingBatch:
    """One batch of a delayed produce: committed when the high watermark is above its offset."""

    offset: int
    batch: RecordBatch
    produce: DelayedProduce


@define(eq=False)
class FetchPart:
    """One partition of a Fetch request.

    `asked` is a follower's request as the leader counted it, and `decided` the answer where that
    left nothing to read.
    """

    remembered: SessionPartition
    partition: Partition | None
    asked: FetchRequest | None = None
    decided: FetchedPartition | None = None

    def has_no_news(self) -> bool:
        """Whether an answer could only say what the last one said."""
        partition, remembered = self.partition, self.remembered
        if partition is None or self.decided is not None or remembered.failed:
            return False
        replica, asked = partition.replica, self.asked
        if not replica.leads:
            return False
        if asked is None:
            return remembered.wanted.fetch_offset - replica.high_watermark >= 0
        return (
            replica.epoch == asked.epoch
            and replica.high_watermark == remembered.high_watermark
            and replica.log.end <= asked.end
        )


@define(eq=False)
class DelayedFetch:
    """A Fetch request for which there is nothing to read yet."""

    request: Request
    parts: list[FetchPart]
    session: FetchSession | None
    completed: bool = False


@define(eq=False)
class Deadlines:
    """Delayed operations by the time at which they end."""

    heap: list[tuple[int, int, Callable[[int], None]]] = field(
        factory=list[tuple[int, int, Callable[[int], None]]]
    )
    count: int = 0
    armed_at: int = -1

    def add(self, at_ms: int, expire: Callable[[int], None]) -> bool:
        """Have `expire` called at this time; answers whether a timer has to be set for it."""
        self.count += 1
        heappush(self.heap, (at_ms, self.count, expire))
        if 0 <= self.armed_at <= at_ms:
            return False
        self.armed_at = at_ms
        return True

    def expire(self, now: int) -> int | None:
        """Expire what is due; answers when to come again, unless a timer is set for that."""
        if now < self.armed_at:
            return None
        heap = self.heap
        while heap and heap[0][0] <= now:
            heappop(heap)[2](now)
        self.armed_at = heap[0][0] if heap else -1
        return self.armed_at if heap else None
