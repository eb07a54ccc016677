"""Scripts of administrators, in every version: sent to real Kafka once, to ours with every test.

A script is given `ask`, which sends one request, keeps the answer, and returns it.
"""

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from tests.wire.asking import NOW, TIMEOUT, Ask, create, produce, topic
from tests.wire.feature_scripts import features
from tests.wire.fetch_scripts import config_resources, fetches, quorum
from tests.wire.group_scripts import classic_groups, consumer_groups, offsets_of_groups
from tests.wire.quota_scripts import quotas, throttles
from tests.wire.refusal_scripts import describing, leaving, reading, writing
from tests.wire.role_scripts import roles
from tests.wire.share_scripts import share_groups, share_offsets, share_sessions, share_states
from tests.wire.telemetry_scripts import broker_loggers, subscriptions, telemetry
from tests.wire.transaction_scripts import transactions, transactions_of_brokers

TOPIC, BROKER, LOGGER, GROUP = 2, 4, 8, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def configs(**values: str | None) -> list[dict[str, Any]]:
    """Configurations, with underscores for dots."""
    return [{"name": name.replace("_", "."), "value": value} for name, value in values.items()]


def assigned(*replicas: list[int]) -> list[dict[str, Any]]:
    """The assignment of replicas to partitions."""
    return [{"partition_index": index, "broker_ids": of} for index, of in enumerate(replicas)]


def topics(ask: Ask) -> None:
    """CreateTopics, DeleteTopics, CreatePartitions, and what Metadata says of it."""
    for version in range(2, 8):
        create(ask, topic(f"v{version}", 2), version=version)
    create(ask, topic("defaults", -1, -1), version=4)
    create(ask, topic("v7"), topic("new"), topic("three", 1, 3), topic("none", 0))
    create(ask, topic("zero", 1, 0), topic("less", -2, 1), topic("fewer", 1, -2))
    create(ask, topic("bad name"), topic(""), topic("."), topic(".."), topic("x" * 250))
    create(ask, topic("a.b"), topic("a_b"))
    create(ask, topic("a_b"))
    create(ask, topic("twice"), topic("twice"), topic("beside"))
    create(ask, topic("validated", 3), topic("three", 1, 3), validate_only=True)
    create(ask, topic("validated"), version=2, validate_only=True)
    create(ask, topic("configured", configs=configs(segment_bytes="2000000", retention_ms="5")))
    create(
        ask,
        topic("unknown", configs=configs(segment_bytez="1")),
        topic("small", configs=configs(segment_bytes="1")),
        topic("null", configs=configs(segment_bytes=None)),
        topic("word", configs=configs(retention_ms="x")),
        topic("tiered", configs=configs(remote_storage_enable="true")),
    )
    create(
        ask,
        topic("assigned", -1, -1, assignments=assigned([1], [1])),
        topic("both", 2, 1, assignments=assigned([1], [1])),
        topic("elsewhere", -1, -1, assignments=assigned([9])),
        topic("doubled", -1, -1, assignments=assigned([1, 1])),
        topic("nowhere", -1, -1, assignments=assigned([])),
        topic("gap", -1, -1, assignments=[{"partition_index": 1, "broker_ids": [1]}]),
        topic("uneven", -1, -1, assignments=assigned([1], [])),
    )
    create(ask)
    ask("Metadata", 1, topics=[{"name": "v7"}])
    for version in (4, 9, 12, 13):
        names = [{"name": "v7"}, {"name": "missing"}]
        ask("Metadata", version, topics=names, allow_auto_topic_creation=False)
    for version in range(4):
        ask(
            "CreatePartitions",
            version,
            topics=[{"name": "v7", "count": 3 + version, "assignments": None}],
            timeout=TIMEOUT,
        )
    partitions(ask)
    for version in range(1, 6):
        ask("DeleteTopics", version, topic_names=[f"v{version + 1}", "missing"], timeout=TIMEOUT)
    described = ask("Metadata", 12, topics=[{"name": "v7"}], allow_auto_topic_creation=False)
    known = UUID(described["topics"][0]["topic_id"])
    unknown = UUID(int=1)
    for one in (
        [{"name": "new"}, {"name": "missing"}, {"name": "beside"}, {"name": "beside"}],
        [{"name": None, "topic_id": known}, {"name": None, "topic_id": unknown}],
        [{"name": "configured", "topic_id": known}, {"name": None}],
    ):
        ask("DeleteTopics", 6, topics=one, timeout=TIMEOUT)


def partitions(ask: Ask) -> None:
    """CreatePartitions with requests that are refused."""
    wrong: list[dict[str, Any]] = [
        {"name": "v7", "count": 6},
        {"name": "v7", "count": 2},
        {"name": "v7", "count": 0},
        {"name": "missing", "count": 2},
        {"name": "v7", "count": 8, "assignments": [{"broker_ids": [1]}, {"broker_ids": [1]}]},
        {"name": "v7", "count": 9, "assignments": [{"broker_ids": [1]}, {"broker_ids": [1]}]},
        {"name": "v7", "count": 9, "assignments": [{"broker_ids": [9]}]},
        {"name": "v7", "count": 9, "assignments": [{"broker_ids": [1, 1]}]},
        {"name": "v7", "count": 9, "assignments": [{"broker_ids": []}]},
    ]
    for one in wrong:
        made = {"assignments": None, **one}
        ask("CreatePartitions", 3, topics=[made], timeout=TIMEOUT)
    same = {"name": "new", "count": 2, "assignments": None}
    ask("CreatePartitions", 3, topics=[same, same], timeout=TIMEOUT)
    ask("CreatePartitions", 3, topics=[same], timeout=TIMEOUT, validate_only=True)
    ask("CreatePartitions", 3, topics=[same], timeout=TIMEOUT)


def describe(ask: Ask, version: int, type: int, name: str, *keys: str, **more: Any) -> None:
    """DescribeConfigs of one resource."""
    resource = {"resource_type": type, "resource_name": name, "configuration_keys": keys or None}
    ask("DescribeConfigs", version, resources=[resource], **more)


def alter(
    ask: Ask, type: int, name: str, *changes: tuple[str, int, str | None], **more: Any
) -> None:
    """IncrementalAlterConfigs of one resource."""
    listed = [{"name": n, "config_operation": op, "value": value} for n, op, value in changes]
    resource = {"resource_type": type, "resource_name": name, "configs": listed}
    ask("IncrementalAlterConfigs", more.pop("version", 1), resources=[resource], **more)


def configurations(ask: Ask) -> None:
    """DescribeConfigs, AlterConfigs and IncrementalAlterConfigs."""
    create(ask, topic("t", configs=configs(segment_bytes="2000000", cleanup_policy="compact")))
    keys = ("segment.bytes", "retention.ms", "cleanup.policy", "min.insync.replicas", "nonsense")
    for version in range(1, 5):
        describe(ask, version, TOPIC, "t", *keys, include_synonyms=True)
    describe(ask, 4, TOPIC, "t", include_synonyms=True)
    describe(ask, 4, TOPIC, "t", "flush.ms", "segment.ms", "max.message.bytes")
    describe(ask, 4, TOPIC, "missing")
    describe(ask, 4, TOPIC, "bad name")
    describe(ask, 4, TOPIC, "")
    describe(ask, 4, 77, "t")
    broker_keys = ("num.partitions", "log.retention.ms", "log.retention.hours", "ssl.key.password")
    for version in range(1, 5):
        describe(ask, version, BROKER, "1", *broker_keys, include_synonyms=True)
    describe(ask, 4, BROKER, "1", "log.cleanup.policy", "offsets.topic.num.partitions", "nonsense")
    describe(ask, 4, BROKER, "")
    describe(ask, 4, BROKER, "9")
    describe(ask, 4, BROKER, "one")
    topic_changes(ask)
    broker_changes(ask)
    old = {"resource_type": TOPIC, "resource_name": "t", "configs": configs(flush_ms="7")}
    for version in range(3):
        ask("AlterConfigs", version, resources=[old])
    describe(ask, 4, TOPIC, "t", "flush.ms", "segment.bytes")
    for wrong in (
        {**old, "configs": configs(flush_mz="7")},
        {**old, "configs": configs(flush_ms=None)},
        {**old, "resource_name": "missing"},
        {**old, "resource_type": LOGGER, "resource_name": "1"},
    ):
        ask("AlterConfigs", 2, resources=[wrong])
    ask("AlterConfigs", 2, resources=[{**old, "configs": []}], validate_only=True)
    describe(ask, 4, TOPIC, "t", "flush.ms")


def topic_changes(ask: Ask) -> None:
    """IncrementalAlterConfigs of topics."""
    for version in range(2):
        alter(ask, TOPIC, "t", ("retention.ms", SET, str(1_000 + version)), version=version)
        describe(ask, 4, TOPIC, "t", "retention.ms", include_synonyms=True)
    alter(ask, TOPIC, "t", ("cleanup.policy", APPEND, "delete"))
    describe(ask, 4, TOPIC, "t", "cleanup.policy")
    alter(ask, TOPIC, "t", ("cleanup.policy", SUBTRACT, "compact"), ("segment.bytes", DELETE, None))
    describe(ask, 4, TOPIC, "t", "cleanup.policy", "segment.bytes")
    for change in (
        ("retention.ms", APPEND, "5"),
        ("retention.ms", SET, None),
        ("retention.ms", SET, "x"),
        ("retention.ms", SET, "-2"),
        ("retention.mz", SET, "5"),
        ("retention.mz", DELETE, None),
        ("cleanup.policy", SET, "shred"),
        ("min.compaction.lag.ms", SET, "9223372036854775807"),
        ("retention.ms", 9, "5"),
    ):
        alter(ask, TOPIC, "t", change)
    alter(ask, TOPIC, "t", ("retention.ms", SET, "5"), ("retention.ms", SET, "6"))
    alter(ask, TOPIC, "t", ("retention.ms", SET, "99"), validate_only=True)
    describe(ask, 4, TOPIC, "t", "retention.ms")
    alter(ask, TOPIC, "missing", ("retention.ms", SET, "5"))
    alter(ask, TOPIC, "", ("retention.ms", SET, "5"))
    alter(ask, 77, "t", ("retention.ms", SET, "5"))


def broker_changes(ask: Ask) -> None:
    """IncrementalAlterConfigs of one broker, and of all."""
    alter(ask, BROKER, "1", ("log.retention.ms", SET, "60000"))
    describe(ask, 4, BROKER, "1", "log.retention.ms", "log.retention.hours", include_synonyms=True)
    describe(ask, 4, TOPIC, "t", "retention.ms", "segment.ms", include_synonyms=True)
    alter(ask, BROKER, "", ("log.retention.ms", SET, "70000"), ("max.connections", SET, "500"))
    describe(ask, 4, BROKER, "1", "log.retention.ms", "max.connections", include_synonyms=True)
    describe(ask, 4, BROKER, "", include_synonyms=True)
    alter(ask, BROKER, "1", ("log.retention.ms", DELETE, None))
    describe(ask, 4, BROKER, "1", "log.retention.ms", include_synonyms=True)
    alter(ask, BROKER, "", ("log.retention.ms", DELETE, None), ("max.connections", DELETE, None))
    for name, change in (
        ("1", ("log.dirs", SET, "/a")),
        ("", ("num.partitions", SET, "7")),
        ("", ("listeners", SET, "PLAINTEXT://:1")),
        ("1", ("log.retention.ms", SET, "x")),
        ("1", ("log.segment.bytes", SET, "1")),
        ("1", ("log.cleaner.threads", APPEND, "1")),
        ("9", ("log.retention.ms", SET, "5")),
        ("one", ("log.retention.ms", SET, "5")),
    ):
        alter(ask, BROKER, name, change)


def group_configurations(ask: Ask) -> None:
    """DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources of groups."""
    describe(ask, 4, GROUP, "g", include_synonyms=True)
    describe(ask, 4, GROUP, "")
    session, interval = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
    assignments, nonsense = "consumer.assignment.interval.ms", "consumer.session.timeout"
    create(ask, topic("t"))
    ask("FindCoordinator", 6, key_type=0, coordinator_keys=["g"])

    def beat(epoch: int, **more: Any) -> dict[str, Any]:
        values = {"rebalance_timeout": -1, "subscribed_topic_names": None, "topic_partitions": None}
        who = {"group_id": "g", "member_id": "me", "member_epoch": epoch}
        return ask("ConsumerGroupHeartbeat", 1, **{**who, **values, **more})

    joins = {"rebalance_timeout": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    epoch = beat(0, **joins)["member_epoch"]
    alter(ask, GROUP, "g", (session, SET, "50000"), (interval, SET, "6000"))
    beat(epoch)
    beat(-1)
    for version in range(1, 5):
        describe(ask, version, GROUP, "g", session, interval, nonsense, include_synonyms=True)
    alter(ask, GROUP, "a/b c", (assignments, SET, "0"), version=0)
    describe(ask, 4, GROUP, "a/b c", assignments)
    for change in (
        *((session, SET, "44999"), (session, SET, "60001"), (session, SET, "x")),
        *((session, SET, None), (session, SET, "0"), (session, APPEND, "1")),
        *((interval, SET, "4999"), (interval, SET, "15001"), (interval, DELETE, None)),
        *((assignments, SET, "15001"), (assignments, SET, "-1"), (nonsense, SET, "50000")),
        *(("share.delivery.count.limit", SET, "1"), ("share.delivery.count.limit", SET, "11")),
        *(("share.isolation.level", SET, "serial"), ("streams.num.standby.replicas", SET, "3")),
        *(("share.record.lock.duration.ms", SET, "1000"), ("streams.session.timeout.ms", SET, "1")),
        ("share.auto.offset.reset", SET, "earliest"),
    ):
        alter(ask, GROUP, "g", change)
    alter(ask, GROUP, "", (session, SET, "50000"))
    alter(ask, GROUP, "g", (session, SET, "55000"), validate_only=True)
    describe(ask, 4, GROUP, "g", session, interval)
    ask("ListConfigResources", 1, resource_types=[GROUP])
    value = configs(consumer_session_timeout_ms="47000")
    replaced = {"resource_type": GROUP, "resource_name": "g", "configs": value}
    ask("AlterConfigs", 2, resources=[replaced])
    describe(ask, 4, GROUP, "g", session, "share.auto.offset.reset", include_synonyms=True)


# Data of partitions


def of(name: str, *partitions: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Partitions of one topic."""
    return [{"name": name, "topic": name, "partitions": partitions}]


def numbered(**topics: list[int]) -> list[dict[str, Any]]:
    """Partitions by their numbers."""
    return [{"name": name, "partition_indexes": numbers} for name, numbers in topics.items()]


def offsets(ask: Ask) -> None:
    """DeleteRecords, ListOffsets and OffsetForLeaderEpoch."""
    create(ask, topic("t", 2), topic("compacted", configs=configs(cleanup_policy="compact")))
    for _ in range(3):
        produce(ask, "t", 10)
    for version in range(3):
        wanted = of("t", {"partition_index": 0, "offset": 5 + version})
        ask("DeleteRecords", version, topics=wanted, timeout=TIMEOUT)
    for partition, offset in ((0, 3), (0, 31), (0, -2), (1, 0), (1, -1), (7, 0), (0, -1)):
        wanted = of("t", {"partition_index": partition, "offset": offset})
        ask("DeleteRecords", 2, topics=wanted, timeout=TIMEOUT)
    for name in ("missing", "compacted", "bad name"):
        wanted = of(name, {"partition_index": 0, "offset": 0})
        ask("DeleteRecords", 2, topics=wanted, timeout=TIMEOUT)
    produce(ask, "t", 10)
    for version in range(1, 8):
        for timestamp in (-1, -2, NOW, NOW + 5, NOW + 99):
            wanted = of(
                "t", {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}
            )
            ask("ListOffsets", version, replica_id=-1, topics=wanted)
    for timestamp in (-3, -4, -5, -6):
        wanted = of("t", {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp})
        ask("ListOffsets", 11, replica_id=-1, topics=wanted, timeout=TIMEOUT)
    end = of("t", {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1})
    listed = ask("ListOffsets", 7, replica_id=-1, topics=end)
    now = listed["topics"][0]["partitions"][0]["leader_epoch"]
    for name, partition, epoch in (
        ("t", 0, now + 7),
        ("t", 0, now),
        ("t", 7, -1),
        ("missing", 0, -1),
    ):
        wanted = of(
            name,
            {"partition_index": partition, "current_leader_epoch": epoch, "timestamp": -1},
        )
        ask("ListOffsets", 7, replica_id=-1, topics=wanted)
    for version in range(2, 5):
        for epoch, current in (
            (now, -1),
            (now, now),
            (now + 1, now),
            (now, now + 7),
            (-1, now),
        ):
            wanted = of(
                "t", {"partition": 0, "current_leader_epoch": current, "leader_epoch": epoch}
            )
            ask("OffsetForLeaderEpoch", version, replica_id=-1, topics=wanted)
    for name, partition in (("t", 7), ("missing", 0)):
        wanted = of(name, {"partition": partition, "current_leader_epoch": -1, "leader_epoch": 0})
        ask("OffsetForLeaderEpoch", 4, replica_id=-1, topics=wanted)


def producers(ask: Ask) -> None:
    """InitProducerId without transactions, sequence numbers, DescribeProducers."""
    create(ask, topic("t"))
    for version in range(6):
        ask("InitProducerId", version, transactional_id=None, transaction_timeout=60_000)
    got = ask(
        "InitProducerId",
        4,
        transactional_id=None,
        transaction_timeout=60_000,
        producer_id=-1,
        producer_epoch=-1,
    )
    id = got["producer_id"]
    ask(
        "InitProducerId",
        4,
        transactional_id=None,
        transaction_timeout=60_000,
        producer_id=id,
        producer_epoch=0,
    )
    ask("InitProducerId", 4, transactional_id="", transaction_timeout=60_000)
    for epoch, sequence in ((0, 0), (0, 0), (0, 5), (0, 9), (1, 0), (0, 5), (1, 7), (3, 0)):
        produce(ask, "t", 5, producer=(id, epoch, sequence))
    produce(ask, "t", 5, producer=(id + 7, 0, 3))
    create(ask, topic("compacted", configs=configs(cleanup_policy="compact")))
    produce(ask, "compacted", 5, without_key=(0, 3))
    produce(ask, "compacted", 5)
    asked = [
        {"name": "t", "partition_indexes": [0, 7]},
        {"name": "missing", "partition_indexes": [0]},
    ]
    ask("DescribeProducers", 0, topics=asked)


def cluster(ask: Ask) -> None:
    """Describe a cluster of one broker, and send requests that need a larger one."""
    create(ask, topic("t", 3), topic("u"))
    produce(ask, "t", 10)
    for version in range(3):
        ask("DescribeCluster", version, include_cluster_authorized_operations=False)
        ask("DescribeCluster", version, include_cluster_authorized_operations=True)
    ask("DescribeCluster", 1, endpoint_type=2)
    ask("DescribeCluster", 1, endpoint_type=9)
    ask("DescribeCluster", 2, endpoint_type=1, include_fenced_brokers=True)
    for limit, cursor in (
        (2000, None),
        (2, None),
        (2, {"topic_name": "t", "partition_index": 2}),
        (0, None),
        (2, {"topic_name": "t", "partition_index": -1}),
    ):
        wanted = [{"name": "t"}, {"name": "u"}, {"name": "missing"}]
        ask(
            "DescribeTopicPartitions",
            0,
            topics=wanted,
            response_partition_limit=limit,
            cursor=cursor,
        )
    ask("DescribeTopicPartitions", 0, topics=[], response_partition_limit=10, cursor=None)
    for broker in (77, -1):
        ask("UnregisterBroker", 0, broker_id=broker)
    ask(
        "DescribeTopicPartitions",
        0,
        topics=[{"name": "bad name"}],
        response_partition_limit=10,
        cursor=None,
    )
    for version in range(1, 6):
        wanted = [{"topic": "t", "partitions": [0, 1, 7]}, {"topic": "missing", "partitions": [0]}]
        ask("DescribeLogDirs", version, topics=wanted)
    ask("DescribeLogDirs", 4, topics=None)
    for version in range(1, 3):
        wanted = [{"name": "t", "partitions": [0]}, {"name": "missing", "partitions": [0]}]
        ask("AlterReplicaLogDirs", version, dirs=[{"path": "/nowhere", "topics": wanted}])
    elections(ask)
    security(ask)


def elections(ask: Ask) -> None:
    """ElectLeaders and reassignments, where there is one broker."""
    for version in range(3):
        wanted = [{"topic": "t", "partitions": [0, 7]}, {"topic": "missing", "partitions": [0]}]
        ask("ElectLeaders", version, election_type=0, topic_partitions=wanted, timeout=TIMEOUT)
    for type in (0, 1, 7):
        ask("ElectLeaders", 2, election_type=type, topic_partitions=None, timeout=TIMEOUT)
    wanted = [{"topic": "t", "partitions": [0]}]
    ask("ElectLeaders", 2, election_type=1, topic_partitions=wanted, timeout=TIMEOUT)
    for version in range(2):
        for name, replicas in (
            ("t", [1]),
            ("t", [9]),
            ("t", [1, 1]),
            ("t", []),
            ("t", [-1]),
            ("t", None),
            ("missing", [1]),
        ):
            moved = of(name, {"partition_index": 0, "replicas": replicas})
            ask("AlterPartitionReassignments", version, topics=moved, timeout=TIMEOUT)
    moved = of("t", {"partition_index": 7, "replicas": [1]})
    ask("AlterPartitionReassignments", 0, topics=moved, timeout=TIMEOUT)
    listed = [
        {"name": "t", "partition_indexes": [0, 7]},
        {"name": "missing", "partition_indexes": [0]},
    ]
    ask("ListPartitionReassignments", 0, topics=None, timeout=TIMEOUT)
    ask("ListPartitionReassignments", 0, topics=listed, timeout=TIMEOUT)


def security(ask: Ask) -> None:
    """Without an authorizer there are no ACLs."""
    anything = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    creation = {
        "resource_type": 2,
        "resource_name": "t",
        "resource_pattern_type": 3,
        "principal": "User:alice",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    for version in range(1, 4):
        ask("DescribeAcls", version, **anything)
        ask("CreateAcls", version, creations=[creation])
        ask("DeleteAcls", version, filters=[anything])
    ask("DescribeUserScramCredentials", 0, users=None)
    ask("DescribeUserScramCredentials", 0, users=[{"name": "alice"}])


def replicas(ask: Ask) -> None:
    """Requests to three brokers: placement, reassignment, election, min.insync.replicas."""
    strict = configs(min_insync_replicas="3")
    create(
        ask,
        topic("r", -1, -1, assignments=assigned([1, 2, 3], [2, 3, 1])),
        topic("s", -1, -1, assignments=assigned([1, 2])),
        topic("strict", -1, -1, assignments=assigned([1, 2]), configs=strict),
        topic("four", 1, 4),
        topic("uneven", -1, -1, assignments=assigned([1, 2], [3])),
    )
    ask("DescribeCluster", 2, include_fenced_brokers=True)
    produce(ask, "strict", 1)
    produce(ask, "strict", 1, acks=1)
    for name, target, change in (("s", [3, 1], True), ("s", [2, 3, 1], False), ("r", [3, 1], True)):
        moved = of(name, {"partition_index": 0, "replicas": target})
        more = {"allow_replication_factor_change": change, "timeout": TIMEOUT}
        ask("AlterPartitionReassignments", 1, topics=moved, **more)
    ask("ListPartitionReassignments", 0, topics=None, timeout=TIMEOUT)
    more = {"response_partition_limit": 100, "cursor": None}
    ask("DescribeTopicPartitions", 0, topics=[{"name": "r"}, {"name": "s"}], **more)
    wanted = [{"topic": "r", "partitions": [0, 1]}, {"topic": "s", "partitions": [0]}]
    for type in (0, 0, 1):
        ask("ElectLeaders", 2, election_type=type, topic_partitions=wanted, timeout=TIMEOUT)
    ask("ElectLeaders", 2, election_type=0, topic_partitions=None, timeout=TIMEOUT)
    ask("DescribeTopicPartitions", 0, topics=[{"name": "r"}, {"name": "s"}], **more)
    for count, where in ((4, [[1, 2], [2, 3]]), (5, [[1, 2]]), (5, [[1, 1]])):
        named = [{"broker_ids": one} for one in where]
        made = {"name": "r", "count": count, "assignments": named}
        ask("CreatePartitions", 3, topics=[made], timeout=TIMEOUT)
    ask("Metadata", 12, topics=[{"name": "r"}, {"name": "s"}], allow_auto_topic_creation=False)


OF_THREE: Mapping[str, Callable[[Ask], None]] = {"replicas": replicas, "roles": roles}
"""Scripts for three brokers."""

SCRIPTS: Mapping[str, Callable[[Ask], None]] = {
    "topics": topics,
    "configurations": configurations,
    "group_configurations": group_configurations,
    "quotas": quotas,
    "throttles": throttles,
    "offsets": offsets,
    "producers": producers,
    "cluster": cluster,
    "offsets_of_groups": offsets_of_groups,
    "classic_groups": classic_groups,
    "consumer_groups": consumer_groups,
    "fetches": fetches,
    "config_resources": config_resources,
    "features": features,
    "transactions": transactions,
    "reading": reading,
    "writing": writing,
    "describing": describing,
    "leaving": leaving,
    "transactions_of_brokers": transactions_of_brokers,
    "share_groups": share_groups,
    "share_sessions": share_sessions,
    "share_states": share_states,
    "share_offsets": share_offsets,
    "subscriptions": subscriptions,
    "telemetry": telemetry,
    "broker_loggers": broker_loggers,
    "quorum": quorum,
}
