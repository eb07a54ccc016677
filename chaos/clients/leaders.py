"""A client's knowledge of leaders, which it learns from Metadata answers."""

from random import Random

from attrs import define, field

from chaos.sim.addresses import BROKERS, TOPIC
from chaos.sim.simulation import Simulation
from refimpl.messages.broker import MetadataRequest, MetadataResponse, Request, TopicPartition

PATIENCE_MS = 60
METADATA_MAX_AGE_MS = 300


@define(eq=False)
class Leaders:
    """The leaders that one client knows. It asks any broker, whose metadata may be older.

    `partitions` is the number of the topic's partitions, as far as the client knows.
    """

    client: int
    simulation: Simulation
    rng: Random
    known: dict[TopicPartition, tuple[int, int]] = field(
        factory=dict[TopicPartition, tuple[int, int]]
    )
    asked_at: int = -PATIENCE_MS
    told_at: int = 0
    partitions: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Begin with the initial topic."""
        self.partitions = self.simulation.settings.partitions

    def keep_up(self) -> None:
        """Refresh metadata older than metadata.max.age.ms, if the run adds partitions."""
        simulation = self.simulation
        if not simulation.settings.adds_partitions:
            return
        if simulation.timeline.now - self.told_at >= METADATA_MAX_AGE_MS:
            self.refresh()

    def of(self, partition: TopicPartition) -> int | None:
        """The leader, as far as the client knows. If it knows none, it asks a broker."""
        leader = self.known.get(partition)
        if leader is None:
            self.refresh()
            return None
        return leader[1]

    def forget(self, partition: TopicPartition) -> None:
        """The known leader does not lead, or does not answer."""
        self.refresh()

    def refresh(self) -> None:
        """Ask a broker, unless an answer may still come."""
        now = self.simulation.timeline.now
        if now - self.asked_at < PATIENCE_MS:
            return
        self.asked_at = now
        broker = BROKERS[int(self.rng.random() * len(BROKERS))]
        self.simulation.network.send(Request(self.client, broker, 0, MetadataRequest()))

    def told(self, response: MetadataResponse) -> None:
        """A broker has answered; a newer leader epoch replaces an older one."""
        self.told_at = now = self.simulation.timeline.now
        self.asked_at = now - PATIENCE_MS + 10
        for one in response.partitions:
            if one.partition.topic == TOPIC:
                self.partitions = max(self.partitions, one.partition.partition + 1)
            known = self.known.get(one.partition)
            if one.error is None and (known is None or one.leader_epoch >= known[0]):
                self.known[one.partition] = one.leader_epoch, one.leader
