"""Fetch: give followers and consumers the records that they may have, or let them wait.

A follower's request does two things: it reports the follower's log end offset, which counts at
once, and it asks for records, which may have to wait (KIP-227, KIP-320, KIP-595).
"""

from collections.abc import Callable

from attrs import define, field

from refimpl.broker.context import Context
from refimpl.broker.errors import InvalidMaxBytes, NotLeaderOrFollower
from refimpl.broker.metadata import Metadata
from refimpl.broker.partition import DelayedFetch, FetchPart, Partition
from refimpl.broker.replica_selector import RACK_AWARE, preferred_read_replica
from refimpl.broker.sessions import FetchSessions
from refimpl.errors import FencedLeaderEpoch, Refusal
from refimpl.machines.messages import FetchRequest as ReplicaFetch
from refimpl.machines.replica_errors import UnknownLeaderEpoch
from refimpl.machines.replica_log import EpochEnd, Records
from refimpl.messages.broker import (
    CONSUMER,
    NEW_SESSION,
    READ_COMMITTED,
    FetchedPartition,
    FetchRequest,
    FetchResponse,
    Request,
)
from refimpl.messages.observations import FetchAnswered, FetchHeard, RecordsRead
from refimpl.named import named

NO_EPOCH = -1
Heard = Callable[[int, Partition, int, int, int], None]
"""Called after a follower's fetch was counted: (now, partition, follower, its end, its log
start).
"""


@define(eq=False)
class Fetches:
    """The Fetch requests of one broker."""

    context: Context
    #: Racks of brokers; a consumer is sent to a replica in its own rack if that is configured
    metadata: Metadata
    sessions: FetchSessions = field(init=False)
    #: Called when a partition has more to read, or another role
    on_change: Callable[[int, Partition], None] | None = None

    def __attrs_post_init__(self) -> None:
        """Begin without sessions."""
        self.sessions = FetchSessions(self.context.config.fetch_session_slots)

    def fetch(self, now: int, request: Request, heard: Heard) -> DelayedFetch | None:
        """Answer a Fetch request, or return it if it has to wait."""
        body: FetchRequest = request.body
        try:
            session, wanted = self.sessions.resolve(body)
        except Refusal as refusal:
            self.context.refused("Fetch", refusal)
            self.context.respond(request, FetchResponse((), 0, refusal.kafka_error))
            return None
        partitions = self.context.partitions
        at_follower = body.rack_id is not None
        parts = [
            FetchPart(one, partitions.get(one.wanted.partition), at_follower) for one in wanted
        ]
        fetch = DelayedFetch(request, parts, session)
        for part in parts if body.denied else ():
            name = part.remembered.wanted.partition
            if name.topic in body.denied:
                part.decided = FetchedPartition(name, "TOPIC_AUTHORIZATION_FAILED")
        if body.replica_id >= 0:
            for part in parts:
                if part.decided is None:
                    self._hear(now, request, part, heard)
        elif body.rack_id and self.context.config.replica_selector_class == RACK_AWARE:
            for part in parts:
                if part.decided is None:
                    self._prefer(part, body.rack_id)
        must_answer = body.session_epoch == NEW_SESSION or body.max_wait_ms <= 0 or not parts
        if self._try(fetch, must_answer=must_answer):
            return None
        for part in parts:
            if part.partition is not None:
                part.partition.wait(fetch)
        return fetch

    def check(self, now: int, partition: Partition) -> None:
        """Answer the waiting fetches that a change of the partition serves."""
        if self.on_change is not None:
            self.on_change(now, partition)
        waiting = partition.waiting_fetches
        if waiting:
            partition.waiting_fetches = []
            partition.waiting_fetches += [
                fetch
                for fetch in waiting
                if not fetch.completed and not self._try(fetch, must_answer=False)
            ]

    def expire(self, fetch: DelayedFetch) -> None:
        """Answer with the records that are there, because the wait is over."""
        if not fetch.completed:
            self._try(fetch, must_answer=True)

    # A follower's progress

    def _hear(self, now: int, request: Request, part: FetchPart, heard: Heard) -> None:
        """Let the replica take note of the follower's log end offset."""
        body: FetchRequest = request.body
        remembered, follower = part.remembered, body.replica_id
        name, end, leader_epoch, last_epoch, number, _, log_start = remembered.wanted
        number = remembered.number if number else request.correlation_id
        if leader_epoch < 0 and part.partition is not None:
            if not self._is_replica(part.partition, follower):
                part.decided = FetchedPartition(name, NotLeaderOrFollower.kafka_error)
                return
            leader_epoch = part.partition.replica.epoch
        if follower == self.context.id:
            part.decided = FetchedPartition(name, NotLeaderOrFollower.kafka_error)
            return
        said = follower, body.replica_epoch, number, leader_epoch, end, last_epoch
        asked = named(ReplicaFetch, said)
        try:
            partition = part.partition or self.context.partition(name)
            replica = partition.replica
            known = replica.seen.get(follower, 0)
            diverging = replica.hear_fetch(asked)
        except Refusal as refusal:
            self.context.refused("Fetch", refusal)
            part.decided = FetchedPartition(name, refusal.kafka_error)
            return
        part.asked = asked
        seen = named(FetchHeard, (name, asked, diverging is not None, known))
        self.context.outputs.append(seen)
        if diverging is None:
            heard(now, partition, follower, end, log_start)
        else:
            part.decided = _fetched(partition, (), diverging)

    def _is_replica(self, partition: Partition, broker: int) -> bool:
        """True if this broker has a replica, so that it may fetch without naming an epoch."""
        known = self.metadata.partitions.get(partition.name)
        return known is not None and broker in known.replicas

    # A consumer is sent elsewhere

    def _prefer(self, part: FetchPart, rack_id: str) -> None:
        """Name a follower in the consumer's rack instead of reading here."""
        partition, wanted = part.partition, part.remembered.wanted
        if partition is None:
            return
        try:
            must_stand_in(partition, wanted.current_leader_epoch)
        except Refusal:
            return  # reading reports the error
        brokers = self.metadata.brokers
        preferred = preferred_read_replica(partition, rack_id, wanted.fetch_offset, brokers)
        if preferred is not None:
            part.decided = _fetched(partition, ())._replace(preferred_read_replica=preferred)

    # Reading

    def _try(self, fetch: DelayedFetch, *, must_answer: bool) -> bool:
        """Answer if there is something new or it must; True if it did.

        In a session that goes on, partitions without changes are left out (KIP-227).
        """
        body: FetchRequest = fetch.request.body
        isolation_level = body.isolation_level
        news = fetch.news(isolation_level)
        if not must_answer and not fetch.is_served(news, body.min_bytes, isolation_level):
            return False
        results: list[FetchedPartition] = []
        answered: list[FetchAnswered] = []
        room, empty = min(body.max_bytes, self.context.config.fetch_max_bytes), True
        for part in news if body.session_epoch > NEW_SESSION else fetch.parts:
            result = part.decided or self._read(part, isolation_level, room, empty)
            if result.records:
                assert part.partition is not None
                empty = False
                room = max(room - part.partition.log.size_of(result.records), 0)
                if fetch.session is not None:
                    fetch.session.served(result.partition)
            results.append(result)
            part.remembered.answered(result)
            if part.asked is not None and result.error is None:
                answered.append(named(FetchAnswered, (result.partition, part.asked)))
        fetch.completed = True
        self.context.outputs += answered
        session_id = fetch.session.id if fetch.session else 0
        response = named(FetchResponse, (tuple(results), session_id, None))
        self.context.respond(fetch.request, response)
        return True

    def _read(
        self, part: FetchPart, isolation_level: int, room: int, empty: bool
    ) -> FetchedPartition:
        """Read the next records; the first batch of an answer may exceed the room that is left."""
        name = part.remembered.wanted.partition
        try:
            partition = self.context.partition(name)
            limit = min(part.remembered.wanted.max_bytes, room)
            if limit < 0 and part.partition is not None and part.has_records(isolation_level):
                raise InvalidMaxBytes(limit)
            if empty:
                limit = max(limit, 1)
            if part.asked is None:
                return self._for_consumer(partition, part, isolation_level, limit, empty)
            return self._for_follower(partition, part.asked, limit, empty)
        except Refusal as refusal:
            self.context.refused("Fetch", refusal)
            return FetchedPartition(name, refusal.kafka_error)

    def _for_follower(
        self, partition: Partition, asked: ReplicaFetch, limit: int, empty: bool
    ) -> FetchedPartition:
        """The next records, if we still lead in the epoch of the fetch."""
        replica = partition.replica
        if not replica.leads:
            raise NotLeaderOrFollower(replica.id, partition.name)
        if asked.epoch != replica.epoch:
            raise FencedLeaderEpoch(asked.replica, asked.epoch, replica.epoch)
        records = _within(partition, replica.log.slice(asked.end, limit), limit, empty)
        return _fetched(partition, records)

    def _for_consumer(
        self, partition: Partition, part: FetchPart, isolation_level: int, limit: int, empty: bool
    ) -> FetchedPartition:
        """The next committed records, if we lead, or the consumer may read at followers.

        With read_committed they end at the last stable offset.
        """
        wanted = part.remembered.wanted
        must_stand_in(partition, wanted.current_leader_epoch, at_follower=part.at_follower)
        offset, log = wanted.fetch_offset, partition.log
        diverging = partition.replica.diverging(offset, wanted.last_fetched_epoch)
        if diverging is not None:
            return _fetched(partition, (), diverging)
        end = partition.fetchable_end(isolation_level)
        records: Records = ()
        if offset < end:
            records = _within(partition, log.slice(offset, limit, end), limit, empty)
        if records:
            self.context.outputs.append(RecordsRead(partition.name, offset, records))
        fetched = _fetched(partition, records)
        if records and isolation_level == READ_COMMITTED:
            return fetched._replace(aborted_transactions=log.aborted_transactions(offset, end))
        return fetched


def _fetched(
    partition: Partition, records: Records, diverging: EpochEnd | None = None
) -> FetchedPartition:
    log, high_watermark = partition.log, partition.replica.high_watermark
    stable = log.last_stable_offset(high_watermark)
    told = partition.name, None, high_watermark, stable, log.start, (), records, diverging, -1
    return named(FetchedPartition, told)


def _within(partition: Partition, records: Records, limit: int, empty: bool) -> Records:
    """The records; empty if a first batch above the limit is not the first of the answer."""
    return records if empty or partition.log.size_of(records) <= limit else ()


def must_stand_in(
    partition: Partition, leader_epoch: int = -1, *, at_follower: bool = False
) -> None:
    """Raise a refusal unless this replica may be read.

    It must be in the leader epoch that the client names, if any, and lead, or follow if that is
    enough.
    """
    replica = partition.replica
    if NO_EPOCH != leader_epoch < replica.epoch:
        raise FencedLeaderEpoch(CONSUMER, leader_epoch, replica.epoch)
    if leader_epoch > replica.epoch:
        raise UnknownLeaderEpoch(CONSUMER, leader_epoch, replica.epoch)
    if not partition.may_be_read(at_follower=at_follower):
        raise NotLeaderOrFollower(replica.id, partition.name)
