"""A broker's listener: its sockets, its connections, and the limits that they share."""

import asyncio
import socket
import ssl
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from logging import DEBUG
from typing import Any

from attrs import define, field

from refimpl.api.call import Served
from refimpl.api.dispatch import dispatch
from refimpl.api.login import Login
from refimpl.api.table import Api
from refimpl.edge.server.connection import Connection
from refimpl.edge.server.failing import failing, with_errors
from refimpl.edge.server.faults import Faults
from refimpl.edge.server.limits import Limits
from refimpl.edge.server.log import BROKER, REQUESTS
from refimpl.edge.server.memory import Budget
from refimpl.edge.server.received import Received
from refimpl.edge.server.security import ListenerSecurity
from refimpl.edge.server.tls import Tls, alert_of
from refimpl.edge.server.unserved import HANDSHAKE_FAILURE, SASL, Unserved, is_tls
from refimpl.edge.server.watching import Watch
from refimpl.messages.share import ShareConnectionLost
from refimpl.wire.errors import WireError

SHARE_FETCH = 78
BACKLOG = 1024
ACCEPT_AGAIN_S = 1.0
HANDSHAKE_S = 10.0
"""The longest time of a TLS handshake, in seconds."""
MOST_HANDSHAKES = 10_000
ALERT_S, UNREAD = 1.0, 1 << 12
"""The time in seconds for a refused client to read why, and what is read of it at a time."""
#: What tests would otherwise wait for; anything that is set comes before it
QUICK: Mapping[str, str] = {"group.initial.rebalance.delay.ms": "0"}


def counted() -> Iterator[int]:
    """1, 2, and so on."""
    return count(1)


@define(eq=False)
class Listener:
    """Accepts clients of one broker and hands their requests to it."""

    broker: Served
    limits: Limits
    budget: Budget
    faults: Faults
    #: What cues hear, where there are any
    watch: Watch | None = None
    security: ListenerSecurity | None = None
    #: The broker's number, for what is said of clients
    id: int = 0
    #: The numbers of connections, which listeners of one broker share
    numbers: Iterator[int] = field(factory=counted)
    #: Who asks for what is being begun; told only where there are cues
    client_id: str | None = field(default=None, init=False)
    connections: set[Connection] = field(factory=set[Connection], init=False)
    #: For requests that came whole and wait for answers; whoever lies about the size of a frame,
    #: and so takes the budget of large ones, must not keep these waiting
    in_flight: Budget = field(init=False)
    paused: bool = field(default=False, init=False)
    ended: bool = field(default=False, init=False)
    refusals: int = field(default=0, init=False)
    unserved: Unserved = field(init=False)
    _loop: asyncio.AbstractEventLoop = field(init=False)
    _sockets: list[socket.socket] = field(factory=list[socket.socket], init=False)
    _accepting: set[asyncio.Task[Any]] = field(factory=set[asyncio.Task[Any]], init=False)
    #: Those of them that may take time, and are cancelled with the listener
    _handshakes: set[asyncio.Task[Any]] = field(factory=set[asyncio.Task[Any]], init=False)
    _sweeper: asyncio.TimerHandle | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        """As much for requests in flight as for large frames."""
        self.in_flight = Budget(self.limits.queued_max_request_bytes)
        self.unserved = Unserved(self.id)

    def listen(self, host: str, port: int, *, accepts: bool = True) -> int:
        """Take the port, or any for 0; answers which. Raises OSError if it is taken.

        Unless it `accepts` at once, clients are refused until it shall.
        """
        self._loop = asyncio.get_running_loop()
        try:
            for family, address in _addresses(host, port):
                taken = socket.socket(family, socket.SOCK_STREAM)
                self._sockets.append(taken)
                taken.setblocking(False)
                taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    taken.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                taken.bind((address[0], port, *address[2:]))
                port = taken.getsockname()[1]
            if accepts:
                self.accept()
        except OSError:
            self._close_sockets()
            raise
        self._sweep()
        return port

    def accept(self) -> None:
        """Accept clients from now on. Raises OSError if somebody else does, on this port."""
        for taken in self._sockets:
            taken.listen(BACKLOG)
            self._watch(taken)

    def _watch(self, taken: socket.socket) -> None:
        if not self.ended:
            self._loop.add_reader(taken, self._accept, taken)

    def _accept(self, taken: socket.socket) -> None:
        """Take in who waits. Not by asyncio's own server: who is being accepted when that is
        closed is never closed (Python 3.11)."""
        loop = self._loop
        try:
            for _ in range(BACKLOG):
                client, _ = taken.accept()
                if self._are_too_many():
                    client.close()
                    continue
                client.setblocking(False)
                task = loop.create_task(self._connect(client))
                self._accepting.add(task)
                task.add_done_callback(self._accepting.discard)
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as refused:  # too many files are open, perhaps fewer soon
            BROKER.error("no client can be accepted: %s", refused)
            loop.remove_reader(taken)
            loop.call_later(ACCEPT_AGAIN_S, self._watch, taken)

    def _are_too_many(self) -> bool:
        """True if more handshakes are under way than there may be connections."""
        tls = self.security is not None and self.security.tls is not None
        count = len(self.connections) + len(self._accepting)
        return tls and count >= min(self.limits.max_connections, MOST_HANDSHAKES)

    async def _connect(self, client: socket.socket) -> None:
        """Let a client in, after the handshake where there is one. One that fails is told of."""
        security = self.security
        if self.ended:
            client.close()
        elif security is None or security.tls is None:
            try:
                await self._loop.connect_accepted_socket(lambda: Connection(self), client)
            except OSError:
                client.close()
        else:
            task = asyncio.current_task()
            assert task is not None
            self._handshakes.add(task)
            try:
                await self._shake_hands(client, security.tls)
            except OSError:  # the client has gone before
                client.close()
            finally:
                self._handshakes.discard(task)

    async def _shake_hands(self, client: socket.socket, tls: Tls) -> None:
        host = client.getpeername()[0]
        more: Any = {"ssl": tls.context(), "ssl_handshake_timeout": HANDSHAKE_S}
        with client.dup() as spare:  # outlives what the event loop does to the client at a failure
            try:
                await self._loop.connect_accepted_socket(lambda: Connection(self), client, **more)
            except ssl.SSLError as failed:
                reason = failed.reason or "no handshake"
                self.unserved.handshake(host, reason.replace("_", " ").lower())
                await self._end_with(spare, alert_of(failed))
            except (OSError, TimeoutError):
                client.close()

    async def _end_with(self, client: socket.socket, alert: bytes) -> None:
        """Tell a client why its handshake has failed, and let it read that: what came from it and
        is not read would reset the connection, and take the alert along."""
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(ALERT_S):
                await self._loop.sock_sendall(client, alert)
                client.shutdown(socket.SHUT_WR)
                while await self._loop.sock_recv(client, UNREAD):
                    pass

    def _close_sockets(self) -> None:
        for taken in self._sockets:
            self._loop.remove_reader(taken)
            taken.close()
        self._sockets.clear()

    def close(self) -> None:
        """Close the port and cut off all clients, and who is being accepted."""
        self.ended = True
        self._close_sockets()
        for task in self._handshakes:
            task.cancel()
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in list(self.connections):
            connection.abort()

    def pause(self, *, paused: bool) -> None:
        """Neither read nor handle anything, or go on: a process that is stopped by a signal."""
        self.paused = paused
        for connection in list(self.connections):
            connection.turn()

    def now_ms(self) -> int:
        """The time in ms since 1970."""
        return self.broker.now()

    def login(self, before: tuple[str, str] | None) -> Login:
        """A login of a client, after another one or not."""
        assert self.security is not None
        assert self.security.mechanisms is not None
        return Login(self.broker, self.security.mechanisms, before)

    def login_refused(self, connection: Connection, why: str) -> None:
        """A login has failed; what the client sent is not repeated."""
        self.refusals += 1
        self.unserved.login_refused(connection.host, why)

    def time(self) -> float:
        """The event loop's time in seconds."""
        return asyncio.get_running_loop().time()

    # What connections tell

    def opened(self, connection: Connection) -> None:
        """A client has come; one too many is sent away."""
        self.connections.add(connection)
        connection.number = next(self.numbers)
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
        """It has gone, and with it its share sessions."""
        self.connections.discard(connection)
        if not self.ended:
            self.broker.node.client_metrics.disconnected(connection.number)
        if connection.has_session and not self.ended:
            self.broker.tell(ShareConnectionLost(connection.number))

    def handle(self, received: Received) -> None:
        """A request: on to the broker, unless a fault is to happen to it."""
        if received.api.key in SASL and self.security is None:
            self.unserved.login(received.connection.host, received.api.name)
        if REQUESTS.isEnabledFor(DEBUG):
            host, name = received.connection.host, received.client_id()
            REQUESTS.debug("broker %d: %s of %s at %s", self.id, received.api.name, name, host)
        if self.watch is not None:
            self.watch.requested(received.api.name, received.client_id())
        arrivals = received.connection.arrivals
        if not self.faults.rules and not arrivals:
            self.begin(received)
            return
        arrivals.wait(received)
        if not self.faults.meet(received):
            received.begin()

    def begin(self, received: Received) -> None:
        """Hand a request to the broker. An error of ours ends its connection, and nothing else."""
        connection, error = received.connection, received.error
        broker, change = self.broker, None
        if error is not None:
            broker, change = failing(broker, error), partial(with_errors, error=error)
        if self.watch is not None:
            self.client_id = received.client_id()
        frame, received.frame = received.frame, b""  # the node keeps of it what it needs
        session, respond, mute = connection.session, received.answer, connection.mute
        try:
            connection.has_session |= received.api.key == SHARE_FETCH
            dispatch(broker, received.api, frame, session, respond, mute, change, connection.number)
        except WireError as wrong:
            connection.refuse(wrong)
        except Exception as bug:
            self.failed(received.api, bug)
            connection.end()

    def refused(self, connection: Connection, error: WireError) -> None:
        """A connection ends for what came by it."""
        self.refusals += 1
        self.unserved.refused(connection.host, error)
        if is_tls(error) and connection.transport is not None:
            connection.transport.write(HANDSHAKE_FAILURE)

    def failed(self, api: Api, error: Exception) -> None:
        """A bug of ours: the client sees a closed connection, and everybody else nothing."""
        BROKER.critical("%s failed, which is a bug in highwater itself", api.name)
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


def _addresses(host: str, port: int) -> Sequence[tuple[socket.AddressFamily, Any]]:
    """The addresses of a name: one, or several."""
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((family, address) for family, _, _, _, address in found))
