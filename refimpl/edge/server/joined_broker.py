"""One of the brokers of a `ProcessCluster`, as the process that it is.

Its parent sends a line of JSON to its standard input and keeps that open: where it ends, so does
this process, at once.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import asdict, define, field, frozen

from refimpl.edge.server.host import BrokerHost
from refimpl.edge.server.layout import Layout
from refimpl.edge.server.peers import PeerNetwork
from refimpl.messages.controller import CONTROLLER

LOOPBACK = "127.0.0.1"
"""The host at which processes of one machine hear each other, wherever clients come from."""


@frozen
class Joining:
    """The values that a process has to know in order to be a broker."""

    layout: Layout
    number: int
    cluster_id: str
    controller_port: int
    #: The port of the process before, or 0
    port: int
    #: How often the broker was started before
    started: int

    def values(self) -> Mapping[str, Any]:
        """As JSON has it; paths as texts."""
        return asdict(self, value_serializer=lambda _, __, one: _plain(one))

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "Joining":
        """The same from what `values` made."""
        given: dict[str, Any] = {**values["layout"], "racks": {}}
        given["data"] = given["data"] and Path(given["data"])
        given["more_data"] = tuple(map(Path, given["more_data"]))
        known: dict[str, Any] = {**values, "layout": Layout(**given)}
        return cls(**known)


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value


@define(eq=False)
class JoinedBroker:
    """A broker whose controller and peers are other processes; `start` returns when it serves."""

    joining: Joining
    broker: BrokerHost = field(init=False)
    network: PeerNetwork = field(init=False)
    brokers: int = field(default=1, init=False)

    @property
    def host(self) -> str:
        """The host at which it listens for clients."""
        return self.joining.layout.host

    @property
    def port(self) -> int:
        """The port for clients, 0 for any free one."""
        layout, number = self.joining.layout, self.joining.number
        return self.joining.port or (layout.port and layout.port + number - 1)

    @property
    def bootstrap(self) -> str:
        """The address for clients."""
        return f"{self.broker.host}:{self.broker.port}"

    async def start(self) -> None:
        """Start, and return when the controller has taken this broker in.

        Raises UnusableDirectory, OSError for a port in use, and NotTakenIn after
        `initial.broker.registration.timeout.ms`.
        """
        joining, layout = self.joining, self.joining.layout
        self.network = PeerNetwork(
            broker=joining.number,
            cluster_id=joining.cluster_id,
            address_of=lambda one: self._address_of(one),
        )
        peer_port = await self.network.listen(LOOPBACK, 0)
        self.broker = layout.broker(
            joining.number,
            self.network,
            layout.directory(joining.number, joining.cluster_id, joining.started),
            layout.budget(),
            accepts_at_once=False,
            peer=(LOOPBACK, peer_port),
        )
        self.broker.port = self.port
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
        if broker == CONTROLLER:
            return LOOPBACK, self.joining.controller_port
        return self.network.greeted.get(broker) or self.broker.peer_registered(broker)
