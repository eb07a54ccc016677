"""`fail` answers any API with an error, and its node hears of nothing."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from refimpl.api.table import APIS, Api
from refimpl.edge import BlockingCluster
from refimpl.wire.messages import load_response_schema, read_response, write_request
from tests.refimpl.edge.requests import BATCH
from tests.refimpl.edge.test_hostile import exchanged

ERROR = "CLUSTER_AUTHORIZATION_FAILED"
NAMES: dict[str, Any] = {"name": "t", "topic": "t", "group_id": "g", "groups": ["g"]}
ACL = {
    **{"resource_type": 2, "resource_name": "t", "principal": "User:u", "host": "*"},
    **{"operation": 2, "permission_type": 3},
}
FILTER = {"resource_type_filter": 2, "operation": 2, "permission_type": 3}
SCRAM = {
    **{"name": "u", "mechanism": 1, "iterations": 4096},
    **{"salt": b"salt", "salted_password": b"hashed"},
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[BlockingCluster]:
    with BlockingCluster(brokers=1, seed=1) as running:
        running.create_topic("t")
        yield running


def codes(message: Any) -> list[str]:
    """Every error code in a message."""
    found: list[str] = []
    if isinstance(message, tuple):
        return [code for one in message for code in codes(one)]  # pyright: ignore
    if is_dataclass(message):
        for one in fields(message):
            value = getattr(message, one.name)
            found += [value.name.upper()] if isinstance(value, ErrorCode) else codes(value)
    return found


def minimal(api: Api) -> dict[str, Any]:
    """A request about topic t, or about group g."""
    partition: dict[str, Any] = {"partition_index": 0, "partition": 0, "index": 0}
    partition |= {"partitions": [0], "records": BATCH}
    topic = {**NAMES, **partition, "partitions": [partition], "partition_data": [partition]}
    values: dict[str, Any] = {
        **NAMES,
        **FILTER,
        "acks": 1,
        "topics": [topic],
        "topic_data": [topic],
        "topic_partitions": [{"topic": "t", "partitions": [0]}],
        "session_epoch": -1,
        "key": "g",
        "coordinator_keys": ["g"],
        "group_ids": ["g"],
        "groups_names": ["g"],
        "topic_names": ["t"],
        "transactional_ids": ["id"],
        "v3_and_below_topics": [{"name": "t", "partitions": [0]}],
        "resources": [{"resource_type": 2, "resource_name": "t", "configs": []}],
        "creations": [ACL],
        "filters": [FILTER],
        "upsertions": [SCRAM],
        "markers": [
            {
                **{"producer_id": 1, "producer_epoch": 0, "transaction_result": True},
                "topics": [{"name": "t", "partition_indexes": [0]}],
            }
        ],
        "entries": [{"entity": [{"entity_type": "user", "entity_name": "u"}], "ops": []}],
    }
    match api.name:
        case "DescribeLogDirs":
            values["topics"] = [{"topic": "t", "partitions": [0]}]
        case "OffsetFetch":
            values["topics"] = [{"name": "t", "partition_indexes": [0]}]
        case "DescribeProducers":
            values["topics"] = [{"name": "t", "partition_indexes": [0]}]
        case "DeleteTopics":
            values["topics"] = []
        case "DescribeShareGroupOffsets":
            topics = [{"topic_name": "t", "partitions": [0]}]
            values["groups"] = [{"group_id": "g", "topics": topics}]
        case "DescribeTopicPartitions":
            values["topics"] = [{"name": "t"}]
        case "CreatePartitions":
            values["topics"] = [{"name": "t", "count": 2, "assignments": None}]
        case "CreateTopics":
            values["topics"] = [{"name": "new", "num_partitions": 1, "replication_factor": 1}]
        case "AlterReplicaLogDirs":
            values["dirs"] = [{"path": "/", "topics": [{"name": "t", "partitions": [0]}]}]
        case _:
            pass
    return values


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_every_api_fails(cluster: BlockingCluster, api: Api) -> None:
    version = 1 if api.name == "ElectLeaders" else api.first  # 0 has no place for this
    body = write_request(api.key, version, minimal(api))
    rule = cluster.fail(api.name, ERROR, count=1)
    port = int(cluster.bootstrap.partition(":")[2])
    answer = exchanged(port, api.key, version, body)
    assert answer is not None
    found = codes(read_response(api.key, version, answer))
    assert rule.met == 1
    assert set(found) == {ERROR}, (found, load_response_schema(api.key, version))
    assert set(cluster.controller.controller.metadata.topics) == {"t"}
