"""The promise of acknowledgements to operators: in the store at once, at every broker in the end.

It is judged by the store's writes, from nothing but the requests and their answers.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from attrs import define, field

from chaos.clients.operator import (
    CONFIGURATIONS,
    ENTITIES,
    FIRST_VALUE,
    ORDERS,
    QUOTAS,
    Altered,
    Answered,
    Asked,
    Setting,
)
from chaos.oracles.violation import Violation
from chaos.sim.addresses import TOPIC_IDS
from chaos.sim.hosts import BrokerHost
from chaos.sim.simulation import Simulation
from chaos.sim.store import Applied, StoreHost
from refimpl.controller import znodes
from refimpl.messages import controller as c
from refimpl.metadata.contract import Create, Delete, Multi, SetData, changes_of

SETTINGS = (*CONFIGURATIONS, *QUOTAS)
PATHS = {one.path for one in SETTINGS}


@define(eq=False)
class OperationsOracle:
    """Follows topics by their ids, the configuration of one of them, and clients' quotas.

    `topics` are those that are there, `gone` those that were; `may_go` the names and ids whose
    deletion was asked for. `values` are all that each setting had, and `answered` those that
    the operator was told of, with what it had asked for by then: the number of its last operation.
    """

    simulation: Simulation
    store: StoreHost
    brokers: Sequence[BrokerHost]
    counts: Counter[str]
    topics: dict[str, bytes] = field(factory=dict[str, bytes])
    partitions: dict[bytes, int] = field(factory=dict[bytes, int])
    gone: set[bytes] = field(factory=set[bytes])
    may_go: set[str | bytes] = field(factory=set[str | bytes])
    values: dict[Setting, set[str]] = field(factory=lambda: {one: set[str]() for one in SETTINGS})
    answered: dict[Setting, dict[int, int]] = field(
        factory=lambda: {one: dict[int, int]() for one in SETTINGS}
    )
    asked: int = 0
    there_when_asked: dict[int, bytes | None] = field(factory=dict[int, bytes | None])

    def attach(self) -> None:
        """Judge the store's writes, and the operator's answers."""
        self.simulation.watch(Applied, lambda _, seen: self._applied(seen))
        self.simulation.watch(Asked, lambda _, seen: self._asked(seen))
        self.simulation.watch(Answered, lambda _, seen: self._answered(seen))

    # Requests

    def _asked(self, seen: Asked) -> None:
        self.asked = seen.number
        match seen.body:
            case c.DeleteTopicsRequest(names, topic_ids):
                self.may_go.update(names, topic_ids)
            case c.CreatePartitionsRequest(topics):
                self.there_when_asked[seen.number] = self.topics.get(topics[0].name)
            case _:
                pass

    # Writes

    def _applied(self, seen: Applied) -> None:
        if not isinstance(seen.write, Create | Delete | SetData | Multi):
            return
        for change in changes_of(seen.write):
            path = change.path
            if path in PATHS and isinstance(change, Create | SetData):
                for key, value in znodes.config_of(change.data).items():
                    if Setting(path, key) in self.values:  # others are not the operator's
                        self.values[Setting(path, key)].add(value)
            elif path.startswith(f"{znodes.TOPICS}/") and path.count("/") == 3:
                name = path.removeprefix(f"{znodes.TOPICS}/")
                if isinstance(change, Create | SetData):
                    self._is_there(name, *znodes.topic_of(change.data))
                elif isinstance(change, Delete):
                    self._is_gone(name)

    def _is_there(self, name: str, topic_id: bytes, partitions: dict[int, Any]) -> None:
        if topic_id in self.gone:
            raise Violation("DeletedStaysDeleted", f"{name} is there again, under its old id")
        if self.topics.get(name) != topic_id:
            self.counts["topics created"] += 1
        elif len(partitions) > self.partitions[topic_id]:
            self.counts["partitions added"] += 1
        self.topics[name], self.partitions[topic_id] = topic_id, len(partitions)

    def _is_gone(self, name: str) -> None:
        topic_id = self.topics.pop(name, None)
        if topic_id is None:
            return
        if name not in self.may_go and topic_id not in self.may_go:
            raise Violation("CreatedStaysCreated", f"{name} is deleted, and nobody asked for that")
        self.counts["topics deleted"] += 1
        self.gone.add(topic_id)

    # Answers

    def _answered(self, seen: Answered) -> None:
        missing = self._missing(seen)
        if missing:
            raise Violation("AcknowledgedIsStored", f"operation {seen.number}: {missing}")

    def _missing(self, seen: Answered) -> str:
        """The acknowledged change that the store does not have, in words."""
        match seen.body:
            case c.CreatedTopic(name):
                topic_id = seen.body.topic_id
                if self.topics.get(name) != topic_id and topic_id not in self.gone:
                    return f"{name} is not created"
            case c.DeletedTopic(name, topic_id):
                if self.topics.get(str(name)) == topic_id:
                    return f"{name} is not deleted"
            case c.NewPartitions(name, count):
                topic_id = self.there_when_asked[seen.number]
                if (
                    topic_id == self.topics.get(name)
                    and self.partitions.get(topic_id or b"", count) < count
                ):
                    return f"{name} has no {count} partitions"
            case Altered(setting, value):
                if value not in self.values[setting]:
                    return f"{setting.key} of {setting.path} is not {value}"
                kind = "quotas" if setting in QUOTAS else "configurations"
                self.counts[f"{kind} altered"] += 1
                self.answered[setting].setdefault(seen.number, self.asked)
            case _:
                pass
        return ""

    # The end

    def unfinished(self) -> str:
        """The changes that brokers have not received, or that were lost, in words."""
        stored = {path: self._stored(path) for path in PATHS}
        for setting, answered in self.answered.items():
            path, key = setting
            value = stored[path].get(key)
            lost = self._newer(value, answered)
            if lost:
                return f"{key} of {path} is {value}, and was altered by {lost} since"
        for broker in self.brokers:
            metadata = broker.node.metadata
            known = {
                topic.name: (topic.topic_id, len(topic.partitions))
                for topic in metadata.topics.values()
                if topic.name not in TOPIC_IDS
            }
            there = {
                name: (id, self.partitions[id])
                for name, id in self.topics.items()
                if name not in TOPIC_IDS
            }
            if known != there:
                return f"broker {broker.id} knows other topics than there are: {known}, {there}"
            if dict(metadata.configs.get(ORDERS, {})) != stored[znodes.config_path(ORDERS)]:
                return f"broker {broker.id} has another configuration than was stored"
            for entity in map(frozenset, ENTITIES):
                quotas = stored[znodes.quota_path(entity)[-1]]
                known = metadata.quotas.get(entity, {})
                if known != {key: float(value) for key, value in quotas.items()}:
                    return f"broker {broker.id} has other quotas than were stored"
            strays = {name.topic for name in broker.node.partitions} - {*TOPIC_IDS, *there}
            if strays:
                return f"broker {broker.id} keeps replicas of deleted topics: {strays}"
        return ""

    def _stored(self, path: str) -> dict[str, str]:
        found = self.store.store.tree.nodes.get(path)
        return znodes.config_of(found.data) if found is not None else {}

    def _newer(self, value: str | None, answered: dict[int, int]) -> list[int]:
        """The operations that were asked for when this value was answered already, and answered:
        it is not theirs. A request that the network has doubled may be carried out again later."""
        number = int(float(value or FIRST_VALUE)) - FIRST_VALUE
        if self.simulation.network.doubled or (number and number not in answered):
            return []
        known = answered.get(number, 0)
        return [one for one in answered if one > known]
