"""Consumer groups at their coordinator: requests, timers, topics that change, and loading."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from attrs import define, evolve, field

from refimpl.configs import BROKER
from refimpl.coordinator.operation import Answer, SetTimer, TimerKey, TransactionalWrite
from refimpl.groups.config import GroupConfig
from refimpl.groups.consumer import REBALANCE, SESSION
from refimpl.groups.consumer_assignment import is_homogeneous
from refimpl.groups.registry import new_coordinator
from refimpl.groups.shard import GroupCoordinator
from refimpl.groups.topics import TopicDescription
from refimpl.machines.consumer_group import ConsumerGroup
from refimpl.messages import group as m
from refimpl.messages.broker import TopicPartition
from refimpl.records.coordinators import (
    GROUP_RECORDS,
    CoordinatorRecord,
    read_record,
    write_record,
)
from refimpl.records.schema import Uuid

T, U = Uuid(b"t" * 16), Uuid(b"u" * 16)
GROUP = "g"
SESSION_MS, PATIENCE_MS = BROKER["group.consumer.session.timeout.ms"].default, 60_000


@define
class Log:
    """A log in memory, whose records have been bytes, and of which everything is committed."""

    records: list[CoordinatorRecord] = field(factory=list[CoordinatorRecord])
    start: int = 0

    @property
    def end(self) -> int:
        return len(self.records)

    @property
    def high_watermark(self) -> int:
        return self.end

    def append(
        self,
        now: int,
        records: Sequence[CoordinatorRecord],
        transaction: TransactionalWrite | None = None,
    ) -> int:
        self.records += [read_record(GROUP_RECORDS, *write_record(one)) for one in records]
        return self.end - 1

    def read(self, offset: int, size: int) -> tuple[Sequence[tuple[int, CoordinatorRecord]], int]:
        return list(enumerate(self.records))[offset:], self.end


@define
class SomeTopics:
    """Topics that may change."""

    known: dict[str, TopicDescription] = field(factory=dict[str, TopicDescription])
    version: int = 0

    def has(self, name: str, topic_id: Uuid, partitions: int) -> None:
        self.known[name] = TopicDescription(topic_id, name, [frozenset()] * partitions)
        self.version += 1

    def names(self) -> Sequence[str]:
        return list(self.known)

    def by_name(self, name: str) -> TopicDescription | None:
        return self.known.get(name)

    def by_id(self, topic_id: Uuid) -> TopicDescription | None:
        return next((one for one in self.known.values() if one.topic_id == topic_id), None)


@define
class Coordinator:
    """One coordinator, and what it has been told and has said."""

    topics: SomeTopics = field(factory=SomeTopics)
    log: Log = field(factory=Log)
    config: GroupConfig = field(factory=GroupConfig)
    here: GroupCoordinator = field(init=False)
    timers: dict[TimerKey, int | None] = field(factory=dict[TimerKey, int | None])
    now: int = 1_000_000
    asked: int = 0
    new_id: Callable[[], str] = lambda: "made-here"

    def __attrs_post_init__(self) -> None:
        self.topics.has("t", T, 4)
        self.start()

    def start(self) -> None:
        self.timers.clear()
        self.here = new_coordinator(0, self.log, self.config, self.topics, self.new_id)
        self.took(self.here.load(self.now))

    def took(self, outputs: Sequence[Any]) -> Any:
        body = None
        for one in outputs:
            if isinstance(one, Answer):
                body = one.body
            if isinstance(one, SetTimer):
                self.timers[one.key] = one.at_ms
        return body

    def ask(self, request: Any) -> Any:
        self.asked += 1
        body = self.took(self.here.handle(self.now, self.asked, request))
        self.took(self.here.committed(self.log.end))
        return body

    def later(self, ms: int) -> None:
        self.now += ms
        due = [k for k, at in self.timers.items() if at is not None and at <= self.now]
        for key in due:
            del self.timers[key]
            self.took(self.here.due(self.now, key))

    def beat(self, member: str, epoch: int, **said: Any) -> m.ConsumerGroupHeartbeatResponse:
        return self.ask(m.ConsumerGroupHeartbeatRequest(GROUP, member, epoch, **said))

    def join(self, member: str, **said: Any) -> m.ConsumerGroupHeartbeatResponse:
        first: dict[str, Any] = {
            "rebalance_timeout_ms": PATIENCE_MS,
            "subscribed_topic_names": ("t",),
            "topic_partitions": (),
        }
        return self.beat(member, 0, **{**first, **said})

    @property
    def group(self) -> ConsumerGroup:
        group = self.here.shard.store.groups.get(GROUP)
        assert isinstance(group, ConsumerGroup)
        return group

    def commit(self, member: str, epoch: int, partition: int) -> str | None:
        one = m.CommittedPartition(TopicPartition("t", partition), 7, topic_id=T)
        request = m.OffsetCommitRequest(GROUP, member, epoch, None, (one,))
        return self.ask(request).partitions[0][1]

    def commit_in_transaction(self, member: str, epoch: int, partition: int) -> str | None:
        one = m.CommittedPartition(TopicPartition("t", partition), 7, topic_id=T)
        request = m.TxnOffsetCommitRequest(GROUP, "tx", 7, 0, (one,), member, epoch)
        return self.ask(request).partitions[0][1]


def numbers(response: m.ConsumerGroupHeartbeatResponse) -> list[int]:
    assert response.assignment is not None
    return [number for _, ps in response.assignment for number in ps]


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


def test_the_first_member_gets_everything_in_epoch_2_as_in_kafka(coordinator: Coordinator) -> None:
    answer = coordinator.join("a")
    assert (answer.error, answer.member_epoch, numbers(answer)) == (None, 2, [0, 1, 2, 3])
    assert [one.kind.number for one in coordinator.log.records] == [5, 3, 7, 6, 8]
    assert coordinator.beat("a", 2).assignment is None
    assert coordinator.log.end == 5


def test_a_second_member_waits_until_the_first_has_given_up(coordinator: Coordinator) -> None:
    """As measured on Kafka 4.3.1 (with one partition of two)."""
    assert coordinator.join("a").member_epoch == 2
    assert (joined := coordinator.join("b")).member_epoch == 2
    assert numbers(joined) == []
    coordinator.later(1_000)  # the assignment interval
    given = coordinator.beat("b", 2)
    assert (given.member_epoch, given.assignment) == (3, None)
    kept = coordinator.beat("a", 2)
    assert (kept.member_epoch, numbers(kept)) == (2, [0, 1])
    assert coordinator.timers[TimerKey(REBALANCE, GROUP, "a")] == coordinator.now + PATIENCE_MS
    assert coordinator.group.state == "Reconciling"
    acknowledged = coordinator.beat("a", 2, topic_partitions=(m.TopicIdPartitions(T, (0, 1)),))
    assert (acknowledged.member_epoch, acknowledged.assignment) == (3, None)
    assert numbers(coordinator.beat("b", 3)) == [2, 3]
    assert coordinator.group.state == "Stable"
    assert coordinator.timers[TimerKey(REBALANCE, GROUP, "a")] is None


def test_who_is_not_heard_of_is_fenced_and_told_so(
    coordinator: Coordinator,
) -> None:
    coordinator.join("a")
    coordinator.later(SESSION_MS - 1)
    assert "a" in coordinator.group.members
    coordinator.later(1)
    assert not coordinator.group.members
    assert coordinator.group.state == "Empty"
    assert coordinator.beat("a", 2).error == "UNKNOWN_MEMBER_ID"


def test_who_does_not_give_up_in_time_is_fenced(coordinator: Coordinator) -> None:
    coordinator.join("a", rebalance_timeout_ms=5_000)
    coordinator.join("b")
    coordinator.later(1_000)
    coordinator.beat("b", 2)
    coordinator.beat("a", 2)
    coordinator.later(5_000)
    assert set(coordinator.group.members) == {"b"}
    assert numbers(coordinator.beat("b", 3)) == [0, 1, 2, 3]


def test_whoever_loads_the_log_goes_on_where_the_other_was(coordinator: Coordinator) -> None:
    coordinator.join("a")
    coordinator.join(
        "b", subscribed_topic_names=None, subscribed_topic_regex="t.*", instance_id="i"
    )
    coordinator.later(1_000)
    coordinator.beat("a", 2)
    before = coordinator.group
    coordinator.start()
    assert coordinator.group == before
    assert coordinator.timers[TimerKey(SESSION, GROUP, "a")] == coordinator.now + SESSION_MS
    assert coordinator.beat("a", 2).error is None


def test_a_topic_that_grows_opens_an_epoch_at_the_next_heartbeat(coordinator: Coordinator) -> None:
    coordinator.join("a")
    coordinator.later(1_000)
    coordinator.topics.has("t", T, 6)
    assert numbers(coordinator.beat("a", 2)) == [0, 1, 2, 3, 4, 5]


def test_a_regular_expression_gets_topics_that_match_and_those_to_come(
    coordinator: Coordinator,
) -> None:
    joined = coordinator.join("a", subscribed_topic_names=None, subscribed_topic_regex="t|u.*")
    assert numbers(joined) == []
    coordinator.later(1_000)
    resolved = coordinator.beat("a", joined.member_epoch)
    assert numbers(resolved) == [0, 1, 2, 3]
    coordinator.topics.has("uu", U, 1)
    coordinator.later(10_001)
    coordinator.beat("a", resolved.member_epoch)
    coordinator.later(1_000)
    answer = coordinator.beat("a", resolved.member_epoch)
    assert answer.assignment is not None
    assert {topic for topic, _ in answer.assignment} == {T, U}


@pytest.mark.parametrize(
    "regexes",
    [("t",), ("t", "u.*"), ("t|u.*", "u.*", "none", "t", "uu"), ("t", "t"), ("u.*", "t", "u.*")],
    ids=["one", "two", "many", "twice", "again"],
)
def test_all_regular_expressions_are_resolved_at_once(
    coordinator: Coordinator, regexes: tuple[str, ...]
) -> None:
    coordinator.topics.has("uu", U, 2)
    for number, regex in enumerate(regexes):
        subscribed: dict[str, Any] = {
            "subscribed_topic_names": None,
            "subscribed_topic_regex": regex,
        }
        coordinator.join(f"m{number}", **subscribed)
    coordinator.later(1_000)
    names = coordinator.topics.names()
    assert {regex: set(one.topics) for regex, one in coordinator.group.regexes.items()} == {
        regex: {name for name in names if re.fullmatch(regex, name)} for regex in regexes
    }


def test_a_look_ahead_is_no_regular_expression_of_re2(coordinator: Coordinator) -> None:
    answer = coordinator.join("a", subscribed_topic_names=None, subscribed_topic_regex="(?=t)")
    assert answer.error == "INVALID_REGULAR_EXPRESSION"


def test_a_static_member_that_comes_back_goes_on_with_what_it_had(coordinator: Coordinator) -> None:
    coordinator.join("a", instance_id="i")
    assert coordinator.join("x", instance_id="i").error == "UNRELEASED_INSTANCE_ID"
    assert coordinator.beat("a", -2, instance_id="i").member_epoch == -2
    epoch = coordinator.group.epoch
    back = coordinator.join("b", instance_id="i")
    assert numbers(back) == [0, 1, 2, 3]
    assert coordinator.group.epoch == epoch
    assert set(coordinator.group.members) == {"b"}
    assert coordinator.beat("a", 2, instance_id="i").error == "FENCED_INSTANCE_ID"
    assert coordinator.commit("a", 2, 0) == "UNKNOWN_MEMBER_ID"
    assert coordinator.commit("b", 2, 0) is None


def test_a_commit_needs_the_partition_not_only_the_epoch(coordinator: Coordinator) -> None:
    """The schedule of docs/findings/kafka-group-same-epoch.md: Kafka 4.3.1 takes the last one."""
    coordinator.config = evolve(coordinator.config, consumer_assignment_interval_ms=0)
    coordinator.topics.has("t", T, 6)
    coordinator.start()
    coordinator.join("slow")
    coordinator.join("second")
    assert numbers(coordinator.beat("slow", 2)) == [0, 1, 2]
    third = coordinator.join("third")
    assert third.error is None
    kept = coordinator.beat("slow", 2, topic_partitions=(m.TopicIdPartitions(T, (0, 1, 2)),))
    assert kept.member_epoch == 2
    lost = next(iter({3, 4, 5} & set(numbers(coordinator.beat("second", 3)))))
    assert coordinator.commit("second", coordinator.group.members["second"].epoch, lost) is None
    assert coordinator.commit("slow", 2, lost) == "STALE_MEMBER_EPOCH"
    assert coordinator.commit("slow", 2, numbers(kept)[0]) is None


WRONG: Mapping[str, Mapping[str, Any]] = {
    "MemberId can't be empty.": {"member": ""},
    "RebalanceTimeoutMs must be provided in first request.": {"rebalance_timeout_ms": -1},
    "TopicPartitions must be empty when (re-)joining.": {"topic_partitions": None},
    "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.": {
        "subscribed_topic_names": None
    },
    "InstanceId can't be empty.": {"instance_id": ""},
    "RackId can't be empty.": {"rack_id": ""},
}


@pytest.mark.parametrize("why", WRONG)
def test_a_heartbeat_that_lacks_something_is_refused_with_the_reason(
    coordinator: Coordinator, why: str
) -> None:
    answer = coordinator.join(**{"member": "a", **WRONG[why]})
    assert (answer.error, answer.error_message) == ("INVALID_REQUEST", why)


def test_other_refusals(coordinator: Coordinator) -> None:
    assert coordinator.beat("a", 3).error == "GROUP_ID_NOT_FOUND"
    assert coordinator.join("a", server_assignor="best").error == "UNSUPPORTED_ASSIGNOR"
    assert coordinator.beat("a", -3).error == "INVALID_REQUEST"
    assert coordinator.beat("a", -2).error_message == "InstanceId can't be null."
    coordinator.join("a")
    assert coordinator.beat("a", 7).error == "FENCED_MEMBER_EPOCH"
    assert coordinator.beat("b", -1).error == "UNKNOWN_MEMBER_ID"
    assert coordinator.beat("a", -1).error is None
    made = coordinator.join("", may_lack_member_id=True)
    assert made.member_id == "made-here"


def test_the_last_to_leave_is_described_and_the_group_may_go(coordinator: Coordinator) -> None:
    coordinator.join("a", client_id="c", client_host="/h")
    described = coordinator.ask(m.ConsumerGroupDescribeRequest(GROUP))
    (member,) = described.members
    assert (described.group_state, described.assignor_name) == ("Stable", "uniform")
    assert member.assignment == (m.NamedTopicPartitions(T, "t", (0, 1, 2, 3)),)
    assert coordinator.ask(m.DeleteGroupRequest(GROUP)).error == "NON_EMPTY_GROUP"
    coordinator.beat("a", -1)
    assert coordinator.ask(m.DeleteGroupRequest(GROUP)).error is None
    assert coordinator.here.shard.store.groups.get(GROUP) is None


def test_members_of_different_topics_get_only_their_own(coordinator: Coordinator) -> None:
    coordinator.topics.has("u", U, 2)
    for member, name in (("a", "t"), ("b", "u")):
        coordinator.join(member, subscribed_topic_names=(name,))
        coordinator.later(1_000)
    coordinator.beat("a", 2)
    target = coordinator.group.target
    assert {member: {topic for topic, _ in of} for member, of in target.items()} == {
        "a": {T},
        "b": {U},
    }
    assert not is_homogeneous(coordinator.group)


def test_members_that_say_the_same_are_told_from_those_that_do_not() -> None:
    names: dict[str, Any] = {"subscribed_topic_names": ("t",)}
    regex: dict[str, Any] = {"subscribed_topic_names": (), "subscribed_topic_regex": "t"}
    for said, same in (((names, names), True), ((regex, regex), True), ((names, regex), False)):
        coordinator = Coordinator()
        for member, of in zip("ab", said, strict=True):
            coordinator.join(member, **of)
        assert is_homogeneous(coordinator.group) is same
    both = Coordinator()
    both.join("a", **names | {"subscribed_topic_regex": "t"})
    assert not is_homogeneous(both.group)


def test_a_description_has_the_regular_expression(coordinator: Coordinator) -> None:
    coordinator.join("a", subscribed_topic_names=("u",), subscribed_topic_regex="t.*")
    (member,) = coordinator.ask(m.ConsumerGroupDescribeRequest(GROUP)).members
    assert (member.subscribed_topic_names, member.subscribed_topic_regex) == (("u",), "t.*")


def test_a_group_of_offsets_alone_is_no_consumer_group(coordinator: Coordinator) -> None:
    one = m.CommittedPartition(TopicPartition("t", 0), 7, topic_id=T)
    assert coordinator.ask(m.OffsetCommitRequest(GROUP, "", -1, None, (one,))).partitions
    described = coordinator.ask(m.ConsumerGroupDescribeRequest(GROUP))
    assert described.error == "GROUP_ID_NOT_FOUND"
    assert "is not a consumer group" in described.error_message
    assert "not found" in coordinator.ask(m.ConsumerGroupDescribeRequest("none")).error_message


def all_groups(own: Mapping[str, str]) -> Callable[[str], Mapping[str, str]]:
    def of_group(name: str) -> Mapping[str, str]:
        return own

    return of_group


def test_a_group_has_its_own_times_from_the_next_heartbeat_on(coordinator: Coordinator) -> None:
    own: dict[str, str] = {}

    def of_group(name: str) -> Mapping[str, str]:
        return own if name == GROUP else {}

    coordinator.config = evolve(coordinator.config, of_group=of_group)
    coordinator.start()
    answer = coordinator.join("a")
    assert answer.heartbeat_interval_ms == BROKER["group.consumer.heartbeat.interval.ms"].default
    own |= {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "6000"}
    assert coordinator.beat("a", 2).heartbeat_interval_ms == 6_000
    assert coordinator.timers[TimerKey(SESSION, GROUP, "a")] == coordinator.now + 50_000
    coordinator.later(49_999)
    assert set(coordinator.group.members) == {"a"}
    coordinator.later(1)
    assert not coordinator.group.members


def test_a_group_without_an_interval_is_assigned_anew_with_each_join(
    coordinator: Coordinator,
) -> None:
    coordinator.config = evolve(
        coordinator.config, of_group=all_groups({"consumer.assignment.interval.ms": "0"})
    )
    coordinator.start()
    coordinator.join("a")
    assert coordinator.join("b").member_epoch == 3


@pytest.mark.parametrize(("text", "kept"), [("1", 45_000), ("50000", 50_000), ("99999", 60_000)])
def test_what_a_group_was_given_stays_within_the_brokers_limits(text: str, kept: int) -> None:
    """The broker's limits may have changed since (KAFKA-20251)."""
    config = GroupConfig(of_group=all_groups({"consumer.session.timeout.ms": text}))
    assert config.own(GROUP, "consumer_session_timeout_ms") == kept


def begun_anew() -> Coordinator:
    """A group that is deleted in a higher epoch than it has when it is begun anew, by a consumer
    that was in it before. That one's last record is behind the one of who has some of what it had.
    """
    one = Coordinator(config=evolve(GroupConfig(), consumer_assignment_interval_ms=0))
    one.join("a")
    for _ in range(3):
        one.join("c", subscribed_topic_names=("other",))
        one.beat("c", -1)
        one.beat("a", one.group.members["a"].epoch)
    before = one.group.members["a"].epoch
    one.beat("a", -1)
    assert one.ask(m.DeleteGroupRequest(GROUP)).error is None
    epoch = one.join("a").member_epoch
    one.join("z")
    one.beat("a", epoch)
    one.beat("a", epoch, topic_partitions=(m.TopicIdPartitions(T, (0, 1)),))
    assert numbers(one.beat("z", epoch + 1)) == [2, 3]
    one.join("c", subscribed_topic_names=("other",))
    one.beat("z", epoch + 1)
    one.beat("a", epoch + 1)
    assert one.log.records[-1].key.member_id == "a"
    assert max(member.epoch for member in one.group.members.values()) < before
    return one


def test_a_load_that_the_cleaner_overtakes_sees_the_same_group() -> None:
    """It reads the log as it was up to somewhere, and from there on as it is cleaned. Kafka 4.3.1
    fails where it has read what a member had in the group's first life."""
    one = begun_anew()
    records = one.log.records
    last = {write_record(record)[0]: at for at, record in enumerate(records)}
    for upto in range(len(records)):
        rest = [record for at, record in enumerate(records) if at in last.values() and at >= upto]
        other = Coordinator(topics=one.topics, log=Log([*records[:upto], *rest]))
        assert other.group == one.group


def test_a_producer_commits_what_its_consumer_owns_in_that_epoch(coordinator: Coordinator) -> None:
    """KIP-447: whoever has lost a partition commits none of it, also not within a transaction."""
    coordinator.config = evolve(coordinator.config, consumer_assignment_interval_ms=0)
    coordinator.start()
    coordinator.join("a")
    epoch, (first, *_) = coordinator.group.epoch, sorted(coordinator.group.members["a"].assigned)
    owned = first[1]
    assert coordinator.commit_in_transaction("a", epoch, owned) is None
    assert coordinator.commit_in_transaction("a", epoch + 1, owned) == "ILLEGAL_GENERATION"
    assert coordinator.commit_in_transaction("b", epoch, owned) == "UNKNOWN_MEMBER_ID"
    assert coordinator.commit_in_transaction("a", epoch, 99) == "ILLEGAL_GENERATION"
    assert coordinator.commit_in_transaction("", -1, owned) is None, "nobody is named"
    assert coordinator.commit("a", epoch + 1, owned) == "STALE_MEMBER_EPOCH"
