"""A classic group by itself: what each request and timer is answered, row by row.

A `Talk` keeps the group between operations, and what was answered to whom.
"""

from typing import Any

import pytest
from attrs import define, evolve, field

from refimpl.errors import Refusal
from refimpl.machines import classic_operations as operations
from refimpl.machines.classic_consumer import ClassicConsumer, check_assignment
from refimpl.machines.classic_group import JOIN, SYNC, ClassicGroup, Config, Step, session
from refimpl.machines.classic_member import (
    ClassicGroupMember,
    JoinRequest,
    SyncRequest,
    SyncResponse,
)

RANGE = (("range", b"r"),)
BOTH = (("range", b"r"), ("sticky", b"s"))


@define
class Talk:
    """One group, and all that it ever answered: by the request's token."""

    config: Config = field(factory=lambda: Config(initial_delay_ms=10))
    group: ClassicGroup = field(factory=ClassicGroup)
    answers: dict[int, Any] = field(factory=dict[int, Any])
    timers: dict[tuple[str, str], int | None] = field(factory=dict[tuple[str, str], int | None])
    tokens: int = 0
    writes: int = 0

    def take(self, step: Step) -> None:
        self.group = step.group
        for token, response in step.answers:
            assert token not in self.answers, "a request is answered once"
            self.answers[token] = response
        self.timers |= step.timers
        self.writes += step.writes

    def join(self, member: str = "", **changed: Any) -> int:
        """Ask to join, as `new_id` if there is no id yet; the request's token."""
        self.tokens += 1
        asked: dict[str, Any] = {"protocols": RANGE, "session_ms": 60, "rebalance_ms": 300}
        request = JoinRequest(token=self.tokens, member=member, **{**asked, **changed})
        self.take(operations.join(self.group, request, self.config))
        return self.tokens

    def sync(self, member: str, given: dict[str, bytes] | None = None, **changed: Any) -> int:
        self.tokens += 1
        asked: dict[str, Any] = {"generation": self.group.generation, **changed}
        said = tuple((given or {}).items())
        request = SyncRequest(self.tokens, member, assignments=said, **asked)
        self.take(operations.sync(self.group, request))
        return self.tokens

    def heartbeat(self, member: str, generation: int | None = None, **who: Any) -> str | None:
        asked = self.group.generation if generation is None else generation
        self.tokens += 1
        self.take(operations.heartbeat(self.group, self.tokens, member, asked, **who))
        return self.answers[self.tokens].error

    def leave(self, *leaving: tuple[str, str | None]) -> list[str | None]:
        self.tokens += 1
        self.take(operations.leave(self.group, self.tokens, leaving))
        return [error for _, _, error in self.answers[self.tokens].left]

    def expire(self, member: str) -> None:
        self.take(operations.session_expired(self.group, member))

    def join_timer(self) -> None:
        self.take(operations.join_expired(self.group, self.config))

    def sync_timer(self) -> None:
        self.take(operations.sync_expired(self.group))

    def add(self, *members: str, **changed: Any) -> list[int]:
        """Let members in, each by its two requests."""
        tokens: list[int] = []
        for one in members:
            self.join(new_id=one, **changed)
            tokens.append(self.join(one, **changed))
        return tokens

    def error(self, token: int) -> str | None:
        return self.answers[token].error


def joined(*members: str, **changed: Any) -> Talk:
    """A group of these members, which wait for the leader's assignment; the first leads."""
    talk = Talk()
    talk.add(*members, **changed)
    while talk.group.state == "PreparingRebalance":
        talk.join_timer()
    return talk


def stable(*members: str, **changed: Any) -> Talk:
    """A group of these members, each of whom was assigned its own name."""
    talk = joined(*members, **changed)
    for one in members[1:]:
        talk.sync(one)
    talk.sync(members[0], {one: one.encode() for one in members})
    assert talk.group.state == "Stable"
    return talk


def with_static(*dynamic: str) -> Talk:
    """A stable group whose leader is `old`, of the instance `i`."""
    talk = Talk()
    talk.join(new_id="old", instance="i")
    talk.add(*dynamic)
    while talk.group.state == "PreparingRebalance":
        talk.join_timer()
    for one in dynamic:
        talk.sync(one)
    talk.sync("old", {one: one.encode() for one in ("old", *dynamic)})
    return talk


def refused(operation: Any, *arguments: Any, **named: Any) -> str:
    """Kafka's name of the error with which this is refused."""
    with pytest.raises(Refusal) as refusal:
        operation(*arguments, **named)
    return refusal.value.kafka_error


# JoinGroup


def test_who_has_no_id_is_given_one_and_comes_back_with_it() -> None:
    talk = Talk()
    answer = talk.answers[talk.join(new_id="a")]
    assert (answer.error, answer.member) == ("MEMBER_ID_REQUIRED", "a")
    assert talk.group.pending == {"a"}
    assert talk.timers[session("a")] == 60
    assert talk.group.state == "Empty"
    talk.join("a")
    assert talk.group.pending == frozenset()
    assert list(talk.group.members) == ["a"]


def test_old_clients_are_added_at_once() -> None:
    talk = Talk()
    talk.join(new_id="a", knows=False)
    assert list(talk.group.members) == ["a"]


def test_an_unknown_id_does_not_join() -> None:
    assert refused(stable("a").join, "b") == "UNKNOWN_MEMBER_ID"
    assert refused(Talk().join, "b") == "UNKNOWN_MEMBER_ID"


@pytest.mark.parametrize(
    "changed", [{"protocol_type": "connect"}, {"protocols": (("sticky", b""),)}, {"protocols": ()}]
)
def test_a_member_shares_type_and_a_protocol_with_all(changed: Any) -> None:
    assert refused(stable("a").join, new_id="b", **changed) == "INCONSISTENT_GROUP_PROTOCOL"


def test_a_group_needs_a_type() -> None:
    assert refused(Talk().join, new_id="a", protocol_type="") == "INCONSISTENT_GROUP_PROTOCOL"


def test_the_leader_alone_is_told_the_members() -> None:
    talk = Talk()
    first, second = talk.add("a", "b")
    talk.join_timer()
    talk.join_timer()
    led, followed = talk.answers[first], talk.answers[second]
    assert (led.leader, led.generation, led.protocol) == ("a", 1, "range")
    assert [one.id for one in led.members] == ["a", "b"]
    assert (followed.leader, followed.generation, list(followed.members)) == ("a", 1, [])


def test_most_votes_win_among_what_all_support() -> None:
    talk = Talk()
    talk.add("a", protocols=(("sticky", b""), ("range", b"")))
    talk.add("b", protocols=(("range", b""), ("sticky", b"")))
    talk.add("c", protocols=(("mine", b""), ("sticky", b""), ("range", b"")))
    talk.join_timer()
    talk.join_timer()
    assert talk.group.protocol == "sticky"


def test_who_missed_an_answer_is_told_the_generation_again() -> None:
    talk = joined("a", "b")
    assert talk.answers[talk.join("b")].generation == 1
    assert talk.group.state == "CompletingRebalance"
    talk = stable("a", "b")
    assert talk.answers[talk.join("b")].generation == 1
    assert talk.group.state == "Stable"


def test_a_leader_that_joins_again_wants_a_rebalance() -> None:
    talk = stable("a", "b")
    talk.join("a")
    assert talk.group.state == "PreparingRebalance"


@pytest.mark.parametrize("group", [joined, stable])
def test_other_metadata_are_a_rebalance(group: Any) -> None:
    talk = group("a", "b")
    talk.join("b", protocols=(("range", b"other"),))
    assert talk.group.state == "PreparingRebalance"


def test_a_second_join_answers_the_first() -> None:
    talk = stable("a", "b")
    first = talk.join("a")
    second = talk.join("a")
    assert talk.error(first) == "NOT_COORDINATOR"
    assert second not in talk.answers


def test_first_members_wait_for_more_to_come() -> None:
    talk = Talk(Config(initial_delay_ms=100))
    talk.add("a")
    assert talk.timers[JOIN] == 100
    talk.add("b")
    talk.join_timer()
    assert (talk.group.state, talk.timers[JOIN]) == ("PreparingRebalance", 100)
    talk.join_timer()
    assert talk.group.state == "CompletingRebalance"


def test_first_members_do_not_wait_for_ever() -> None:
    talk = Talk(Config(initial_delay_ms=100))
    talk.add("a")
    waited = 0
    while talk.group.state == "PreparingRebalance":
        waited += talk.timers[JOIN] or 0
        talk.add(f"m{waited}")
        talk.join_timer()
    assert waited == 300, "the rebalance time-out that was known at the start"


def test_a_full_group_turns_new_members_away() -> None:
    talk = stable("a", "b")
    talk.config = Config(max_size=2)
    assert refused(talk.join, new_id="c") == "GROUP_MAX_SIZE_REACHED"
    talk.join("a")
    talk.join("b")
    assert talk.group.state == "CompletingRebalance"


def test_of_a_group_that_is_too_large_the_last_to_join_are_turned_away() -> None:
    talk = stable("a", "b")
    talk.config = Config(max_size=1)
    talk.join("a")
    assert talk.error(talk.join("b")) == "GROUP_MAX_SIZE_REACHED"
    assert list(talk.group.members) == ["a"]
    assert talk.group.state == "CompletingRebalance", "nobody else is waited for"


# Pending ids


def test_a_rebalance_waits_for_pending_ids() -> None:
    talk = stable("a")
    talk.join(new_id="b")
    talk.join("a")
    assert talk.group.state == "PreparingRebalance"
    talk.expire("b")
    assert talk.group.state == "CompletingRebalance"


def test_a_pending_id_that_leaves_or_expires_disturbs_nobody() -> None:
    talk = stable("a")
    talk.join(new_id="b")
    talk.expire("b")
    talk.join(new_id="c")
    assert talk.leave(("c", None)) == [None]
    assert (talk.group.state, talk.group.pending) == ("Stable", frozenset())


# Static members


def test_a_static_member_is_replaced_without_a_rebalance() -> None:
    talk = with_static("b")
    written = talk.writes
    answer = talk.answers[talk.join(new_id="new", instance="i")]
    assert (answer.error, answer.member, answer.generation) == (None, "new", 1)
    assert (answer.leader, answer.skip_assignment) == ("new", True)
    assert talk.group.state == "Stable"
    assert talk.writes == written + 1, "or the change is lost with the coordinator"
    assert talk.answers[talk.sync("new")].assignment == b"old"


def test_who_cannot_skip_the_assignment_is_told_that_the_old_id_leads() -> None:
    talk = with_static("b")
    answer = talk.answers[talk.join(new_id="new", instance="i", can_skip=False)]
    assert (answer.leader, answer.skip_assignment) == ("old", False)
    assert not answer.members


def test_a_replaced_process_is_fenced() -> None:
    talk = with_static("b")
    talk.join(new_id="new", instance="i")
    for ask in (talk.join, talk.heartbeat):
        assert refused(ask, "old", instance="i") == "FENCED_INSTANCE_ID"
    assert refused(talk.group.check_commit, "old", 1, "i") == "FENCED_INSTANCE_ID"
    assert talk.leave(("old", "i")) == ["FENCED_INSTANCE_ID"]
    assert refused(talk.heartbeat, "new", instance="j") == "UNKNOWN_MEMBER_ID"


def test_what_a_replaced_process_has_parked_is_answered() -> None:
    talk = with_static("b")
    parked = talk.join("old", instance="i")
    talk.join(new_id="new", instance="i")
    assert talk.error(parked) == "FENCED_INSTANCE_ID"
    talk.join("b")
    parked = talk.sync("b")
    assert parked not in talk.answers
    talk.join(new_id="newer", instance="i")
    assert talk.group.state == "PreparingRebalance"
    assert talk.error(parked) == "REBALANCE_IN_PROGRESS"


def test_another_protocol_of_a_static_member_is_a_rebalance() -> None:
    talk = Talk()
    talk.join(new_id="old", instance="i", protocols=BOTH)
    talk.join_timer()
    talk.sync("old")
    talk.join(new_id="new", instance="i", protocols=(("sticky", b""),))
    assert (talk.group.generation, talk.group.protocol) == (2, "sticky")


def test_static_members_are_not_removed_for_joining_late() -> None:
    talk = with_static("b", "c")
    talk.join("b", protocols=(("range", b"other"),))
    talk.join_timer()
    assert sorted(talk.group.members) == ["b", "old"], "c is dynamic"
    assert talk.group.leader == "b", "it has joined"
    assert talk.group.generation == 2


def test_without_anybody_who_joined_static_members_are_waited_for() -> None:
    talk = with_static("b")
    talk.leave(("b", None))
    assert talk.group.state == "PreparingRebalance"
    talk.join_timer()
    assert (talk.group.state, talk.timers[JOIN]) == ("PreparingRebalance", 300)
    talk.expire("old")
    assert (talk.group.state, talk.group.generation) == ("Empty", 2)


def test_an_absent_member_is_not_told_the_generation_that_it_missed() -> None:
    talk = with_static("b")
    talk.join("b", protocols=(("range", b"other"),))
    talk.join_timer()
    assert talk.group.members["old"].absent
    parked = talk.join("old", instance="i")
    assert talk.group.state == "PreparingRebalance"
    talk.join("b")
    assert talk.answers[parked].generation == 3


# SyncGroup


def test_all_who_ask_are_given_what_the_leader_says() -> None:
    talk = joined("a", "b", "c")
    parked = talk.sync("b")
    assert parked not in talk.answers
    led = talk.sync("a", {"a": b"A", "b": b"B"})
    assert talk.answers[led].assignment == b"A"
    assert talk.answers[parked].assignment == b"B"
    assert talk.answers[talk.sync("c")].assignment == b"", "the leader forgot it"
    assert talk.writes == 1
    assert talk.timers[SYNC] is None


def test_a_sync_is_of_a_member_in_the_generation() -> None:
    talk = joined("a")
    assert refused(talk.sync, "b") == "UNKNOWN_MEMBER_ID"
    assert refused(talk.sync, "a", generation=0) == "ILLEGAL_GENERATION"
    assert refused(Talk().sync, "a") == "UNKNOWN_MEMBER_ID"


@pytest.mark.parametrize("which", [{"protocol_type": "connect"}, {"protocol": "sticky"}])
def test_a_sync_is_of_the_groups_protocol(which: Any) -> None:
    asked = SyncRequest(9, "a", 1, **which)
    assert refused(operations.sync, joined("a").group, asked) == "INCONSISTENT_GROUP_PROTOCOL"


def test_a_sync_while_members_join_is_told_so() -> None:
    talk = stable("a", "b")
    talk.join("a")
    assert refused(talk.sync, "b") == "REBALANCE_IN_PROGRESS"


def test_a_second_sync_answers_the_first() -> None:
    talk = joined("a", "b")
    first, second = talk.sync("b"), talk.sync("b")
    assert talk.error(first) == "NOT_COORDINATOR"
    talk.sync("a", {"b": b"B"})
    assert talk.answers[second].assignment == b"B"


def test_who_does_not_ask_for_its_assignment_is_removed() -> None:
    talk = joined("a", "b")
    parked = talk.sync("b")
    assert talk.timers[SYNC] == 300
    talk.sync_timer()
    assert list(talk.group.members) == ["b"]
    assert talk.error(parked) == "REBALANCE_IN_PROGRESS"
    assert refused(talk.sync_timer) == "INVALID_REQUEST"


# Heartbeat, and time


def test_a_heartbeat_renews_the_session_and_tells_of_a_rebalance() -> None:
    talk = joined("a", "b")
    talk.timers.clear()
    assert talk.heartbeat("a") is None, "KAFKA-10134"
    assert talk.timers == {session("a"): 60}
    talk = stable("a", "b")
    assert talk.heartbeat("b") is None
    talk.join("a")
    assert talk.heartbeat("b") == "REBALANCE_IN_PROGRESS"
    assert refused(talk.heartbeat, "b", 0) == "ILLEGAL_GENERATION"
    assert refused(talk.heartbeat, "c") == "UNKNOWN_MEMBER_ID"


def test_a_member_that_is_silent_is_removed_and_one_that_waits_is_not() -> None:
    talk = stable("a", "b")
    talk.expire("b")
    assert (talk.group.state, list(talk.group.members)) == ("PreparingRebalance", ["a"])
    talk.join("a")
    talk.add("c")
    talk.expire("c")
    assert "c" not in talk.group.members, "it is new, and may be gone"
    talk = stable("a", "b")
    talk.join("a")
    assert refused(talk.expire, "a") == "INVALID_REQUEST"


def test_a_new_member_that_is_removed_is_answered() -> None:
    talk = stable("a")
    (parked,) = talk.add("b")
    talk.expire("b")
    assert talk.error(parked) == "UNKNOWN_MEMBER_ID"


# LeaveGroup


def test_leaving_is_answered_one_by_one() -> None:
    talk = with_static("b", "c")
    assert talk.leave(("b", None), ("x", None), ("", "i"), ("", "j"), ("c", "j")) == [
        *(None, "UNKNOWN_MEMBER_ID", None),
        *("UNKNOWN_MEMBER_ID", "UNKNOWN_MEMBER_ID"),
    ]
    assert list(talk.group.members) == ["c"]
    assert talk.group.state == "PreparingRebalance"


def test_what_a_removed_member_has_parked_is_answered() -> None:
    talk = joined("a", "b")
    parked = talk.sync("b")
    talk.leave(("b", None))
    assert talk.error(parked) == "UNKNOWN_MEMBER_ID"
    parked = talk.join("a")
    assert talk.error(parked) is None


def test_the_last_to_leave_leaves_an_empty_group_that_is_written_down() -> None:
    talk = stable("a")
    talk.leave(("a", None))
    group = talk.group
    assert (group.state, group.generation, group.protocol, group.leader) == ("Empty", 2, None, None)
    assert talk.writes == 2


# Rebalances, timer by timer


def test_a_group_takes_as_long_as_its_slowest_member() -> None:
    assert ClassicGroup().rebalance_ms == 0
    talk = Talk()
    talk.add("a", rebalance_ms=500)
    talk.add("b", rebalance_ms=100)
    assert talk.group.rebalance_ms == 500
    assert talk.group.initial is not None
    assert talk.group.initial.left_ms == 490, "what the first one allows, without the first delay"


def test_a_rebalance_ends_the_wait_for_syncs_and_begins_the_one_for_joins() -> None:
    talk = joined("a", "b")
    parked = talk.sync("b")
    talk.join("a", protocols=(("range", b"other"),))
    assert (talk.timers[SYNC], talk.timers[JOIN]) == (None, 300)
    assert talk.error(parked) == "REBALANCE_IN_PROGRESS"
    assert all(one.sync is None for one in talk.group.members.values())
    talk.join("b")
    assert (talk.timers[SYNC], talk.timers[JOIN]) == (300, None)


def test_a_stable_groups_assignments_are_kept_while_its_members_join_anew() -> None:
    talk = stable("a", "b")
    talk.join("a")
    assert talk.group.members["b"].assignment == b"b"
    talk = joined("a", "b")
    talk.group = evolve(
        talk.group,
        members={id: evolve(one, assignment=b"old") for id, one in talk.group.members.items()},
    )
    talk.join("a", protocols=(("range", b"other"),))
    assert {one.assignment for one in talk.group.members.values()} == {b""}


def test_of_first_members_all_have_joined_and_the_delay_is_waited_for() -> None:
    talk = Talk()
    talk.add("a")
    assert talk.group.all_joined
    assert talk.group.state == "PreparingRebalance"


def test_without_its_leader_a_group_is_led_by_the_least_of_who_is_there() -> None:
    talk = stable("b", "a", "c")
    assert talk.group.leader == "b"
    talk.leave(("b", None))
    assert talk.group.leader == "a"
    talk.join("a")
    talk.join("c")
    assert talk.group.leader == "a"
    talk = stable("a", "b", "c")
    talk.leave(("c", None))
    assert talk.group.leader == "a"


def test_of_a_leader_that_stays_away_the_least_who_joined_takes_the_place() -> None:
    talk = with_static("c", "b")
    talk.join("c", protocols=(("range", b"other"),))
    talk.join("b")
    talk.join_timer()
    assert talk.group.leader == "b"


def test_sessions_begin_with_the_answer_to_a_join_and_end_with_the_member() -> None:
    talk = joined("a", "b")
    assert (talk.timers[session("a")], talk.timers[session("b")]) == (60, 60)
    talk.leave(("b", None))
    assert talk.timers[session("b")] is None


def test_a_new_members_session_is_the_long_one_until_it_is_answered() -> None:
    talk = Talk()
    talk.join(new_id="a")
    assert talk.timers[session("a")] == 60
    talk.join("a")
    assert talk.timers[session("a")] == 300_000


def test_who_is_given_its_assignment_has_a_session_from_then_on() -> None:
    talk = joined("a", "b", "c")
    talk.sync("b")
    talk.timers.clear()
    talk.sync("a", {})
    assert set(talk.timers) == {session("a"), session("b")}


def test_who_is_removed_is_not_waited_for() -> None:
    talk = joined("a", "b")
    talk.leave(("b", None))
    assert talk.group.unsynced == frozenset()
    group = joined("a", "b").group
    turn = operations.Turn(group)
    assert turn.remove(["b"])
    assert turn.group.unsynced == {"a"}
    assert not turn.remove(["b"])


def test_who_leaves_while_members_join_is_one_less_to_wait_for() -> None:
    talk = stable("a", "b", "c")
    talk.join("a")
    talk.leave(("b", None))
    assert (talk.group.state, talk.group.generation) == ("PreparingRebalance", 1)
    assert talk.timers[JOIN] == 300
    talk.timers.clear()
    talk.join("c")
    assert talk.group.state == "CompletingRebalance"


def test_a_group_without_a_leader_names_none() -> None:
    talk = stable("a", "b")
    assert (
        operations.Turn(evolve(talk.group, leader=None)).joined(talk.group.members["b"]).leader
        == ""
    )


def test_a_refused_protocol_is_told_with_what_was_asked() -> None:
    rows: tuple[tuple[dict[str, Any], str], ...] = (
        ({"protocol_type": "", "protocols": ()}, "no type with no protocol"),
        ({"protocol_type": "connect", "protocols": ()}, "connect with no protocol"),
        ({"protocol_type": "", "protocols": BOTH}, "no type with range, sticky"),
    )
    for asked, told in rows:
        with pytest.raises(Refusal, match=told):
            Talk().join(new_id="a", **asked)


# Members that come again


def test_a_member_is_known_to_wait_by_either_request() -> None:
    talk = joined("a", "b")
    assert not talk.group.members["b"].is_waiting
    talk.sync("b")
    assert talk.group.members["b"].is_waiting
    talk = stable("a", "b")
    talk.join("a")
    assert talk.group.members["a"].is_waiting


def test_a_leader_that_missed_its_answer_is_told_the_generation_while_it_is_awaited() -> None:
    talk = joined("a", "b")
    answer = talk.answers[talk.join("a")]
    assert (answer.generation, [one.id for one in answer.members]) == (1, ["a", "b"])
    assert talk.group.state == "CompletingRebalance"


def test_while_members_join_those_count_that_are_there() -> None:
    config = Config(max_size=2)
    talk = stable("a", "b")
    talk.config = config
    talk.join("a")
    again = talk.join("a")
    assert again not in talk.answers, "who has joined has room"
    talk.add("c")
    assert talk.group.state == "PreparingRebalance"
    assert talk.join("a") not in talk.answers, "nor is it turned away when all room is taken"
    assert talk.error(talk.join("b")) == "GROUP_MAX_SIZE_REACHED"
    assert refused(talk.join, new_id="d") == "GROUP_MAX_SIZE_REACHED"


def test_an_empty_group_has_room_whatever_it_is_said_to_hold() -> None:
    talk = Talk(Config(initial_delay_ms=10, max_size=0))
    talk.join(new_id="a", knows=False)
    assert list(talk.group.members) == ["a"]


def test_the_first_member_says_of_which_type_the_group_is() -> None:
    talk = stable("a")
    talk.leave(("a", None))
    talk.add("b", protocol_type="connect")
    assert talk.group.protocol_type == "connect"


def test_a_static_member_needs_no_id_to_come_back_with() -> None:
    talk = Talk()
    talk.join(new_id="p")
    assert refused(talk.join, "p", instance="i") == "INVALID_REQUEST"
    assert talk.group.pending == {"p"}


def test_who_takes_a_place_over_is_in_it_alone() -> None:
    talk = with_static("b")
    talk.join(new_id="new", instance="i")
    group = talk.group
    assert (list(group.members), group.leader) == (["new", "b"], "new")
    new = group.members["new"]
    assert (new.join, new.sync, new.absent, new.assignment) == (None, None, False, b"old")
    assert (talk.timers[session("old")], talk.timers[session("new")]) == (None, 60)
    talk = with_static("b")
    talk.group = evolve(talk.group, leader="b")
    talk.join(new_id="new", instance="i")
    assert talk.group.leader == "b"


def test_who_takes_a_place_over_while_assignments_are_awaited_is_awaited_itself() -> None:
    group = evolve(with_static("b").group, state="CompletingRebalance", unsynced={"old", "b"})
    members = {**group.members, "old": evolve(group.members["old"], sync=7)}
    request = JoinRequest(9, "", RANGE, instance="i", new_id="new")
    turn = operations.Turn(evolve(group, members=members))
    new = turn._replace(members["old"], request)  # pyright: ignore[reportPrivateUsage]
    assert turn.group.unsynced == {"new", "b"}
    assert turn.group.members == {"new": new, "b": members["b"]}
    assert turn.answers == [(7, SyncResponse("FENCED_INSTANCE_ID"))]


def test_who_leaves_names_itself_or_its_instance() -> None:
    talk = with_static("b")
    assert talk.leave(("", None)) == ["UNKNOWN_MEMBER_ID"]
    assert sorted(talk.group.members) == ["b", "old"]


# Commits


def test_whoever_is_in_the_generation_commits() -> None:
    talk = stable("a", "b")
    talk.group.check_commit("a", 1, None)
    assert refused(talk.group.check_commit, "x", 1, None) == "UNKNOWN_MEMBER_ID"
    assert refused(talk.group.check_commit, "a", 0, None) == "ILLEGAL_GENERATION"
    assert refused(talk.group.check_commit, "a", -1, None) == "ILLEGAL_GENERATION"
    assert refused(talk.group.check_commit, "", -1, None) == "UNKNOWN_MEMBER_ID"
    talk.join("a")
    talk.group.check_commit("b", 1, None)


def test_nobody_commits_while_the_assignment_is_awaited() -> None:
    group = joined("a").group
    assert refused(group.check_commit, "a", 1, None) == "REBALANCE_IN_PROGRESS"
    group.check_commit("a", 1, None, transactional=True)
    group.check_commit("", -1, None, transactional=True)


def test_who_says_anything_of_itself_must_be_a_member() -> None:
    group = stable("a").group
    for id, generation, instance in (("x", -1, None), ("", 0, None), ("", -1, "j"), ("", 1, None)):
        with pytest.raises(Refusal):
            group.check_commit(id, generation, instance, transactional=True)
    group.check_commit("", -1, None, transactional=True)


def test_a_stranger_that_leaves_an_empty_group_begins_no_generation() -> None:
    talk = stable("a")
    talk.leave(("a", None))
    before = talk.group
    assert talk.leave(("x", None)) == ["UNKNOWN_MEMBER_ID"]
    assert talk.group == before


def test_a_member_says_something_else_to_each_assignor() -> None:
    member = ClassicGroupMember("a", (("range", b"r"), ("sticky", b"s")))
    said = [member.metadata(name) for name in ("range", "sticky", "other", None)]
    assert said == [b"r", b"s", b"", b""]


def test_an_empty_group_takes_commits_by_hand() -> None:
    ClassicGroup().check_commit("anybody", -1, None)
    assert refused(ClassicGroup().check_commit, "a", 0, None) == "UNKNOWN_MEMBER_ID"


# Loading


def test_of_a_loaded_group_all_sessions_begin_afresh() -> None:
    talk = stable("a", "b")
    step = operations.loaded(talk.group, Config())
    assert step.timers == {session("a"): 60, session("b"): 60}
    assert step.group == talk.group
    smaller = operations.loaded(talk.group, Config(max_size=1))
    assert smaller.group.state == "PreparingRebalance"


# The consumer


def test_an_eager_consumer_joins_without_anything() -> None:
    consumer = ClassicConsumer(generation=1, owned=frozenset({"p"}))
    consumer.prepare_join()
    assert consumer.owned == frozenset()


def test_a_cooperative_consumer_keeps_what_it_owns_and_says_what_it_gives_up() -> None:
    consumer = ClassicConsumer(cooperative=True, generation=1, owned=frozenset({"p", "q"}))
    consumer.prepare_join()
    consumer.joined(2)
    assert consumer.owned == {"p", "q"}
    assert consumer.assigned({"p"})
    assert not consumer.assigned({"p", "r"})
    assert consumer.commit("r") == 2
    assert refused(consumer.commit, "q") == "INVALID_REQUEST"


def test_who_missed_a_generation_gives_up_what_it_owned_in_it() -> None:
    consumer = ClassicConsumer(cooperative=True, generation=1, owned=frozenset({"p"}))
    consumer.joined(3)
    assert consumer.owned == frozenset()
    consumer.lost()
    assert refused(consumer.commit, "p") == "INVALID_REQUEST"


def test_who_gave_something_up_with_a_missed_generation_joins_again_where_it_is_left_out() -> None:
    """The leader was told that it owns it, and waits for it to be free (seed 77737)."""
    consumer = ClassicConsumer(cooperative=True, generation=1, owned=frozenset({"p", "q"}))
    consumer.joined(3)
    assert consumer.owned == frozenset()
    assert consumer.assigned(["q"])
    consumer.joined(4)
    assert not consumer.assigned(["q"])


def test_what_it_gave_up_is_not_forgotten_with_an_answer_that_is_heard_twice() -> None:
    consumer = ClassicConsumer(cooperative=True, generation=1, owned=frozenset({"p"}))
    consumer.joined(3)
    consumer.joined(3)
    assert consumer.assigned(())


def test_who_leaves_owns_nothing_and_who_is_lost_is_in_no_generation() -> None:
    consumer = ClassicConsumer(cooperative=True, generation=4, owned=frozenset({"p"}))
    consumer.leave()
    assert consumer == ClassicConsumer(cooperative=True, generation=4)
    consumer.assigned({"p"})
    consumer.lost()
    assert consumer == ClassicConsumer(cooperative=True)


def test_a_leader_assigns_again_when_there_are_other_partitions_than_it_has_assigned() -> None:
    leader, follower = ClassicConsumer(), ClassicConsumer()
    for one in (leader, follower):
        one.joined(1)
    leader.assigns(2)
    assert [leader.must_assign_again(count) for count in (1, 2, 3)] == [True, False, True]
    assert not follower.must_assign_again(3)
    leader.joined(2)  # somebody else leads by now, or will be told what to assign
    assert not leader.must_assign_again(3)
    leader.assigns(3)
    leader.lost()
    assert not leader.must_assign_again(4)


def test_without_a_generation_nothing_is_committed_whatever_is_owned() -> None:
    consumer = ClassicConsumer(owned=frozenset({"p"}))
    assert refused(consumer.commit, "p") == "INVALID_REQUEST"


def test_a_leader_gives_nobody_what_another_owns() -> None:
    check_assignment({"p": "a", "q": "b"}, {"p": "a"})
    assert refused(check_assignment, {"p": "a"}, {"p": "b"}) == "INVALID_REQUEST"


@pytest.mark.parametrize("member", ["", "m"])
@pytest.mark.parametrize("instance", [None, "i"])
@pytest.mark.parametrize("knows", [False, True])
def test_an_id_is_given_first_to_a_new_dynamic_member_that_knows_of_it(
    member: str, instance: str | None, knows: bool
) -> None:
    """KIP-394."""
    request = JoinRequest(0, member, (), instance=instance, knows=knows)
    assert request.needs_id is ((member, instance, knows) == ("", None, True))


# A group that was a consumer group until now


def downgraded(group: ClassicGroup, successor: JoinRequest | None = None, **how: bool) -> Step:
    return operations.downgraded(group, Config(initial_delay_ms=10), successor, **how)


def test_a_group_that_goes_back_begins_its_sessions_and_has_all_join_where_it_is_stale() -> None:
    group = stable("a", "b").group
    for stale, state in ((False, "Stable"), (True, "PreparingRebalance")):
        step = downgraded(group, stale=stale)
        assert step.group.state == state
        assert {session("a"), session("b")} <= step.timers.keys()
        assert (step.timers.get(JOIN) is not None) is stale


def test_a_group_goes_back_to_the_process_that_takes_its_static_member_over() -> None:
    group = with_static("b").group
    request = JoinRequest(9, "", RANGE, instance="i", new_id="new")
    assert set(downgraded(group, request, stale=True).group.members) == {"new", "b"}
    assert set(downgraded(group, stale=True).group.members) == {"old", "b"}
