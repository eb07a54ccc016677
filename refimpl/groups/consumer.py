"""Consumer groups (KIP-848) at their coordinator: heartbeats, timeouts, changes of topics.

The rules are those of `refimpl.machines.consumer_heartbeat`; this module supplies requests, timers
and topics. It is the part of Kafka's GroupMetadataManager for the consumer protocol.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import define, field

from refimpl.coordinator.operation import NOTHING, Answer, Handler, Outcome, TimerKey, Token
from refimpl.groups.classic_members import ClassicMembers
from refimpl.groups.config import GroupConfig
from refimpl.groups.consumer_assignment import assign
from refimpl.groups.consumer_description import by_topic, describe
from refimpl.groups.consumer_errors import (
    ConsumerGroupNotFound,
    InvalidHeartbeat,
    UnsupportedAssignor,
)
from refimpl.groups.consumer_topics import TopicView, compiled
from refimpl.groups.errors import GroupIdNotFound
from refimpl.groups.logic import CommitBy, Group, is_blank
from refimpl.groups.migration import MEMBER_TIMERS, REBALANCE, REGEX, SESSION, Migration
from refimpl.groups.store import GroupStore
from refimpl.groups.topics import Topics
from refimpl.machines import consumer_group_errors as errors
from refimpl.machines.consumer_classic_member import session_ms_of
from refimpl.machines.consumer_draft import Decision
from refimpl.machines.consumer_group import (
    CURRENT,
    LEAVE,
    LEAVE_FOR_A_WHILE,
    MEMBER,
    RECORD_TYPES,
    UNREVOKED,
    ConsumerGroup,
    ConsumerMember,
    Partition,
    replay,
)
from refimpl.machines.consumer_heartbeat import (
    Heartbeat,
    Rules,
    fence,
    heartbeat,
    leave,
    resolve,
)
from refimpl.messages import group as m
from refimpl.records.consumer_groups import RegularExpression
from refimpl.records.coordinators import CoordinatorRecord
from refimpl.records.schema import NO_ID, Uuid

#: The configurations that each group may have
SESSION_TIMEOUT, HEARTBEAT_INTERVAL, ASSIGNMENT_INTERVAL = (
    *("consumer_session_timeout_ms", "consumer_heartbeat_interval_ms"),
    "consumer_assignment_interval_ms",
)
REGEX_REST_MS = 10_000
"""The time for which a regular expression is not matched again."""

Timers = dict[TimerKey, int | None]


@define(eq=False)
class ConsumerGroups:
    """The groups of the consumer protocol of one coordinator."""

    store: GroupStore
    config: GroupConfig
    topics: Topics
    new_id: Callable[[], str]
    view: TopicView = field(init=False)
    migration: Migration = field(init=False)
    group_type: str = m.CONSUMER
    record_types: frozenset[int] = RECORD_TYPES
    handlers: Mapping[type, Handler] = field(init=False)
    timers: Mapping[str, Any] = field(init=False)
    #: Per group, the version of the topics that it was last compared with, and its epoch then
    _compared: dict[str, tuple[int, int]] = field(factory=dict[str, tuple[int, int]], init=False)
    #: Per group, all topics that existed when its regular expressions were matched
    _matched: dict[str, frozenset[str]] = field(factory=dict[str, frozenset[str]], init=False)

    def __attrs_post_init__(self) -> None:
        """Map requests and timers to their handlers."""
        self.view = TopicView(self.topics)
        self.migration = Migration(self.store, self.config, self.view)
        members = ClassicMembers(self, self.migration)
        self.handlers = {m.ConsumerGroupHeartbeatRequest: self.heartbeat, **members.handlers}
        self.timers = {
            **members.timers,
            SESSION: self.session_is_over,
            REBALANCE: self.rebalance_is_over,
            REGEX: self.match_topics,
        }

    # Heartbeats

    def heartbeat(
        self, now: int, token: Token, request: m.ConsumerGroupHeartbeatRequest
    ) -> Outcome:
        """A member joins, lives or leaves."""
        self._check(request)
        group_id, epoch = request.group_id, request.member_epoch
        if epoch < 0 and self.store.groups.get(group_id) is None:
            raise GroupIdNotFound(group_id)
        group, before = self._group(now, group_id, request.instance_id, may_be_new=epoch == 0)
        rules = self.rules(now, group)
        said = _heartbeat(request, self.new_id)
        if epoch in (LEAVE, LEAVE_FOR_A_WHILE):
            decision = leave(group, said, rules)
            body = m.ConsumerGroupHeartbeatResponse(None, None, said.member_id, epoch)
            return self.without(now, group, decision, (Answer(token, body),))
        decision = heartbeat(group, said, rules)
        self.compared(decision.group)
        timers = {**before.timers, **self.timers_of(now, decision)}
        key = TimerKey(SESSION, group_id, said.member_id)
        timers[key] = now + self.config.own(group_id, SESSION_TIMEOUT)
        if self._must_match(now, decision.group):
            timers[TimerKey(REGEX, group_id)] = now
        answers = (*before.answers, Answer(token, self._response(decision)))
        return Outcome([*before.changes, *decision.records], answers, timers)

    def without(
        self, now: int, group: ConsumerGroup, decision: Decision, answers: tuple[Answer, ...] = ()
    ) -> Outcome:
        """The outcome of a decision by which members leave; the group may become classic."""
        gone = group.members.keys() - decision.group.members.keys()
        downgraded = self.migration.without(now, group, gone, answers) if gone else None
        return downgraded or Outcome(decision.records, answers, self.timers_of(now, decision))

    def _check(self, request: m.ConsumerGroupHeartbeatRequest) -> None:
        """Refuse a heartbeat that is invalid for every group."""
        why = _wrong_with(request)
        if why:
            raise InvalidHeartbeat(why)
        name, known = request.server_assignor, self.config.consumer_assignors
        if name is not None and name not in known:
            raise UnsupportedAssignor(name, ", ".join(known))
        if request.subscribed_topic_regex:
            compiled(request.subscribed_topic_regex)

    def _group(
        self, now: int, group_id: str, instance: str | None, *, may_be_new: bool
    ) -> tuple[ConsumerGroup, Outcome]:
        """The group, and the outcome of replacing a classic group."""
        group, new = self.store.groups.get(group_id), ConsumerGroup(group_id)
        if isinstance(group, ConsumerGroup):
            return group, NOTHING
        if not may_be_new:
            raise ConsumerGroupNotFound(group_id)
        if group is None:
            return new, NOTHING
        if group.members:
            return self.migration.upgraded(now, group_id, group, self.rules(now, new), instance)
        return new, Outcome(self.store.logic_of(group).deletion(group_id, group))

    def compared(self, group: ConsumerGroup) -> None:
        """Record that the group was compared with the current topics."""
        self._compared[group.group_id] = self.topics.version, group.epoch

    def rules(self, now: int, group: ConsumerGroup) -> Rules:
        """The settings and functions that a machine needs beside the group."""
        version, epoch = self._compared.get(group.group_id, (-1, 0))
        return Rules(
            topics=self.view,
            assign=lambda one: assign(one, self.view, self.config.consumer_assignors[0]),
            now=now,
            assignment_interval_ms=self.config.own(group.group_id, ASSIGNMENT_INTERVAL),
            max_size=self.config.consumer_max_size,
            refresh=version != self.topics.version or group.epoch < epoch,
        )

    def _response(self, decision: Decision) -> m.ConsumerGroupHeartbeatResponse:
        member, told = decision.member, decision.assignment
        assert member is not None
        parts = None if told is None else by_topic(told).items()
        return m.ConsumerGroupHeartbeatResponse(
            None,
            None,
            member.member_id,
            member.epoch,
            self.config.own(decision.group.group_id, HEARTBEAT_INTERVAL),
            None if parts is None else tuple([m.TopicIdPartitions(*one) for one in parts]),
        )

    # Time

    def timers_of(self, now: int, decision: Decision) -> Timers:
        """The timers of a decision: none for a member that is gone, and its own rebalance timeout
        for one that has partitions to give up.
        """
        timers: Timers = {}
        for record in decision.records:
            if record.kind is MEMBER and record.value is None:
                timers |= self._none(decision.group.group_id, record.key.member_id)
            elif record.kind is CURRENT and record.value is not None:
                member = decision.group.members[record.key.member_id]
                timers |= self._rebalance(now, decision.group.group_id, member)
        return timers

    def _none(self, group_id: str, member_id: str) -> Timers:
        return {TimerKey(kind, group_id, member_id): None for kind in MEMBER_TIMERS}

    def _rebalance(self, now: int, group_id: str, member: ConsumerMember) -> Timers:
        if member.is_classic:  # it has the time to join instead
            return {}
        patience = member.said.rebalance_timeout_ms
        at_ms = now + patience if member.state == UNREVOKED else None
        return {TimerKey(REBALANCE, group_id, member.member_id): at_ms}

    def session_is_over(self, now: int, key: TimerKey) -> Outcome:
        """Fence a member without a heartbeat for the group's `consumer.session.timeout.ms`."""
        return self.fence(now, key, lambda _: True)

    def rebalance_is_over(self, now: int, key: TimerKey) -> Outcome:
        """Fence a member that did not give its partitions up within its rebalance timeout."""
        return self.fence(now, key, lambda member: member.state == UNREVOKED)

    def fence(self, now: int, key: TimerKey, due: Callable[[ConsumerMember], bool]) -> Outcome:
        """Fence a member whose timer expired, if `due` is true for it."""
        group = self.store.groups.get(key.key)
        if not isinstance(group, ConsumerGroup) or key.member_id not in group.members:
            return NOTHING
        if not due(group.members[key.member_id]):
            return NOTHING
        decision = fence(group, [key.member_id], self.rules(now, group))
        return self.without(now, group, decision)

    def loaded(self, now: int, group_id: str, group: Group) -> Outcome:
        """Start sessions afresh, and the rebalance timeouts too."""
        timers: Timers = {}
        for member_id, member in group.members.items():
            session = TimerKey(SESSION, group_id, member_id)
            own = session_ms_of(member) if member.is_classic else None
            timers[session] = now + (own or self.config.own(group_id, SESSION_TIMEOUT))
            if member.state == UNREVOKED:
                timers |= self._rebalance(now, group_id, member)
        return Outcome(timers=timers)

    # Regular expressions

    def _must_match(self, now: int, group: ConsumerGroup) -> bool:
        """True if regular expressions must be matched: one is new, topics have changed, or the last
        time is long ago.
        """
        subscribed = {one.regex for one in group.members.values() if one.regex}
        if not subscribed:
            return False
        last = max((one.timestamp for one in group.regexes.values()), default=None)
        if last is not None and now <= last + REGEX_REST_MS:
            return False
        return (
            last is None
            or subscribed != set(group.regexes)
            or self._matched.get(group.group_id) != self.view.names()
            or now > last + self.config.consumer_regex_refresh_interval_ms
        )

    def match_topics(self, now: int, key: TimerKey) -> Outcome:
        """Match every regular expression of a group with all topics."""
        group = self.store.groups.get(key.key)
        if not isinstance(group, ConsumerGroup):
            return NOTHING
        regexes = sorted({one.regex for one in group.members.values() if one.regex})
        version = self.topics.version
        found = {
            regex: RegularExpression(self.view.matching(regex), version, now) for regex in regexes
        }
        self._matched[key.key] = self.view.names()
        return Outcome(resolve(group, found, self.rules(now, group)).records)

    # The interface for any type of group

    def owns(self, group: Group) -> bool:
        """True for a consumer group."""
        return isinstance(group, ConsumerGroup)

    def replay(self, group: Group | None, record: CoordinatorRecord) -> Group | None:
        """The group after a record; a value replaces a group of another type (KAFKA-20254)."""
        if group is not None and not isinstance(group, ConsumerGroup):
            return group if record.value is None else replay(None, record)
        return replay(group, record)

    def check_commit(
        self, now: int, group: Group, by: CommitBy, request: Any
    ) -> Mapping[TimerKey, int | None]:
        """Refuse a commit unless the member has had these partitions since that epoch.

        A producer that names no member may commit; then nobody is fenced (KIP-447).
        """
        named = by.member_id or by.generation_id >= 0 or by.group_instance_id is not None
        if by.transactional and not named:
            return {}
        member = group.members.get(by.member_id)
        epochs = by.knows_member_epochs or by.transactional
        if member is not None and not member.is_classic and not epochs:
            raise errors.OlderClient(by.member_id)
        partitions = [self._partition(one) for one in request.partitions]
        group.check_commit(by.member_id, by.generation_id, partitions)
        return {}

    def _partition(self, one: m.CommittedPartition) -> Partition:
        if one.topic_id != NO_ID:
            return Uuid(one.topic_id), one.partition.partition
        topic = self.view.topic(one.partition.topic)
        return (NO_ID if topic is None else topic.topic_id), one.partition.partition

    def check_fetch(self, group: Group, by: CommitBy) -> None:
        """Refuse to read offsets in another epoch than the member's."""
        group.check_fetch(by.member_id, by.generation_id)

    def subscribed_topics(self, group: Group) -> frozenset[str] | None:
        """The topics that members subscribe to."""
        return group.subscribed_topics()

    def listed(self, group: Group) -> tuple[str, str]:
        """Protocol type and state."""
        return "consumer", group.state

    def check_delete_offsets(self, group: Group) -> None:
        """Allow to delete offsets of topics without subscribers."""

    def described(self, group_id: str, group: Group) -> Any:
        """The response to ConsumerGroupDescribe."""
        return describe(group, self.topics, self.config.consumer_assignors[0])

    def deletion(self, group_id: str, group: Group) -> Sequence[CoordinatorRecord]:
        """The tombstones of a group without members."""
        return group.deletion()

    def offsets_expire_from(self, group: Group, topic: str, commit_timestamp: int) -> int | None:
        """The commit's time, for a topic without subscribers; else None."""
        return None if topic in group.subscribed_topics() else commit_timestamp

    def is_empty(self, group: Group) -> bool:
        """True if it has no members."""
        return not group.members


def _wrong_with(request: m.ConsumerGroupHeartbeatRequest) -> str:
    """The error of a heartbeat that is invalid for every group; "" if there is none."""
    epoch, r = request.member_epoch, request
    unsubscribed = r.subscribed_topic_names is None and r.subscribed_topic_regex is None
    checks = (
        (
            not r.member_id.strip() and not (r.may_lack_member_id and epoch == 0),
            "MemberId can't be empty.",
        ),
        (not r.group_id.strip(), "GroupId can't be empty."),
        (is_blank(r.instance_id), "InstanceId can't be empty."),
        (is_blank(r.rack_id), "RackId can't be empty."),
        (epoch < LEAVE_FOR_A_WHILE, "MemberEpoch is invalid."),
        (epoch == LEAVE_FOR_A_WHILE and r.instance_id is None, "InstanceId can't be null."),
        (
            epoch == 0 and r.rebalance_timeout_ms == -1,
            "RebalanceTimeoutMs must be provided in first request.",
        ),
        (
            epoch == 0 and r.topic_partitions != (),
            "TopicPartitions must be empty when (re-)joining.",
        ),
        (
            epoch == 0 and unsubscribed,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining.",
        ),
    )
    return next((why for wrong, why in checks if wrong), "")


def _heartbeat(request: m.ConsumerGroupHeartbeatRequest, new_id: Callable[[], str]) -> Heartbeat:
    names, owned = request.subscribed_topic_names, request.topic_partitions
    return Heartbeat(
        member_id=request.member_id or new_id(),
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=(
            None if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms
        ),
        topic_names=None if names is None else frozenset(names),
        topic_regex=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=(
            None
            if owned is None
            else frozenset((topic_id, number) for topic_id, ps in owned for number in ps)
        ),
        client_id=request.client_id,
        client_host=request.client_host,
    )
