"""What a broker knows of all partitions, and what it tells clients of it."""

from attrs import define, field

from refimpl.broker.context import Context
from refimpl.broker.control_messages import PartitionState
from refimpl.broker.messages import (
    MetadataResponse,
    PartitionMetadata,
    Request,
    TopicPartition,
)


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
