"""A group that brokers coordinate, under faults: every promise holds, and rare states are met."""

from collections import Counter
from typing import Any

import pytest
from attrs import evolve

from chaos.campaign import first_failing_seed
from chaos.oracles.group import Commit, GroupPartition
from chaos.sim.addresses import ProcessTimer
from chaos.sim.settings import Settings
from chaos.simulator import build
from properties.mutants.catalogue import applied, catalogue
from properties.mutants.edits import compiled, edited, function_at, patched, tree_of
from refimpl.broker.node import GROUPS
from refimpl.coordinator.operation import Outcome, TimerKey
from refimpl.coordinator.runtime import Coordinator
from refimpl.groups.consumer import SESSION, ConsumerGroups
from refimpl.machines.classic_group import ClassicGroup

SEEDS = 24
CLASSIC: dict[str, Any] = {
    **{"group_protocol": "classic", "files": False, "store": False},
    **{"static_members": False, "reconfigures": False},
}
CONSUMER: dict[str, Any] = {**CLASSIC, "group_protocol": "consumer"}
# What so few seeds must have met, or their silence means nothing
MET = {
    "Rebalance": "a generation",
    "coordinator: NOT_COORDINATOR": "a coordinator that resigned",
    "coordinator: COORDINATOR_NOT_AVAILABLE": "a commit or a join that is not replicated in time",
    "commits refused: UNKNOWN_MEMBER_ID": "a commit of a member that was given up",
    "commits overtaken": "a copy of a commit that came late",
    "members that lost their partitions": "a member that learns that it is none",
    "redeliveries": "a record processed again",
    "fault: member_leave": "a member that leaves",
    "fault: member_crash": "a member that crashes",
}
MET_CLASSIC = {**MET, "commits refused: ILLEGAL_GENERATION": "a commit of an old generation"}
MET_CONSUMER = {
    **MET,
    "commits refused: STALE_MEMBER_EPOCH": "a commit of who has lost the partition",
    "members fenced: UNKNOWN_MEMBER_ID": "a heartbeat of a member that was given up",
    "heartbeats overtaken": "a heartbeat that came late, or twice",
}


@pytest.mark.parametrize(("protocol", "met"), [(CLASSIC, MET_CLASSIC), (CONSUMER, MET_CONSUMER)])
def test_members_share_and_commit_through_failures_of_their_coordinator(
    protocol: dict[str, Any], met: dict[str, str]
) -> None:
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        run = build(Settings.draw(seed, **protocol)).go()
        assert run.violation is None, f"seed {seed}: {run.violation}"
        assert run.complete or any(one.unavailable() for one in run.partitions)
        seen.update(run.simulation.counts)
    assert [words for name, words in met.items() if not seen[name]] == []


def test_a_broker_sets_few_timers_for_all_its_groups() -> None:
    """Each that did not stop once it was superfluous went on beside the others."""
    run = build(Settings.draw(84, **CLASSIC)).go()
    set_now: Counter[tuple[int, int]] = Counter()
    for messages in run.simulation.timeline.due.values():
        for target, message in messages:
            if isinstance(message, ProcessTimer) and message.timer.name == GROUPS:
                set_now[target, message.process] += 1
    assert set_now
    assert max(set_now.values()) < 30


def test_who_asks_a_deposed_controller_for_the_offsets_topic_lives_on() -> None:
    """The answer says only that it is not the controller: the broker's process ended of it."""
    run = build(Settings.draw(0, store=True, files=False)).go()
    assert run.violation is None
    assert run.simulation.counts["automatic topics refused: NOT_CONTROLLER"] > 0


def test_a_copy_of_a_commit_that_comes_late_is_no_lack_of_progress() -> None:
    """It came after the end of all faults, of the same generation, and put the group back."""
    assert build(Settings.draw(3, **CLASSIC)).go().violation is None


PLAIN = {"static_members": False, "reconfigures": False}
MEMORY, STORE = {"files": False, **PLAIN}, {"store": True, **PLAIN}


@pytest.mark.parametrize(
    ("seed", "fixed"),
    [
        pytest.param(2053, MEMORY, id="a crash while a replica of the group's log is not back"),
        pytest.param(1255, MEMORY, id="a crash while another new process is not registered"),
        pytest.param(2900, MEMORY, id="sessions shorter than the log takes to commit"),
        pytest.param(73326, STORE, id="a log with newer generations that were not committed"),
        pytest.param(3271, MEMORY, id="a member that begins anew where a late commit put it"),
        pytest.param(2906, MEMORY, id="the second copy of an answered commit is lost"),
        pytest.param(72463, STORE, id="a generation handed out again after a failover"),
    ],
)
def test_what_the_configuration_permits_is_no_violation(seed: int, fixed: dict[str, Any]) -> None:
    """Each was reported once: the oracle, or what the faults may do, was wrong."""
    assert build(Settings.draw(seed, **fixed)).go().violation is None


def test_who_has_read_more_than_an_unclean_election_left_begins_anew() -> None:
    """Members waited for the log to grow back to where they were, which it never did."""
    settings = Settings.draw(5, **{**MEMORY, "unclean": True, "lossy": True})
    run = build(settings).go()
    assert run.violation is None
    assert run.simulation.counts["unclean elections"] > 0
    assert run.simulation.counts["readers reset to the start of the log"] > 0


def test_what_a_member_gave_up_with_a_missed_generation_is_somebodys_again() -> None:
    """Its leader left it out for a round, and nobody joined again."""
    assert build(Settings.draw(77737, **STORE)).go().violation is None


def test_a_late_answer_about_a_generation_before_is_no_assignment_in_this_one() -> None:
    """The member asked for its assignment in generation 3, and was told that of generation 2."""
    assert build(Settings.draw(90379, **STORE)).go().violation is None


def test_a_group_that_is_slow_and_goes_on_is_no_lack_of_progress() -> None:
    """A member that commits before it processes commits each record, and may be far behind."""
    slow: dict[str, Any] = {"commit_when": "before", "produce_ms": 3, "faults": (), "calm_ms": 600}
    run = build(Settings(files=False, consumers=1, partitions=1, fault_ms=1000, **slow)).go()
    assert run.violation is None
    assert run.now_ms > 1000 + 2 * 600


def test_a_group_that_stops_on_its_way_is_a_lack_of_progress(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    take = GroupPartition.took

    def stop(self: GroupPartition, at: int, commit: Commit) -> None:
        take(self, at, commit._replace(offset=min(commit.offset, 20)))

    monkeypatch.setattr(GroupPartition, "took", stop)
    settings = Settings(files=False, consumers=1, faults=(), fault_ms=1000, calm_ms=600)
    found = build(settings).go().violation
    assert found is not None
    assert (found.oracle, "has committed 20" in found.what) == ("Progress", True)


def test_a_session_that_heartbeats_do_not_renew_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members are given up for ever, though the log is fast."""
    heartbeat = ConsumerGroups.heartbeat

    def unheard(self: ConsumerGroups, now: int, token: int, request: Any) -> Outcome:
        outcome = heartbeat(self, now, token, request)
        session = TimerKey(SESSION, request.group_id, request.member_id)
        kept = {key: at for key, at in outcome.timers.items() if key != session}
        return evolve(outcome, timers=kept) if request.member_epoch else outcome

    monkeypatch.setattr(ConsumerGroups, "heartbeat", unheard)
    slow: dict[str, Any] = {"commit_when": "before", "produce_ms": 2, "faults": ()}
    settings = Settings(files=False, group_protocol="consumer", member_session_ms=150, **slow)
    found = build(settings).go().violation
    assert found is not None
    assert found.oracle == "Settles"


def test_a_commit_that_nobody_checks_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def unchecked(*_: object) -> None:
        """Accept every commit."""

    monkeypatch.setattr(ClassicGroup, "check_commit", unchecked)
    assert _first_broken(CLASSIC) == "CommitFenced"


def test_an_answer_before_the_commit_is_replicated_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Coordinator[Any]._answer  # pyright: ignore[reportPrivateUsage]

    def at_once(self: Coordinator[Any], now: int, answers: Any, *, waits: bool) -> None:
        answer(self, now, answers, waits=False)

    monkeypatch.setattr(Coordinator, "_answer", at_once)
    assert _first_broken(CLASSIC) == "CommittedSurvives"


@pytest.mark.parametrize(
    ("bug", "oracle", "fixed"),
    [
        ("commit_of_any_epoch", "CommitFenced", {"consumers": 3, "partitions": 3}),
        ("pending_partitions_are_free", "OneOwner", {"consumers": 3, "partitions": 3}),
        ("every_partition_is_free", "OneOwner", {}),
    ],
)
def test_a_bug_of_a_consumer_group_is_found(bug: str, oracle: str, fixed: dict[str, Any]) -> None:
    with applied(catalogue()[bug]):
        assert _first_broken({**CONSUMER, **fixed}) == oracle


def _first_broken(fixed: dict[str, Any]) -> str | None:
    found = first_failing_seed(range(SEEDS), **fixed)
    return None if found is None else found.oracle


# Members that name the topic in different ways

#: By protocol: bugs by which one of several names or expressions is lost
OVERLOOKED = {
    "of several expressions the last counts": (
        "consumer",
        "refimpl.groups.consumer:ConsumerGroups.match_topics",
        "sorted({one.regex for one in group.members.values() if one.regex})",
        "sorted({one.regex for one in group.members.values() if one.regex})[-1:]",
    ),
    "a second expression is not matched": (
        "consumer",
        "refimpl.groups.consumer:ConsumerGroups._must_match",
        "subscribed != set(group.regexes)",
        "not subscribed & set(group.regexes)",
    ),
    "names make an expression void": (
        "consumer",
        "refimpl.machines.consumer_group:ConsumerGroup.topic_names",
        "names | frozenset(resolved.topics)",
        "names or frozenset(resolved.topics)",
    ),
    "an expression matches the beginning": (
        "consumer",
        "refimpl.groups.consumer_topics:TopicView.matching",
        "pattern.fullmatch(name)",
        "pattern.fullmatch(name[:4])",
    ),
    "of several topics the first counts": (
        "classic",
        "refimpl.clients.assignors.protocol:Assignor.member",
        "found.topics",
        "found.topics[:1]",
    ),
}
SEVERAL: dict[str, Any] = {
    **CLASSIC,
    "several_subscriptions": True,
    "consumers": 3,
    "partitions": 3,
}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_share_a_topic_that_they_name_in_different_ways(protocol: str) -> None:
    fixed: dict[str, Any] = {**SEVERAL, "group_protocol": protocol}
    assert first_failing_seed(range(6), **fixed) is None


@pytest.mark.parametrize("bug", OVERLOOKED)
def test_a_name_that_is_overlooked_leaves_a_member_without_partitions(bug: str) -> None:
    protocol, path, old, new = OVERLOOKED[bug]
    fixed: dict[str, Any] = {**SEVERAL, "group_protocol": protocol}
    function = function_at(path)
    with patched({function: compiled(function, edited(tree_of(function), old, new))}):
        found = first_failing_seed(range(2), **fixed)
    assert found is not None
    assert "no partition" in str(found.what)
