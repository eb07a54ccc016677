"""Groups and committed offsets of one partition of `__consumer_offsets`, as a shard."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from attrs import define, evolve, field

from refimpl.coordinator.log import CoordinatorLog
from refimpl.coordinator.operation import Handler, Outcome, Soft, TimerKey, Token
from refimpl.coordinator.runtime import Coordinator
from refimpl.groups.config import GroupConfig
from refimpl.groups.errors import GroupIdNotFound
from refimpl.groups.logic import GroupLogic
from refimpl.groups.offsets import Offsets
from refimpl.groups.operators import GroupOperators
from refimpl.groups.share import ShareGroups
from refimpl.groups.store import GroupStore
from refimpl.messages import group as m
from refimpl.records.coordinators import OFFSETS_TOPIC
from refimpl.records.transactional import Entry

EXPIRE = TimerKey("expire offsets")
_LOADING = "COORDINATOR_LOAD_IN_PROGRESS"


@define(eq=False)
class GroupShard:
    """Groups of all types, and committed offsets, in one store."""

    store: GroupStore
    config: GroupConfig
    logics: Sequence[GroupLogic]
    topic: str = OFFSETS_TOPIC
    offsets: Offsets = field(init=False)
    operators: GroupOperators = field(init=False)
    handlers: Mapping[type, Handler] = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Register the handler of each type of request."""
        self.offsets = Offsets(self.store, self.config)
        self.operators = GroupOperators(self.store)
        self.handlers = {
            **self.offsets.handlers,
            **self.operators.handlers,
            **{kind: self._by_type for one in self.logics for kind in one.handlers},
        }

    def _by_type(self, now: int, token: Token, request: Any) -> Outcome:
        """Let the logic of the existing group decide, if that group has members.

        Otherwise the first logic with a handler decides. A classic member may be in a consumer
        group (KIP-848).
        """
        kind, group = request.__class__, self.store.groups.get(request.group_id)
        logics = [one for one in self.logics if kind in one.handlers]
        if group is not None:
            owner = self.store.logic_of(group)
            if owner.group_type == m.SHARED and owner not in logics:
                raise GroupIdNotFound(request.group_id)
            logics.sort(key=lambda one: not one.owns(group) or one.is_empty(group))
        return logics[0].handlers[kind](now, token, request)

    # Change

    def replay(self, record: Entry, offset: int | None = None, at: int | None = None) -> None:
        """Apply a record of a group or of an offset."""
        self.store.replay(record, offset)

    def apply(self, changes: Sequence[Entry | Soft], offset: int | None) -> None:
        """Apply the changes of an operation."""
        self.store.apply(changes, offset)

    def commit(self, high_watermark: int) -> None:
        """Take a new high watermark: all records below it are committed."""
        self.store.commit(high_watermark)

    # Decide

    def loaded(self, now: int) -> Iterable[Outcome]:
        """Start the timers of each group, and that of offsets."""
        for group_id, group in list(self.store.groups.current.items()):
            yield self.store.logic_of(group).loaded(now, group_id, group)
        yield Outcome(timers=self._next_expiry(now))

    def due(self, now: int, key: TimerKey) -> Outcome:
        """Expire offsets, or handle a group's timer."""
        if key == EXPIRE:
            expired = self.offsets.expire(now)
            return evolve(expired, timers={**expired.timers, **self._next_expiry(now)})
        fire = next(one.timers[key.kind] for one in self.logics if key.kind in one.timers)
        return fire(now, key)

    def _next_expiry(self, now: int) -> Mapping[TimerKey, int]:
        return {EXPIRE: now + self.config.offsets_retention_check_interval_ms}

    def topic_deleted(self, topic: str, topic_id: bytes) -> Outcome:
        """Remove the committed offsets of a deleted topic (KAFKA-2000), and the state that share
        groups have of it.
        """
        forgotten = [
            record
            for logic in self.logics
            if isinstance(logic, ShareGroups)
            for record in logic.topics_deleted()
        ]
        offsets = self.offsets.topic_deleted(topic, topic_id)
        return evolve(offsets, changes=[*offsets.changes, *forgotten])

    # Observe and answer

    def subject(self, about: Any) -> str | None:
        """The id of the group that a request or a timer is about."""
        if isinstance(about, TimerKey):
            return about.key or None
        return about.group_id if about.__class__ in m.REQUESTS else None

    def value(self, key: str) -> Any:
        """The group of this id as written; None for none."""
        return self.store.groups.get(key)

    def refused(self, request: Any, error: str, message: str | None = None) -> Any:
        """The response that refuses a request.

        While loading, a heartbeat is answered without an error, as in Kafka, so that the member
        does not rejoin.
        """
        if error == _LOADING and isinstance(request, m.HeartbeatRequest):
            return m.HeartbeatResponse(None)
        return m.refused(request, error, message)

    def timed_out(self, request: Any) -> str:
        """The error of a request whose records are not committed in time."""
        stable = isinstance(request, m.OffsetFetchRequest)
        return "NOT_COORDINATOR" if stable else "COORDINATOR_NOT_AVAILABLE"


GroupCoordinator: TypeAlias = Coordinator[GroupShard]


def coordinator_of(
    partition: int, log: CoordinatorLog, store: GroupStore, config: GroupConfig
) -> GroupCoordinator:
    """The coordinator of a partition, which has yet to load its log into this store."""
    shard = GroupShard(store, config, store.logics)
    waits_ms = config.offsets_commit_timeout_ms
    return Coordinator(partition, log, shard, config.offsets_load_buffer_size, waits_ms)
