"""Share partitions at their leader: ShareFetch and ShareAcknowledge (KIP-932).

The rules are those of `refimpl.machines.share_partition`; this module supplies logs, the share
coordinator, sessions and time.
"""

from collections.abc import Callable, Sequence

from attrs import define, field

from refimpl.broker import share_reading
from refimpl.broker.context import Context
from refimpl.broker.errors import NotLeaderOrFollower
from refimpl.broker.metadata import Metadata
from refimpl.broker.partition import Partition
from refimpl.broker.share_persister import SharePersister
from refimpl.broker.share_sessions import (
    AcknowledgedBeforeFetched,
    InvalidShareSessionEpoch,
    ShareSession,
    ShareSessions,
    UnknownSharePartition,
)
from refimpl.errors import Refusal
from refimpl.machines.share_errors import InvalidAcknowledgement, UnknownShareState
from refimpl.machines.share_partition import (
    RENEW,
    Acknowledgement,
    DeliveryState,
    PersisterStateBatch,
    SharePartition,
    ShareWrite,
)
from refimpl.machines.share_state import UNKNOWN_START
from refimpl.messages import share as m
from refimpl.messages.broker import READ_COMMITTED, Request, TopicPartition
from refimpl.messages.observations import SharesAcquired, SharesLoaded
from refimpl.records.schema import Uuid
from refimpl.shares.config import ShareConfig

IDLE_MS = 60_000
"""The time after which a session counts as left behind by a member that is gone."""

Settled = Callable[[int, str | None, str | None], None]
"""Takes the time, an error and its message."""

FOR_MEMBERS = {
    "FENCED_STATE_EPOCH": NotLeaderOrFollower.kafka_error,
    "FENCED_LEADER_EPOCH": NotLeaderOrFollower.kafka_error,
    UnknownShareState.kafka_error: "UNKNOWN_TOPIC_OR_PARTITION",
}
"""The errors of members for those of the share coordinator."""


@define(eq=False)
class Shared:
    """One share partition of a partition that this broker leads."""

    key: m.ShareKey
    partition: Partition
    share: SharePartition
    state_epoch: int = -1
    #: The error of the read of its state
    error: str | None = None
    writes: int = 0


@define(eq=False)
class DelayedShare:
    """A ShareFetch request that waits for records."""

    request: Request
    session: ShareSession
    until_ms: int
    acknowledged: dict[TopicPartition, tuple[str | None, str | None]]
    completed: bool = False


@define(eq=False)
class _Acknowledging:
    """Acknowledgements of one request, until each partition has its result."""

    missing: int
    then: Callable[[int, dict[TopicPartition, tuple[str | None, str | None]]], None]
    results: dict[TopicPartition, tuple[str | None, str | None]] = field(
        factory=dict[TopicPartition, tuple[str | None, str | None]]
    )

    def settle(self, now: int, name: TopicPartition, error: str | None, why: str | None) -> None:
        """Take a result; the last one ends the wait."""
        self.results[name] = error, why
        self.missing -= 1
        if self.missing == 0:
            self.then(now, self.results)


@define(eq=False)
class SharePartitions:
    """Every share partition that this broker leads, and the sessions of members."""

    context: Context
    metadata: Metadata
    config: ShareConfig
    persister: SharePersister
    #: Sets a timer of the node that calls `expire`
    arm: Callable[[int], None]
    #: Lets a request wait: until when, the function that ends the wait, and the request
    wait: Callable[[int, Callable[[DelayedShare], None], DelayedShare], None]
    sessions: ShareSessions = field(init=False)
    shared: dict[m.ShareKey, Shared] = field(factory=dict[m.ShareKey, Shared])
    _waiting: dict[TopicPartition, list[DelayedShare]] = field(
        factory=dict[TopicPartition, list[DelayedShare]]
    )
    _armed_at: int | None = None

    def __attrs_post_init__(self) -> None:
        """Begin without share partitions."""
        self.sessions = ShareSessions(self.config.max_share_sessions)

    # Requests

    def fetch(self, now: int, request: Request) -> None:
        """ShareFetch: acknowledge records, then acquire others or wait for them."""
        body: m.ShareFetchRequest = request.body
        try:
            if body.session_epoch == m.OPEN_EPOCH and body.acknowledgements:
                raise AcknowledgedBeforeFetched(body.member_id)
            session = self._session(now, body, body.partitions, body.forgotten)
            if body.session_epoch == m.OPEN_EPOCH:
                session.connection = body.connection
        except Refusal as refusal:
            self._refuse(request, refusal)
            return

        def acknowledged(
            then: int, results: dict[TopicPartition, tuple[str | None, str | None]]
        ) -> None:
            if body.session_epoch == m.FINAL_EPOCH:
                self._close(then, session)
                self._respond(DelayedShare(request, session, then, results), ())
            elif body.is_renew:
                self._respond(DelayedShare(request, session, then, results), ())
            else:
                wait_ms = 0 if results else body.max_wait_ms
                self._begin(then, DelayedShare(request, session, then + wait_ms, results))

        self._acknowledge(now, body, acknowledged)

    def acknowledge(self, now: int, request: Request) -> None:
        """ShareAcknowledge: acknowledge records; the answer waits until that is written."""
        body: m.ShareAcknowledgeRequest = request.body
        try:
            if body.session_epoch == m.OPEN_EPOCH:
                raise InvalidShareSessionEpoch(body.session_epoch, 1)
            session = self._session(now, body)
        except Refusal as refusal:
            self._refuse(request, refusal)
            return

        def acknowledged(
            then: int, results: dict[TopicPartition, tuple[str | None, str | None]]
        ) -> None:
            if body.session_epoch == m.FINAL_EPOCH:
                self._close(then, session)
            found = [(name, *result) for name, result in results.items()]
            lock_ms = self._lock_ms(body.group_id)
            self.context.respond(request, m.ShareAcknowledgeResponse(None, lock_ms, found))

        self._acknowledge(now, body, acknowledged)

    def _session(
        self,
        now: int,
        body: m.ShareFetchRequest | m.ShareAcknowledgeRequest,
        partitions: Sequence[TopicPartition] = (),
        forgotten: Sequence[TopicPartition] = (),
    ) -> ShareSession:
        for idle in self.sessions.idle(now - IDLE_MS):
            self._close(now, idle)
        return self.sessions.resolve(
            *(now, body.group_id, body.member_id, body.session_epoch),
            partitions=partitions,
            forgotten=forgotten,
        )

    def _refuse(self, request: Request, refusal: Refusal) -> None:
        self.context.refused(type(request.body).__name__.removesuffix("Request"), refusal)
        message = str(refusal).partition(": ")[2]
        self.context.respond(request, m.refused(request.body, refusal.kafka_error, message))

    def _lock_ms(self, group_id: str) -> int:
        return self.config.own(group_id, "share_record_lock_duration_ms")

    # Acknowledging

    def _acknowledge(
        self,
        now: int,
        body: m.ShareFetchRequest | m.ShareAcknowledgeRequest,
        then: Callable[[int, dict[TopicPartition, tuple[str | None, str | None]]], None],
    ) -> None:
        if not body.acknowledgements:
            then(now, {})
            return
        several = _Acknowledging(len(body.acknowledgements), then)
        for name, batches in body.acknowledgements.items():

            def settled(
                when: int, error: str | None, why: str | None, name: TopicPartition = name
            ) -> None:
                several.settle(when, name, error, why)

            try:
                shared = self._known(body.group_id, name)
                _check_renewals(batches, body.is_renew)
                write = shared.share.acknowledge(
                    body.member_id,
                    [Acknowledgement(*one) for one in batches],
                    now + self._lock_ms(body.group_id),
                )
            except Refusal as refusal:
                self.context.refused("ShareAcknowledge", refusal)
                settled(now, refusal.kafka_error, str(refusal).partition(": ")[2])
                continue
            self._arm(shared)
            if write is None:
                settled(now, None, None)
            else:
                self._write(now, shared, write, settled)

    def _known(self, group_id: str, name: TopicPartition) -> Shared:
        """The loaded share partition that a member acknowledges records of."""
        partition = self._led(name)
        shared = self.shared.get(self._key(group_id, partition))
        if shared is None or not shared.share.loaded:
            raise UnknownSharePartition(group_id, name)
        return shared

    def _led(self, name: TopicPartition) -> Partition:
        partition = self.context.partition(name)
        if not partition.replica.leads:
            raise NotLeaderOrFollower(self.context.id, name)
        return partition

    def _key(self, group_id: str, partition: Partition) -> m.ShareKey:
        return m.ShareKey(group_id, Uuid(partition.topic_id), partition.name.partition)

    def _write(
        self, now: int, shared: Shared, write: ShareWrite, then: Settled | None = None
    ) -> None:
        """Write a change; `then` hears of its result."""
        share = shared.share
        body = m.WriteShareStateRequest(
            *(shared.key, shared.state_epoch, share.leader_epoch),
            *(write.start, write.complete),
            tuple(
                m.StoredBatch(one.first_offset, one.last_offset, int(one.state), one.delivery_count)
                for one in write.batches
            ),
        )

        def written(when: int, answer: m.ShareStateResponse) -> None:
            shared.writes -= 1
            error = answer.error
            if self.shared.get(shared.key) is not shared or not share.loaded:
                error = "NOT_LEADER_OR_FOLLOWER" if error is not None else None
            elif error is None:
                share.written(write)
            else:
                share.failed(write)
                self._arm(shared)
                if error in FOR_MEMBERS:
                    self.shared.pop(shared.key, None)
            if then is not None:
                shown = None if error is None else FOR_MEMBERS.get(error, error)
                then(when, shown, answer.error_message)
            self._wake(when, shared.partition.name)
            self._forget(shared)

        shared.writes += 1
        self.persister.send(now, body, written)

    def _close(self, now: int, session: ShareSession) -> None:
        """End a session: its member's records are released."""
        self.sessions.close(session)
        for name in session.partitions:
            try:
                shared = self._known(session.group_id, name)
            except Refusal:
                continue
            write = shared.share.close(session.member_id)
            if write is not None:
                self._write(now, shared, write)
        for shared in list(self.shared.values()):
            self._forget(shared)

    def _forget(self, shared: Shared) -> None:
        """Forget a share partition without sessions and writes: an operator may reset it now."""
        if shared.writes == 0 and not self.sessions.has(shared.key.group_id):
            self.shared.pop(shared.key, None)

    def lost(self, now: int, request: Request) -> None:
        """End the sessions of a connection that is gone."""
        body: m.ShareConnectionLost = request.body
        for session in list(self.sessions.sessions.values()):
            if session.connection == body.connection:
                self._close(now, session)

    # Fetching

    def _begin(self, now: int, fetch: DelayedShare) -> None:
        if not self._try(now, fetch, must_answer=fetch.until_ms <= now):
            for name in fetch.session.partitions:
                self._waiting.setdefault(name, []).append(fetch)
            self.wait(fetch.until_ms, self._time_is_over, fetch)

    def _time_is_over(self, fetch: DelayedShare) -> None:
        if not fetch.completed:
            self._try(fetch.until_ms, fetch, must_answer=True)

    def _try(self, now: int, fetch: DelayedShare, *, must_answer: bool) -> bool:
        """Answer if there are records or errors, or it must; True if it did."""
        body: m.ShareFetchRequest = fetch.request.body
        found = list[m.ShareFetchedPartition]()
        if not self.sessions.knows(fetch.session):  # who asked is gone, and acquires nothing
            self._respond(fetch, found)
            return True
        records, room = body.max_records, body.max_bytes
        for name in list(fetch.session.partitions):
            if (records <= 0 or room <= 0) and found:
                break
            one = self._acquire(now, body, name, records, room)
            if one is not None:
                found.append(one)
                room -= len(one.records)
                records -= sum(last - first + 1 for first, last, _ in one.acquired)
                fetch.session.served(name)
        if not found and not must_answer:
            return False
        self._respond(fetch, found)
        return True

    def _respond(self, fetch: DelayedShare, found: Sequence[m.ShareFetchedPartition]) -> None:
        fetch.completed = True
        body: m.ShareFetchRequest = fetch.request.body
        results = {one.partition: one for one in found}
        for name, (error, why) in fetch.acknowledged.items():
            one = results.get(name, m.ShareFetchedPartition(name))
            results[name] = one._replace(acknowledge_error=error, acknowledge_message=why)
        answer = m.ShareFetchResponse(None, self._lock_ms(body.group_id), tuple(results.values()))
        self.context.respond(fetch.request, answer)

    def _acquire(
        self, now: int, body: m.ShareFetchRequest, name: TopicPartition, records: int, room: int
    ) -> m.ShareFetchedPartition | None:
        """Records of one partition, or an error; None if there is nothing to tell."""
        try:
            shared = self._loaded(now, body.group_id, self._led(name))
            if shared.error is not None:
                del self.shared[shared.key]
                return m.ShareFetchedPartition(name, shared.error)
            if not shared.share.loaded:
                return None
            return self._give(now, shared, body, records, room)
        except Refusal as refusal:
            self.context.refused("ShareFetch", refusal)
            why = str(refusal).partition(": ")[2]
            return m.ShareFetchedPartition(name, refusal.kafka_error, why)

    def _give(
        self, now: int, shared: Shared, body: m.ShareFetchRequest, most: int, room: int
    ) -> m.ShareFetchedPartition | None:
        share, partition = shared.share, shared.partition
        share.log_starts(partition.log.start)
        level = self._isolation(body.group_id)
        while share.has_room():
            offset = share.next_fetch_offset()
            batches = share_reading.read(partition, offset, room, level)
            if not batches:
                return None
            if body.acquire_mode == m.BATCH_OPTIMIZED:
                batches = _first_batches(share, batches, most)
            reading = share_reading.reading(batches, offset)
            limit = most if body.acquire_mode == m.RECORD_LIMIT else len(reading.records)
            until_ms = now + self._lock_ms(body.group_id)
            acquired = share.acquire(body.member_id, reading, limit, until_ms)
            if acquired:
                self._arm(shared)
                first, last = acquired[0].first_offset, acquired[-1].last_offset
                data = b"".join(
                    one.data
                    for one in batches
                    if one.last_offset >= first and one.base_offset <= last
                )
                told = [(one.first_offset, one.last_offset, one.delivery_count) for one in acquired]
                where = partition.name, body.group_id, share.leader_epoch
                given = SharesAcquired(*where, body.member_id, told, until_ms)
                self.context.outputs.append(given)
                return m.ShareFetchedPartition(partition.name, records=data, acquired=told)
            if share.next_fetch_offset() <= offset:
                return None
        return None

    def _isolation(self, group_id: str) -> int:
        level = self.config.text(group_id, "share.isolation.level", "read_uncommitted")
        return READ_COMMITTED if level.lower() == "read_committed" else 0

    # Loading

    def _loaded(self, now: int, group_id: str, partition: Partition) -> Shared:
        """The share partition in this leader epoch; a new one begins to read its state."""
        key = self._key(group_id, partition)
        shared = self.shared.get(key)
        epoch = partition.replica.epoch
        if shared is not None and (
            shared.partition is not partition or shared.share.leader_epoch != epoch
        ):
            shared = None
        if shared is None:
            locks = self.config.own(group_id, "share_partition_max_record_locks")
            limit = self.config.own(group_id, "share_delivery_count_limit")
            shared = self.shared[key] = Shared(key, partition, SharePartition(epoch, locks, limit))
            self._load(now, shared)
        return shared

    def _load(self, now: int, shared: Shared) -> None:
        def answered(when: int, answer: m.ShareStateResponse) -> None:
            if self.shared.get(shared.key) is not shared:
                return
            if answer.error is None:
                shared.state_epoch = answer.state_epoch
                start = answer.start_offset
                if start == UNKNOWN_START:
                    start = self._first_offset(when, shared)
                shared.share.load(
                    start,
                    [
                        PersisterStateBatch(
                            *(one.first_offset, one.last_offset),
                            DeliveryState(one.delivery_state),
                            one.delivery_count,
                        )
                        for one in answer.batches
                    ],
                )
                where = shared.partition.name, shared.key.group_id, shared.share.leader_epoch
                self.context.outputs.append(SharesLoaded(*where, shared.share.start))
            else:
                shared.error = FOR_MEMBERS.get(answer.error, answer.error)
            self._wake(when, shared.partition.name)

        body = m.ReadShareStateRequest(shared.key, shared.share.leader_epoch)
        self.persister.send(now, body, answered)

    def _first_offset(self, now: int, shared: Shared) -> int:
        """The first offset of a group without state: `share.auto.offset.reset`."""
        reset = self.config.text(shared.key.group_id, "share.auto.offset.reset", "latest").lower()
        log, high_watermark = shared.partition.log, shared.partition.replica.high_watermark
        if reset == "earliest":
            return log.start
        if reset.startswith("by_duration:"):
            found = log.offset_for_timestamp(now - _milliseconds(reset))
            return high_watermark if found is None else min(found[0], high_watermark)
        return high_watermark

    # Events

    def changed(self, now: int, partition: Partition) -> None:
        """Take a partition's new high watermark, new role or new log start."""
        if partition.name in self._waiting:
            self._wake(now, partition.name)

    def resigned(self, now: int, partition: Partition) -> None:
        """Forget the share partitions of a partition that another broker leads, or that is gone."""
        for key in [key for key, one in self.shared.items() if one.partition is partition]:
            del self.shared[key]
        self._wake(now, partition.name)

    def _wake(self, now: int, name: TopicPartition) -> None:
        """Try the requests that wait for a partition."""
        waiting = self._waiting.pop(name, ())
        left = [
            one
            for one in waiting
            if not one.completed and not self._try(now, one, must_answer=False)
        ]
        if left:
            self._waiting[name] = left + self._waiting.get(name, [])

    # Time

    def _arm(self, shared: Shared) -> None:
        at_ms = shared.share.next_deadline()
        if at_ms is not None and (self._armed_at is None or at_ms < self._armed_at):
            self._armed_at = at_ms
            self.arm(at_ms)

    def expire(self, now: int) -> int:
        """The node's timer: end acquisition locks; return the time until the next call."""
        for shared in list(self.shared.values()):
            write = shared.share.expire(now)
            if write is not None:
                self._write(now, shared, write)
                self._wake(now, shared.partition.name)
        times = [one.share.next_deadline() for one in self.shared.values()]
        self._armed_at = min((one for one in times if one is not None), default=None)
        return 0 if self._armed_at is None else max(1, self._armed_at - now)


def _first_batches(
    share: SharePartition, batches: list[share_reading.ReadBatch], most: int
) -> list[share_reading.ReadBatch]:
    """Whole batches, as many as have that many free records, and at least one."""
    free = 0
    for count, batch in enumerate(batches, 1):
        known = share.deliveries
        free += sum(
            one >= share.start and (one not in known or known[one].is_free) for one in batch.offsets
        )
        if free >= most:
            return batches[:count]
    return batches


_UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000}


def _milliseconds(reset: str) -> int:
    """The duration of `by_duration:P1DT2H3M4S`, in ms."""
    total, number = 0.0, ""
    for one in reset.partition(":")[2].lstrip("pP").replace("t", ""):
        if one in _UNITS:
            total, number = total + float(number or 0) * _UNITS[one], ""
        else:
            number += one
    return int(total)


def _check_renewals(batches: Sequence[m.AcknowledgementBatch], renews: bool) -> None:
    """Refuse a batch that renews locks in a request that does not say so (KIP-1222)."""
    for first, last, types in batches:
        if RENEW in types and not renews:
            why = "only a request that renews may renew"
            raise InvalidAcknowledgement(first, last, len(types), why)
