"""Requests for offsets: ListOffsets and OffsetForLeaderEpoch (KIP-79, KIP-98, KIP-101, KIP-320,
KIP-734).
"""

from attrs import define

from refimpl.broker.context import Context
from refimpl.broker.errors import OffsetNotAvailable
from refimpl.broker.fetch import must_stand_in
from refimpl.broker.partition import Partition
from refimpl.errors import Refusal
from refimpl.machines.replica_log import UNDEFINED_EPOCH, EpochEnd
from refimpl.messages.broker import (
    CONSUMER,
    DEBUGGING_CONSUMER,
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    ListedOffset,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    Request,
    TopicPartition,
)


@define(eq=False)
class OffsetAnswers:
    """A leader's answers about the offsets of its partitions."""

    context: Context

    def list_offsets(self, request: Request) -> None:
        """ListOffsets: offsets to begin reading at, by time or at an end of the log."""
        body: ListOffsetsRequest = request.body
        found = tuple([self._listed(body, one) for one in body.partitions])
        self.context.respond(request, ListOffsetsResponse(found))

    def offset_for_leader_epoch(self, request: Request) -> None:
        """OffsetForLeaderEpoch: the end of an epoch in the leader's log."""
        body: OffsetForLeaderEpochRequest = request.body
        results: list[tuple[TopicPartition, str | None, int, int]] = []
        for name, current, epoch in body.partitions:
            try:
                log = self._read_at(name, current).log
            except Refusal as refusal:
                results.append((name, refusal.kafka_error, -1, -1))
                continue
            found = log.end_of(epoch)
            if epoch < UNDEFINED_EPOCH < log.latest_epoch:
                found = EpochEnd(epoch, log.start)  # before the first: that is where it would end
            results.append((name, None, found.epoch, found.end))
        self.context.respond(request, OffsetForLeaderEpochResponse(tuple(results)))

    def _read_at(
        self, name: TopicPartition, leader_epoch: int, *, at_follower: bool = False
    ) -> Partition:
        partition = self.context.partition(name)
        must_stand_in(partition, leader_epoch, at_follower=at_follower)
        return partition

    def _listed(self, body: ListOffsetsRequest, asked: ListOffsetsPartition) -> ListedOffset:
        name, timestamp, current = asked
        try:
            anywhere = body.replica_id == DEBUGGING_CONSUMER
            partition = self._read_at(name, current, at_follower=anywhere)
            return _offset(body, partition, timestamp)
        except Refusal as refusal:
            self.context.refused("ListOffsets", refusal)
            return ListedOffset(name, refusal.kafka_error)


def _offset(body: ListOffsetsRequest, partition: Partition, timestamp: int) -> ListedOffset:
    """The offset for a timestamp, or for a special value such as LATEST.

    A new leader whose high watermark has not reached its own epoch yet does not know the committed
    end. Consumers then get an error (KIP-207).
    """
    name, log, replica = partition.name, partition.log, partition.replica
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        epoch = log.epoch_at(log.start) if log.start < log.end else log.latest_epoch
        return ListedOffset(name, None, log.start, -1, epoch)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return ListedOffset(name, None)  # this log has no remote storage
    for_consumer = body.replica_id == CONSUMER
    end = partition.fetchable_end(body.isolation_level) if for_consumer else log.end
    behind = for_consumer and replica.epoch_start > replica.high_watermark
    if timestamp == LATEST:
        if behind:
            raise OffsetNotAvailable(name, replica.high_watermark, replica.epoch_start)
        return ListedOffset(name, None, end, -1, replica.epoch)
    newest = timestamp == MAX_TIMESTAMP
    found = log.newest_timestamp() if newest else log.offset_for_timestamp(timestamp)
    if found is not None and found[0] < end:
        return ListedOffset(name, None, *found, log.epoch_at(found[0]))
    if behind:
        raise OffsetNotAvailable(name, replica.high_watermark, replica.epoch_start)
    return ListedOffset(name, None)
