"""A hop between processes of Kafka on the loopback address, which can stall what passes through it.

To both ends it is a network: the bytes of a connection arrive in order or not at all, and what was
sent before a connection was closed may arrive afterwards, as with a proxy beside each process, or
with a kernel that goes on sending what a closed socket has left in its queue.
"""

import socket
import struct
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

from attrs import define, field, frozen

HEAD = struct.Struct(">hhih")
#: When both ends of a connection are gone its threads end at once; nobody waits for longer.
SECONDS_TO_END = 5


@frozen
class Header:
    """What every request of Kafka's protocol begins with."""

    api_key: int
    correlation_id: int
    client_id: str

    @classmethod
    def of(cls, request: bytes) -> "Header":
        api_key, _, correlation_id, length = HEAD.unpack_from(request)
        named = request[HEAD.size : HEAD.size + max(length, 0)]
        return cls(api_key, correlation_id, named.decode())


@define(eq=False)
class Stall:
    """Requests that are held back, with all that follows on their connections.

    `at_most` bounds how many requests are caught; connections that begin later pass then.
    `answers` holds back what comes the other way as well.
    """

    match: Callable[[Header], bool]
    at_most: int | None = None
    answers: bool = False
    caught: list[Header] = field(factory=list[Header])
    over: threading.Event = field(factory=threading.Event)

    def catches(self, header: Header) -> bool:
        if self.over.is_set() or not self.match(header):
            return False
        if self.at_most is not None and len(self.caught) >= self.at_most:
            return False
        self.caught.append(header)
        return True

    def end(self) -> None:
        """Deliver everything."""
        self.over.set()


@define(eq=False)
class Relay:
    """Connections to `port` go on to `target`; both are ports of the loopback address."""

    target: int
    listener: socket.socket = field(factory=lambda: socket.create_server(("127.0.0.1", 0)))
    stalls: list[Stall] = field(factory=list[Stall])
    threads: list[threading.Thread] = field(factory=list[threading.Thread])

    @property
    def port(self) -> int:
        return self.listener.getsockname()[1]

    def stall(
        self,
        match: Callable[[Header], bool],
        at_most: int | None = None,
        answers: bool = False,
    ) -> Stall:
        """Hold back requests like this from now on, until the stall is ended."""
        stall = Stall(match, at_most, answers)
        self.stalls.append(stall)
        return stall

    def run(self) -> None:
        """Take connections until the listener is closed."""
        with suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                self.threads.append(_start(self._connect, client))

    def _connect(self, client: socket.socket) -> None:
        address = "127.0.0.1", self.target
        with client, suppress(OSError), socket.create_connection(address) as server:
            connection = _Connection(self, client, server)
            answers = _start(connection.pass_answers)
            connection.pass_requests()
            answers.join()


@define(eq=False)
class _Connection:
    """Two sockets, and the client that speaks on the one."""

    relay: Relay
    client: socket.socket
    server: socket.socket
    last: Header | None = None

    def pass_requests(self) -> None:
        """Request by request, whatever has become of the client in the meantime."""
        with suppress(OSError), self.client.makefile("rb") as requests:
            while len(size := requests.read(4)) == 4:
                request = requests.read(int.from_bytes(size, "big"))
                self.last = Header.of(request)
                for stall in self.relay.stalls:
                    if stall.catches(self.last):
                        stall.over.wait()
                self.server.sendall(size + request)
        with suppress(OSError):
            self.server.shutdown(socket.SHUT_WR)

    def pass_answers(self) -> None:
        with suppress(OSError):
            while answer := self.server.recv(65536):
                for stall in self.relay.stalls:
                    if stall.answers and self.last is not None and stall.match(self.last):
                        stall.over.wait()
                self.client.sendall(answer)
        with suppress(OSError):
            self.client.shutdown(socket.SHUT_RDWR)


@contextmanager
def relay(target: int) -> Generator[Relay]:
    """A relay to this port of the loopback address, as long as the block lasts."""
    running = Relay(target)
    accepting = _start(running.run)
    try:
        yield running
    finally:
        with suppress(OSError):
            running.listener.shutdown(socket.SHUT_RDWR)  # wakes who waits for connections
        accepting.join(SECONDS_TO_END)
        running.listener.close()
        for stall in running.stalls:
            stall.end()
        for thread in running.threads:
            thread.join(SECONDS_TO_END)


def _start(run: Callable[..., None], *arguments: object) -> threading.Thread:
    thread = threading.Thread(target=run, args=arguments, daemon=True)
    thread.start()
    return thread
