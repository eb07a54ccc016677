"""The writes to the store for the controller's decisions, fenced by its epoch.

Every write is a multi that begins with a check of /controller_epoch at the version with which the
controller was elected (KAFKA-6082).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import define

from refimpl.controller import znodes
from refimpl.machines.election import Controllership
from refimpl.messages.broker import TopicPartition
from refimpl.messages.cluster import (
    AclsAltered,
    BrokerRegistration,
    BrokerUnregistered,
    Change,
    ClusterMetadata,
    ConfigsAltered,
    FeaturesUpdated,
    PartitionRegistration,
    ProducerIdsAllocated,
    QuotaEntity,
    QuotasAltered,
    ScramCredentialsAltered,
    TopicCreated,
    TopicDeleted,
)
from refimpl.metadata.contract import Change as Write
from refimpl.metadata.contract import (
    Check,
    Create,
    Data,
    Delete,
    Existence,
    Exists,
    GetData,
    Multi,
    Operation,
    Result,
    SetData,
)
from refimpl.metadata.errors import StoreError
from refimpl.security.scram import to_text

MOST_BYTES = 500_000
"""The size limit of one multi, in bytes; ZooKeeper takes 1 MiB."""

PER_OPERATION = 100


@define(eq=False)
class StoreWrites:
    """Turns changes of the metadata into writes, and knows the versions of existing znodes.

    `assigned` is the content of the topics' znodes: written again only when it has changed.
    """

    controllership: Controllership
    metadata: ClusterMetadata
    assigned: dict[str, bytes]

    @property
    def fence(self) -> Check:
        """The condition of every write."""
        return Check(znodes.CONTROLLER_EPOCH, self.controllership.fence)

    def multis(self, changes: Sequence[Change]) -> list[Multi]:
        """Writes in an order that a successor can resume after any of them.

        A topic comes before the states of its new partitions and replicas, but after states from
        which a replica was removed (KIP-455). A request for deletion comes before the deletion.
        """
        grows, topics = self._grows(changes), [*self._topics(changes)]
        writes = [one for change in changes for one in self._of(change)]
        writes = [*topics, *writes] if grows else [*writes, *topics]
        return [Multi((self.fence, *some)) for some in _pieces(writes)]

    def _grows(self, changes: Sequence[Change]) -> bool:
        """True if the changes add partitions or replicas."""
        return any(
            isinstance(one, PartitionRegistration)
            and (one.adding or not self._is_there(znodes.state_path(one.partition)))
            for one in changes
        )

    def deletions(self, topic: str) -> list[Multi]:
        """The remaining writes of a deletion that was begun."""
        return [Multi((self.fence, *some)) for some in _pieces(self._deletion(topic))]

    def _of(self, change: Change) -> Iterator[Write]:
        match change:
            case PartitionRegistration(partition):
                yield from self._partition(partition, change)
            case TopicDeleted(name):
                yield from self._deletion(name)
            case ConfigsAltered(resource, values):
                yield from self._config(znodes.config_path(resource), values)
            case QuotasAltered(entity, values):
                *parents, path = znodes.quota_path(entity)
                yield from (self._put(one, b"") for one in parents if not self._is_there(one))
                yield from self._config(path, {**values, **self._credentials(entity)})
            case ScramCredentialsAltered(user):
                entity = frozenset(((znodes.USER, user),))
                (path,) = znodes.quota_path(entity)
                quotas = self.metadata.quotas.get(entity, {})
                yield from self._config(path, {**quotas, **self._credentials(entity)})
            case AclsAltered(pattern, entries):
                parent, path = znodes.acl_path(pattern)
                if entries and not self._is_there(parent):
                    yield self._put(parent, b"")
                if entries:
                    yield self._put(path, znodes.acls(entries))
                elif self._is_there(path):
                    yield Delete(path)
            case ProducerIdsAllocated(next_id):
                yield self._put(znodes.PRODUCER_IDS, znodes.producer_ids(next_id))
            case FeaturesUpdated():
                yield self._put(znodes.FEATURES, znodes.features(change))
            case BrokerRegistration(broker_id, broker_epoch, incarnation_id):
                path = f"{znodes.BROKER_EPOCHS}/{broker_id}"
                data = znodes.last_registration(broker_epoch, incarnation_id)
                if self.assigned.get(path) != data:
                    self.assigned[path] = data
                    yield self._put(path, data)
            case BrokerUnregistered(broker_id):
                path = f"{znodes.BROKER_EPOCHS}/{broker_id}"
                if self._is_there(path):
                    self.assigned.pop(path, None)
                    yield Delete(path)
            case TopicCreated():
                pass  # with its partitions

    def _topics(self, changes: Sequence[Change]) -> Iterator[Write]:
        """The znodes of topics whose partitions have been added or moved."""
        names = {
            one.partition.topic if isinstance(one, PartitionRegistration) else one.name: None
            for one in changes
            if isinstance(one, PartitionRegistration | TopicCreated)
        }
        for name in names:
            topic = self.metadata.topics.get(name)
            if topic is None:
                continue
            path = znodes.topic_path(name)
            data = znodes.topic(topic.topic_id, topic.partitions.values())
            if self.assigned.get(path) != data:
                self.assigned[path] = data
                yield self._put(path, data)
            partitions = f"{path}/partitions"
            if not self._is_there(partitions):
                yield self._put(partitions, b"")

    def _partition(self, name: TopicPartition, one: PartitionRegistration) -> Iterator[Write]:
        if name not in self.metadata.partitions:
            return  # deleted since
        parent = znodes.partition_path(name)
        if not self._is_there(parent):
            yield self._put(parent, b"")
        epoch = self.controllership.controller_epoch
        yield self._put(znodes.state_path(name), znodes.state(one, epoch))

    def _config(self, path: str, values: Mapping[str, object]) -> Iterator[Write]:
        if values:
            yield self._put(path, znodes.config(values))
        elif self._is_there(path):
            yield self._put(path, b"") if path.startswith("/config/users") else Delete(path)

    def _credentials(self, entity: QuotaEntity) -> Mapping[str, str]:
        """The SCRAM credentials that are in one znode with the quotas of a user."""
        pairs = dict(entity)
        user = pairs.get(znodes.USER)
        if user is None or len(pairs) > 1:
            return {}
        known = self.metadata.scram.get(user, {})
        return {mechanism: to_text(one) for mechanism, one in known.items()}

    def _deletion(self, name: str) -> Iterator[Write]:
        request, path = f"{znodes.DELETE_TOPICS}/{name}", znodes.topic_path(name)
        if not self._is_there(request):
            yield self._put(request, b"")
        under = [one for one in self.controllership.versions if _is_under(one, path)]
        for one in sorted(map(str, under), key=lambda one: (-one.count("/"), one)):
            yield Delete(one)
        self.assigned.pop(path, None)
        config = f"{znodes.CONFIGS}/topics/{name}"
        if self._is_there(config):
            yield Delete(config)
        yield Delete(request)

    def _put(self, path: str, data: bytes) -> Write:
        """Create a znode, or write an existing one on condition of its version."""
        if not self._is_there(path):
            self.controllership.read(path, 0)
            return Create(path, data)
        version = self.controllership.write(path).version
        self.controllership.written(path, version + 1)
        return SetData(path, data, version)

    def _is_there(self, path: str) -> bool:
        return path in self.controllership.versions

    def written(self, multi: Multi) -> None:
        """Record that a multi was applied: its deleted znodes do not exist any more."""
        for one in multi.operations:
            if isinstance(one, Delete):
                self.controllership.conflict(one.path)


def _is_under(path: Any, parent: str) -> bool:
    return path == parent or str(path).startswith(f"{parent}/")


def _pieces(writes: Iterable[Write]) -> Iterator[list[Write]]:
    piece, size = list[Write](), 0
    for one in writes:
        length = PER_OPERATION + len(one.path)
        length += len(one.data) if isinstance(one, Create | SetData) else 0
        if piece and size + length > MOST_BYTES:
            yield piece
            piece, size = [], 0
        piece.append(one)
        size += length
    if piece:
        yield piece


# After an answer was lost


def question(multi: Multi) -> Operation:
    """The read that shows whether a multi was applied whose answer was lost."""
    last = _telling(multi)
    return Exists(last.path) if isinstance(last, Delete) else GetData(last.path)


def _telling(multi: Multi) -> Write:
    """A write of the multi whose effect can be seen: not the deletion of a znode that it
    created.
    """
    created = {one.path for one in multi.operations if isinstance(one, Create)}
    return next(
        one
        for one in reversed(multi.operations)
        if not (isinstance(one, Delete) and one.path in created)
    )


def was_applied(multi: Multi, answer: Result | StoreError) -> bool:
    """True if the multi was applied. One of its writes shows that, because nobody else writes while
    the fence holds.
    """
    match _telling(multi), answer:
        case Delete(), Existence(stat=stat):
            return stat is None
        case Create(), Data():
            return True
        case SetData(data=data, version=version), Data(data=found, stat=stat):
            return found == data and stat.version == version + 1
        case _:
            return False
