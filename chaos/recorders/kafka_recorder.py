"""Hands the lines of Kafka's own processes to the partitions that they are about."""

from collections.abc import Sequence
from typing import Any

from attrs import define, field

from chaos.recorders.kafka_coordinators import KafkaCoordinators
from chaos.recorders.kafka_groups import KafkaGroups
from chaos.recorders.kafka_lines import Line
from chaos.recorders.kafka_steps import Decision, KafkaPartition, KafkaReplica
from chaos.recorders.protocol_events import SubjectTrace


@define(eq=False)
class KafkaRecorder:
    """The traces of a run of Kafka: of partitions, ids and groups that were new in it."""

    partitions: dict[str, KafkaPartition] = field(factory=dict[str, KafkaPartition])
    #: The ids of topics that were deleted, as far as the agent tells them
    removed: set[str] = field(factory=set[str])
    #: Partitions of topics that were deleted
    gone: list[KafkaPartition] = field(factory=list[KafkaPartition])
    nodes: dict[int, int] = field(factory=dict[int, int])
    processes: dict[tuple[int, int], int] = field(factory=dict[tuple[int, int], int])
    #: Partitions that cannot be judged, and why
    unjudged: dict[str, str] = field(factory=dict[str, str])
    coordinators: KafkaCoordinators = field(factory=KafkaCoordinators)
    groups: KafkaGroups = field(factory=KafkaGroups)

    @property
    def all(self) -> Sequence[KafkaPartition]:
        """The partitions, those of deleted topics first."""
        return [*self.gone, *self.partitions.values()]

    def take(self, line: Line) -> None:
        """Take the next line."""
        kind = line["ev"]
        if line.get("id") in self.removed:
            return  # a controller that starts again reads of a topic's earlier life
        if kind == "start":
            self._started(line)
        elif kind == "registered":
            self._registered(line)
        elif kind == "removed":
            self._removed(line["topic"], line.get("id"))
        elif kind == "created":
            self._created(line)
        elif kind == "topic":
            self.groups.topic(line["topic"], line["id"])
        elif "x" in line or kind == "txnLoad":
            self.coordinators.take(line)
        elif kind.startswith("group"):
            self.groups.take(line)
        elif "p" in line:
            one = self.partitions.get(line["p"])
            if one is not None:
                one.take(line)
            else:
                self.unjudged.setdefault(line["p"], "its creation was not recorded")

    def _started(self, line: Line) -> None:
        self.coordinators.started(line["node"])
        self.groups.started(line)
        if not line["counts"]:
            return
        self.nodes[line["node"]] = self.nodes.get(line["node"], -1) + 1
        for one in self.partitions.values():
            one.started(line["node"])

    def _registered(self, line: Line) -> None:
        who, epoch = line["b"], line["be"]
        if (who, epoch) in self.processes or who not in self.nodes:
            return
        process = self.processes[who, epoch] = self.nodes[who]
        for one in self.partitions.values():
            one.happens_at(line["t"])
            one.broker_registered(who, process)

    def _removed(self, topic: str, topic_id: str | None) -> None:
        if topic_id is not None:
            self.removed.add(topic_id)
            self.groups.topics.removed.add(topic_id)
        self.coordinators.deleted.add(topic)
        for name in [one for one in self.partitions if one.rpartition("-")[0] == topic]:
            self.gone.append(self.partitions.pop(name))

    def _created(self, line: Line) -> None:
        name = line["p"]
        if name in self.partitions:
            return  # a controller reads of it in its log
        unknown = set(line["replicas"]) - self.nodes.keys()
        if set(line["isr"]) != set(line["replicas"]) or line["pe"] or unknown:
            self.unjudged[name] = (
                f"broker {min(unknown)} has no agent"
                if unknown
                else "it is older than the recording"
            )
            return
        self.unjudged.pop(name, None)
        order = [line["lead"], *(one for one in line["replicas"] if one != line["lead"])]
        again = sum(one.trace.subject.startswith(_subject(name)) for one in self.gone)
        decision = Decision(line["lead"], line["epoch"], line["pe"], frozenset(order))
        replicas = {one: KafkaReplica(self.nodes[one]) for one in order}
        replicas[line["lead"]].leads, replicas[line["lead"]].isr = True, frozenset(order)
        self.partitions[name] = KafkaPartition(
            SubjectTrace(
                "Replication", _subject(name) + f"#{again + 1}" * bool(again), _initial(order)
            ),
            {broker: number for number, broker in enumerate(order, start=1)},
            replicas,
            decision,
            line["t"],
            self.processes,
            earlier=set(order) if again else set[int](),
        )


def _subject(name: str) -> str:
    topic, _, number = name.rpartition("-")
    return f"{topic}:{number}"


def _initial(order: Sequence[int]) -> dict[str, Any]:
    everybody, others = frozenset(range(1, len(order) + 1)), len(order) - 1
    return {
        "highWatermark": [0] * len(order),
        "epoch": [1] * len(order),
        "isr": [everybody, *[frozenset[int]()] * others],
        "partitionEpoch": [1, *[0] * others],
    }
