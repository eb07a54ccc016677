"""A group that brokers coordinate, under faults: every promise holds, and rare states are met."""

from collections import Counter
from typing import Any

import pytest

from chaos.campaign import first_failing_seed
from chaos.settings import Settings
from chaos.sim.addresses import ProcessTimer
from chaos.sim.simulator import build
from refimpl.broker.node import GROUPS
from refimpl.groups.coordinator import GroupCoordinator
from refimpl.machines.classic_group import ClassicGroup

SEEDS = 24
# What so few seeds must have met, or their silence means nothing
MET = {
    "Rebalance": "a generation",
    "coordinator: NOT_COORDINATOR": "a coordinator that resigned",
    "coordinator: COORDINATOR_NOT_AVAILABLE": "a commit or a join that is not replicated in time",
    "commits refused: UNKNOWN_MEMBER_ID": "a commit of a member that was given up",
    "commits refused: ILLEGAL_GENERATION": "a commit of an old generation",
    "commits overtaken": "a copy of a commit that came late",
    "members that lost their partitions": "a member that learns that it is none",
    "redeliveries": "a record processed again",
    "fault: member_leave": "a member that leaves",
    "fault: member_crash": "a member that crashes",
}


def test_members_share_and_commit_through_failures_of_their_coordinator() -> None:
    met: Counter[str] = Counter()
    for seed in range(SEEDS):
        run = build(Settings.draw(seed, group_protocol="classic", files=False)).go()
        assert run.violation is None, f"seed {seed}: {run.violation}"
        assert run.complete or any(one.unavailable() for one in run.partitions)
        met.update(run.simulation.counts)
    assert [words for name, words in MET.items() if not met[name]] == []


@pytest.mark.parametrize("seed", [0, 1])
def test_on_files_as_well(seed: int) -> None:
    run = build(Settings.draw(seed, group_protocol="classic", files=True)).go()
    assert run.violation is None


def test_a_broker_sets_few_timers_for_all_its_groups() -> None:
    """Each that did not stop once it was superfluous went on beside the others."""
    run = build(Settings.draw(84, group_protocol="classic", files=False)).go()
    set_now: Counter[tuple[int, int]] = Counter()
    for messages in run.simulation.timeline.due.values():
        for target, message in messages:
            if isinstance(message, ProcessTimer) and message.timer.name == GROUPS:
                set_now[target, message.process] += 1
    assert set_now
    assert max(set_now.values()) < 30


def test_a_run_is_the_same_each_time() -> None:
    def counts() -> Counter[str]:
        return build(Settings.draw(3, group_protocol="classic")).go().simulation.counts

    assert counts() == counts()


def test_a_store_has_no_offsets_topic_yet() -> None:
    with pytest.raises(ValueError, match="store: expected false where brokers coordinate"):
        Settings(store=True, group_protocol="classic").check()


def test_a_commit_that_nobody_checks_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def unchecked(*_: object) -> None:
        """Whoever commits."""

    monkeypatch.setattr(ClassicGroup, "check_commit", unchecked)
    assert _first_broken() == "CommitFenced"


def test_an_answer_before_the_commit_is_replicated_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = GroupCoordinator._answer  # pyright: ignore[reportPrivateUsage]

    def at_once(self: GroupCoordinator, now: int, answers: Any, *, waits: bool) -> None:
        answer(self, now, answers, waits=False)

    monkeypatch.setattr(GroupCoordinator, "_answer", at_once)
    assert _first_broken() == "CommittedSurvives"


def _first_broken() -> str | None:
    found = first_failing_seed(range(SEEDS), group_protocol="classic", files=False)
    return None if found is None else found.oracle
