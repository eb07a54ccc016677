"""A right request of each API, and what has to be there before it: mutations begin with these."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol
from uuid import NAMESPACE_OID, UUID, uuid5

from attrs import define, field, frozen

from refimpl.records.consumer_protocol import Subscription
from refimpl.records.schema import INT16, write
from tests.wire.asking import batch

TIMEOUT = 5_000
SUBSCRIPTION = INT16.packing.pack(0) + write(Subscription(topics=("t",)), 0)
SESSION_MS = 1_000_000
RECORDS = 3


class Do(Protocol):
    """A request that has to succeed: asked until the broker is ready for it."""

    def __call__(self, api: str, version: int, /, **values: Any) -> dict[str, Any]:
        """The answer."""
        ...


@define
class Scene:
    """The topics, groups and producers that requests of one API in one version are about."""

    do: Do
    #: Names begin with it
    id: str
    number: int = 0
    known: dict[str, Any] = field(factory=dict[str, Any])

    @property
    def new(self) -> str:
        """A name that only this request has."""
        return f"{self.id}-{self.number}"

    def begin(self) -> None:
        """Make a topic of two partitions, the first of which has records."""
        made = self.do("CreateTopics", 7, topics=[_topic(self.id, 2)], timeout=TIMEOUT)
        self.known["topic_id"] = UUID(made["topics"][0]["topic_id"])
        data = [{"name": self.id, "partition_data": [{"index": 0, "records": batch(RECORDS)}]}]
        self.do("Produce", 9, acks=-1, timeout=TIMEOUT, topic_data=data)
        end = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
        topics = [{"name": self.id, "partitions": [end, {**end, "partition_index": 1}]}]
        listed = self.do("ListOffsets", 7, replica_id=-1, topics=topics)
        self.known["epoch"] = listed["topics"][0]["partitions"][0]["leader_epoch"]

    def named(self, **more: Any) -> list[dict[str, Any]]:
        """The topic, by every name that a version may have for it."""
        names = {"name": self.id, "topic": self.id, "topic_name": self.id}
        return [{**names, "topic_id": self.known["topic_id"], **more}]

    def commit(self, group: str) -> None:
        """Let a group without members have an offset."""
        offset = {"committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
        topics = [{"name": self.id, "partitions": [{"partition_index": 0, **offset}]}]
        more = {"generation_id_or_member_epoch": -1, "member_id": "", "retention_time": -1}
        self.do("OffsetCommit", 8, group_id=group, **more, topics=topics)

    def join(self, group: str) -> None:
        """Let a group have one member, which has its assignment."""
        asked = _joining(group)
        self.known["member"] = ""
        answer = self.do("JoinGroup", 5, **asked)
        member = answer["member_id"]
        if answer["error_code"] == "MEMBER_ID_REQUIRED":
            answer = self.do("JoinGroup", 5, **{**asked, "member_id": member})
        generation = answer["generation_id"]
        given = [{"member_id": member, "assignment": b"assigned"}]
        who = {"group_id": group, "generation_id": generation, "member_id": member}
        self.do("SyncGroup", 4, **who, group_instance_id=None, assignments=given)
        self.known |= {"member": member, "generation": generation}

    def begin_transaction(self, name: str) -> None:
        """Let a transactional id have a producer, and a partition in its transaction."""
        self.init(name)
        v3 = {"transactional_id": name, **self.producer, "topics": self.named(partitions=[0])}
        self.do("AddPartitionsToTxn", 3, **{f"v3_and_below_{key}": one for key, one in v3.items()})

    def init(self, name: str) -> None:
        """Let a transactional id have a producer."""
        of = self.do("InitProducerId", 4, transactional_id=name, transaction_timeout=60_000)
        names = ("producer_id", "producer_epoch")
        self.known["producer"] = {name: of[name] for name in names}

    @property
    def producer(self) -> dict[str, Any]:
        """Id and epoch of the last producer."""
        return self.known["producer"]


def _topic(name: str, partitions: int = 1) -> dict[str, Any]:
    return {"name": name, "num_partitions": partitions, "replication_factor": 1}


def _joining(group: str) -> dict[str, Any]:
    protocols = [{"name": "range", "metadata": SUBSCRIPTION}]
    times = {"session_timeout": SESSION_MS, "rebalance_timeout": SESSION_MS}
    who = {"group_id": group, "member_id": "", "group_instance_id": None, "reason": "why"}
    return {**who, **times, "protocol_type": "consumer", "protocols": protocols}


@frozen
class Base:
    """A right request: its fields by the names of all versions, and what it needs."""

    values: Callable[[Scene], Mapping[str, Any]]
    once: Callable[[Scene], None] = lambda scene: None
    before: Callable[[Scene], None] = lambda scene: None


def _instance(scene: Scene) -> UUID:
    """A client's instance, which only this request has."""
    return uuid5(NAMESPACE_OID, scene.new)


def _subscribe(scene: Scene) -> None:
    answer = scene.do("GetTelemetrySubscriptions", 0, client_instance_id=_instance(scene))
    scene.known["subscription_id"] = answer["subscription_id"]


def _push(scene: Scene) -> dict[str, Any]:
    known = {"client_instance_id": _instance(scene), "terminating": False}
    metrics = {"compression_type": 0, "metrics": b"metrics"}
    return {**known, "subscription_id": scene.known["subscription_id"], **metrics}


def _group(scene: Scene) -> dict[str, Any]:
    return {"group_id": scene.id}


def _member(scene: Scene) -> dict[str, Any]:
    known = scene.known
    who = {"generation_id": known["generation"], "member_id": known["member"]}
    return {**who, "group_instance_id": None}


def _fetch(scene: Scene) -> dict[str, Any]:
    one = {"partition": 0, "fetch_offset": 1, "partition_max_bytes": 1 << 20}
    one |= {"log_start_offset": -1, "current_leader_epoch": -1, "last_fetched_epoch": -1}
    asked = {"replica_id": -1, "max_wait": 0, "min_bytes": 0, "max_bytes": 1 << 20}
    forgotten = scene.named(partitions=[1])
    session = {"session_id": 0, "session_epoch": -1, "forgotten_topics_data": forgotten}
    state = {"replica_id": -1, "replica_epoch": -1}
    return {**asked, **session, "replica_state": state, "topics": scene.named(partitions=[one])}


def _offset_commit(scene: Scene) -> dict[str, Any]:
    offset = {"committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": "m"}
    who = {"generation_id_or_member_epoch": -1, "member_id": "", "retention_time": -1}
    topics = scene.named(partitions=[{"partition_index": 0, **offset}])
    return {**_group(scene), **who, "generation_id": -1, "topics": topics}


def _offset_fetch(scene: Scene) -> dict[str, Any]:
    topics = scene.named(partition_indexes=[0])
    group = {**_group(scene), "topics": topics}
    return {**group, "groups": [{**group, "member_id": None, "member_epoch": -1}]}


def _new_topic(scene: Scene) -> dict[str, Any]:
    config = {"name": "retention.ms", "value": "70000"}
    topics = [{**_topic(scene.new), "assignments": [], "configs": [config]}]
    return {"topics": topics, "timeout": TIMEOUT, "validate_only": False}


def _assigned_topic(scene: Scene) -> dict[str, Any]:
    placed = [{"partition_index": 0, "broker_ids": [1]}]
    one = {"name": scene.new, "num_partitions": -1, "replication_factor": -1}
    return {"topics": [{**one, "assignments": placed}], "timeout": TIMEOUT}


def _make_new(scene: Scene) -> None:
    made = scene.do("CreateTopics", 7, topics=[_topic(scene.new)], timeout=TIMEOUT)
    scene.known["new_id"] = UUID(made["topics"][0]["topic_id"])


def _delete_topic(scene: Scene) -> dict[str, Any]:
    topics = [{"name": scene.new, "topic_id": UUID(int=0)}]
    return {"topic_names": [scene.new], "topics": topics, "timeout": TIMEOUT}


def _delete_topic_id(scene: Scene) -> dict[str, Any]:
    topics = [{"name": None, "topic_id": scene.known["new_id"]}]
    return {"topic_names": [scene.new], "topics": topics, "timeout": TIMEOUT}


def _add_partitions(scene: Scene) -> dict[str, Any]:
    of = {"transactional_id": scene.id, **scene.producer}
    of["topics"] = scene.named(partitions=[0])
    old = {f"v3_and_below_{name}": value for name, value in of.items()}
    return {**old, "transactions": [{**of, "verify_only": False}]}


def _markers(scene: Scene) -> dict[str, Any]:
    marker: dict[str, Any] = {"producer_id": 99, "producer_epoch": 0, "transaction_result": True}
    marker |= {"coordinator_epoch": 0, "transaction_version": 1}
    return {"markers": [{**marker, "topics": scene.named(partition_indexes=[0])}]}


def _txn_offsets(scene: Scene) -> dict[str, Any]:
    of = {"transactional_id": scene.id, **scene.producer}
    return {**_offset_commit(scene), **of}


def _begin_offsets(scene: Scene) -> None:
    scene.init(scene.id)
    of = {"transactional_id": scene.id, **scene.producer}
    scene.do("AddOffsetsToTxn", 3, **of, group_id=scene.id)


def _acl(scene: Scene) -> dict[str, Any]:
    entry = {"principal": f"User:{scene.id}", "host": "*", "operation": 3, "permission_type": 3}
    return {"resource_type": 2, "resource_name": scene.id, "resource_pattern_type": 3, **entry}


def _make_acl(scene: Scene) -> None:
    scene.do("CreateAcls", 3, creations=[_acl(scene)])


def _acl_filter(scene: Scene) -> dict[str, Any]:
    of = {"resource_type_filter": 2, "resource_name_filter": scene.id, "pattern_type_filter": 3}
    who = {"principal_filter": f"User:{scene.id}", "host_filter": "*"}
    return {**of, **who, "operation": 3, "permission_type": 3}


def _configs(scene: Scene) -> dict[str, Any]:
    config = {"name": "retention.ms", "value": "80000", "config_operation": 0}
    one = {"resource_type": 2, "resource_name": scene.id, "configs": [config]}
    return {"resources": [one], "validate_only": False}


def _broker_configs(scene: Scene) -> dict[str, Any]:
    config = {"name": "log.cleaner.backoff.ms", "value": "200", "config_operation": 0}
    one = {"resource_type": 4, "resource_name": "1", "configs": [config]}
    return {"resources": [one], "validate_only": True}


def _described_configs(scene: Scene) -> dict[str, Any]:
    one = {"resource_type": 2, "resource_name": scene.id, "configuration_keys": ["retention.ms"]}
    return {"resources": [one], "include_synonyms": True}


def _more_partitions(scene: Scene) -> dict[str, Any]:
    placed = [{"broker_ids": [1]}]
    one = {"name": scene.id, "count": 3, "assignments": placed}
    return {"topics": [one], "timeout": TIMEOUT, "validate_only": True}


def _moved(scene: Scene) -> dict[str, Any]:
    partition = {"partition_index": 0, "replicas": [1]}
    more = {"timeout": TIMEOUT, "allow_replication_factor_change": True}
    return {"topics": scene.named(partitions=[partition]), **more}


def _quota(scene: Scene) -> dict[str, Any]:
    entity = [{"entity_type": "user", "entity_name": scene.id}]
    ops = [{"key": "consumer_byte_rate", "value": 1e9, "remove": False}]
    return {"entries": [{"entity": entity, "ops": ops}], "validate_only": False}


def _credentials(scene: Scene) -> dict[str, Any]:
    one = {"name": scene.id, "mechanism": 1, "iterations": 4096, "salt": b"salt"}
    gone = {"name": f"{scene.id}-gone", "mechanism": 2}
    return {"deletions": [gone], "upsertions": [{**one, "salted_password": b"p" * 32}]}


def _feature(_: Scene) -> dict[str, Any]:
    one = {"feature": "transaction.version", "max_version_level": 2, "upgrade_type": 1}
    update = {**one, "allow_downgrade": False}
    return {"timeout": TIMEOUT, "feature_updates": [update], "validate_only": True}


def _consumer(scene: Scene) -> dict[str, Any]:
    who = {"group_id": scene.new, "member_id": f"m{scene.new}", "member_epoch": 0}
    more = {"instance_id": None, "rack_id": None, "rebalance_timeout": 60_000}
    asked = {"subscribed_topic_names": [scene.id], "server_assignor": "uniform"}
    return {**who, **more, **asked, "subscribed_topic_regex": None, "topic_partitions": []}


def _join_consumer(scene: Scene) -> None:
    answer = scene.do("ConsumerGroupHeartbeat", 1, **_consumer(scene))
    scene.known["member_epoch"] = answer["member_epoch"]


def _consumer_again(scene: Scene) -> dict[str, Any]:
    more = {"rebalance_timeout": -1, "subscribed_topic_names": None, "server_assignor": None}
    epoch = {"member_epoch": scene.known["member_epoch"], "topic_partitions": None}
    return {**_consumer(scene), **more, **epoch}


def _share(scene: Scene) -> dict[str, Any]:
    who = {"group_id": scene.new, "member_id": f"m{scene.new}", "member_epoch": 0}
    return {**who, "rack_id": None, "subscribed_topic_names": [scene.id]}


SHARE_MEMBER = "AAAAAAAAAAAAAAAAAAAAAQ"


def _share_fetch(scene: Scene) -> dict[str, Any]:
    who = {"group_id": scene.id, "member_id": SHARE_MEMBER, "share_session_epoch": 1}
    limits = {"max_wait": 0, "min_bytes": 0, "max_bytes": 1 << 20, "max_records": 9}
    acknowledged = {"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]}
    one = {"partition_index": 0, "acknowledgement_batches": [acknowledged]}
    forgotten = scene.named(partitions=[1])
    topics = scene.named(partitions=[one])
    return {**who, **limits, "batch_size": 9, "topics": topics, "forgotten_topics_data": forgotten}


def _share_state(scene: Scene) -> dict[str, Any]:
    one: dict[str, Any] = {"partition": 0, "state_epoch": 1, "leader_epoch": 0, "start_offset": 0}
    states = {"first_offset": 0, "last_offset": 1, "delivery_state": 0, "delivery_count": 1}
    one |= {"delivery_complete_count": 0, "state_batches": [states]}
    return {"group_id": scene.id, "topics": scene.named(partitions=[one])}


def _make_share_state(scene: Scene) -> None:
    scene.do("InitializeShareGroupState", 0, **_share_state(scene))


def _share_group(scene: Scene) -> None:
    """Let a share group have had a member, and be empty."""
    asked = {**_share(scene), "group_id": scene.id, "member_id": SHARE_MEMBER}
    scene.do("ShareGroupHeartbeat", 1, **asked)
    leaving = {"member_epoch": -1, "subscribed_topic_names": None}
    scene.do("ShareGroupHeartbeat", 1, **{**asked, **leaving})


def _share_offsets(scene: Scene) -> dict[str, Any]:
    one = {"partition_index": 0, "start_offset": 0}
    return {**_group(scene), "topics": scene.named(partitions=[one])}


def _only(**values: Any) -> Callable[[Scene], dict[str, Any]]:
    return lambda scene: values


BASES: Mapping[str, tuple[Base, ...]] = {
    "Produce": (
        Base(
            lambda scene: {
                "transactional_id": None,
                "acks": -1,
                "timeout": TIMEOUT,
                "topic_data": scene.named(partition_data=[{"index": 0, "records": batch(1)}]),
            }
        ),
    ),
    "Fetch": (Base(_fetch),),
    "ListOffsets": (
        Base(
            lambda scene: {
                "replica_id": -1,
                "timeout": TIMEOUT,
                "topics": scene.named(
                    partitions=[{"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}]
                ),
            }
        ),
    ),
    "Metadata": (
        Base(
            lambda scene: {
                "topics": scene.named(topic_id=UUID(int=0)),
                "allow_auto_topic_creation": False,
            }
        ),
        Base(
            lambda scene: {
                "topics": scene.named(name=None) if scene.known["version"] > 9 else scene.named(),
                "allow_auto_topic_creation": False,
            }
        ),
    ),
    "OffsetCommit": (Base(_offset_commit),),
    "OffsetFetch": (Base(_offset_fetch, lambda scene: scene.commit(scene.id)),),
    "FindCoordinator": (
        Base(lambda scene: {"key": scene.id, "key_type": 0, "coordinator_keys": [scene.id]}),
    ),
    "JoinGroup": (Base(lambda scene: _joining(scene.new)),),
    "Heartbeat": (
        Base(lambda scene: {**_group(scene), **_member(scene)}, lambda scene: scene.join(scene.id)),
    ),
    "LeaveGroup": (
        Base(
            lambda scene: {
                "group_id": scene.new,
                "member_id": scene.known["member"],
                "members": [{"member_id": scene.known["member"], "reason": "why"}],
            },
            before=lambda scene: scene.join(scene.new),
        ),
    ),
    "SyncGroup": (
        Base(
            lambda scene: {
                **_group(scene),
                **_member(scene),
                "protocol_type": "consumer",
                "protocol_name": "range",
                "assignments": [{"member_id": scene.known["member"], "assignment": b"assigned"}],
            },
            lambda scene: scene.join(scene.id),
        ),
    ),
    "DescribeGroups": (
        Base(lambda scene: {"groups": [scene.id]}, lambda scene: scene.commit(scene.id)),
    ),
    "ListGroups": (
        Base(
            _only(states_filter=["Empty"], types_filter=["classic"]),
            lambda scene: scene.commit(scene.id),
        ),
    ),
    "SaslHandshake": (Base(_only(mechanism="PLAIN")),),
    "ApiVersions": (Base(_only(client_software_name="a", client_software_version="1")),),
    "CreateTopics": (Base(_new_topic), Base(_assigned_topic)),
    "DeleteTopics": (
        Base(_delete_topic, before=_make_new),
        Base(_delete_topic_id, before=_make_new),
    ),
    "DeleteRecords": (
        Base(
            lambda scene: {
                "topics": scene.named(partitions=[{"partition_index": 0, "offset": 1}]),
                "timeout": TIMEOUT,
            }
        ),
    ),
    "InitProducerId": (
        Base(
            lambda scene: {
                "transactional_id": scene.new,
                "transaction_timeout": 60_000,
                "producer_id": -1,
                "producer_epoch": -1,
            }
        ),
        Base(
            lambda scene: {
                "transactional_id": scene.new,
                "transaction_timeout": 60_000,
                **scene.producer,
            },
            before=lambda scene: scene.init(scene.new),
        ),
    ),
    "OffsetForLeaderEpoch": (
        Base(
            lambda scene: {
                "replica_id": -1,
                "topics": scene.named(
                    partitions=[
                        {
                            "partition": 0,
                            "current_leader_epoch": -1,
                            "leader_epoch": scene.known["epoch"],
                        }
                    ]
                ),
            }
        ),
    ),
    "AddPartitionsToTxn": (Base(_add_partitions, lambda scene: scene.init(scene.id)),),
    "AddOffsetsToTxn": (
        Base(
            lambda scene: {"transactional_id": scene.id, **scene.producer, "group_id": scene.id},
            lambda scene: scene.init(scene.id),
        ),
    ),
    "EndTxn": (
        Base(
            lambda scene: {"transactional_id": scene.new, **scene.producer, "committed": True},
            before=lambda scene: scene.begin_transaction(scene.new),
        ),
    ),
    "WriteTxnMarkers": (Base(_markers),),
    "TxnOffsetCommit": (Base(_txn_offsets, _begin_offsets),),
    "DescribeAcls": (Base(_acl_filter, _make_acl),),
    "CreateAcls": (Base(lambda scene: {"creations": [_acl(scene)]}),),
    "DeleteAcls": (Base(lambda scene: {"filters": [_acl_filter(scene)]}, before=_make_acl),),
    "DescribeConfigs": (Base(_described_configs),),
    "AlterConfigs": (Base(_configs),),
    "AlterReplicaLogDirs": (
        Base(lambda scene: {"dirs": [{"path": "/none", "topics": scene.named(partitions=[0])}]}),
    ),
    "DescribeLogDirs": (Base(lambda scene: {"topics": scene.named(partitions=[0])}),),
    "SaslAuthenticate": (Base(_only(auth_bytes=b"token")),),
    "CreatePartitions": (Base(_more_partitions),),
    "DeleteGroups": (
        Base(
            lambda scene: {"groups_names": [scene.new]},
            before=lambda scene: scene.commit(scene.new),
        ),
    ),
    "ElectLeaders": (
        Base(
            lambda scene: {
                "topic_partitions": scene.named(partitions=[0]),
                "timeout": TIMEOUT,
                "election_type": 0,
            }
        ),
    ),
    "IncrementalAlterConfigs": (Base(_configs), Base(_broker_configs)),
    "AlterPartitionReassignments": (Base(_moved),),
    "ListPartitionReassignments": (
        Base(lambda scene: {"timeout": TIMEOUT, "topics": scene.named(partition_indexes=[0])}),
    ),
    "OffsetDelete": (
        Base(
            lambda scene: {
                "group_id": scene.new,
                "topics": scene.named(partitions=[{"partition_index": 0}]),
            },
            before=lambda scene: scene.commit(scene.new),
        ),
    ),
    "DescribeClientQuotas": (
        Base(
            lambda scene: {
                "components": [{"entity_type": "user", "match_type": 0, "match": scene.id}],
                "strict": False,
            },
            lambda scene: (scene.do("AlterClientQuotas", 1, **_quota(scene)), None)[1],
        ),
    ),
    "AlterClientQuotas": (Base(_quota),),
    "DescribeUserScramCredentials": (Base(lambda scene: {"users": [{"name": scene.id}]}),),
    "AlterUserScramCredentials": (Base(_credentials),),
    "DescribeQuorum": (
        Base(
            lambda scene: {
                "topics": [
                    {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}
                ]
            }
        ),
    ),
    "UpdateFeatures": (Base(_feature),),
    "UnregisterBroker": (Base(lambda _: {"broker_id": 1_000_000}),),
    "DescribeCluster": (Base(_only(endpoint_type=1)),),
    "DescribeProducers": (Base(lambda scene: {"topics": scene.named(partition_indexes=[0])}),),
    "DescribeTransactions": (
        Base(lambda scene: {"transactional_ids": [scene.id]}, lambda scene: scene.init(scene.id)),
    ),
    "ListTransactions": (
        Base(
            lambda scene: {
                "state_filters": ["Empty"],
                "producer_id_filters": [scene.producer["producer_id"]],
                "duration_filter": -1,
                "transactional_id_pattern": None,
            },
            lambda scene: scene.init(scene.id),
        ),
    ),
    "ConsumerGroupHeartbeat": (Base(_consumer), Base(_consumer_again, before=_join_consumer)),
    "ConsumerGroupDescribe": (
        Base(
            lambda scene: {"group_ids": [scene.new]},
            lambda scene: _join_consumer(scene),
        ),
    ),
    "GetTelemetrySubscriptions": (Base(lambda scene: {"client_instance_id": _instance(scene)}),),
    "PushTelemetry": (Base(_push, before=_subscribe),),
    "ListConfigResources": (Base(_only(resource_types=[2])),),
    "DescribeTopicPartitions": (
        Base(
            lambda scene: {
                "topics": scene.named(),
                "response_partition_limit": 10,
                "cursor": {"topic_name": scene.id, "partition_index": 1},
            }
        ),
        Base(lambda scene: {"topics": scene.named(), "response_partition_limit": 10}),
    ),
    "ShareGroupHeartbeat": (Base(_share),),
    "ShareGroupDescribe": (Base(lambda scene: {"group_ids": [scene.id]}, _share_group),),
    "ShareFetch": (Base(_share_fetch),),
    "ShareAcknowledge": (Base(_share_fetch),),
    "InitializeShareGroupState": (Base(_share_state),),
    "ReadShareGroupState": (Base(_share_state, _make_share_state),),
    "WriteShareGroupState": (Base(_share_state, _make_share_state),),
    "DeleteShareGroupState": (Base(_share_state, before=_make_share_state),),
    "ReadShareGroupStateSummary": (Base(_share_state, _make_share_state),),
    "DescribeShareGroupOffsets": (
        Base(
            lambda scene: {
                "groups": [{"group_id": scene.id, "topics": scene.named(partitions=[0])}]
            },
            _share_group,
        ),
    ),
    "AlterShareGroupOffsets": (Base(_share_offsets, _share_group),),
    "DeleteShareGroupOffsets": (Base(_share_offsets, before=_share_group),),
}
