"""Judges decisions by the configurations that were in force, which may change at any moment.

The configurations are read from the metadata that a broker has heard, or that the controller has
decided, and not from the machines that they were handed to.
"""

from collections.abc import Sequence
from typing import Any

from attrs import define, field

from chaos.oracles.violation import Violation
from chaos.sim.addresses import RECEIPTS
from chaos.sim.hosts import BrokerHost, ControllerHost
from chaos.sim.simulation import Simulation
from chaos.sim.store import StoreHost
from refimpl.controller.configs import MIN_ISR, number
from refimpl.messages import observations as o
from refimpl.messages.broker import TopicPartition
from refimpl.messages.cluster import ClusterMetadata


@define(eq=False)
class ConfigurationsOracle:
    """EnoughInSync and ElrBelowMinIsr: min.insync.replicas as it is now decides."""

    simulation: Simulation
    controller: ControllerHost | StoreHost
    brokers: Sequence[BrokerHost]
    #: By broker: its process and its metadata, when it was last looked at
    _versions: dict[int, tuple[Any, ...]] = field(factory=dict[int, tuple[Any, ...]])

    def attach(self) -> None:
        """Judge what leaders commit, and what the controller decides."""
        self.simulation.watch(o.HighWatermarkAdvanced, self._committed)
        self.simulation.watch(o.Decided, self._decided)

    def _least(self, metadata: ClusterMetadata, name: TopicPartition) -> int:
        """A partition's min.insync.replicas; at most its number of replicas."""
        default = 1 if name.topic == RECEIPTS else self.simulation.settings.min_isr
        known = metadata.partitions.get(name)
        least = number(metadata, name.topic, MIN_ISR, default)
        return least if known is None else min(least, len(known.replicas))

    def _committed(self, who: int, seen: o.HighWatermarkAdvanced) -> None:
        """A leader commits with enough replicas in sync.

        The first time after news of the metadata is left out: it may have committed just before.
        """
        host = self.brokers[who - 1]
        metadata = host.node.metadata
        version = len(host.nodes), metadata.controller_epoch, metadata.metadata_version
        if self._versions.get(who) != version:
            self._versions[who] = version
            return
        isr = host.node.partitions[seen.partition].replica.isr
        least = self._least(metadata, seen.partition)
        if len(isr) < least:
            raise Violation(
                "EnoughInSync",
                f"{seen.partition}: broker {who} commits up to {seen.new} with {sorted(isr)} in "
                f"sync, and min.insync.replicas is {least}",
            )

    def _decided(self, who: int, seen: o.Decided) -> None:
        """Replicas are eligible outside the ISR only while that is too small (KIP-966)."""
        if not isinstance(self.controller, ControllerHost):
            return
        least = self._least(self.controller.controller.metadata, seen.partition)
        if seen.elr and len(seen.decision.isr) >= least:
            raise Violation(
                "ElrBelowMinIsr",
                f"{seen.partition}: {sorted(seen.decision.isr)} are in sync and {sorted(seen.elr)} "
                f"eligible, and min.insync.replicas is {least}",
            )
