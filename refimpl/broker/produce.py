"""Produce: append batches, and answer as acks asks."""

from collections import deque
from collections.abc import Mapping

from attrs import define

from refimpl.broker.context import Context
from refimpl.broker.delayed import ANSWERED, DelayedProduce, WaitingBatch
from refimpl.broker.errors import InvalidRequiredAcks, NotLeaderOrFollower
from refimpl.broker.partition import Partition
from refimpl.errors import InvalidRecords, InvalidTimestamp, Refusal
from refimpl.machines.replica_log import Appended, Batch, Guard
from refimpl.messages.broker import (
    ProducedPartition,
    ProduceRequest,
    ProduceResponse,
    Request,
    TopicPartition,
)
from refimpl.messages.observations import Acknowledged, Ignored, Refused, Written
from refimpl.named import named

ALL = -1


@define(eq=False)
class Produces:
    """The Produce requests of one broker."""

    context: Context

    def produce(
        self,
        request: Request,
        guards: Mapping[TopicPartition, Guard] | None = None,
        refused: Mapping[TopicPartition, ProducedPartition] | None = None,
    ) -> tuple[list[Partition], DelayedProduce]:
        """Append each batch; return the partitions that grew, and the delayed request.

        Guards are those of transactions that were verified; what could not be is refused already.
        """
        body: ProduceRequest = request.body
        delayed = DelayedProduce(request, len(body.batches), {})
        grown: list[Partition] = []
        batches = body.batches
        if refused:
            for result in refused.values():
                self.context.outputs.append(Refused("Produce", result.error or ""))
                self._result(delayed, result)
            batches = [one for one in batches if one[0] not in refused]
        for name, batch in batches:
            try:
                partition = self.context.partition(name)
                guard = guards.get(name) if guards else None
                appended = self._append(partition, batch, body.acks, guard)
            except Refusal as refusal:
                self.context.refused("Produce", refusal)
                named_ones = isinstance(refusal, InvalidRecords | InvalidTimestamp)
                records = refusal.records if named_ones else ()
                why = refusal.kafka_error, -1, -1, -1, str(refusal), records
                self._result(delayed, ProducedPartition(name, *why))
                continue
            if not appended.duplicate:
                grown.append(partition)
            if body.acks == ALL and appended.last_offset >= partition.replica.high_watermark:
                self._wait(partition, WaitingBatch(appended, batch, delayed))
            else:
                self._done(delayed, partition, batch, appended)
        return grown, delayed

    def _append(
        self, partition: Partition, batch: Batch, acks: int, guard: Guard | None
    ) -> Appended:
        replica = partition.replica
        if acks not in (ALL, 0, 1):
            raise InvalidRequiredAcks(acks)
        appended = replica.write(batch, acks_all=acks == ALL, guard=guard)
        first, last, _, duplicate = appended
        self.context.outputs.append(
            Ignored("duplicates recognised")
            if duplicate
            else named(Written, (partition.name, first, last + 1))
        )
        return appended

    def _wait(self, partition: Partition, waiting: WaitingBatch) -> None:
        queue = partition.waiting_batches
        queue.append(waiting)
        if len(queue) > 1 and _last(queue[-2]) > _last(waiting):  # a duplicate of an older one
            partition.waiting_batches = deque(sorted(queue, key=_last))

    def committed(self, partition: Partition) -> None:
        """Answer the requests that waited for the new high watermark."""
        queue, high_watermark = partition.waiting_batches, partition.replica.high_watermark
        while queue and queue[0].appended.last_offset < high_watermark:
            waiting = queue.popleft()
            produce = waiting.produce
            if produce.completed:
                continue
            if isinstance(produce, DelayedProduce):
                self._done(produce, partition, waiting.batch, waiting.appended)
            else:
                produce.done(None)

    def give_up(self, partition: Partition, error: str = NotLeaderOrFollower.kafka_error) -> None:
        """Refuse waiting requests: this broker no longer leads, so their records may be
        truncated.
        """
        while partition.waiting_batches:
            produce = partition.waiting_batches.popleft().produce
            if produce.completed:
                continue
            if isinstance(produce, DelayedProduce):
                self._refuse(produce, partition.name, error)
            else:
                produce.done(error)

    def expire(self, delayed: DelayedProduce) -> None:
        """Answer after the timeout; appended records may still be committed."""
        if delayed.completed:
            return
        for name, _ in delayed.request.body.batches:
            if name not in delayed.results:
                self._refuse(delayed, name, "REQUEST_TIMED_OUT")

    def _done(
        self, delayed: DelayedProduce, partition: Partition, batch: Batch, appended: Appended
    ) -> None:
        acks, (offset, _, time_ms, _) = delayed.request.body.acks, appended
        self.context.outputs.append(named(Acknowledged, (partition.name, acks, batch, offset)))
        told = partition.name, None, offset, time_ms, partition.log.start, None, ()
        self._result(delayed, named(ProducedPartition, told))

    def _refuse(self, delayed: DelayedProduce, name: TopicPartition, error: str) -> None:
        self.context.outputs.append(Refused("Produce", error))
        self._result(delayed, ProducedPartition(name, error))

    def _result(self, delayed: DelayedProduce, result: ProducedPartition) -> None:
        delayed.results[result.partition] = result
        if len(delayed.results) == delayed.missing:
            delayed.completed = True
            request, delayed.request = delayed.request, ANSWERED
            if request.body.acks != 0:
                response = ProduceResponse(tuple(delayed.results.values()))
                self.context.respond(request, response)


def _last(waiting: WaitingBatch) -> int:
    return waiting.appended.last_offset
