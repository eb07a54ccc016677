"""Hands the lines of Kafka's transaction coordinators to the ids that they are about."""

from collections.abc import Sequence

from attrs import define, field

from chaos.recorders.kafka_lines import Line
from chaos.recorders.kafka_transactions import KafkaTransactionalId


@define(eq=False)
class Load:
    """The load of a coordinator: a line, and then one for each id."""

    line: Line
    found: dict[str, Line] = field(factory=dict[str, "Line"])

    @property
    def complete(self) -> bool:
        """True if all its lines are there."""
        return len(self.found) == self.line["ids"]


@define(eq=False)
class KafkaCoordinators:
    """The traces of a run's transactional ids, one for each that was new in it."""

    ids: dict[str, KafkaTransactionalId] = field(factory=dict[str, KafkaTransactionalId])
    #: Of ids with many transactions: the traces before the newest
    earlier: dict[str, list[KafkaTransactionalId]] = field(
        factory=dict[str, list[KafkaTransactionalId]]
    )
    #: Loads of which lines are still to come, by node and partition
    loads: dict[tuple[int, int], Load] = field(factory=dict[tuple[int, int], Load])
    deleted: set[str] = field(factory=set[str])
    unjudged: dict[str, str] = field(factory=dict[str, str])

    def started(self, node: int) -> None:
        """Another process of a broker starts."""
        for key in [key for key in self.loads if key[0] == node]:
            del self.loads[key]
        for one in self.ids.values():
            one.started(node)

    def take(self, line: Line) -> None:
        """Take a line about an id, or about what a coordinator loads."""
        if line["ev"] == "txnLoad":
            self.loads[line["node"], line["sp"]] = Load(line)
            self._serves(line)
        elif line["ev"] == "txnLoaded":
            load = self.loads.get((line["node"], line["sp"]))
            if load is not None:
                load.found[line["x"]] = line
                self._serves(line)
        elif (one := self._id(line)) is not None:
            if line["ev"] == "txnState" and one.full:
                before = self.earlier.setdefault(line["x"], [])
                before.append(one)
                one = self.ids[line["x"]] = one.successor(len(before) + 1)
            one.take(line)

    def _serves(self, line: Line) -> None:
        key = line["node"], line["sp"]
        load = self.loads[key]
        if not load.complete:
            return
        del self.loads[key]
        for name in load.found.keys() - self.ids.keys():
            self.unjudged.setdefault(_subject(name), "it is older than the recording")
        for name, one in self.ids.items():
            one.serves(load.line, load.found.get(name))

    def _id(self, line: Line) -> KafkaTransactionalId | None:
        name = line["x"]
        one = self.ids.get(name)
        if one is not None or _subject(name) in self.unjudged:
            return one
        if line["ev"] == "txnAsk" and line["api"] == "init":
            one = self.ids[name] = KafkaTransactionalId(_subject(name), line["t"])
            one.deleted = self.deleted
        return one

    @property
    def all(self) -> Sequence[KafkaTransactionalId]:
        """The ids of which anybody was given an epoch."""
        every = [[*self.earlier.get(name, ()), one] for name, one in self.ids.items()]
        return [one for those in every for one in those if one.trace.steps]


def _subject(name: str) -> str:
    return f"transactional id {name}"
