"""A broker as a process of its own, in a cluster whose metadata are in ZooKeeper.

`zookeeper.connect` is `HOST:PORT,HOST:PORT` and, behind that, a path below which everything lies.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
from attrs import define, field

from refimpl.api.call import ClientTelemetry
from refimpl.configs import Configs
from refimpl.edge.server.addresses import advertised_listeners_of
from refimpl.edge.server.limits import limits_of
from refimpl.edge.server.listener import QUICK
from refimpl.edge.server.log_directory import MemoryDirectory, directories_in, random_id
from refimpl.edge.server.memory import Budget
from refimpl.edge.server.peers import PeerNetwork
from refimpl.edge.server.stored_host import StoredBrokerHost
from refimpl.metadata.contract import (
    Connected,
    Create,
    Data,
    GetData,
    Operation,
    Result,
    SessionState,
    WatchEvent,
)
from refimpl.metadata.errors import ConnectionLoss, NodeExists, SessionExpired
from refimpl.metadata.hosting import Asking
from refimpl.metadata.zookeeper import ZooKeeperStore

CLUSTER_ID = "/cluster/id"


class NoStore(TimeoutError):
    """No ZooKeeper server has answered in time."""


@define(eq=False)
class StoredBroker:
    """Broker `id` on `port`, whose peers find it by the store; `start` returns when it serves."""

    id: int
    zookeeper: str
    port: int = 0
    host: str = "127.0.0.1"
    data: Path | None = None
    #: The log directories besides `data`
    more_data: Sequence[Path] = field(default=(), kw_only=True)
    configs: Mapping[str, str] = field(factory=dict[str, str])
    seed: int | None = None
    #: Who runs its processes; a harness may have them observed
    host_type: Callable[..., StoredBrokerHost] = StoredBrokerHost
    #: Takes the metrics that clients push, which they are asked for only then
    client_telemetry: Callable[[ClientTelemetry], Any] | None = field(default=None, kw_only=True)
    brokers: int = field(default=1, init=False)
    broker: StoredBrokerHost = field(init=False)
    network: PeerNetwork = field(init=False)

    @property
    def bootstrap(self) -> str:
        """The addresses for clients: bootstrap.servers."""
        return f"{self.broker.host}:{self.broker.port}"

    async def start(self) -> None:
        """Start, and return when the cluster has taken this broker in.

        Raises NoStore, UnusableDirectory, OSError for a port in use, and NotTakenIn after
        `initial.broker.registration.timeout.ms`.
        """
        hosts, _, path = self.zookeeper.partition("/")
        root = f"/{path}".rstrip("/")
        static = {**QUICK, **self.configs, "node.id": str(self.id)}
        configs = Configs(static)
        session_ms = int(str(configs["zookeeper.session.timeout.ms"]))
        first = configs["zookeeper.connection.timeout.ms"]
        connect_ms = session_ms if first is None else int(str(first))
        cluster_id = await _cluster_id(hosts, root, session_ms, connect_ms)
        self.network = PeerNetwork(
            broker=self.id, cluster_id=cluster_id, address_of=lambda one: self._address_of(one)
        )
        peer_port = await self.network.listen(self.host, 0)
        limits = limits_of(configs)
        directory = (
            MemoryDirectory(cluster_id)
            if self.data is None
            else directories_in((self.data, *self.more_data), self.id, cluster_id)
        )
        self.broker = self.host_type(
            self.id,
            self.network,
            directory,
            configs,
            Budget(max(limits.queued_max_request_bytes, limits.request_max_bytes)),
            limits,
            self.host,
            self.port,
            rack=static.get("broker.rack"),
            advertised=advertised_listeners_of(self.configs),
            new_store=lambda: ZooKeeperStore(hosts, session_ms, root),
            peer=(self.host, peer_port),
            accepts_at_once=False,
            client_telemetry=self.client_telemetry,
            seed=self.seed,
        )
        try:
            await self.broker.join()
        except BaseException:
            self.network.close()
            raise

    async def stop_all(self) -> None:
        """Hand leadership over, and end."""
        await self.broker.stop()
        self.network.close()

    async def _address_of(self, broker: int) -> tuple[str, int] | None:
        return await self.broker.peer_address(broker)


async def _cluster_id(hosts: str, root: str, session_ms: int, timeout_ms: int) -> str:
    """The cluster's id, which whoever comes first makes, with the path below which all lies."""
    connected = asyncio.Event()

    def hear(one: WatchEvent | SessionState) -> None:
        if isinstance(one, Connected):
            connected.set()

    session = Asking(ZooKeeperStore(hosts, session_ms), hear)
    session.start()
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await connected.wait()
            names = root.split("/")[1:]
            paths = ["/" + "/".join(names[: count + 1]) for count in range(len(names))]
            for path in (*paths, f"{root}/cluster"):
                await _made(session, Create(path))
            id = orjson.dumps({"version": "1", "id": random_id()})
            await _made(session, Create(f"{root}{CLUSTER_ID}", id))
            found = await _asked(session, GetData(f"{root}{CLUSTER_ID}"))
            assert isinstance(found, Data)
            return orjson.loads(found.data)["id"]
    except TimeoutError:
        raise NoStore(
            f"{hosts}: no ZooKeeper server answers there within {timeout_ms / 1000:g} s; "
            "name others with --zookeeper HOST:PORT"
        ) from None
    finally:
        await session.close()


async def _made(session: Asking, create: Create) -> None:
    """Create it, unless it is there; a lost answer makes no difference."""
    with contextlib.suppress(NodeExists):
        await _asked(session, create)


async def _asked(session: Asking, operation: Operation) -> Result:
    """Ask until an answer comes, for what may be done twice."""
    while True:
        try:
            return await session.ask(operation)
        except (ConnectionLoss, SessionExpired):
            await asyncio.sleep(0.05)
