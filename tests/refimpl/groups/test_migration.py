"""Groups with members that go from the classic protocol to KIP-848's, and back."""

from collections.abc import Sequence
from typing import Any

import pytest
from attrs import define, evolve, field

from refimpl.configs import BROKER
from refimpl.configs.values import ConfigError
from refimpl.coordinator.operation import Answer, TimerKey
from refimpl.groups.classic_records import record_of
from refimpl.groups.config import GroupConfig
from refimpl.groups.migration import CLASSIC_JOIN, CLASSIC_SYNC, REBALANCE, SESSION
from refimpl.machines.classic_group import ClassicGroup
from refimpl.machines.classic_member import ClassicGroupMember
from refimpl.machines.consumer_group import UNREVOKED, ConsumerGroup
from refimpl.messages import group as m
from refimpl.messages.broker import TopicPartition
from refimpl.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    OwnedTopic,
    Subscription,
    read_versioned,
    write_versioned,
)
from tests.refimpl.groups.test_consumer import GROUP, Coordinator

SESSION_MS, JOIN_MS, GENERATION = 10_000, 20_000, 5
CONFIG = GroupConfig(consumer_assignment_interval_ms=0, initial_rebalance_delay_ms=0)
PROTOCOL = "cooperative-sticky"


def subscription(*owned: int, topic: str = "t") -> bytes:
    topics = (OwnedTopic("t", owned),) if owned else ()
    return write_versioned(Subscription(topics=(topic,), owned_partitions=topics), 1)


def assignment(*numbers: int, user_data: bytes | None = None) -> bytes:
    topics = (OwnedTopic("t", numbers),) if numbers else ()
    return write_versioned(
        ConsumerProtocolAssignment(assigned_partitions=topics, user_data=user_data), 1
    )


def member(
    id: str, *given: int, owns: Sequence[int] = (), instance: str | None = None, **more: Any
) -> ClassicGroupMember:
    """A classic member: what it said it owns when it joined, and what it was given."""
    protocols = ((PROTOCOL, subscription(*owns)),)
    one = ClassicGroupMember(
        id, protocols, instance, SESSION_MS, JOIN_MS, assignment=assignment(*given)
    )
    return evolve(one, **more)


@define
class Mixed(Coordinator):
    """A coordinator that both protocols speak to."""

    config: GroupConfig = CONFIG
    answers: dict[int, Any] = field(factory=dict[int, Any])

    def took(self, outputs: Sequence[Any]) -> Any:
        self.answers |= {one.token: one.body for one in outputs if isinstance(one, Answer)}
        return super().took(outputs)

    def classic_group(self, *members: ClassicGroupMember, **more: Any) -> None:
        """A classic group, loaded from the log."""
        group = ClassicGroup(
            *("Stable", GENERATION, "consumer", PROTOCOL, members[0].id),
            members={one.id: one for one in members},
        )
        self.log.append(self.now, [record_of(GROUP, evolve(group, **more))])
        self.start()

    def classic_join(
        self, member: str = "", *owned: int, instance: str | None = None, **more: Any
    ) -> Any:
        """A JoinGroup; None while it waits."""
        request = m.JoinGroupRequest(
            *(GROUP, SESSION_MS, JOIN_MS, member, instance, "consumer"),
            ((PROTOCOL, subscription(*owned)),),
            requires_known_member_id=False,
        )
        return self.ask(request._replace(**more))

    def sync(self, member: str, generation: int, **more: Any) -> Any:
        return self.ask(m.SyncGroupRequest(GROUP, generation, member)._replace(**more))

    def gets(self, member: str, generation: int) -> list[int]:
        """The partitions that a SyncGroup is answered with."""
        answer = self.sync(member, generation)
        assert answer.error is None, answer
        topics = read_versioned(ConsumerProtocolAssignment, answer.assignment)[
            0
        ].assigned_partitions
        return [number for one in topics for number in one.partitions]

    def beats(self, member: str, generation: int) -> str | None:
        return self.ask(m.HeartbeatRequest(GROUP, generation, member)).error

    def leaves(self, member: str, instance: str | None = None) -> str | None:
        one = m.LeavingMember(member, instance)
        return self.ask(m.LeaveGroupRequest(GROUP, (one,))).members[0].error

    def commits(self, member: str, generation: int, number: int) -> str | None:
        one = m.CommittedPartition(TopicPartition("t", number), 7)
        asked = m.OffsetCommitRequest(GROUP, member, generation, None, (one,))
        return self.ask(asked._replace(knows_member_epochs=False)).partitions[0][1]

    @property
    def any_group(self) -> Any:
        return self.here.shard.store.groups.get(GROUP)

    def loaded_anew(self) -> Any:
        """The group as another coordinator reads it."""
        other = Mixed(topics=self.topics, log=self.log, config=self.config)
        return other.any_group


def given(answer: m.ConsumerGroupHeartbeatResponse) -> list[int]:
    return [number for _, numbers in answer.assignment or () for number in numbers]


# ------------------------------------------------------------------------------ to KIP-848


def test_a_classic_group_goes_on_as_a_consumer_group_and_hands_over_step_by_step() -> None:
    one = Mixed()
    one.classic_group(member("a", 0, 1, 2, 3))
    new = one.join("z")
    assert (new.error, new.member_epoch, given(new)) == (None, GENERATION + 1, [])
    assert one.group.members["a"].is_classic
    assert not one.group.members["z"].is_classic
    assert one.beats("a", GENERATION) == "REBALANCE_IN_PROGRESS"

    told = one.classic_join("a", 0, 1, 2, 3)
    assert (told.error, told.generation_id, told.leader, told.members) == (None, GENERATION, "", ())
    assert (told.protocol_type, told.protocol_name) == ("consumer", PROTOCOL)
    kept = one.gets("a", GENERATION)
    assert len(kept) == 2
    assert given(one.beat("z", GENERATION + 1)) == [], "it is not given up yet"
    assert one.beats("a", GENERATION) == "REBALANCE_IN_PROGRESS"

    assert one.classic_join("a", *kept).generation_id == GENERATION + 1
    assert one.gets("a", GENERATION + 1) == kept
    assert one.beats("a", GENERATION + 1) is None
    rest = given(one.beat("z", GENERATION + 1))
    assert sorted([*rest, *kept]) == [0, 1, 2, 3]
    assert one.group.state == "Stable"
    assert one.loaded_anew() == one.group


def test_what_a_member_may_still_own_is_nobody_elses() -> None:
    """It said that it owns 2 and 3, was given 0 and 1, and has not said yet that it gave them up:
    Kafka 4.3.1 lets the new member have them at once."""
    one = Mixed()
    one.classic_group(member("a", 0, 1, owns=(0, 1, 2, 3)))
    new = one.join("z")
    assert given(new) == []
    there = one.group.members["a"]
    assert (there.state, {number for _, number in there.pending}) == (UNREVOKED, {2, 3})
    later = Mixed(topics=one.topics, log=one.log, config=one.config)
    for here in (one, later):
        assert here.timers[TimerKey(SESSION, GROUP, "a")]
        assert here.timers.get(TimerKey(REBALANCE, GROUP, "a")) is None, "it is to join instead"
    assert one.commits("a", GENERATION, 3) is None, "it commits what it has processed"
    assert one.classic_join("a", 0, 1).generation_id == GENERATION + 1
    assert given(one.beat("z", GENERATION + 1)) == [2, 3]
    assert one.commits("a", GENERATION + 1, 3) == "ILLEGAL_GENERATION"


def test_what_another_was_given_is_not_awaited_of_who_claims_it_too() -> None:
    one = Mixed()
    one.classic_group(member("a", 0, 1, owns=(0, 1, 2, 3)), member("b", 2, 3))
    one.join("z")
    assert not one.group.members["a"].pending
    assert one.commits("a", GENERATION, 2) == "ILLEGAL_GENERATION"
    assert one.commits("b", GENERATION, 2) is None


def test_who_waits_is_told_to_join_again() -> None:
    one = Mixed()
    one.classic_group(member("a", 0, 1), member("b", 2, 3))
    assert one.classic_join("a") is None, "it waits for b"
    waiting = one.asked
    one.join("z")
    assert one.answers[waiting].error == "REBALANCE_IN_PROGRESS"
    assert one.answers[waiting].member_id == "a"
    assert one.classic_join("a", 0, 1).error is None


@pytest.mark.parametrize("policy", ["disabled", "DOWNGRADE"])
def test_without_the_policy_a_classic_group_takes_nobody_of_the_other_protocol(policy: str) -> None:
    one = Mixed(config=evolve(CONFIG, consumer_migration_policy=policy))
    one.classic_group(member("a", 0))
    assert one.join("z").error == "GROUP_ID_NOT_FOUND"
    assert isinstance(one.any_group, ClassicGroup)


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"protocol_type": "connect"}, "does not use"),
        ({"members": {"a": member("a", 0, assignment=b"\0")}}, "malformed"),
        ({"members": {"a": member("a", protocols=((PROTOCOL, b""),))}}, "malformed"),
        ({"members": {"a": member("a", assignment=assignment(0, user_data=b"x"))}}, "custom"),
        ({"members": {id: member(id) for id in "abc"}}, "more than 2"),
    ],
)
def test_not_every_classic_group_can_go_on(other: dict[str, Any], why: str) -> None:
    one = Mixed(config=evolve(CONFIG, consumer_max_size=2))
    one.classic_group(member("a", 0), **other)
    answer = one.join("z")
    assert answer.error == "GROUP_ID_NOT_FOUND"
    assert answer.error_message is not None
    assert why in answer.error_message
    assert isinstance(one.any_group, ClassicGroup)


def test_the_policy_is_read_in_capitals_or_not() -> None:
    known = BROKER["group.consumer.migration.policy"]
    assert known.supported
    assert known.value("Upgrade") == "Upgrade"
    with pytest.raises(ConfigError, match="case insensitive"):
        known.value("sideways")


# ------------------------------------------------------------------------------ in one group


def mixed() -> Mixed:
    """A consumer group in GENERATION + 1: classic a has 0 and 1, z the rest."""
    one = Mixed()
    one.classic_group(member("a", 0, 1))
    one.join("z")
    one.classic_join("a", 0, 1)
    one.gets("a", GENERATION + 1)
    one.beat("z", GENERATION + 1)
    assert one.group.state == "Stable"
    return one


def test_a_new_classic_member_gets_an_id_first_and_then_its_share() -> None:
    one = mixed()
    first = one.classic_join(requires_known_member_id=True)
    assert first.error == "MEMBER_ID_REQUIRED"
    assert first.member_id not in one.group.members
    joined = one.classic_join(first.member_id, requires_known_member_id=True)
    assert joined.error is None
    assert one.group.members[first.member_id].is_classic
    assert one.classic_join(protocol_type="connect").error == "INCONSISTENT_GROUP_PROTOCOL"
    other = (("range", subscription()),)
    assert one.classic_join(protocols=other).error == "INCONSISTENT_GROUP_PROTOCOL"
    malformed = ((PROTOCOL, b""),)
    assert one.classic_join("a", protocols=malformed).error == "INCONSISTENT_GROUP_PROTOCOL"


def test_a_full_group_takes_no_more() -> None:
    one = mixed()
    one.config = evolve(CONFIG, consumer_max_size=2)
    one.start()
    assert one.classic_join().error == "GROUP_MAX_SIZE_REACHED"
    assert one.classic_join("a", 0, 1).error is None


def test_with_migration_disabled_nobody_joins_by_the_classic_protocol() -> None:
    one = mixed()
    one.config = evolve(CONFIG, consumer_migration_policy="disabled")
    one.start()
    assert one.classic_join("a", 0, 1).error == "INCONSISTENT_GROUP_PROTOCOL"
    assert one.beats("a", GENERATION + 1) is None


def test_what_classic_members_are_refused() -> None:
    one, epoch = mixed(), GENERATION + 1
    assert one.beats("z", epoch) == "UNKNOWN_MEMBER_ID"
    assert one.sync("z", epoch).error == "UNKNOWN_MEMBER_ID"
    assert one.beats("nobody", epoch) == "UNKNOWN_MEMBER_ID"
    assert one.beats("a", GENERATION) == "ILLEGAL_GENERATION"
    assert one.sync("a", GENERATION).error == "ILLEGAL_GENERATION"
    assert one.sync("a", epoch, protocol_name="range").error == "INCONSISTENT_GROUP_PROTOCOL"
    assert one.sync("a", epoch, protocol_type="connect").error == "INCONSISTENT_GROUP_PROTOCOL"
    assert one.commits("a", epoch, 0) is None
    assert one.commits("a", epoch + 1, 0) == "ILLEGAL_GENERATION"
    assert one.commits("z", epoch, 3) == "UNSUPPORTED_VERSION"
    assert (
        one.ask(m.SyncGroupRequest(GROUP, epoch, "a", group_instance_id="i")).error
        == "UNKNOWN_MEMBER_ID"
    )


def test_who_has_not_joined_for_the_newest_target_gets_nothing() -> None:
    one = mixed()
    one.join("y")
    assert one.sync("a", GENERATION + 1).error == "REBALANCE_IN_PROGRESS"
    key = TimerKey(CLASSIC_JOIN, GROUP, "a")
    assert one.timers[key] == one.now + JOIN_MS


def test_who_does_not_join_or_sync_in_time_goes() -> None:
    one = mixed()
    one.join("y")
    one.beats("a", GENERATION + 1)
    until = one.timers[TimerKey(CLASSIC_JOIN, GROUP, "a")]
    one.now += 1_000
    one.beats("a", GENERATION + 1)
    assert one.timers[TimerKey(CLASSIC_JOIN, GROUP, "a")] == until, "from when it was told first"
    joined = one.classic_join("a", 0, 1)
    assert one.timers[TimerKey(CLASSIC_JOIN, GROUP, "a")] is None
    assert one.timers[TimerKey(CLASSIC_SYNC, GROUP, "a")] == one.now + JOIN_MS
    one.gets("a", joined.generation_id)
    assert one.timers[TimerKey(CLASSIC_SYNC, GROUP, "a")] is None
    assert one.timers[TimerKey(SESSION, GROUP, "a")] == one.now + SESSION_MS
    one.here.due(one.now, TimerKey(CLASSIC_SYNC, GROUP, "a"))
    assert "a" not in one.group.members


def test_sessions_are_as_long_as_each_said_also_when_loaded() -> None:
    one = mixed()
    one.start()
    assert one.timers[TimerKey(SESSION, GROUP, "a")] == one.now + SESSION_MS
    own = one.config.consumer_session_timeout_ms
    assert one.timers[TimerKey(SESSION, GROUP, "z")] == one.now + own
    one.later(SESSION_MS)
    assert set(one.group.members) == {"z"}


def test_a_classic_member_alone_sees_that_a_topic_has_grown() -> None:
    """Also where nobody of the other protocol is left to compute a target."""
    one = mixed()
    one.config = evolve(CONFIG, consumer_migration_policy="upgrade")
    one.start()
    assert one.beat("z", -1).error is None
    assert isinstance(one.any_group, ConsumerGroup), "no way back"
    assert one.beats("a", GENERATION + 1) == "REBALANCE_IN_PROGRESS"
    epoch = one.classic_join("a", 0, 1).generation_id
    assert one.gets("a", epoch) == [0, 1, 2, 3]
    assert one.beats("a", epoch) is None
    one.topics.has("t", one.topics.known["t"].topic_id, 5)
    assert one.beats("a", epoch) == "REBALANCE_IN_PROGRESS"


# ------------------------------------------------------------------------------ and back


@pytest.mark.parametrize("how", ["leaves", "is fenced", "classic leaves too"])
def test_the_last_of_the_consumer_protocol_leaves_a_classic_group(how: str) -> None:
    one = mixed()
    if how == "leaves":
        assert one.beat("z", -1).error is None
    elif how == "is fenced":
        one.beats("a", GENERATION + 1)
        one.later(SESSION_MS - 1)
        one.beats("a", GENERATION + 1)
        one.here.due(one.now, TimerKey(SESSION, GROUP, "z"))
    else:
        one.join("y")
        assert one.beat("z", -1).error is None
        assert isinstance(one.any_group, ConsumerGroup), "y is there"
        assert one.leaves("y") is None, "an operator may do so"
    group = one.any_group
    assert isinstance(group, ClassicGroup)
    assert (group.state, group.protocol_type, group.protocol, group.leader) == (
        *("PreparingRebalance", "consumer", PROTOCOL, "a"),
    )
    assert one.beats("a", group.generation) == "REBALANCE_IN_PROGRESS"
    joined = one.classic_join("a", 0, 1)
    assert (joined.generation_id, joined.leader) == (group.generation + 1, "a")
    everything = (("a", assignment(0, 1, 2, 3)),)
    assert one.sync("a", joined.generation_id, assignments=everything).error is None
    assert one.any_group.state == "Stable"
    assert one.loaded_anew().members["a"].assignment == assignment(0, 1, 2, 3)


def test_whoever_loads_a_group_that_went_back_has_all_join() -> None:
    """In Kafka 4.3.1 it is stable then, and what nobody had taken over yet stays without owner."""
    one = mixed()
    one.beat("z", -1)
    assert one.beats("a", GENERATION + 1) == "REBALANCE_IN_PROGRESS"
    one.start()
    assert one.any_group.state == "PreparingRebalance"
    assert one.beats("a", GENERATION + 1) == "REBALANCE_IN_PROGRESS"
    assert one.classic_join("a", 0, 1).leader == "a"


def test_so_it_is_where_all_have_joined_and_nothing_is_assigned_yet() -> None:
    one = mixed()
    one.beat("z", -1)
    joined = one.classic_join("a", 0, 1).generation_id
    one.start()
    everything = (("a", assignment(0, 1, 2, 3)),)
    assert one.sync("a", joined, assignments=everything).error == "ILLEGAL_GENERATION"
    again = one.classic_join("a", 0, 1).generation_id
    assert one.sync("a", again, assignments=everything).error is None
    assert one.loaded_anew().members["a"].assignment == assignment(0, 1, 2, 3)


@pytest.mark.parametrize(
    "config", [{"consumer_migration_policy": "upgrade"}, {"max_size": 1}], ids=str
)
def test_without_the_policy_or_too_large_it_stays_a_consumer_group(config: Any) -> None:
    one = mixed()
    one.classic_join("b")
    one.config = evolve(CONFIG, **config)
    one.start()
    one.beat("z", -1)
    assert isinstance(one.any_group, ConsumerGroup)
    one.leaves("a")
    one.leaves("b")
    assert one.any_group.state == "Empty"


def static(policy: str = "bidirectional") -> Mixed:
    """Classic a has 0 and 1, and static z, of the consumer protocol, the rest."""
    one = Mixed(config=evolve(CONFIG, consumer_migration_policy=policy))
    one.classic_group(member("a", 0, 1))
    one.join("z", instance_id="i")
    one.classic_join("a", 0, 1)
    one.beat("z", GENERATION + 1, instance_id="i")
    assert one.group.state == "Stable"
    return one


def test_a_classic_process_takes_the_last_static_member_over_and_the_group_back() -> None:
    one = static()
    joined = one.classic_join(instance="i")
    group = one.any_group
    assert isinstance(group, ClassicGroup)
    assert group.state == "Stable", "nothing has to move"
    assert (joined.error, joined.generation_id) == (None, GENERATION + 1)
    assert one.gets(joined.member_id, GENERATION + 1) == [2, 3]
    assert one.beats("a", GENERATION + 1) is None
    assert one.beat("z", GENERATION + 1).error == "GROUP_ID_NOT_FOUND"
    assert one.loaded_anew().generation == GENERATION + 1
    assert one.timers[TimerKey(SESSION, GROUP, "z")] is None


def test_where_the_target_is_behind_all_join_anew() -> None:
    one = static()
    one.join("y")
    one.beat("y", -1)
    assert one.classic_join(instance="i") is None
    assert one.any_group.state == "PreparingRebalance"
    waiting = one.asked
    one.classic_join("a", 0, 1)
    assert one.answers[waiting].generation_id == one.any_group.generation


def test_a_static_member_is_taken_over_by_either_protocol() -> None:
    one = static(policy="upgrade")
    joined = one.classic_join(instance="i")
    assert one.group.members[joined.member_id].is_classic
    assert one.gets(joined.member_id, joined.generation_id) == [2, 3]
    assert one.classic_join("z", instance="i").error == "FENCED_INSTANCE_ID"
    back = one.join("y", instance_id="i")
    assert (back.error, given(back)) == (None, [2, 3])
    assert one.leaves("", "i") is None
    assert one.leaves("", "nobody") == "UNKNOWN_MEMBER_ID"


def test_a_process_that_takes_the_last_static_member_over_makes_a_full_group_no_larger() -> None:
    """Found by GroupMigration at group.max.size: the classic group was already there, and full."""
    one = static()
    one.config = evolve(one.config, max_size=2)
    one.start()
    joined = one.classic_join(instance="i")
    assert joined.error is None
    assert isinstance(one.any_group, ClassicGroup)
    assert len(one.any_group.members) == 2


def test_a_group_that_goes_back_and_over_again_knows_what_its_members_own() -> None:
    """Found by GroupMigration. As a classic group it had its target: 2 and 3 were b's, and a, who
    had not joined yet, owned them still."""
    one = Mixed()
    one.classic_group(member("a", 0, 1, 2, 3))
    one.join("z")
    one.classic_join("b")
    one.beat("z", -1)
    group = one.any_group
    assert isinstance(group, ClassicGroup)
    one.join("y")
    a, b = one.group.members["a"], one.group.members["b"]
    assert {number for _, number in (*a.assigned, *a.pending)} == {0, 1, 2, 3}
    assert not b.assigned


def test_a_static_process_that_takes_a_group_over_between_generations_has_a_target_computed() -> (
    None
):
    """Found by GroupMigration: only its protocol changes, and b's partitions were nobody's."""
    one = Mixed()
    one.classic_group(member("a", 0, 1, instance="i"), member("b", 2, 3))
    one.leaves("b")
    assert one.any_group.state == "PreparingRebalance"
    taken = one.join("z", instance_id="i")
    assert given(taken) == [0, 1, 2, 3]
    settled = Mixed()
    settled.classic_group(member("a", 0, 1, instance="i"), member("b", 2, 3))
    assert settled.join("z", instance_id="i").member_epoch == GENERATION, "each has its owner"
