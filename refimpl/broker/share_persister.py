"""Requests of this broker to share coordinators: sent to whoever coordinates, and sent again.

Each request is tried by itself, so requests may be done in any order, and twice if an answer is
lost. The state of a share partition is such that this does no harm (ShareState).
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from attrs import define, field

from refimpl.broker.context import Context
from refimpl.broker.coordinators import leader_of
from refimpl.broker.forwarding import AutoTopics
from refimpl.broker.metadata import Metadata
from refimpl.messages import share as m
from refimpl.messages.broker import Response
from refimpl.records.coordinators import SHARE_TOPIC
from refimpl.shares.shard import name_of

BACKOFF_MS, MOST_BACKOFF_MS = 50, 1000
TRIES = 12
"""With these a request is given up after about seven seconds."""
ANSWER_MS = 10_000
"""The time after which a request without an answer is sent again."""

AGAIN = frozenset(
    (
        *("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"),
        *("NETWORK_EXCEPTION", "KAFKA_STORAGE_ERROR"),
    )
)
"""Errors that another try may not meet."""


@define(eq=False)
class _Pending:
    body: Any
    then: Callable[[int, m.ShareStateResponse], None]
    tries: int = 0
    broker: int = -1
    #: The number of the request on its way, 0 between two tries
    number: int = 0


@define(eq=False)
class SharePersister:
    """The requests that are not answered yet."""

    context: Context
    metadata: Metadata
    auto_topics: AutoTopics
    #: Sets a timer of the node that calls `retry`
    arm: Callable[[int], None]
    _sent: dict[int, _Pending] = field(factory=dict[int, _Pending])
    _due: list[tuple[int, int, int, _Pending]] = field(factory=list[tuple[int, int, int, _Pending]])
    _count: int = 0
    _armed_at: int | None = None

    def send(self, now: int, body: Any, then: Callable[[int, m.ShareStateResponse], None]) -> None:
        """Send a request; `then` is called once with its answer, or after the last try."""
        self._try(now, _Pending(body, then))

    def _try(self, now: int, pending: _Pending) -> None:
        pending.tries += 1
        if SHARE_TOPIC not in self.metadata.topics:
            self.auto_topics.create((SHARE_TOPIC,))
            self._later(now, pending)
            return
        leader = leader_of(self.metadata, SHARE_TOPIC, name_of(pending.body.key))
        if leader is None:
            self._later(now, pending)
            return
        pending.broker = leader
        pending.number = self.context.request(leader, pending.body)
        self._sent[pending.number] = pending
        self._set(now + ANSWER_MS, pending)

    def _later(self, now: int, pending: _Pending) -> None:
        pending.number = 0
        if pending.tries >= TRIES:
            pending.then(now, m.ShareStateResponse("COORDINATOR_NOT_AVAILABLE"))
            return
        self._set(now + min(BACKOFF_MS << pending.tries, MOST_BACKOFF_MS), pending)

    def _set(self, at_ms: int, pending: _Pending) -> None:
        self._count += 1
        heappush(self._due, (at_ms, self._count, pending.number, pending))
        if self._armed_at is None or at_ms < self._armed_at:
            self._armed_at = at_ms
            self.arm(at_ms)

    def answered(self, now: int, response: Response) -> None:
        """Take a coordinator's answer; another try follows an error that may pass."""
        pending = self._sent.pop(response.correlation_id, None)
        if pending is None:
            return
        body: m.ShareStateResponse = response.body
        if body.error in AGAIN:
            self._later(now, pending)
        else:
            pending.number = -1
            pending.then(now, body)

    def disconnected(self, broker: int) -> None:
        """Send again what was sent to a broker whose connection is lost, when the timer fires."""
        for number, pending in list(self._sent.items()):
            if pending.broker == broker:
                del self._sent[number]
                pending.number = 0
                self._set(0, pending)

    def retry(self, now: int) -> int:
        """The node's timer: send what is due again; return the time until the next call."""
        self._armed_at = now
        while self._due and self._due[0][0] <= now:
            _, _, number, pending = heappop(self._due)
            if pending.number == number and number >= 0:
                self._sent.pop(number, None)
                if number > 0:
                    self._later(now, pending)
                else:
                    self._try(now, pending)
        self._armed_at = self._due[0][0] if self._due else None
        return max(1, self._armed_at - now) if self._armed_at is not None else 0
