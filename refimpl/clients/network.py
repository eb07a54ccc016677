"""A client's questions to brokers, each with the function that takes its answer; and its metadata.

`then(now, answer)` is called once for each question, with None if the connection ended before.
"""

from typing import Any

from attrs import define, field

from refimpl.clients.backoff import Backoff
from refimpl.clients.metadata import ClientMetadata
from refimpl.clients.requests import Nodes, Then
from refimpl.messages.broker import MetadataRequest, MetadataResponse, Request, Response

COORDINATOR = 2**31 - 1


def coordinator_at(node: int) -> int:
    """The target of a node as a coordinator: another connection, as in Kafka's client.

    A JoinGroup that waits for other members then holds up no fetch.
    """
    return COORDINATOR - node


def node_of(target: int) -> int:
    """The node that a target of a request is."""
    return target if target < COORDINATOR // 2 else COORDINATOR - target


@define(eq=False)
class NetworkClient:
    """The requests of one client that wait, and the metadata by which it finds nodes."""

    id: int
    nodes: Nodes
    metadata: ClientMetadata
    backoff: Backoff
    creates_topics: bool
    rebootstraps: bool
    rebootstrap_trigger_ms: int
    #: All topics are asked for, because a pattern selects among them
    all_topics: bool = False
    #: Requests, and what a client puts among them
    outputs: list[Any] = field(factory=list[Any], init=False)
    #: Nodes of which no answer is waited for any more
    given_up: list[int] = field(factory=list[int], init=False)
    #: Nodes whose connection is to be given up
    gone: list[int] = field(factory=list[int], init=False)
    _not_before: int = field(default=0, init=False)
    _attempts: int = field(default=0, init=False)
    _without_broker_since: int | None = field(default=None, init=False)

    def ask(
        self,
        now: int,
        node: int,
        body: Any,
        then: Then,
        *,
        expects_answer: bool = True,
        timeout_ms: int | None = None,
    ) -> None:
        """Send a request to a node."""
        number = self.nodes.sent(
            *(now, node, type(body).__name__, then),
            expects_answer=expects_answer,
            timeout_ms=timeout_ms,
        )
        self.outputs.append(Request(self.id, node, number, body))

    def is_asking(self, request: type) -> bool:
        """True if a request of this type waits for its answer."""
        return self.nodes.asks(request.__name__)

    def anybody(self, now: int) -> int | None:
        """A node that may have a request, None if there is none."""
        return self.nodes.least_loaded(self.metadata.nodes, now)

    def anybody_at(self, now: int) -> float:
        """When there is a node that may have a request, later than now."""
        return max(now + 1, self.nodes.any_ready_at(self.metadata.nodes))

    def answered(self, now: int, response: Response) -> None:
        """An answer has come."""
        pending = self.nodes.answered(response.correlation_id)
        self._without_broker_since = None
        if pending is not None:
            pending.then(now, response.body)

    def lost(self, now: int, node: int) -> None:
        """A connection has ended: nothing that was asked there is answered."""
        self.metadata.wanted = True
        if self._without_broker_since is None:
            self._without_broker_since = now
        for pending in self.nodes.lost(node, now):
            pending.then(now, None)

    def run(self, now: int) -> None:
        """Give up what waits too long, and ask for metadata where it is old."""
        self.time_out(now)
        self.ask_for_metadata(now)

    def time_out(self, now: int) -> None:
        """A request that waits too long costs the connection, and whatever else waits there."""
        nodes = {*self.nodes.timed_out(now), *self.given_up}
        self.given_up.clear()
        for node in sorted(nodes):
            self.gone.append(node)
            self.lost(now, node)

    def due(self, now: int) -> float:
        """When there is something to do next, without another input."""
        due = self.nodes.next_timeout_ms()
        if self.is_asking(MetadataRequest) or not self._is_needed:
            return due
        begin = max(self.metadata.due_ms(), self._not_before)
        return min(due, max(begin, self.anybody_at(now)))

    @property
    def _is_needed(self) -> bool:
        """True if there is a topic to ask about, or another node must be found first."""
        return bool(self.metadata.topics) or self.all_topics or self.metadata.updated_ms is None

    def ask_for_metadata(self, now: int) -> None:
        """Ask one node about all topics in use, unless an answer may still come."""
        metadata = self.metadata
        if self.is_asking(MetadataRequest) or not self._is_needed:
            return
        if now < max(metadata.due_ms(), self._not_before):
            return
        metadata.forget_idle(now)
        self._maybe_rebootstrap(now)
        node = self.anybody(now)
        if node is None:
            return
        self._not_before = now + self.backoff.wait_ms(self._attempts)
        self._attempts += 1
        topics = None if self.all_topics else tuple(sorted(metadata.topics))
        self.ask(now, node, MetadataRequest(topics, self.creates_topics), self._told)

    def _told(self, now: int, answer: MetadataResponse | None) -> None:
        if answer is None:
            return
        self._attempts = 0
        self.metadata.update(now, answer)
        if self.metadata.wanted:
            self._not_before = now + self.backoff.wait_ms(0)

    def _maybe_rebootstrap(self, now: int) -> None:
        """No broker answers any more: begin again with the bootstrap servers (KIP-899)."""
        since = self._without_broker_since
        if since is None or not self.rebootstraps:
            return
        nobody = all(not self.nodes.is_ready(node, now) for node in self.metadata.nodes)
        if nobody or now - since >= self.rebootstrap_trigger_ms:
            self.metadata.rebootstrap()
            self._without_broker_since = now
