"""The stage of a run: its cluster, clients and administrator, and who may break what just now."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from threading import Condition, Event, Lock
from typing import Any

from attrs import define, field

from chaos.real.campaign.plan import BROKERS, Plan, Step, TopicPlan
from chaos.real.campaign.target import Target
from chaos.real.kafka.asking import Replicas, partitions
from chaos.real.transacting.clients import PARTITIONS, SINK

INTERNAL = ("__consumer_offsets", "__transaction_state")
ASKED_S = 1.0
"""For the answer of one broker, which may be paused."""
POLL_S = 0.1


@define(eq=False)
class Beside:
    """Faults beside each other, or one alone; who wants to be alone waits for the others."""

    _beside: int = 0
    _waiting: int = 0
    _alone: bool = False
    _changed: Condition = field(factory=Condition)

    @contextmanager
    def others(self) -> Generator[None]:
        """Beside other faults."""
        with self._changed:
            self._changed.wait_for(lambda: not self._alone and not self._waiting)
            self._beside += 1
        try:
            yield
        finally:
            with self._changed:
                self._beside -= 1
                self._changed.notify_all()

    @contextmanager
    def nobody(self) -> Generator[None]:
        """Alone."""
        with self._changed:
            self._waiting += 1
            self._changed.wait_for(lambda: not self._alone and not self._beside)
            self._waiting -= 1
            self._alone = True
        try:
            yield
        finally:
            with self._changed:
                self._alone = False
                self._changed.notify_all()


@define(eq=False)
class Stage:
    """A run while it is played."""

    plan: Plan
    target: Target
    #: An administrator's client, recorded
    admin: Any = None
    #: Another one for the topic that is made again. Of a row about it nobody may know which life
    #: it is of, where a broker was paused when its id was asked; then no promise is judged at all.
    unrecorded: Any = None
    #: The run's clients; `RunClients` but in tests
    clients: Any = None
    #: Set when the run is interrupted: nobody waits any more
    over: Event = field(factory=Event)
    beside: Beside = field(factory=Beside)
    _nodes: dict[int, Any] = field(factory=dict[int, Any])
    _making: Any = field(factory=Lock)

    @contextmanager
    def node(self, number: int) -> Generator[None]:
        """The process of a node, which one fault at a time stops and starts."""
        with self._making:
            lock = self._nodes.setdefault(number, Lock())
        with lock:
            yield

    def wait(self, for_ms: float) -> None:
        """Wait so long, or until the run is interrupted."""
        self.over.wait(for_ms / 1000)

    def until(self, seconds: float, condition: Callable[[], bool]) -> bool:
        """Wait for a condition; False if it is not met in time, or the run is interrupted."""
        ends = time.monotonic() + seconds
        while not (met := condition()) and time.monotonic() < ends and not self.over.is_set():
            self.over.wait(POLL_S)
        return met

    def replicas(self, topic: str) -> dict[int, Replicas]:
        """A topic's partitions, as the first broker that answers knows them."""
        for node in BROKERS:
            with suppress(OSError):
                if self.target.running(node) and (found := self._known(node, topic)):
                    return found
        return {}

    def victim(self, step: Step) -> int:
        """The broker that a fault is for: that one, or who leads; any one if nobody does."""
        if step.who:
            return step.who
        found = self.replicas(step.topic).get(step.partition)
        return found.leader if found is not None and found.leader in BROKERS else step.value

    @property
    def topics(self) -> dict[str, TopicPlan]:
        """The topics that the run makes."""
        if not self.plan.clients.transactional:
            return {**self.plan.topics}
        return {**self.plan.topics, SINK: TopicPlan(PARTITIONS, 3, {"min.insync.replicas": "2"})}

    def whole(self) -> bool:
        """True if all brokers are up, and know of leaders and full ISRs everywhere."""
        return not self.lacking()

    def lacking(self) -> str:
        """The first thing that is not as it must be; empty if all is."""
        for node in BROKERS:
            if not self.target.running(node):
                return f"broker {node} is down"
            try:
                if lacking := self._lacking_on(node):
                    return f"broker {node} knows of {lacking}"
            except OSError as silent:
                return f"broker {node} does not answer: {silent}"
        return ""

    def _lacking_on(self, node: int) -> str:
        """The same as this broker knows it. Raises OSError if it does not answer."""
        for topic in (*self.topics, *INTERNAL):
            known = self._known(node, topic)
            if not known and topic in self.topics:
                return f"no {topic}"
            for number, one in known.items():
                if one.leader not in BROKERS or {*one.isr} != {*one.replicas}:
                    return f"{topic}:{number}: leader {one.leader}, ISR {sorted(one.isr)}"
        return ""

    def _known(self, node: int, topic: str) -> dict[int, Replicas]:
        return partitions(self.target.ports[node], topic, ASKED_S)
