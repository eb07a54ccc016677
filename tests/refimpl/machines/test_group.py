"""The group's coordinator and its members by themselves, guard by guard.

Each test opens every guard but one, so that a guard cannot hide behind another.
"""

from typing import Any

import pytest
from attrs import asdict

from refimpl.errors import Refusal
from refimpl.machines.group import CommitCoordinator, CommittingMember, OffsetCommit


def refused(machine: Any, action: str, *arguments: Any) -> str:
    """The refusal of an action, which must leave the machine unchanged."""
    before = asdict(machine)
    with pytest.raises(Refusal) as refusal:
        getattr(machine, action)(*arguments)
    assert asdict(machine) == before
    return refusal.value.kafka_error


def joined(**changed: Any) -> CommittingMember:
    member = CommittingMember(1)
    member.join(2, 3)
    for name, value in changed.items():
        setattr(member, name, value)
    return member


def coordinator() -> CommitCoordinator:
    made = CommitCoordinator()
    made.rebalance(1)
    made.rebalance(2)
    return made


def test_a_rebalance_begins_a_generation_and_keeps_what_was_committed() -> None:
    made = coordinator()
    made.receive_commit(OffsetCommit(2, 2, 5))
    made.rebalance(1)
    assert (made.generation, made.owner, made.committed) == (3, 1, 5)


def test_only_the_owner_joins() -> None:
    made = coordinator()
    assert made.join(2) == (2, 0)
    assert refused(made, "join", 1) == "UNKNOWN_MEMBER_ID"


@pytest.mark.parametrize("generation", [1, 3])
def test_a_commit_of_another_generation_is_refused(generation: int) -> None:
    assert refused(coordinator(), "receive_commit", OffsetCommit(2, generation, 5)) == (
        "ILLEGAL_GENERATION"
    )


def test_a_commit_that_was_overtaken_is_refused_and_a_second_copy_is_not() -> None:
    made = coordinator()
    made.receive_commit(OffsetCommit(2, 2, 5))
    assert refused(made, "receive_commit", OffsetCommit(2, 2, 4)) == "NETWORK_EXCEPTION"
    made.receive_commit(OffsetCommit(2, 2, 5))
    made.receive_commit(OffsetCommit(1, 2, 1))  # another member's order is its own
    assert made.committed == 1


def test_an_offset_of_zero_may_be_committed() -> None:
    made = coordinator()
    made.receive_commit(OffsetCommit(2, 2, 0))
    assert made.committed == 0


def test_a_member_starts_at_the_committed_offset_and_knows_no_old_answers() -> None:
    member = joined(position=9, done=8, sent=7, answered=6)
    member.join(3, 4)
    assert asdict(member) == asdict(CommittingMember(1, "after", 3, 4, 4, 3))


@pytest.mark.parametrize("generation", [1, 2])
def test_a_member_joins_only_a_newer_generation(generation: int) -> None:
    assert refused(joined(), "join", generation, 3) == "ILLEGAL_GENERATION"


@pytest.mark.parametrize(
    ("action", "arguments"), [("poll", (9,)), ("process", ()), ("send_commit", ()), ("crash", ())]
)
def test_who_has_not_joined_does_nothing(action: str, arguments: tuple[int, ...]) -> None:
    member = joined(generation=0, done=3, position=3 if action == "poll" else 4)
    assert refused(member, action, *arguments) == "UNKNOWN_MEMBER_ID"


def test_the_next_record_comes_once_the_last_is_processed() -> None:
    member = joined()
    assert member.poll(5) == 3
    assert refused(member, "poll", 5) == "INVALID_REQUEST"
    assert member.process() == 3
    assert member.poll(5) == 4


def test_there_is_nothing_behind_the_end_of_the_log() -> None:
    assert refused(joined(), "poll", 3) == "INVALID_REQUEST"
    assert refused(joined(), "poll", 2) == "INVALID_REQUEST"
    assert joined().poll(4) == 3


def test_nothing_is_processed_before_it_is_polled() -> None:
    assert refused(joined(), "process") == "INVALID_REQUEST"


def test_who_commits_before_processing_waits_for_the_answer() -> None:
    member = joined(commit_when="before")
    member.poll(5)
    assert refused(member, "process") == "INVALID_REQUEST"
    commit = member.send_commit()
    assert commit == OffsetCommit(1, 2, 4)
    member.take_answer(commit)
    assert (member.process(), member.done) == (3, 4)


@pytest.mark.parametrize(("commit_when", "offset"), [("after", 3), ("before", 4), ("polled", 4)])
def test_a_commit_names_the_offset_of_the_next_record(commit_when: str, offset: int) -> None:
    member = joined(commit_when=commit_when, position=4)
    assert member.send_commit() == OffsetCommit(1, 2, offset)
    assert refused(member, "send_commit") == "INVALID_REQUEST"  # sent already


def test_offset_zero_is_not_committed_and_offset_one_is() -> None:
    assert refused(joined(position=0, done=0, sent=5), "send_commit") == "INVALID_REQUEST"
    assert joined(position=1, done=1).send_commit().offset == 1


def test_answers_count_for_the_member_and_generation_that_asked() -> None:
    member = joined()
    assert refused(member, "take_answer", OffsetCommit(2, 2, 4)) == "UNKNOWN_MEMBER_ID"
    assert refused(member, "take_answer", OffsetCommit(1, 1, 4)) == "ILLEGAL_GENERATION"
    member.take_answer(OffsetCommit(1, 2, 4))
    member.take_answer(OffsetCommit(1, 2, 3))
    assert member.answered == 4


def test_a_crash_leaves_only_the_generation_that_was_joined_last() -> None:
    member = joined(position=5, done=4, sent=4, answered=4)
    member.crash()
    assert asdict(member) == asdict(CommittingMember(1, last=2))
