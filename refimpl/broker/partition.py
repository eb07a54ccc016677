"""One partition at one broker: its replica, what a leader remembers, and the fetches that wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from attrs import define, field

from refimpl.broker.delayed import DelayedDelete, WaitingBatch
from refimpl.broker.logs import BrokerLog
from refimpl.broker.sessions import FetchSession, SessionPartition
from refimpl.machines.messages import FetchRequest
from refimpl.machines.replica import Replica
from refimpl.messages.broker import READ_COMMITTED, FetchedPartition, Request, TopicPartition

FEW_FETCHES = 8
"""So many fetches may wait at a partition before it is looked which are answered."""


@define(eq=False, repr=False)
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
    waiting_batches: deque[WaitingBatch] = field(factory=deque[WaitingBatch])
    #: Fetches that wait for records
    waiting_fetches: list[DelayedFetch] = field(factory=lambda: list["DelayedFetch"]())
    #: How many of them there may be before those that are answered are taken out
    most_fetches: int = FEW_FETCHES
    #: DeleteRecords requests that wait for followers, each with the offset that it wants
    waiting_deletes: list[tuple[int, DelayedDelete]] = field(
        factory=list[tuple[int, DelayedDelete]]
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


@define(eq=False)
class FetchPart:
    """One partition of a Fetch request.

    `asked` is a follower's request as the leader counted it, and `decided` the answer where that
    left nothing to read. A consumer that may reads `at_follower`.
    """

    remembered: SessionPartition
    partition: Partition | None
    at_follower: bool
    asked: FetchRequest | None = None
    decided: FetchedPartition | None = None

    def has_records(self, isolation_level: int) -> bool:
        """Whether there is something to read."""
        partition, asked = self.partition, self.asked
        assert partition is not None
        if asked is not None:
            return partition.log.end > asked.end
        return partition.fetchable_end(isolation_level) > self.remembered.wanted.fetch_offset

    def is_settled(self) -> bool:
        """Whether there is an answer that no record has to be waited for: an error, a cut, or news
        of the high watermark and of the log start for a follower."""
        partition, remembered, asked = self.partition, self.remembered, self.asked
        if partition is None or self.decided is not None or remembered.failed:
            return True
        replica = partition.replica
        if asked is None:
            told_all = remembered.wanted.fetch_offset <= replica.log.end
            return not (told_all and partition.may_be_read(at_follower=self.at_follower))
        return not (
            replica.high_watermark == remembered.high_watermark
            and replica.epoch == asked.epoch
            and replica.leads
            and replica.log.start == remembered.log_start_offset
        )

    def available(self, isolation_level: int) -> int:
        """How much there is to read, in the log's unit."""
        partition, asked = self.partition, self.asked
        assert partition is not None
        log, wanted = partition.log, self.remembered.wanted
        offset = wanted.fetch_offset if asked is None else asked.end
        end = log.end if asked is not None else partition.fetchable_end(isolation_level)
        return min(log.size_between(offset, end), wanted.max_bytes)


@define(eq=False)
class DelayedFetch:
    """A Fetch request for which there is nothing to read yet."""

    request: Request
    parts: list[FetchPart]
    session: FetchSession | None
    completed: bool = False

    def news(self, isolation_level: int) -> list[FetchPart]:
        """The partitions of which an answer would say something else than the last one did."""
        return [one for one in self.parts if one.is_settled() or one.has_records(isolation_level)]

    def is_served(self, news: Sequence[FetchPart], min_bytes: int, isolation_level: int) -> bool:
        """Whether it can be answered: there is enough to read, or something other than records to
        tell."""
        if not news:
            return min_bytes <= 0
        if min_bytes <= 1 or any(one.is_settled() for one in news):
            return True
        return sum(one.available(isolation_level) for one in news) >= min_bytes
