"""The embedded store on an asyncio loop: sessions of one process, and one flush for several."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from refimpl.metadata.contract import (
    Connected,
    Create,
    EventType,
    Exists,
    Expired,
    GetData,
    SessionState,
    WatchEvent,
)
from refimpl.metadata.durable import DurableStore
from refimpl.metadata.errors import NodeExists, NoNode
from refimpl.metadata.hosting import Asking, EmbeddedServer
from refimpl.storage.disk.crashing import CrashDisk

Heard = list[WatchEvent | SessionState]
TIMEOUT_MS = 60_000


async def opened(server: EmbeddedServer, heard: Heard) -> Asking:
    connected = asyncio.Event()

    def hear(one: WatchEvent | SessionState) -> None:
        heard.append(one)
        connected.set()

    session = Asking(server.session(TIMEOUT_MS), hear)
    session.start()
    await connected.wait()
    return session


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await test()

    asyncio.run(bounded())


def test_whoever_comes_second_watches_until_the_first_has_gone() -> None:
    async def test() -> None:
        server, one_heard, two_heard = EmbeddedServer(), Heard(), Heard()
        one, two = await opened(server, one_heard), await opened(server, two_heard)
        await one.ask(Create("/controller", b"1", ephemeral=True))
        with pytest.raises(NodeExists, match="/controller exists already"):
            await two.ask(Create("/controller", b"2", ephemeral=True))
        await two.ask(Exists("/controller", watch=True))
        await one.close()
        assert [type(state) for state in one_heard] == [Connected, Expired]
        await two.ask(Create("/controller", b"2", ephemeral=True))
        assert two_heard[1:] == [WatchEvent(EventType.DELETED, "/controller")]
        await two.close()

    run(test)


def test_what_is_asked_at_once_is_flushed_at_once() -> None:
    async def test() -> None:
        disk = CrashDisk()
        flushes: list[str] = []

        def note(operation: str, path: str) -> None:
            flushes.extend([path] * (operation == "flush"))

        server = EmbeddedServer(DurableStore.open(disk, 0))
        session = await opened(server, Heard())
        disk.fail = note
        await asyncio.gather(*(session.ask(Create(f"/{number}")) for number in range(50)))
        assert len(flushes) == 1
        again = await opened(EmbeddedServer(DurableStore.open(disk.crashed(), 0)), Heard())
        await again.ask(GetData("/49"))
        with pytest.raises(NoNode, match="/50 does not exist"):
            await again.ask(GetData("/50"))

    run(test)
