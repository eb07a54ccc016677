"""Classic groups at their coordinator: what requests become, and what others ask of a group."""

from typing import Any

import pytest

from refimpl.coordinator.operation import SetTimer, TimerKey
from refimpl.coordinator.runtime import APPEND
from refimpl.groups.classic_records import tombstone_of
from refimpl.groups.shard import GroupCoordinator
from refimpl.messages import group as m
from refimpl.messages.broker import TopicPartition
from tests.refimpl.groups.coordinating import (
    CONFIG,
    HOUR_MS,
    METADATA,
    NOW,
    Conversation,
    answers,
)

LEAST, MOST = CONFIG.min_session_timeout_ms, CONFIG.max_session_timeout_ms
JOIN = m.JoinGroupRequest(
    *("g", 10_000, 20_000, "", None, "consumer", (("range", METADATA),)),
    client_id="me",
    client_host="/h",
    requires_known_member_id=False,
)
JOIN_OVER, SYNC_OVER = TimerKey("join", "g"), TimerKey("sync", "g")
T0, U0 = TopicPartition("t", 0), TopicPartition("u", 0)


def group_of(coordinator: GroupCoordinator) -> Any:
    return coordinator.shard.store.groups.get("g")


def session(member: str) -> TimerKey:
    return TimerKey("session", "g", member)


def timers(told: Conversation, request: Any) -> dict[TimerKey, int | None]:
    """The timers that a request sets and cancels."""
    outputs = [*told.coordinator.handle(told.now, 1, request)]
    told.replicated()
    found = {one.key: one.at_ms for one in outputs if isinstance(one, SetTimer)}
    return {key: at_ms for key, at_ms in found.items() if key != APPEND}


def with_consumer_group() -> tuple[Conversation, int]:
    """A consumer group of the same name with one member, and that member's epoch."""
    told = Conversation()
    joined = told.ask(
        m.ConsumerGroupHeartbeatRequest(
            *("g", "c", 0, None, None, 60_000, ("t",)), topic_partitions=()
        )
    )
    return told, joined.member_epoch


# ------------------------------------------------------------------------------ joining


@pytest.mark.parametrize(
    ("session_ms", "error"),
    [
        (LEAST - 1, "INVALID_SESSION_TIMEOUT"),
        (LEAST, None),
        (MOST, None),
        (MOST + 1, "INVALID_SESSION_TIMEOUT"),
    ],
)
def test_a_session_is_within_the_brokers_limits(session_ms: int, error: str | None) -> None:
    told = Conversation()
    refused = told.ask(JOIN._replace(session_timeout_ms=session_ms))
    assert (refused and refused.error) == error
    assert (group_of(told.coordinator) is None) == (error is not None)


def test_a_group_that_is_not_here_knows_no_member() -> None:
    told = Conversation()
    assert told.ask(JOIN._replace(member_id="a")).error == "UNKNOWN_MEMBER_ID"
    assert told.ask(m.SyncGroupRequest("g", 1, "a")).error == "UNKNOWN_MEMBER_ID"
    assert told.ask(m.HeartbeatRequest("g", 1, "a")).error == "UNKNOWN_MEMBER_ID"
    left = told.ask(m.LeaveGroupRequest("g", [m.LeavingMember("a")]))
    assert left == m.LeaveGroupResponse(None, [m.LeftMember("a", None, "UNKNOWN_MEMBER_ID")])
    assert told.ask(m.LeaveGroupRequest("g", [])) == m.LeaveGroupResponse(None, [])
    nothing_in_common = JOIN._replace(member_id="a", protocols=())
    assert told.ask(nothing_in_common).error == "UNKNOWN_MEMBER_ID", "what it asks is not looked at"
    assert group_of(told.coordinator) is None


def test_a_member_is_named_after_its_client_or_its_instance() -> None:
    told = Conversation()
    told.ask(JOIN)
    (member,) = group_of(told.coordinator).members.values()
    assert (member.id, member.instance) == ("me-id0", None)
    assert (member.session_ms, member.rebalance_ms) == (10_000, 20_000)
    assert (member.client_id, member.client_host) == ("me", "/h")
    other = Conversation()
    other.ask(JOIN._replace(group_instance_id="i"))
    (static,) = group_of(other.coordinator).members.values()
    assert (static.id, static.instance) == ("i-id0", "i")


def test_who_can_be_told_its_id_first_is() -> None:
    told = Conversation()
    answer = told.ask(JOIN._replace(requires_known_member_id=True))
    assert (answer.error, answer.member_id) == ("MEMBER_ID_REQUIRED", "me-id0")
    assert group_of(told.coordinator).pending == {"me-id0"}
    logic = told.coordinator.shard.store.logic_of(group_of(told.coordinator))
    assert not logic.is_empty(group_of(told.coordinator)), "somebody is about to come"


def test_a_group_that_nobody_has_joined_yet_has_the_empty_type() -> None:
    told = Conversation()
    told.ask(JOIN._replace(requires_known_member_id=True))
    described = told.ask(m.DescribeGroupRequest("g"))
    assert (described.state, described.protocol_type, described.members) == ("Empty", "", [])
    listed = told.coordinator.shard.operators.listed(m.ListGroupsRequest())
    assert listed == [m.ListedGroup("g", "", "Empty", "classic")]


def test_a_member_joins_again_under_its_id() -> None:
    told = Conversation()
    member = told.join()
    again = told.ask(JOIN._replace(member_id=member))
    assert (again.error, again.member_id, again.generation_id) == (None, member, 2)


def test_a_new_group_is_written_down_before_it_has_members() -> None:
    told = Conversation()
    told.ask(JOIN)
    value = told.last_record().value
    assert (value.generation, value.members, value.current_state_timestamp) == (0, (), NOW)
    assert len(told.log.batches) == 1
    told.ask(JOIN._replace(client_id="you"))
    assert len(told.log.batches) == 1, "nothing more is written before the generation begins"


def test_all_who_joined_are_told_of_their_generation_and_the_leader_of_everybody() -> None:
    told = Conversation()
    coordinator = told.coordinator
    coordinator.handle(NOW, 7, JOIN)
    coordinator.handle(NOW, 8, JOIN._replace(client_id="you", group_instance_id="i"))
    told.now += 5
    assert answers(coordinator.due(told.now, JOIN_OVER)) == {}, "somebody joined meanwhile"
    outputs = answers(coordinator.due(told.now, JOIN_OVER))
    outputs |= answers(coordinator.committed(told.log.end))
    leader, other = outputs[7], outputs[8]
    assert (leader.generation_id, leader.protocol_name, leader.protocol_type) == (
        *(1, "range"),
        "consumer",
    )
    assert leader.leader == other.leader == leader.member_id == "me-id0"
    assert [(one.member_id, one.group_instance_id) for one in leader.members] == [
        ("me-id0", None),
        ("i-id1", "i"),
    ]
    assert all(one.metadata == METADATA for one in leader.members)
    assert (other.member_id, list(other.members), other.skip_assignment) == ("i-id1", [], False)
    assert group_of(coordinator).since == told.now


def test_who_speaks_the_consumer_protocol_is_no_classic_member() -> None:
    told, epoch = with_consumer_group()
    assert told.ask(m.HeartbeatRequest("g", epoch, "c")).error == "UNKNOWN_MEMBER_ID"
    assert told.ask(m.SyncGroupRequest("g", epoch, "c")).error == "UNKNOWN_MEMBER_ID"


def test_a_consumer_group_without_members_becomes_a_classic_one() -> None:
    told, _ = with_consumer_group()
    told.ask(m.ConsumerGroupHeartbeatRequest("g", "c", -1))
    assert told.ask(JOIN._replace(member_id="a")).error == "UNKNOWN_MEMBER_ID"
    told.ask(JOIN)
    logic = told.coordinator.shard.store.logic_of(group_of(told.coordinator))
    assert logic.group_type == m.CLASSIC
    kinds = [value is None for _, value in told.log.batches[-1]]
    assert kinds[-1] is False
    assert all(kinds[:-1])
    assert kinds[:-1], "the other group's tombstones go before"


# ------------------------------------------------------------------------------ living


def test_who_is_heard_of_lives_on() -> None:
    told = Conversation()
    member = told.join()
    told.now += 3
    assert timers(told, m.HeartbeatRequest("g", 1, member)) == {session(member): told.now + 10_000}
    commit = m.OffsetCommitRequest("g", member, 1, None, [m.CommittedPartition(T0, 7)])
    assert timers(told, commit) == {session(member): told.now + 10_000}
    assert told.ask(m.HeartbeatRequest("g", 1, member)).error is None
    assert told.ask(m.HeartbeatRequest("g", 0, member)).error == "ILLEGAL_GENERATION"
    assert told.ask(m.HeartbeatRequest("g", 1, member, "i")).error == "UNKNOWN_MEMBER_ID"


def test_who_commits_while_others_join_lives_on_and_with_nobody_no_timer_is_set() -> None:
    told = Conversation()
    member = told.join()
    told.ask(JOIN._replace(client_id="you"))
    assert group_of(told.coordinator).state == "PreparingRebalance"
    commit = m.OffsetCommitRequest("g", member, 1, None, [m.CommittedPartition(T0, 7)])
    assert timers(told, commit) == {session(member): told.now + 10_000}
    other = Conversation()
    other.ask(m.LeaveGroupRequest("g", [m.LeavingMember(other.join())]))
    nobody = commit._replace(member_id="", generation_id=-1)
    assert timers(other, nobody) == {}


def test_a_session_that_ends_takes_its_member_and_another_one_of_its_name_nobody() -> None:
    told = Conversation()
    member = told.join()
    told.due(NOW + 10_000, session("stranger"))
    told.due(NOW + 10_000, TimerKey("session", "elsewhere", member))
    assert list(group_of(told.coordinator).members) == [member]
    told.due(NOW + 10_000, session(member))
    assert member not in group_of(told.coordinator).members


def test_whoever_is_not_synced_in_time_goes() -> None:
    told = Conversation()
    told.ask(JOIN)
    told.due(NOW, JOIN_OVER)
    assert group_of(told.coordinator).state == "CompletingRebalance"
    assert told.ask(m.HeartbeatRequest("g", 1, "me-id0")).error is None
    told.due(NOW + 20_000, SYNC_OVER)
    assert not group_of(told.coordinator).members


def test_each_who_leaves_is_answered_by_itself() -> None:
    told = Conversation()
    member = told.join()
    leaving = [m.LeavingMember(member), m.LeavingMember("stranger", "i")]
    assert told.ask(m.LeaveGroupRequest("g", leaving)) == m.LeaveGroupResponse(
        None,
        [m.LeftMember(member, None, None), m.LeftMember("stranger", "i", "UNKNOWN_MEMBER_ID")],
    )
    assert group_of(told.coordinator).state == "Empty"


def test_a_member_is_given_what_the_leader_says() -> None:
    told = Conversation()
    member = told.join()
    again = told.ask(m.SyncGroupRequest("g", 1, member, None, "consumer", "range"))
    assert again == m.SyncGroupResponse(None, b"a", "consumer", "range")
    other = told.ask(m.SyncGroupRequest("g", 1, member, None, "consumer", "sticky"))
    assert other.error == "INCONSISTENT_GROUP_PROTOCOL"
    connect = told.ask(m.SyncGroupRequest("g", 1, member, None, "connect", "range"))
    assert connect.error == "INCONSISTENT_GROUP_PROTOCOL"


# ------------------------------------------------------------------------------ operators


def test_a_stable_group_is_described_with_what_each_said_and_was_given() -> None:
    told = Conversation()
    member = told.join()
    described = told.ask(m.DescribeGroupRequest("g"))
    assert (described.state, described.protocol_type, described.protocol) == (
        "Stable",
        "consumer",
        "range",
    )
    (one,) = described.members
    assert (one.member_id, one.metadata, one.assignment) == (member, METADATA, b"a")
    told.ask(JOIN._replace(member_id=member))
    told.ask(JOIN._replace(client_id="you"))
    told.replicated()
    between = told.ask(m.DescribeGroupRequest("g"))
    assert (between.state, between.protocol) == ("PreparingRebalance", "")
    assert [(one.metadata, one.assignment) for one in between.members] == [(b"", b"")] * 2
    listed = told.coordinator.shard.operators.listed(m.ListGroupsRequest())
    assert listed == [m.ListedGroup("g", "consumer", "PreparingRebalance", "classic")]


def test_while_others_join_a_member_is_described_with_what_it_was_given_last() -> None:
    told = Conversation()
    told.join()
    told.ask(JOIN._replace(client_id="you"))
    described = told.ask(m.DescribeGroupRequest("g"))
    assert (described.state, described.protocol) == ("PreparingRebalance", "")
    assert [(one.metadata, one.assignment) for one in described.members] == [
        (b"", b"a"),
        (b"", b""),
    ]


def test_only_a_group_without_members_is_deleted() -> None:
    told = Conversation()
    member = told.join()
    assert told.ask(m.DeleteGroupRequest("g")).error == "NON_EMPTY_GROUP"
    told.ask(m.LeaveGroupRequest("g", [m.LeavingMember(member)]))
    assert told.ask(m.DeleteGroupRequest("g")).error is None
    assert told.last_record().value is None
    assert group_of(told.coordinator) is None


def test_who_is_no_consumer_has_its_offsets_deleted_only_when_it_is_gone() -> None:
    told = Conversation()
    member = told.join("connect", b"x")
    commit = m.OffsetCommitRequest("g", member, 1, None, [m.CommittedPartition(T0, 7)])
    told.ask(commit)
    assert told.ask(m.OffsetDeleteRequest("g", [T0])).error == "NON_EMPTY_GROUP"
    told.ask(m.LeaveGroupRequest("g", [m.LeavingMember(member)]))
    assert told.ask(m.OffsetDeleteRequest("g", [T0])).partitions == [(T0, None)]
    assert told.offsets() == {}


# ------------------------------------------------------------------------------ expiry


def test_offsets_of_a_group_between_generations_stay_whoever_subscribed_before() -> None:
    told = Conversation()
    member = told.join()
    committed = [m.CommittedPartition(T0, 7), m.CommittedPartition(U0, 8)]
    told.ask(m.OffsetCommitRequest("g", member, 1, None, committed))
    told.ask(JOIN._replace(client_id="you"))
    told.due(NOW + 3 * HOUR_MS)
    assert told.offsets() == {T0: 7, U0: 8}


def test_offsets_of_a_stable_group_go_where_nobody_subscribes_to_the_topic() -> None:
    told = Conversation()
    member = told.join()
    committed = [m.CommittedPartition(T0, 7), m.CommittedPartition(U0, 8)]
    told.ask(m.OffsetCommitRequest("g", member, 1, None, committed))
    told.due(NOW + HOUR_MS)
    assert told.offsets() == {T0: 7}


def test_offsets_of_an_empty_group_go_when_it_has_been_empty_for_long_enough() -> None:
    told = Conversation()
    member = told.join()
    told.ask(m.OffsetCommitRequest("g", member, 1, None, [m.CommittedPartition(T0, 7)]))
    told.now += HOUR_MS
    told.ask(m.LeaveGroupRequest("g", [m.LeavingMember(member)]))
    left = told.now
    told.now += HOUR_MS // 2
    told.ask(m.LeaveGroupRequest("g", [m.LeavingMember("stranger")]))
    assert group_of(told.coordinator).since == left, "it has been empty since the last one left"
    told.due(left + HOUR_MS - 1)
    assert told.offsets() == {T0: 7}
    told.due(left + HOUR_MS)
    assert told.offsets() == {}


def test_offsets_of_a_group_that_nobody_ever_joined_go_by_their_commits() -> None:
    told = Conversation()
    told.ask(m.OffsetCommitRequest("g", "", -1, None, [m.CommittedPartition(T0, 7)]))
    told.now += HOUR_MS // 2
    told.ask(JOIN._replace(requires_known_member_id=True))
    told.due(NOW + HOUR_MS - 1)
    assert told.offsets() == {T0: 7}
    told.due(NOW + HOUR_MS)
    assert told.offsets() == {}


def test_a_tombstone_of_a_classic_group_says_nothing_of_another_one() -> None:
    told, _ = with_consumer_group()
    told.coordinator.shard.store.replay(tombstone_of("g"))
    assert group_of(told.coordinator) is not None
    other = Conversation()
    other.join()
    other.coordinator.shard.store.replay(tombstone_of("g"))
    assert group_of(other.coordinator) is None
