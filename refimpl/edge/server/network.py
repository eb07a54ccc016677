"""Messages between the nodes of one process, by memory; links may be cut, slow or lossy.

Faults have the simulator's names. A node is handed the next message when it has done with the last
one, never in the middle of it.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any

from attrs import define, field

from refimpl.messages.broker import Request, Response
from refimpl.messages.controller import CONTROLLER

Link = tuple[int, int]
"""From one node to another."""

#: How many messages are delivered before clients have their turn
_IN_A_ROW = 256
CUTS = ("all", "from", "to", "controller", "brokers", "to_brokers", "from_brokers", "one")
"""Which links of a broker are cut; "from" and "to" are seen from the broker."""


@define(eq=False, repr=False)
class Network:
    """The brokers of a cluster, the messages on their way, and the faults of links."""

    nodes: dict[int, Callable[[Any], None]] = field(factory=dict[int, Callable[[Any], None]])
    #: Told of the nodes to which a broker has lost its connection
    disconnected: dict[int, Callable[[int], None]] = field(factory=dict[int, Callable[[int], None]])
    cut: set[Link] = field(factory=set[Link])
    slow_ms: dict[Link, int] = field(factory=dict[Link, int])
    dropped: int = 0
    _queue: deque[Request | Response] = field(
        factory=lambda: deque[Request | Response](), init=False
    )
    #: The links on which something was dropped
    _lost: set[Link] = field(factory=set[Link], init=False)
    _running: bool = field(default=False, init=False)
    _scheduled: bool = field(default=False, init=False)

    def send(self, message: Request | Response) -> None:
        """Put a message on its way; it arrives by `run`, or later where links are slow."""
        link = message[0], message[1]
        if link in self.cut:
            self._drop(link)
        elif self.slow_ms and link in self.slow_ms:
            loop = asyncio.get_running_loop()
            loop.call_later(self.slow_ms[link] / 1000, self._arrive, message)
        else:
            self._queue.append(message)

    def leave(self, gone: int) -> None:
        """A process has ended, and with it its connections: whoever can hear of that does."""
        self.nodes.pop(gone, None)
        self.disconnected.pop(gone, None)
        for node, tell in list(self.disconnected.items()):
            if (gone, node) not in self.cut:
                tell(gone)

    def soon(self) -> None:
        """Deliver it once all clients' requests that have come by now are handled: what a hundred
        of them have appended goes to followers in one answer."""
        if self._queue and not (self._running or self._scheduled):
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._go_on)

    def run(self) -> None:
        """Deliver what is on its way, and what follows from it."""
        if self._running:
            return
        self._running = True
        queue = self._queue
        try:
            for _ in range(_IN_A_ROW):
                if not queue:
                    return
                message = queue.popleft()
                node = self.nodes.get(message[1])
                if node is not None:
                    node(message)
                elif message[0] in self.disconnected:  # nobody listens there
                    self.disconnected[message[0]](message[1])
        finally:
            self._running = False
            if queue and not self._scheduled:
                self._scheduled = True
                asyncio.get_running_loop().call_soon(self._go_on)

    @contextmanager
    def held(self) -> Generator[None]:
        """Deliver nothing inside the block: a node is in the middle of what it says."""
        was, self._running = self._running, True
        try:
            yield
        finally:
            self._running = was
            self.soon()

    def _go_on(self) -> None:
        self._scheduled = False
        self.run()

    def _arrive(self, message: Request | Response) -> None:
        link = message[0], message[1]
        if link in self.cut:
            self._drop(link)
            return
        self._queue.append(message)
        self.run()

    def _drop(self, link: Link) -> None:
        self.dropped += 1
        self._lost.add(link)

    # Faults

    def links(self, broker: int, how: str = "all", peer: int | None = None) -> set[Link]:
        """The links of a broker that a fault of this name is about. Raises ValueError."""
        brokers = [node for node in self.nodes if node not in (broker, CONTROLLER)]
        everybody = [CONTROLLER, *brokers]
        if how not in CUTS or (how == "one") != (peer is not None):
            raise ValueError(f"how: expected one of {', '.join(CUTS)}, found {how!r} of {peer}")
        ways: Mapping[str, tuple[Iterable[int], Iterable[int]]] = {
            "all": (everybody, everybody),
            "from": (everybody, ()),
            "to": ((), everybody),
            "controller": ([CONTROLLER], [CONTROLLER]),
            "brokers": (brokers, brokers),
            "from_brokers": ((), brokers),
            "to_brokers": (brokers, ()),
            "one": ([peer or 0], [peer or 0]),
        }
        to, come_from = ways[how]
        return {(broker, one) for one in to} | {(one, broker) for one in come_from}

    def heal(self) -> None:
        """All links are well.

        Where a message was dropped both ends lose their connection, so that nobody waits for an
        answer that does not come: a follower would, for replica.socket.timeout.ms.
        """
        self.cut.clear()
        self.slow_ms.clear()
        lost, self._lost = self._lost, set()
        for one, other in lost:
            for node, peer in ((one, other), (other, one)):
                if node in self.disconnected:
                    self.disconnected[node](peer)
