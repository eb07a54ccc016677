"""The context of every node of a run: settings, time, the network, and observers."""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, TypeAlias

from attrs import define, field

from chaos.sim.history import History
from chaos.sim.network import Network, Timeline
from chaos.sim.settings import Settings
from refimpl.messages.broker import Request

Watcher: TypeAlias = Callable[[int, Any], None]
"""Called with the observer and the observation."""


@define(eq=False)
class Simulation:
    """One run's surroundings. The history exists only on request.

    Watchers of an observation are called in the order in which they were added.
    """

    settings: Settings
    rng: Random
    timeline: Timeline
    network: Network
    counts: Counter[str]
    history: History | None = None
    watchers: dict[type, list[Watcher]] = field(factory=dict[type, list[Watcher]])
    #: By client: the newest of its requests that have to arrive in order
    _newest: dict[int, int] = field(factory=dict[int, int])

    def is_overtaken(self, request: Request) -> bool:
        """True if a request that must arrive in order comes late, or again.

        A heartbeat of KIP-848 that joins states that its sender owns nothing. The protocol assumes
        that a connection delivers in order, or breaks (`ConsumerGroup/bug_late_join`).
        """
        if request.correlation_id <= self._newest.get(request.source, 0):
            self.counts["heartbeats overtaken"] += 1
            return True
        self._newest[request.source] = request.correlation_id
        return False

    def watch(self, kind: type, watcher: Watcher) -> None:
        """Call a watcher with every observation of this kind."""
        self.watchers.setdefault(kind, []).append(watcher)

    def observe(self, who: int, observation: Any) -> None:
        """Call every watcher."""
        kind = observation.__class__
        for watcher in self.watchers.get(kind, ()):
            watcher(who, observation)
