"""The coordinator of a group or a transactional id: found, asked, and found again when it moves."""

from math import inf
from typing import Any

from attrs import define, field

from refimpl.clients.errors import COORDINATOR_BUSY, COORDINATOR_MOVED, RETRIABLE
from refimpl.clients.network import NetworkClient, coordinator_at
from refimpl.clients.requests import Then
from refimpl.messages.group import GROUP, FindCoordinatorRequest, FindCoordinatorResponse


@define(eq=False)
class Coordinator:
    """The broker that the requests of one key go to."""

    key: str
    network: NetworkClient
    kind: int = GROUP
    #: Its connection is given up with it, as Kafka's consumer does, and its producer does not
    gives_up: bool = True
    target: int | None = None
    #: Why there can be none, such as GROUP_AUTHORIZATION_FAILED
    error: str | None = None
    #: Lookups that have failed, and the error of the last one
    failed: int = field(default=0, init=False)
    failure: str = field(default="", init=False)
    #: An answer may still come
    finding: bool = field(default=False, init=False)
    _not_before: int = field(default=0, init=False)
    _failures: int = field(default=0, init=False)

    def is_ready(self, now: int) -> bool:
        """True if it may be asked now."""
        return self.target is not None and self.network.nodes.is_ready(self.target, now)

    def ask(self, now: int, body: Any, then: Then, *, timeout_ms: int | None = None) -> None:
        """Send it a request; whoever calls has seen that it is ready."""
        assert self.target is not None
        self.network.ask(now, self.target, body, then, timeout_ms=timeout_ms)

    def find(self, now: int) -> None:
        """Look it up, unless it is known, or an answer may still come."""
        if self.target is not None or self.finding or now < self._not_before:
            return
        node = self.network.anybody(now)
        if node is not None:
            self.finding = True
            body = FindCoordinatorRequest(self.kind, (self.key,))
            self.network.ask(now, node, body, self._found)

    def _found(self, now: int, answer: FindCoordinatorResponse | None) -> None:
        self.finding = False
        found = None if answer is None else answer.coordinators[0]
        if found is not None and found.error is None:
            self.target = coordinator_at(found.node_id)
            self._failures, self.error = 0, None
            return
        self.failed += 1
        self.failure = "NETWORK_EXCEPTION" if found is None else found.error or ""
        if self.failure not in RETRIABLE:
            self.error = self.failure
        self._wait(now)

    def _wait(self, now: int) -> None:
        self._not_before = now + self.network.backoff.wait_ms(self._failures)
        self._failures += 1

    def unknown(self, now: int) -> None:
        """It is another broker now, or does not answer: no answer of it is waited for."""
        node, self.target = self.target, None
        if node is None:
            return
        self._wait(now)
        if self.gives_up and self.network.nodes.in_flight(node):
            self.network.given_up.append(node)

    def is_trouble(self, now: int, error: str | None) -> bool:
        """True if an error, or an answer that did not come, is about the coordinator itself.

        Then the same request may be sent again later, to it or to another one.
        """
        if error is None or error in COORDINATOR_MOVED:
            self.unknown(now)
            return True
        return error in COORDINATOR_BUSY

    def due(self, now: int) -> float:
        """When it must be looked up."""
        if self.target is not None:
            return self.network.nodes.ready_at(self.target)
        return inf if self.finding else max(self._not_before, self.network.anybody_at(now))
