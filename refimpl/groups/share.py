"""Share groups (KIP-932) at their coordinator: heartbeats, sessions, and what operators ask for.

The state of share partitions is the share coordinator's: this module says which partitions need
one, and `broker/group_coordinators` has it initialised and deleted.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import define, evolve, field

from refimpl.coordinator.operation import NOTHING, Answer, Handler, Outcome, TimerKey, Token
from refimpl.groups.config import GroupConfig
from refimpl.groups.consumer_errors import InvalidHeartbeat, ShareGroupNotFound
from refimpl.groups.consumer_topics import TopicView
from refimpl.groups.errors import GroupIdNotFound
from refimpl.groups.logic import CommitBy, Group, is_blank
from refimpl.groups.store import GroupStore
from refimpl.groups.topics import Topics
from refimpl.machines import share_group as g
from refimpl.machines.consumer_group_errors import GroupMaxSizeReached, NonEmptyGroup
from refimpl.machines.share_group import LEAVE, Partition, ShareGroup, ShareMember
from refimpl.messages import group as m
from refimpl.messages.share import is_no_member_id
from refimpl.records.coordinators import CoordinatorRecord
from refimpl.records.schema import Uuid

SESSION = "share session"
Timers = dict[TimerKey, int | None]


@define(eq=False)
class ShareGroups:
    """The share groups of one coordinator."""

    store: GroupStore
    config: GroupConfig
    topics: Topics
    new_id: Callable[[], str]
    view: TopicView = field(init=False)
    group_type: str = m.SHARED
    record_types: frozenset[int] = g.RECORD_TYPES
    handlers: Mapping[type, Handler] = field(init=False)
    timers: Mapping[str, Callable[[int, TimerKey], Outcome]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Map requests and timers to their handlers."""
        self.view = TopicView(self.topics)
        self.handlers = {
            m.ShareGroupHeartbeatRequest: self.heartbeat,
            m.ShareGroupDescribeRequest: self.describe,
        }
        self.timers = {SESSION: self.session_is_over}

    # Heartbeats

    def heartbeat(self, now: int, token: Token, request: m.ShareGroupHeartbeatRequest) -> Outcome:
        """A member joins, lives or leaves."""
        why = _wrong_with(request)
        if why is not None:
            raise InvalidHeartbeat(why)
        group_id, member_id, epoch = request.group_id, request.member_id, request.member_epoch
        if epoch < 0 and self.store.groups.get(group_id) is None:
            raise GroupIdNotFound(group_id)
        group = self._group(group_id, may_be_new=epoch == 0)
        if epoch == LEAVE:
            group.known(member_id)
            body = m.ShareGroupHeartbeatResponse(None, None, member_id, LEAVE)
            left = self._without(now, group, member_id)
            return evolve(left, answers=(Answer(token, body),))
        records, member = self._updated(now, group, request)
        tells = epoch != member.epoch  # it is new, or has not heard of its epoch
        body = m.ShareGroupHeartbeatResponse(
            None,
            None,
            member_id,
            member.epoch,
            self.config.own(group_id, "share_heartbeat_interval_ms"),
            _assignment(member.assigned) if tells else None,
        )
        timers: Timers = {
            TimerKey(SESSION, group_id, member_id): now
            + self.config.own(group_id, "share_session_timeout_ms")
        }
        return Outcome(records, (Answer(token, body),), timers)

    def _group(self, group_id: str, *, may_be_new: bool = False) -> ShareGroup:
        group = self.store.groups.get(group_id)
        if isinstance(group, ShareGroup):
            return group
        if not may_be_new:
            raise ShareGroupNotFound(group_id)
        if group is not None or self.store.is_simple(group_id):
            raise GroupIdNotFound(group_id)
        return ShareGroup(group_id)

    def _updated(
        self, now: int, group: ShareGroup, request: m.ShareGroupHeartbeatRequest
    ) -> tuple[list[CoordinatorRecord], ShareMember]:
        """The records of a heartbeat, and the member after them."""
        records, after = list[CoordinatorRecord](), group

        def write(record: CoordinatorRecord) -> None:
            nonlocal after
            records.append(record)
            after = g.replay(after, record) or after

        group_id, member_id = group.group_id, request.member_id
        known = group.members.get(member_id)
        if request.member_epoch == 0:
            if known is None and len(group.members) >= self.config.share_max_size:
                raise GroupMaxSizeReached(self.config.share_max_size)
            member = known or ShareMember(member_id)
        else:
            member = group.member(member_id, request.member_epoch)
        names = request.subscribed_topic_names
        said = evolve(
            member,
            rack_id=request.rack_id or member.rack_id,
            client_id=request.client_id,
            client_host=request.client_host,
            topics=member.topics if names is None else frozenset(names),
        )
        if said != known:
            write(g.member_record(group_id, said))
        topics = after.subscribed()
        missing = after.without_state(self._partitions(topics))
        if missing:
            initializing = g.with_partitions(after.initializing, missing)
            write(g.state_record(group_id, initializing, after.initialized))
        now_hash = self.view.metadata_hash(topics)
        assignable = self._assignable(after)
        assigned = frozenset[Partition]().union(*after.target.values())
        subscribed = known is None or said.topics != known.topics
        ready = frozenset(one for many in assignable.values() for one in many)
        if subscribed or now_hash != after.metadata_hash or ready != assigned:
            write(g.epoch_record(group_id, after.epoch + 1, now_hash))
        if after.is_target_due(now, self.config.own(group_id, "share_assignment_interval_ms")):
            self._assign(now, after, write)
        member = after.members[member_id]
        target = after.target.get(member_id, frozenset())
        if member.epoch != after.target_epoch or member.assigned != target or known is None:
            changed = evolve(
                member, epoch=after.target_epoch, previous_epoch=member.epoch, assigned=target
            )
            write(g.current_record(group_id, changed))
        return records, after.members[member_id]

    def _partitions(self, topics: Iterable[str]) -> Iterable[tuple[Uuid, str, int]]:
        for name in sorted(topics):
            topic = self.view.topic(name)
            if topic is not None:
                for number in range(topic.partitions):
                    yield topic.topic_id, name, number

    def _assignable(self, group: ShareGroup) -> Mapping[str, Sequence[Partition]]:
        """The partitions of each subscribed topic whose state is initialised."""
        found: dict[str, list[Partition]] = {}
        for topic_id, name, number in self._partitions(group.subscribed()):
            known = group.initialized.get(topic_id)
            if known is not None and number in known[1]:
                found.setdefault(name, []).append((topic_id, number))
        return found

    def _assign(
        self, now: int, group: ShareGroup, write: Callable[[CoordinatorRecord], None]
    ) -> None:
        target = g.simple(group.members.values(), self._assignable(group))
        for member_id, wanted in target.items():
            if wanted != group.target.get(member_id):
                write(g.target_record(group.group_id, member_id, wanted))
        write(g.target_epoch_record(group.group_id, group.epoch, now))

    # Members go

    def _without(self, now: int, group: ShareGroup, member_id: str) -> Outcome:
        """Remove a member; the others take its partitions with their next heartbeats."""
        left = evolve(group, members={k: v for k, v in group.members.items() if k != member_id})
        records = g.removal(group.group_id, member_id)
        now_hash = self.view.metadata_hash(left.subscribed())
        records.append(g.epoch_record(group.group_id, group.epoch + 1, now_hash))
        return Outcome(records, timers={TimerKey(SESSION, group.group_id, member_id): None})

    def session_is_over(self, now: int, key: TimerKey) -> Outcome:
        """Remove a member without a heartbeat for the group's `share.session.timeout.ms`."""
        group = self.store.groups.get(key.key)
        if not isinstance(group, ShareGroup) or key.member_id not in group.members:
            return NOTHING
        return self._without(now, group, key.member_id)

    def loaded(self, now: int, group_id: str, group: Group) -> Outcome:
        """Start sessions afresh, and forget topics that were deleted meanwhile."""
        at_ms = now + self.config.own(group_id, "share_session_timeout_ms")
        forgotten = self._without_deleted(group)
        return Outcome(
            forgotten, timers={TimerKey(SESSION, group_id, one): at_ms for one in group.members}
        )

    # The state of share partitions

    def initialising(self, group_id: str) -> tuple[int, list[tuple[Uuid, int]]]:
        """The group's epoch, and the partitions whose state has to be initialised."""
        group = self.store.groups.get(group_id)
        if not isinstance(group, ShareGroup):
            return 0, []
        found = [
            (topic_id, number)
            for topic_id, (_, numbers) in group.initializing.items()
            for number in sorted(numbers)
        ]
        return group.epoch, found

    def initialised(self, group_id: str, done: Iterable[tuple[Uuid, int]]) -> Outcome:
        """Note that the state of partitions is initialised: they may be assigned."""
        group = self.store.groups.get(group_id)
        if not isinstance(group, ShareGroup):
            return NOTHING
        added = [
            (topic_id, group.initializing[topic_id][0], number)
            for topic_id, number in done
            if topic_id in group.initializing and number in group.initializing[topic_id][1]
        ]
        if not added:
            return NOTHING
        left = g.without_partitions(group.initializing, [(one, n) for one, _, n in added])
        initialized = g.with_partitions(group.initialized, added)
        return Outcome((g.state_record(group_id, left, initialized),))

    def topics_deleted(self) -> list[CoordinatorRecord]:
        """Each group without the partitions of topics that are gone: they have no state."""
        groups = list(self.store.groups.current.values())
        shared = [one for one in groups if isinstance(one, ShareGroup)]
        return [record for one in shared for record in self._without_deleted(one)]

    def _without_deleted(self, group: ShareGroup) -> list[CoordinatorRecord]:
        initializing, initialized = (
            {one: of for one, of in topics.items() if self.topics.by_id(one) is not None}
            for topics in (group.initializing, group.initialized)
        )
        if (initializing, initialized) == (group.initializing, group.initialized):
            return []
        return [g.state_record(group.group_id, initializing, initialized)]

    def empty(self, group_id: str) -> ShareGroup:
        """A group without members; a group with members is refused."""
        group = self.store.groups.get(group_id)
        if not isinstance(group, ShareGroup):
            raise GroupIdNotFound(group_id)
        if group.members:
            raise NonEmptyGroup(group_id, len(group.members))
        return group

    def resettable(self, group_id: str) -> ShareGroup:
        """A group without members, which may be new."""
        group = self.store.groups.get(group_id)
        if group is None and not self.store.is_simple(group_id):
            return ShareGroup(group_id)
        return self.empty(group_id)

    def reset(self, group_id: str, partitions: Sequence[tuple[Uuid, str, int]]) -> Outcome:
        """Begin a new life of partitions whose start an operator sets: in a new group epoch."""
        group = self.resettable(group_id)
        initialized = g.with_partitions(group.initialized, partitions)
        names = frozenset(name for _, name, _ in partitions)
        return Outcome(
            (
                g.epoch_record(group_id, group.epoch + 1, self.view.metadata_hash(names)),
                g.state_record(group_id, group.initializing, initialized),
            )
        )

    def without_topics(self, group_id: str, topic_ids: Iterable[Uuid]) -> Outcome:
        """Forget the partitions of topics whose state an operator deletes."""
        group, gone = self.empty(group_id), set(topic_ids)
        kept = {one: of for one, of in group.initialized.items() if one not in gone}
        waiting = {one: of for one, of in group.initializing.items() if one not in gone}
        return Outcome((g.state_record(group_id, waiting, kept),))

    # Operators

    def describe(self, now: int, token: Token, request: m.ShareGroupDescribeRequest) -> Outcome:
        """Describe a share group, as it is committed."""
        group_id = request.group_id
        group = self.store.groups.committed(group_id)
        if isinstance(group, ShareGroup):
            body = self.described(group_id, group)
        else:
            why = "not found." if group is None else "is not a share group."
            body = m.ShareGroupDescribeResponse(
                group_id, "GROUP_ID_NOT_FOUND", f"Group {group_id} {why}"
            )
        return Outcome(answers=(Answer(token, body),), waits=False)

    # The interface for any type of group

    def owns(self, group: Group) -> bool:
        """True for a share group."""
        return isinstance(group, ShareGroup)

    def replay(self, group: Group | None, record: CoordinatorRecord) -> Group | None:
        """The group after a record."""
        if group is not None and not isinstance(group, ShareGroup):
            return group if record.value is None else g.replay(None, record)
        return g.replay(group, record)

    def check_commit(
        self, now: int, group: Group, by: CommitBy, request: Any
    ) -> Mapping[TimerKey, int | None]:
        """Refuse offsets: a share group has none."""
        raise GroupIdNotFound(group.group_id)

    def check_fetch(self, group: Group, by: CommitBy) -> None:
        """Refuse to read offsets: a share group has none."""
        raise GroupIdNotFound(group.group_id)

    def subscribed_topics(self, group: Group) -> frozenset[str] | None:
        """The topics that members subscribe to."""
        return group.subscribed()

    def listed(self, group: Group) -> tuple[str, str]:
        """Protocol type and state."""
        return "share", group.state

    def check_delete_offsets(self, group: Group) -> None:
        """Refuse to delete offsets: a share group has none."""
        raise GroupIdNotFound(group.group_id)

    def described(self, group_id: str, group: Group) -> Any:
        """The response to ShareGroupDescribe."""
        return m.ShareGroupDescribeResponse(
            group_id,
            None,
            None,
            group.state,
            group.epoch,
            group.target_epoch,
            g.SIMPLE,
            [
                m.DescribedShareMember(
                    *(one.member_id, one.rack_id, one.epoch, one.client_id, one.client_host),
                    tuple(sorted(one.topics)),
                    self._named(one.assigned),
                )
                for one in group.members.values()
            ],
        )

    def _named(self, partitions: frozenset[Partition]) -> tuple[m.NamedTopicPartitions, ...]:
        return tuple(
            m.NamedTopicPartitions(topic_id, topic.name, numbers)
            for topic_id, numbers in _assignment(partitions)
            if (topic := self.topics.by_id(topic_id)) is not None
        )

    def deletion(self, group_id: str, group: Group) -> Sequence[CoordinatorRecord]:
        """The tombstones of a group without members; a group with members is refused."""
        if group.members:
            raise NonEmptyGroup(group_id, len(group.members))
        return g.deletion(group_id)

    def offsets_expire_from(self, group: Group, topic: str, commit_timestamp: int) -> int | None:
        """None: a share group has no offsets."""
        return None

    def is_empty(self, group: Group) -> bool:
        """False: a share group stays until an operator deletes it."""
        return False


def _wrong_with(request: m.ShareGroupHeartbeatRequest) -> str | None:
    """The error of a heartbeat that is invalid for every group; None if there is none."""
    epoch, names = request.member_epoch, request.subscribed_topic_names
    checks = (
        (is_no_member_id(request.member_id), ""),  # Kafka says no more
        (not request.group_id.strip(), "GroupId can't be empty."),
        (is_blank(request.rack_id), "RackId can't be empty."),
        (epoch < LEAVE, "MemberEpoch is invalid."),
        (epoch == 0 and not names, "SubscribedTopicNames must be set in first request."),
    )
    return next((why for wrong, why in checks if wrong), None)


def _assignment(partitions: Iterable[Partition]) -> tuple[m.TopicIdPartitions, ...]:
    found: dict[Uuid, tuple[int, ...]] = {}
    for topic_id, number in sorted(partitions):
        found[topic_id] = (*found.get(topic_id, ()), number)
    return tuple(m.TopicIdPartitions(*one) for one in found.items())
