"""A client's connections: one to each node, made when there is something to say."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from attrs import define, field

from refimpl.clients.network import coordinator_at, node_of
from refimpl.configs import ConfigError
from refimpl.edge.clients.codec import Address, correlation_of, decode, encode
from refimpl.messages.broker import ProduceRequest, Request, Response
from refimpl.wire.errors import WireError
from refimpl.wire.framing import FrameReader

LARGEST = 256 << 20
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


class Connection(asyncio.Protocol):
    """Frames to and from one node."""

    def __init__(self, owner: "Connections", node: int) -> None:
        self.owner, self.node = owner, node
        self.transport: Any = None
        self.waiting: list[Sequence[Any]] = []
        self.reader = FrameReader(LARGEST)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say what has waited for it."""
        self.transport = transport
        for parts in self.waiting:
            self.transport.writelines(parts)
        self.waiting.clear()

    def say(self, parts: Sequence[Any]) -> None:
        """Write a frame, or keep it until the connection is there."""
        if self.transport is None:
            self.waiting.append(parts)
        else:
            self.transport.writelines(parts)

    def data_received(self, data: bytes) -> None:
        """Take what has come."""
        space = self.reader.space()
        while space is not None and data:
            count = min(len(space), len(data))
            space[:count] = data[:count]
            for frame in self.reader.filled(count):
                self.owner.received(self.node, frame)
            data = data[count:]
            space = self.reader.space()
        if not data:
            return
        try:
            for frame in self.reader.feed(data):
                self.owner.received(self.node, frame)
        except WireError:
            log.warning("node %d sent what is no frame of Kafka's", self.node, exc_info=True)
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell those that wait for an answer."""
        self.owner.lost(self)


@define(eq=False)
class Connections:
    """All connections of one client, in the event loop that runs it."""

    client_id: str
    bootstrap: Sequence[tuple[str, int]]
    setup_timeout_s: float
    answered: Callable[[Response], None]
    disconnected: Callable[[int], None]
    _addresses: dict[int, tuple[str, int]] = field(init=False)
    _open: dict[int, Connection] = field(factory=dict[int, Connection], init=False)
    _sent: dict[int, Request] = field(factory=dict[int, Request], init=False)
    _tasks: set[asyncio.Task[None]] = field(factory=set[asyncio.Task[None]], init=False)

    def __attrs_post_init__(self) -> None:
        """Bootstrap servers are the nodes -1, -2 and so on, as in Kafka."""
        self._addresses = {-1 - at: address for at, address in enumerate(self.bootstrap)}

    @property
    def bootstrap_nodes(self) -> tuple[int, ...]:
        """Their numbers."""
        return tuple(range(-1, -1 - len(self.bootstrap), -1))

    def send(self, request: Request) -> None:
        """Write a request; one with acks=0 has no answer."""
        if not (isinstance(request.body, ProduceRequest) and request.body.acks == 0):
            self._sent[request.correlation_id] = request
        connection = self._open.get(request.target)
        if connection is None:
            connection = self._open[request.target] = Connection(self, request.target)
            task = asyncio.get_running_loop().create_task(self._connect(connection))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        connection.say(encode(request.body, request.correlation_id, self.client_id))

    async def _connect(self, connection: Connection) -> None:
        try:
            host, port = self._addresses[node_of(connection.node)]
            async with asyncio.timeout(self.setup_timeout_s):
                loop = asyncio.get_running_loop()
                await loop.create_connection(lambda: connection, host, port)
        except (OSError, TimeoutError, KeyError):
            self.lost(connection)

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

    def _learn(self, brokers: Sequence[Address]) -> None:
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

    def lost(self, connection: Connection) -> None:
        """A connection has ended, or could not be made."""
        node = connection.node
        if self._open.get(node) is not connection:
            return
        del self._open[node]
        self._sent = {n: one for n, one in self._sent.items() if one.target != node}
        self.disconnected(node)

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
        for task in [*self._tasks]:
            task.cancel()
        for one in connections:
            if one.transport is not None:
                one.transport.close()
        await asyncio.sleep(0)
