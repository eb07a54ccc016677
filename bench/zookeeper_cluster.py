"""Controllers in this process, on real ZooKeeper: the sessions are real ones, and all else is as in
`chaos.sim.synchronous`, which has the embedded store in place of it."""

import asyncio
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import psutil
from attrs import define, field

from chaos.real.stored.zookeeper import zookeeper
from refimpl.controller.state import ControllerConfig
from refimpl.controller.stored_controller import StoredController
from refimpl.messages import broker as m
from refimpl.messages.cluster import Endpoint
from refimpl.messages.controller import BrokerAddress, Envelope
from refimpl.metadata.contract import Create, Existence, Exists, Output, StoreRequest, StoreResponse
from refimpl.metadata.zookeeper import ZooKeeperStore

SESSION_MS, SECONDS = 30_000, 120
PROBE, CLIENT = "/probe", 1_000
JARS = "jars"
HELP = f"real ZooKeeper as well: a server, or `{JARS}` for one of our own, from Maven's jars"


@contextmanager
def server_at(wanted: str) -> Generator[tuple[str, psutil.Process | None]]:
    """The address of a server, and its process if it is ours."""
    if wanted != JARS:
        yield wanted, None
        return
    with tempfile.TemporaryDirectory() as folder, zookeeper(Path(folder)) as [one]:
        assert one.process is not None
        yield one.address, psutil.Process(one.process.pid)


@define(eq=False)
class ZooKeeperCluster:
    """Brokers that may be controller, each with a session; all of it below `root`.

    What brokers are told is dropped: it costs a controller its messages, and a broker nothing.
    """

    hosts: str
    root: str
    config: ControllerConfig
    controllers: dict[int, StoredController] = field(factory=dict[int, StoredController])
    operations: int = 0
    answers: dict[int, Any] = field(factory=dict[int, Any])
    _stores: dict[int, ZooKeeperStore] = field(factory=dict[int, ZooKeeperStore])
    _probe: ZooKeeperStore = field(init=False)
    _probed: dict[int, Any] = field(factory=dict[int, Any])
    _runner: asyncio.Runner = field(factory=asyncio.Runner)

    def __attrs_post_init__(self) -> None:
        """Open a session of our own, and make the root."""
        self._probe = ZooKeeperStore(self.hosts, SESSION_MS)
        self._runner.run(self._open())

    async def _open(self) -> None:
        self._probe.start(self._heard)
        await self._until(lambda: self._probe.connected)
        await self._ask(Create(self.root))

    def start(self, broker: int) -> None:
        """Start a broker's process, and let it be registered."""
        endpoint = Endpoint("PLAINTEXT", f"host{broker}", 9092)
        made = StoredController(broker, self.config, Random(broker), BrokerAddress((endpoint,)), 1)
        store = ZooKeeperStore(self.hosts, SESSION_MS, self.root)
        self.controllers[broker], self._stores[broker] = made, store
        self._runner.run(self._start(broker))

    async def _start(self, broker: int) -> None:
        self._stores[broker].start(lambda output: self._give(broker, output))
        await self._until(lambda: self._is_settled() and broker in self._alive())

    def end(self, broker: int) -> None:
        """A process ends, and its session with it; return when all that follows has happened."""
        del self.controllers[broker]
        self._runner.run(self._end(self._stores.pop(broker), broker))

    async def _end(self, store: ZooKeeperStore, broker: int) -> None:
        await store.close()
        await self._until(lambda: self._is_settled() and broker not in self._alive())

    def close(self) -> None:
        """End all sessions."""
        for store in (*self._stores.values(), self._probe):
            self._runner.run(store.close())
        self._runner.close()

    def wait(self) -> None:
        """Nothing is left to wait for: `end` has waited."""

    @property
    def acting(self) -> StoredController | None:
        """The broker that acts as controller."""
        found = self.controllers.values()
        return next((one for one in found if one.controller is not None), None)

    @property
    def zxid(self) -> int:
        """The number of the store's last transaction, a write of our own."""
        number = len(self._probed)
        self._runner.run(self._ask(Create(f"{PROBE}-{self.root[1:]}-{number}")))
        found = self._runner.run(self._ask(Exists(f"{PROBE}-{self.root[1:]}-{number}")))
        assert isinstance(found, Existence)
        assert found.stat is not None
        return found.stat.czxid

    def ask(self, body: Any) -> Any:
        """Put a request to the controller; its answer."""
        acting = self.acting
        assert acting is not None
        number = len(self.answers) + 1
        request = m.Request(CLIENT, acting.broker, number, Envelope(body))

        async def asked() -> Any:
            self._give(acting.broker, request)
            await self._until(lambda: number in self.answers and self._is_settled())
            return self.answers[number]

        return self._runner.run(asked())

    # Inputs and outputs

    def _give(self, broker: int, message: Any) -> None:
        controller = self.controllers.get(broker)
        if controller is None:
            return
        for output in controller.handle(0, message):
            if isinstance(output, StoreRequest):
                self.operations += 1
                self._stores[broker].send(output)
            elif isinstance(output, m.Response):
                self.answers[output.correlation_id] = output.body

    def _heard(self, output: Output) -> None:
        if isinstance(output, StoreResponse):
            self._probed[output.number] = output.result

    async def _ask(self, operation: Create | Exists) -> Any:
        number = len(self._probed)
        self._probe.send(StoreRequest(number, operation))
        await self._until(lambda: number in self._probed)
        return self._probed[number]

    def _alive(self) -> frozenset[int]:
        acting = self.acting
        if acting is None or acting.controller is None:
            return frozenset()
        return frozenset(acting.controller.registry.alive)

    def _is_settled(self) -> bool:
        acting = self.acting
        if acting is None or acting.brokers_changed or acting.events:
            return False
        return not any(one.session.busy for one in self.controllers.values())

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(SECONDS):
            while not condition():
                await asyncio.sleep(0.001)
