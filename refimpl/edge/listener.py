"""A broker's listener: its sockets, its connections, and the limits that they share."""

import asyncio
import sys
import traceback

from attrs import define, field, frozen

from refimpl.api.call import Served
from refimpl.api.table import Api
from refimpl.edge.connection import Connection, Received
from refimpl.edge.faults import Faults
from refimpl.edge.memory import Budget
from refimpl.wire.errors import WireError


@frozen(kw_only=True)
class Limits:
    """What clients may cost, by Kafka's names where it has one."""

    #: socket.request.max.bytes: the largest frame
    request_max_bytes: int = 100 << 20
    #: queued.max.request.bytes, for large frames of all connections together
    queued_max_request_bytes: int = 512 << 20
    #: connections.max.idle.ms
    connections_max_idle_ms: int = 600_000
    #: How long a large frame may make no progress: it holds memory that others wait for
    stalled_frame_max_ms: int = 30_000
    #: max.connections
    max_connections: int = 2**31 - 1
    #: Answers that clients do not read, of all connections together; the largest is cut off
    unsent_max_bytes: int = 512 << 20


@define(eq=False)
class Listener:
    """Accepts clients of one broker and hands their requests to it."""

    broker: Served
    limits: Limits
    budget: Budget
    faults: Faults
    connections: set[Connection] = field(factory=set[Connection], init=False)
    #: For requests that came whole and wait for answers; whoever lies about the size of a frame,
    #: and so takes the budget of large ones, must not keep these waiting
    in_flight: Budget = field(init=False)
    paused: bool = field(default=False, init=False)
    ended: bool = field(default=False, init=False)
    refusals: int = field(default=0, init=False)
    _server: asyncio.Server | None = field(default=None, init=False)
    _sweeper: asyncio.TimerHandle | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        """As much for requests in flight as for large frames."""
        self.in_flight = Budget(self.limits.queued_max_request_bytes)

    async def listen(self, host: str, port: int, *, accepts: bool = True) -> int:
        """Take the port, or any for 0; answers which. Raises OSError if it is taken.

        Unless it `accepts` at once, clients are refused until it shall.
        """
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self), host, port, backlog=1024, start_serving=accepts
        )
        self._sweep()
        return self._server.sockets[0].getsockname()[1]

    async def accept(self) -> None:
        """Accept clients from now on. Raises OSError if somebody else does, on this port."""
        if self._server is not None:
            await self._server.start_serving()

    def close(self) -> None:
        """Close the port and cut off all clients, and who is being accepted."""
        self.ended = True
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in list(self.connections):
            connection.abort()

    def pause(self, *, paused: bool) -> None:
        """Neither read nor handle anything, or go on: a process that is stopped by a signal."""
        self.paused = paused
        for connection in list(self.connections):
            connection.turn()

    def time(self) -> float:
        """The event loop's time in seconds."""
        return asyncio.get_running_loop().time()

    # What connections tell

    def opened(self, connection: Connection) -> None:
        """A client has come; one too many is sent away."""
        self.connections.add(connection)
        if self.ended or len(self.connections) > self.limits.max_connections:
            connection.abort()
        elif throttle_ms := self._throttle_ms(connection.host):
            connection.refuse_after(throttle_ms)
        elif self.paused:
            connection.turn()

    def _throttle_ms(self, address: str) -> int:
        """After how long a new connection of this address is to be ended, if it is one too many by
        `connection_creation_rate` (KIP-612)."""
        broker = self.broker
        return broker.node.client_quotas.connection_throttle_ms(address, broker.now())

    def closed(self, connection: Connection) -> None:
        """It has gone."""
        self.connections.discard(connection)

    def handle(self, received: Received) -> None:
        """A request: on to the broker, unless a fault is to happen to it."""
        if not self.faults.rules or not self.faults.meet(received):
            received.begin()

    def refused(self, connection: Connection, error: WireError) -> None:
        """A connection has been ended for what came by it."""
        self.refusals += 1

    def failed(self, api: Api, error: Exception) -> None:
        """A bug of ours: the client sees a closed connection, and everybody else nothing."""
        print(f"highwater: {api.name} failed, which is a bug in highwater itself", file=sys.stderr)
        traceback.print_exception(error)

    def unsent(self, connection: Connection) -> None:
        """A client does not read: where all of that is too much, the largest has to go."""
        while True:
            unsent = {one: one.unsent_bytes for one in self.connections}
            if sum(unsent.values()) <= self.limits.unsent_max_bytes:
                return
            largest = max(unsent, key=lambda one: unsent[one])
            largest.abort()
            self.connections.discard(largest)

    def _sweep(self) -> None:
        """End the connections that did nothing for too long."""
        limits, now = self.limits, self.time()
        idle, stalled = limits.connections_max_idle_ms / 1000, limits.stalled_frame_max_ms / 1000
        for connection in list(self.connections):
            limit = min(idle, stalled) if connection.holds_memory else idle
            if now - connection.idle_since() > limit:
                connection.abort()
        wait = max(0.01, min(idle, stalled) / 4)
        self._sweeper = asyncio.get_running_loop().call_later(wait, self._sweep)
