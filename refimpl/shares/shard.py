"""The share partitions of one partition of `__share_group_state`, as a shard.

Spec: ShareState, by the rules of `refimpl.machines.share_state`. A write is an update record, and
every so many of them a snapshot of the whole state.
"""

from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from attrs import define, evolve, field, frozen

from refimpl.coordinator.log import CoordinatorLog
from refimpl.coordinator.operation import Answer, Handler, Outcome, TimerKey, Token
from refimpl.coordinator.runtime import Coordinator
from refimpl.coordinator.versioned import Versioned
from refimpl.machines import share_state as rules
from refimpl.machines.share_errors import UnknownDeliveryState, UnknownSharedTopic
from refimpl.machines.share_partition import DeliveryState, PersisterStateBatch, ShareWrite
from refimpl.machines.share_state import ShareState
from refimpl.messages import share as m
from refimpl.records import share_groups as r
from refimpl.records.coordinators import SHARE_RECORDS, SHARE_TOPIC, CoordinatorRecord
from refimpl.records.schema import Uuid
from refimpl.shares.config import ShareConfig

STATES = tuple(map(int, DeliveryState))
SNAPSHOT, UPDATE = SHARE_RECORDS[0], SHARE_RECORDS[1]


def name_of(key: m.ShareKey) -> str:
    """The name by which FindCoordinator knows a share partition."""
    topic_id = urlsafe_b64encode(key.topic_id).decode().rstrip("=")
    return f"{key.group_id}:{topic_id}:{key.partition}"


def _exists(topic_id: Uuid, partition: int) -> bool:
    return True


PRUNE, COLD = TimerKey("prune share state"), TimerKey("snapshot cold share partitions")


@frozen
class Stored:
    """A state, and the records that it comes from: the snapshot's number, and later updates."""

    state: ShareState
    snapshot_epoch: int = 0
    updates: int = 0
    #: The offset of the snapshot
    offset: int = 0
    #: The time of the state, and that of the snapshot: later, if it is of a cold share partition
    created_ms: int = 0
    snapshot_ms: int = 0


@define(eq=False)
class ShareShard:
    """The states of share partitions, by their keys."""

    config: ShareConfig
    #: True for a partition of a topic of this id
    exists: Callable[[Uuid, int], bool] = _exists
    topic: str = SHARE_TOPIC
    states: Versioned[m.ShareKey, Stored] = field(factory=Versioned[m.ShareKey, Stored])
    #: The offset below which all records are committed
    end: int = 0
    handlers: Mapping[type, Handler] = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Register the handler of each type of request."""
        self.handlers = {
            m.InitializeShareStateRequest: self.initialize,
            m.ReadShareStateRequest: self.read,
            m.WriteShareStateRequest: self.write,
            m.DeleteShareStateRequest: self.delete,
            m.ReadShareStateSummaryRequest: self.summarize,
        }

    # Change

    def replay(
        self, record: CoordinatorRecord, offset: int | None = None, at: int | None = None
    ) -> None:
        """Apply a snapshot, or an update of one."""
        at = offset if at is None else at
        assert at is not None
        key = m.ShareKey(record.key.group_id, record.key.topic_id, record.key.partition)
        value = record.value
        if value is None:
            self.states.put(key, None, offset)
        elif record.kind is SNAPSHOT:
            state = ShareState(
                *(value.state_epoch, value.leader_epoch, value.start_offset),
                value.delivery_complete_count,
                tuple(_batches(value.state_batches)),
            )
            times = value.create_timestamp, value.write_timestamp
            self.states.put(key, Stored(state, value.snapshot_epoch, 0, at, *times), offset)
        elif (known := self.states.get(key)) is not None:
            write = ShareWrite(
                value.start_offset,
                tuple(_batches(value.state_batches)),
                value.delivery_complete_count,
            )
            epoch = max(known.state.leader_epoch, value.leader_epoch)
            state = rules.read(known.state, epoch)
            state = rules.written(state, state.state_epoch, epoch, write)
            self.states.put(key, evolve(known, state=state, updates=known.updates + 1), offset)

    def apply(self, changes: Sequence[Any], offset: int | None) -> None:
        """Apply the changes of an operation."""
        if offset is not None:
            for at, change in enumerate(changes, offset + 1 - len(changes)):
                self.replay(change, at)

    def commit(self, high_watermark: int) -> None:
        """Take a new high watermark: all records below it are committed."""
        self.states.commit(high_watermark)
        self.end = high_watermark

    # Decide

    def _state(self, key: m.ShareKey) -> ShareState | None:
        known = self.states.get(key)
        return None if known is None else known.state

    def initialize(self, now: int, token: Token, request: m.InitializeShareStateRequest) -> Outcome:
        """Begin a life of a share partition, with a snapshot; the same one twice is no change."""
        known = self._state(request.key)
        begun = rules.initialised(known, request.state_epoch, request.start_offset)
        self._check_topic(request.key)
        answer = (Answer(token, m.ShareStateResponse(None)),)
        if begun is known:
            return Outcome((), answer)
        return Outcome((self._snapshot(now, request.key, begun),), answer)

    def read(self, now: int, token: Token, request: m.ReadShareStateRequest) -> Outcome:
        """Answer the state, and note the leader epoch of who reads."""
        known = self._state(request.key)
        state = rules.read(known, request.leader_epoch)
        self._check_topic(request.key)
        answer = (Answer(token, _shown(state)),)
        if state == known:
            return Outcome((), answer)
        nothing = ShareWrite(state.start, (), state.complete)
        return Outcome((self._record(now, request.key, state, nothing),), answer)

    def write(self, now: int, token: Token, request: m.WriteShareStateRequest) -> Outcome:
        """Write changes, if no later leader and no later life is known."""
        write = ShareWrite(
            request.start_offset,
            tuple(map(_asked, request.batches)),
            request.delivery_complete_count,
        )
        state = rules.written(
            self._state(request.key), request.state_epoch, request.leader_epoch, write
        )
        self._check_topic(request.key)
        record = self._record(now, request.key, state, write)
        return Outcome((record,), (Answer(token, m.ShareStateResponse(None)),))

    def delete(self, now: int, token: Token, request: m.DeleteShareStateRequest) -> Outcome:
        """End a life of a share partition."""
        self._check_topic(request.key)
        answer = (Answer(token, m.ShareStateResponse(None)),)
        if self._state(request.key) is None:
            return Outcome((), answer)
        return Outcome((_tombstone(request.key),), answer)

    def summarize(self, now: int, token: Token, request: m.ReadShareStateSummaryRequest) -> Outcome:
        """Answer the state's epochs and its start; -1 for a state that is not there."""
        self._check_topic(request.key)
        state = self._state(request.key)
        body = m.ShareStateResponse(None) if state is None else _shown(state)._replace(batches=())
        return Outcome((), (Answer(token, body),))

    def _record(
        self, now: int, key: m.ShareKey, state: ShareState, write: ShareWrite
    ) -> CoordinatorRecord:
        """An update, or a snapshot if there were so many updates since the last one."""
        known = self.states.current[key]
        if known.updates >= self.config.snapshot_updates:
            return self._snapshot(now, key, state)
        value = r.ShareUpdateValue(
            snapshot_epoch=known.snapshot_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=state.start,
            delivery_complete_count=state.complete,
            state_batches=_written(rules.merged((), write.batches, state.start)),
        )
        return CoordinatorRecord(UPDATE, _key(r.ShareUpdateKey, key), value)

    def _check_topic(self, key: m.ShareKey) -> None:
        if not self.exists(key.topic_id, key.partition):
            raise UnknownSharedTopic(key.topic_id, key.partition)

    def _snapshot(
        self, now: int, key: m.ShareKey, state: ShareState, created_ms: int | None = None
    ) -> CoordinatorRecord:
        known = self.states.get(key)
        value = r.ShareSnapshotValue(
            snapshot_epoch=0 if known is None else known.snapshot_epoch + 1,
            state_epoch=state.state_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=state.start,
            delivery_complete_count=state.complete,
            create_timestamp=now if created_ms is None else created_ms,
            write_timestamp=now,
            state_batches=_written(state.batches),
        )
        return CoordinatorRecord(SNAPSHOT, _key(r.ShareSnapshotKey, key), value)

    # Topics

    def topics_deleted(self) -> Outcome:
        """The tombstones of all share partitions whose topic is gone."""
        return Outcome(
            [_tombstone(key) for key in self.states.current if not self.exists(*key[1:])]
        )

    # Time

    def loaded(self, now: int) -> Iterable[Outcome]:
        """Forget topics that were deleted meanwhile, and set the timers."""
        yield self.topics_deleted()
        yield Outcome(
            timers={
                PRUNE: now + self.config.prune_interval_ms,
                COLD: now + self.config.cold_interval_ms,
            }
        )

    def due(self, now: int, key: TimerKey) -> Outcome:
        """Delete the records that no load needs, or write snapshots that make others needless."""
        if key == COLD:
            return Outcome(self._cold(now), timers={COLD: now + self.config.cold_interval_ms})
        return Outcome(
            timers={PRUNE: now + self.config.prune_interval_ms}, needed_from=self.needed_from()
        )

    def needed_from(self) -> int:
        """The first offset of the log that a load needs."""
        committed = map(self.states.committed, self.states.committed_keys())
        return rules.needed_from((one.offset for one in committed if one), self.end)

    def _cold(self, now: int) -> Sequence[CoordinatorRecord]:
        states = self.states.current
        times = {key: (one.created_ms, one.snapshot_ms) for key, one in states.items()}
        return [
            self._snapshot(now, key, states[key].state, states[key].created_ms)
            for key in rules.cold(now, self.config.cold_interval_ms, times)
        ]

    # Observe and answer

    def subject(self, about: Any) -> str | None:
        """The name of the share partition that a request is about."""
        return name_of(about.key) if isinstance(about, m.STATE_REQUESTS) else None

    def value(self, key: str) -> Any:
        """The state of this name as written; None for none."""
        return next(
            (one.state for k, one in self.states.current.items() if name_of(k) == key), None
        )

    def refused(self, request: Any, error: str, message: str | None = None) -> Any:
        """The response that refuses a request."""
        return m.refused(request, error, message)

    def timed_out(self, request: Any) -> str:
        """The error of a request whose record is not committed in time."""
        return "COORDINATOR_NOT_AVAILABLE"


def _key(kind: type[Any], key: m.ShareKey) -> Any:
    return kind(key.group_id, key.topic_id, key.partition)


def _tombstone(key: m.ShareKey) -> CoordinatorRecord:
    return CoordinatorRecord(SNAPSHOT, _key(r.ShareSnapshotKey, key))


def _asked(one: m.StoredBatch) -> PersisterStateBatch:
    if one.delivery_state not in STATES:
        raise UnknownDeliveryState(one.delivery_state, STATES)
    state = DeliveryState(one.delivery_state)
    return PersisterStateBatch(one.first_offset, one.last_offset, state, one.delivery_count)


def _batches(stored: Iterable[r.StateBatch]) -> Iterable[PersisterStateBatch]:
    for one in stored:
        state = DeliveryState(one.delivery_state)
        yield PersisterStateBatch(one.first_offset, one.last_offset, state, one.delivery_count)


def _written(batches: Iterable[PersisterStateBatch]) -> tuple[r.StateBatch, ...]:
    return tuple(
        r.StateBatch(one.first_offset, one.last_offset, int(one.state), one.delivery_count)
        for one in batches
    )


def _shown(state: ShareState) -> m.ShareStateResponse:
    return m.ShareStateResponse(
        None,
        None,
        state.state_epoch,
        state.leader_epoch,
        state.start,
        state.complete,
        tuple(
            m.StoredBatch(one.first_offset, one.last_offset, int(one.state), one.delivery_count)
            for one in state.batches
        ),
    )


ShareCoordinator: TypeAlias = Coordinator[ShareShard]


def coordinator_of(
    partition: int,
    log: CoordinatorLog,
    config: ShareConfig,
    exists: Callable[[Uuid, int], bool] = _exists,
) -> ShareCoordinator:
    """The coordinator of a partition, which has yet to load its log.

    It becomes active once all that it has loaded is committed.
    """
    shard = ShareShard(config, exists)
    size, waits_ms = config.load_buffer_size, config.write_timeout_ms
    return Coordinator(partition, log, shard, size, waits_ms, waits_for_commit=True)
