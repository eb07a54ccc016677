"""Messages between brokers that are processes of their own: a TCP connection for each direction.

A connection carries one broker's messages to another one, each as its length and its bytes. What
cannot be delivered is lost, as the node's protocol allows: nobody waits for a connection, nothing
is sent twice, and whoever wants an answer asks again. A greeting says where its sender listens, so
that it gets its answers before anybody else knows of it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from attrs import define, field

from refimpl.edge.server.network import Network
from refimpl.edge.server.peer_codec import FINGERPRINT, U32, NotAMessage, decode, encode
from refimpl.messages.broker import Request, Response

MAGIC = b"highwater-peer-2\n"
LARGEST = 256 << 20
#: What waits for a connection that is being made, or for a peer that reads slowly
MOST_WAITING = 64 << 20
RETRY_S = 0.2
CONNECT_S = 5.0
_GREETING = ("cluster id", "broker", "host", "port")
log = logging.getLogger(__name__)

AddressOf = Callable[[int], Awaitable[tuple[str, int] | None]]


@define(eq=False)
class PeerLink:
    """The connection to one peer, made when there is something to say."""

    network: "PeerNetwork"
    peer: int
    waiting: deque[bytes] = field(factory=lambda: deque[bytes]())
    size: int = 0
    task: "asyncio.Task[None] | None" = None
    not_before: float = 0.0
    writer: asyncio.StreamWriter | None = None

    def send(self, data: bytes) -> None:
        """Say it, unless too much waits already.

        On a connection that is there it goes to the socket at once: our own node may be next, with
        a thousand logs to make, and its peers have as many.
        """
        writer = self.writer
        buffered = writer.transport.get_write_buffer_size() if writer is not None else self.size
        if buffered + len(data) > MOST_WAITING:
            self.network.dropped += 1
            return
        if writer is not None:
            writer.write(U32.pack(len(data)) + data)
            return
        self.waiting.append(data)
        self.size += len(data)
        if self.task is None:
            self.task = asyncio.get_running_loop().create_task(self._carry())

    async def _carry(self) -> None:
        """Connect, say what waits, and stay until the peer ends the connection."""
        writer: asyncio.StreamWriter | None = None
        address: tuple[str, int] | None = None
        loop = asyncio.get_running_loop()
        try:
            await asyncio.sleep(max(0.0, self.not_before - loop.time()))
            async with asyncio.timeout(CONNECT_S):
                address = await self.network.address_of(self.peer)
                if address is None:
                    raise OSError(f"nobody knows where broker {self.peer} listens")
                reader, writer = await asyncio.open_connection(*address)
            writer.write(self.network.greeting)
            for data in self.waiting:
                writer.write(U32.pack(len(data)) + data)
            self.waiting.clear()
            self.writer = writer
            await reader.read()  # a peer answers by a connection of its own, so this is the end
        except (OSError, TimeoutError):
            self.not_before = loop.time() + RETRY_S
        finally:
            if writer is not None:
                writer.transport.abort()
            self.network.forget(self.peer, address)
            self.network.dropped += len(self.waiting)
            self.waiting.clear()
            self.size, self.task, self.writer = 0, None, None
        self.network.lost(self.peer)


@define(eq=False)
class PeerNetwork(Network):
    """The network of one broker process: its own node by memory, all others by TCP.

    `address_of` finds out where a broker listens for its peers, None if nobody knows; it is asked
    for each connection. Peers of another cluster, or of another version, are refused.
    """

    broker: int = field(kw_only=True)
    cluster_id: str = field(kw_only=True)
    address_of: AddressOf = field(kw_only=True)
    #: Where peers that have connected say that they listen
    greeted: dict[int, tuple[str, int]] = field(factory=dict[int, tuple[str, int]], init=False)
    _address: tuple[str, int] = field(default=("", 0), init=False)
    _links: dict[int, PeerLink] = field(factory=dict[int, PeerLink], init=False)
    _server: asyncio.Server | None = field(default=None, init=False)
    _inbound: set[asyncio.StreamWriter] = field(factory=set[asyncio.StreamWriter], init=False)

    @property
    def greeting(self) -> bytes:
        """The first bytes of a connection."""
        host, port = self._address
        return MAGIC + FINGERPRINT + f"{self.cluster_id} {self.broker} {host} {port}\n".encode()

    async def listen(self, host: str, port: int) -> int:
        """Take connections of peers; answers the port. Raises OSError for one in use."""
        self._server = await asyncio.start_server(self._accept, host, port)
        self._address = host, self._server.sockets[0].getsockname()[1]
        return self._address[1]

    def close(self) -> None:
        """End all connections, at once; nobody is told of that."""
        self.disconnected.clear()
        if self._server is not None:
            self._server.close()
            self._server = None
        for link in self._links.values():
            if link.task is not None:
                link.task.cancel()
        for writer in self._inbound:
            writer.transport.abort()

    def send(self, message: Request | Response) -> None:
        """Put a message on its way: to our own node, or to a peer."""
        target = message[1]
        if target in self.nodes or (message[0], target) in self.cut:
            Network.send(self, message)
            return
        link = self._links.get(target)
        if link is None:
            link = self._links[target] = PeerLink(self, target)
        link.send(encode(message))

    def forget(self, peer: int, address: tuple[str, int] | None) -> None:
        """A peer is no longer at this address; if it has started again it has said another one."""
        if self.greeted.get(peer) == address:
            self.greeted.pop(peer, None)

    def lost(self, peer: int) -> None:
        """A connection with a peer is over, or could not be made: what our node asked of it, or the
        answer, may be lost with it."""
        tell = self.disconnected.get(self.broker)
        if tell is not None:
            tell(peer)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._inbound.add(writer)
        peer: int | None = None
        try:
            await self._greeted(reader)
            while True:
                (size,) = U32.unpack(await reader.readexactly(4))
                if size > LARGEST:
                    raise NotAMessage(f"{size} bytes, where {LARGEST} are allowed")
                peer = self._deliver(decode(await reader.readexactly(size)))
        except NotAMessage as wrong:
            address: Any = writer.get_extra_info("peername")
            log.warning("closing the connection of %s: %s", address, wrong)
        except (OSError, asyncio.IncompleteReadError):
            pass  # the peer is gone
        finally:
            self._inbound.discard(writer)
            with suppress(OSError):
                writer.transport.abort()
        if peer is not None:
            self.lost(peer)

    async def _greeted(self, reader: asyncio.StreamReader) -> None:
        """Raises NotAMessage for whoever is no broker of this cluster, or of another version."""
        greeting = await reader.readexactly(len(MAGIC) + len(FINGERPRINT))
        if not greeting.startswith(MAGIC):
            raise NotAMessage("this port is for brokers of the same cluster")
        if greeting[len(MAGIC) :] != FINGERPRINT:
            raise NotAMessage("a broker of another version, whose messages are not ours")
        said = (await reader.readuntil(b"\n"))[:-1].decode(errors="replace").split(" ")
        cluster, broker, host, port = said if len(said) == len(_GREETING) else ("", "", "", "")
        if cluster != self.cluster_id:
            raise NotAMessage(f"a broker of cluster {cluster}, and this is {self.cluster_id}")
        if not (broker.isdecimal() and port.isdecimal()):
            raise NotAMessage(f"{broker} at {host}:{port}, where numbers are expected")
        self.greeted[int(broker)] = host, int(port)

    def _deliver(self, message: Any) -> int:
        """Let our node have a message; answers who sent it."""
        if not isinstance(message, Request | Response):
            raise NotAMessage(
                f"{type(message).__name__}, where requests and responses are expected"
            )
        if message.target in self.nodes:
            Network.send(self, message)
            self.soon()
        return message.source
