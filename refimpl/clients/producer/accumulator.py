"""Records become batches here, and wait until they are worth a request.

A batch is ready when it is full, when linger.ms is over, when memory is used up, and when somebody
flushes or closes. Memory is counted by whole batches (buffer.memory); who finds none waits in turn.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from math import inf
from typing import Any, NamedTuple

from attrs import define, field

from refimpl.clients.backoff import Backoff
from refimpl.clients.metadata import NOBODY, ClientMetadata, KnownTopic
from refimpl.clients.producer.batch import BuilderFactory, Headers, ProducerBatch
from refimpl.clients.producer.config import ProducerConfig
from refimpl.clients.producer.delivery import Delivery, Sequences
from refimpl.clients.producer.partitioner import Sticky
from refimpl.messages.broker import TopicPartition

HEADER = 61
#: The most that a record takes beside its key and its value: its own head and two lengths
OVERHEAD = 21 + 10


class ToAppend(NamedTuple):
    """A record in bytes, on its way into a batch; without a partition it goes where one is filled.

    `handle` is what the host knows it by.
    """

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int
    handle: Any


class Ready(NamedTuple):
    """Which nodes have batches to be sent, when the next one has, and whose leaders are missing."""

    nodes: set[int]
    next_ms: float
    leaderless: bool


@define(eq=False)
class Accumulator:
    """The batches of all partitions that are not sent, or are to be sent again."""

    config: ProducerConfig
    metadata: ClientMetadata
    delivery: Delivery
    builders: BuilderFactory
    backoff: Backoff
    #: Makes the partitioner of a topic, for records without a partition
    sticky: Callable[[int], Sticky]
    partitioners: dict[str, Sticky] = field(factory=dict[str, Sticky])
    #: Bytes of batches that are not settled
    used: int = 0
    #: Records that wait for memory, in their turn
    waiting: int = 0
    flushing: bool = False
    closing: bool = False
    #: Partitions of which a batch is in flight, where only one may be (no idempotence, one request)
    muted: set[TopicPartition] = field(factory=set[TopicPartition])
    #: Partitions that are not in the producer's transaction yet
    held: Collection[TopicPartition] = ()
    #: All batches without a result, in the order in which they were begun
    incomplete: dict[ProducerBatch, None] = field(factory=dict[ProducerBatch, None])
    _queues: dict[str, dict[int, Sequences]] = field(factory=dict[str, dict[int, Sequences]])
    #: Where the last request to each node has ended
    _drained: dict[int, int] = field(factory=dict[int, int])
    #: The parts of a batch are as old as it was, and not the last in `incomplete`
    _has_split: bool = False
    #: Since when a node that has batches is not ready
    not_ready_since: dict[int, int] = field(factory=dict[int, int])

    # Records

    def append(self, now: int, record: ToAppend, topic: KnownTopic) -> "RecordAppendResult | None":
        """Put a record into a batch; None if there is no memory for another one."""
        sticky = None
        while True:
            number = record.partition
            if number is None:
                sticky = self._sticky(record.topic)
                chosen = sticky.chosen or sticky.current(topic.partitions, topic.available)
                number = chosen.partition
            one = self._queue(record.topic, number)
            last = one.queue[-1] if one.queue else None
            if sticky is not None and (last is None or last.is_full):
                chosen = sticky.chosen
                sticky.filled(0, True, topic.partitions, topic.available)
                if sticky.chosen is not chosen:
                    continue
            if last is None or last.closed:
                break
            size = last.builder.size
            if self._into(last, record, now):
                is_full = last.is_full
                if sticky is not None:
                    grown = last.builder.size - size
                    sticky.filled(grown, is_full, topic.partitions, topic.available)
                return RecordAppendResult(last, is_full or len(one.queue) > 1, False)
            last.closed = True  # and with that another partition may be chosen
        batch = self._begin(now, TopicPartition(record.topic, number), record)
        if batch is None:
            return None
        if sticky is not None:
            sticky.filled(batch.builder.size, batch.is_full, topic.partitions, topic.available)
        return RecordAppendResult(batch, len(one.queue) > 1 or batch.is_full, True)

    def _queue(self, topic: str, number: int) -> Sequences:
        """The batches of a partition; a look-up for each record costs less without its name."""
        queues = self._queues.get(topic)
        if queues is None:
            queues = self._queues[topic] = {}
        one = queues.get(number)
        if one is None:
            one = queues[number] = self.delivery.of(TopicPartition(topic, number))
        return one

    def bound(self, record: ToAppend) -> int:
        """The most that a batch of this record alone can take."""
        return self.builders.bound(record.key, record.value, record.headers)

    def _begin(self, now: int, partition: TopicPartition, record: ToAppend) -> ProducerBatch | None:
        limit = self._limit(record)
        if self.used + limit > self.config.buffer_memory:
            return None
        self.used += limit
        self._sticky(record.topic)  # whose load counts from the first batch on
        batch = ProducerBatch(partition, self.builders.new(limit), limit, now)
        if not self._into(batch, record, now):
            raise AssertionError("an empty batch has room for a record")
        self.delivery.enqueue(batch)
        self.incomplete[batch] = None
        return batch

    def _limit(self, record: ToAppend) -> int:
        """A batch is as large as its first record needs, and at least batch.size."""
        least = self.config.batch_size
        known = HEADER + OVERHEAD + len(record.key or b"") + len(record.value or b"")
        if known <= least and not record.headers:
            return least
        return max(least, self.bound(record))

    def _into(self, batch: ProducerBatch, record: ToAppend, now: int) -> bool:
        if not batch.builder.append(record.timestamp, record.key, record.value, record.headers):
            return False
        batch.handles.append(record.handle)
        batch.appended_ms = now
        return True

    def _sticky(self, topic: str) -> Sticky:
        sticky = self.partitioners.get(topic)
        if sticky is None:
            sticky = self.partitioners[topic] = self.sticky(max(1, self.config.batch_size))
        return sticky

    def release(self, batch: ProducerBatch) -> None:
        """The batch has its result: its memory is free."""
        self.incomplete.pop(batch, None)
        if not batch.is_split and not batch.released:
            batch.released = True
            self.used -= batch.limit

    # Ready or not

    def ready(self, now: int) -> Ready:
        """Look at the first batch of each partition."""
        nodes: set[int] = set()
        next_ms, leaderless = inf, False
        loads: dict[str, dict[int, int]] = {}
        known: dict[str, int] = {}
        for partition, one in self.delivery.partitions.items():
            node = self.metadata.leader(partition)
            known[partition.topic] = known.get(partition.topic, 0) + 1
            if node != NOBODY and not self._is_slow(node, now):
                loads.setdefault(partition.topic, {})[partition.partition] = len(one.queue)
            if not one.queue:
                continue
            if node == NOBODY:
                leaderless = True
            elif node not in nodes and not self._is_held(partition):
                wait = self._wait_ms(now, partition, one)
                if wait == 0:
                    nodes.add(node)
                else:
                    next_ms = min(next_ms, now + wait)
        if self.config.adaptive_partitioning:
            self._weigh(loads, known)
        return Ready(nodes, next_ms, leaderless)

    def _is_held(self, partition: TopicPartition) -> bool:
        return partition in self.muted or partition in self.held

    def _is_slow(self, node: int, now: int) -> bool:
        most = self.config.availability_timeout_ms
        return most > 0 and now - self.not_ready_since.get(node, now) > most

    def _weigh(self, loads: Mapping[str, Mapping[int, int]], known: Mapping[str, int]) -> None:
        for name, sticky in self.partitioners.items():
            topic, count = self.metadata.topics.get(name), known.get(name, 0)
            counts = topic is not None and count >= len(topic.partitions)
            queues = dict(sorted(loads.get(name, {}).items()))
            sticky.weigh(queues if counts else None, count)

    def _wait_ms(self, now: int, partition: TopicPartition, one: Sequences) -> int:
        """The time that the first batch still waits: for its backoff, or for more records."""
        batch = one.queue[0]
        self._see_leader(batch, partition)
        waited = batch.waited_ms(now)
        if (left := self._backoff_ms(batch, waited)) > 0:
            return left
        is_full = len(one.queue) > 1 or batch.is_full
        if is_full or self.waiting or self.closing or self.flushing:
            return 0
        return max(0, self.config.linger_ms - waited)

    def _see_leader(self, batch: ProducerBatch, partition: TopicPartition) -> None:
        leader = self.metadata.leaders.get(partition)
        if leader is not None:
            batch.sees_leader(leader.epoch)

    def _backoff_ms(self, batch: ProducerBatch, waited: int) -> int:
        if batch.attempts == 0 or batch.is_for_a_new_leader:
            return 0
        if batch.backoff_of != batch.attempts:  # drawn once, or a ready batch would not be sent
            batch.backoff_of = batch.attempts
            batch.backoff_ms = self.backoff.wait_ms(batch.attempts - 1)
        return max(0, batch.backoff_ms - waited)

    # Requests

    def drain(self, now: int, node: int, in_flight: int) -> list[ProducerBatch]:
        """The batches of one request: at most one of each partition, and max.request.size in all.

        The next request begins with the partition after the last one, so that none starves.
        """
        led = sorted(one for one in self.delivery.partitions if self.metadata.leader(one) == node)
        batches: list[ProducerBatch] = []
        size = 0
        for at, partition in _from(led, self._drained.get(node, 0)):
            self._drained[node] = at
            one = self.delivery.partitions[partition]
            if self._is_held(partition):
                continue
            if self.delivery.may_drain(partition, in_flight) is not None:
                continue
            batch = one.queue[0]
            self._see_leader(batch, partition)
            if self._backoff_ms(batch, batch.waited_ms(now)) > 0:
                continue
            if batches and size + batch.builder.size > self.config.max_request_size:
                break
            size += batch.builder.size
            batches.append(self.delivery.drain(partition, in_flight))
        return batches

    def expired(self, now: int) -> list[ProducerBatch]:
        """Batches of which delivery.timeout.ms is over, wherever they are, the oldest first."""
        timeout = self.config.delivery_timeout_ms
        found: list[ProducerBatch] = []
        for batch in self.incomplete:
            if batch.has_expired(now, timeout):
                found.append(batch)
            elif not self._has_split:
                break
        return found

    def next_expiry_ms(self) -> float:
        """When the next batch expires."""
        if self._has_split:
            oldest = min((one.created_ms for one in self.incomplete), default=inf)
        else:
            oldest = next((one.created_ms for one in self.incomplete), inf)
        return oldest + self.config.delivery_timeout_ms

    def split(self, batch: ProducerBatch) -> list[ProducerBatch]:
        """Two batches or more instead of one that was too large (KIP-126).

        One that was split before is halved, down to its largest record.
        """
        limit = self.config.batch_size
        if batch.is_split:
            limit = max(batch.builder.largest, batch.builder.size // 2)
        handles = iter(batch.handles)
        parts = [
            ProducerBatch(
                batch.partition,
                builder,
                limit,
                batch.created_ms,
                handles=[next(handles) for _ in range(builder.count)],
                is_split=True,
            )
            for builder in batch.builder.split(limit)
        ]
        self.delivery.replace(batch, parts)
        self.incomplete.update(dict.fromkeys(parts))
        self._has_split = True
        return parts


class RecordAppendResult(NamedTuple):
    """The batch that took a record, and whether the sender has something to do now."""

    batch: ProducerBatch
    is_full: bool
    is_new: bool


def _from(partitions: list[TopicPartition], start: int) -> Iterable[tuple[int, TopicPartition]]:
    """All of them in a circle, from one on."""
    count = len(partitions)
    for step in range(count):
        at = (start + step) % count
        yield at, partitions[at]
