"""A client's metadata: the partitions of its topics, their leaders, and when to ask again.

An answer of an older leader epoch does not replace a newer one (KIP-320). A client that reaches no
broker for a while begins again with its bootstrap servers (KIP-899, KIP-1102).
"""

from collections.abc import Iterable, Mapping, Sequence
from math import inf

from attrs import define, field

from refimpl.messages.broker import MetadataResponse, TopicPartition
from refimpl.records.schema import Uuid

NOBODY = -1


@define(eq=False)
class LeaderAndEpoch:
    """A partition's leader, as far as the client knows."""

    node: int
    epoch: int


@define(eq=False)
class KnownTopic:
    """A topic's partitions, all of them and those that have a leader, in order."""

    partitions: tuple[int, ...] = ()
    available: tuple[int, ...] = ()
    #: The reason for which there are none
    error: str | None = None
    used_ms: int = 0


@define(eq=False)
class ClientMetadata:
    """One client's metadata of topics and nodes."""

    bootstrap: Sequence[int]
    max_age_ms: int = 300_000
    max_idle_ms: float = inf
    topics: dict[str, KnownTopic] = field(factory=dict[str, KnownTopic])
    leaders: dict[TopicPartition, LeaderAndEpoch] = field(
        factory=dict[TopicPartition, LeaderAndEpoch]
    )
    nodes: list[int] = field(init=False)
    updated_ms: int | None = None
    #: Of all topics of the last answer, in use or not
    topic_ids: Mapping[str, Uuid] = field(factory=dict[str, Uuid])
    names: frozenset[str] = frozenset()
    #: Counts the answers
    updates: int = 0
    #: Somebody has seen that it is old, or a topic is missing
    wanted: bool = True
    #: The last id of each topic
    _ids: dict[str, Uuid] = field(factory=dict[str, Uuid], init=False)

    def __attrs_post_init__(self) -> None:
        """Begin with the bootstrap servers."""
        self.nodes = list(self.bootstrap)

    def use(self, topic: str, now: int) -> KnownTopic:
        """A topic that records are for: it is asked about while it is in use."""
        known = self.topics.get(topic)
        if known is None:
            known = self.topics[topic] = KnownTopic()
            self.wanted = True
        known.used_ms = now
        return known

    def leader(self, partition: TopicPartition) -> int:
        """The node that leads a partition, -1 if none is known."""
        known = self.leaders.get(partition)
        return NOBODY if known is None else known.node

    def due_ms(self) -> int:
        """When metadata must be asked for at the latest."""
        if self.wanted or self.updated_ms is None:
            return 0
        return self.updated_ms + self.max_age_ms

    def forget_idle(self, now: int) -> None:
        """Forget topics that nobody has used for metadata.max.idle.ms."""
        for name, topic in [*self.topics.items()]:
            if now - topic.used_ms >= self.max_idle_ms:
                del self.topics[name]
                for partition in [one for one in self.leaders if one.topic == name]:
                    del self.leaders[partition]

    def rebootstrap(self) -> None:
        """Know only the bootstrap servers again; an older leader epoch is one still (KIP-320)."""
        self.nodes = list(self.bootstrap)
        for known in self.leaders.values():
            known.node = NOBODY
        for topic in self.topics.values():
            topic.available = ()
        self.wanted = True

    def update(self, now: int, answer: MetadataResponse) -> None:
        """A broker has answered about all topics in use."""
        self.updated_ms, self.wanted = now, False
        self.updates += 1
        self._forget_replaced(answer.topic_ids)
        self.topic_ids = answer.topic_ids
        self.names = frozenset([one.partition.topic for one in answer.partitions])
        found: dict[str, list[TopicPartition]] = {name: [] for name in self.topics}
        nodes: set[int] = set()
        for one in answer.partitions:
            nodes |= {one.leader, *one.isr} - {NOBODY}
            if one.partition.topic in found:
                found[one.partition.topic].append(one.partition)
                self._lead(
                    one.partition, one.leader if one.error is None else NOBODY, one.leader_epoch
                )
        if nodes:
            self.nodes = sorted(nodes)
        for name, partitions in found.items():
            self._found(self.topics[name], partitions, answer.errors.get(name))

    def _forget_replaced(self, ids: Mapping[str, Uuid]) -> None:
        """The leader epochs of a topic that was made anew begin again (KIP-516)."""
        anew = {name for name, one in ids.items() if self._ids.get(name, one) != one}
        self._ids |= ids
        if anew:
            self.leaders = {at: one for at, one in self.leaders.items() if at.topic not in anew}

    def _lead(self, partition: TopicPartition, node: int, epoch: int) -> None:
        known = self.leaders.get(partition)
        if known is None or epoch >= known.epoch or epoch == NOBODY:
            self.leaders[partition] = LeaderAndEpoch(node, epoch)
        if self.leader(partition) == NOBODY:
            self.wanted = True

    def _found(
        self, topic: KnownTopic, partitions: Iterable[TopicPartition], error: str | None
    ) -> None:
        ordered = sorted(partitions)
        if ordered:
            topic.partitions = tuple([one.partition for one in ordered])
            topic.available = tuple(
                [one.partition for one in ordered if self.leader(one) != NOBODY]
            )
        topic.error = error
        if error is not None or not ordered:
            self.wanted = True
