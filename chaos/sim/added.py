"""Partitions that a topic is given while a run goes on: whoever watches it has to know them."""

from collections.abc import Callable
from typing import Any

from attrs import define, field

from chaos.sim.addresses import TOPIC
from chaos.sim.simulation import Simulation
from refimpl.messages.broker import TopicPartition
from refimpl.messages.observations import BecameFollower, BecameLeader, Decided


@define(eq=False)
class AddedPartitions:
    """The partitions of the topic, to which those are added of which something is observed.

    Before a broker leads or follows nothing can happen in a partition; so whoever is told then
    has missed nothing. To be attached before all others.
    """

    names: list[TopicPartition]
    told: list[Callable[[TopicPartition], None]] = field(
        factory=list[Callable[[TopicPartition], None]]
    )

    def attach(self, simulation: Simulation) -> None:
        """Look at who decides, leads or follows."""
        for kind in (Decided, BecameLeader, BecameFollower):
            simulation.watch(kind, self._seen)

    def _seen(self, who: int, seen: Any) -> None:
        name: TopicPartition = seen.partition
        while name.topic == TOPIC and name.partition >= len(self.names):
            added = TopicPartition(TOPIC, len(self.names))
            self.names.append(added)
            for tell in self.told:
                tell(added)
