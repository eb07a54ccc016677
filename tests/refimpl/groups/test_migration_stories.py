"""Clients of both protocols come, go and fail in one group: nothing ever has two owners, and when
all is quiet everything has one."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from refimpl.groups import migration
from refimpl.machines import consumer_classic_member, group_migration
from refimpl.machines.consumer_group import STABLE, ConsumerMember
from tests.refimpl.groups.migrating import Story
from tests.refimpl.groups.test_migration import CONFIG, Mixed

HAPPENS = (*["act"] * 14, "leave", "die", "expire", "fail over", "grow")
Steps = Sequence[tuple[str, int]]


def play(steps: Steps, *, cooperative: bool, policy: str) -> set[str]:
    """A story to its quiet end; the types that the group had."""
    ids = iter(range(10**6))
    here = Mixed(
        config=evolve(CONFIG, consumer_migration_policy=policy), new_id=lambda: f"{next(ids):06}"
    )
    story, types = Story(here, cooperative), set[str]()
    for what, who in steps:
        story.happens(what, who)
        types.add(type(here.any_group).__name__)
    story.settles(everybody=policy in ("bidirectional", "upgrade"))
    return types


def of_seed(seed: int, **fixed: Any) -> set[str]:
    """A story that is drawn from a seed."""
    rng = Random(seed)
    steps = [(rng.choice(HAPPENS), rng.randrange(4)) for _ in range(rng.randrange(10, 120))]
    drawn: dict[str, Any] = {
        "cooperative": rng.random() < 0.6,
        "policy": rng.choice(("bidirectional", "bidirectional", "upgrade")),
    }
    return play(steps, **(drawn | fixed))


@given(
    steps=st.lists(st.tuples(st.sampled_from(HAPPENS), st.integers(0, 3)), max_size=80),
    cooperative=st.booleans(),
    policy=st.sampled_from(("bidirectional", "upgrade", "downgrade", "disabled")),
)
def test_nothing_has_two_owners_and_in_the_end_everything_one(
    steps: Steps, cooperative: bool, policy: str
) -> None:
    play(steps, cooperative=cooperative, policy=policy)


def test_stories_go_both_ways() -> None:
    types = [of_seed(seed, policy="bidirectional") for seed in range(40)]
    assert sum({"ClassicGroup", "ConsumerGroup"} <= one for one in types) > 10


# ------------------------------------------------------------------------------ bugs put back


def pending_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka 4.3.1: what a cooperative member may still own is free when the group goes over."""

    def without(member: ConsumerMember, given: object) -> ConsumerMember:
        return evolve(member, pending={}, state=STABLE)

    monkeypatch.setattr(group_migration, "_without", without)


def no_target_by_classic_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka 4.3.1: only joins and heartbeats of the other protocol compute a target."""

    def target_due(draft: object, rules: object) -> None: ...

    monkeypatch.setattr(consumer_classic_member, "target_due", target_due)


def stable_when_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka 4.3.1: the group that went back is written down as the generation members are in."""
    written = migration.record_of

    def record_of(group_id: str, group: Any) -> Any:
        return written(group_id, evolve(group, leader=min(group.members)))

    monkeypatch.setattr(migration, "record_of", record_of)


def rejoins_only_for_an_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not ask a member to rejoin to give up partitions, or to receive more."""

    def must_rejoin(group: Any, member: Any) -> bool:
        return member.epoch < group.target_epoch

    monkeypatch.setattr(consumer_classic_member, "must_rejoin", must_rejoin)


def owns_nothing_when_it_joins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ignore the partitions that a classic member says it owns."""

    def partitions(topics: object, names: object) -> tuple[()]:
        return ()

    monkeypatch.setattr(consumer_classic_member, "partitions", partitions)


def acts(*turns: tuple[int, int]) -> list[tuple[str, int]]:
    """So many steps of a client, and then of the next one."""
    return [("act", who) for who, count in turns for _ in range(count)]


C0, C1, N0 = 0, 1, 2
GIVING_UP = acts((C0, 8), (C1, 3), (C0, 3), (N0, 3))
"""c0 owns everything when c1 joins, and knows by its assignment that it is to give something up; it
has not yet, when n0 comes."""
BACK = [*acts((C0, 8), (N0, 1), (C0, 8), (N0, 3)), ("leave", N0), ("fail over", C0)]
"""The last of the consumer protocol leaves, and the coordinator fails over before c0 has joined."""


def directed(steps: Steps) -> Callable[[], object]:
    return lambda: play(steps, cooperative=True, policy="bidirectional")


def drawn() -> None:
    for seed in range(100):
        of_seed(seed)


@pytest.mark.parametrize("steps", [GIVING_UP, BACK], ids=["giving up", "back"])
def test_a_group_goes_over_while_a_member_is_in_the_middle_of_something(steps: Steps) -> None:
    assert {"ClassicGroup", "ConsumerGroup"} <= play(
        steps, cooperative=True, policy="bidirectional"
    )


@pytest.mark.parametrize(
    ("bug", "story", "broken"),
    [
        (pending_is_free, directed(GIVING_UP), "c0 and n0 own"),
        (stable_when_loaded, directed(BACK), "not settled"),
        (no_target_by_classic_heartbeats, drawn, "not settled"),
        (rejoins_only_for_an_epoch, drawn, "not settled"),
        (owns_nothing_when_it_joins, drawn, "own"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_a_bug_breaks_a_story(
    bug: Any, story: Callable[[], object], broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bug(monkeypatch)
    with pytest.raises(AssertionError, match=broken):
        story()
