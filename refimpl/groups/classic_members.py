"""Members of consumer groups that use the classic protocol, at their coordinator.

The rules are those of `refimpl.machines.consumer_classic_member`; here requests become records,
timers and responses under Kafka's names.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from attrs import define, field

from refimpl.coordinator.operation import Answer, Handler, Outcome, TimerKey, Token
from refimpl.groups.classic import response_of, sync_of
from refimpl.groups.errors import OtherGroupType
from refimpl.groups.migration import CLASSIC_JOIN, CLASSIC_SYNC, SESSION, Migration
from refimpl.machines import consumer_classic_member as machine
from refimpl.machines.consumer_draft import Decision
from refimpl.machines.consumer_group import ConsumerGroup, ConsumerMember
from refimpl.machines.consumer_heartbeat import Rules, fence
from refimpl.machines.group_migration import Policy
from refimpl.messages import group as m

Timers = dict[TimerKey, int | None]


class ConsumerLogic(Protocol):
    """The logic of consumer groups that members of both protocols share."""

    def rules(self, now: int, group: ConsumerGroup) -> Rules:
        """The settings and functions that a machine needs beside the group."""
        ...

    def compared(self, group: ConsumerGroup) -> None:
        """Record that the group was compared with the current topics."""
        ...

    def timers_of(self, now: int, decision: Decision) -> Timers:
        """The timers that a decision sets and cancels."""
        ...

    def without(
        self, now: int, group: ConsumerGroup, decision: Decision, answers: tuple[Answer, ...]
    ) -> Outcome:
        """The outcome of a decision by which members leave."""
        ...

    def fence(self, now: int, key: TimerKey, due: Callable[[ConsumerMember], bool]) -> Outcome:
        """Fence a member whose timer expired, if `due` is true for it."""
        ...


@define(eq=False)
class ClassicMembers:
    """The classic members of the consumer groups of one coordinator."""

    consumer: ConsumerLogic
    migration: Migration
    handlers: Mapping[type, Handler] = field(init=False)
    timers: Mapping[str, Any] = field(init=False)
    #: The deadline of each member that was asked to join again
    _join_by: dict[TimerKey, int] = field(factory=dict[TimerKey, int], init=False)

    def __attrs_post_init__(self) -> None:
        """Map each type of request to its handler."""
        self.handlers = {
            m.JoinGroupRequest: self.join,
            m.SyncGroupRequest: self.sync,
            m.HeartbeatRequest: self.heartbeat,
            m.LeaveGroupRequest: self.leave,
        }
        self.timers = {CLASSIC_JOIN: self.time_is_over, CLASSIC_SYNC: self.time_is_over}

    def _group(self, group_id: str) -> ConsumerGroup:
        return self.migration.store.groups.current[group_id]

    def join(self, now: int, token: Token, request: m.JoinGroupRequest) -> Outcome:
        """JoinGroup: a member joins, or joins again; it is led on by one step, and answered at
        once.
        """
        group = self._group(request.group_id)
        if self.migration.policy is Policy.DISABLED:
            raise OtherGroupType(request.group_id, m.CONSUMER)
        asked = self.migration.classic.asked(token, request)
        downgraded = self.migration.succeeded(now, group, asked)
        if downgraded is not None:
            return downgraded
        decision = machine.join(group, asked, self.migration.view, self.consumer.rules(now, group))
        if decision is None:
            body = m.JoinGroupResponse("MEMBER_ID_REQUIRED", asked.new_id)
            return Outcome(answers=(Answer(token, body),))
        self.consumer.compared(decision.group)
        member = decision.member
        assert member is not None
        timers = self.consumer.timers_of(now, decision) | self._lives(now, group, member)
        timers |= self._joined(group, member.member_id)
        timers[self._key(CLASSIC_SYNC, group, member)] = now + asked.rebalance_ms
        body = m.JoinGroupResponse(
            *(None, member.member_id, member.epoch, machine.CONSUMER, machine.protocol_of(member))
        )
        return Outcome(decision.records, (Answer(token, body),), timers)

    def sync(self, now: int, token: Token, request: m.SyncGroupRequest) -> Outcome:
        """SyncGroup: answer with the member's assignment."""
        group = self._group(request.group_id)
        response = machine.sync(group, sync_of(token, request), self.migration.view)
        member = group.members[request.member_id]
        if response.error is not None:
            timers = self._must_join(now, group, member)
        else:
            timers = self._lives(now, group, member)
            timers[self._key(CLASSIC_SYNC, group, member)] = None
        return Outcome(answers=(Answer(token, response_of(response)),), timers=timers)

    def heartbeat(self, now: int, token: Token, request: m.HeartbeatRequest) -> Outcome:
        """Heartbeat of a member."""
        group = self._group(request.group_id)
        decision, response = machine.heartbeat(
            *(group, request.member_id, request.generation_id, request.group_instance_id),
            self.consumer.rules(now, group),
        )
        self.consumer.compared(decision.group)
        member = decision.group.members[request.member_id]
        timers = self._lives(now, group, member)
        if response.error is not None:
            timers |= self._must_join(now, group, member)
        return Outcome(decision.records, (Answer(token, response_of(response)),), timers)

    def leave(self, now: int, token: Token, request: m.LeaveGroupRequest) -> Outcome:
        """LeaveGroup: members leave, each with its own result."""
        group = self._group(request.group_id)
        leaving = [(one.member_id, one.group_instance_id) for one in request.members]
        gone, response = machine.leave(group, leaving)
        answers = (Answer(token, response_of(response)),)
        if not gone:
            return Outcome(answers=answers)
        decision = fence(group, sorted(gone), self.consumer.rules(now, group))
        return self.consumer.without(now, group, decision, answers)

    # Time

    def time_is_over(self, now: int, key: TimerKey) -> Outcome:
        """Fence a member that did not join, or did not ask for its assignment, in time."""
        self._join_by.pop(key, None)
        return self.consumer.fence(now, key, lambda member: member.is_classic)

    def _key(self, kind: str, group: ConsumerGroup, member: ConsumerMember) -> TimerKey:
        return TimerKey(kind, group.group_id, member.member_id)

    def _lives(self, now: int, group: ConsumerGroup, member: ConsumerMember) -> Timers:
        return {self._key(SESSION, group, member): now + machine.session_ms_of(member)}

    def _must_join(self, now: int, group: ConsumerGroup, member: ConsumerMember) -> Timers:
        """The timer for joining again, counted from the first time that the member was asked to."""
        key = self._key(CLASSIC_JOIN, group, member)
        return {key: self._join_by.setdefault(key, now + member.said.rebalance_timeout_ms)}

    def _joined(self, group: ConsumerGroup, member_id: str) -> Timers:
        key = TimerKey(CLASSIC_JOIN, group.group_id, member_id)
        self._join_by.pop(key, None)
        return {key: None}
