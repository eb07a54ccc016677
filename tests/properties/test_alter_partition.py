"""The leader's requests and the controller's answers are AlterPartition, in two scopes.

Known bugs are put in by hand: each is one that Kafka had, or has.
"""

from random import Random

import pytest

from properties.conformance.binding import check_names
from properties.conformance.discrepancy import Discrepancy
from properties.conformance.exhaustive import exhaustive
from properties.conformance.machines import Machines
from properties.conformance.scope import Scope
from properties.conformance.walks import Run, stroll
from properties.modules.alter_partition import AlterPartition
from properties.mutants.catalogue import Edit, Mutant, applied

pytestmark = pytest.mark.java

SCOPES = ["ok_2_fence_raises", "ok_2_records"]
CHECK = "controller:PartitionState.check"

#: (what is wrong, where, what becomes what)
BUGS = [
    ("KIP-497", "replica:Replica.maximal_isr", "self.isr | self.pending.isr", "self.isr"),
    ("KAFKA-12686", "replica:Replica.take_isr_answer", "request != self.pending", "False"),
    (
        "a copy after a refusal",
        "controller:PartitionState.alter_partition",
        "self.partition_epoch += 1",
        "pass",
    ),
    (
        "news of the same partition epoch",
        "replica:Replica.adopt_isr",
        "decision.partition_epoch <= self.partition_epoch",
        "decision.partition_epoch < self.partition_epoch",
    ),
    (
        "KIP-841",
        "controller:PartitionState._must_be_eligible",
        "broker not in self.brokers.active",
        "False",
    ),
    (
        "KIP-903",
        "controller:PartitionState._must_be_eligible",
        "epoch not in (here, UNKNOWN_EPOCH)",
        "False",
    ),
    ("unconditional", CHECK, "request.partition_epoch < self.partition_epoch", "False"),
    ("KIP-497", "replica:Replica._must_be_settled", "self.pending is not None", "False"),
    ("KAFKA-7128", "replica:Replica.isr_with", "end < self.epoch_start", "False"),
    ("a deposed leader", CHECK, "request.leader_epoch < self.leader_epoch", "False"),
    (
        "two incarnations",
        "brokers:BrokerRegistry.register",
        "self.epochs[broker] = incarnation",
        "pass",
    ),
]


def found(cfg: str) -> Discrepancy | None:
    machines = Machines(Scope.of(AlterPartition, cfg), "exhaustive")
    return next(filter(None, exhaustive(machines)), None)


def test_names_are_those_of_the_spec() -> None:
    check_names(AlterPartition)


@pytest.mark.parametrize("cfg", SCOPES)
def test_every_step_from_every_state_is_as_in_the_spec(cfg: str) -> None:
    machines = Machines(Scope.of(AlterPartition, cfg), "exhaustive")
    differs = next(filter(None, exhaustive(machines)), None)
    assert differs is None, differs.story()
    assert machines.reached.total() == machines.scope.graph.edge_count


@pytest.mark.parametrize("cfg", SCOPES)
def test_random_walks_stay_on_the_graph(cfg: str) -> None:
    run = Run(Machines(Scope.of(AlterPartition, cfg), "walk"))
    differs = next(filter(None, stroll(run, Random(7), 4_000)), None)
    assert differs is None, differs.story()
    assert len(run.taken) > 300


@pytest.mark.parametrize(("why", "place", "old", "new"), BUGS)
def test_a_known_bug_is_found(why: str, place: str, old: str, new: str) -> None:
    edit = Edit(f"refimpl.machines.{place}", old, new)
    mutant = Mutant("by hand", why, (edit,), ("AlterPartition",))
    with applied(mutant):
        assert found("ok_2_fence_raises") or found("ok_2_records")
