"""One partition at one broker: its replica, the leader's view of followers, and waiting fetches."""

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
"""The number of fetches that may wait at a partition before answered ones are removed."""


@define(eq=False, repr=False)
class Partition:
    """The parts of a partition that need a clock or a memory; the protocol's rules are the
    replica's.

    `log` is the replica's own, with the operations that clients need.
    """

    name: TopicPartition
    replica: Replica
    log: BrokerLog
    #: The id of its topic; empty until the metadata arrives
    topic_id: bytes = b""
    #: The number of replicas with which it was configured; -1 before that
    configured_for: int = -1

    # As leader: the time of each follower's last fetch at our log end, and its last fetch: (time,
    # end)
    caught_up: dict[int, int] = field(factory=dict[int, int])
    last_fetch: dict[int, tuple[int, int]] = field(factory=dict[int, tuple[int, int]])
    #: As leader: the log start offset that each follower reports
    log_starts: dict[int, int] = field(factory=dict[int, int])
    #: The time when the pending change of the ISR was last sent to the controller
    altered_at: int = 0
    #: acks=all batches that wait for the high watermark, in the order of their offsets
    waiting_batches: deque[WaitingBatch] = field(factory=deque[WaitingBatch])
    #: Fetches that wait for records
    waiting_fetches: list[DelayedFetch] = field(factory=lambda: list["DelayedFetch"]())
    #: The number of waiting fetches at which those that are answered are removed
    most_fetches: int = FEW_FETCHES
    #: DeleteRecords requests that wait for followers, each with its offset
    waiting_deletes: list[tuple[int, DelayedDelete]] = field(
        factory=list[tuple[int, DelayedDelete]]
    )

    #: Called when the high watermark moves: the coordinator of this partition
    on_commit: Callable[[int, Partition], None] | None = None

    @property
    def last_stable_offset(self) -> int:
        """The offset below which every transaction is decided (read_committed)."""
        return self.log.last_stable_offset(self.replica.high_watermark)

    def wait(self, fetch: DelayedFetch) -> None:
        """Let a fetch wait for new records.

        Waiting fetches may be answered elsewhere, or by their timeout. At an idle partition nobody
        looks at them, so they are removed when they may be half of all.
        """
        waiting = self.waiting_fetches
        if len(waiting) >= self.most_fetches:
            waiting[:] = [one for one in waiting if not one.completed]
            self.most_fetches = max(FEW_FETCHES, 2 * len(waiting))
        waiting.append(fetch)

    def may_be_read(self, *, at_follower: bool) -> bool:
        """True if consumers may read here: at the leader, or, if allowed, at any replica with a
        role (KIP-392).
        """
        replica = self.replica
        return replica.leads or (at_follower and replica.up and replica.leader is not None)

    def fetchable_end(self, isolation_level: int) -> int:
        """The offset below which a consumer may read."""
        if isolation_level == READ_COMMITTED:
            return self.last_stable_offset
        return self.replica.high_watermark

    def lead_from(self, now: int) -> None:
        """Reset the leader's knowledge of followers, at the beginning of its epoch."""
        self.caught_up = dict.fromkeys(self.replica.isr, now)
        self.last_fetch, self.log_starts = {}, {}

    def heard(self, now: int, follower: int, end: int, log_start: int) -> None:
        """Take a follower's fetch from `end`: it is caught up now, or was at its last fetch.

        A follower that has reached the log end of its last fetch keeps up, even if writes go on
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

    `asked` is a follower's request as the leader counted it, and `decided` the answer if there is
    nothing to read. A consumer that is allowed to reads `at_follower`.
    """

    remembered: SessionPartition
    partition: Partition | None
    at_follower: bool
    asked: FetchRequest | None = None
    decided: FetchedPartition | None = None

    def has_records(self, isolation_level: int) -> bool:
        """True if there are records to read."""
        partition, asked = self.partition, self.asked
        assert partition is not None
        if asked is not None:
            return partition.log.end > asked.end
        return partition.fetchable_end(isolation_level) > self.remembered.wanted.fetch_offset

    def is_settled(self) -> bool:
        """True if an answer needs no further record.

        It has an error, a truncation, or, for a follower, another high watermark or log start.
        """
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
        """The amount to read, in the log's unit."""
        partition, asked = self.partition, self.asked
        assert partition is not None
        log, wanted = partition.log, self.remembered.wanted
        offset = wanted.fetch_offset if asked is None else asked.end
        end = log.end if asked is not None else partition.fetchable_end(isolation_level)
        return min(log.size_between(offset, end), wanted.max_bytes)


@define(eq=False)
class DelayedFetch:
    """A Fetch request without enough to read yet."""

    request: Request
    parts: list[FetchPart]
    session: FetchSession | None
    completed: bool = False

    def news(self, isolation_level: int) -> list[FetchPart]:
        """The partitions whose answer would differ from the last one."""
        return [one for one in self.parts if one.is_settled() or one.has_records(isolation_level)]

    def is_served(self, news: Sequence[FetchPart], min_bytes: int, isolation_level: int) -> bool:
        """True if the request can be answered: there is enough to read, or something other than
        records to report.
        """
        if not news:
            return min_bytes <= 0
        if min_bytes <= 1 or any(one.is_settled() for one in news):
            return True
        return sum(one.available(isolation_level) for one in news) >= min_bytes
