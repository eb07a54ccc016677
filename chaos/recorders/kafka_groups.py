"""Hands the lines of Kafka's group coordinators to the groups that they are about."""

from collections.abc import Sequence
from itertools import pairwise

from attrs import define, field

from chaos.recorders.kafka_group import KafkaGroup, Topics, is_there
from chaos.recorders.kafka_lines import Line
from chaos.recorders.kafka_steps import ContradictingLinesError

NONE = -1


@define(eq=False)
class OffsetsPartition:
    """A partition of `__consumer_offsets`: its coordinator, and what that has yet to write."""

    node: int = NONE
    epoch: int = NONE
    written: int = 0
    #: The offset of the next operation's first record
    end: int = 0
    #: Its end at the first load; and the leader epochs of those whose lines are there
    first: int = NONE
    epochs: set[int] = field(factory=set[int])
    #: Operations that wait for the batch before or with them
    pending: list[Line] = field(factory=list[Line])
    #: A load of which lines are still to come
    load: Line | None = None
    found: dict[str, Line] = field(factory=dict[str, "Line"])


@define(eq=False)
class KafkaGroups:
    """The traces of a run's consumer groups, one for each life that began in it."""

    groups: dict[str, KafkaGroup] = field(factory=dict[str, KafkaGroup])
    #: Lives that ended with the deletion of their group
    earlier: list[KafkaGroup] = field(factory=list[KafkaGroup])
    partitions: dict[int, OffsetsPartition] = field(factory=dict[int, OffsetsPartition])
    topics: Topics = field(factory=Topics)
    versions: dict[int, tuple[int, ...]] = field(factory=dict[int, tuple[int, ...]])
    unjudged: dict[str, str] = field(factory=dict[str, str])

    @property
    def all(self) -> Sequence[KafkaGroup]:
        """The groups that had a member."""
        return [one for one in (*self.earlier, *self.groups.values()) if one.trace.steps]

    def started(self, line: Line) -> None:
        """Another process of a node starts."""
        version = line.get("kafka", "").split("-")[0].split(".")
        self.versions[line["node"]] = tuple(int(one) for one in version if one.isdigit())
        for one in self.partitions.values():
            if one.load is not None and one.load["node"] == line["node"]:
                one.load = None

    def topic(self, name: str, topic_id: str) -> None:
        """A topic has this id."""
        self.topics.ids[name] = topic_id
        self.topics.names[topic_id] = name

    def take(self, line: Line) -> None:
        """Take a line about a group, or about a partition of `__consumer_offsets`."""
        if line["ev"] == "groupRefused":
            self._refused(line)
            return
        partition = self.partitions.setdefault(line["sp"], OffsetsPartition())
        partition.epochs |= {line["ce"], line.get("le", line["ce"])}
        match line["ev"]:
            case "groupLoad":
                partition.load, partition.found = line, {}
                self._serves(line["sp"], partition)
            case "groupLoaded":
                if partition.load is not None and partition.load["node"] == line["node"]:
                    partition.found[line["g"]] = line
                    self._serves(line["sp"], partition)
            case _ if line["node"] != partition.node and line["ce"] > partition.epoch > NONE:
                self._end_all(line["sp"], "a coordinator leads again and loads nothing")
            case _ if line["node"] != partition.node or line["ce"] < partition.epoch:
                if line["ev"] == "groupOp" and line["g"] in self.groups:
                    self.groups[line["g"]].lost("an operation of an earlier coordinator")
            case "groupOp":
                _follows(partition, line)
                partition.pending.append(line)
                self._write(partition, partition.written, partition.epoch)
            case "groupOther":
                _follows(partition, line)
            case "groupMarker":
                partition.end += 1
            case "groupWritten":
                if line["off"] != partition.end:
                    said = f"records up to {partition.end} are written up to {line['off']}"
                    raise ContradictingLinesError(f"{line['at']}: {said}")
                partition.written = line["off"]
                self._write(partition, line["off"], line["le"])
            case "groupReverted":
                partition.end = line["off"]
                self._drop(partition, "a change whose batch could not be written")
            case "groupCommitted":
                self._committed(line, partition)
            case unknown:
                raise KeyError(unknown)

    def _refused(self, line: Line) -> None:
        one = self.groups.get(line["g"])
        partition = None if one is None else self.partitions[one.number]
        if one is None or partition is None or partition.node != line["node"]:
            return
        if partition.pending:
            off = partition.pending[-1]["off"]
            partition.pending.append({**line, "off": off})
        else:
            one.refused(line)

    def _committed(self, line: Line, partition: OffsetsPartition) -> None:
        if line["off"] > partition.written:
            said = f"{line['off']} is committed, and the log ends at {partition.written}"
            raise ContradictingLinesError(f"{line['at']}: {said}")
        for one in self._on(line["sp"]):
            one.committed(line, line["off"])

    def _on(self, number: int) -> list[KafkaGroup]:
        return [one for one in self.groups.values() if one.number == number]

    def _end_all(self, number: int, why: str) -> None:
        for one in self._on(number):
            one.ended = one.ended or why

    # Batches

    def _write(self, partition: OffsetsPartition, end: int, epoch: int) -> None:
        """Operations up to this end of the log are no longer lost with their coordinator."""
        while partition.pending and partition.pending[0]["off"] <= end:
            self._performed(partition.pending.pop(0), epoch)

    def _drop(self, partition: OffsetsPartition, why: str) -> None:
        for line in partition.pending:
            if line["g"] in self.groups:
                self.groups[line["g"]].lost(why)
        partition.pending = []

    def _performed(self, line: Line, epoch: int) -> None:
        name = line["g"]
        one = self.groups.get(name)
        if line["ev"] == "groupRefused":
            if one is not None:
                one.refused(line)
            return
        if one is None and not line["gone"]:
            one = self._begins(line)
        if one is None:
            return
        one.take(line, epoch)
        if line["gone"]:
            self.earlier.append(self.groups.pop(name))

    def _begins(self, line: Line) -> KafkaGroup | None:
        name, subject = line["g"], _subject(line["g"])
        members = line.get("now", ())
        first = line["op"] == "heartbeat" and [one["m"] for one in members] == [line["m"]]
        if not first or line.get("ge") not in (1, 2):
            why = "it is older than the recording, or it was a classic group"
            self.unjudged.setdefault(subject, why)
            return None
        lives = 1 + sum(one.name.partition("#")[0] == subject for one in self.earlier)
        again = f"#{lives}" if lives > 1 else ""
        version = self.versions.get(line["node"], ())
        one = KafkaGroup(subject + again, line["t"], line["sp"], self.topics, version)
        one.numbers.above = 2 - line["ge"]
        self.groups[name] = one
        self.unjudged.pop(subject, None)
        return one

    # Loads

    def _serves(self, number: int, partition: OffsetsPartition) -> None:
        load = partition.load
        if load is None or len(partition.found) < load["groups"]:
            return
        if load["ce"] >= partition.epoch:
            partition.first = load["end"] if partition.first == NONE else partition.first
            if _written_by_others(partition, load):
                self._end_all(number, "a coordinator that has no agent has written")
            # Killed between the log and the line that tells of it
            while partition.pending and self._is_there(load, partition):
                self._performed(partition.pending.pop(0), partition.epoch)
            self._drop(partition, "a change that no later coordinator has")
            partition.node, partition.epoch = load["node"], load["ce"]
            partition.written, partition.end = load["end"], load["lw"]
            for one in self._on(number):
                name = one.name.removeprefix(_subject("")).partition("#")[0]
                one.serves(load, partition.found.get(name))
            for name in partition.found.keys() - self.groups.keys():
                self.unjudged.setdefault(_subject(name), "it is older than the recording")
        partition.load, partition.found = None, {}

    def _is_there(self, load: Line, partition: OffsetsPartition) -> bool:
        end, epochs = partition.pending[0]["off"], range(partition.epoch, load["ce"])
        return end <= partition.written or any(is_there(load, end, epoch) for epoch in epochs)


def _written_by_others(partition: OffsetsPartition, load: Line) -> bool:
    """True if records that were written since the first load are of nobody who is known."""
    began = [*load["epochs"], [NONE, load["end"]]]
    spans = pairwise(began)
    return any(
        epoch not in partition.epochs and end > max(start, partition.first)
        for (epoch, start), (_, end) in spans
    )


def _follows(partition: OffsetsPartition, line: Line) -> None:
    """Each record is behind the one before."""
    if line["again"] or not line["records"]:
        return
    if line["from"] != partition.end:
        said = f"records from {line['from']} follow those up to {partition.end}"
        raise ContradictingLinesError(f"{line['at']}: {said}")
    partition.end = line["off"]


def _subject(name: str) -> str:
    return f"group {name}"
