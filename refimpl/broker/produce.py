"""Produce: append, and answer when acks says so."""

from collections import deque

from attrs import define

from refimpl.broker.context import Context
from refimpl.broker.delayed import DelayedProduce, WaitingBatch
from refimpl.broker.errors import NotLeader
from refimpl.broker.messages import (
    ProducedPartition,
    ProduceRequest,
    ProduceResponse,
    RecordBatch,
    Request,
    TopicPartition,
)
from refimpl.broker.observations import Acknowledged, Ignored, Refused, Written
from refimpl.broker.partition import Partition
from refimpl.errors import Refusal

ALL = -1


@define(eq=False)
class Produces:
    """The Produce requests of one broker."""

    context: Context

    def produce(self, request: Request) -> tuple[list[Partition], DelayedProduce | None]:
        """Append each batch; answers what grew, and what has to wait."""
        body: ProduceRequest = request.body
        delayed = DelayedProduce(request, len(body.batches))
        grown: list[Partition] = []
        for name, batch in body.batches:
            partition = self.context.partitions.get(name)
            if partition is None:
                self._refuse(delayed, name, "UNKNOWN_TOPIC_OR_PARTITION")
                continue
            try:
                known, offset = self._append(partition, batch, body.acks)
            except Refusal as refusal:
                self._refuse(delayed, name, refusal.kafka_error)
                continue
            if not known:
                grown.append(partition)
            if body.acks == ALL and offset >= partition.replica.high_watermark:
                self._wait(partition, WaitingBatch(offset, batch, delayed))
            else:
                self._done(delayed, name, batch, offset)
        return grown, None if delayed.completed else delayed

    def _append(self, partition: Partition, batch: RecordBatch, acks: int) -> tuple[bool, int]:
        """Whether the batch was there before, and its offset."""
        replica, idempotent = partition.replica, batch.producer_id >= 0
        if not replica.leads:
            raise NotLeader(replica.id, partition.name)
        if idempotent:
            known = partition.sequences.offset_of(batch)
            if known is not None:
                self.context.outputs.append(Ignored("duplicates recognised"))
                return True, known
        offset = replica.write(batch, acks_all=acks == ALL)
        if idempotent:
            partition.sequences.appended(batch, offset)
        self.context.outputs.append(Written(partition.name, offset))
        return False, offset

    def _wait(self, partition: Partition, waiting: WaitingBatch) -> None:
        queue = partition.waiting_batches
        queue.append(waiting)
        if len(queue) > 1 and queue[-2].offset > waiting.offset:  # a duplicate of an older one
            partition.waiting_batches = deque(sorted(queue, key=lambda one: one.offset))

    def committed(self, partition: Partition) -> None:
        """The high watermark has moved: answer who waited for it."""
        queue, high_watermark = partition.waiting_batches, partition.replica.high_watermark
        while queue and queue[0].offset < high_watermark:
            waiting = queue.popleft()
            if not waiting.produce.completed:
                self._done(waiting.produce, partition.name, waiting.batch, waiting.offset)

    def give_up(self, partition: Partition) -> None:
        """Who no longer leads can promise nothing: what waited here may be cut off."""
        while partition.waiting_batches:
            waiting = partition.waiting_batches.popleft()
            if not waiting.produce.completed:
                self._refuse(waiting.produce, partition.name, NotLeader.kafka_error)

    def expire(self, delayed: DelayedProduce) -> None:
        """The time-out is over; what was appended may still be committed."""
        if delayed.completed:
            return
        for name, _ in delayed.request.body.batches:
            if name not in delayed.results:
                self._refuse(delayed, name, "REQUEST_TIMED_OUT")

    def _done(
        self, delayed: DelayedProduce, name: TopicPartition, batch: RecordBatch, offset: int
    ) -> None:
        acks = delayed.request.body.acks
        self.context.outputs.append(Acknowledged(name, acks, batch, offset))
        self._result(delayed, ProducedPartition(name, None, offset))

    def _refuse(self, delayed: DelayedProduce, name: TopicPartition, error: str) -> None:
        self.context.outputs.append(Refused("Produce", error))
        self._result(delayed, ProducedPartition(name, error, -1))

    def _result(self, delayed: DelayedProduce, result: ProducedPartition) -> None:
        delayed.results[result.partition] = result
        if len(delayed.results) == delayed.missing:
            delayed.completed = True
            if delayed.request.body.acks != 0:
                response = ProduceResponse(tuple(delayed.results.values()))
                self.context.respond(delayed.request, response)
