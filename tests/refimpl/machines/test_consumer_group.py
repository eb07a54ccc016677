"""A consumer group's rules, guard by guard, and what its log is worth."""

from collections.abc import Mapping
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from refimpl.machines import consumer_group_errors as errors
from refimpl.machines.consumer_group import (
    STABLE,
    UNRELEASED,
    UNREVOKED,
    ConsumerGroup,
    ConsumerMember,
    Partition,
    replay,
)
from refimpl.machines.consumer_heartbeat import Heartbeat, Rules, fence, heartbeat, leave
from refimpl.machines.consumer_membership import Membership
from refimpl.machines.consumer_reconciliation import drop_unsubscribed, reconcile
from refimpl.storage.coordinator_records import CoordinatorRecord
from refimpl.storage.schema import Uuid

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
    clients = {member: Membership() for member in "abc"}
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
    client: Membership,
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
    client: Membership,
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
