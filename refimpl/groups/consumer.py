"""Consumer groups (KIP-848) at their coordinator: heartbeats, time-outs, topics that change.

The rules are those of `refimpl.machines.consumer_heartbeat`; this brings them requests, timers and
topics. What Kafka's GroupMetadataManager does for groups of the consumer protocol.
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
from refimpl.groups.logic import CommitBy, Group
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

#: What may be configured of each group
SESSION_TIMEOUT, HEARTBEAT_INTERVAL, ASSIGNMENT_INTERVAL = (
    *("consumer_session_timeout_ms", "consumer_heartbeat_interval_ms"),
    "consumer_assignment_interval_ms",
)
REGEX_REST_MS = 10_000
"""How long the topics that match are not looked for again."""

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
    #: Per group, the version of the topics that it was compared with last, and its epoch then
    _compared: dict[str, tuple[int, int]] = field(factory=dict[str, tuple[int, int]], init=False)
    #: Per group, all topics that there were when its regular expressions were matched
    _matched: dict[str, frozenset[str]] = field(factory=dict[str, frozenset[str]], init=False)

    def __attrs_post_init__(self) -> None:
        """Look up once who handles what."""
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
        group, before = self._group(now, group_id, may_be_new=epoch == 0)
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
        """What comes of a decision by which members leave: perhaps a classic group is left."""
        gone = group.members.keys() - decision.group.members.keys()
        downgraded = self.migration.without(now, group, gone, answers) if gone else None
        return downgraded or Outcome(decision.records, answers, self.timers_of(now, decision))

    def _check(self, request: m.ConsumerGroupHeartbeatRequest) -> None:
        """Refuse what no group takes."""
        why = _wrong_with(request)
        if why:
            raise InvalidHeartbeat(why)
        name, known = request.server_assignor, self.config.consumer_assignors
        if name is not None and name not in known:
            raise UnsupportedAssignor(name, ", ".join(known))
        if request.subscribed_topic_regex:
            compiled(request.subscribed_topic_regex)

    def _group(self, now: int, group_id: str, *, may_be_new: bool) -> tuple[ConsumerGroup, Outcome]:
        """The group, and what comes of a classic one that was there before."""
        group, new = self.store.groups.get(group_id), ConsumerGroup(group_id)
        if isinstance(group, ConsumerGroup):
            return group, NOTHING
        if not may_be_new:
            raise ConsumerGroupNotFound(group_id)
        if group is None:
            return new, NOTHING
        if group.members:
            return self.migration.upgraded(now, group_id, group, self.rules(now, new))
        return new, Outcome(self.store.logic_of(group).deletion(group_id, group))

    def compared(self, group: ConsumerGroup) -> None:
        """The group was compared with the topics as they are now."""
        self._compared[group.group_id] = self.topics.version, group.epoch

    def rules(self, now: int, group: ConsumerGroup) -> Rules:
        """What a machine needs to know beside the group."""
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
        """Whoever is gone has none; who has something to give up has so long as it says."""
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
        """A member was not heard of for the group's `consumer.session.timeout.ms`."""
        return self.fence(now, key, lambda _: True)

    def rebalance_is_over(self, now: int, key: TimerKey) -> Outcome:
        """A member has not given up what it was told to, in the time that it asked for."""
        return self.fence(now, key, lambda member: member.state == UNREVOKED)

    def fence(self, now: int, key: TimerKey, due: Callable[[ConsumerMember], bool]) -> Outcome:
        """A member is out of time, if that is `due` of it."""
        group = self.store.groups.get(key.key)
        if not isinstance(group, ConsumerGroup) or key.member_id not in group.members:
            return NOTHING
        if not due(group.members[key.member_id]):
            return NOTHING
        decision = fence(group, [key.member_id], self.rules(now, group))
        return self.without(now, group, decision)

    def loaded(self, now: int, group_id: str, group: Group) -> Outcome:
        """Sessions start afresh, and so does the time to give something up."""
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
        """Whether the topics that match are to be looked for: a new expression, new topics, or long
        ago."""
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
        """Match every expression of a group with all topics."""
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

    # What a coordinator asks of any group

    def owns(self, group: Group) -> bool:
        """Whether a group is of this type."""
        return isinstance(group, ConsumerGroup)

    def replay(self, group: Group | None, record: CoordinatorRecord) -> Group | None:
        """The group after a record; a value replaces a group of another type (KAFKA-20254)."""
        if group is not None and not isinstance(group, ConsumerGroup):
            return group if record.value is None else replay(None, record)
        return replay(group, record)

    def check_commit(
        self, now: int, group: Group, by: CommitBy, request: Any
    ) -> Mapping[TimerKey, int | None]:
        """Refuse a commit of who does not have these partitions since that epoch."""
        member = group.members.get(by.member_id)
        if member is not None and not member.is_classic and not by.knows_member_epochs:
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
        """Refuse who reads offsets in another epoch than its own."""
        group.check_fetch(by.member_id, by.generation_id)

    def subscribed_topics(self, group: Group) -> frozenset[str] | None:
        """The topics that members subscribe to."""
        return group.subscribed_topics()

    def listed(self, group: Group) -> tuple[str, str]:
        """Protocol type and state."""
        return "consumer", group.state

    def check_delete_offsets(self, group: Group) -> None:
        """Offsets of topics that nobody subscribes to may go."""

    def described(self, group_id: str, group: Group) -> Any:
        """The response to ConsumerGroupDescribe."""
        return describe(group, self.topics, self.config.consumer_assignors[0])

    def deletion(self, group_id: str, group: Group) -> Sequence[CoordinatorRecord]:
        """The tombstones of a group without members."""
        return group.deletion()

    def offsets_expire_from(self, group: Group, topic: str, commit_timestamp: int) -> int | None:
        """Since the commit, for topics that nobody subscribes to."""
        return None if topic in group.subscribed_topics() else commit_timestamp

    def is_empty(self, group: Group) -> bool:
        """Whether it has no members."""
        return not group.members


def _wrong_with(request: m.ConsumerGroupHeartbeatRequest) -> str:
    """What a heartbeat lacks, whatever its group is; "" if nothing."""
    epoch, r = request.member_epoch, request
    unsubscribed = r.subscribed_topic_names is None and r.subscribed_topic_regex is None
    checks = (
        (not r.member_id and not (r.may_lack_member_id and epoch == 0), "MemberId can't be empty."),
        (not r.group_id, "GroupId can't be empty."),
        (r.instance_id == "", "InstanceId can't be empty."),
        (r.rack_id == "", "RackId can't be empty."),
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
