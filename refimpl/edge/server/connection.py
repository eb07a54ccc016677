"""One connection of a client: frames in, responses out in the order of the requests.

As in Kafka a connection's next request is handled once the last one is answered, but for Produce
requests in a row, which all go to the node at once and wait for their acknowledgements together.
What one connection may hold is bounded: it is not read from while requests wait, and nothing is
handled for it while it does not read its answers.
"""

import asyncio
import socket
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, cast

from attrs import define

from refimpl.api.dispatch import dispatch, served
from refimpl.api.table import Api
from refimpl.edge.server.failing import failing, with_errors
from refimpl.edge.server.faults import client_of
from refimpl.edge.server.memory import Budget
from refimpl.wire.errors import WireError
from refimpl.wire.framing import Buffer, FrameReader

if TYPE_CHECKING:
    from refimpl.edge.server.listener import Listener

PRODUCE = 0
IN_FLIGHT = 64
IN_FLIGHT_BYTES = 4 << 20
"""Of one connection: while this much waits for answers, the next request waits to begin."""
UNSENT = 1 << 20
GATHERED = 1 << 15
"""Answers that are ready wait for others until they are so large together."""

#: Where bytes of any connection are received; `feed` copies them before the next ones come
_SHARED = memoryview(bytearray(1 << 18))


@define(eq=False)
class Received:
    """A request, which faults may hold back, and the place of its response among the others.

    It takes so much of a budget, until it is answered and all before it are.
    """

    connection: "Connection"
    api: Api
    frame: Buffer
    size: int
    budget: Budget
    #: What faults do to it: refuse it with this error, or keep its answer
    error: str | None = None
    is_answered: bool = True
    #: The connection ends in place of the answer
    disconnects: bool = False
    done: bool = False
    parts: list[Buffer] | None = None

    def begin(self) -> None:
        """Hand it to the broker. An error of ours ends the connection, and nothing else."""
        connection = self.connection
        if connection.transport is None:
            return
        listener = connection.listener
        broker, change = listener.broker, None
        if self.error is not None:
            broker, change = failing(broker, self.error), partial(with_errors, error=self.error)
        if listener.watch is not None:
            listener.client_id = client_of(self)
        frame, self.frame = self.frame, b""  # what the node keeps of it is enough
        host, mute = connection.host, connection.mute
        try:
            dispatch(broker, self.api, frame, host, self.answer, mute, change)
        except WireError as error:
            connection.refuse(error)
        except Exception as error:
            listener.failed(self.api, error)
            connection.end()

    def answer(self, parts: list[Buffer] | None) -> None:
        """Its response, or None for none."""
        if self.disconnects:
            self.connection.end()
        elif self.is_answered:
            self.connection.answered(self, parts)


class Connection(asyncio.BufferedProtocol):
    """One client, until it goes or breaks the protocol."""

    def __init__(self, listener: "Listener") -> None:
        self.listener = listener
        self.reader = FrameReader(listener.limits.request_max_bytes)
        self.transport: asyncio.Transport | None = None
        self.host = ""
        self.active_at = 0.0
        self._waiting = deque[tuple[Buffer, int]]()
        self._slots = deque[Received]()
        self._answers: list[Buffer] = []  # until they are sent together
        self._answered_bytes = 0  # of these
        self._turning = self._sends_soon = False
        self._reserved = 0  # for the frame that is being received
        self._in_flight = 0  # bytes of requests that wait for their answers
        self._begins = 0  # of these, what the next request has been granted
        self._asking = self._asking_to_begin = False
        self._reading = self._writable = True
        self._is_refused = False
        self._muted = 0

    # Bytes

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has come."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=UNSENT)
        self.host = (transport.get_extra_info("peername") or ("",))[0]
        connected: socket.socket | None = transport.get_extra_info("socket")
        if connected is not None:  # whose host is gone, and waits for an answer, is found out
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.active_at = asyncio.get_running_loop().time()
        self.listener.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """It has gone: its answers go nowhere."""
        self.transport = None
        self.listener.closed(self)
        budget = self._budget
        if self._asking:
            budget.forget(self._granted)
        if self._asking_to_begin:
            self.listener.in_flight.forget(self._granted_to_begin)
        self.listener.in_flight.give_back(self._begins)
        slots, self._slots = self._slots, deque[Received]()
        given = self._reserved + sum(reserved for _, reserved in self._waiting)
        self._waiting.clear()
        self._reserved = 0
        for slot in slots:
            slot.budget.give_back(slot.size)
        budget.give_back(given)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go."""
        return self.reader.space() or _SHARED

    def buffer_updated(self, nbytes: int) -> None:
        """So many have come."""
        self.active_at = self.listener.time()
        reader = self.reader
        try:
            frames = reader.filled(nbytes) if reader.size else reader.feed(_SHARED[:nbytes])
        except WireError as error:
            self.refuse(error)
            return
        for frame in frames:
            self._waiting.append((frame, self._reserved))
            self._reserved = 0
        if reader.size and not self._reserved and not self._asking:
            self._reserve(reader.size)
        if self._waiting:
            self.turn()

    @property
    def _budget(self) -> Budget:
        return self.listener.budget

    def _reserve(self, size: int) -> None:
        """Room for a large frame, or no more reading until there is some."""
        if self._budget.take(size, self._granted):
            self._reserved = size
        else:
            self._asking = True
            self._read_or_not()

    def _granted(self) -> None:
        self._asking, self._reserved = False, self.reader.size
        self._read_or_not()

    def _room_to_begin(self, frame: Buffer) -> bool:
        """Room for a frame that came without asking, from now until it is answered."""
        if self._begins == len(frame):  # granted since
            self._begins = 0
            return True
        if self._asking_to_begin:
            return False
        if self.listener.in_flight.take(len(frame), self._granted_to_begin):
            return True
        self._asking_to_begin = True
        return False

    def _granted_to_begin(self) -> None:
        self._asking_to_begin = False
        self._begins = len(self._waiting[0][0])
        asyncio.get_running_loop().call_soon(self.turn)

    # Requests

    def turn(self) -> None:
        """Handle what may be handled now, and send what could be answered at once."""
        self._turning = True
        try:
            self._handle_waiting()
        finally:
            self._turning = False
            self._send()
        self._read_or_not()

    def _handle_waiting(self) -> None:
        while self._waiting and self.transport is not None:
            frame, reserved = self._waiting[0]
            try:
                api = served(frame)
            except WireError as error:
                self.refuse(error)
                return
            if not self._may_begin(api.key):
                break
            if not reserved and not self._room_to_begin(frame):
                break
            self._waiting.popleft()
            budget = self._budget if reserved else self.listener.in_flight
            received = Received(self, api, frame, len(frame), budget)
            self._slots.append(received)
            self._in_flight += received.size
            self.listener.handle(received)

    def _may_begin(self, api_key: int) -> bool:
        slots = self._slots
        if not self._writable or self._muted or self.listener.paused:
            return False
        if not slots:
            return True
        in_a_row = api_key == PRODUCE and slots[-1].api.key == PRODUCE
        return in_a_row and len(slots) < IN_FLIGHT and self._in_flight < IN_FLIGHT_BYTES

    def answered(self, received: Received, parts: list[Buffer] | None) -> None:
        """The answer to a request: it goes out once all before it have."""
        received.done, received.parts = True, parts
        slots = self._slots
        while slots and slots[0].done:
            first = slots.popleft()
            self._in_flight -= first.size
            first.budget.give_back(first.size)
            if first.parts:
                self._answers += first.parts
                self._answered_bytes += sum(map(len, first.parts))
        if self.transport is None:
            return
        if self._answered_bytes > GATHERED:
            self._send()
        if self._turning:
            return
        if self._waiting:
            asyncio.get_running_loop().call_soon(self.turn)
        elif self._answers and not self._sends_soon:
            self._sends_soon = True
            asyncio.get_running_loop().call_soon(self._send)

    def _send(self) -> None:
        """Send the answers that there are by now: a call of the system for each would cost as much
        as a small request does."""
        self._sends_soon = False
        answers, self._answers, self._answered_bytes = self._answers, [], 0
        if answers and self.transport is not None and not self.transport.is_closing():
            self.transport.writelines(answers)

    def mute(self, time_ms: int) -> None:
        """Handle nothing more for so long: the client is above a quota (KIP-219)."""
        self._muted += 1
        asyncio.get_running_loop().call_later(time_ms / 1000, self._unmute)

    def _unmute(self) -> None:
        self._muted -= 1
        if self.transport is not None:
            self.turn()

    def refuse(self, error: WireError) -> None:
        """This is not Kafka's protocol, or not for us: the connection ends."""
        self.listener.refused(self, error)
        self.end()

    def end(self) -> None:
        """End it behind the answers that are there already."""
        self._send()
        self.abort()

    def refuse_after(self, time_ms: int) -> None:
        """Read nothing, and end it after so long: who connects too often shall not try again at
        once."""
        if self.transport is not None:
            self._is_refused = True
            self._read_or_not()
            asyncio.get_running_loop().call_later(time_ms / 1000, self.abort)

    def abort(self) -> None:
        """End it at once; what waits to be sent is dropped."""
        if self.transport is not None:
            self.transport.abort()

    # Neither more in than can be handled, nor more out than is read

    def pause_writing(self) -> None:
        """The client does not read its answers."""
        self._writable = False
        self.listener.unsent(self)

    def resume_writing(self) -> None:
        """It does again."""
        self._writable = True
        self.active_at = self.listener.time()
        self.turn()

    def _read_or_not(self) -> None:
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        held = self._waiting or self._asking or self._is_refused or self.listener.paused
        wanted = not held
        if wanted != self._reading:
            self._reading = wanted
            (transport.resume_reading if wanted else transport.pause_reading)()

    @property
    def unsent_bytes(self) -> int:
        """How much of its answers waits for the client."""
        return 0 if self.transport is None else self.transport.get_write_buffer_size()

    @property
    def holds_memory(self) -> bool:
        """Whether the rest of a large frame is waited for, with memory for all of it."""
        return self._reserved > 0

    def idle_since(self) -> float:
        """When it last did something, or now if it waits for us."""
        return self.listener.time() if self._slots and self._writable else self.active_at
