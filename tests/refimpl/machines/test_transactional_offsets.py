"""Offsets in transactions by themselves, guard by guard.

Each test opens every guard but one, so that a guard cannot hide behind another.
"""

from typing import Any

import pytest
from attrs import asdict

from refimpl.errors import Refusal
from refimpl.machines.transactional_offsets import NextOffset, TransactionalOffsets


def refused(machine: TransactionalOffsets, step: str, *arguments: Any) -> str:
    """The refusal of a step, which must change nothing."""
    before = asdict(machine)
    with pytest.raises(Refusal) as refusal:
        getattr(machine, step)(*arguments)
    assert asdict(machine) == before
    return refusal.value.kafka_error


def owned() -> TransactionalOffsets:
    """Member 1 owns the partition in generation 3."""
    return TransactionalOffsets("t", 3, owner=1, committed=NextOffset(5, "t"))


def test_an_offset_is_pending_until_the_marker_commits_it() -> None:
    offsets = owned()
    offsets.add(7, 1, 3, NextOffset(6, "t"))
    assert offsets.committed == NextOffset(5, "t")
    offsets.end(7, committed=True)
    assert offsets.committed == NextOffset(6, "t")
    assert not offsets.pending


def test_an_abort_takes_the_pending_offset_away() -> None:
    offsets = owned()
    offsets.add(7, 1, 3, NextOffset(6, "t"))
    offsets.end(8, committed=True)
    offsets.end(7, committed=False)
    assert offsets.committed == NextOffset(5, "t")
    assert not offsets.pending


@pytest.mark.parametrize(
    ("member", "generation", "topic", "error"),
    [
        (1, 2, "t", "ILLEGAL_GENERATION"),
        (1, 4, "t", "ILLEGAL_GENERATION"),
        (2, 3, "t", "UNKNOWN_MEMBER_ID"),
        (1, 3, "u", "UNKNOWN_TOPIC_ID"),
    ],
)
def test_only_the_owner_adds_offsets_of_its_generation_and_topic(
    member: int, generation: int, topic: str, error: str
) -> None:
    assert refused(owned(), "add", 7, member, generation, NextOffset(6, topic)) == error


def test_a_fetch_waits_for_pending_offsets_and_is_of_this_generation() -> None:
    offsets = owned()
    assert offsets.fetch(3) == NextOffset(5, "t")
    assert refused(offsets, "fetch", 2) == "ILLEGAL_GENERATION"
    offsets.add(7, 1, 3, NextOffset(6, "t"))
    assert refused(offsets, "fetch", 3) == "UNSTABLE_OFFSET_COMMIT"


def test_a_topic_takes_its_offsets_with_it() -> None:
    offsets = owned()
    offsets.add(7, 1, 3, NextOffset(6, "t"))
    offsets.replace_topic("u")
    offsets.end(7, committed=True)
    assert (offsets.topic, offsets.committed, offsets.pending) == ("u", None, {})


def test_a_group_with_members_or_offsets_is_not_cleaned_up() -> None:
    offsets = owned()
    offsets.committed = None
    assert not offsets.clean_up()
    offsets.rebalance(None)
    assert offsets.generation == 4
    assert offsets.clean_up()
    offsets.pending[7] = NextOffset(6, "t")
    assert not offsets.clean_up()
    offsets.end(7, committed=True)
    assert not offsets.clean_up()
