"""The migration of groups with members to the other protocol, at their coordinator.

The rules are those of `refimpl.machines.group_migration`. Here the end of one group and the
beginning of the other become one batch of records, and the timers of one replace those of the
other.
"""

from collections.abc import Iterable, Sequence

from attrs import define, evolve

from refimpl.coordinator.operation import Answer, Outcome, TimerKey
from refimpl.groups.classic import JOIN, SYNC, ClassicGroups, response_of
from refimpl.groups.classic import SESSION as CLASSIC_SESSION
from refimpl.groups.classic_records import record_of, tombstone_of
from refimpl.groups.config import GroupConfig
from refimpl.groups.consumer_topics import TopicView
from refimpl.groups.store import GroupStore
from refimpl.machines import classic_operations as operations
from refimpl.machines.classic_group import ClassicGroup
from refimpl.machines.classic_member import JoinRequest
from refimpl.machines.consumer_classic_member import session_ms_of
from refimpl.machines.consumer_group import ConsumerGroup
from refimpl.machines.consumer_heartbeat import Rules
from refimpl.machines.group_migration import (
    Policy,
    downgrade,
    may_downgrade,
    may_succeed,
    settled,
    tombstones,
    upgrade,
    written,
)

SESSION, REBALANCE, REGEX = "consumer session", "consumer rebalance", "consumer regex"
CLASSIC_JOIN, CLASSIC_SYNC = "consumer classic join", "consumer classic sync"
"""Timers of a consumer group; the last two are of members that use the classic protocol."""
MEMBER_TIMERS = SESSION, REBALANCE, CLASSIC_JOIN, CLASSIC_SYNC


@define(eq=False)
class Migration:
    """A coordinator's migration of groups from one protocol to the other."""

    store: GroupStore
    config: GroupConfig
    view: TopicView

    @property
    def policy(self) -> Policy:
        """The migration policy of this coordinator."""
        return Policy(self.config.consumer_migration_policy.lower())

    @property
    def classic(self) -> ClassicGroups:
        """The logic of classic groups, of the same coordinator."""
        return next(one for one in self.store.logics if isinstance(one, ClassicGroups))

    def upgraded(
        self, now: int, group_id: str, group: ClassicGroup, rules: Rules, instance: str | None
    ) -> tuple[ConsumerGroup, Outcome]:
        """A classic group as a consumer group, when a first member of that protocol joins."""
        made = upgrade(group_id, group, self.view, rules, self.policy, instance)
        timers: dict[TimerKey, int | None] = {
            TimerKey(CLASSIC_SESSION, group_id, one): None
            for one in (*group.members, *group.pending)
        }
        timers |= {TimerKey(JOIN, group_id): None, TimerKey(SYNC, group_id): None}
        for member in made.decision.group.members.values():
            key = TimerKey(SESSION, group_id, member.member_id)
            timers[key] = now + session_ms_of(member)
        answers = [Answer(token, response_of(one)) for token, one in made.answers]
        changes = (tombstone_of(group_id), *made.decision.records)
        return made.decision.group, Outcome(changes, answers, timers)

    def without(
        self, now: int, group: ConsumerGroup, gone: Iterable[str], answers: Sequence[Answer] = ()
    ) -> Outcome | None:
        """The outcome of a downgrade when these members leave; None if the group stays a consumer
        group.
        """
        if not may_downgrade(group, gone, self.policy, self.config.max_size):
            return None
        return self._downgraded(now, group, downgrade(group, gone, self.view), answers)

    def succeeded(self, now: int, group: ConsumerGroup, request: JoinRequest) -> Outcome | None:
        """The outcome of a downgrade by a join; None if the group stays a consumer group.

        The last member of the consumer protocol is then replaced by a process of the classic one.
        """
        if not may_succeed(group, request, self.policy, self.config.max_size):
            return None
        made = downgrade(group, (), self.view, request)
        return self._downgraded(now, group, made, (), request)

    def _downgraded(
        self,
        now: int,
        group: ConsumerGroup,
        made: ClassicGroup,
        answers: Sequence[Answer],
        successor: JoinRequest | None = None,
    ) -> Outcome:
        """The outcome of turning a consumer group into a classic one."""
        before = evolve(made, since=now)
        stale = successor is None or not settled(group)
        rules = self.classic.rules
        step = operations.downgraded(before, rules, successor, stale=stale)
        records = list(tombstones(group).records)
        if not step.writes:
            records.append(record_of(group.group_id, written(before)))
        outcome = self.classic.outcome(now, group.group_id, before, step, records)
        timers: dict[TimerKey, int | None] = {
            TimerKey(kind, group.group_id, one): None
            for one in group.members
            for kind in MEMBER_TIMERS
        }
        return evolve(
            outcome, answers=[*answers, *outcome.answers], timers={**timers, **outcome.timers}
        )
