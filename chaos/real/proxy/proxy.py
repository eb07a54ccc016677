"""A proxy before the brokers of a cluster: one listener on loopback for each of them."""

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from time import monotonic_ns
from typing import Self

from attrs import define, field

from chaos.real.proxy.addresses import Place, Upstream
from chaos.real.proxy.passing import GONE, Connection, Recorder, read_frame
from chaos.real.proxy.words import refuse_copies
from refimpl.edge.server.faults import Faults, Rule
from refimpl.wire.framing import SIZE

HOST = "127.0.0.1"
log = logging.getLogger(__name__)


@define
class Given:
    """A rule, and the time for which it was there."""

    broker: int | None
    rule: Rule
    at_ns: int
    until_ns: int | None = None


@define(eq=False)
class Proxy:
    """The listeners, and the rules that break what passes.

    `targets` are addresses of some brokers; the others are found in what these answer. Clients
    connect to `bootstrap`. A rule of one broker meets what passes the listener of that node's
    address.
    """

    targets: Sequence[Upstream]
    port: int = 0
    #: TLS to clients, and TLS to brokers, each if it is given
    to_clients: ssl.SSLContext | None = None
    to_brokers: ssl.SSLContext | None = None
    #: Writes down what passes
    recorder: Recorder | None = None
    #: By number, in the order in which they were added: a rule, and the broker that it is for
    rules: dict[int, tuple[int | None, Rule]] = field(
        factory=dict[int, tuple[int | None, Rule]], init=False
    )
    #: The same of all rules that there ever were
    given: dict[int, Given] = field(factory=dict[int, Given], init=False)
    _numbers: "count[int]" = field(factory=count, init=False)
    _servers: dict[Upstream, asyncio.Server] = field(
        factory=dict[Upstream, asyncio.Server], init=False
    )
    _local: dict[Upstream, Upstream] = field(factory=dict[Upstream, Upstream], init=False)
    _nodes: dict[Upstream, int] = field(factory=dict[Upstream, int], init=False)
    _faults: dict[int | None, Faults] = field(factory=dict[int | None, Faults], init=False)
    _connections: set[asyncio.Task[None]] = field(factory=set[asyncio.Task[None]], init=False)
    _listening: asyncio.Lock = field(factory=asyncio.Lock, init=False)

    async def __aenter__(self) -> Self:
        """Listen for the targets. Raises OSError where a port is taken."""
        for number, target in enumerate(self.targets):
            await self._listen(target, self.port + number if self.port else 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        """End all connections."""
        if self.recorder is not None:
            self.recorder.ending()
        self.lift()
        for server in self._servers.values():
            server.close()
        for task in tuple(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    @property
    def bootstrap(self) -> str:
        """The addresses for clients of the brokers that were given."""
        return ",".join(f"{at.host}:{at.port}" for at in map(self._local.get, self.targets) if at)

    def add(self, rule: Rule, broker: int | None = None) -> int:
        """Let a rule meet requests, those to one broker or all; return its number.

        Raises ValueError for a rule that a recording cannot tell of.
        """
        if self.recorder is not None:
            refuse_copies([rule])
        number = next(self._numbers)
        self.rules[number] = broker, rule
        self.given[number] = Given(broker, rule, monotonic_ns())
        for node, faults in self._faults.items():
            if broker in (None, node):
                faults.add(rule)
        return number

    def remove(self, number: int) -> None:
        """End one rule; what it holds goes on."""
        _, rule = self.rules.pop(number)
        self.given[number].until_ns = monotonic_ns()
        for faults in self._faults.values():
            faults.rules = [one for one in faults.rules if one is not rule]
        rule.release()

    def lift(self) -> None:
        """End all rules."""
        for number in tuple(self.rules):
            self.remove(number)

    def _faults_of(self, address: Upstream) -> Callable[[], Faults]:
        """The rules for a broker, whose node id may become known later."""

        def now() -> Faults:
            node = self._nodes.get(address)
            if node not in self._faults:
                mine = [rule for broker, rule in self.rules.values() if broker in (None, node)]
                self._faults[node] = Faults(mine)
            return self._faults[node]

        return now

    async def _located(self, named: list[Place]) -> dict[Upstream, Upstream]:
        """The listeners for brokers, which are made where there is none yet."""
        for place in named:
            self._nodes.setdefault(place.address, place.node)
            if place.address in self._local.values():  # a broker names this proxy as its own place
                self._local[place.address] = place.address
            if place.address not in self._local:
                await self._listen(place.address)
        return self._local

    async def _listen(self, target: Upstream, port: int = 0) -> None:
        async with self._listening:
            if target in self._local:  # another connection was faster
                return

            async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                task = asyncio.current_task()
                assert task is not None
                self._connections.add(task)
                try:
                    await self._serve(target, reader, writer)
                except asyncio.CancelledError:
                    writer.close()  # the proxy ends, and asyncio would report this as a mistake
                finally:
                    self._connections.discard(task)

            server = await asyncio.start_server(serve, HOST, port, ssl=self.to_clients)
            self._servers[target] = server
            self._local[target] = Upstream(*server.sockets[0].getsockname()[:2])

    async def _serve(
        self, target: Upstream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            broker = await asyncio.open_connection(*target, ssl=self.to_brokers)
        except OSError as error:
            log.warning("%s:%d cannot be reached: %s", *target, error)
            writer.close()
            return
        faults = self._faults_of(target)
        await Connection(
            (reader, writer),
            broker,
            faults,
            self._located,
            lambda: self._nodes.get(target),
            partial(self._copies, target),
            self.recorder,
        ).run()

    def _copies(self, target: Upstream, frame: bytes, after_s: float, is_answered: bool) -> None:
        task = asyncio.ensure_future(self._copied(target, frame, after_s, is_answered))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _copied(
        self, target: Upstream, frame: bytes, after_s: float, is_answered: bool
    ) -> None:
        await asyncio.sleep(after_s)
        try:
            reader, writer = await asyncio.open_connection(*target, ssl=self.to_brokers)
        except OSError as error:
            log.warning("a copy is lost, for %s:%d cannot be reached: %s", *target, error)
            return
        try:
            writer.writelines((SIZE.pack(len(frame)), frame))
            await writer.drain()
            if is_answered:
                await read_frame(reader)
        except GONE:
            log.warning("%s:%d takes no copy: the connection was closed", *target)
        finally:
            writer.close()
