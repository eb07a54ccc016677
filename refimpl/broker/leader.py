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
from refimpl.machines.messages import AlterPartitionRequest as Asked
from refimpl.machines.messages import AlterPartitionResponse as Answer


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
        if follower not in replica.isr and replica.pending is None:
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
            replica = partition.replica
            if not replica.leads:
                continue
            if replica.pending is not None:  # no answer yet: it may be lost
                self._alter(partition, replica.pending)
                continue
            for follower in partition.laggards(since)[:1]:
                self._alter(partition, replica.shrink_isr(follower))

    def _expand_isr(self, partition: Partition, follower: int) -> None:
        try:
            request = partition.replica.expand_isr(follower)
        except Refusal:
            return
        self._alter(partition, request)

    def _alter(self, partition: Partition, asked: Asked) -> None:
        """Put the change of the ISR that is pending to the controller, perhaps once more."""
        context = self.context
        partition.altering[context.requests + 1] = asked
        context.request(
            CONTROLLER,
            AlterPartitionRequest(
                asked.broker_id,
                asked.broker_epoch,
                partition.name,
                asked.leader_epoch,
                asked.partition_epoch,
                asked.new_isr,
            ),
        )

    def altered(self, now: int, response: Response) -> None:
        """The controller has answered."""
        body: AlterPartitionResponse = response.body
        partition = self.context.partitions[body.partition]
        replica, asked = partition.replica, partition.altering.get(response.correlation_id)
        if asked is None or asked != replica.pending:
            self.context.outputs.append(Ignored("AlterPartition answers nobody waits for"))
            return
        if body.error is not None:
            self.context.outputs.append(Refused("AlterPartition", body.error))
        old = replica.isr
        answer = Answer(body.error, replica.id, body.leader_epoch, body.isr, body.partition_epoch)
        try:
            replica.take_isr_answer(asked, answer)
        except Refusal:
            return
        self.settled(now, partition, old)

    def settled(self, now: int, partition: Partition, old: frozenset[int]) -> None:
        """The ISR, which was `old`, is settled: whoever waited for it may go on."""
        replica = partition.replica
        partition.altering = {}
        for follower in sorted(old ^ replica.isr):
            joined = follower in replica.isr
            self.context.outputs.append(IsrAltered(partition.name, follower, joined))
        if replica.log.end > replica.high_watermark:
            self.advance_high_watermark(now, partition)
