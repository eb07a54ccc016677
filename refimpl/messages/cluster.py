"""The metadata of a cluster: topics, partitions, brokers, configurations, quotas, ACLs, features.

The controller keeps it and sends changes to brokers; every broker keeps its copy. An update is a
sequence of the named tuples below, each of which replaces the earlier state of its subject. Kafka
calls the whole the metadata image.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from attrs import define, field

from refimpl.configs import Configs
from refimpl.machines.messages import LeaderAndIsr
from refimpl.messages.broker import TopicPartition
from refimpl.security.acls import Acls, Entries, ResourcePattern
from refimpl.security.scram import ScramCredential

K = TypeVar("K")
V = TypeVar("V")

TOPIC, BROKER, GROUP, CLIENT_METRICS = "topic", "broker", "group", "client-metrics"
"""Types of resources that have configurations."""

CLUSTER_DEFAULT = ""
"""The name of the broker resource whose configuration is every broker's default."""

TRANSACTION_VERSION = "transaction.version"
"""The feature by which clients and brokers agree on the protocol of transactions (KIP-890)."""

SHARE_VERSION = "share.version"
"""The feature by which brokers serve share groups (KIP-932)."""

INTERNAL_TOPICS = frozenset(("__consumer_offsets", "__transaction_state", "__share_group_state"))


class Endpoint(NamedTuple):
    """A broker's listener and its address."""

    listener: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"


class ConfigResource(NamedTuple):
    """The owner of a configuration: a topic, a group or a subscription to clients' metrics by its
    name, a broker by its id in digits.
    """

    type: str
    name: str


QuotaEntity: TypeAlias = frozenset[tuple[str, str | None]]
"""The clients that a quota limits: pairs of a type (user, client-id, ip) and a name, None for the
default.
"""


class BrokerRegistration(NamedTuple):
    """A broker as the controller has it; a fenced one serves no clients (KIP-631)."""

    broker_id: int
    broker_epoch: int
    incarnation_id: int
    endpoints: tuple[Endpoint, ...] = ()
    rack: str | None = None
    log_dirs: tuple[bytes, ...] = ()
    fenced: bool = False
    in_controlled_shutdown: bool = False


class BrokerUnregistered(NamedTuple):
    """A broker is not part of the cluster any more."""

    broker_id: int


class TopicCreated(NamedTuple):
    """A topic exists, with an id of 16 bytes that no other topic ever has (KIP-516)."""

    name: str
    topic_id: bytes


class TopicDeleted(NamedTuple):
    """A topic is deleted, with all of its partitions."""

    name: str
    topic_id: bytes


class PartitionRegistration(NamedTuple):
    """A decision of the controller about one partition.

    `replicas` are in the order of preference; `adding` and `removing` are those of a reassignment
    under way (KIP-455). `elr` are eligible leaders outside the ISR (KIP-966).
    """

    partition: TopicPartition
    topic_id: bytes
    decision: LeaderAndIsr
    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    elr: frozenset[int] = frozenset()
    last_known_leader: int | None = None


class ConfigsAltered(NamedTuple):
    """All settings of a resource that differ from the defaults."""

    resource: ConfigResource
    values: Mapping[str, str]


class QuotasAltered(NamedTuple):
    """All quotas of an entity."""

    entity: QuotaEntity
    values: Mapping[str, float]

    def __repr__(self) -> str:
        """The text with the entity sorted, so that it is the same in every process."""
        return f"QuotasAltered(entity={sorted(self.entity)}, values={self.values})"


class AclsAltered(NamedTuple):
    """All entries of the ACLs of a pattern."""

    pattern: ResourcePattern
    entries: Entries

    def __repr__(self) -> str:
        """The text with the entries sorted, so that it is the same in every process."""
        return f"AclsAltered(pattern={self.pattern}, entries={sorted(self.entries)})"


class ScramCredentialsAltered(NamedTuple):
    """All SCRAM credentials of a user, by the names of their mechanisms (KIP-554)."""

    user: str
    credentials: Mapping[str, ScramCredential]


class ProducerIdsAllocated(NamedTuple):
    """Producer ids below this one may be in use (KIP-730)."""

    next_producer_id: int


class FeaturesUpdated(NamedTuple):
    """All features that an operator has finalized, by their levels (KIP-584).

    `epoch` counts the updates: clients take over the levels of the greatest epoch that they see.
    """

    epoch: int
    levels: Mapping[str, int]


NO_FEATURES = FeaturesUpdated(0, {})

Change: TypeAlias = (
    BrokerRegistration
    | BrokerUnregistered
    | TopicCreated
    | TopicDeleted
    | PartitionRegistration
    | ConfigsAltered
    | QuotasAltered
    | AclsAltered
    | ScramCredentialsAltered
    | ProducerIdsAllocated
    | FeaturesUpdated
)


def newest(changes: Sequence[Change]) -> list[Change]:
    """The changes, with only the last decision about each partition.

    A broker that received two decisions would have two roles in one step.
    """
    last: dict[object, Change] = {}
    for number, change in enumerate(changes):
        key = (
            (change.partition, change.topic_id)
            if isinstance(change, PartitionRegistration)
            else number
        )
        last.pop(key, None)
        last[key] = change
    return list(last.values())


@define(eq=False)
class Topic:
    """A topic and its partitions, by number."""

    name: str
    topic_id: bytes
    partitions: dict[int, PartitionRegistration] = field(factory=dict[int, PartitionRegistration])

    @property
    def is_internal(self) -> bool:
        """True if Kafka itself writes to it."""
        return self.name in INTERNAL_TOPICS


@define(eq=False)
class ClusterMetadata:
    """The metadata in force, as far as its owner has received it.

    `metadata_version` counts the updates; -1 before the first. `topic_names` are the topics by
    their ids, `partitions` all of all topics.
    """

    cluster_id: str = ""
    controller_id: int = -1
    metadata_version: int = -1
    topics: dict[str, Topic] = field(factory=dict[str, Topic])
    topic_names: dict[bytes, str] = field(factory=dict[bytes, str])
    partitions: dict[TopicPartition, PartitionRegistration] = field(
        factory=dict[TopicPartition, PartitionRegistration]
    )
    brokers: dict[int, BrokerRegistration] = field(factory=dict[int, BrokerRegistration])
    configs: dict[ConfigResource, Mapping[str, str]] = field(
        factory=dict[ConfigResource, Mapping[str, str]]
    )
    #: Those of `configs` that are of client metrics, by name: another mapping after each change
    client_metrics: Mapping[str, Mapping[str, str]] = field(factory=dict[str, Mapping[str, str]])
    quotas: dict[QuotaEntity, Mapping[str, float]] = field(
        factory=dict[QuotaEntity, Mapping[str, float]]
    )
    acls: Acls = field(factory=Acls)
    scram: dict[str, Mapping[str, ScramCredential]] = field(
        factory=dict[str, Mapping[str, ScramCredential]]
    )
    next_producer_id: int = 0
    features: FeaturesUpdated = NO_FEATURES

    def apply(self, change: Change) -> bool:
        """Apply a change, unless it is older by broker epoch or partition epoch; True if its
        subject exists.
        """
        match change:
            case PartitionRegistration():
                return self._apply_partition(change)
            case BrokerRegistration(broker_id, broker_epoch):
                known = self.brokers.get(broker_id)
                if known is not None and known.broker_epoch > broker_epoch:
                    return False
                self.brokers[broker_id] = change
            case BrokerUnregistered(broker_id):
                self.brokers.pop(broker_id, None)
            case TopicCreated(name, topic_id):
                if name in self.topics:
                    return False
                self.topics[name] = Topic(name, topic_id)
                self.topic_names[topic_id] = name
            case TopicDeleted(name, topic_id):
                return self._delete_topic(name, topic_id)
            case ConfigsAltered(resource, values):
                _put(self.configs, resource, values)
                known = self.client_metrics.get(resource.name, {})
                if resource.type == CLIENT_METRICS and values != known:
                    configured = dict(self.client_metrics)
                    _put(configured, resource.name, values)
                    self.client_metrics = configured
            case QuotasAltered(entity, values):
                _put(self.quotas, entity, values)
            case AclsAltered(pattern, entries):
                self.acls.put(pattern, entries)
            case ScramCredentialsAltered(user, credentials):
                _put(self.scram, user, credentials)
            case ProducerIdsAllocated(next_producer_id):
                self.next_producer_id = next_producer_id
            case FeaturesUpdated():
                self.features = change
        return True

    def _apply_partition(self, change: PartitionRegistration) -> bool:
        name = change.partition
        topic = self.topics.get(name.topic)
        if topic is None or topic.topic_id != change.topic_id:
            return False
        known = topic.partitions.get(name.partition)
        epoch = change.decision.partition_epoch
        if known is None or known.decision.partition_epoch <= epoch:
            topic.partitions[name.partition] = self.partitions[name] = change
        return True

    def _delete_topic(self, name: str, topic_id: bytes) -> bool:
        topic = self.topics.get(name)
        if topic is None or topic.topic_id != topic_id:
            return False
        for number in topic.partitions:
            del self.partitions[TopicPartition(name, number)]
        del self.topics[name], self.topic_names[topic_id]
        self.configs.pop(ConfigResource(TOPIC, name), None)
        return True

    def changes(self) -> Iterator[Change]:
        """All metadata, as changes for a broker that knows nothing."""
        yield ProducerIdsAllocated(self.next_producer_id)
        if self.features.epoch:
            yield self.features
        yield from self.brokers.values()
        for resource, values in self.configs.items():
            yield ConfigsAltered(resource, values)
        for entity, quotas in self.quotas.items():
            yield QuotasAltered(entity, quotas)
        for pattern, entries in self.acls.by_pattern.items():
            yield AclsAltered(pattern, entries)
        for user, credentials in self.scram.items():
            yield ScramCredentialsAltered(user, credentials)
        for topic in self.topics.values():
            yield TopicCreated(topic.name, topic.topic_id)
            yield from topic.partitions.values()

    def gone(self, everything: Sequence[Change]) -> list[Change]:
        """The changes that remove every subject that a full update does not have."""
        topics = {one.topic_id for one in everything if isinstance(one, TopicCreated)}
        brokers = {one.broker_id for one in everything if isinstance(one, BrokerRegistration)}
        resources = {one.resource for one in everything if isinstance(one, ConfigsAltered)}
        entities = {one.entity for one in everything if isinstance(one, QuotasAltered)}
        patterns = {one.pattern for one in everything if isinstance(one, AclsAltered)}
        users = {one.user for one in everything if isinstance(one, ScramCredentialsAltered)}
        return [
            *(TopicDeleted(n, id) for id, n in self.topic_names.items() if id not in topics),
            *(BrokerUnregistered(one) for one in self.brokers if one not in brokers),
            *(ConfigsAltered(one, {}) for one in self.configs if one not in resources),
            *(QuotasAltered(one, {}) for one in self.quotas if one not in entities),
            *(AclsAltered(one, frozenset()) for one in self.acls.by_pattern if one not in patterns),
            *(ScramCredentialsAltered(one, {}) for one in self.scram if one not in users),
        ]

    def configs_of(self, broker: int, static: Configs) -> Configs:
        """A broker's configurations: those of its file, and the dynamic ones (KIP-226)."""
        return static.changed(
            dynamic=self.configs.get(ConfigResource(BROKER, str(broker)), {}),
            dynamic_default=self.configs.get(ConfigResource(BROKER, CLUSTER_DEFAULT), {}),
        )

    def topic_config(self, topic: str, key: str) -> str | None:
        """A topic's configuration, or the cluster's default of it; None if neither is set."""
        for resource in (ConfigResource(TOPIC, topic), ConfigResource(BROKER, CLUSTER_DEFAULT)):
            value = self.configs.get(resource, {}).get(key)
            if value is not None:
                return value
        return None


def _put(into: dict[K, Mapping[str, V]], key: K, values: Mapping[str, V]) -> None:
    """Keep the settings of a subject; remove the subject if it has none."""
    if values:
        into[key] = values
    else:
        into.pop(key, None)
