"""What every node of a run can reach: settings, time, the network, and who watches."""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, TypeAlias

from attrs import define, field

from chaos.clients.history import History
from chaos.settings import Settings
from chaos.sim.network import Network, Timeline

Watcher: TypeAlias = Callable[[int, Any], None]
"""Told who made an observation, and the observation."""


@define(eq=False)
class Simulation:
    """One run's surroundings. The history is there only when somebody asked for it.

    Watchers of an observation are told in the order in which they were added.
    """

    settings: Settings
    rng: Random
    timeline: Timeline
    network: Network
    counts: Counter[str]
    history: History | None = None
    watchers: dict[type, list[Watcher]] = field(factory=dict[type, list[Watcher]])

    def watch(self, kind: type, watcher: Watcher) -> None:
        """Have a watcher told of every observation of this kind."""
        self.watchers.setdefault(kind, []).append(watcher)

    def observe(self, who: int, observation: Any) -> None:
        """Tell everybody who watches."""
        kind = observation.__class__
        for watcher in self.watchers.get(kind, ()):
            watcher(who, observation)
