"""The client's end of an embedded store: one session after another, over connections that break.

It is deterministic and knows no clock: the host carries its frames, in order for each connection,
and wakes it at the times it asks for. A node receives the contract's `Output` from it, as from any
store.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

from attrs import define, field, frozen

from refimpl.metadata.contract import (
    Connected,
    Expired,
    Output,
    StoreRequest,
    StoreResponse,
    Suspended,
    WatchEvent,
)
from refimpl.metadata.embedded import (
    CloseSession,
    Connect,
    ConnectionLost,
    Frame,
    Ping,
    SessionConnection,
)
from refimpl.metadata.errors import ConnectionLoss, SessionExpired, StoreError


@frozen
class Wake:
    """As an output: call `wake` at this time, in ms; it replaces an earlier one."""

    at_ms: int


ClientOutput: TypeAlias = Output | Frame | Wake


@define(eq=False)
class StoreClient:
    """A session, kept alive by pings, and opened anew when it is over.

    After two thirds of the timeout without a frame the connection is given up, as ZooKeeper's
    clients do. Only the store can end the session. A store that was down gives every session its
    whole timeout again, so a session may outlive any silence.
    """

    client: int
    timeout_ms: int
    session_id: int = 0
    connected: bool = False
    closing: bool = False
    _connection: int = 0
    _sent: int = 0
    _next: int = 1
    _heard_at: int = 0
    _spoke_at: int = 0
    _tried_at: int = 0
    _suspended: bool = False
    _given_up: bool = False
    _pending: list[int] = field(factory=list[int])
    _outputs: list[ClientOutput] = field(factory=list[ClientOutput])

    def start(self, now: int) -> Sequence[ClientOutput]:
        """Open the first connection."""
        self._heard_at = now
        self._open(now)
        return self._done(now)

    def send(self, now: int, request: StoreRequest) -> Sequence[ClientOutput]:
        """Send an operation; without a connection it fails at once."""
        if self.connected and not self.closing:
            self._pending.append(request.number)
            self._frame(now, request)
        else:
            self._outputs.append(StoreResponse(request.number, ConnectionLoss()))
        return self._done(now)

    def close(self, now: int) -> Sequence[ClientOutput]:
        """End the session; `Expired` follows, and no other session is opened."""
        self.closing = True
        if self.connected:
            self._frame(now, CloseSession())
        return self._done(now)

    def receive(self, now: int, frame: Frame) -> Sequence[ClientOutput]:
        """Take a frame of the store; one of an earlier connection, or a second copy, is ignored."""
        if frame.connection == self.connection and not self._given_up:
            if isinstance(frame.body, ConnectionLost) or frame.number > self._next:
                self._lose(now)
            elif frame.number == self._next:
                self._next += 1
                self._heard_at = now
                self._take(frame.body)
                if not self.session_id and not self.closing:
                    self._open(now)
        return self._done(now)

    def wake(self, now: int) -> Sequence[ClientOutput]:
        """Do the work that is due: give up a silent connection, ping, or connect again."""
        silence = now - self._heard_at
        if self.connected and silence >= self.timeout_ms * 2 // 3:
            self._lose(now)
        elif self.connected and now - self._spoke_at >= self.timeout_ms // 3:
            self._frame(now, Ping())
        elif not self.connected and not self.closing and now - self._tried_at >= self._patience:
            self._open(now)
        return self._done(now)

    @property
    def connection(self) -> SessionConnection:
        """The connection in use, or the last one."""
        return SessionConnection(self.client, self._connection)

    @property
    def _patience(self) -> int:
        return max(1, self.timeout_ms // 6)

    def _take(self, body: Any) -> None:
        match body:
            case Connected():
                self.session_id, self.timeout_ms = body.session_id, body.timeout_ms
                self.connected, self._suspended = True, False
                self._outputs.append(body)
            case StoreResponse():
                self._pending.remove(body.number)
                self._outputs.append(body)
            case WatchEvent():
                self._outputs.append(body)
            case Expired():
                self._end()
            case _:
                pass  # a ping, and it was received

    def _open(self, now: int) -> None:
        """Open a connection; later frames of the last one are ignored."""
        self._connection += 1
        self._given_up = False
        self._sent, self._next, self._tried_at = 0, 1, now
        self._frame(now, Connect(self.session_id, self.timeout_ms))

    def _lose(self, now: int) -> None:
        """Give up the connection: operations under way have an unknown outcome, later frames are
        ignored.
        """
        self._given_up = True
        was_connected, self.connected = self.connected, False
        self._fail(ConnectionLoss())
        if was_connected and not self._suspended:
            self._suspended = True
            self._outputs.append(Suspended())
            self._tried_at = now - self._patience

    def _end(self) -> None:
        """End the session."""
        if self.session_id:
            self._fail(SessionExpired(self.session_id))
            self.session_id, self.connected, self._suspended = 0, False, False
            self._outputs.append(Expired())

    def _fail(self, error: StoreError) -> None:
        pending, self._pending = self._pending, []
        self._outputs.extend(StoreResponse(number, error) for number in pending)

    def _frame(self, now: int, body: Any) -> None:
        self._sent += 1
        self._spoke_at = now
        self._outputs.append(Frame(self.connection, self._sent, body))

    def _done(self, now: int) -> Sequence[ClientOutput]:
        """The outputs so far, with the next wake last."""
        if self.connected:
            until = min(
                self._spoke_at + self.timeout_ms // 3, self._heard_at + self.timeout_ms * 2 // 3
            )
        else:
            until = self._tried_at + self._patience
        outputs, self._outputs = self._outputs, []
        if not (self.closing and not self.connected):
            outputs.append(Wake(max(until, now + 1)))
        return outputs
