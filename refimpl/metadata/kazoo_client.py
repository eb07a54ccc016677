"""A minimal use of kazoo: its connection and its session, without its helpers.

kazoo has no types; only this module and `kazoo_messages` use it.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol, cast

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, WriterNotClosedException
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.serialization import Connect
from kazoo.protocol.states import KeeperState

log = logging.getLogger("refimpl.metadata.kazoo")
log.addHandler(logging.NullHandler())  # a lost connection is reported as `Suspended`
RETRY_AT_MOST_S = 0.5
CONNECTED, EXPIRED = KeeperState.CONNECTED, KeeperState.EXPIRED_SESSION


class Post(Protocol):
    """A callback for each new state, on the socket thread, with the session's id and timeout."""

    def __call__(self, client: "Client", state: str, session_id: int, granted_ms: int) -> None:
        """Take a new state; it must not call kazoo."""
        ...


class Handler(SequentialThreadingHandler):
    """kazoo's handler without its helper threads: events go to the loop at once."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.loop = loop

    def start(self) -> None:
        self._running = True

    def stop(self) -> None:
        self._running = False

    def dispatch_callback(self, callback: Any) -> None:
        self.loop.call_soon_threadsafe(callback.func, *callback.args)


class Result:
    """The object that kazoo puts an answer into."""

    def __init__(self, put: Callable[[Any], Any]) -> None:
        self.set_exception = put
        self._put = put

    def set(self, value: Any = None) -> None:
        self._put(value)


class Client(KazooClient):
    """kazoo's client, with each state reported, and its queue closed when it is cut off."""

    def __init__(self, hosts: str, timeout_ms: int, post: Post) -> None:
        self.gate, self.post, self.granted_ms = threading.RLock(), post, timeout_ms
        super().__init__(
            hosts,
            timeout=timeout_ms / 1000,
            handler=Handler(asyncio.get_running_loop()),
            connection_retry={"max_tries": -1, "max_delay": RETRY_AT_MOST_S},
            logger=log,
        )
        connection: Any = self._connection
        invoke = connection._invoke

        def note_time_out(timeout: float, request: Any, xid: int | None = None) -> Any:
            result = invoke(timeout, request, xid)
            if isinstance(request, Connect):
                self.granted_ms = result[0].time_out
            return result

        connection._invoke = note_time_out

    def ask(self, request: Any, put: Callable[[Any], Any]) -> None:
        """Send a request on the present connection, or fail it at once."""
        with self.gate:
            if self._state == CONNECTED:
                self._call(request, Result(put))
            else:
                put(ConnectionLoss())

    def end(self) -> None:
        """Close the session, if there is a connection, and everything that belongs to it."""
        with suppress(WriterNotClosedException):  # its thread is about to end
            self.stop()
            self.close()

    def _session_callback(self, state: str) -> None:
        """Take a new state of kazoo's socket thread; kazoo first fails the requests under way."""
        with self.gate:
            before: str = self._state
            session_id = cast("int | None", self._session_id)
            super()._session_callback(state)
            if state != before:
                self.post(self, state, session_id or 0, self.granted_ms)
