"""A script of roles: what a leader, a follower, and a broker without a replica answer.

`at` names the broker that is asked.
"""

from typing import Any
from uuid import UUID

from tests.wire.asking import TIMEOUT, Ask, batch, create, topic

NOWHERE, LEADER, FOLLOWER = 1, 3, 2
CONSUMER, DEBUGGING = -1, -2


def roles(ask: Ask) -> None:
    """Data and administration at each broker, by each kind of replica id and leader epoch."""
    made = create(ask, topic("r", -1, -1, assignments=[_first(2, 3)]))
    _lead(ask)
    produced = {"acks": -1, "timeout": TIMEOUT, "topic_data": _data("r")}
    ask("Produce", 9, at=LEADER, patient=True, **produced)
    newest = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
    topics = [{"name": "r", "partitions": [newest]}]
    listed = ask("ListOffsets", 7, at=LEADER, replica_id=-1, topics=topics)
    epoch = listed["topics"][0]["partitions"][0]["leader_epoch"]
    old = UUID(made["topics"][0]["topic_id"])
    for at in (NOWHERE, FOLLOWER, LEADER):
        for replica_id in (CONSUMER, DEBUGGING):
            for current in (-1, epoch - 1, epoch, epoch + 1):
                _read(ask, at, replica_id, current, old)
        _write(ask, at, old)
        _administer(ask, at)
    ask("DeleteTopics", 6, topics=[{"name": "r"}], timeout=TIMEOUT)
    _without(ask, old)
    create(ask, topic("r", -1, -1, assignments=[_first(3, 2)]))
    ask("Produce", 9, at=LEADER, patient=True, **produced)
    _without(ask, old)


def _first(*replicas: int) -> dict[str, Any]:
    return {"partition_index": 0, "broker_ids": replicas}


def _lead(ask: Ask) -> None:
    """Let the other replica lead, so that an epoch is over."""
    moved = [{"name": "r", "partitions": [{"partition_index": 0, "replicas": [LEADER, FOLLOWER]}]}]
    ask("AlterPartitionReassignments", 0, topics=moved, timeout=TIMEOUT)
    wanted = [{"topic": "r", "partitions": [0]}]
    ask("ElectLeaders", 2, election_type=0, topic_partitions=wanted, timeout=TIMEOUT)


def _data(name: str | UUID) -> list[dict[str, Any]]:
    key = "topic_id" if isinstance(name, UUID) else "name"
    return [{key: name, "partition_data": [{"index": 0, "records": batch(1)}]}]


def _read(ask: Ask, at: int, replica_id: int, epoch: int, topic_id: UUID) -> None:
    one = {"partition_max_bytes": 1 << 20, "last_fetched_epoch": -1, "log_start_offset": -1}
    one |= {"partition": 0, "fetch_offset": 0, "current_leader_epoch": epoch}
    asked: dict[str, Any] = {"replica_id": replica_id, "max_wait": 0, "min_bytes": 0}
    asked["max_bytes"] = 1 << 20
    asked |= {"session_id": 0, "session_epoch": -1, "rack_id": "", "forgotten_topics_data": []}
    if replica_id != CONSUMER:
        asked["replica_state"] = {"replica_id": replica_id, "replica_epoch": -1}
    for version in (4, 9, 11, 13, 17) if epoch < 0 else (11, 17):
        named = {"topic": "r"} if version < 13 else {"topic_id": topic_id}
        ask("Fetch", version, at=at, topics=[{**named, "partitions": [one]}], **asked)
    end = {"partition_index": 0, "current_leader_epoch": epoch, "timestamp": -1}
    for version in (1, 2, 4, 11) if epoch < 0 else (4, 11):
        topics = [{"name": "r", "partitions": [end]}]
        ask("ListOffsets", version, at=at, replica_id=replica_id, topics=topics)
    of = {"partition": 0, "current_leader_epoch": epoch, "leader_epoch": 0}
    for version in range(2, 5):
        topics = [{"topic": "r", "partitions": [of]}]
        ask("OffsetForLeaderEpoch", version, at=at, replica_id=replica_id, topics=topics)


def _write(ask: Ask, at: int, topic_id: UUID) -> None:
    for version in (3, 9, 12):
        data = _data("r")
        ask("Produce", version, at=at, acks=-1, timeout=TIMEOUT, topic_data=data)
    ask("Produce", 13, at=at, acks=-1, timeout=TIMEOUT, topic_data=_data(topic_id))
    for version in range(3):
        for number in (0, 9):
            topics = [{"name": "r", "partitions": [{"partition_index": number, "offset": 0}]}]
            ask("DeleteRecords", version, at=at, topics=topics, timeout=TIMEOUT)
    topics = [{"name": "r", "partition_indexes": [0, 9]}]
    described = ask("DescribeProducers", 0, at=at, topics=topics)
    assert described["topics"]


def _administer(ask: Ask, at: int) -> None:
    """Requests that any broker forwards, and those that only one broker can answer."""
    more = {"timeout": TIMEOUT, "validate_only": True}
    create(ask, topic("r"), topic("s", 1, 4), topic("valid"), at=at, validate_only=True)
    parts = [{"name": "r", "count": 1, "assignments": None}]
    ask("CreatePartitions", 3, at=at, topics=parts, **more)
    ask("DeleteTopics", 6, at=at, topics=[{"name": "missing"}], timeout=TIMEOUT)
    wanted = [{"topic": "r", "partitions": [0, 9]}]
    ask("ElectLeaders", 2, at=at, election_type=0, topic_partitions=wanted, timeout=TIMEOUT)
    moved = [{"name": "r", "partitions": [{"partition_index": 0, "replicas": [9]}]}]
    ask("AlterPartitionReassignments", 0, at=at, topics=moved, timeout=TIMEOUT)
    for broker in (1, 2, 3):
        resource = {"resource_type": 4, "resource_name": str(broker)}
        keys = {"configuration_keys": ["num.partitions"]}
        ask("DescribeConfigs", 4, at=at, resources=[{**resource, **keys}])
    of = [{"topic": "r", "partitions": [0]}]
    ask("DescribeLogDirs", 4, at=at, topics=of)
    ask("DescribeCluster", 1, at=at, endpoint_type=1)


def _without(ask: Ask, old: UUID) -> None:
    """A topic that is gone, by its id; one of the same name may be there."""
    one = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    asked = {"max_wait": 0, "min_bytes": 0, "max_bytes": 1 << 20, "session_epoch": -1}
    for at in (NOWHERE, FOLLOWER, LEADER):
        for version in (13, 17):
            ask("Fetch", version, at=at, topics=[{"topic_id": old, "partitions": [one]}], **asked)
        ask("Produce", 13, at=at, acks=-1, timeout=TIMEOUT, topic_data=_data(old))
        topics = [{"name": None, "topic_id": old}]
        ask("Metadata", 12, at=at, topics=topics, allow_auto_topic_creation=False)
    ask("DeleteTopics", 6, topics=[{"name": None, "topic_id": old}], timeout=TIMEOUT)
