"""The share partitions of one partition of `__share_group_state`, as a shard.

Spec: ShareState, by the rules of `refimpl.machines.share_state`. A write is an update record, and
every so many of them a snapshot of the whole state.
"""

from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from attrs import define, field, frozen

from refimpl.coordinator.log import CoordinatorLog
from refimpl.coordinator.operation import NOTHING, Answer, Handler, Outcome, TimerKey, Token
from refimpl.coordinator.runtime import Coordinator
from refimpl.coordinator.versioned import Versioned
from refimpl.machines import share_state as rules
from refimpl.machines.share_errors import UnknownDeliveryState
from refimpl.machines.share_partition import DeliveryState, ShareWrite, StateBatch
from refimpl.machines.share_state import ShareState
from refimpl.messages import share as m
from refimpl.records import share_groups as r
from refimpl.records.coordinators import SHARE_RECORDS, SHARE_TOPIC, CoordinatorRecord
from refimpl.shares.config import ShareConfig

STATES = tuple(map(int, DeliveryState))
SNAPSHOT, UPDATE = SHARE_RECORDS[0], SHARE_RECORDS[1]


def name_of(key: m.ShareKey) -> str:
    """The name by which FindCoordinator knows a share partition."""
    topic_id = urlsafe_b64encode(key.topic_id).decode().rstrip("=")
    return f"{key.group_id}:{topic_id}:{key.partition}"


@frozen
class Stored:
    """A state, and the records that it comes from: the snapshot's number, and later updates."""

    state: ShareState
    snapshot_epoch: int = 0
    updates: int = 0


@define(eq=False)
class ShareShard:
    """The states of share partitions, by their keys."""

    config: ShareConfig
    topic: str = SHARE_TOPIC
    states: Versioned[m.ShareKey, Stored] = field(factory=Versioned[m.ShareKey, Stored])
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

    def replay(self, record: CoordinatorRecord, offset: int | None = None) -> None:
        """Apply a snapshot, or an update of one."""
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
            self.states.put(key, Stored(state, value.snapshot_epoch), offset)
        elif (known := self.states.get(key)) is not None:
            write = ShareWrite(
                value.start_offset,
                tuple(_batches(value.state_batches)),
                value.delivery_complete_count,
            )
            epoch = max(known.state.leader_epoch, value.leader_epoch)
            state = rules.read(known.state, epoch)
            state = rules.written(state, state.state_epoch, epoch, write)
            self.states.put(key, Stored(state, known.snapshot_epoch, known.updates + 1), offset)

    def apply(self, changes: Sequence[Any], offset: int | None) -> None:
        """Apply the changes of an operation."""
        for change in changes:
            if isinstance(change, CoordinatorRecord):
                self.replay(change, offset)

    def commit(self, high_watermark: int) -> None:
        """Take a new high watermark: all records below it are committed."""
        self.states.commit(high_watermark)

    # Decide

    def _state(self, key: m.ShareKey) -> ShareState | None:
        known = self.states.get(key)
        return None if known is None else known.state

    def initialize(self, now: int, token: Token, request: m.InitializeShareStateRequest) -> Outcome:
        """Begin a life of a share partition, with a snapshot; the same one twice is no change."""
        known = self._state(request.key)
        begun = rules.initialised(known, request.state_epoch, request.start_offset)
        answer = (Answer(token, m.ShareStateResponse(None)),)
        if begun is known:
            return Outcome((), answer)
        return Outcome((self._snapshot(now, request.key, begun),), answer)

    def read(self, now: int, token: Token, request: m.ReadShareStateRequest) -> Outcome:
        """Answer the state, and note the leader epoch of who reads."""
        known = self._state(request.key)
        state = rules.read(known, request.leader_epoch)
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
        record = self._record(now, request.key, state, write)
        return Outcome((record,), (Answer(token, m.ShareStateResponse(None)),))

    def delete(self, now: int, token: Token, request: m.DeleteShareStateRequest) -> Outcome:
        """End a life of a share partition."""
        answer = (Answer(token, m.ShareStateResponse(None)),)
        if self._state(request.key) is None:
            return Outcome((), answer)
        return Outcome(
            (CoordinatorRecord(SNAPSHOT, _key(r.ShareSnapshotKey, request.key)),), answer
        )

    def summarize(self, now: int, token: Token, request: m.ReadShareStateSummaryRequest) -> Outcome:
        """Answer the state's epochs and its start; -1 for a state that is not there."""
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

    def _snapshot(self, now: int, key: m.ShareKey, state: ShareState) -> CoordinatorRecord:
        known = self.states.get(key)
        value = r.ShareSnapshotValue(
            snapshot_epoch=0 if known is None else known.snapshot_epoch + 1,
            state_epoch=state.state_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=state.start,
            delivery_complete_count=state.complete,
            create_timestamp=now,
            write_timestamp=now,
            state_batches=_written(state.batches),
        )
        return CoordinatorRecord(SNAPSHOT, _key(r.ShareSnapshotKey, key), value)

    # Time

    def loaded(self, now: int) -> Iterable[Outcome]:
        """Begin without timers."""
        return ()

    def due(self, now: int, key: TimerKey) -> Outcome:
        """Do nothing: there are no timers."""
        return NOTHING

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


def _asked(one: m.StoredBatch) -> StateBatch:
    if one.delivery_state not in STATES:
        raise UnknownDeliveryState(one.delivery_state, STATES)
    state = DeliveryState(one.delivery_state)
    return StateBatch(one.first_offset, one.last_offset, state, one.delivery_count)


def _batches(stored: Iterable[r.StateBatch]) -> Iterable[StateBatch]:
    for one in stored:
        state = DeliveryState(one.delivery_state)
        yield StateBatch(one.first_offset, one.last_offset, state, one.delivery_count)


def _written(batches: Iterable[StateBatch]) -> tuple[r.StateBatch, ...]:
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


def coordinator_of(partition: int, log: CoordinatorLog, config: ShareConfig) -> ShareCoordinator:
    """The coordinator of a partition, which has yet to load its log."""
    shard = ShareShard(config)
    return Coordinator(partition, log, shard, config.load_buffer_size, config.write_timeout_ms)
