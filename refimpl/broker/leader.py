"""The leader's side of a partition: commit, keep the ISR, and release who waits for either."""

from attrs import define, field

from refimpl.broker.context import Context
from refimpl.broker.delete_records import Deletes
from refimpl.broker.fetch import Fetches
from refimpl.broker.partition import Partition
from refimpl.broker.produce import Produces
from refimpl.errors import Refusal
from refimpl.machines import messages as machines
from refimpl.messages.broker import (
    Response,
)
from refimpl.messages.controller import (
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from refimpl.messages.observations import (
    HighWatermarkAdvanced,
    IsrAltered,
    IsrAnswerTaken,
    IsrAsked,
    Refused,
)
from refimpl.named import named


@define(eq=False)
class Leader:
    """What a broker does for the partitions that it leads."""

    context: Context
    produces: Produces
    fetches: Fetches
    deletes: Deletes
    #: AlterPartition requests without an answer, by correlation id
    asked: dict[int, machines.AlterPartitionRequest] = field(
        factory=dict[int, machines.AlterPartitionRequest]
    )

    def heard(
        self, now: int, partition: Partition, follower: int, end: int, log_start: int
    ) -> None:
        """A follower has shown how far it is: something may be committed, it may be in sync.

        It is not let into the ISR while its log starts before ours: what it has there nobody has
        compared, and if it led it would show what is deleted.
        """
        replica = partition.replica
        partition.heard(now, follower, end, log_start)
        if partition.waiting_deletes:
            self.deletes.check(partition)
        if end > replica.high_watermark:
            self.advance_high_watermark(now, partition)
        may_join = follower not in replica.isr and replica.pending is None
        if may_join and max(log_start, 0) >= replica.log.start:
            self._expand_isr(now, partition, follower)

    def appended(self, now: int, partition: Partition) -> None:
        """New records: followers may have them, and a leader alone in the ISR commits them."""
        replica = partition.replica
        if len(replica.maximal_isr) == 1:
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
        self.context.outputs.append(named(HighWatermarkAdvanced, (partition.name, old, new)))
        self.produces.committed(partition)
        self.fetches.check(now, partition)
        if partition.on_commit is not None:
            partition.on_commit(now, partition)

    # The ISR

    def keep_isrs(self, now: int) -> None:
        """Take out who was not caught up for replica.lag.time.max.ms, one at a time; and ask again
        for what has no answer."""
        since = now - self.context.config.replica_lag_time_max_ms
        for partition in self.context.partitions.values():
            replica = partition.replica
            if not replica.leads:
                continue
            if replica.pending is not None:
                if now - partition.altered_at > self.context.config.broker_heartbeat_interval_ms:
                    self._ask(now, partition, replica.pending, again=True)
                continue
            for follower in partition.laggards(since)[:1]:
                self._ask(now, partition, replica.shrink_isr(follower))

    def _expand_isr(self, now: int, partition: Partition, follower: int) -> None:
        try:
            change = partition.replica.expand_isr(follower)
        except Refusal:
            return
        self._ask(now, partition, change)

    def _ask(
        self,
        now: int,
        partition: Partition,
        change: machines.AlterPartitionRequest,
        *,
        again: bool = False,
    ) -> None:
        """Put a change of the ISR to the controller (KIP-497)."""
        partition.altered_at = now
        self.context.outputs.append(IsrAsked(partition.name, change, again))
        body = AlterPartitionRequest(partition.name, change, partition.topic_id)
        number = self.context.request(self.context.controller, body)
        self.asked[number] = change

    def altered(self, now: int, response: Response) -> None:
        """The controller has answered."""
        answer: AlterPartitionResponse = response.body
        partition = self.context.partitions.get(answer.partition)
        change, outcome = self.asked.pop(response.correlation_id, None), answer.outcome
        if outcome.error is not None:
            self.context.outputs.append(Refused("AlterPartition", outcome.error))
        if partition is None or change is None:  # a second copy of an answer
            return
        replica = partition.replica
        isr = replica.isr
        try:
            replica.take_isr_answer(change, outcome)
        except Refusal:
            return
        self.context.outputs.append(IsrAnswerTaken(partition.name))
        self.settled(now, partition, isr)

    def settled(self, now: int, partition: Partition, isr: frozenset[int]) -> None:
        """The ISR is no longer what it was: who left it is not waited for, and it may be large
        enough again."""
        replica = partition.replica
        for follower in sorted(isr ^ replica.isr):
            joined = follower in replica.isr
            self.context.outputs.append(IsrAltered(partition.name, follower, joined))
        self.deletes.check(partition)
        if replica.log.end > replica.high_watermark:
            self.advance_high_watermark(now, partition)
