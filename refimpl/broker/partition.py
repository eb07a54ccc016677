"""One partition at one broker: its replica, and what a leader remembers of time and of requests."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from attrs import define, field

from refimpl.broker.messages import TopicPartition
from refimpl.broker.sequences import Sequences
from refimpl.machines.replica import Replica

if TYPE_CHECKING:
    from refimpl.broker.delayed import DelayedFetch, WaitingBatch


@define(eq=False)
class Partition:
    """The protocol's rules are the replica's; here is what it needs a clock and a memory for."""

    name: TopicPartition
    replica: Replica
    sequences: Sequences = field(factory=Sequences)

    # As leader: when each follower was last at our log end, and its last fetch: (when, our end)
    caught_up: dict[int, int] = field(factory=dict[int, int])
    last_fetch: dict[int, tuple[int, int]] = field(factory=dict[int, tuple[int, int]])
    #: When the pending change of the ISR was last put to the controller
    altered_at: int = 0
    #: acks=all batches that wait for the high watermark, in the order of their offsets
    waiting_batches: deque[WaitingBatch] = field(factory=lambda: deque["WaitingBatch"]())
    #: Fetches that wait for records
    waiting_fetches: list[DelayedFetch] = field(factory=lambda: list["DelayedFetch"]())

    def lead_from(self, now: int) -> None:
        """A leader's clocks start with its epoch."""
        self.caught_up = dict.fromkeys(self.replica.isr, now)
        self.last_fetch = {}

    def heard(self, now: int, follower: int, end: int) -> None:
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

    def laggards(self, since: int) -> list[int]:
        """Followers in the ISR that have not been caught up since then."""
        replica = self.replica
        return [
            follower
            for follower in sorted(replica.isr)
            if follower != replica.id and self.caught_up.get(follower, 0) < since
        ]
