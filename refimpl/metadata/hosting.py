"""The embedded store on an asyncio loop, and awaitable operations on any store."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias

from attrs import define, field

from refimpl.metadata.client import ClientOutput, StoreClient, Wake
from refimpl.metadata.contract import (
    MetadataStore,
    Operation,
    Output,
    Result,
    SessionState,
    StoreRequest,
    StoreResponse,
    WatchEvent,
)
from refimpl.metadata.durable import DurableStore
from refimpl.metadata.embedded import EmbeddedStore, Frame
from refimpl.metadata.errors import StoreError

Deliver: TypeAlias = Callable[[Output], None]


@define(eq=False)
class EmbeddedServer:
    """An embedded store for the sessions of one process.

    All frames that the sessions send within one turn of the loop are handled together, and on a
    disk flushed together. The clock is the loop's.
    """

    store: EmbeddedStore | DurableStore = field(factory=EmbeddedStore)
    _sessions: "list[EmbeddedSession]" = field(factory=lambda: list[EmbeddedSession]())
    _inbox: list[Frame] = field(factory=list[Frame])
    _expiry: asyncio.TimerHandle | None = None

    def session(self, timeout_ms: int) -> "EmbeddedSession":
        """A new session, to be started."""
        session = EmbeddedSession(self, StoreClient(len(self._sessions), timeout_ms))
        self._sessions.append(session)
        return session

    def take(self, frame: Frame) -> None:
        """Take a frame of a session; it is handled in the loop's next turn."""
        if not self._inbox:
            asyncio.get_running_loop().call_soon(self._handle)
        self._inbox.append(frame)

    def _handle(self) -> None:
        frames, self._inbox = self._inbox, []
        self._carry(self.store.handle_all(now_ms(), frames))

    def _expire(self) -> None:
        self._expiry = None
        self._carry(self.store.expire(now_ms()))

    def _carry(self, frames: Sequence[Frame]) -> None:
        for frame in frames:
            self._sessions[frame.connection.client].receive(frame)
        if self._expiry is None and (at := self.store.next_expiry) is not None:
            loop = asyncio.get_running_loop()
            self._expiry = loop.call_at(at / 1000, self._expire)


@define(eq=False)
class EmbeddedSession:
    """A session of an `EmbeddedServer`; a `MetadataStore`."""

    server: EmbeddedServer
    client: StoreClient
    _deliver: Deliver = field(init=False)
    _wake: asyncio.TimerHandle | None = None
    _closed: asyncio.Event = field(factory=asyncio.Event)

    def start(self, deliver: Deliver) -> None:
        """Open the session; `Connected` will be delivered."""
        self._deliver = deliver
        self._carry_out(self.client.start(now_ms()))

    def send(self, request: StoreRequest) -> None:
        """Send an operation; exactly one `Response` with its number will be delivered."""
        self._carry_out(self.client.send(now_ms(), request), later=True)

    async def close(self) -> None:
        """End the session: its ephemeral znodes are deleted now."""
        self._carry_out(self.client.close(now_ms()), later=True)
        if self.client.connected:
            await self._closed.wait()

    def receive(self, frame: Frame) -> None:
        """Take a frame of the server."""
        self._carry_out(self.client.receive(now_ms(), frame))

    def _woken(self) -> None:
        self._wake = None
        self._carry_out(self.client.wake(now_ms()))

    def _carry_out(self, outputs: Sequence[ClientOutput], *, later: bool = False) -> None:
        loop = asyncio.get_running_loop()
        if self._wake is not None:
            self._wake.cancel()
        for one in outputs:
            if isinstance(one, Frame):
                self.server.take(one)
            elif isinstance(one, Wake):
                self._wake = loop.call_at(one.at_ms / 1000, self._woken)
            elif later:
                loop.call_soon(self._deliver, one)
            else:
                self._deliver(one)
        if self.client.closing and not self.client.connected:
            self._closed.set()


@define(eq=False)
class Asking:
    """Awaitable operations on a store; its other outputs go to `hear`.

    `hear` is called in order with the answers: an event comes before the future of an answer that
    shows it is set.
    """

    store: MetadataStore
    hear: Callable[[WatchEvent | SessionState], None]
    _asked: dict[int, asyncio.Future[Result]] = field(factory=dict[int, asyncio.Future[Result]])
    _numbers: int = 0

    def start(self) -> None:
        """Open the session."""
        self.store.start(self._take)

    async def ask(self, operation: Operation) -> Result:
        """The result of an operation; raises the `StoreError` that came instead of one."""
        self._numbers += 1
        future = self._asked[self._numbers] = asyncio.get_running_loop().create_future()
        self.store.send(StoreRequest(self._numbers, operation))
        return await future

    async def close(self) -> None:
        """End the session."""
        await self.store.close()

    def _take(self, output: Output) -> None:
        if not isinstance(output, StoreResponse):
            self.hear(output)
            return
        future = self._asked.pop(output.number)
        if future.cancelled():
            return
        if isinstance(output.result, StoreError):
            future.set_exception(output.result)
        else:
            future.set_result(output.result)


def now_ms() -> int:
    """The loop's clock, in ms."""
    return int(asyncio.get_running_loop().time() * 1000)
