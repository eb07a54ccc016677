"""The leader's side of a partition: commit, keep the ISR, and release who waits for either."""

from attrs import define

from refimpl.broker.context import CONTROLLER, Context
from refimpl.broker.fetch import Fetches
from refimpl.broker.messages import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    Response,
)
from refimpl.broker.observations import HighWatermarkAdvanced, Ignored, IsrAltered, Refused
from refimpl.broker.partition import Partition
from refimpl.broker.produce import Produces
from refimpl.errors import Refusal


@define(eq=False)
class Leader:
    """What a broker does for the partitions that it leads."""

    context: Context
    produces: Produces
    fetches: Fetches

    def heard(self, now: int, partition: Partition, follower: int, end: int) -> None:
        """A follower has shown how far it is: something may be committed, it may be in sync."""
        replica = partition.replica
        partition.heard(now, follower, end)
        if replica.log.end > replica.high_watermark:
            self.advance_high_watermark(now, partition)
        if follower not in replica.isr and not partition.altering:
            self._expand_isr(partition, follower)

    def appended(self, now: int, partition: Partition) -> None:
        """New records: followers may have them, and a leader alone in the ISR commits them."""
        replica = partition.replica
        if len(replica.isr) == 1:
            self.advance_high_watermark(now, partition)
        self.fetches.check(now, partition)

    def advance_high_watermark(self, now: int, partition: Partition) -> None:
        """Commit what all in sync have, and release who waits for it."""
        replica = partition.replica
        old = replica.high_watermark
        try:
            new = replica.advance_high_watermark()
        except Refusal:
            return
        self.context.outputs.append(HighWatermarkAdvanced(partition.name, old, new))
        self.produces.committed(partition)
        self.fetches.check(now, partition)

    # The ISR

    def shrink_isrs(self, now: int) -> None:
        """Take out who was not caught up for replica.lag.time.max.ms, one at a time."""
        since = now - self.context.config.replica_lag_time_max_ms
        for partition in self.context.partitions.values():
            if not partition.replica.leads or partition.altering:
                continue
            for follower in partition.laggards(since)[:1]:
                self._alter(partition, partition.replica.shrink_isr(follower))

    def _expand_isr(self, partition: Partition, follower: int) -> None:
        try:
            isr = partition.replica.expand_isr(follower)
        except Refusal:
            return
        self._alter(partition, isr)

    def _alter(self, partition: Partition, isr: frozenset[int]) -> None:
        """Put a new ISR to the controller, naming the incarnations that we heard of (KIP-903)."""
        replica = partition.replica
        members = tuple([(member, replica.seen.get(member, -1)) for member in sorted(isr)])
        context = self.context
        partition.altering = context.requests + 1
        context.request(
            CONTROLLER,
            AlterPartitionRequest(
                context.id,
                context.broker_epoch,
                partition.name,
                replica.epoch,
                partition.partition_epoch,
                members,
            ),
        )

    def altered(self, now: int, response: Response) -> None:
        """The controller has answered."""
        answer: AlterPartitionResponse = response.body
        partition = self.context.partitions[answer.partition]
        replica = partition.replica
        if partition.altering != response.correlation_id or not replica.leads:
            self.context.outputs.append(Ignored("AlterPartition answers nobody waits for"))
            return
        partition.altering = 0
        if answer.error is not None:
            self.context.outputs.append(Refused("AlterPartition", answer.error))
            return
        old = replica.isr
        replica.adopt_isr(answer.isr)
        partition.partition_epoch = answer.partition_epoch
        for follower in sorted(old ^ answer.isr):
            joined = follower in answer.isr
            self.context.outputs.append(IsrAltered(partition.name, follower, joined))
        if replica.log.end > replica.high_watermark:
            self.advance_high_watermark(now, partition)
