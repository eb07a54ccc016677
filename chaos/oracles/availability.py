"""Availability during a fault: everything that the fault does not hit makes progress.

It is judged when nothing has begun or ended around the cluster for its settling time. It requires:

- no partition has a leader that the controller cannot reach, if another replica may lead;
- every send with acks=all is answered, if a leader, enough replicas for min.insync.replicas, the
  controller and the clients reach each other.
"""

from collections.abc import Hashable, Mapping, Sequence

from attrs import define

from chaos.clients.producer import SimulatedProducer
from chaos.oracles.partition import PartitionOracle
from chaos.oracles.violation import Violation
from chaos.sim.addresses import CONTROLLER
from chaos.sim.hosts import BrokerHost
from chaos.sim.simulation import Simulation
from refimpl.messages.broker import TopicPartition


@define(eq=False)
class AvailabilityOracle:
    """Requires progress before the healing.

    `surroundings` are the running processes and the network's state, `since` the time of their last
    change.
    """

    simulation: Simulation
    brokers: Sequence[BrokerHost]
    clients: Sequence[int]
    partitions: Mapping[TopicPartition, PartitionOracle]
    producers: Sequence[SimulatedProducer]
    surroundings: Hashable = None
    since: int = 0

    def look(self) -> None:
        """See whether anything has changed, and, if not for long, whether all goes on that can."""
        now, network = self.simulation.timeline.now, self.simulation.network
        processes = tuple([len(host.nodes) for host in self.brokers])
        noise = network.drop, network.stray, network.jitter_ms, frozenset(network.slow.items())
        surroundings = self._running(), processes, frozenset(network.cut), self._lagging(), noise
        if surroundings != self.surroundings:
            self.surroundings, self.since = surroundings, now
        settled_at = self.since + self.simulation.settings.settle_ms
        jitter_ms = self.simulation.settings.jitter_ms
        if now <= settled_at or noise != (0.0, 0.0, jitter_ms, frozenset()):
            return
        for partition, oracle in self.partitions.items():
            if not oracle.era:  # after a permitted loss any request may be refused
                self._must_be_led(oracle)
                self._must_answer(partition, oracle, settled_at)

    # Connections

    def _running(self) -> frozenset[int]:
        now = self.simulation.timeline.now
        return frozenset([one.id for one in self.brokers if one.up and one.paused_until <= now])

    def _lagging(self) -> frozenset[int]:
        return frozenset(self.simulation.network.lag)

    def _heard(self) -> set[int]:
        """The brokers whose messages reach the controller."""
        cut = self.simulation.network.cut
        return {broker for broker in self._running() if (broker, CONTROLLER) not in cut}

    def _well(self) -> set[int]:
        """Running brokers that do not lag and have both directions to the controller open."""
        reaches = self.simulation.network.reaches
        told = self._running() - self._lagging()
        return {broker for broker in told if reaches(broker, CONTROLLER)}

    # Demands

    def _must_be_led(self, oracle: PartitionOracle) -> None:
        """The partition has a leader that the controller reaches, if such a replica may lead."""
        state = oracle.state
        if state.leader in self._heard():
            return
        able = sorted((state.isr | state.elr) & self._well())
        if able:
            raise Violation(
                "Availability",
                f"{oracle.name}: {state.leader} leads, who is not heard since {self.since}, "
                f"and {able} may lead",
            )

    def _must_answer(
        self, partition: TopicPartition, oracle: PartitionOracle, settled_at: int
    ) -> None:
        """If the leader and enough replicas are well, every send is answered."""
        leader, well = oracle.state.leader, self._well()
        if leader is None or leader not in well:
            return
        reaches, settings = self.simulation.network.reaches, self.simulation.settings
        in_touch = sorted(broker for broker in well if reaches(broker, leader))
        if len(in_touch) < settings.min_isr or not all(reaches(leader, c) for c in self.clients):
            return
        late = self.simulation.timeline.now - settings.settle_ms
        for producer in self.producers:
            for sending in producer.sending.values() if producer.acks == "all" else ():
                if sending.partition == partition and max(sending.first_at, settled_at) < late:
                    raise Violation(
                        "Availability",
                        f"{oracle.name}: producer {producer.number} waits for an answer since "
                        f"{sending.first_at}, and {in_touch} are well since {self.since}",
                    )
