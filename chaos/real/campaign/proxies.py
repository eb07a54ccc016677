"""The message-aware proxies of a run: before the brokers, and between them and the controller."""

import asyncio
from collections.abc import Coroutine, Generator, Iterable
from contextlib import contextmanager
from threading import Thread
from typing import Any, TypeVar

from attrs import define, field

from chaos.real.proxy.addresses import Upstream
from chaos.real.proxy.proxy import HOST, Proxy
from refimpl.edge.server.faults import Rule

Some = TypeVar("Some")
PATIENCE_S = 30


@define(eq=False)
class Given:
    """A rule of a proxy, until it is ended."""

    proxies: "Proxies"
    proxy: Proxy
    rule: Rule
    number: int

    def met(self) -> int:
        """The number of requests that it has met."""
        return self.rule.met

    def end(self) -> None:
        """End it; what it holds goes on."""

        async def remove() -> None:
            self.proxy.remove(self.number)

        self.proxies.call(remove())


@define(eq=False)
class Proxies:
    """Proxies in an event loop of their own thread."""

    #: Of clients; its listeners are found in what the brokers answer
    clients: Proxy
    #: Before each broker for other brokers, by its number, and before the controller
    between: dict[int, Proxy] = field(factory=dict[int, Proxy])
    _loop: asyncio.AbstractEventLoop = field(factory=asyncio.new_event_loop, init=False)

    def call(self, what: Coroutine[Any, Any, Some]) -> Some:
        """Run a coroutine in the loop."""
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(PATIENCE_S)

    @property
    def bootstrap(self) -> str:
        """The address for clients."""
        return self.clients.bootstrap

    def of_clients(self, rule: Rule) -> Given:
        """A rule on what clients ask of any broker."""
        return self._given(self.clients, rule)

    def of_node(self, node: int, rule: Rule) -> Given:
        """A rule on what other nodes ask of this one."""
        return self._given(self.between[node], rule)

    def lift(self) -> None:
        """End all rules."""

        async def lift() -> None:
            for one in (self.clients, *self.between.values()):
                one.lift()

        self.call(lift())

    def _given(self, proxy: Proxy, rule: Rule) -> Given:
        async def add() -> int:
            return proxy.add(rule)

        return Given(self, proxy, rule, self.call(add()))

    @contextmanager
    def running(self) -> Generator[None]:
        """Serve while the block lasts."""
        thread = Thread(target=self._loop.run_forever, name="proxies", daemon=True)
        thread.start()
        every = (self.clients, *self.between.values())
        try:
            for one in every:
                self.call(one.__aenter__())
            yield
        finally:
            for one in every:
                self.call(one.__aexit__())
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join(PATIENCE_S)
            self._loop.close()


def before(ports: Iterable[int]) -> Proxy:
    """A proxy of these ports of the loopback address."""
    return Proxy([Upstream(HOST, port) for port in ports])


def own_port(proxy: Proxy) -> int:
    """The port of a proxy of one node."""
    return int(proxy.bootstrap.rpartition(":")[2])
