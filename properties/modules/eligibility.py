"""Eligibility: DurableIsr's machines, with replicas that come and go and log directories.

The controller here keeps no directories (KIP-858's are Kafka's), so the binding notes which copies
it would know of, and a broker is never astray.
"""

# Parameters are named as in the spec, where a leader is `l`.

from collections.abc import Mapping
from contextlib import suppress
from typing import ClassVar

from properties.conformance.binding import Bound, Environment, OtherAction
from properties.modules.descriptor import Module
from properties.modules.durable_isr import DurableIsr
from properties.tla import Value
from refimpl.errors import Refusal
from refimpl.machines.future_replica import FutureReplica
from refimpl.machines.log import Log, Record
from refimpl.machines.log_directories import LogDirectories, Memory
from refimpl.machines.replica import Replica

LOST = -1


class Eligibility(DurableIsr):
    """DurableIsr's brokers and controller, each broker with log directories and copies in them."""

    module = "Eligibility"
    knobs: ClassVar = {
        "Directories": False,
        "ElrInReplicas": True,
        "SomebodyStays": True,
        "DirectoryNoticed": True,
        "CopyReplaces": "never",
        "ElectAssigned": True,
    }

    def __init__(self, constants: Mapping[str, Value]) -> None:
        fixed = {"Elr": True, "DetectCrash": True, "FlushEach": False}
        super().__init__({**constants, **fixed})
        self.kinds: frozenset[str] = constants["Changes"]
        self.max_changes: int = constants["MaxChanges"]
        self.changes = 0
        self.futures: dict[int, Log] = {}
        self.assigned: frozenset[int] = frozenset()
        self._give_directories(self.crashed)

    def _give_directories(self, crashed: frozenset[int]) -> None:
        """One to each broker, and its memory of the last process."""
        self.taken_out = dict.fromkeys(self.ids, 0)
        self.memories = {r: self._memory(r, LOST if r in crashed else 0) for r in self.ids}

    def _memory(self, r: int, epoch: int) -> Memory:
        return Memory(epoch, self._here(r))

    def _here(self, r: int) -> frozenset[str]:
        return frozenset({f"directory {self.taken_out[r]} of {r}"})

    @property
    def lost(self) -> frozenset[int]:
        """The brokers that are down, and whose next process may not say that it lost nothing."""
        down = frozenset(self.ids) - self.state.brokers.alive
        return frozenset(r for r in down if self._directories(r).survived == LOST)

    def _directories(self, r: int) -> LogDirectories:
        return LogDirectories.of(self._here(r), (self.memories[r],))

    def _tell(self, brokers: tuple[int, ...]) -> None:
        super()._tell(tuple(r for r in brokers if r in self.state.replicas))

    # Replicas that come and go

    def _change(self, kind: str) -> None:
        if kind not in self.kinds or self.changes >= self.max_changes:
            raise Bound

    def _delete(self, r: int) -> None:
        known = self.replicas[r - 1]
        fresh = Replica(r, min_isr=self.min_isr, incarnation=known.incarnation)
        self.replicas = tuple([fresh if one is known else one for one in self.replicas])
        self._stop_moving(r)

    def _stop_moving(self, r: int) -> None:
        self.futures.pop(r, None)
        self.assigned -= {r}

    def reassign(self, target: frozenset[int]) -> None:
        self._change("replicas")
        leader = self.state.leader
        if target == self.state.replicas or (leader is not None and leader not in target):
            raise OtherAction
        self.state.reassign(target, None)
        self.changes += 1
        for r in self.state.brokers.alive - target:
            self._delete(r)
        self._tell(self.ids)

    # Directories

    def take_out(self, r: int, by_hand: bool) -> None:
        self._change("by hand" if by_hand else "log.dirs")
        if r not in self.state.replicas or r in self.state.brokers.alive:
            raise Environment
        self.changes += 1
        self.taken_out[r] += 1
        if by_hand:
            self._stop_moving(r)
        else:
            self._delete(r)

    def alter_directory(self, r: int) -> None:
        self._change("directory")
        if r not in self.state.replicas & self.state.brokers.alive or r in self.futures:
            raise OtherAction
        self.changes += 1
        self.futures[r] = Log()

    def _moving(self, r: int) -> FutureReplica:
        if r not in self.futures or r not in self.state.brokers.alive:
            raise OtherAction
        return FutureReplica(self.replicas[r - 1], self.futures[r])

    def copy_on(self, r: int) -> None:
        future = self._moving(r)
        if future.has_caught_up:
            raise OtherAction
        future.follow(1)

    def assign_copy(self, r: int) -> None:
        if r in self.assigned or not self._moving(r).has_caught_up:
            raise OtherAction
        self.assigned |= {r}

    def replace_current(self, r: int) -> None:
        future = self._moving(r)
        if r not in self.assigned:
            raise OtherAction
        future.complete()
        self.replicas[r - 1].log = future.log
        self._stop_moving(r)

    def assign_found(self, r: int) -> None:
        raise Environment

    # The environment

    def _gone(self, r: int, kept: int) -> None:
        alive = r in self.state.brokers.alive
        super()._gone(r, kept)
        if alive:
            self.memories[r] = self._memory(r, 0)

    def crash(self, r: int, kept: int) -> None:
        super().crash(r, kept)
        self.memories[r] = self._memory(r, LOST)

    def restart(self, r: int) -> None:
        self.crashed = self.lost
        super().restart(r)
        self.memories[r] = self._memory(r, 0)
        self.assigned -= {r}
        if r not in self.state.replicas:
            self._delete(r)

    def load(self, state: Mapping[str, Value]) -> None:
        super().load(state)
        self.state.replicas = state["replicas"]
        self._give_directories(state["crashed"])
        self.assigned, self.changes = state["assigned"], state["changes"]
        copies = enumerate(state["future"], start=1)
        self.futures = {r: _log(records) for r, records in copies if r in state["moving"]}
        for r in frozenset(self.ids) - state["replicas"]:
            self._without_role(r)

    def _without_role(self, r: int) -> None:
        with suppress(Refusal):
            self.replicas[r - 1].fail()


def _log(records: tuple[int, ...]) -> Log:
    return Log([Record(number, number) for number in records])


def _future(c: Eligibility, r: int) -> tuple[object, ...]:
    if r not in c.futures:
        return ()
    return tuple([record.value for record in c.futures[r].records])


Eligibility.projection = {
    **DurableIsr.projection,
    "crashed": lambda c: c.lost,
    "replicas": lambda c: c.state.replicas,
    "future": lambda c: tuple([_future(c, r) for r in c.ids]),
    "moving": lambda c: frozenset(c.futures),
    "assigned": lambda c: c.assigned,
    "astray": lambda c: frozenset[int](),
    "looked": lambda c: True,
    "changes": lambda c: c.changes,
}

MODULE = Module(
    binding=Eligibility,
    machines=("controller", "log_directories", "future_replica"),
)
