"""The limits of a listener's clients, and one connection's share of the memory for them all."""

from collections.abc import Callable, Iterable

from attrs import define, field, frozen

from refimpl.configs import Configs
from refimpl.edge.server.memory import Budget
from refimpl.edge.server.received import Received

IN_FLIGHT = 64
IN_FLIGHT_BYTES = 4 << 20
"""Of one connection: while this much waits for answers, the next request waits to begin."""


@frozen(kw_only=True)
class Limits:
    """The limits of a listener's clients, by Kafka's names where it has one."""

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


def limits_of(configs: Configs) -> Limits:
    """The limits by the settings of a broker."""

    def number(name: str) -> int:
        return int(str(configs[name]))

    queued = number("queued.max.request.bytes")
    defaults = Limits()
    return Limits(
        request_max_bytes=number("socket.request.max.bytes"),
        queued_max_request_bytes=queued if queued > 0 else defaults.queued_max_request_bytes,
        connections_max_idle_ms=number("connections.max.idle.ms"),
        max_connections=number("max.connections"),
    )


@define(eq=False)
class Share:
    """The memory of one connection: for the frame that it receives, and for its requests.

    A large frame takes its room before it is received, any other one before it is handled. Either
    keeps it until it is answered.
    """

    #: For large frames of all connections, and for all other requests
    frames: Budget
    requests: Budget
    #: Called once room that was not there has been taken, to receive or to begin
    may_receive: Callable[[], None]
    may_begin: Callable[[], None]
    #: Bytes taken for the frame that is being received
    reserved: int = field(default=0, init=False)
    #: Bytes of requests that wait for their answers
    in_flight: int = field(default=0, init=False)
    #: A large frame waits for its room
    waits_to_receive: bool = field(default=False, init=False)
    _receives: int = field(default=0, init=False)  # bytes that it waits for
    _waits_to_begin: bool = field(default=False, init=False)
    _begins: int = field(default=0, init=False)  # bytes that the next request waits for, or has
    _granted: int = field(default=0, init=False)  # bytes that the next request has been granted

    def reserve(self, size: int) -> bool:
        """Take room for a large frame; if there is none, it is taken later."""
        if self.frames.take(size, self._reserved_later):
            self.reserved = size
        else:
            self.waits_to_receive, self._receives = True, size
        return not self.waits_to_receive

    def _reserved_later(self) -> None:
        self.waits_to_receive, self.reserved = False, self._receives
        self.may_receive()

    def received(self) -> int:
        """The frame is whole; answers the bytes that were reserved for it."""
        reserved, self.reserved = self.reserved, 0
        return reserved

    def give_back(self, reserved: int) -> None:
        """A large frame is gone that was no request."""
        self.frames.give_back(reserved)

    def admits(self, size: int) -> bool:
        """Take room for a frame that came without asking; if there is none, it is taken later."""
        if self._granted == size:
            self._granted = 0
            return True
        if self._waits_to_begin:
            return False
        if self.requests.take(size, self._admitted_later):
            return True
        self._waits_to_begin, self._begins = True, size
        return False

    def _admitted_later(self) -> None:
        self._waits_to_begin, self._granted = False, self._begins
        self.may_begin()

    def has_room_beside(self, requests: int) -> bool:
        """True if another request may begin while so many wait for their answers."""
        return requests < IN_FLIGHT and self.in_flight < IN_FLIGHT_BYTES

    def answered(self, request: Received) -> None:
        """Give back the room of a request."""
        self.in_flight -= request.size
        request.budget.give_back(request.size)

    def end(self, requests: Iterable[Received], waiting: int) -> None:
        """The connection is gone: give back all of its room.

        That is the room of its requests, and of frames that wait, for which so much was reserved.
        """
        if self.waits_to_receive:
            self.frames.forget(self._reserved_later)
        if self._waits_to_begin:
            self.requests.forget(self._admitted_later)
        self.requests.give_back(self._granted)
        for request in requests:
            request.budget.give_back(request.size)
        self.frames.give_back(self.received() + waiting)
