"""The paths and contents of the controller's znodes, as Kafka 3.9 writes them.

Any tool that knows Kafka's znodes can read these. Some fields are not in Kafka 3.9: the partition
epoch, the eligible leader replicas (KIP-966), a process's incarnation, and the epoch of features.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping, Set
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

import orjson

from refimpl.machines.messages import LeaderAndIsr
from refimpl.messages.broker import TopicPartition
from refimpl.messages.cluster import (
    BROKER,
    CLIENT_METRICS,
    CLUSTER_DEFAULT,
    GROUP,
    TOPIC,
    BrokerRegistration,
    ConfigResource,
    Endpoint,
    FeaturesUpdated,
    PartitionRegistration,
    QuotaEntity,
)
from refimpl.security.acls import (
    AccessControlEntry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

CONTROLLER, CONTROLLER_EPOCH = "/controller", "/controller_epoch"
BROKER_IDS, BROKER_EPOCHS, TOPICS = "/brokers/ids", "/brokers/epochs", "/brokers/topics"
DELETE_TOPICS = "/admin/delete_topics"
PRODUCER_IDS = "/latest_producer_id_block"
FEATURES = "/feature"
CONFIGS = "/config"
FOLDERS: Mapping[str, str] = {
    **{TOPIC: "topics", BROKER: "brokers", GROUP: "groups"},
    CLIENT_METRICS: "client-metrics",
}
"""The folder of each type of resource."""

DEFAULT = "<default>"
USER = "user"
LITERAL_ACLS, PREFIXED_ACLS = "/kafka-acl", "/kafka-acl-extended/prefixed"

ROOTS = (
    *("/brokers", BROKER_IDS, BROKER_EPOCHS, TOPICS, "/admin", DELETE_TOPICS, CONFIGS),
    *(f"{CONFIGS}/{kind}" for kind in (*FOLDERS.values(), "users", "clients", "ips")),
    PRODUCER_IDS,
    *(LITERAL_ACLS, "/kafka-acl-extended", PREFIXED_ACLS),
)
"""The root znodes, in the order of their creation."""

LAST_BLOCK = 1_000


def topic_path(name: str) -> str:
    """The path of a topic's id and the assignments of its partitions."""
    return f"{TOPICS}/{name}"


def partition_path(name: TopicPartition) -> str:
    """The parent of a partition's state."""
    return f"{TOPICS}/{name.topic}/partitions/{name.partition}"


def state_path(name: TopicPartition) -> str:
    """The path of a partition's leader and ISR."""
    return f"{partition_path(name)}/state"


def _json(value: Mapping[str, Any]) -> bytes:
    return orjson.dumps(value)


def controller(broker: int) -> bytes:
    """The content of /controller, which names this broker."""
    return _json({"version": 2, "brokerid": broker, "timestamp": "0", "kraftControllerEpoch": -1})


def controller_of(data: bytes) -> int:
    """The broker id in /controller."""
    return int(orjson.loads(data)["brokerid"])


# Brokers


class BrokerIdZNode(NamedTuple):
    """A broker's registration, and the epoch of its last process if that ended in good order."""

    registration: BrokerRegistration
    previous_broker_epoch: int


def broker(one: BrokerRegistration, previous_broker_epoch: int) -> bytes:
    """A broker's registration."""
    first = one.endpoints[0] if one.endpoints else Endpoint("PLAINTEXT", "", -1)
    protocols = {each.listener: each.security_protocol for each in one.endpoints}
    return _json(
        {
            "features": {},
            "listener_security_protocol_map": protocols,
            "endpoints": [f"{each.listener}://{each.host}:{each.port}" for each in one.endpoints],
            "rack": one.rack,
            "jmx_port": -1,
            "port": first.port,
            "host": first.host,
            "version": 5,
            "timestamp": "0",
            "incarnation": one.incarnation_id,
            "previous_broker_epoch": previous_broker_epoch,
            "log_dirs": [_id(each) for each in one.log_dirs],
        }
    )


def broker_of(data: bytes, broker_id: int, broker_epoch: int) -> BrokerIdZNode:
    """A broker's registration; its epoch is the czxid of its znode."""
    value = orjson.loads(data)
    protocols = value["listener_security_protocol_map"]
    endpoints: list[Endpoint] = []
    for text in value["endpoints"]:
        listener, _, address = text.partition("://")
        host, _, port = address.rpartition(":")
        endpoints.append(Endpoint(listener, host, int(port), protocols[listener]))
    registration = BrokerRegistration(
        *(broker_id, broker_epoch, value.get("incarnation", 0)),
        *(tuple(endpoints), value.get("rack")),
        tuple(_id_of(text) for text in value.get("log_dirs", ())),
    )
    return BrokerIdZNode(registration, value.get("previous_broker_epoch", -1))


class LastRegistration(NamedTuple):
    """The epoch and the incarnation under which a broker was registered last."""

    broker_epoch: int
    incarnation_id: int


def last_registration(broker_epoch: int, incarnation_id: int) -> bytes:
    """The data of a broker that outlives its ephemeral znode."""
    return _json({"broker_epoch": broker_epoch, "incarnation": incarnation_id})


def last_registration_of(data: bytes) -> LastRegistration:
    """The last registration of a broker, from its data."""
    value = orjson.loads(data)
    return LastRegistration(value["broker_epoch"], value["incarnation"])


# Topics and partitions


def topic(topic_id: bytes, partitions: Iterable[PartitionRegistration]) -> bytes:
    """A topic's id, and the assignments of its partitions."""
    several = list(partitions)
    return _json(
        {
            "partitions": {str(one.partition.partition): one.replicas for one in several},
            "topic_id": _id(topic_id),
            "adding_replicas": {
                str(one.partition.partition): one.adding for one in several if one.adding
            },
            "removing_replicas": {
                str(one.partition.partition): one.removing for one in several if one.removing
            },
            "version": 3,
        }
    )


class Assigned(NamedTuple):
    """The replicas of one partition in a topic's znode."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


def topic_of(data: bytes) -> tuple[bytes, dict[int, Assigned]]:
    """A topic's id, and its partitions by number."""
    value = orjson.loads(data)
    adding, removing = value.get("adding_replicas", {}), value.get("removing_replicas", {})
    return _id_of(value["topic_id"]), {
        int(number): Assigned(
            tuple(replicas), tuple(adding.get(number, ())), tuple(removing.get(number, ()))
        )
        for number, replicas in value["partitions"].items()
    }


def state(one: PartitionRegistration, controller_epoch: int) -> bytes:
    """A decision about a partition; -1 stands for no broker."""
    decision = one.decision
    nobody = -1
    return _json(
        {
            "controller_epoch": controller_epoch,
            "leader": nobody if decision.leader is None else decision.leader,
            "version": 1,
            "leader_epoch": decision.leader_epoch,
            "isr": sorted(decision.isr),
            "partition_epoch": decision.partition_epoch,
            "elr": sorted(one.elr),
            "last_known_leader": nobody if one.last_known_leader is None else one.last_known_leader,
        }
    )


class TopicPartitionStateZNode(NamedTuple):
    """The content of a partition's znode."""

    decision: LeaderAndIsr
    elr: frozenset[int]
    last_known_leader: int | None
    controller_epoch: int


def state_of(data: bytes, version: int = 0) -> TopicPartitionStateZNode:
    """A decision about a partition.

    Kafka 3.9 uses the znode's version as the partition epoch, and knows no eligible leaders outside
    the ISR.
    """
    value = orjson.loads(data)

    def somebody(broker: int) -> int | None:
        return None if broker < 0 else broker

    decision = LeaderAndIsr(
        *(value["leader_epoch"], somebody(value["leader"])),
        *(frozenset(value["isr"]), value.get("partition_epoch", version)),
    )
    last_known = somebody(value.get("last_known_leader", -1))
    elr = frozenset[int](value.get("elr", ()))
    return TopicPartitionStateZNode(decision, elr, last_known, value["controller_epoch"])


# Configurations and quotas


def config_path(resource: ConfigResource) -> str:
    """The path of a resource's configuration."""
    name = resource.name
    if resource.type == BROKER and name == CLUSTER_DEFAULT:
        name = DEFAULT
    if resource.type in (GROUP, CLIENT_METRICS):
        name = quote(name, safe="")
    return f"{CONFIGS}/{FOLDERS[resource.type]}/{name}"


def quota_path(entity: QuotaEntity) -> tuple[str, ...]:
    """The paths of an entity's quotas, parents first."""
    names = {kind: DEFAULT if name is None else quote(name, safe="") for kind, name in entity}
    if "ip" in names:
        return (f"{CONFIGS}/ips/{names['ip']}",)
    if "user" not in names:
        return (f"{CONFIGS}/clients/{names['client-id']}",)
    user = f"{CONFIGS}/users/{names['user']}"
    if "client-id" not in names:
        return (user,)
    return user, f"{user}/clients", f"{user}/clients/{names['client-id']}"


def entity_of(path: str) -> QuotaEntity | ConfigResource:
    """The entity or resource whose quotas or configuration are at this path."""
    kind, name, *more = path.removeprefix(f"{CONFIGS}/").split("/")
    if kind == "topics":
        return ConfigResource(TOPIC, name)
    if kind == "brokers":
        return ConfigResource(BROKER, CLUSTER_DEFAULT if name == DEFAULT else name)
    if kind in (FOLDERS[GROUP], FOLDERS[CLIENT_METRICS]):
        return ConfigResource(GROUP if kind == FOLDERS[GROUP] else CLIENT_METRICS, unquote(name))
    types = {"users": USER, "clients": "client-id", "ips": "ip"}
    pairs = [(kind, name), *zip(more[::2], more[1::2], strict=True)]
    return frozenset(
        (types[kind], None if name == DEFAULT else unquote(name)) for kind, name in pairs
    )


def config(values: Mapping[str, object]) -> bytes:
    """Configurations or quotas."""
    return _json({"version": 1, "config": {key: str(value) for key, value in values.items()}})


def config_of(data: bytes | None) -> dict[str, str]:
    """Configurations or quotas, as text; empty for a znode that only has children, or that is
    gone.
    """
    return orjson.loads(data)["config"] if data else {}


# ACLs


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


_ACL_NAMES: Mapping[type, Mapping[str, int]] = {
    kind: {_camel(one.name): one.value for one in kind}
    for kind in (ResourceType, Operation, Permission)
}
"""The numbers behind the names in znodes, such as `TransactionalId`, `AlterConfigs`, `Deny`."""


def _acl_name(kind: type[ResourceType | Operation | Permission], number: int) -> str:
    return _camel(kind(number).name)


def acl_path(pattern: ResourcePattern) -> tuple[str, str]:
    """The paths of a resource type and of a pattern, under which its ACLs are."""
    literal = pattern.pattern_type == PatternType.LITERAL
    parent = LITERAL_ACLS if literal else PREFIXED_ACLS
    kind = f"{parent}/{_acl_name(ResourceType, pattern.type)}"
    return kind, f"{kind}/{quote(pattern.name, safe=_SAFE)}"


_SAFE = "*=,: "
"""Signs of resource names that paths have as they are; Kafka writes all of them so."""


def acls(entries: Set[AccessControlEntry]) -> bytes:
    """The ACLs of a pattern."""
    return _json(
        {
            "version": 1,
            "acls": [
                {
                    "principal": one.principal,
                    "permissionType": _acl_name(Permission, one.permission),
                    "operation": _acl_name(Operation, one.operation),
                    "host": one.host,
                }
                for one in sorted(entries)
            ],
        }
    )


def acls_of(data: bytes) -> frozenset[AccessControlEntry]:
    """The ACLs of a pattern, from their znode."""
    return frozenset(
        AccessControlEntry(
            one["principal"],
            one["host"],
            _ACL_NAMES[Operation][one["operation"]],
            _ACL_NAMES[Permission][one["permissionType"]],
        )
        for one in orjson.loads(data)["acls"]
    )


def acl_pattern(parent: str, kind: str, name: str) -> ResourcePattern:
    """The pattern of a znode below one of the two parents."""
    pattern_type = PatternType.LITERAL if parent == LITERAL_ACLS else PatternType.PREFIXED
    return ResourcePattern(_ACL_NAMES[ResourceType][kind], unquote(name), pattern_type.value)


# Producer ids and features


def producer_ids(next_producer_id: int) -> bytes:
    """The last block of producer ids that was given out."""
    first = next_producer_id - LAST_BLOCK
    return _json(
        {
            "version": 1,
            "broker": -1,
            "block_start": str(first),
            "block_end": str(next_producer_id - 1),
        }
    )


def next_producer_id(data: bytes | None) -> int:
    """The first producer id that nobody has."""
    return int(orjson.loads(data)["block_end"]) + 1 if data else 0


ENABLED = 1
"""The status of features in their znode."""


def features(one: FeaturesUpdated) -> bytes:
    """The levels of finalized features (KIP-584)."""
    value = {"version": 2, "status": ENABLED, "features": one.levels, "epoch": one.epoch}
    return _json(value)


def features_of(data: bytes) -> FeaturesUpdated:
    """The finalized features, from their znode."""
    value = orjson.loads(data)
    return FeaturesUpdated(value["epoch"], value["features"])


def _id(topic_id: bytes) -> str:
    return urlsafe_b64encode(topic_id).decode().rstrip("=")


def _id_of(text: str) -> bytes:
    return urlsafe_b64decode(f"{text}==")
