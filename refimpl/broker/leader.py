"""The leader's side of a partition: commit records, keep the ISR, and release waiting requests."""

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
    """A broker's work for the partitions that it leads."""

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
        """Take a follower's log end: records may be committed, and it may join the ISR.

        It does not join the ISR while its log starts before ours. Its records there were compared
        with nobody's, and as a leader it would serve deleted records.
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
        """Let followers fetch new records; a leader alone in the ISR commits them."""
        replica = partition.replica
        if len(replica.maximal_isr) == 1:
            self.advance_high_watermark(now, partition)
        self.fetches.check(now, partition)

    def advance_high_watermark(self, now: int, partition: Partition) -> None:
        """Commit records that all in-sync replicas have, and release the requests that wait for
        them.
        """
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
        """Shrink the ISR by followers that did not catch up within replica.lag.time.max.ms, one at
        a time.

        AlterPartition requests without an answer are sent again.
        """
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
        """Send a change of the ISR to the controller (KIP-497)."""
        partition.altered_at = now
        self.context.outputs.append(IsrAsked(partition.name, change, again))
        body = AlterPartitionRequest(partition.name, change, partition.topic_id)
        number = self.context.request(self.context.controller, body)
        self.asked[number] = change

    def altered(self, now: int, response: Response) -> None:
        """Take the controller's answer to an ISR change."""
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
        """Take a changed ISR: a follower that left it is not waited for, and it may be large enough
        again.
        """
        replica = partition.replica
        for follower in sorted(isr ^ replica.isr):
            joined = follower in replica.isr
            self.context.outputs.append(IsrAltered(partition.name, follower, joined))
        self.deletes.check(partition)
        if replica.log.end > replica.high_watermark:
            self.advance_high_watermark(now, partition)
