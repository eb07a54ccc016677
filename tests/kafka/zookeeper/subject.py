"""Real ZooKeeper under the law book: a proxy for each session, a root for each example."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

from attrs import define, field
from kazoo.client import KazooClient  # pyright: ignore[reportMissingTypeStubs]
from kazoo.exceptions import NoNodeError  # pyright: ignore[reportMissingTypeStubs]

from chaos.real.stored.zookeeper import Server
from refimpl.metadata.contract import (
    Connected,
    Exists,
    GetChildren,
    GetData,
    Operation,
    Output,
    StoreRequest,
    StoreResponse,
    Suspended,
    Sync,
)
from refimpl.metadata.zookeeper import ZooKeeperStore
from tests.kafka.zookeeper.proxy import Proxy

TIMEOUT_MS = 4000
SECONDS_TO_HAPPEN = 30
ROOTS = count(1)


@define(eq=False)
class Behind:
    """A session, its proxy, and what it has delivered since it was last asked."""

    proxy: Proxy
    store: ZooKeeperStore
    delivered: list[Output] = field(factory=list[Output])
    requests: int = 0
    _news: asyncio.Event = field(factory=asyncio.Event)

    @classmethod
    async def connected(cls, port: int, root: str = "", timeout_ms: int = TIMEOUT_MS) -> "Behind":
        proxy = await Proxy(port).start()
        behind = cls(proxy, ZooKeeperStore(f"127.0.0.1:{proxy.port}", timeout_ms, root))
        behind.store.start(behind.take)
        await behind.until(lambda one: isinstance(one, Connected))
        return behind

    def take(self, output: Output) -> None:
        self.delivered.append(output)
        self._news.set()

    def send(self, operation: Operation) -> int:
        self.requests += 1
        self.store.send(StoreRequest(self.requests, operation))
        return self.requests

    async def ask(self, operation: Operation) -> Sequence[Output]:
        """All that was delivered up to the operation's response, which is last."""
        number = self.send(operation)
        return await self.until(lambda one: isinstance(one, StoreResponse) and one.number == number)

    async def result(self, operation: Operation) -> Any:
        """The outcome alone; what else was delivered is dropped."""
        last = (await self.ask(operation))[-1]
        assert isinstance(last, StoreResponse)
        return last.result

    async def until(self, last: Callable[[Output], bool]) -> Sequence[Output]:
        """Wait for an output; answers it and all before it."""
        async with asyncio.timeout(SECONDS_TO_HAPPEN):
            while True:
                for index, one in enumerate(self.delivered):
                    if last(one):
                        heard = self.delivered[: index + 1]
                        del self.delivered[: index + 1]
                        return heard
                self._news.clear()
                await self._news.wait()

    async def stop(self) -> None:
        self.proxy.refuses, self.proxy.silent = False, False
        await self.store.close()
        await self.proxy.stop()


def end_session(server: Server, client: Any) -> None:
    """Close a session from another connection, as its owner could not notice."""
    other: Any = KazooClient(server.address, client_id=(client._session_id, client._session_passwd))
    other.start()
    other.stop()
    other.close()


@define(eq=False)
class ZooKeeperSubject:
    """ZooKeeper, for the law book; of several servers each session has another one.

    A read of one of several may be old, and the book expects the newest: so `Sync` goes before it.
    """

    servers: Sequence[Server]
    runner: asyncio.Runner
    root: str = field(factory=lambda: f"/law-{next(ROOTS)}")
    can_crash: bool = False
    handles: dict[int, Behind] = field(factory=dict[int, Behind])
    _opened: int = 0

    def __attrs_post_init__(self) -> None:
        self._outside(lambda zk: zk.create(self.root))

    @property
    def server(self) -> Server:
        return self.servers[0]

    def _outside(self, do: Callable[[Any], Any]) -> None:
        client: Any = KazooClient(self.server.address)
        client.start()
        do(client)
        client.stop()
        client.close()

    def open(self) -> int:
        self._opened += 1
        server = self.servers[self._opened % len(self.servers)]
        behind = self.runner.run(Behind.connected(server.port, self.root))
        self.handles[self._opened] = behind
        return self._opened

    def session_id(self, handle: int) -> int:
        return self.handles[handle].store.session_id

    def ask(self, handle: int, operation: Operation) -> Sequence[Output]:
        behind = self.handles[handle]

        async def ask() -> Sequence[Output]:
            if len(self.servers) == 1 or not isinstance(operation, GetData | Exists | GetChildren):
                return await behind.ask(operation)
            before = (await behind.ask(Sync()))[:-1]
            return [*before, *await behind.ask(operation)]

        return self.runner.run(ask())

    def lose(self, handle: int, operations: Sequence[Operation], applied: int) -> Sequence[Output]:
        """With `applied` the connection breaks at the first answer, else before the first request
        has come to the server."""
        behind = self.handles[handle]

        async def lose() -> None:
            behind.proxy.cut_at_answer = applied > 0
            behind.proxy.silent = applied == 0
            for one in operations:
                behind.send(one)
            if applied == 0:
                behind.proxy.cut()
                behind.proxy.silent = False

        self.runner.run(lose())
        return self.reconnected(handle)

    def expire(self, handle: int) -> Sequence[Output]:
        behind = self.handles[handle]

        async def expire() -> None:
            behind.proxy.refuses = True
            behind.proxy.cut()
            client = behind.store._client  # pyright: ignore[reportPrivateUsage]
            await asyncio.to_thread(end_session, self.server, client)
            behind.proxy.refuses = False

        self.runner.run(expire())
        return self.reconnected(handle)

    def close(self, handle: int) -> None:
        self.runner.run(self.handles.pop(handle).stop())

    def crash(self, handle: int, operations: Sequence[Operation], at: int, kept: float) -> None:
        raise NotImplementedError(self)

    def reconnected(self, handle: int) -> Sequence[Output]:
        behind = self.handles[handle]

        async def wait() -> Sequence[Output]:
            lost = await behind.until(lambda one: isinstance(one, Suspended))
            return [*lost, *await behind.until(lambda one: isinstance(one, Connected))]

        return self.runner.run(wait())

    def end(self) -> None:
        for handle in list(self.handles):
            self.close(handle)
        with suppress(NoNodeError):
            self._outside(lambda zk: zk.delete(self.root, recursive=True))
