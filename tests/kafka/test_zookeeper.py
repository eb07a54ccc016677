"""Real ZooKeeper keeps the law book, and sessions on it live and end as the contract says."""

import asyncio
import socket
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from chaos.real.stored.zookeeper import TICK_MS, Server, zookeeper
from refimpl.metadata.contract import (
    Check,
    Connected,
    Create,
    Delete,
    EventType,
    Existence,
    Exists,
    Expired,
    GetChildren,
    GetData,
    Multi,
    MultiDone,
    NoResult,
    Output,
    SetData,
    Stat,
    StoreResponse,
    Suspended,
    Sync,
    WatchEvent,
)
from refimpl.metadata.errors import BadVersion, ConnectionLoss, MultiFailed, SessionExpired
from refimpl.metadata.zookeeper import ZooKeeperStore
from tests.kafka.zookeeper.proxy import Proxy
from tests.kafka.zookeeper.subject import TIMEOUT_MS, Behind, ZooKeeperSubject, end_session
from tests.refimpl.metadata.law_book import LawBook, Subject

SECONDS = 60


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with zookeeper(tmp_path_factory.mktemp("zookeeper")) as [one]:
        yield one


class OnZooKeeper(LawBook):
    """Real servers, which every example has for itself below a root of its own."""

    servers: ClassVar[Sequence[Server]]
    runner: ClassVar[asyncio.Runner]

    def new_subject(self) -> Subject:
        return ZooKeeperSubject(self.servers, self.runner)


def keeps_the_law_book(servers: Sequence[Server], examples: int) -> None:
    with asyncio.Runner() as runner:
        OnZooKeeper.servers, OnZooKeeper.runner = servers, runner
        budget = settings(max_examples=examples, stateful_step_count=25, phases=[Phase.generate])
        run_state_machine_as_test(OnZooKeeper, settings=budget)


def test_zookeeper_keeps_the_law_book(server: Server) -> None:
    keeps_the_law_book([server], 15)


def test_an_ensemble_keeps_the_law_book(tmp_path: Path) -> None:
    """Each session on another server, and every read behind a `Sync`."""
    with zookeeper(tmp_path, 3) as servers:
        keeps_the_law_book(servers, 8)


def run(test: Callable[[], Coroutine[None, None, None]]) -> None:
    """A scenario on a loop of its own, in bounded time."""

    async def bounded() -> None:
        async with asyncio.timeout(SECONDS):
            await test()

    asyncio.run(bounded())


def kinds(heard: Sequence[Output]) -> list[type[Output]]:
    return [type(one) for one in heard]


def connected(one: Output) -> bool:
    return isinstance(one, Connected)


def test_the_time_out_is_the_one_that_the_server_grants(server: Server) -> None:
    async def test() -> None:
        for asked, granted in ((100, 2 * TICK_MS), (3000, 3000), (60_000, 20 * TICK_MS)):
            one = await Behind.connected(server.port, "", asked)
            assert one.store._granted_ms == granted  # pyright: ignore[reportPrivateUsage]
            await one.stop()

    run(test)


def test_a_deletion_is_told_once(server: Server) -> None:
    """kazoo calls the data watcher and the child watcher for one event of the server."""

    async def test() -> None:
        one = await Behind.connected(server.port)
        await one.result(Create("/both"))
        await one.result(GetData("/both", watch=True))
        await one.result(GetChildren("/both", watch=True))
        heard = await one.ask(Delete("/both"))
        assert heard == [
            WatchEvent(EventType.DELETED, "/both"),
            StoreResponse(one.requests, NoResult()),
        ]
        heard = await one.ask(Sync())
        assert heard == [StoreResponse(one.requests, NoResult())]
        await one.stop()

    run(test)


def test_a_lost_answer_is_told_apart_by_reading(server: Server) -> None:
    """KAFKA-13407's trap, and the one of every conditional write: the second try is refused."""

    async def test() -> None:
        one = await Behind.connected(server.port)
        await one.result(Create("/lost", b"old"))
        one.proxy.cut_at_answer = True
        heard = await one.ask(SetData("/lost", b"new", 0))
        assert heard[-1] == StoreResponse(one.requests, ConnectionLoss())
        assert one.proxy.cuts == 1
        assert kinds(await one.until(connected)) == [Suspended, Connected]
        assert await one.result(SetData("/lost", b"new", 0)) == BadVersion("/lost", 0)
        found = await one.result(GetData("/lost"))
        assert (found.data, found.stat.version) == (b"new", 1)
        await one.result(Delete("/lost"))
        await one.stop()

    run(test)


def test_what_was_kept_back_has_no_effect_after_the_reconnect(server: Server) -> None:
    """Neither what kazoo had not sent yet, nor what comes to the server on the old connection."""

    async def test() -> None:
        one = await Behind.connected(server.port)
        one.proxy.silent = True
        number = one.send(Create("/late", ephemeral=True))
        await asyncio.to_thread(_until_sent, one)
        client = one.store._client  # pyright: ignore[reportPrivateUsage]
        client._connection._socket.shutdown(socket.SHUT_RDWR)  # pyright: ignore
        heard = await one.until(lambda output: isinstance(output, Suspended))
        assert heard == [StoreResponse(number, ConnectionLoss()), Suspended()]
        refused = one.send(Create("/later", ephemeral=True))
        one.proxy.silent = False
        heard = await one.until(connected)
        assert heard[0] == StoreResponse(refused, ConnectionLoss())
        assert await one.result(Exists("/later")) == Existence(None)
        await one.stop()

    run(test)


def test_a_frozen_server_costs_no_session(server: Server) -> None:
    async def test() -> None:
        one, two = [await Behind.connected(server.port) for _ in range(2)]
        await one.result(Create("/mine", ephemeral=True))
        await two.result(Exists("/mine", watch=True))
        session = one.store.session_id
        server.freeze()
        number = one.send(SetData("/mine", b"x"))
        heard = await one.until(lambda output: isinstance(output, Suspended))
        assert heard == [StoreResponse(number, ConnectionLoss()), Suspended()]
        server.thaw()
        assert await one.until(connected) == [Connected(session, TIMEOUT_MS)]
        assert await one.result(Exists("/mine")) != Existence(None)
        await two.until(connected)
        for each in (one, two):
            await each.stop()

    run(test)


def test_a_session_that_is_cut_off_is_over_when_a_server_says_so(server: Server) -> None:
    """Its owner is suspended until then, and goes on with another session."""

    async def test() -> None:
        one, two = [await Behind.connected(server.port, "", 1200) for _ in range(2)]
        await one.result(Create("/controller", b"1", ephemeral=True))
        await two.result(Exists("/controller", watch=True))
        first = one.store.session_id
        one.proxy.silent = one.proxy.refuses = True
        gone = WatchEvent(EventType.DELETED, "/controller")
        assert await two.until(lambda output: output == gone) == [gone]
        one.proxy.cut()
        one.proxy.silent = one.proxy.refuses = False
        heard = await one.until(connected)
        assert kinds(heard) == [Suspended, Expired, Connected]
        assert one.store.session_id != first
        for each in (one, two):
            await each.stop()

    run(test)


def test_a_session_survives_a_server_that_is_down_for_longer(tmp_path: Path) -> None:
    """The server gives each session its whole time again when it is back (ZooKeeper 3.9)."""

    async def test() -> None:
        with zookeeper(tmp_path) as [alone]:
            one = await Behind.connected(alone.port, "", 1200)
            await one.result(Create("/mine", ephemeral=True))
            session = one.store.session_id
            alone.kill()
            assert kinds(await one.until(lambda it: isinstance(it, Suspended))) == [Suspended]
            await asyncio.sleep(2 * one.store._granted_ms / 1000)  # pyright: ignore[reportPrivateUsage]
            await asyncio.to_thread(alone.start)
            await asyncio.to_thread(alone.wait_until_up)
            heard = await one.until(connected)
            assert heard == [Connected(session, 1200)]
            assert await one.result(Exists("/mine")) != Existence(None)
            await one.stop()

    run(test)


def test_a_process_that_slept_too_long_is_fenced(server: Server) -> None:
    """A session ends while its owner cannot notice; what it still believes has no effect."""

    async def test() -> None:
        one, two = [await Behind.connected(server.port) for _ in range(2)]
        await two.result(Create("/epoch", b"1"))
        await two.result(Create("/state", b"of epoch 1"))
        await one.result(Create("/controller", b"1", ephemeral=True))
        one.proxy.silent = True
        client = one.store._client  # pyright: ignore[reportPrivateUsage]
        await asyncio.to_thread(end_session, server, client)
        take_over = Multi((Create("/controller", ephemeral=True), SetData("/epoch", b"2", 0)))
        assert isinstance(await two.result(take_over), MultiDone)
        number = one.send(Multi((Check("/epoch", 0), SetData("/state", b"of the old one"))))
        one.proxy.silent = False
        heard = await one.until(lambda output: isinstance(output, Expired))
        [outcome] = [each for each in heard if isinstance(each, StoreResponse)]
        assert outcome.number == number
        assert isinstance(outcome.result, ConnectionLoss | SessionExpired)
        assert (await two.result(GetData("/state"))).data == b"of epoch 1"
        await one.until(connected)
        fenced = await one.result(Multi((Check("/epoch", 0), SetData("/state", b"old"))))
        assert fenced == MultiFailed(0, BadVersion("/epoch", 0))
        for path in ("/state", "/epoch", "/controller"):
            await two.result(Delete(path))
        for each in (one, two):
            await each.stop()

    run(test)


def test_a_session_survives_the_loss_of_the_leader(tmp_path: Path) -> None:
    async def test(servers: list[Server]) -> None:
        hosts = ",".join(server.address for server in servers)
        one = Behind(await Proxy(0).start(), ZooKeeperStore(hosts, TIMEOUT_MS))
        one.store.start(one.take)
        await one.until(connected)
        session = one.store.session_id
        await one.result(Create("/kept", b"0"))
        await one.result(Create("/mine", ephemeral=True))
        [leader] = [server for server in servers if server.mode() == "leader"]
        leader.kill()
        version = await _written(one, "/kept", b"1")
        assert one.store.session_id == session
        assert await one.result(Exists("/mine")) != Existence(None)
        await one.result(Sync())
        found = await one.result(GetData("/kept"))
        assert (found.data, found.stat.version) == (b"1", version)
        await one.stop()

    with zookeeper(tmp_path, 3) as servers:
        run(lambda: test(servers))


async def _written(one: Behind, path: str, data: bytes) -> int:
    """Write until it is known to be written: after a loss, read before another try."""
    while True:
        outcome = await one.result(SetData(path, data, 0))
        if isinstance(outcome, Stat):
            return outcome.version
        if isinstance(outcome, BadVersion):
            found = await one.result(GetData(path))
            assert found.data == data, "somebody else has written"
            return found.stat.version
        assert isinstance(outcome, ConnectionLoss), outcome
        if not one.store.connected:
            await one.until(connected)


def _until_sent(one: Behind) -> None:
    """Until kazoo's thread has written what is queued; polled."""
    client = one.store._client  # pyright: ignore[reportPrivateUsage]
    while not client._pending:  # pyright: ignore
        time.sleep(0.01)
