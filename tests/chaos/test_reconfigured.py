"""Configurations change while the cluster is degraded: promises are those of the new values."""

from typing import Any

import pytest

from chaos.campaign import first_failing_seed
from chaos.faults.script import Fault, expand
from chaos.sim.settings import Settings
from chaos.simulator import build
from properties.mutants.edits import compiled, edited, function_at, patched, tree_of

MANAGER = "refimpl.broker.replica_manager:ReplicaManager"
ELR = {"elr": True, "unclean": False}
CONSUMER = {"group_protocol": "consumer"}
# What is wrong: in a function, `old` has become `new`; who sees it, from which seed on
BUGS: dict[str, tuple[str, str, str, str, int, dict[str, Any]]] = {
    "a higher minimum waits until the ISR is large enough": (
        f"{MANAGER}._require",
        "replica.min_isr = min(min_isr, most)",
        "replica.min_isr = min(min_isr, most, max(len(replica.isr), 1))",
        "EnoughInSync",
        0,
        {},
    ),
    "the minimum is that of the first configuration": (
        f"{MANAGER}._configure",
        "number(self.metadata, topic, MIN_ISR, self.min_isr.get(topic, 1))",
        "self.min_isr.get(topic, 1)",
        "EnoughInSync",
        0,
        {},
    ),
    "nothing is committed when fewer replicas are required": (
        f"{MANAGER}._commit_with_fewer",
        "partition.replica.leads",
        "False",
        "Progress",
        13,
        {},
    ),
    "eligible replicas stay eligible under another minimum": (
        "refimpl.controller.administration:Administration._configure",
        "before.get(MIN_ISR) != values.get(MIN_ISR)",
        "False",
        "ElrBelowMinIsr",
        1,
        ELR,
    ),
    "the controller keeps the first minimum": (
        "refimpl.controller.decisions:Decisions.configured",
        "self._configure(name, one)",
        "pass",
        "ElrBelowMinIsr",
        0,
        ELR,
    ),
    "a loaded group has every group's session": (
        "refimpl.groups.consumer:ConsumerGroups.loaded",
        "own or self.config.own(group_id, SESSION_TIMEOUT)",
        "own or self.config.consumer_session_timeout_ms",
        "LoadedIsLive",
        0,
        CONSUMER,
    ),
}


@pytest.mark.parametrize("what", BUGS)
def test_a_bug_that_only_a_change_shows_is_found(what: str) -> None:
    path, old, new, oracle, seed, fixed = BUGS[what]
    function = function_at(path)
    kept = {"files": False, "store": False, "reconfigures": True, **fixed}
    with patched({function: compiled(function, edited(tree_of(function), old, new))}):
        found = first_failing_seed(range(seed, seed + 12), **kept)
    assert found is not None
    assert found.oracle == oracle


@pytest.mark.parametrize("store", [False, True])
def test_configurations_change_and_every_promise_holds(store: bool) -> None:
    fixed = {
        "files": False,
        "store": store,
        "reconfigures": True,
        "transactions": False,
        "share_members": 0,
    }
    runs = [build(Settings.draw(seed, **fixed)).go() for seed in (1, 2, 13)]
    assert [run.violation for run in runs] == [None] * 3
    for key in ("min.insync.replicas", "consumer.session.timeout.ms"):
        assert sum(run.simulation.counts[f"configured: {key}"] for run in runs) > 5


def test_with_elr_the_minimum_is_never_raised() -> None:
    """Kafka may lose records then, and so may we: docs/findings/kafka-raised-min-isr.md."""
    for seed in range(40):
        script = expand(Settings.draw(seed, reconfigures=True, elr=True))
        assert {one.who for one in script if one.how == "min_isr"} <= {1}


def test_a_change_is_told_in_words() -> None:
    faults = [
        Fault(1, "configure", 2, 9, how="min_isr"),
        Fault(1, "configure", 1, 0, how="unclean"),
        Fault(1, "configure", 3, 0, how="session"),
        Fault(1, "configure", 2, 0, how="assignment"),
    ]
    assert [str(one) for one in faults] == [
        "set min.insync.replicas of the offsets topic to 2",
        "forbid unclean elections",
        "let sessions of the group last 3 times as long as at first",
        "let 100 ms lie between the group's assignments",
    ]


def test_lasting_faults_and_changes_are_not_for_one_run() -> None:
    with pytest.raises(ValueError, match="expected without reconfigures"):
        Settings(lasting=True, reconfigures=True).check()
