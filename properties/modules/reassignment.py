"""Reassignment: an assignment that moves, and the state of its partition at the controller.

The machines here do not cover a broker's log. As in the spec, the binding keeps the set of replicas
with every committed record, and assumes the spec's replication.
"""

from collections.abc import Mapping
from typing import ClassVar

from properties.conformance.binding import Binding, Environment, OtherAction, of
from properties.modules.descriptor import Module
from properties.tla import Value
from refimpl.machines.assignment import Assignment
from refimpl.machines.brokers import BrokerRegistry
from refimpl.machines.controller import PartitionState
from refimpl.machines.messages import AlterPartitionRequest
from refimpl.projection import REASSIGNMENT_PARTITION


class Reassignment(Binding):
    """Brokers 1..N, and one partition that moves between them."""

    module = "Reassignment"
    knobs: ClassVar = {
        "AddingInSync": True,
        "TargetInSync": True,
        "SomebodyStays": True,
        "SuccessorInSync": True,
        "IsrInReplicas": True,
        "DeleteLast": True,
        "TurnsWholly": True,
    }

    def __init__(self, constants: Mapping[str, Value]) -> None:
        self.ids = tuple(range(1, constants["N"] + 1))
        first = tuple(range(1, constants["Factor"] + 1))
        epochs = dict.fromkeys(self.ids, 0)
        registry = BrokerRegistry(epochs, frozenset(self.ids))
        self.state = PartitionState.create(first, registry)
        self.assignment = Assignment(first)
        self.complete = frozenset(first)

    # Replication

    def _led(self) -> int:
        if self.state.leader is None:
            raise OtherAction
        return self.state.leader

    def commit(self) -> None:
        self._led()
        if self.complete == self.state.isr:
            raise OtherAction  # unknown
        self.complete = self.state.isr

    def catch_up(self, f: int) -> None:
        fetches = f in self.state.replicas & self.state.brokers.alive
        if self._led() not in self.complete or not fetches or f in self.complete:
            raise Environment
        self.complete |= {f}

    def _alter(self, isr: frozenset[int]) -> None:
        epochs = self.state.brokers.epochs
        leader = self._led()
        request = AlterPartitionRequest(
            leader,
            epochs[leader],
            self.state.leader_epoch,
            self.state.partition_epoch,
            tuple([(member, epochs[member]) for member in sorted(isr)]),
        )
        self.state.check(request)
        self.state.alter_partition(request)

    def expand_isr(self, f: int) -> None:
        self._led()
        if f in self.state.isr:
            raise OtherAction
        if f not in self.complete:
            raise Environment
        self._alter(self.state.isr | {f})

    def shrink_isr(self, f: int) -> None:
        if f not in self.state.isr:
            raise OtherAction
        self._alter(self.state.isr - {f})

    def delete(self, b: int) -> None:
        if b in self.state.replicas or b not in self.complete:
            raise Environment
        self.complete -= {b}

    # Brokers come and go

    def fence(self, b: int) -> None:
        self.state.brokers.fence(b)
        self.state.remove(b)

    def unfence(self, b: int) -> None:
        self.state.brokers.unfence(b)

    def elect(self, b: int) -> None:
        self.state.elect(b)

    # Moves

    def move(self, target: frozenset[int]) -> None:
        if target == frozenset(self.assignment.target):
            raise OtherAction
        moved = self.assignment.moved_to(sorted(target))
        self.state.reassign(frozenset(moved.replicas), None)
        self.assignment = moved

    def _become(self, assignment: Assignment, r: int) -> None:
        """r becomes leader; a leader that stays becomes leader again."""
        replicas = frozenset(assignment.replicas)
        if self.state.leader in replicas and r != self.state.leader:
            raise OtherAction
        self.state.reassign(replicas, r or None)
        self.assignment = assignment

    def finish(self, r: int) -> None:
        over = self.assignment.completed(self.state.isr)
        if over is None:
            raise OtherAction
        self._become(over, r)

    def cancel(self, r: int) -> None:
        if not self.assignment.in_progress:
            raise OtherAction
        self._become(self.assignment.cancelled(), r)

    def load(self, state: Mapping[str, Value]) -> None:
        coming, going = state["adding"], state["removing"]
        self.assignment = Assignment(
            (*sorted(state["replicas"] - going), *sorted(going)),
            tuple(sorted(coming)),
            tuple(sorted(going)),
        )
        self.state = PartitionState(
            leader_epoch=1,
            leader=state["leader"] or None,
            isr=state["isr"],
            replicas=state["replicas"],
            brokers=BrokerRegistry(dict.fromkeys(self.ids, 0), state["alive"]),
            partition_epoch=1,
        )
        self.complete = state["complete"]


Reassignment.projection = {
    **of(REASSIGNMENT_PARTITION, lambda c: c.state),
    "adding": lambda c: frozenset(c.assignment.adding),
    "removing": lambda c: frozenset(c.assignment.removing),
    "complete": lambda c: c.complete,
}

MODULE = Module(binding=Reassignment, machines=("assignment", "controller"))
