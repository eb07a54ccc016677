"""One partition at one broker: its replica, and what a leader remembers of time and of requests."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from attrs import define, field

from refimpl.broker.logs import BrokerLog
from refimpl.broker.messages import READ_COMMITTED, TopicPartition
from refimpl.machines.replica import Replica

if TYPE_CHECKING:
    from refimpl.broker.delayed import DelayedDelete, DelayedFetch, WaitingBatch

FEW_FETCHES = 8
"""So many fetches may wait at a partition before it is looked which are answered."""


@define(eq=False)
class Partition:
    """The protocol's rules are the replica's; here is what it needs a clock and a memory for.

    `log` is the replica's own, with what clients ask of it.
    """

    name: TopicPartition
    replica: Replica
    log: BrokerLog
    #: The id of its topic; none until the metadata tells
    topic_id: bytes = b""

    # As leader: when each follower was last at our log end, and its last fetch: (when, our end)
    caught_up: dict[int, int] = field(factory=dict[int, int])
    last_fetch: dict[int, tuple[int, int]] = field(factory=dict[int, tuple[int, int]])
    #: As leader: where each follower's log starts, as it says
    log_starts: dict[int, int] = field(factory=dict[int, int])
    #: When the pending change of the ISR was last put to the controller
    altered_at: int = 0
    #: acks=all batches that wait for the high watermark, in the order of their offsets
    waiting_batches: deque[WaitingBatch] = field(factory=lambda: deque["WaitingBatch"]())
    #: Fetches that wait for records
    waiting_fetches: list[DelayedFetch] = field(factory=lambda: list["DelayedFetch"]())
    #: How many of them there may be before those that are answered are taken out
    most_fetches: int = FEW_FETCHES
    #: DeleteRecords requests that wait for followers, each with the offset that it wants
    waiting_deletes: list[tuple[int, DelayedDelete]] = field(
        factory=lambda: list[tuple[int, "DelayedDelete"]]()
    )

    #: Who else is told when the high watermark moves: the group coordinator of this partition
    on_commit: Callable[[int, Partition], None] | None = None

    @property
    def last_stable_offset(self) -> int:
        """Below this offset every transaction is decided (read_committed)."""
        return self.log.last_stable_offset(self.replica.high_watermark)

    def wait(self, fetch: DelayedFetch) -> None:
        """Have a fetch answered when there is news.

        Others were answered elsewhere, or for their time. Where nothing happens for long nobody
        looks at them, so they are taken out when they may be half of all.
        """
        waiting = self.waiting_fetches
        if len(waiting) >= self.most_fetches:
            waiting[:] = [one for one in waiting if not one.completed]
            self.most_fetches = max(FEW_FETCHES, 2 * len(waiting))
        waiting.append(fetch)

    def may_be_read(self, *, at_follower: bool) -> bool:
        """Whether consumers read here: at the leader, or, if they may, at any replica with a role
        (KIP-392)."""
        replica = self.replica
        return replica.leads or (at_follower and replica.up and replica.leader is not None)

    def fetchable_end(self, isolation_level: int) -> int:
        """How far a consumer may read."""
        if isolation_level == READ_COMMITTED:
            return self.last_stable_offset
        return self.replica.high_watermark

    def lead_from(self, now: int) -> None:
        """A leader's clocks start with its epoch."""
        self.caught_up = dict.fromkeys(self.replica.isr, now)
        self.last_fetch, self.log_starts = {}, {}

    def heard(self, now: int, follower: int, end: int, log_start: int) -> None:
        """A follower has fetched from `end`: it is caught up now, or was at its last fetch.

        Who fetches what was the end when it last fetched keeps up, though writes go on
        (KAFKA-1546).
        """
        log_end = self.replica.log.end
        if end >= log_end:
            self.caught_up[follower] = now
        else:
            when, then = self.last_fetch.get(follower, (0, log_end))
            if end >= then:
                self.caught_up[follower] = max(when, self.caught_up.get(follower, 0))
        self.last_fetch[follower] = now, log_end
        self.log_starts[follower] = log_start

    def laggards(self, since: int) -> list[int]:
        """Followers in the ISR that have not been caught up since then."""
        replica = self.replica
        return [
            follower
            for follower in sorted(replica.isr)
            if follower != replica.id and self.caught_up.get(follower, 0) < since
        ]
