"""The reads of a new controller before it decides anything: the whole store (KAFKA-849)."""

from collections.abc import Generator, Mapping, Sequence
from typing import Any

from attrs import define, field

from refimpl.controller import znodes
from refimpl.controller.state import Controlled, ControllerState
from refimpl.controller.store_dialogue import Answers
from refimpl.machines.assignment import Assignment
from refimpl.machines.controller import PartitionState
from refimpl.machines.election import Controllership
from refimpl.messages.broker import TopicPartition
from refimpl.messages.cluster import (
    AclsAltered,
    ConfigResource,
    ConfigsAltered,
    PartitionRegistration,
    ProducerIdsAllocated,
    QuotaEntity,
    QuotasAltered,
    ScramCredentialsAltered,
    TopicCreated,
)
from refimpl.metadata.contract import Children, Data, GetChildren, GetData, Operation
from refimpl.security.scram import BY_NAME, from_text

Reading = Generator[Sequence[Operation], Answers, Any]


@define(eq=False)
class Loaded:
    """The result of the reads, besides the state itself.

    `missing` are partitions that a topic's znode names and that have no state: their creation must
    be finished. `deleting` are topics whose deletion must be finished. `last` are the last
    registrations of brokers.
    """

    state: ControllerState
    controllership: Controllership
    assigned: dict[str, bytes] = field(factory=dict[str, bytes])
    missing: list[tuple[TopicPartition, tuple[int, ...]]] = field(
        factory=list[tuple[TopicPartition, tuple[int, ...]]]
    )
    deleting: list[str] = field(factory=list[str])
    last: dict[int, znodes.LastRegistration] = field(factory=dict[int, znodes.LastRegistration])

    def read(self) -> Reading:
        """Read everything, level by level; the operations of a level are sent at once."""
        yield from self._epochs()
        yield from self._producer_ids()
        yield from self._features()
        yield from self._configs()
        yield from self._acls()
        yield from self._topics()

    def _data(self, paths: Sequence[str]) -> Generator[Sequence[Operation], Answers, list[Any]]:
        """The data of each of these znodes; None for one that does not exist."""
        answers = yield [GetData(path) for path in paths]
        found: list[bytes | None] = []
        for path, answer in zip(paths, answers, strict=True):
            if isinstance(answer, Data):
                self.controllership.read(path, answer.stat.version)
                found.append(answer.data)
            else:
                found.append(None)
        return found

    def _children(
        self, paths: Sequence[str]
    ) -> Generator[Sequence[Operation], Answers, list[tuple[str, ...]]]:
        """The names of the children of each of these znodes."""
        answers = yield [GetChildren(path) for path in paths]
        found: list[tuple[str, ...]] = []
        for path, answer in zip(paths, answers, strict=True):
            there = isinstance(answer, Children)
            if there:
                self.controllership.read(path, answer.stat.version)
            found.append(answer.names if there else ())
        return found

    def _epochs(self) -> Reading:
        (ids,) = yield from self._children([znodes.BROKER_EPOCHS])
        paths = [f"{znodes.BROKER_EPOCHS}/{one}" for one in ids]
        found = yield from self._data(paths)
        for one, path, data in zip(ids, paths, found, strict=True):
            self.last[int(one)] = znodes.last_registration_of(data)
            self.assigned[path] = data

    def _producer_ids(self) -> Reading:
        (data,) = yield from self._data([znodes.PRODUCER_IDS])
        self.state.metadata.apply(ProducerIdsAllocated(znodes.next_producer_id(data)))

    def _features(self) -> Reading:
        (data,) = yield from self._data([znodes.FEATURES])
        if data is not None:
            self.state.metadata.apply(znodes.features_of(data))

    def _configs(self) -> Reading:
        kinds = [f"{znodes.CONFIGS}/{kind}" for kind in _KINDS]
        names = yield from self._children(kinds)
        paths = [f"{kind}/{one}" for kind, some in zip(kinds, names, strict=True) for one in some]
        users = [path for path in paths if path.startswith(f"{znodes.CONFIGS}/users/")]
        clients = yield from self._children([f"{user}/clients" for user in users])
        for user, some in zip(users, clients, strict=True):
            paths += [f"{user}/clients/{one}" for one in some]
        found = yield from self._data(paths)
        for path, data in zip(paths, found, strict=True):
            values, entity = znodes.config_of(data), znodes.entity_of(path)
            if isinstance(entity, ConfigResource):
                self.state.metadata.apply(ConfigsAltered(entity, values))
            else:
                self._user(entity, values)

    def _user(self, entity: QuotaEntity, values: Mapping[str, str]) -> None:
        """Quotas, and for a user the SCRAM credentials beside them."""
        credentials = {name: from_text(values[name]) for name in values.keys() & BY_NAME.keys()}
        quotas = {key: float(value) for key, value in values.items() if key not in credentials}
        self.state.metadata.apply(QuotasAltered(entity, quotas))
        user = dict(entity).get(znodes.USER)
        if credentials and user is not None:
            self.state.metadata.apply(ScramCredentialsAltered(user, credentials))

    def _acls(self) -> Reading:
        parents = (znodes.LITERAL_ACLS, znodes.PREFIXED_ACLS)
        kinds = yield from self._children(parents)
        pairs = [(p, kind) for p, some in zip(parents, kinds, strict=True) for kind in some]
        names = yield from self._children([f"{parent}/{kind}" for parent, kind in pairs])
        places = [(*pair, one) for pair, some in zip(pairs, names, strict=True) for one in some]
        found = yield from self._data(["/".join(place) for place in places])
        for place, data in zip(places, found, strict=True):
            if data:
                change = AclsAltered(znodes.acl_pattern(*place), znodes.acls_of(data))
                self.state.metadata.apply(change)

    # Topics

    def _topics(self) -> Reading:
        names, deleting = yield from self._children([znodes.TOPICS, znodes.DELETE_TOPICS])
        self.deleting = list(deleting)
        for name in deleting:
            self.controllership.read(f"{znodes.DELETE_TOPICS}/{name}", 0)
        found = yield from self._data([znodes.topic_path(name) for name in names])
        there = yield from self._children([f"{znodes.topic_path(n)}/partitions" for n in names])
        partitions: list[tuple[TopicPartition, bytes, znodes.Assigned | None]] = []
        for name, data, numbers in zip(names, found, there, strict=True):
            topic_id, assigned = znodes.topic_of(data)
            self.assigned[znodes.topic_path(name)] = data
            for number in numbers:
                partition = TopicPartition(name, int(number))
                self.controllership.read(znodes.partition_path(partition), 0)
            if name not in deleting:
                self.state.metadata.apply(TopicCreated(name, topic_id))
            for number in sorted({*assigned, *map(int, numbers)}):
                where = assigned.get(number)
                partitions.append((TopicPartition(name, number), topic_id, where))
        states = yield from self._data([znodes.state_path(name) for name, _, _ in partitions])
        for (name, topic_id, where), data in zip(partitions, states, strict=True):
            if name.topic not in deleting and where is not None:
                self._partition(name, topic_id, where, data)

    def _partition(
        self, name: TopicPartition, topic_id: bytes, where: znodes.Assigned, data: bytes | None
    ) -> None:
        if data is None:
            self.missing.append((name, where.replicas))
            return
        version = self.controllership.versions[znodes.state_path(name)]
        found, here = znodes.state_of(data, version), self.state
        decision = found.decision
        state = PartitionState(
            *(decision.leader_epoch, decision.leader, decision.isr),
            frozenset(where.replicas) | decision.isr | found.elr,
            *(here.registry, decision.partition_epoch, found.elr),
            last_known=found.last_known_leader,
        )
        one = here.partitions[name] = Controlled(topic_id, Assignment(*where), state)
        registration: PartitionRegistration = one.registration(name)
        here.metadata.apply(registration)


_KINDS = (*znodes.FOLDERS.values(), "users", "clients", "ips")
