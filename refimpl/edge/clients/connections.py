"""A client's connections: one to each node, made when there is something to say.

A connection begins with TLS and a login where its client has them. Requests wait for the end of a
login, the first one and those that follow before a session ends (KIP-368).
"""

import asyncio
import logging
import ssl
from collections.abc import Callable, Coroutine, Iterable, Sequence
from random import Random
from typing import Any

from attrs import define, field

from refimpl.clients.network import coordinator_at, node_of
from refimpl.clients.producer.messages import Disconnected, Unauthenticated
from refimpl.configs import ConfigError
from refimpl.edge.clients.codec import (
    NodeAddress,
    SaslAnswer,
    authenticate,
    authenticated,
    correlation_of,
    decode,
    encode,
    handshake,
    handshaken,
)
from refimpl.edge.clients.securing import ClientSecurity
from refimpl.messages.broker import ProduceRequest, Request, Response
from refimpl.security.logins import ClientLogin, LoginFailed
from refimpl.wire.errors import WireError
from refimpl.wire.framing import FrameReader

LARGEST = 256 << 20
RENEWED = 0.85, 0.95
"""The part of a session after which a client logs in again, as in Kafka."""
CLOSE_S = 1.0
"""The time limit for what was written last, and for the end of TLS."""
TLS_FAILED, LOGIN_FAILED = "SSL_AUTHENTICATION_FAILED", "SASL_AUTHENTICATION_FAILED"
"""A refusal is final: the application hears of it at once, as of Kafka's AuthenticationException.

TLS has no error code in Kafka's protocol, so that name is the exception's.
"""
log = logging.getLogger(__name__)


def addresses(servers: Iterable[str]) -> list[tuple[str, int]]:
    """bootstrap.servers as pairs. Raises ConfigError."""
    found: list[tuple[str, int]] = []
    for one in servers:
        host, colon, port = one.rpartition(":")
        if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ConfigError(f"bootstrap.servers: {one!r} is no host:port")
        found.append((host.strip("[]"), int(port)))
    if not found:
        raise ConfigError("bootstrap.servers names no broker")
    return found


class NodeConnection(asyncio.Protocol):
    """Frames to and from one node."""

    def __init__(self, owner: "Connections", node: int) -> None:
        self.owner, self.node = owner, node
        self.transport: Any = None
        self.waiting: list[Sequence[Any]] = []
        self.reader = FrameReader(LARGEST)
        self.unauthenticated: Unauthenticated | None = None
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._login: LoginSteps | None = None
        self._ready = False
        self._answered = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The node is there; it hears requests once a login is done."""
        self.transport = transport

    def log_in(self, login: ClientLogin) -> "asyncio.Future[None]":
        """Begin a login: others wait. The future is done when it is over, well or not."""
        self._ready = False
        self._login = LoginSteps(self, login)
        return self._login.begin()

    def begin(self) -> None:
        """Write requests from now on, those first that have waited."""
        self._ready, self._login = True, None
        for parts in self.waiting:
            self.transport.writelines(parts)
        self.waiting.clear()

    def say(self, parts: Sequence[Any]) -> None:
        """Write a frame, or keep it until the connection is ready."""
        if self._ready:
            self.transport.writelines(parts)
        else:
            self.waiting.append(parts)

    def refuse(self, error: str, message: str) -> None:
        """The node refuses this client: the connection ends with the reason."""
        self.unauthenticated = Unauthenticated(error, message)
        if self.transport is not None:
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take what has come."""
        space = self.reader.space()
        while space is not None and data:
            count = min(len(space), len(data))
            space[:count] = data[:count]
            for frame in self.reader.filled(count):
                self._received(frame)
            data = data[count:]
            space = self.reader.space()
        if not data:
            return
        try:
            for frame in self.reader.feed(data):
                self._received(frame)
        except WireError:
            log.warning("node %d sent what is no frame of Kafka's", self.node, exc_info=True)
            self.transport.abort()

    def _received(self, frame: Any) -> None:
        self._answered = True
        if self._login is None or not self._login.take(frame):
            self.owner.received(self.node, frame)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell those that wait for an answer.

        A broker of TLS 1.3 refuses a certificate only after the handshake.
        """
        self.closed.set_result(None)
        if self._login is not None:
            self._login.end()
        if isinstance(exc, ssl.SSLError) and not self._answered and not self.unauthenticated:
            self.unauthenticated = Unauthenticated(TLS_FAILED, _reason(exc))
        self.owner.lost(self)


class LoginSteps:
    """The requests of a login at one connection; they have negative correlation ids."""

    def __init__(self, connection: NodeConnection, login: ClientLogin) -> None:
        self.connection, self.login = connection, login
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sent = 0

    def begin(self) -> "asyncio.Future[None]":
        """Name the mechanism."""
        owner = self.connection.owner
        self._say(handshake(owner.security.mechanism, -1, owner.client_id))
        return self.done

    def take(self, frame: Any) -> bool:
        """Take the answer to a step. False if a frame answers another request."""
        if self._sent == 0 or correlation_of(frame) != -self._sent:
            return False
        try:
            answer = handshaken(frame) if self._sent == 1 else authenticated(frame)
            self._answered(answer)
        except LoginFailed as refused:
            self.connection.refuse(LOGIN_FAILED, str(refused))
        except WireError:
            log.warning("node %d answers a login wrongly", self.connection.node, exc_info=True)
            self.connection.transport.abort()
        return True

    def _answered(self, answer: SaslAnswer) -> None:
        if answer.error is not None:
            self.connection.refuse(answer.error, answer.message)
            return
        first = self._sent == 1
        text = self.login.first() if first else self.login.answer(answer.auth_bytes)
        if text is not None:
            owner = self.connection.owner
            self._say(authenticate(text, -self._sent - 1, owner.client_id))
            return
        self.connection.begin()
        if answer.session_lifetime_ms:
            self.connection.owner.log_in_again(self.connection, answer.session_lifetime_ms)
        self.end()

    def _say(self, parts: Sequence[Any]) -> None:
        self._sent += 1
        self.connection.transport.writelines(parts)

    def end(self) -> None:
        """Nothing comes any more."""
        if not self.done.done():
            self.done.set_result(None)


def _reason(error: ssl.SSLError) -> str:
    """OpenSSL's reason, without the place in its source."""
    verifying = getattr(error, "verify_message", None)
    return verifying or (error.reason or "the handshake failed").replace("_", " ").lower()


@define(eq=False)
class Connections:
    """All connections of one client, in the event loop that runs it."""

    client_id: str
    bootstrap: Sequence[tuple[str, int]]
    setup_timeout_s: float
    security: ClientSecurity
    answered: Callable[[Response], None]
    disconnected: Callable[[Disconnected], None]
    _addresses: dict[int, tuple[str, int]] = field(init=False)
    _open: dict[int, NodeConnection] = field(factory=dict[int, NodeConnection], init=False)
    _sent: dict[int, Request] = field(factory=dict[int, Request], init=False)
    _tasks: set[asyncio.Task[None]] = field(factory=set[asyncio.Task[None]], init=False)
    _chance: Random = field(factory=Random, init=False)

    def __attrs_post_init__(self) -> None:
        """Bootstrap servers are the nodes -1, -2 and so on, as in Kafka."""
        self._addresses = {-1 - at: address for at, address in enumerate(self.bootstrap)}

    def send(self, request: Request) -> None:
        """Write a request; one with acks=0 has no answer."""
        if not (isinstance(request.body, ProduceRequest) and request.body.acks == 0):
            self._sent[request.correlation_id] = request
        connection = self._open.get(request.target)
        if connection is None:
            connection = self._open[request.target] = NodeConnection(self, request.target)
            self._start(self._connect(connection))
        connection.say(encode(request.body, request.correlation_id, self.client_id))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, connection: NodeConnection) -> None:
        try:
            host, port = self._addresses[node_of(connection.node)]
            async with asyncio.timeout(self.setup_timeout_s):
                loop, tls = asyncio.get_running_loop(), self.security.tls
                more: dict[str, Any] = {"ssl": tls, "server_hostname": host} if tls else {}
                await loop.create_connection(lambda: connection, host, port, **more)
                if self.security.new_login is None:
                    connection.begin()
                else:
                    await self._log_in(connection)
        except ssl.SSLError as wrong:
            connection.unauthenticated = Unauthenticated(TLS_FAILED, _reason(wrong))
            self.lost(connection)
        except (OSError, TimeoutError, KeyError):
            if connection.transport is not None:
                connection.transport.abort()
            self.lost(connection)

    async def _log_in(self, connection: NodeConnection) -> None:
        """Make a login, and wait until it is over. What gives tokens may be slow, or fail."""
        assert self.security.new_login is not None
        try:
            login = await self.security.new_login()
        except Exception as error:
            log.warning("no token for a login", exc_info=True)
            connection.refuse(LOGIN_FAILED, f"no token for a login: {error!r}")
            self.lost(connection)
            return
        await connection.log_in(login)

    def log_in_again(self, connection: NodeConnection, lifetime_ms: int) -> None:
        """Log in once more before the session ends."""
        loop = asyncio.get_running_loop()

        def again() -> None:
            if self._open.get(connection.node) is connection:
                self._start(self._log_in(connection))

        loop.call_later(lifetime_ms / 1000 * self._chance.uniform(*RENEWED), again)

    def received(self, node: int, frame: Any) -> None:
        """An answer has come."""
        request = self._sent.pop(correlation_of(frame), None)
        if request is None:
            return
        try:
            body, brokers = decode(request.body, frame)
        except WireError:
            log.warning("node %d sent an answer that cannot be read", node, exc_info=True)
            self.close(node)
            return
        self._learn(brokers)
        self.answered(Response(node, request.source, request.correlation_id, body))

    def _learn(self, brokers: Sequence[NodeAddress]) -> None:
        """Brokers that have moved are called at their new address."""
        for node, host, port in brokers:
            if self._addresses.get(node) != (host, port):
                self._addresses[node] = (host, port)
                for target in (node, coordinator_at(node)):
                    self.close(target)

    def close(self, node: int) -> None:
        """Give up a connection: its requests get no answer."""
        connection = self._open.get(node)
        if connection is not None and connection.transport is not None:
            connection.transport.abort()

    def lost(self, connection: NodeConnection) -> None:
        """A connection has ended, or could not be made."""
        node = connection.node
        if self._open.get(node) is not connection:
            return
        del self._open[node]
        self._sent = {n: one for n, one in self._sent.items() if one.target != node}
        self.disconnected(Disconnected(node, connection.unauthenticated))

    def drop(self, node: int) -> None:
        """The client itself gives the connection up, and knows it."""
        connection = self._open.pop(node, None)
        self._sent = {n: one for n, one in self._sent.items() if one.target != node}
        if connection is not None and connection.transport is not None:
            connection.transport.abort()

    async def end(self) -> None:
        """Close all of them, after what was written last has gone."""
        connections = [*self._open.values()]
        self._open.clear()
        self._sent.clear()
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)  # each closes a socket that it made
        made = [one for one in connections if one.transport is not None]
        for one in made:
            one.transport.close()
        if made:
            await asyncio.wait([one.closed for one in made], timeout=CLOSE_S)
            for one in made:
                one.transport.abort()
        await asyncio.sleep(0)
