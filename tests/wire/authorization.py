"""Every API asked by a client with one permission at a time: what is refused, what is seen.

Kafka's outcomes are kept in `recorded/authorization.json`. An outcome is every refusal for want
of a permission with its place in the answer, the operations that the answer tells of, and how many
elements each list has.
"""

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from refimpl.api.table import APIS
from refimpl.security.acls import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType
from refimpl.security.authorizer import SUPPORTED_OPERATIONS
from refimpl.storage.format.batch import encode_batch
from refimpl.storage.format.record import Record
from refimpl.wire.errors import WireError
from tests.wire.client import Client

RECORDED = Path(__file__).parent / "recorded" / "authorization.json"
USERS = {"admin": "admin-secret", "alice": "alice-secret"}
ALICE = "User:alice"
QUIET_SECONDS = 60
NO_ID = b"\0" * 16
ENTRY = {"host": "*", "principal": ALICE}
BATCH = bytes(encode_batch([Record(0, 1_790_000_000_000, b"key", b"value")], base_offset=0))
RESOURCES = {
    ResourceType.TOPIC: "t",
    ResourceType.GROUP: "g",
    ResourceType.CLUSTER: CLUSTER_NAME,
    ResourceType.TRANSACTIONAL_ID: "x",
}
OPERATIONS: Mapping[ResourceType, tuple[Operation, ...]] = {
    **SUPPORTED_OPERATIONS,
    ResourceType.TRANSACTIONAL_ID: (Operation.DESCRIBE, Operation.WRITE),
}
Acl = tuple[ResourceType, str, PatternType, Operation, Permission]


def situations() -> Iterator[tuple[str, list[Acl]]]:
    """The permissions of alice, by a name."""
    allow, literal = Permission.ALLOW, PatternType.LITERAL
    yield "nothing", []
    for kind, name in RESOURCES.items():
        for operation in OPERATIONS[kind]:
            yield f"{kind.name} {operation.name}", [(kind, name, literal, operation, allow)]
    everything: list[Acl] = [
        (kind, "*" if kind is not ResourceType.CLUSTER else name, literal, Operation.ALL, allow)
        for kind, name in RESOURCES.items()
    ]
    yield "everything", everything
    topic, deny = ResourceType.TOPIC, Permission.DENY
    prefix: Acl = (topic, "", PatternType.PREFIXED, Operation.DESCRIBE, deny)
    yield "all but WRITE", [*everything, (topic, "t", literal, Operation.WRITE, deny)]
    prefix = (topic, "t", PatternType.PREFIXED, Operation.DESCRIBE, deny)
    yield "all but to DESCRIBE t*", [*everything, prefix]
    yield "READ of t*", [(topic, "t", PatternType.PREFIXED, Operation.READ, allow)]


def topics(**fields: Any) -> list[dict[str, Any]]:
    """Two topics of a request: one that is there, and one that is not."""
    return [{"name": name, **fields} for name in ("t", "absent")]


def requests(topic_id: bytes) -> Mapping[str, tuple[int, Mapping[str, Any]]]:
    """A request of each API; one that is granted changes nothing that another one tells."""
    group, transaction = {"group_id": "g"}, {"transactional_id": "x"}
    producer = {"producer_id": 99, "producer_epoch": 0}
    fetched = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1, "log_start_offset": -1}
    committed = {"partition_index": 0, "committed_offset": 0, "committed_metadata": ""}
    wait = {"timeout": 1000}
    by_id = [{"topic_id": topic_id, "partitions": [fetched]}]
    quota = {"entity": [{"entity_type": "user", "entity_name": "u"}], "ops": []}
    acl = {"resource_type_filter": 2, "resource_name_filter": "none", "pattern_type_filter": 3}
    acl |= {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}
    creation = {"resource_type": 2, "resource_name": "", "resource_pattern_type": 3}
    creation |= {**ENTRY, "operation": 3, "permission_type": 3}
    configs: list[dict[str, Any]] = [
        {"resource_type": kind, "resource_name": name, "configs": [], "configuration_keys": []}
        for kind, name in ((2, "t"), (4, "1"), (32, "g"))
    ]
    records = [{"index": 0, "records": BATCH}]
    marker: dict[str, Any] = {**producer, "transaction_result": True, "coordinator_epoch": 0}
    marker["topics"] = [{"name": "absent", "partition_indexes": [0]}]
    upsertion = {"name": "", "mechanism": 1, "iterations": 4096, "salt": b"s"}
    asks = {"include_topic_authorized_operations": True, "allow_auto_topic_creation": False}
    asks["include_cluster_authorized_operations"] = True
    listed = {"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}
    moved = [{"name": "absent", "partitions": [{"partition_index": 0, "replicas": [1]}]}]
    return {
        "Produce": (9, {"acks": -1, **wait, "topic_data": topics(partition_data=records)}),
        "Fetch": (13, {"max_wait": 0, "min_bytes": 0, "max_bytes": 1, "topics": by_id}),
        "ListOffsets": (7, {"replica_id": -1, "topics": topics(partitions=[listed])}),
        "Metadata": (9, {"topics": topics(), **asks}),
        "OffsetCommit": (8, {**group, "topics": topics(partitions=[committed])}),
        "OffsetFetch": (
            *(8,),
            {
                "groups": [
                    {**group, "topics": topics(partition_indexes=[0])},
                    {"group_id": "h", "topics": None},
                ]
            },
        ),
        "FindCoordinator": (4, {"key_type": 0, "coordinator_keys": ["g", "h"]}),
        "JoinGroup": (9, {**group, "session_timeout": 10_000, "protocol_type": "consumer"}),
        "Heartbeat": (4, {**group, "generation_id": 1, "member_id": "m"}),
        "LeaveGroup": (5, {**group, "members": []}),
        "SyncGroup": (4, {**group, "generation_id": 1, "member_id": "m"}),
        "DescribeGroups": (5, {"groups": ["g", "h"], "include_authorized_operations": True}),
        "ListGroups": (4, {}),
        "SaslHandshake": (1, {"mechanism": "PLAIN"}),
        "ApiVersions": (0, {}),
        "CreateTopics": (7, {"topics": [_new("t"), _new("absent")], **wait, "validate_only": True}),
        "DeleteTopics": (6, {"topics": [{"name": "absent"}, {"name": "other"}], **wait}),
        "DeleteRecords": (
            *(2,),
            {"topics": topics(partitions=[{"partition_index": 0, "offset": 0}]), **wait},
        ),
        "InitProducerId": (4, {**transaction, "transaction_timeout": 0}),
        "OffsetForLeaderEpoch": (
            *(4,),
            {
                "replica_id": -1,
                "topics": [
                    {"topic": name, "partitions": [{"partition": 0, "leader_epoch": 0}]}
                    for name in ("t", "absent")
                ],
            },
        ),
        "AddPartitionsToTxn": (
            *(3,),
            {
                "v3_and_below_transactional_id": "x",
                "v3_and_below_producer_id": 99,
                "v3_and_below_topics": topics(partitions=[0]),
            },
        ),
        "AddOffsetsToTxn": (3, {**transaction, **producer, **group}),
        "EndTxn": (3, {**transaction, **producer, "committed": True}),
        "WriteTxnMarkers": (1, {"markers": [marker]}),
        "TxnOffsetCommit": (
            *(3,),
            {**transaction, **producer, **group, "topics": topics(partitions=[committed])},
        ),
        "DescribeAcls": (3, acl),
        "CreateAcls": (3, {"creations": [creation]}),
        "DeleteAcls": (3, {"filters": [acl]}),
        "DescribeConfigs": (4, {"resources": configs}),
        "AlterConfigs": (2, {"resources": configs[:1], "validate_only": True}),
        "AlterReplicaLogDirs": (
            *(2,),
            {"dirs": [{"path": "/none", "topics": [{"name": "absent", "partitions": [0]}]}]},
        ),
        "DescribeLogDirs": (4, {"topics": []}),
        "SaslAuthenticate": (2, {"auth_bytes": b""}),
        "CreatePartitions": (
            *(3,),
            {"topics": [{"name": n, "count": 2} for n in ("t", "absent")], "validate_only": True}
            | wait,
        ),
        "DeleteGroups": (2, {"groups_names": ["h", "i"]}),
        "ElectLeaders": (
            *(2,),
            {"topic_partitions": [{"topic": "absent", "partitions": [0]}], **wait},
        ),
        "IncrementalAlterConfigs": (1, {"resources": configs, "validate_only": True}),
        "AlterPartitionReassignments": (0, {"topics": moved, **wait}),
        "ListPartitionReassignments": (0, {"topics": [], **wait}),
        "OffsetDelete": (0, {**group, "topics": topics(partitions=[{"partition_index": 0}])}),
        "DescribeClientQuotas": (1, {"components": [], "strict": False}),
        "AlterClientQuotas": (1, {"entries": [quota], "validate_only": True}),
        "DescribeUserScramCredentials": (0, {"users": [{"name": "u"}]}),
        "AlterUserScramCredentials": (0, {"deletions": [], "upsertions": [upsertion]}),
        "UpdateFeatures": (1, {"feature_updates": [], "validate_only": True, **wait}),
        "DescribeCluster": (1, {"include_cluster_authorized_operations": True}),
        "DescribeProducers": (0, {"topics": topics(partition_indexes=[0])}),
        "DescribeTransactions": (0, {"transactional_ids": ["x", "y"]}),
        "ListTransactions": (0, {"state_filters": ["Ongoing"]}),
        "ConsumerGroupHeartbeat": (
            *(0,),
            {**group, "member_id": "m", "member_epoch": 7, "subscribed_topic_names": None},
        ),
        "ConsumerGroupDescribe": (
            *(0,),
            {"group_ids": ["g", "h"], "include_authorized_operations": True},
        ),
        "ListConfigResources": (1, {"resource_types": [2]}),
        "DescribeTopicPartitions": (0, {"topics": topics(), "response_partition_limit": 9}),
        "DescribeQuorum": (1, {"topics": []}),
        "UnregisterBroker": (0, {"broker_id": 77}),
        **_share_requests(topic_id),
    }


def _share_requests(topic_id: bytes) -> Mapping[str, tuple[int, Mapping[str, Any]]]:
    """Those of share groups (KIP-932); what is granted is refused for other reasons."""
    group = {"group_id": "g"}
    member = {**group, "member_id": "m", "share_session_epoch": 7}
    acks = {"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]}
    partition = {"partition_index": 0, "acknowledgement_batches": [acks]}
    shared = [{"topic_id": topic_id, "partitions": [partition]}]
    wants = {"max_wait": 0, "min_bytes": 0, "max_bytes": 1, "max_records": 1, "batch_size": 1}

    def state(**of: Any) -> dict[str, Any]:
        one = {"topic_id": topic_id, "partitions": [{"partition": 0, **of}]}
        return {"group_id": "absent", "topics": [one]}

    written: dict[str, Any] = {
        "state_epoch": 0,
        "leader_epoch": 0,
        "start_offset": 0,
        "state_batches": [],
    }
    starts = [{"partition_index": 0, "start_offset": 0}]
    named = [{"topic_name": name, "partitions": [0]} for name in ("t", "absent")]
    begun = [{"topic_name": name, "partitions": starts} for name in ("t", "absent")]
    return {
        "ShareGroupHeartbeat": (
            *(1,),
            {**group, "member_id": "m", "member_epoch": 7, "subscribed_topic_names": None},
        ),
        "ShareGroupDescribe": (
            *(1,),
            {"group_ids": ["g", "h"], "include_authorized_operations": True},
        ),
        "ShareFetch": (1, {**member, **wants, "topics": shared, "forgotten_topics_data": []}),
        "ShareAcknowledge": (1, {**member, "topics": shared}),
        "InitializeShareGroupState": (0, state(state_epoch=-1, start_offset=0)),
        "ReadShareGroupState": (0, state(leader_epoch=0)),
        "WriteShareGroupState": (0, state(**written)),
        "DeleteShareGroupState": (0, state()),
        "ReadShareGroupStateSummary": (0, state(leader_epoch=0)),
        "DescribeShareGroupOffsets": (
            *(0,),
            {"groups": [{**group, "topics": named}, {"group_id": "h", "topics": None}]},
        ),
        "AlterShareGroupOffsets": (0, {**group, "topics": begun}),
        "DeleteShareGroupOffsets": (
            *(0,),
            {**group, "topics": [{"topic_name": name} for name in ("t", "absent")]},
        ),
    }


def _new(name: str) -> dict[str, Any]:
    return {"name": name, "num_partitions": 1, "replication_factor": 1}


def logged_in(port: int, user: str) -> Client:
    """A client that has logged in by PLAIN."""
    client = Client.connect(port)
    told = client.ask("SaslHandshake", 1, {"mechanism": "PLAIN"})
    assert told["error_code"] == "NONE", told
    token = f"\0{user}\0{USERS[user]}".encode()
    told = client.ask("SaslAuthenticate", 2, {"auth_bytes": token})
    assert told["error_code"] == "NONE", told
    return client


def matrix(port: int) -> dict[str, dict[str, Any]]:
    """The outcome of each API in each situation."""
    found: dict[str, dict[str, Any]] = {}
    with logged_in(port, "admin") as admin, logged_in(port, "alice") as alice:
        created = _until(lambda: _topic(admin))
        asked = requests(bytes.fromhex(created.replace("-", "")))
        _warm(admin)
        for name, acls in situations():
            _put(admin, acls)
            for api in APIS.values():
                if api.name.startswith("Sasl") or api.name not in asked:
                    continue  # who has logged in may do so again, which is another test
                version, values = asked[api.name]
                try:
                    outcome = list(_outcome(alice.ask(api.name, version, values)))
                except WireError:  # of a time -1, which kio does not read
                    outcome = ["answered"]
                except ConnectionError:
                    alice = logged_in(port, "alice")
                    outcome = ["disconnected"]
                found.setdefault(api.name, {})[name] = outcome
    return found


def _until(ready: Any) -> Any:
    until = time.monotonic() + QUIET_SECONDS
    while not (found := ready()):
        if time.monotonic() > until:
            raise TimeoutError("the broker does not do what it was asked to")
        time.sleep(0.01)
    return found


def _topic(admin: Client) -> str | None:
    """The id of topic t, once it is there and led."""
    admin.ask("CreateTopics", 7, {"topics": [_new("t")], "timeout": 10_000})
    wanted = {"topics": [{"name": "t"}], "allow_auto_topic_creation": False}
    (topic,) = admin.ask("Metadata", 12, wanted)["topics"]
    return topic["topic_id"] if topic["error_code"] == "NONE" and topic["partitions"] else None


def _warm(admin: Client) -> None:
    """Let the coordinators be there, and a group that alice may see or not."""
    for kind, key in ((0, "g"), (1, "x")):
        _until(lambda kind=kind, key=key: _coordinator(admin, kind, key))
    partition = {"partition_index": 0, "committed_offset": 0, "committed_metadata": ""}
    topic = {"name": "t", "partitions": [partition]}
    wanted = {"group_id": "g", "topics": [topic], "generation_id_or_member_epoch": -1}

    def committed() -> bool:
        (told,) = admin.ask("OffsetCommit", 8, wanted)["topics"][0]["partitions"]
        return told["error_code"] == "NONE"

    _until(committed)


def _coordinator(admin: Client, kind: int, key: str) -> bool:
    wanted = {"key_type": kind, "coordinator_keys": [key]}
    (found,) = admin.ask("FindCoordinator", 4, wanted)["coordinators"]
    return found["error_code"] == "NONE"


ANY_ACL = {
    **{"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1},
    **{"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1},
}


def _put(admin: Client, acls: list[Acl]) -> None:
    """Let these be all ACLs that there are, and return when the broker knows."""
    admin.ask("DeleteAcls", 3, {"filters": [ANY_ACL]})
    creations = [
        {
            **{"resource_type": kind.value, "resource_name": name},
            **{"resource_pattern_type": pattern.value, "operation": operation.value},
            **{"permission_type": permission.value, **ENTRY},
        }
        for kind, name, pattern, operation, permission in acls
    ]
    if creations:
        for one in admin.ask("CreateAcls", 3, {"creations": creations})["results"]:
            assert one["error_code"] == "NONE", one

    def known() -> bool:
        resources = admin.ask("DescribeAcls", 3, ANY_ACL)["resources"]
        found = [
            (one["resource_type"], one["resource_name"], one["pattern_type"], acl["operation"])
            for one in resources
            for acl in one["acls"]
        ]
        wanted = [(k.value, name, p.value, o.value) for k, name, p, o, _ in acls]
        return sorted(found) == sorted(wanted)

    _until(known)


OPERATION_BITS = ("authorized_operations",)
COUNTED = ("groups", "topics", "results", "responses", "transaction_states", "coordinators")


def _outcome(value: Any, path: str = "") -> Iterator[str]:
    """The refusals of an answer and where they are, in an order of their own."""
    if isinstance(value, dict):
        named = cast("Mapping[str, Any]", value)
        name = named.get("name") or named.get("group_id") or named.get("key")
        here = f"{path}[{name}]" if name else path
        for key in sorted(named):
            one = named[key]
            refused = isinstance(one, str) and one.endswith("AUTHORIZATION_FAILED")
            if refused or (key.endswith(OPERATION_BITS) and isinstance(one, int)):
                yield f"{here}.{key}={one}"
            elif isinstance(one, list):
                several = cast("list[Any]", one)
                if key in COUNTED and not path:
                    yield f"{key}:{len(several)}"
                inside = (_outcome(each, f"{here}.{key}") for each in several)
                yield from sorted(text for texts in inside for text in texts)
            elif isinstance(one, dict):
                yield from _outcome(one, f"{here}.{key}")


def kept() -> dict[str, dict[str, Any]]:
    """Kafka's outcomes."""
    return json.loads(RECORDED.read_text())


def keep(found: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the recording anew, an API and a situation a line."""
    lines = [
        f"{json.dumps(api)}: {{\n"
        + ",\n".join(f"  {json.dumps(name)}: {json.dumps(one)}" for name, one in of.items())
        + "\n}"
        for api, of in found.items()
    ]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def differences(theirs: Any, ours: Any) -> Iterator[str]:
    """Every entry in which two matrices differ."""
    for api, of in ours.items():
        for name, outcome in of.items():
            if theirs.get(api, {}).get(name) != outcome:
                yield f"{api}, {name}: Kafka {theirs.get(api, {}).get(name)}, ours {outcome}"
