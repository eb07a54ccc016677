"""DeleteRecords: advance the log start, and answer once all replicas have (KIP-107)."""

from attrs import define

from refimpl.broker.context import Context
from refimpl.broker.delayed import DelayedDelete
from refimpl.broker.errors import (
    InternalTopic,
    NotLeaderOrFollower,
    OutsideCommitted,
    PolicyViolation,
)
from refimpl.broker.fetch import must_stand_in
from refimpl.broker.partition import Partition
from refimpl.errors import Refusal
from refimpl.messages.broker import (
    HIGH_WATERMARK,
    DeletedPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    Request,
    TopicPartition,
)
from refimpl.messages.cluster import INTERNAL_TOPICS, ClusterMetadata
from refimpl.messages.observations import Refused


@define(eq=False)
class Deletes:
    """The DeleteRecords requests of one broker."""

    context: Context
    metadata: ClusterMetadata

    def delete(self, request: Request) -> tuple[list[Partition], DelayedDelete]:
        """Delete at the leader; return the partitions whose log start moved, and the delayed
        request.
        """
        body: DeleteRecordsRequest = request.body
        asked = dict(body.partitions)  # if a partition is named twice, the last one counts
        delayed = DelayedDelete(request, len(asked))
        moved: list[Partition] = []
        for name, offset in asked.items():
            try:
                if name.topic in INTERNAL_TOPICS and name in self.metadata.partitions:
                    raise InternalTopic(name.topic)
                partition = self.context.partition(name)
                wanted = self._delete_one(partition, offset)
            except Refusal as refusal:
                self.context.refused("DeleteRecords", refusal)
                self._result(delayed, DeletedPartition(name, refusal.kafka_error))
                continue
            moved.append(partition)
            partition.waiting_deletes.append((wanted, delayed))
            self.check(partition)
        if not asked:
            self.context.respond(request, DeleteRecordsResponse(()))
        return moved, delayed

    def _delete_one(self, partition: Partition, offset: int) -> int:
        must_stand_in(partition)
        if not partition.log.deletes:
            raise PolicyViolation(partition.name)
        high_watermark = partition.replica.high_watermark
        wanted = high_watermark if offset == HIGH_WATERMARK else offset
        if not 0 <= wanted <= high_watermark:
            raise OutsideCommitted(wanted, high_watermark)
        partition.log.advance_start(wanted)
        return wanted

    def check(self, partition: Partition) -> None:
        """Answer the requests that a later log start of some replica completes."""
        if partition.waiting_deletes:
            low = self._low_watermark(partition)
            waiting, partition.waiting_deletes = partition.waiting_deletes, []
            for wanted, delayed in waiting:
                if partition.name in delayed.results:
                    continue
                if low >= wanted:
                    self._result(delayed, DeletedPartition(partition.name, None, low))
                else:
                    partition.waiting_deletes.append((wanted, delayed))

    def _low_watermark(self, partition: Partition) -> int:
        """The least log start offset among the replicas that run."""
        known, brokers = self.metadata.partitions.get(partition.name), self.metadata.brokers
        start, starts = partition.log.start, partition.log_starts
        for replica in known.replicas if known else ():
            broker = brokers.get(replica)
            if replica != self.context.id and not (broker and broker.fenced):
                start = min(start, starts.get(replica, -1))
        return start

    def give_up(self, partition: Partition, error: str = NotLeaderOrFollower.kafka_error) -> None:
        """Refuse waiting requests: a broker that no longer leads learns nothing of other
        replicas.
        """
        waiting, partition.waiting_deletes = partition.waiting_deletes, []
        for _, delayed in waiting:
            if not delayed.completed:
                self._refuse(delayed, partition.name, error)

    def expire(self, delayed: DelayedDelete) -> None:
        """Answer after the timeout; the leader has deleted, other replicas may not have."""
        if delayed.completed:
            return
        for name, _ in delayed.request.body.partitions:
            if name not in delayed.results:
                self._refuse(delayed, name, "REQUEST_TIMED_OUT")

    def _refuse(self, delayed: DelayedDelete, name: TopicPartition, error: str) -> None:
        self.context.outputs.append(Refused("DeleteRecords", error))
        self._result(delayed, DeletedPartition(name, error))

    def _result(self, delayed: DelayedDelete, result: DeletedPartition) -> None:
        delayed.results[result.partition] = result
        if delayed.completed:
            response = DeleteRecordsResponse(tuple(delayed.results.values()))
            self.context.respond(delayed.request, response)
