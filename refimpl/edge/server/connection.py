"""One connection of a client: frames in, responses out in the order of the requests.

As in Kafka a connection's next request is handled once the last one is answered, but for Produce
requests in a row, which all go to the node at once and wait for their acknowledgements together.
What one connection may hold is bounded: it is not read from while requests wait, and nothing is
handled for it while it does not read its answers.
"""

import asyncio
import socket
from collections import deque
from contextlib import suppress
from typing import Protocol, cast

from refimpl.api.call import Session
from refimpl.api.dispatch import served
from refimpl.api.login import Login, LoginRefused, begins_login
from refimpl.edge.server.arrivals import Arrivals
from refimpl.edge.server.limits import Limits, Share
from refimpl.edge.server.memory import Budget
from refimpl.edge.server.received import Received
from refimpl.edge.server.security import ListenerSecurity
from refimpl.security.sasl import SaslWaits
from refimpl.wire.errors import WireError
from refimpl.wire.framing import Buffer, FrameReader

PRODUCE = 0
UNSENT = 1 << 20
GATHERED = 1 << 15
"""Answers that are ready wait for others until they are so large together."""

#: Where bytes of any connection are received; `feed` copies them before the next ones come
_SHARED = memoryview(bytearray(1 << 18))


class Acceptor(Protocol):
    """The listener that accepted a connection."""

    limits: Limits
    #: For large frames, and for all other requests, of all connections
    budget: Budget
    in_flight: Budget
    paused: bool
    #: None where anybody may come, and nothing is encrypted
    security: ListenerSecurity | None

    def now_ms(self) -> int:
        """The time in ms since 1970."""
        ...

    def login(self, before: tuple[str, str] | None) -> Login:
        """A login of a client, whose last one on this connection may have been another."""
        ...

    def login_refused(self, connection: "Connection", why: str) -> None:
        """A login has failed."""

    def opened(self, connection: "Connection") -> None:
        """It has begun."""

    def closed(self, connection: "Connection") -> None:
        """It is gone."""

    def handle(self, received: Received) -> None:
        """A request has come by it."""

    def begin(self, received: Received) -> None:
        """Hand a request to the broker."""

    def refused(self, connection: "Connection", error: WireError) -> None:
        """It ends because of this error."""

    def unsent(self, connection: "Connection") -> None:
        """Its client does not read."""

    def time(self) -> float:
        """The event loop's time in seconds."""
        ...


class Connection(asyncio.BufferedProtocol):
    """One client, until it goes or breaks the protocol."""

    def __init__(self, listener: Acceptor) -> None:
        self.listener = listener
        self.reader = FrameReader(listener.limits.request_max_bytes)
        self.transport: asyncio.Transport | None = None
        self.host, self._port = "", 0
        #: Differs from those of all other connections
        self.number = 0
        #: True once a share session may be bound to it
        self.has_session = False
        self.session = Session()
        #: Under way; None once it is done, and where there is none
        self._login: Login | None = None
        self._logged_in: Login | None = None
        self.active_at = 0.0
        self._waiting = deque[tuple[Buffer, int]]()
        self._slots = deque[Received]()
        #: Requests that the broker does not have yet, for a fault holds one of them back
        self.arrivals = Arrivals[Received](self._begin)
        self._answers: list[Buffer] = []  # until they are sent together
        self._answered_bytes = 0  # of these
        self._turning = self._sends_soon = False
        budgets = listener.budget, listener.in_flight
        self._share = Share(*budgets, self._read_or_not, self._turn_soon)
        self._reading = self._writable = True
        self._is_refused = self._awaits_keys = False
        self._muted = 0

    # Bytes

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has come."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=UNSENT)
        self.host, self._port, *_ = transport.get_extra_info("peername") or ("", 0)
        self._secure()
        connected: socket.socket | None = transport.get_extra_info("socket")
        if connected is not None:  # whose host is gone, and waits for an answer, is found out
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.active_at = asyncio.get_running_loop().time()
        self.listener.opened(self)

    def _secure(self) -> None:
        """Take the principal of its certificate, or begin a login."""
        security = self.listener.security
        if security is None:
            self.session = Session(self.host, port=self._port)
            return
        principal = security.principal_of(self.transport)
        self.session = Session(self.host, principal, security.name, self._port)
        if security.mechanisms is not None:
            self._login = self.listener.login(None)
            self.reader.limit = min(self.reader.limit, security.max_receive_bytes)

    def connection_lost(self, exc: Exception | None) -> None:
        """It has gone: its answers go nowhere."""
        self.transport = None
        self.listener.closed(self)
        slots, self._slots = self._slots, deque[Received]()
        waiting = sum(reserved for _, reserved in self._waiting)
        self._waiting.clear()
        self._share.end(slots, waiting)

    def get_buffer(self, sizehint: int) -> memoryview:
        """The place of the next bytes."""
        return self.reader.space() or _SHARED

    def buffer_updated(self, nbytes: int) -> None:
        """So many have come."""
        self.active_at = self.listener.time()
        reader, share = self.reader, self._share
        try:
            frames = reader.filled(nbytes) if reader.size else reader.feed(_SHARED[:nbytes])
        except WireError as error:
            self.refuse(error)
            return
        for frame in frames:
            self._waiting.append((frame, share.received()))
        asks = reader.size and not share.reserved and not share.waits_to_receive
        if asks and not share.reserve(reader.size):
            self._read_or_not()
        if self._waiting:
            self.turn()

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

    def _turn_soon(self) -> None:
        asyncio.get_running_loop().call_soon(self.turn)

    def _handle_waiting(self) -> None:
        while self._waiting and self.transport is not None and not self._awaits_keys:
            frame, reserved = self._waiting[0]
            if self.listener.security is not None and self._logs_in(frame):
                continue
            try:
                api = served(frame)
            except WireError as error:
                self.refuse(error)
                return
            if not self._may_begin(api.key):
                break
            if not reserved and not self._share.admits(len(frame)):
                break
            self._waiting.popleft()
            budget = self.listener.budget if reserved else self.listener.in_flight
            received = Received(self, api, frame, len(frame), budget)
            self._slots.append(received)
            self._share.in_flight += received.size
            self.listener.handle(received)

    # Logins

    def _logs_in(self, frame: Buffer) -> bool:
        """True if this frame was part of a login, or ends the connection: it is dealt with.

        One that waits for the answers before it is looked at again.
        """
        login, done, now = self._login, self._logged_in, self.listener.now_ms()
        if login is None and done is not None:
            if begins_login(frame) and done.may_repeat(now) and not self._slots:
                assert done.principal is not None
                login = self._login = self.listener.login((done.mechanism, done.principal))
            elif done.expires_ms is not None and now >= done.expires_ms and not self._slots:
                self.end()  # as Kafka does to who should have logged in again by now
                self._waiting.clear()
                return True
        if login is None:
            return False
        try:
            answers = login.take(frame, now)
        except SaslWaits as keys:
            self._wait_for(keys)
            return True
        except (LoginRefused, WireError) as refused:
            self._dealt_with()
            if isinstance(refused, WireError):
                self.refuse(refused)
            else:
                self._answers += refused.answer or ()
                self._end_login(str(refused))
            return True
        self._dealt_with()
        self._answers += answers
        if login.principal is not None:
            before = self.session
            software = before.software if self._logged_in else login.session.software
            who = self.host, login.principal, before.listener, before.port
            self.session = Session(*who, software)
            self._login, self._logged_in = None, login
            self.reader.limit = self.listener.limits.request_max_bytes
        return True

    def _dealt_with(self) -> None:
        """A frame of a login has been taken."""
        _, reserved = self._waiting.popleft()
        self._share.give_back(reserved)

    def _wait_for(self, keys: SaslWaits) -> None:
        """Handle nothing until the keys have been read, by whichever thread reads them."""
        self._awaits_keys, loop = True, asyncio.get_running_loop()

        def there() -> None:
            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(self._have_keys)

        keys.then(there)

    def _have_keys(self) -> None:
        self._awaits_keys = False
        if self.transport is not None:
            self.turn()

    def _end_login(self, why: str) -> None:
        """The answer goes out, and nothing more is read; the end comes a little later, so that who
        guesses passwords has to wait."""
        self.listener.login_refused(self, why)
        self._send()
        self._waiting.clear()
        security = self.listener.security
        assert security is not None
        self.refuse_after(security.failed_delay_ms)

    def _may_begin(self, api_key: int) -> bool:
        slots = self._slots
        if not self._writable or self._muted or self.listener.paused:
            return False
        if not slots:
            return True
        in_a_row = api_key == PRODUCE and slots[-1].api.key == PRODUCE
        return in_a_row and self._share.has_room_beside(len(slots))

    def _begin(self, received: Received) -> None:
        """Hand a request to the broker, unless nobody waits for its answer any more."""
        if self.transport is not None:
            self.listener.begin(received)

    def answered(self, received: Received, parts: list[Buffer] | None) -> None:
        """The answer to a request: it goes out once all before it have."""
        received.done, received.parts = True, parts
        slots = self._slots
        while slots and slots[0].done:
            first = slots.popleft()
            self._share.answered(first)
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
            self._turn_soon()
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
        """Read nothing, and end it after so long: a client that connects too often shall not try
        again at once."""
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
        held = (
            self._waiting
            or self._share.waits_to_receive
            or self._is_refused
            or self.listener.paused
        )
        wanted = not held
        if wanted != self._reading:
            self._reading = wanted
            (transport.resume_reading if wanted else transport.pause_reading)()

    @property
    def unsent_bytes(self) -> int:
        """Bytes of its answers that wait for the client."""
        return 0 if self.transport is None else self.transport.get_write_buffer_size()

    @property
    def holds_memory(self) -> bool:
        """True while it waits for the rest of a large frame, with memory for all of it."""
        return self._share.reserved > 0

    def idle_since(self) -> float:
        """The time at which it last did something, or now if it waits for us."""
        return self.listener.time() if self._slots and self._writable else self.active_at
