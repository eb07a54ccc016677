"""Registration: the registry of brokers, their processes' messages, and one partition.

A message of any process may arrive, even after its successor has started. The binding removes a
stopped broker from the partition, and elects a possible leader in a step of its own.
"""

from collections.abc import Mapping
from typing import ClassVar

from properties.conformance.binding import Binding, Bound, Environment, OtherAction, of
from properties.modules.descriptor import Module
from properties.tla import Value
from refimpl.machines.brokers import BrokerRegistry
from refimpl.machines.controller import PartitionState
from refimpl.machines.messages import AlterPartitionRequest
from refimpl.projection import REGISTRATION_PARTITION, REGISTRATION_REGISTRY, by_replica


class Registration(Binding):
    """Brokers 1..N, whose processes are numbered, and the controller."""

    module = "Registration"
    knobs: ClassVar = {
        "CheckEpoch": True,
        "NewestRegisters": True,
        "AwaitSession": True,
        "FenceNew": True,
        "FinalLeave": True,
        "LeaveBeforeStop": True,
        "LastStays": True,
    }

    def __init__(self, constants: Mapping[str, Value]) -> None:
        self.ids = tuple(range(1, constants["N"] + 1))
        self.max_epoch: int = constants["MaxEpoch"]
        self.started = [1 for _ in self.ids]
        self.state = self._partition(dict.fromkeys(self.ids, 1), frozenset(self.ids), frozenset())
        self.stopped: frozenset[tuple[int, int]] = frozenset()
        self.elected = 1
        self.heard = [1 for _ in self.ids]

    def _partition(
        self, epochs: dict[int, int], alive: frozenset[int], leaving: frozenset[int]
    ) -> PartitionState:
        heard = dict.fromkeys(self.ids, 0)
        return PartitionState.create(self.ids, BrokerRegistry(epochs, alive, leaving, heard))

    @property
    def registry(self) -> BrokerRegistry:
        return self.state.brokers

    # Brokers

    def start(self, b: int) -> None:
        if self.started[b - 1] >= self.max_epoch:
            raise Bound
        self.started[b - 1] += 1

    def _runs(self, b: int, e: int) -> None:
        if e > self.started[b - 1] or (b, e) in self.stopped:
            raise Environment

    def register(self, b: int, e: int) -> None:
        self._runs(b, e)
        if e == self.registry.epochs[b]:
            raise OtherAction  # again, with the same answer
        self.registry.register(b, e)

    def heartbeat(self, b: int, e: int) -> None:
        if e > self.started[b - 1]:
            raise Environment
        self.registry.heartbeat(b, e, 0)
        self.registry.unfence(b)
        self.heard[b - 1] = e

    def shut_down(self, b: int, e: int) -> None:
        self._runs(b, e)
        if b in self.registry.leaving:
            raise OtherAction  # it has asked already
        self.registry.shut_down(b, e)
        self._without(b)

    def let_go(self, b: int, e: int) -> None:
        self._runs(b, e)
        self.registry.check(b, e)
        if b not in self.registry.leaving:
            raise OtherAction
        if b in self.registry.alive:
            self.registry.fence(b)
        self.stopped |= {(b, e)}

    # The controller

    def _without(self, b: int) -> None:
        self.state.remove(b)
        if self.state.leader is None:
            self.elected = 0

    def expire(self, b: int) -> None:
        self.registry.fence(b)
        self._without(b)

    def elect(self, b: int) -> None:
        self.state.elect(b)
        self.elected = self.registry.epochs[b]

    def join(self, b: int) -> None:
        leader = self.state.leader
        if leader is None or b in self.state.isr:
            raise OtherAction
        members = sorted(self.state.isr | {b})
        epochs = self.registry.epochs
        request = AlterPartitionRequest(
            leader,
            epochs[leader],
            self.state.leader_epoch,
            self.state.partition_epoch,
            tuple([(member, epochs[member]) for member in members]),
        )
        self.state.check(request)
        self.state.alter_partition(request)

    def load(self, state: Mapping[str, Value]) -> None:
        epochs = dict(zip(self.ids, state["registered"], strict=True))
        self.state = self._partition(epochs, state["alive"], state["leaving"])
        self.state.leader, self.state.isr = state["leader"] or None, state["isr"]
        self.started, self.heard = list(state["started"]), list(state["heard"])
        self.stopped, self.elected = state["stopped"], state["elected"]


Registration.projection = {
    **of(REGISTRATION_REGISTRY, lambda c: c.registry),
    **of(REGISTRATION_PARTITION, lambda c: c.state),
    "registered": lambda c: by_replica(c.registry.epochs, c.ids),
    "started": lambda c: tuple(c.started),
    "stopped": lambda c: c.stopped,
    "elected": lambda c: c.elected,
    "heard": lambda c: tuple(c.heard),
}

MODULE = Module(binding=Registration, machines=("brokers", "controller"))
