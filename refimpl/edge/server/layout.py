"""The brokers of one machine: their settings, their ports, and the directories of their logs.

Brokers 1 to N have consecutive ports, and their logs in `DATA/broker-N`; the decisions of their
controller are in `DATA/controller`. So `--data` serves brokers in one process and in several.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from refimpl.configs import Configs
from refimpl.edge.server.addresses import (
    PLAINTEXT,
    Address,
    advertised_listeners_of,
    listeners_of,
)
from refimpl.edge.server.controller_log import ControllerLog
from refimpl.edge.server.host import BrokerHost
from refimpl.edge.server.limits import limits_of
from refimpl.edge.server.listener import QUICK
from refimpl.edge.server.log_directory import (
    Directory,
    FileDirectory,
    MemoryDirectory,
    UnusableDirectory,
    directories_in,
    properties_of,
    random_id,
)
from refimpl.edge.server.memory import Budget
from refimpl.edge.server.network import Network
from refimpl.messages.controller import CONTROLLER


@frozen
class Layout:
    """Brokers 1 to `brokers` on ports from `port` on, or on any free ones for 0."""

    brokers: int
    port: int
    host: str
    #: Where everything is kept; None for memory
    data: Path | None
    #: Settings of server.properties, as texts
    settings: Mapping[str, str]
    #: The log directories besides `data`
    more_data: Sequence[Path] = ()
    #: broker.rack of each broker that has one
    racks: Mapping[int, str] = field(factory=dict[int, str])

    @property
    def static(self) -> Mapping[str, str]:
        """The settings of all of them, with defaults that fit so many brokers."""
        replicas, in_sync = str(min(3, self.brokers)), str(min(2, self.brokers))
        return {
            **QUICK,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": in_sync,
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": in_sync,
            **self.settings,
        }

    def budget(self) -> Budget:
        """The memory for requests of one process."""
        limits = limits_of(Configs(self.static))
        return Budget(max(limits.queued_max_request_bytes, limits.request_max_bytes))

    def cluster_id(self) -> str:
        """That of the directories, or a new one. Raises UnusableDirectory for two of them."""
        if self.data is None:
            return random_id()
        found = {
            properties_of(folder / f"broker-{number}").get("cluster.id")
            for folder in (self.data, *self.more_data)
            for number in range(1, self.brokers + 1)
        } - {None}
        if len(found) > 1:
            ids = " and ".join(sorted(str(one) for one in found))
            raise UnusableDirectory(f"{self.data}: log directories of two clusters, {ids}")
        return found.pop() or random_id() if found else random_id()

    def controller_log(self, cluster_id: str) -> ControllerLog | None:
        """The log of decisions: in a directory that is locked as those of brokers are."""
        if self.data is None:
            return None
        path = self.data / "controller"
        return ControllerLog(path, FileDirectory(path, CONTROLLER, cluster_id))

    def directory(self, number: int, cluster_id: str, started: int = 0) -> Directory:
        """The place of a broker's logs; memory is told how often the broker was started before."""
        if self.data is None:
            return MemoryDirectory(cluster_id, incarnations=started)
        return directories_in(
            [one / f"broker-{number}" for one in (self.data, *self.more_data)], number, cluster_id
        )

    def broker(
        self,
        number: int,
        network: Network,
        directory: Directory,
        budget: Budget,
        observe: Callable[[int, Any], None] | None = None,
        **more: Any,
    ) -> BrokerHost:
        """The host of a broker, to be started."""
        first, *also = listeners_of(self.settings) or (Address(PLAINTEXT, self.host, self.port),)
        rack = self.racks.get(number)
        own = {"node.id": str(number), **({} if rack is None else {"broker.rack": rack})}
        configs = Configs({**self.static, **own})
        advertised = advertised_listeners_of(self.settings)
        return BrokerHost(
            number,
            network,
            directory,
            configs,
            budget,
            limits_of(configs),
            self.host,
            self.port + number - 1 if self.port else 0,
            rack=configs.static.get("broker.rack"),
            listener_name=first.name,
            also=[evolve(one, port=one.port and one.port + number - 1) for one in also],
            advertised={
                name: (host, port + number - 1) for name, (host, port) in advertised.items()
            },
            observe=observe,
            **more,
        )
