"""A consumer group's rules, guard by guard, and what its log is worth."""

from collections.abc import Mapping
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from refimpl.machines import consumer_group_errors as errors
from refimpl.machines.consumer_draft import Decision
from refimpl.machines.consumer_group import (
    CURRENT,
    NEW_MEMBER,
    PARTITION_METADATA,
    REGEX,
    STABLE,
    TARGET,
    UNRELEASED,
    UNREVOKED,
    ConsumerGroup,
    ConsumerMember,
    Partition,
    replay,
)
from refimpl.machines.consumer_heartbeat import (
    Heartbeat,
    Rules,
    compute_target,
    fence,
    heartbeat,
    leave,
    may_compute,
    resolve,
)
from refimpl.machines.consumer_membership import ConsumerMembership
from refimpl.machines.consumer_reconciliation import drop_unsubscribed, reconcile
from refimpl.records import consumer_groups as r
from refimpl.records.coordinators import CoordinatorRecord
from refimpl.records.schema import Uuid

T, U = Uuid(b"t" * 16), Uuid(b"u" * 16)
T0, T1, T2, U0 = (T, 0), (T, 1), (T, 2), (U, 0)
IDS = {"t": T, "u": U}


class Topics:
    def ids(self, names: frozenset[str]) -> frozenset[Uuid]:
        return frozenset(IDS[name] for name in names if name in IDS)

    def metadata_hash(self, names: frozenset[str]) -> int:
        return len(names)


def in_turn(group: ConsumerGroup) -> Mapping[str, frozenset[Partition]]:
    """Each partition to the next of who subscribes to it."""
    found: dict[str, set[Partition]] = {member: set() for member in group.members}
    for number, partition in enumerate((T0, T1, T2, U0)):
        readers = [
            member_id
            for member_id, one in sorted(group.members.items())
            if {"t": T, "u": U}.get("t" if partition[0] == T else "u") is not None
            and ("t" if partition[0] == T else "u") in one.said.subscribed_topic_names
        ]
        if readers:
            found[readers[number % len(readers)]].add(partition)
    return {member: frozenset(partitions) for member, partitions in found.items()}


RULES = Rules(Topics(), in_turn, now=1_000)


def joins(member: str, epoch: int = 0, names: str = "t", **said: Any) -> Heartbeat:
    full: dict[str, Any] = {
        "rebalance_timeout_ms": 1_000,
        "topic_names": frozenset(names),
        "owned": frozenset(),
    }
    return Heartbeat(member_id=member, epoch=epoch, **{**full, **said})


def group_of(*members: str) -> ConsumerGroup:
    group = ConsumerGroup("g")
    for member in members:
        group = heartbeat(group, joins(member), RULES).group
    return group


def all_free(_: Partition) -> bool:
    return True


def test_who_does_not_say_what_it_owns_may_not_come_with_the_previous_epoch() -> None:
    group = group_of("a")
    member = evolve(group.members["a"], epoch=5, previous_epoch=2)
    group = evolve(group, members={"a": member})
    owned = frozenset(member.assigned)
    assert heartbeat(group, Heartbeat(member_id="a", epoch=2, owned=owned), RULES).member
    for wrong in (None, owned | {U0}):
        with pytest.raises(errors.FencedMemberEpoch):
            heartbeat(group, Heartbeat(member_id="a", epoch=2, owned=wrong), RULES)


def test_an_absent_static_member_is_fenced_by_its_epoch() -> None:
    group = heartbeat(ConsumerGroup("g"), joins("a", instance_id="i"), RULES).group
    group = leave(group, Heartbeat(member_id="a", epoch=-2, instance_id="i"), RULES).group
    with pytest.raises(errors.FencedMemberEpoch):
        heartbeat(group, joins("a", epoch=2, instance_id="i"), RULES)


def test_a_static_member_may_come_back_with_its_own_id() -> None:
    """Kafka 4.3 answers UNRELEASED_INSTANCE_ID until its session is over."""
    group = heartbeat(ConsumerGroup("g"), joins("a", instance_id="i"), RULES).group
    again = heartbeat(group, joins("a", instance_id="i"), RULES)
    assert again.assignment == group.members["a"].assigned


def test_an_instance_id_that_nobody_has_is_unknown() -> None:
    with pytest.raises(errors.UnknownInstance):
        heartbeat(group_of("a"), joins("a", epoch=2, instance_id="i"), RULES)


def test_a_full_group_takes_nobody_new_and_keeps_who_is_there() -> None:
    group, full = group_of("a", "b"), evolve(RULES, max_size=2)
    with pytest.raises(errors.GroupMaxSizeReached):
        heartbeat(group, joins("c"), full)
    assert heartbeat(group, joins("b"), full).member


def test_a_state_of_a_newer_coordinator_is_left_by_owning_nothing() -> None:
    member = ConsumerMember("a", state=127, epoch=3)
    for owned in (None, frozenset((T0,))):
        with pytest.raises(errors.UnknownState):
            reconcile(member, frozenset((T0,)), 4, owned, all_free)
    assert reconcile(member, frozenset((T0,)), 4, frozenset(), all_free).assigned == {T0: 4}


def test_who_drops_a_topic_gives_it_up_before_there_is_a_new_target() -> None:
    member = ConsumerMember("a", epoch=3, assigned={T0: 2, U0: 3})

    def of_t(partition: Partition) -> bool:
        return partition[0] == T

    asked = drop_unsubscribed(member, of_t, None)
    assert (asked.state, asked.epoch, asked.assigned, asked.pending) == (
        *(UNREVOKED, 3),
        *({T0: 2}, {U0: 3}),
    )
    given = drop_unsubscribed(member, of_t, frozenset((T0,)))
    assert (given.state, given.assigned, given.pending) == (STABLE, {T0: 2}, {})


def test_what_is_missing_is_assigned_when_it_is_free() -> None:
    member = ConsumerMember("a", epoch=3, state=UNRELEASED, assigned={T0: 3})
    waits = reconcile(member, frozenset((T0, T1)), 4, None, lambda p: p != T1)
    assert (waits.state, waits.epoch, waits.assigned) == (UNRELEASED, 4, {T0: 3})
    done = reconcile(waits, frozenset((T0, T1)), 4, None, all_free)
    assert (done.state, done.assigned) == (STABLE, {T0: 3, T1: 4})


def test_a_target_rests_for_the_interval() -> None:
    group, slow = group_of("a"), evolve(RULES, assignment_interval_ms=500)
    early = heartbeat(group, joins("b"), evolve(slow, now=1_499)).group
    assert (early.epoch, early.target_epoch) == (3, 2)
    assert heartbeat(group, joins("b"), evolve(slow, now=1_500)).group.target_epoch == 3


def test_a_commit_of_nobody_is_taken_while_there_is_nobody() -> None:
    ConsumerGroup("g").check_commit("", -1, [T0])
    group = group_of("a")
    for member, epoch, refusal in (
        ("", -1, errors.UnknownMember),
        ("a", 9, errors.StaleMemberEpoch),
        ("a", 1, errors.NotAssignedSince),
    ):
        with pytest.raises(refusal):
            group.check_commit(member, epoch, [T0])
    group.check_commit("a", 2, [T0])
    with pytest.raises(errors.StaleMemberEpoch):
        group.check_fetch("a", 1)
    group.check_fetch("", -1)
    with pytest.raises(errors.NonEmptyGroup):
        group.deletion()


def test_who_speaks_the_classic_protocol_is_told_of_generations() -> None:
    """Clients of that protocol know no STALE_MEMBER_EPOCH."""
    group = group_of("a")
    metadata = r.ClassicMemberMetadata(session_timeout_ms=10, supported_protocols=())
    said = evolve(group.members["a"].said, classic_member_metadata=metadata)
    classic = evolve(group, members={"a": evolve(group.members["a"], said=said)})
    for of, refusal in ((group, errors.StaleMemberEpoch), (classic, errors.NotInGeneration)):
        with pytest.raises(refusal) as refused:
            of.check_commit("a", 9, [T0])
        assert refused.type is refusal
        with pytest.raises(refusal) as refused:
            of.check_fetch("a", 1)
        assert refused.type is refusal


def test_a_target_is_that_of_the_groups_epoch() -> None:
    group = evolve(group_of("a"), epoch=5)
    assert (group.target_epoch, may_compute(group, RULES)) == (2, True)
    made = compute_target(group, RULES)
    assert (made.group.target_epoch, may_compute(made.group, RULES)) == (5, False)
    assert TARGET in {record.kind for record in made.records}


def test_a_target_of_the_future_does_not_hold_up_the_next() -> None:
    rules = evolve(RULES, now=1000, assignment_interval_ms=500)
    for computed, due in ((501, False), (1000, False), (500, True), (1001, True)):
        group = evolve(group_of("a"), epoch=5, target_timestamp=computed)
        assert may_compute(group, rules) is due, computed


def test_an_instance_id_is_nobody_elses_while_its_member_is_there() -> None:
    group = heartbeat(ConsumerGroup("g"), joins("a", instance_id="i"), RULES).group
    with pytest.raises(errors.UnreleasedInstanceId):
        heartbeat(group, joins("b", instance_id="i"), RULES)
    left = leave(group, Heartbeat(member_id="a", epoch=-2, instance_id="i"), RULES).group
    assert set(heartbeat(left, joins("b", instance_id="i"), RULES).group.members) == {"b"}


def test_nobody_commits_in_the_epoch_of_who_joins() -> None:
    with pytest.raises(errors.UnknownMember):
        ConsumerGroup("g").check_commit("", 0, [T0])


# What a group is


def test_a_group_is_what_its_members_and_its_target_make_it() -> None:
    group = ConsumerGroup("g", epoch=3, target_epoch=3)
    assert group.state == "Empty"
    there = evolve(group, members={"a": ConsumerMember("a", epoch=3)})
    assert there.state == "Stable"
    assert evolve(there, epoch=4).state == "Assigning"
    for unsettled in (ConsumerMember("b", epoch=2), ConsumerMember("b", epoch=3, state=UNREVOKED)):
        members = {**there.members, "b": unsettled}
        assert evolve(there, members=members).state == "Reconciling"


def test_a_member_subscribes_to_what_it_names_and_to_what_its_expression_matches() -> None:
    said = evolve(NEW_MEMBER, subscribed_topic_names=("t",), subscribed_topic_regex="u.*")
    member = ConsumerMember("a", said)
    group = ConsumerGroup("g", members={"a": member})
    assert (member.regex, group.topic_names(member)) == ("u.*", {"t"}), "it is not resolved yet"
    group = evolve(group, regexes={"u.*": resolved("u", "uu")})
    assert group.topic_names(member) == group.subscribed_topics() == {"t", "u", "uu"}
    without = ConsumerMember("b", evolve(said, subscribed_topic_regex=None))
    assert (without.regex, group.topic_names(without)) == ("", {"t"})


def test_tombstones_leave_what_was_there_before_the_record() -> None:
    group = heartbeat(ConsumerGroup("g"), joins("a", instance_id="i"), RULES).group
    joined = group.members["a"]
    cut = replay(group, CoordinatorRecord(CURRENT, r.MemberKey("g", "a")))
    assert cut is not None
    assert cut.members == {"a": ConsumerMember("a", joined.said)}
    new, fresh = replay(group, CoordinatorRecord(TARGET, r.GroupKey("g"))), ConsumerGroup("g")
    assert new is not None
    assert (new.target_epoch, new.target_timestamp) == (fresh.target_epoch, fresh.target_timestamp)


def test_a_record_that_nobody_reads_any_more_changes_nothing() -> None:
    group = group_of("a")
    old = CoordinatorRecord(PARTITION_METADATA, r.GroupKey("g"))
    assert replay(group, old) is group


# What is written


def test_a_heartbeat_without_news_writes_nothing() -> None:
    group = group_of("a")
    again = heartbeat(group, Heartbeat(member_id="a", epoch=2), RULES)
    assert (again.records, again.group, again.assignment) == ((), group, None)


def test_the_next_process_of_a_static_member_has_all_that_the_one_before_said() -> None:
    group = heartbeat(ConsumerGroup("g"), joins("a", instance_id="i"), RULES).group
    said = group.members["a"].said
    away = leave(group, Heartbeat(member_id="a", epoch=-2, instance_id="i"), RULES).group
    back = heartbeat(away, joins("b", instance_id="i"), RULES)
    assert {name: one.said for name, one in back.group.members.items()} == {"b": said}
    current = [one.value for one in back.records if one.kind is CURRENT and one.value is not None]
    assert (current[0].member_epoch, current[0].previous_member_epoch) == (0, 0)


def test_a_static_member_that_leaves_for_good_is_gone() -> None:
    group = heartbeat(ConsumerGroup("g"), joins("a", instance_id="i"), RULES).group
    left = leave(group, Heartbeat(member_id="a", epoch=-1, instance_id="i"), RULES)
    assert left.group.members == {}


# Regular expressions


def resolved(*topics: str) -> r.RegularExpression:
    return r.RegularExpression(topics=topics, version=1, timestamp=0)


def matching(*members: str) -> ConsumerGroup:
    """Members that subscribe to the expression `x`, which matches `t`."""
    group = ConsumerGroup("g")
    for member in members:
        group = heartbeat(group, joins(member, names="", topic_regex="x"), RULES).group
    return resolve(group, {"x": resolved("t")}, RULES).group


def dropped(decision: Decision) -> list[str]:
    """The regular expressions that go."""
    gone = [one for one in decision.records if one.kind is REGEX and one.value is None]
    return [one.key.regular_expression for one in gone]


def test_topics_that_an_expression_matches_are_news_when_they_have_changed() -> None:
    group = matching("a")
    again = resolve(group, {"x": resolved("t")}, RULES)
    assert again.group.epoch == group.epoch
    more = resolve(group, {"x": resolved("t", "u")}, RULES)
    assert more.group.epoch == group.epoch + 1
    nobodys = resolve(group, {"y": resolved("u")}, RULES)
    assert (nobodys.records, nobodys.group) == ((), group)


def test_an_expression_goes_with_the_last_who_subscribes_to_it() -> None:
    group = matching("a", "b")
    assert dropped(fence(group, ["a"], RULES)) == []
    assert dropped(fence(group, ["a", "b"], RULES)) == ["x"]
    assert dropped(fence(group_of("a"), ["a"], RULES)) == []
    changed = Heartbeat(member_id="b", epoch=group.members["b"].epoch, topic_regex="y")
    assert dropped(heartbeat(group, changed, RULES)) == []
    alone = fence(group, ["a"], RULES).group
    assert dropped(heartbeat(alone, changed, RULES)) == ["x"]


def test_an_expression_that_was_never_resolved_leaves_nothing_behind() -> None:
    group = heartbeat(ConsumerGroup("g"), joins("a", names="", topic_regex="x"), RULES).group
    epoch = group.members["a"].epoch
    other = heartbeat(group, Heartbeat(member_id="a", epoch=epoch, topic_regex="y"), RULES)
    assert dropped(other) == []
    first = heartbeat(group_of("a"), Heartbeat(member_id="a", epoch=2, topic_regex="x"), RULES)
    assert dropped(first) == []


def test_another_expression_opens_an_epoch_if_its_topics_are_known_or_it_is_none() -> None:
    group, quiet = matching("a"), evolve(RULES, refresh=False)
    both = heartbeat(group, joins("b", names=""), RULES).group

    def opened(member: str, regex: str) -> int:
        epoch = both.members[member].epoch
        asked = Heartbeat(member_id=member, epoch=epoch, topic_regex=regex)
        return heartbeat(both, asked, quiet).group.epoch - both.epoch

    assert opened("b", "x") == 1
    assert opened("b", "y") == 0, "it waits until somebody has looked"
    assert opened("a", "") == 1


# Being led to a target


def test_who_is_where_it_should_be_stays_as_it_is() -> None:
    member = ConsumerMember("a", epoch=3, previous_epoch=1, assigned={T0: 2})
    assert reconcile(member, frozenset((T0, T1)), 3, None, all_free) is member
    assert drop_unsubscribed(member, lambda _: True, None) is member


def test_who_has_something_to_give_up_waits_until_it_has_said_so() -> None:
    member = ConsumerMember("a", epoch=3, state=UNREVOKED, assigned={T0: 2}, pending={T1: 2})
    target = frozenset((T0, T2))
    for reported in (None, frozenset((T0, T1))):
        assert reconcile(member, target, 4, reported, all_free) is member
    done = reconcile(member, target, 4, frozenset((T0,)), all_free)
    assert (done.epoch, done.state, done.assigned, done.pending) == (
        *(4, STABLE),
        *({T0: 2, T2: 4}, {}),
    )


def test_who_has_lost_what_it_never_had_need_not_give_it_up() -> None:
    member = ConsumerMember("a", epoch=3, assigned={T0: 2, T1: 3})
    told = reconcile(member, frozenset((T0,)), 4, frozenset((T0, T1)), all_free)
    assert (told.epoch, told.state, told.pending) == (3, UNREVOKED, {T1: 3})
    never_had = reconcile(member, frozenset((T0,)), 4, frozenset((T0,)), all_free)
    assert (never_had.epoch, never_had.state, never_had.assigned) == (4, STABLE, {T0: 2})


def test_who_subscribes_to_less_gives_it_up_though_the_target_rests() -> None:
    group = heartbeat(ConsumerGroup("g"), joins("a", names="tu"), RULES).group
    assert set(group.members["a"].assigned) == {T0, T1, T2, U0}
    slow = evolve(RULES, assignment_interval_ms=500)
    less = heartbeat(group, Heartbeat(member_id="a", epoch=2, topic_names=frozenset("t")), slow)
    assert less.group.target_epoch == group.target_epoch
    member = less.group.members["a"]
    assert (set(member.assigned), set(member.pending)) == ({T0, T1, T2}, {U0})


STEPS = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.sampled_from(("beat", "beat", "silent", "join", "leave", "away", "crash", "revoke")),
        st.sampled_from(("t", "tu", "u")),
    ),
    max_size=25,
)


@given(STEPS)
def test_nobody_shares_a_partition_and_the_log_is_the_group(
    steps: list[tuple[str, str, str]],
) -> None:
    """Members join, crash, change what they subscribe to, and answer late or never."""
    group, log = ConsumerGroup("g"), list[CoordinatorRecord]()
    clients = {member: ConsumerMembership() for member in "abc"}
    for member, step, names in steps:
        group = _step(group, log, clients[member], member, step, names)
        held = [p for one in group.members.values() for p in (*one.assigned, *one.pending)]
        assert len(held) == len(set(held))
        assert group.target_epoch <= group.epoch
        assert all(one.epoch <= group.target_epoch for one in group.members.values())
        replayed: ConsumerGroup | None = None
        for record in log:
            replayed = replay(replayed, record)
        assert (replayed or ConsumerGroup("g")) == group
    last = {(one.kind.number, one.key): at for at, one in enumerate(log)}
    compacted: ConsumerGroup | None = None
    for record in (log[at] for at in sorted(last.values())):
        compacted = replay(compacted, record)
    assert (compacted or ConsumerGroup("g")) == group


def _step(
    group: ConsumerGroup,
    log: list[CoordinatorRecord],
    client: ConsumerMembership,
    member: str,
    step: str,
    names: str,
) -> ConsumerGroup:
    static = "i" if member == "c" else None
    if step == "revoke":
        client.owned = client.told
        return group
    if step == "crash":
        client.fenced()
        if member not in group.members:
            return group
        decision = fence(group, [member], RULES)
    else:
        try:
            decision = _asks(group, client, member, step, names, static)
        except (errors.UnknownMember, errors.UnknownInstance, errors.FencedMemberEpoch):
            client.fenced()
            return group
        if decision.member is not None and step in ("beat", "join", "silent"):
            client.answered(decision.member.epoch, decision.assignment)
    log += decision.records
    return decision.group


def _asks(
    group: ConsumerGroup,
    client: ConsumerMembership,
    member: str,
    step: str,
    names: str,
    static: str | None,
) -> Any:
    epoch = 0 if step == "join" else client.epoch
    if step == "leave" or (step == "away" and static):
        client.fenced()
        said = Heartbeat(member_id=member, epoch=-1 if step == "leave" else -2, instance_id=static)
        return leave(group, said, RULES)
    if step == "silent" and epoch:
        return heartbeat(group, Heartbeat(member_id=member, epoch=epoch, instance_id=static), RULES)
    if epoch == 0:
        client.fenced()
    owned = client.owned | client.told if client.reported is None else client.owned
    return heartbeat(group, joins(member, epoch, names, owned=owned, instance_id=static), RULES)
