"""Groups of the classic protocol at their coordinator: requests in, steps of the machine, answers.

The rules are the machine's (`refimpl.machines.classic_operations`). Here its steps become records,
timers and responses under Kafka's names. A group is Stable as soon as the leader's assignment is
written, and SyncGroups are answered once it is committed; in Kafka it becomes Stable only then.
Members between generations, parked requests and timers are not written to the log.
"""

from collections.abc import Callable, Mapping, Sequence

from attrs import define, evolve, field

from refimpl.coordinator.operation import NOTHING, Answer, Handler, Outcome, Soft, TimerKey, Token
from refimpl.errors import Refusal
from refimpl.groups.classic_records import (
    CONSUMER_TYPE,
    NUMBER,
    group_of,
    record_of,
    subscribed_topics,
    tombstone_of,
)
from refimpl.groups.config import GroupConfig
from refimpl.groups.errors import InvalidSessionTimeout, UnknownGroupMember
from refimpl.groups.logic import CommitBy, Group
from refimpl.groups.store import GroupStore
from refimpl.groups.topics import Topics
from refimpl.machines import classic_group_errors as errors
from refimpl.machines import classic_operations as operations
from refimpl.machines.classic_group import ClassicGroup, Config, Step
from refimpl.machines.classic_member import (
    ClassicGroupMember,
    HeartbeatResponse,
    JoinRequest,
    JoinResponse,
    LeaveResponse,
    Response,
    SyncRequest,
    SyncResponse,
)
from refimpl.messages import group as m
from refimpl.records.coordinators import CoordinatorRecord

SESSION, JOIN, SYNC = "session", "join", "sync"
"""The kinds of the machine's timers."""


@define(eq=False)
class ClassicGroups:
    """The classic groups of one coordinator."""

    store: GroupStore
    config: GroupConfig
    topics: Topics
    new_id: Callable[[], str]
    group_type: str = m.CLASSIC
    record_types: frozenset[int] = frozenset({NUMBER})
    handlers: Mapping[type, Handler] = field(init=False)
    timers: Mapping[str, Callable[[int, TimerKey], Outcome]] = field(init=False)
    rules: Config = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Map each type of request to its handler."""
        self.handlers = {
            m.JoinGroupRequest: self.join,
            m.SyncGroupRequest: self.sync,
            m.HeartbeatRequest: self.heartbeat,
            m.LeaveGroupRequest: self.leave,
        }
        self.timers = {SESSION: self._session, JOIN: self._join_over, SYNC: self._sync_over}
        self.rules = Config(self.config.initial_rebalance_delay_ms, self.config.max_size)

    # Requests

    def join(self, now: int, token: Token, request: m.JoinGroupRequest) -> Outcome:
        """JoinGroup: the first member creates the group, or replaces an empty group of another
        type.
        """
        asked = self.asked(token, request)
        group_id = request.group_id
        there = self.store.groups.get(group_id)
        before: Sequence[CoordinatorRecord] = ()
        if there is not None and not self.owns(there):
            before, there = self.store.logic_of(there).deletion(group_id, there), None
        if there is None and request.member_id:
            raise UnknownGroupMember(group_id, request.member_id)
        step = operations.join(there or ClassicGroup(), asked, self.rules)
        return self.outcome(now, group_id, there, step, before)

    def asked(self, token: Token, request: m.JoinGroupRequest) -> JoinRequest:
        """The request for the machine; refused if its session timeout is outside the broker's
        limits.
        """
        least, most = self.config.min_session_timeout_ms, self.config.max_session_timeout_ms
        if not least <= request.session_timeout_ms <= most:
            raise InvalidSessionTimeout(request.session_timeout_ms, least, most)
        instance = request.group_instance_id
        return JoinRequest(
            token=token,
            member=request.member_id,
            protocols=tuple(request.protocols),
            protocol_type=request.protocol_type,
            instance=instance,
            new_id=f"{request.client_id if instance is None else instance}-{self.new_id()}",
            session_ms=request.session_timeout_ms,
            rebalance_ms=request.rebalance_timeout_ms,
            client_id=request.client_id,
            client_host=request.client_host,
            knows=request.requires_known_member_id,
            can_skip=request.can_skip_assignment,
        )

    def sync(self, now: int, token: Token, request: m.SyncGroupRequest) -> Outcome:
        """SyncGroup: answer with the assignment, now or once the leader has made it."""
        group = self._group(request.group_id, request.member_id)
        step = operations.sync(group, sync_of(token, request))
        return self.outcome(now, request.group_id, group, step)

    def heartbeat(self, now: int, token: Token, request: m.HeartbeatRequest) -> Outcome:
        """Heartbeat of a member."""
        member, generation = request.member_id, request.generation_id
        group = self._group(request.group_id, member)
        step = operations.heartbeat(group, token, member, generation, request.group_instance_id)
        return self.outcome(now, request.group_id, group, step)

    def leave(self, now: int, token: Token, request: m.LeaveGroupRequest) -> Outcome:
        """LeaveGroup: members leave, each with its own result."""
        first = next((one.member_id for one in request.members), "")
        group = self._group(request.group_id, first)
        leaving = [(one.member_id, one.group_instance_id) for one in request.members]
        step = operations.leave(group, token, leaving)
        return self.outcome(now, request.group_id, group, step)

    def _group(self, group_id: str, member: str) -> ClassicGroup:
        group = self.store.groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            raise UnknownGroupMember(group_id, member)
        return group

    # Time

    def _session(self, now: int, key: TimerKey) -> Outcome:
        return self._due(now, key, lambda group: operations.session_expired(group, key.member_id))

    def _join_over(self, now: int, key: TimerKey) -> Outcome:
        return self._due(now, key, lambda group: operations.join_expired(group, self.rules))

    def _sync_over(self, now: int, key: TimerKey) -> Outcome:
        return self._due(now, key, operations.sync_expired)

    def _due(self, now: int, key: TimerKey, expire: Callable[[ClassicGroup], Step]) -> Outcome:
        """Handle a timer that is due; one that no longer applies changes nothing."""
        try:
            group = self._group(key.key, key.member_id)
            return self.outcome(now, key.key, group, expire(group))
        except Refusal:
            return NOTHING

    # Results of a step

    def outcome(
        self,
        now: int,
        group_id: str,
        before: ClassicGroup | None,
        step: Step,
        records: Sequence[CoordinatorRecord] = (),
    ) -> Outcome:
        """The records, answers and timers of a step, after `records` of a group that it replaces.

        A new group is written at once, though it has no members yet.
        """
        group = step.group
        if before is None or group.state != before.state:
            group = evolve(group, since=now)
        changes: list[CoordinatorRecord | Soft] = [*records]
        if before is None or step.writes:
            changes.append(record_of(group_id, group if step.writes else ClassicGroup(since=now)))
        if group is not before:
            changes.append(Soft(group_id, group))
        return Outcome(
            changes,
            [Answer(token, response_of(one)) for token, one in step.answers],
            {
                TimerKey(kind, group_id, member): None if ms is None else now + ms
                for (kind, member), ms in step.timers.items()
            },
        )

    # The interface for any type of group

    def owns(self, group: Group) -> bool:
        """True for a classic group."""
        return isinstance(group, ClassicGroup)

    def replay(self, group: Group | None, record: CoordinatorRecord) -> Group | None:
        """The group after a record; a tombstone does not remove a group of another type."""
        if record.value is None:
            return None if self.owns(group) else group
        return group_of(record.value)

    def loaded(self, now: int, group_id: str, group: Group) -> Outcome:
        """Start all sessions afresh."""
        return self.outcome(now, group_id, group, operations.loaded(group, self.rules))

    def check_commit(
        self, now: int, group: Group, by: CommitBy, request: m.OffsetCommitRequest
    ) -> Mapping[TimerKey, int | None]:
        """Refuse a commit of a client that is not a member in this generation.

        A commit counts as a heartbeat of its member, if the group has members.
        """
        member, generation = by.member_id, by.generation_id
        group.check_commit(member, generation, by.group_instance_id, by.transactional)
        known = group.members.get(member)
        if known is None:
            return {}
        group_id = request.group_id
        return {TimerKey(SESSION, group_id, member): now + known.session_ms}

    def check_fetch(self, group: Group, by: CommitBy) -> None:
        """Allow all readers: the offsets of a classic group are open to any client."""

    def subscribed_topics(self, group: Group) -> frozenset[str] | None:
        """The topics that members subscribe to; None if they cannot be read."""
        return subscribed_topics(group)

    def listed(self, group: Group) -> tuple[str, str]:
        """Protocol type and state."""
        return group.protocol_type or "", group.state

    def check_delete_offsets(self, group: Group) -> None:
        """Refuse to delete offsets of a group with members of another protocol type: its topics are
        unknown.
        """
        if group.state != "Empty" and group.protocol_type != CONSUMER_TYPE:
            raise errors.ClassicGroupNotEmpty(group.state)

    def described(self, group_id: str, group: Group) -> m.DescribeGroupResponse:
        """The response to DescribeGroup: members with their last assignments, and in a stable group
        with their metadata.
        """
        stable = group.state == "Stable"
        return m.DescribeGroupResponse(
            group_id,
            None,
            state=group.state,
            protocol_type=group.protocol_type or "",
            protocol=group.protocol or "" if stable else "",
            members=[
                m.DescribedMember(
                    *(one.id, one.instance, one.client_id, one.client_host),
                    metadata=one.metadata(group.protocol) if stable else b"",
                    assignment=one.assignment,
                )
                for one in group.members.values()
            ],
        )

    def deletion(self, group_id: str, group: Group) -> Sequence[CoordinatorRecord]:
        """The tombstone of a group without members."""
        if group.state != "Empty":
            raise errors.ClassicGroupNotEmpty(group.state)
        return (tombstone_of(group_id),)

    def offsets_expire_from(self, group: Group, topic: str, commit_timestamp: int) -> int | None:
        """The time from which the offset counts as unused; None while it is in use (KIP-211).

        In an empty group it is the commit or the time when the group became empty, whichever is
        later. Kafka expires a commit for a long-empty group at once. In a stable group it is the
        commit, if no member subscribes to the topic. During a rebalance nothing expires, because
        the subscriptions are not known (KAFKA-13636).
        """
        if group.protocol_type is None:
            return commit_timestamp
        if group.state == "Empty":
            return max(commit_timestamp, group.since)
        topics = subscribed_topics(group) if group.state == "Stable" else None
        return commit_timestamp if topics is not None and topic not in topics else None

    def is_empty(self, group: Group) -> bool:
        """True if it has no members, and no pending ids."""
        return group.state == "Empty" and not group.pending


def _told(member: ClassicGroupMember, protocol: str | None) -> m.JoinGroupMember:
    return m.JoinGroupMember(member.id, member.instance, member.metadata(protocol))


def sync_of(token: Token, request: m.SyncGroupRequest) -> SyncRequest:
    """A SyncGroup request for the machine."""
    return SyncRequest(
        token=token,
        member=request.member_id,
        generation=request.generation_id,
        instance=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocol=request.protocol_name,
        assignments=tuple(request.assignments),
    )


def response_of(response: Response) -> object:
    """An answer of the machine under Kafka's names."""
    match response:
        case JoinResponse():
            protocol = response.protocol
            return m.JoinGroupResponse(
                response.error,
                response.member,
                response.generation,
                response.protocol_type,
                protocol,
                response.leader,
                response.skip_assignment,
                [_told(one, protocol) for one in response.members],
            )
        case SyncResponse():
            return m.SyncGroupResponse(
                response.error, response.assignment, response.protocol_type, response.protocol
            )
        case HeartbeatResponse():
            return m.HeartbeatResponse(response.error)
        case LeaveResponse():
            return m.LeaveGroupResponse(None, [m.LeftMember(*one) for one in response.left])
