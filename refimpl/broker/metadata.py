"""What a broker knows of all partitions, and what it tells clients of it."""

from attrs import define, field

from refimpl.broker.context import Context
from refimpl.broker.control_messages import (
    PartitionState,
)
from refimpl.broker.errors import UnknownTopicOrPartition
from refimpl.broker.fetch import must_stand_in
from refimpl.broker.messages import (
    EARLIEST,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    PartitionMetadata,
    Request,
    TopicPartition,
)
from refimpl.errors import Refusal
from refimpl.machines.replica import Replica


@define(eq=False)
class Metadata:
    """The newest state of each partition that this broker heard of."""

    context: Context
    states: dict[TopicPartition, PartitionState] = field(
        factory=dict[TopicPartition, PartitionState]
    )

    def update(self, state: PartitionState) -> None:
        """Take over what is newer."""
        known = self.states.get(state.partition)
        if known is None or state.decision.partition_epoch > known.decision.partition_epoch:
            self.states[state.partition] = state

    def answer(self, request: Request) -> None:
        """Metadata: who leads what."""
        partitions = [
            PartitionMetadata(
                name,
                "LEADER_NOT_AVAILABLE" if decision.leader is None else None,
                -1 if decision.leader is None else decision.leader,
                decision.leader_epoch,
                decision.isr,
            )
            for name, decision in self.states.values()
        ]
        self.context.respond(request, MetadataResponse(tuple(partitions)))

    def list_offsets(self, request: Request) -> None:
        """ListOffsets: where a consumer may begin, or where what is committed ends."""
        body: ListOffsetsRequest = request.body
        results: list[tuple[TopicPartition, str | None, int]] = []
        for name, timestamp in body.partitions:
            try:
                replica = self._led(name, -1)
            except Refusal as refusal:
                results.append((name, refusal.kafka_error, -1))
                continue
            earliest = timestamp == EARLIEST
            offset = replica.log.start if earliest else replica.high_watermark
            results.append((name, None, offset))
        self.context.respond(request, ListOffsetsResponse(tuple(results)))

    def offset_for_leader_epoch(self, request: Request) -> None:
        """OffsetForLeaderEpoch: where an epoch ends in the leader's log (KIP-101, KIP-320)."""
        body: OffsetForLeaderEpochRequest = request.body
        results: list[tuple[TopicPartition, str | None, int, int]] = []
        for name, current, epoch in body.partitions:
            try:
                log = self._led(name, current).log
            except Refusal as refusal:
                results.append((name, refusal.kafka_error, -1, -1))
                continue
            found = log.end_of(epoch)
            results.append((name, None, found.epoch, found.end))
        self.context.respond(request, OffsetForLeaderEpochResponse(tuple(results)))

    def _led(self, name: TopicPartition, leader_epoch: int) -> Replica:
        partition = self.context.partitions.get(name)
        if partition is None:
            raise UnknownTopicOrPartition(self.context.id, name)
        must_stand_in(partition, leader_epoch)
        return partition.replica
