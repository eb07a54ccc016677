"""Requests that wait: what Kafka calls the purgatory.

A delayed operation is completed once: by what it waits for, by its time-out, or by a change of
role that makes it pointless.
"""

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, TypeAlias

from attrs import define, field

from refimpl.broker.messages import (
    DeletedPartition,
    FetchedPartition,
    ProducedPartition,
    Request,
    TopicPartition,
)
from refimpl.broker.partition import Partition
from refimpl.broker.sessions import FetchSession, SessionPartition
from refimpl.machines.messages import FetchRequest
from refimpl.machines.replica_log import Appended, Batch

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


@define(eq=False)
class FetchPart:
    """One partition of a Fetch request.

    `asked` is a follower's request as the leader counted it, and `decided` the answer where that
    left nothing to read. A consumer that may reads `at_follower`.
    """

    remembered: SessionPartition
    partition: Partition | None
    at_follower: bool
    asked: FetchRequest | None = None
    decided: FetchedPartition | None = None

    def has_records(self, isolation_level: int) -> bool:
        """Whether there is something to read."""
        partition, asked = self.partition, self.asked
        assert partition is not None
        if asked is not None:
            return partition.log.end > asked.end
        return partition.fetchable_end(isolation_level) > self.remembered.wanted.fetch_offset

    def is_settled(self) -> bool:
        """Whether there is an answer that no record has to be waited for: an error, a cut, or news
        of the high watermark and of the log start for a follower."""
        partition, remembered, asked = self.partition, self.remembered, self.asked
        if partition is None or self.decided is not None or remembered.failed:
            return True
        replica = partition.replica
        if asked is None:
            told_all = remembered.wanted.fetch_offset <= replica.log.end
            return not (told_all and partition.may_be_read(at_follower=self.at_follower))
        return not (
            replica.high_watermark == remembered.high_watermark
            and replica.epoch == asked.epoch
            and replica.leads
            and replica.log.start == remembered.log_start_offset
        )

    def available(self, isolation_level: int) -> int:
        """How much there is to read, in the log's unit."""
        partition, asked = self.partition, self.asked
        assert partition is not None
        log, wanted = partition.log, self.remembered.wanted
        offset = wanted.fetch_offset if asked is None else asked.end
        end = log.end if asked is not None else partition.fetchable_end(isolation_level)
        return min(log.size_between(offset, end), wanted.max_bytes)


@define(eq=False)
class DelayedFetch:
    """A Fetch request for which there is nothing to read yet."""

    request: Request
    parts: list[FetchPart]
    session: FetchSession | None
    completed: bool = False

    def news(self, isolation_level: int) -> list[FetchPart]:
        """The partitions of which an answer would say something else than the last one did."""
        return [one for one in self.parts if one.is_settled() or one.has_records(isolation_level)]

    def is_served(self, news: Sequence[FetchPart], min_bytes: int, isolation_level: int) -> bool:
        """Whether it can be answered: there is enough to read, or something other than records to
        tell."""
        if not news:
            return min_bytes <= 0
        if min_bytes <= 1 or any(one.is_settled() for one in news):
            return True
        return sum(one.available(isolation_level) for one in news) >= min_bytes


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
