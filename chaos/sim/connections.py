"""Connections between clients and brokers, for clients that rely on them: in order, or broken.

The network of a run loses, repeats and reorders messages. A connection delivers its requests in the
order in which they were sent, each once. One that is lost holds back all behind it, until the
client gives the connection up; what is on the way then is lost. No producer could prevent that a
batch which it has sent again since is written twice (`Producer/bug_late_expired`).
"""

from collections import deque

from attrs import define, field

from refimpl.clients.network import coordinator_at
from refimpl.messages.broker import Request


@define(eq=False)
class Connection:
    """One connection: its requests that have not been delivered, and those that are there early."""

    sent: deque[int] = field(factory=deque[int])
    early: dict[int, Request] = field(factory=dict[int, Request])
    is_broken: bool = False


@define(eq=False)
class Connections:
    """The connections of some clients to all brokers.

    A client names each by a target, and may have two to a broker: one is for coordinators.
    """

    clients: set[int] = field(factory=set[int])
    _now: dict[tuple[int, int], Connection] = field(factory=dict[tuple[int, int], Connection])
    _of: dict[tuple[int, int], Connection] = field(factory=dict[tuple[int, int], Connection])

    def send(self, request: Request, target: int) -> None:
        """The request is the last one of its connection."""
        pair = request.source, target
        connection = self._now.setdefault(pair, Connection())
        connection.sent.append(request.correlation_id)
        self._of[request.source, request.correlation_id] = connection

    def close(self, client: int, target: int) -> None:
        """The client's next request begins another connection."""
        connection = self._now.pop((client, target), None)
        if connection is not None:
            connection.is_broken = True

    def arrived(self, request: Request) -> list[Request]:
        """The requests that the broker can read now, in order."""
        connection = self._of.get((request.source, request.correlation_id))
        if connection is None or connection.is_broken:
            return []
        connection.early[request.correlation_id] = request
        found: list[Request] = []
        while connection.sent and connection.sent[0] in connection.early:
            number = connection.sent.popleft()
            found.append(connection.early.pop(number))
            del self._of[request.source, number]
        return found

    def broken(self, request: Request) -> None:
        """The broker is down: what comes by its connections later is lost."""
        for target in (request.target, coordinator_at(request.target)):
            self.close(request.source, target)
        other = self._of.pop((request.source, request.correlation_id), None)
        if other is not None:
            other.is_broken = True
