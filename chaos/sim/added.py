"""Partitions that are added to a topic during a run; its observers must know them."""

from collections.abc import Callable
from typing import Any

from attrs import define, field

from chaos.sim.addresses import TOPIC
from chaos.sim.simulation import Simulation
from refimpl.messages.broker import TopicPartition
from refimpl.messages.observations import BecameFollower, BecameLeader, Decided


@define(eq=False)
class AddedPartitions:
    """The topic's partitions; an added one is included from its first observation on.

    Nothing can happen in a partition before a broker leads or follows it, so an observer that is
    called then has missed nothing. This must be attached before all other observers.
    """

    names: list[TopicPartition]
    told: list[Callable[[TopicPartition], None]] = field(
        factory=list[Callable[[TopicPartition], None]]
    )

    def attach(self, simulation: Simulation) -> None:
        """Watch for decisions, leaders and followers."""
        for kind in (Decided, BecameLeader, BecameFollower):
            simulation.watch(kind, self._seen)

    def _seen(self, who: int, seen: Any) -> None:
        name: TopicPartition = seen.partition
        while name.topic == TOPIC and name.partition >= len(self.names):
            added = TopicPartition(TOPIC, len(self.names))
            self.names.append(added)
            for tell in self.told:
                tell(added)
