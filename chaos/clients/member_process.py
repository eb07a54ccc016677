"""The processes of a group's member, as oracles and the history see them."""

from collections.abc import Iterable
from typing import Any

from chaos.sim.addresses import FIRST_CLIENT, GROUP, TOPIC
from chaos.sim.simulation import Simulation
from refimpl.machines.log import Record


class MemberProcess:
    """Names of a member and of its processes, and what each of them observes and writes down."""

    __slots__ = ()
    id: int
    simulation: Simulation
    boot: int

    @property
    def member(self) -> int:
        """The member's number in the spec."""
        return self.id - FIRST_CLIENT + 1

    @property
    def process(self) -> str:
        """The name in the history."""
        return f"c{self.member - 1}#{self.boot}"

    def _identity(self) -> dict[str, Any]:
        """The group and member that appear in the history."""
        raise NotImplementedError

    def _say(self, observation: Any) -> None:
        self.simulation.observe(self.id, observation)

    def _note(self, op: str, **fields: Any) -> None:
        if self.simulation.history is not None:
            self.simulation.history.note(self.process, op, **fields, **self._identity())

    def _note_subscription(self) -> None:
        if self.simulation.history is not None:
            self.simulation.history.note(self.process, "subscribe", topics=[TOPIC], group=GROUP)

    def _names(self, partitions: Iterable[int]) -> list[str]:
        return [self._name(partition) for partition in partitions]

    def _name(self, partition: int) -> str:
        return f"{TOPIC}:{partition}"


def payload(record: Record) -> Any:
    """The value that a producer put into a record."""
    value: Any = record.value
    return value.payload


def described(partition: int, offset: int, record: Record) -> dict[str, Any]:
    """A record that a member was given, as the history has it."""
    return {
        "topic": TOPIC,
        "partition": partition,
        "offset": offset,
        "id": payload(record),
        "epoch": record.epoch,
    }


def identity(group: str, member: str, generation: int, instance: str | None) -> dict[str, Any]:
    """A member in a call of the history; a static one with its instance id (KIP-345)."""
    told: dict[str, Any] = {"group": group, "member": member, "generation": generation}
    return told if instance is None else {**told, "instance": instance}
