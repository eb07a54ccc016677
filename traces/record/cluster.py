"""Facts that a cluster tells about its topics, in the words of meta.json."""

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

from attrs import field, frozen

from traces.record.confluent_ids import ids_of
from traces.record.scan import Library
from traces.record.topic_settings import in_our_words

PATIENCE_S = 30
INTERNAL = ("__consumer_offsets",)
RETENTION = "offsets.retention.minutes"
LEAST_RETENTION_NS = 60_000_000_000  # of one minute, the least that brokers accept


class NoLibraryError(Exception):
    """confluent-kafka is not installed."""


class ClusterError(Exception):
    """The cluster does not answer, or does not know what it is asked for."""


@frozen
class Cluster:
    """Facts about a cluster: topics' settings, its own topics', partitions without a leader, and
    which topics stand behind the names."""

    topics: dict[str, dict[str, Any]]
    internal: dict[str, dict[str, Any]]
    headless: list[str]
    ids: dict[str, str] = field(factory=dict[str, str])
    group_retention: int | None = None  # offsets.retention.minutes, if all brokers have the same


def library() -> Library:
    """confluent-kafka, which is nobody's dependency: most who record have it, others add it."""
    try:
        ck: Any = import_module("confluent_kafka")
        admin: Any = import_module("confluent_kafka.admin")
    except ModuleNotFoundError as missing:
        raise NoLibraryError from missing
    eof = ck.KafkaError._PARTITION_EOF
    return Library(ck.Consumer, admin.AdminClient, ck.TopicPartition, admin.ConfigResource, eof)


def describe(
    used: Library, conf: Mapping[str, Any], wanted: Iterable[str], lasted_ns: int | None = None
) -> Cluster:
    """The settings of these topics, and of those in which coordinators keep what they know.

    `lasted_ns` tells how long the run has lasted, if that is known: in less than a minute no group
    expires, and brokers are not asked for all their settings. Raises `ClusterError`.
    """
    ck: Any = import_module("confluent_kafka")
    client = used.admin({"client.id": "highwater-record-scan", **conf})
    names = sorted(wanted)
    try:
        metadata = client.list_topics(timeout=PATIENCE_S)
        found = metadata.topics
        unknown = [name for name in names if name not in found or found[name].error is not None]
        if unknown:
            raise ClusterError(f"the cluster has no topic {', '.join(unknown)}")
        own = [name for name in INTERNAL if name in found and found[name].error is None]
        resources = [used.resource("topic", name) for name in {*names, *own}]
        answers = client.describe_configs(resources, request_timeout=PATIENCE_S)
        configs = {r.name: future.result(PATIENCE_S) for r, future in answers.items()}
        ids = ids_of(client, names, PATIENCE_S)
    except ck.KafkaException as error:
        raise ClusterError(f"the cluster does not answer: {error.args[0].str()}") from error
    topics = {name: _topic(found[name], configs[name]) for name in {*names, *own}}
    headless = [
        f"{name}:{number}"
        for name in names
        for number, partition in found[name].partitions.items()
        if partition.leader < 0
    ]
    return Cluster(
        {name: topics[name] for name in names},
        {name: topics[name] for name in own},
        headless,
        ids,
        _group_retention(used, client, metadata.brokers) if _may_expire(lasted_ns) else None,
    )


def _may_expire(lasted_ns: int | None) -> bool:
    """True if a group may have expired in so much time; its first seconds are not known exactly."""
    return lasted_ns is None or lasted_ns > LEAST_RETENTION_NS // 2


def _group_retention(used: Library, client: Any, brokers: Iterable[int]) -> int | None:
    """After how many minutes a group without members expires; None where brokers do not tell."""
    ck: Any = import_module("confluent_kafka")
    try:
        # The client takes one broker in a call.
        asked = [[used.resource("broker", str(id))] for id in brokers]
        answers = [client.describe_configs(one, request_timeout=PATIENCE_S) for one in asked]
        configs: list[Any] = [f.result(PATIENCE_S) for one in answers for f in one.values()]
    except ck.KafkaException:  # who may read topics need not be allowed to read brokers' settings
        return None
    reported = {c[RETENTION].value for c in configs if RETENTION in c}
    return int(reported.pop()) if len(reported) == 1 else None


def _topic(metadata: Any, config: Mapping[str, Any]) -> dict[str, Any]:
    replicas = [len(partition.replicas) for partition in metadata.partitions.values()]
    counted = {"partitions": len(metadata.partitions)}
    counted["replication_factor"] = min(replicas, default=0)
    return counted | in_our_words({name: entry.value for name, entry in config.items()})
