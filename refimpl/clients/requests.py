"""A client's requests that wait for answers, and the nodes that they were sent to."""

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Any

from attrs import define, field, frozen

from refimpl.clients.backoff import Backoff

Then = Callable[[int, Any], None]


@frozen
class Pending:
    """A request that waits for its answer."""

    node: int
    sent_ms: int
    kind: str
    #: Takes its answer, or None if the connection ends before
    then: Then
    #: Where an answer may take longer than request.timeout.ms
    timeout_ms: int | None = None


@define(eq=False)
class Nodes:
    """Which node may have another request, and which requests have waited too long."""

    backoff: Backoff
    request_timeout_ms: int
    most_in_flight: int
    _pending: dict[int, Pending] = field(factory=dict[int, Pending], init=False)
    _in_flight: dict[int, int] = field(factory=dict[int, int], init=False)
    _failures: dict[int, int] = field(factory=dict[int, int], init=False)
    _not_before: dict[int, int] = field(factory=dict[int, int], init=False)
    _last_id: int = field(default=0, init=False)

    def in_flight(self, node: int) -> int:
        """The number of its requests that wait."""
        return self._in_flight.get(node, 0)

    def is_ready(self, node: int, now: int) -> bool:
        """True if it may have a request: no backoff, and not as many as there may be."""
        return self.in_flight(node) < self.most_in_flight and now >= self._not_before.get(node, 0)

    def ready_at(self, node: int) -> float:
        """When its backoff is over; never by time alone, if it has too many requests."""
        if self.in_flight(node) >= self.most_in_flight:
            return inf
        return self._not_before.get(node, 0)

    def any_ready_at(self, nodes: Iterable[int]) -> float:
        """When the first of several may have a request."""
        return min((self.ready_at(node) for node in nodes), default=inf)

    def least_loaded(self, nodes: Sequence[int], now: int) -> int | None:
        """The node with the fewest requests of those that may have one, None if there is none."""
        ready = [node for node in nodes if self.is_ready(node, now)]
        start = self._last_id % len(ready) if ready else 0
        ready = ready[start:] + ready[:start]
        return min(ready, key=lambda node: self.in_flight(node), default=None)

    def sent(
        self,
        now: int,
        node: int,
        kind: str,
        then: Then,
        *,
        expects_answer: bool = True,
        timeout_ms: int | None = None,
    ) -> int:
        """The correlation id of a request that is sent now."""
        self._last_id += 1
        if expects_answer:
            self._pending[self._last_id] = Pending(node, now, kind, then, timeout_ms)
            self._in_flight[node] = self.in_flight(node) + 1
        return self._last_id

    def answered(self, correlation_id: int) -> Pending | None:
        """The request of an answer, None if it was given up before."""
        pending = self._pending.pop(correlation_id, None)
        if pending is not None:
            self._in_flight[pending.node] -= 1
            self._failures.pop(pending.node, None)
            self._not_before.pop(pending.node, None)
        return pending

    def lost(self, node: int, now: int) -> list[Pending]:
        """The connection has ended: its requests, in the order in which they were sent."""
        ids = [number for number, one in self._pending.items() if one.node == node]
        failures = self._failures.get(node, 0)
        self._failures[node] = failures + 1
        self._not_before[node] = now + self.backoff.wait_ms(failures)
        self._in_flight[node] = 0
        return [self._pending.pop(number) for number in ids]

    def asks(self, kind: str) -> bool:
        """True if a request of this kind waits."""
        return any(one.kind == kind for one in self._pending.values())

    def timed_out(self, now: int) -> list[int]:
        """Nodes of which a request has waited for request.timeout.ms."""
        return sorted({one.node for one in self._pending.values() if now >= self._until(one)})

    def _until(self, one: Pending) -> int:
        patience = self.request_timeout_ms if one.timeout_ms is None else one.timeout_ms
        return one.sent_ms + patience

    def next_timeout_ms(self) -> float:
        """When the next request has waited too long."""
        return min(map(self._until, self._pending.values()), default=inf)
