"""Fetch: give followers and consumers what they may have, or let them wait for it.

A follower's request says two things: how far its log reaches, which is heard at once, and that it
wants more, which may have to wait (KIP-227, KIP-320, KIP-595).
"""

from collections.abc import Callable

from attrs import define, field

from refimpl.broker.context import Context
from refimpl.broker.delayed import DelayedFetch, FetchPart
from refimpl.broker.errors import NotLeader, UnknownTopicOrPartition
from refimpl.broker.messages import (
    CONSUMER,
    NEW_SESSION,
    FetchedPartition,
    FetchRequest,
    FetchResponse,
    Request,
)
from refimpl.broker.observations import FetchAnswered, FetchHeard, RecordsRead, Refused
from refimpl.broker.partition import Partition
from refimpl.broker.sessions import FetchSessions, SessionPartition
from refimpl.errors import FencedLeaderEpoch, OutsideLog, Refusal
from refimpl.machines.messages import FetchRequest as ReplicaFetch
from refimpl.machines.replica_errors import UnknownLeaderEpoch

Heard = Callable[[int, Partition, int, int], None]
"""What is done once a follower was heard: (now, partition, follower, its end)."""


@define(eq=False)
class Fetches:
    """The Fetch requests of one broker."""

    context: Context
    sessions: FetchSessions = field(init=False)

    def __attrs_post_init__(self) -> None:
        """No sessions yet."""
        self.sessions = FetchSessions(self.context.config.fetch_session_slots)

    def fetch(self, now: int, request: Request, heard: Heard) -> DelayedFetch | None:
        """Answer a Fetch, or answer what has to wait."""
        body: FetchRequest = request.body
        try:
            session, wanted = self.sessions.resolve(body)
        except Refusal as refusal:
            self.context.outputs.append(Refused("Fetch", refusal.kafka_error))
            self.context.respond(request, FetchResponse((), 0, refusal.kafka_error))
            return None
        partitions = self.context.partitions
        parts = [FetchPart(one, partitions.get(one.wanted.partition)) for one in wanted]
        fetch = DelayedFetch(request, parts, session)
        if body.replica_id != CONSUMER:
            for part in parts:
                self._hear(now, request, part, heard)
        must_answer = body.session_epoch == NEW_SESSION or body.max_wait_ms == 0
        if self._try(fetch, must_answer=must_answer):
            return None
        for part in parts:
            if part.partition is not None:
                part.partition.waiting_fetches.append(fetch)
        return fetch

    def check(self, now: int, partition: Partition) -> None:
        """Something in a partition has changed: answer whom that serves."""
        waiting = partition.waiting_fetches
        if waiting:
            partition.waiting_fetches = []
            partition.waiting_fetches += [
                fetch
                for fetch in waiting
                if not fetch.completed and not self._try(fetch, must_answer=False)
            ]

    def expire(self, fetch: DelayedFetch) -> None:
        """The wait is over: answer with what there is."""
        if not fetch.completed:
            self._try(fetch, must_answer=True)

    # A follower is heard

    def _hear(self, now: int, request: Request, part: FetchPart, heard: Heard) -> None:
        """Let the replica hear where the follower's log ends."""
        wanted = part.remembered.wanted
        try:
            if part.partition is None:
                raise UnknownTopicOrPartition(self.context.id, wanted.partition)
            self._hear_one(now, request, part, part.partition, heard)
        except Refusal as refusal:
            self.context.outputs.append(Refused("Fetch", refusal.kafka_error))
            part.decided = FetchedPartition(wanted.partition, refusal.kafka_error)

    def _hear_one(
        self, now: int, request: Request, part: FetchPart, partition: Partition, heard: Heard
    ) -> None:
        body: FetchRequest = request.body
        wanted, number = part.remembered.wanted, part.remembered.number
        follower, replica = body.replica_id, partition.replica
        asked = ReplicaFetch(
            follower,
            body.replica_epoch,
            number,
            wanted.current_leader_epoch,
            wanted.fetch_offset,
            wanted.last_fetched_epoch,
        )
        known = replica.seen.get(follower, 0)
        answer = replica.answer_fetch(asked, 0)
        diverging = answer.diverging
        name = partition.name
        self.context.outputs.append(FetchHeard(name, asked, diverging is not None, known))
        part.asked = asked
        if diverging is not None:
            part.decided = FetchedPartition(name, None, answer.high_watermark, (), diverging)
        else:
            heard(now, partition, follower, asked.end)

    # Reading

    def _try(self, fetch: DelayedFetch, *, must_answer: bool) -> bool:
        """Answer, if there is something new or it must be; answers whether it did."""
        request, limit = fetch.request, fetch.request.body.max_records
        results: list[FetchedPartition] = []
        answered: list[FetchAnswered] = []
        for part in fetch.parts:
            if not must_answer and part.has_no_news():
                continue
            result = part.decided or self._read(part, limit)
            results.append(result)
            part.remembered.answered(result)
            if part.asked is not None and result.error is None:
                answered.append(FetchAnswered(result.partition, part.asked))
        if not results and not must_answer:
            return False
        fetch.completed = True
        self.context.outputs += answered
        session = fetch.session
        self.context.respond(request, FetchResponse(tuple(results), session.id if session else 0))
        return True

    def _read(self, part: FetchPart, limit: int) -> FetchedPartition:
        partition = part.partition
        try:
            if partition is None:
                raise UnknownTopicOrPartition(self.context.id, part.remembered.wanted.partition)
            if part.asked is None:
                return self._for_consumer(partition, part.remembered, limit)
            return self._for_follower(partition, part.asked, limit)
        except Refusal as refusal:
            self.context.outputs.append(Refused("Fetch", refusal.kafka_error))
            return FetchedPartition(part.remembered.wanted.partition, refusal.kafka_error)

    def _for_follower(
        self, partition: Partition, asked: ReplicaFetch, limit: int
    ) -> FetchedPartition:
        """What comes next, if we still are the leader that heard it."""
        replica = partition.replica
        if not replica.leads:
            raise NotLeader(replica.id, partition.name)
        if asked.epoch != replica.epoch:
            raise FencedLeaderEpoch(asked.replica, asked.epoch, replica.epoch)
        records = replica.log.slice(asked.end, limit)
        return FetchedPartition(partition.name, None, replica.high_watermark, records)

    def _for_consumer(
        self, partition: Partition, session_partition: SessionPartition, limit: int
    ) -> FetchedPartition:
        """What is committed, if we lead."""
        replica, wanted = partition.replica, session_partition.wanted
        must_stand_in(partition, wanted.current_leader_epoch)
        high_watermark, offset = replica.high_watermark, wanted.fetch_offset
        if not replica.log.start <= offset <= replica.log.end:
            raise OutsideLog(offset, replica.log.start, replica.log.end)
        limit = min(limit, high_watermark - offset)
        records = replica.log.slice(offset, limit, high_watermark) if limit > 0 else ()
        if records:
            self.context.outputs.append(RecordsRead(partition.name, offset, records))
        return FetchedPartition(partition.name, None, high_watermark, records)


def must_stand_in(partition: Partition, leader_epoch: int) -> None:
    """Raise a refusal unless we lead, in the leader epoch that the client knows of, if any."""
    replica = partition.replica
    if not replica.leads:
        raise NotLeader(replica.id, partition.name)
    if 0 <= leader_epoch < replica.epoch:
        raise FencedLeaderEpoch(CONSUMER, leader_epoch, replica.epoch)
    if leader_epoch > replica.epoch:
        raise UnknownLeaderEpoch(CONSUMER, leader_epoch, replica.epoch)
