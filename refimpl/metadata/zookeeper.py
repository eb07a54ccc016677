"""ZooKeeper as a metadata store: kazoo's socket thread, and one asyncio loop.

The socket thread puts answers, events and changes of state on the loop at once, so a node receives
them in the order of the socket. kazoo's own two queues would not keep that order, its helpers
answer over one more hop, and its retries would repeat conditional writes: none of them is used.
This module adds two things that kazoo does not do:

- a request is refused while the connection is down. kazoo keeps it for the next connection, where
  it would be applied after its sender got an unknown outcome;
- the timeout that the server grants is known, which may differ from the one asked for.

A session goes on until a server reports its end, even if none can be reached for long: an ensemble
that was down gives every session its whole timeout again. `Suspended` informs its owner that it is
cut off, and the owner does not count on the session meanwhile.

Source: kazoo 2.11 (`client.py`, `protocol/connection.py`); the ZooKeeper Programmer's Guide.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from attrs import define, field

from refimpl.metadata import kazoo_client as kazoo
from refimpl.metadata.contract import (
    Children,
    Connected,
    Data,
    EventType,
    Exists,
    Expired,
    GetChildren,
    GetData,
    Operation,
    Output,
    Result,
    StoreRequest,
    StoreResponse,
    Suspended,
)
from refimpl.metadata.errors import ConnectionLoss, SessionExpired, StoreError, StoreRefusal
from refimpl.metadata.kazoo_messages import NO_ANSWER, Messages
from refimpl.metadata.paths import must_be_valid


@define(eq=False)
class ZooKeeperStore:
    """One session after another on a ZooKeeper ensemble; a `MetadataStore`.

    `hosts` is `HOST:PORT,HOST:PORT`; all znodes are below `root`, which must exist. All methods
    belong to one asyncio loop.
    """

    hosts: str
    timeout_ms: int
    root: str = ""
    session_id: int = 0
    connected: bool = False
    _deliver: Callable[[Output], None] = field(init=False)
    _client: kazoo.Client = field(init=False)
    _loop: asyncio.AbstractEventLoop = field(init=False)
    _messages: Messages = field(init=False)
    _granted_ms: int = 0
    _closing: bool = False
    _pending: dict[int, Operation] = field(factory=dict[int, Operation])
    _data_watches: set[str] = field(factory=set[str])
    _child_watches: set[str] = field(factory=set[str])

    def start(self, deliver: Callable[[Output], None]) -> None:
        """Open the session; `Connected` will be delivered."""
        self._deliver, self._loop = deliver, asyncio.get_running_loop()
        self._messages = Messages(self.root, self._data_event, self._child_event)
        self._open()

    def send(self, request: StoreRequest) -> None:
        """Send an operation; exactly one `Response` with its number will be delivered."""
        number, operation = request.number, request.operation
        try:
            must_be_valid(operation)
        except StoreRefusal as refused:
            self._loop.call_soon(self._deliver, StoreResponse(number, refused))
            return
        if not self.connected:
            self._loop.call_soon(self._deliver, StoreResponse(number, ConnectionLoss()))
            return
        self._pending[number] = operation
        client = self._client
        client.ask(
            self._messages.encoded(operation),
            lambda value: self._loop.call_soon_threadsafe(self._answered, client, number, value),
        )

    async def close(self) -> None:
        """End the session: its ephemeral znodes are deleted now, or, if cut off, when it
        expires.
        """
        self._closing = True
        await asyncio.to_thread(self._client.end)
        await asyncio.sleep(0)  # messages of the socket thread come first
        self._ended(SessionExpired(self.session_id))

    # The connection

    def _open(self) -> None:
        self._client = kazoo.Client(self.hosts, self.timeout_ms, self._post)
        self._client.start_async()

    def _post(self, client: kazoo.Client, state: str, session_id: int, granted_ms: int) -> None:
        """Pass a new state to the loop; called on the socket thread."""
        self._loop.call_soon_threadsafe(self._changed, client, state, session_id, granted_ms)

    def _changed(self, client: kazoo.Client, state: str, session_id: int, granted_ms: int) -> None:
        if client is not self._client or self._closing:
            return
        match state:
            case kazoo.CONNECTED:
                self.connected, self.session_id = True, session_id
                self._granted_ms = granted_ms
                self._deliver(Connected(session_id, granted_ms))
            case kazoo.EXPIRED:
                self._ended(SessionExpired(self.session_id))
            case _ if self.connected:
                self.connected = False
                self._forget(ConnectionLoss())
                self._deliver(Suspended())
            case _:
                pass

    def _ended(self, error: StoreError) -> None:
        self.connected = False
        self._forget(error)
        if self.session_id:
            self.session_id = 0
            self._deliver(Expired())

    def _forget(self, error: StoreError) -> None:
        """Answer all operations under way; no watch is armed any more."""
        pending, self._pending = self._pending, {}
        for number in pending:
            self._deliver(StoreResponse(number, error))
        self._data_watches.clear()
        self._child_watches.clear()

    # Answers and events

    def _answered(self, client: kazoo.Client, number: int, value: Any) -> None:
        operation = self._pending.get(number)
        if client is not self._client or operation is None or isinstance(value, NO_ANSWER):
            return  # of a connection that is lost: `_forget` answers, or has answered
        del self._pending[number]
        result = self._messages.decoded(operation, value)
        self._arm(operation, result)
        self._deliver(StoreResponse(number, result))

    def _arm(self, operation: Operation, result: Result | StoreError) -> None:
        match operation:
            case GetData(watch=True) if isinstance(result, Data):
                self._data_watches.add(operation.path)
            case Exists(watch=True) if not isinstance(result, StoreError):
                self._data_watches.add(operation.path)
            case GetChildren(watch=True) if isinstance(result, Children):
                self._child_watches.add(operation.path)
            case _:
                pass

    def _data_event(self, fired: Any) -> None:
        """A data watch has fired; a deletion fires the child watch as well."""
        event = self._messages.event(fired)
        if event is not None and event.path in self._data_watches:
            self._data_watches.discard(event.path)
            if event.type is EventType.DELETED:
                self._child_watches.discard(event.path)
            self._deliver(event)

    def _child_event(self, fired: Any) -> None:
        """A child watch has fired; a deletion that was reported already is not repeated."""
        event = self._messages.event(fired)
        if event is not None and event.path in self._child_watches:
            self._child_watches.discard(event.path)
            self._deliver(event)
